// `ocm pool check PATH`: whether a durable pool is as it was written; of damage what it means, and what to do.
#include <stdio.h>

#include <vector>

#include "cli/pool.h"
#include "cli/progress.h"
#include "tools/exit_code.h"
#include "tools/output.h"
#include "tools/signals.h"

namespace ocm::cli {
namespace {

using Json = nlohmann::ordered_json;
using nvme::Part;

struct CheckOptions {
  std::string path;
  bool pages = false;
  bool json = false;
};

struct Finding {
  bool is_damage = true;  // else what any crash leaves
  std::string what, means, to_do;
};

struct Checked {
  std::optional<nvme::Inspection> found;
  std::optional<nvme::PagesChecked> pages;
  std::vector<Finding> findings;
  bool is_sound() const {
    for (const Finding& one : findings) {
      if (one.is_damage) return false;
    }
    return true;
  }
};

constexpr const char* kKeepACopy =
    "copy the file or device before anything else; if there is a replica or a backup of what it held, remove "
    "the "
    "pool and make a new one with `ocm pool create`";

/// No daemon has opened it: there is one checkpoint so far.
bool is_new(const nvme::Inspection& found) { return found.starts == 0; }

const char* text_of(const nvme::Inspection& found, Part part) {
  switch (part) {
    case Part::kWhole: return "whole";
    case Part::kUnfinished: return is_new(found) ? "empty" : "unfinished";
    case Part::kDamaged: return "damaged";
  }
  return "";
}

/// Of a pool that daemons refuse.
Finding refused(const Status& status) {
  Finding out;
  out.what = status.message();
  out.to_do = kKeepACopy;
  switch (status.code()) {
    case Code::kInvalidArgument:
      out.means = "it was cut, or has grown; daemons refuse it, and change nothing";
      out.to_do =
          "if it has grown, give it its former length again (truncate -s for a file): nothing is lost; if it "
          "was cut, the "
          "pages at its end are lost, and a copy of it is the only way back";
      break;
    case Code::kIo:
      out.means = "the device cannot be read there; what is on it is not known";
      out.to_do = "look at the device's own errors (dmesg, smartctl); copy what can be read, and replace it";
      break;
    default:
      out.means =
          "which page belongs to what cannot be known for certain: daemons refuse the pool, and leave it as "
          "it is";
      break;
  }
  return out;
}

void add_superblocks(const nvme::Inspection& found, std::vector<Finding>& out) {
  for (size_t which = 0; which < found.superblocks.size(); ++which) {
    if (found.superblocks[which] == Part::kWhole) continue;
    out.push_back({true, "superblock " + std::to_string(which) + " is damaged",
                   "the other one has all of it: nothing is lost, and daemons open the pool",
                   "start the daemon, which writes it again, and check again when it has stopped; if it is "
                   "damaged again, replace the device"});
  }
}

void add_checkpoints(const nvme::Inspection& found, std::vector<Finding>& out) {
  for (size_t which = 0; which < found.checkpoints.size(); ++which) {
    const std::string name = "checkpoint " + std::to_string(which);
    if (found.checkpoints[which] == Part::kDamaged) {
      out.push_back(
          {true, name + " is damaged",
           "a power failure while it was written leaves that, and then nothing is lost; otherwise the device "
           "has changed what it had stored, and what was written since the other checkpoint may be gone",
           "start the daemon, which writes it again, and check again with --pages when it has stopped; if "
           "there was no power failure, do not trust the device"});
    } else if (found.checkpoints[which] == Part::kUnfinished && !is_new(found)) {
      out.push_back(
          {false, name + " is unfinished",
           "it was being written when the daemon ended; the other one and the journal have everything",
           "nothing: the next start writes it again"});
    }
  }
}

void add_journal(const nvme::Inspection& found, std::vector<Finding>& out) {
  const uint64_t unreadable = found.recovery.unreadable_blocks;
  if (unreadable == 0) return;
  out.push_back(
      {true, counted(unreadable, "block") + " of the journal cannot be read",
       "if the last changes lay there they are lost, and the start of a daemon drops them; all before them "
       "are "
       "whole",
       "look at the device's own errors (dmesg, smartctl), and read it again before a daemon is started with "
       "it; copy the pool to another device if that fails"});
}

void add_pages(const nvme::PagesChecked& pages, std::vector<Finding>& out) {
  if (pages.bad.empty()) return;
  out.push_back({true,
                 std::to_string(pages.bad.size()) + " of " + counted(pages.pages, "page") + " in use " +
                     (pages.bad.size() == 1 ? "is" : "are") + " damaged",
                 "the bytes of these pages are lost: reading them fails until they are written whole; all "
                 "other pages are as they were written",
                 "write them again, or remove the names that have them; if there are more at each check, "
                 "replace the device"});
}

Result<nvme::PagesChecked> read_pages(nvme::Device& device, const nvme::Inspection& found) {
  const uint64_t bytes = found.contents.slots_taken() * found.geometry.slot_bytes;
  Progress progress("pages", bytes, Progress::Plain::kSilent);
  auto out = nvme::check_pages(device, found, [&](uint64_t done) {
    progress.update(done);
    return check_interrupt();
  });
  if (out.is_ok() && bytes != 0) {
    progress.finish();
  } else {
    progress.abandon();
  }
  return out;
}

Json json_of(const CheckOptions& options, const Checked& checked) {
  Json out{{"path", options.path}, {"sound", checked.is_sound()}};
  if (checked.found) {
    const nvme::Inspection& found = *checked.found;
    Json superblocks = Json::array(), checkpoints = Json::array();
    for (const Part part : found.superblocks) superblocks.push_back(text_of(found, part));
    for (const Part part : found.checkpoints) checkpoints.push_back(text_of(found, part));
    out.update({{"pool", pool_name(found.identity)},
                {"cluster", found.identity.cluster},
                {"superblocks", superblocks},
                {"checkpoints", checkpoints},
                {"journal_groups", found.recovery.groups},
                {"journal_torn_blocks", found.recovery.torn_blocks},
                {"journal_unreadable_blocks", found.recovery.unreadable_blocks},
                {"pages_in_use", found.contents.slots_taken()}});
  }
  Json findings = Json::array();
  for (const Finding& one : checked.findings)
    findings.push_back(
        {{"damage", one.is_damage}, {"what", one.what}, {"means", one.means}, {"do", one.to_do}});
  out["findings"] = findings;
  if (checked.pages) {
    Json bad = Json::array();
    for (const nvme::BadPage& one : checked.pages->bad) {
      bad.push_back({{"global_address", one.extent.address.to_string()},
                     {"generation", one.extent.generation},
                     {"page", one.page},
                     {"named", one.has_name},
                     {"why", one.why.message()}});
    }
    out["pages_read"] = checked.pages->pages;
    out["pages_damaged"] = bad;
  }
  return out;
}

void print_bad_pages(const std::vector<nvme::BadPage>& bad) {
  constexpr size_t kShown = 20;
  if (bad.empty()) return;
  puts("");
  Table table({"EXTENT", ">GENERATION", ">PAGE", "NAME", "WHY"});
  for (size_t i = 0; i < std::min(kShown, bad.size()); ++i) {
    table.add({bad[i].extent.address.to_string(), std::to_string(bad[i].extent.generation),
               std::to_string(bad[i].page), bad[i].has_name ? "yes" : "none",
               printable(bad[i].why.message())});
  }
  table.print();
  if (bad.size() > kShown) printf("and %zu more; --json lists all\n", bad.size() - kShown);
}

void print(const CheckOptions& options, const Checked& checked) {
  const std::string verdict =
      checked.is_sound() ? colored(Color::kGreen, "sound") : colored(Color::kRed, "damaged");
  printf("%s: %s\n", printable(options.path).c_str(), verdict.c_str());
  if (checked.found) {
    const nvme::Inspection& found = *checked.found;
    printf("  pool          %s, of %s\n", pool_name(found.identity).c_str(),
           found.identity.cluster.empty() ? "no cluster yet" : owner_text(found.identity).c_str());
    printf("  superblocks   %s, %s\n", text_of(found, found.superblocks[0]),
           text_of(found, found.superblocks[1]));
    printf("  checkpoints   %s, %s\n", text_of(found, found.checkpoints[0]),
           text_of(found, found.checkpoints[1]));
    printf("  journal       %s after the last checkpoint\n", counted(found.recovery.groups, "group").c_str());
    const std::string in_use = counted(found.contents.slots_taken(), "page") + " in use";
    printf("  pages         %s, %s\n", in_use.c_str(),
           checked.pages ? "all read" : "not read; --pages reads them");
  }
  for (const Finding& one : checked.findings) {
    printf("\n%s\n", colored(one.is_damage ? Color::kRed : Color::kYellow, printable(one.what)).c_str());
    printf("  means: %s\n  do: %s\n", one.means.c_str(), one.to_do.c_str());
  }
  if (checked.pages) print_bad_pages(checked.pages->bad);
}

int run_check(const CheckOptions& options) {
  catch_interrupts();
  const auto device = nvme::FileDevice::open(options.path, nvme::FileDevice::Access::kRead);
  if (!device.is_ok()) return fail(device.status());
  Checked checked;
  auto found = nvme::Store::inspect(*device.value());
  if (found.is_ok()) {
    checked.found.emplace(std::move(found).value());
    add_superblocks(*checked.found, checked.findings);
    add_checkpoints(*checked.found, checked.findings);
    add_journal(*checked.found, checked.findings);
    if (options.pages) {
      auto pages = read_pages(*device.value(), *checked.found);
      if (!pages.is_ok()) return fail(pages.status(), options.path);
      checked.pages.emplace(std::move(pages).value());
      add_pages(*checked.pages, checked.findings);
    }
  } else if (const Code code = found.status().code(); code == Code::kNotFound || code == Code::kUnsupported) {
    return fail(found.status(), options.path);
  } else {
    checked.findings.push_back(refused(found.status()));
  }
  if (options.json) {
    put_json(json_of(options, checked));
  } else {
    print(options, checked);
  }
  return checked.is_sound() ? kExitOk : kExitFailure;
}

}  // namespace

void add_pool_check(Command& group) {
  auto options = std::make_shared<CheckOptions>();
  group.add("check", "Verify a pool; changes nothing")
      .required_text("PATH", options->path, "Its file or block device")
      .flag("--pages", options->pages, "Also read every page in use, and compare its checksum")
      .flag("--json", options->json, "Print JSON")
      .completes("files")
      .runs([options] { return run_check(*options); });
}

}  // namespace ocm::cli
