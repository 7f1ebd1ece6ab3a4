#include "cli/pool.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "tools/exit_code.h"
#include "tools/output.h"
#include "tools/signals.h"

namespace ocm::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CreateOptions {
  nvme::MakeOptions make;
  bool json = false;
};
struct DisownOptions {
  std::string path;
  bool json = false;
};

void print_made(const std::string& path, const nvme::Made& made) {
  const nvme::Geometry& geometry = made.geometry;
  const std::string page = format_bytes(geometry.slot_bytes);
  printf("%s: made the pool %s\n", printable(path).c_str(), pool_name(made.identity).c_str());
  printf("  room      %s, %s of %s\n", format_bytes(geometry.pages() * geometry.slot_bytes).c_str(),
         counted(geometry.pages(), "page").c_str(), page.c_str());
  printf("  takes     %s: also %s of metadata and %s\n", format_bytes(geometry.device_bytes).c_str(),
         format_bytes(geometry.metadata_bytes()).c_str(),
         counted(geometry.slots - geometry.pages(), "spare page").c_str());
  printf("  cluster   none yet; it becomes the cluster of the first daemon that opens it\n");
  struct stat file {};
  if (::stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode)) {
    printf("  owner     %s, who alone may open it; for a daemon that runs as another user: chown USER %s\n",
           user_name(file.st_uid).c_str(), printable(path).c_str());
  }
  printf("\nFor this node's oncillad.toml:\n\n%s", made.configuration.c_str());
}

int run_create(const CreateOptions& options) {
  catch_interrupts();  // a file is made in full, or not at all
  const auto made = nvme::make_pool(options.make);
  if (!made.is_ok() && interrupted()) {
    print_error("interrupted; no pool was made");
    return kExitInterrupted;
  }
  if (!made.is_ok()) return fail(made.status());
  const nvme::Geometry& geometry = made.value().geometry;
  if (!options.json) {
    print_made(options.make.path, made.value());
    return kExitOk;
  }
  put_json({{"path", options.make.path},
            {"pool", pool_name(made.value().identity)},
            {"bytes", made.value().offered_bytes},
            {"room_bytes", geometry.pages() * geometry.slot_bytes},
            {"page_bytes", geometry.slot_bytes},
            {"spare_pages", geometry.slots - geometry.pages()},
            {"metadata_bytes", geometry.metadata_bytes()},
            {"device_bytes", geometry.device_bytes},
            {"configuration", made.value().configuration}});
  return kExitOk;
}

int run_disown(const DisownOptions& options) {
  const auto device = nvme::FileDevice::open(options.path);
  if (!device.is_ok()) return fail(device.status());
  const auto before = nvme::Store::disown(*device.value());
  if (!before.is_ok()) return fail(before.status(), options.path);
  const nvme::Identity& identity = before.value();
  if (options.json) {
    put_json({{"path", options.path}, {"pool", pool_name(identity)}, {"cluster_before", identity.cluster}});
  } else if (identity.cluster.empty()) {
    printf("%s: the pool %s has no cluster\n", printable(options.path).c_str(), pool_name(identity).c_str());
  } else {
    printf("%s: the pool %s was of %s; it becomes the cluster of the next daemon that opens it\n",
           printable(options.path).c_str(), pool_name(identity).c_str(), owner_text(identity).c_str());
  }
  return kExitOk;
}

void add_create(Command& group) {
  auto options = std::make_shared<CreateOptions>();
  group.add("create", "Make a pool in a new file, or on a block device")
      .required_text("PATH", options->make.path, "The file, which must not exist, or the block device")
      .bytes("--bytes", options->make.bytes,
             "How much it is to hold, such as 100GiB; a block device is used whole")
      .bytes("--page-bytes", options->make.page_bytes, "What is read and written at once: a power of two")
      .flag("--force", options->make.force, "Replace what is on a block device")
      .flag("--json", options->json, "Print JSON")
      .completes("files")
      .runs([options] { return run_create(*options); });
}

void add_disown(Command& group) {
  auto options = std::make_shared<DisownOptions>();
  group.add("disown", "Let any cluster have a pool whose own cluster is gone")
      .required_text("PATH", options->path, "Its file or block device")
      .flag("--json", options->json, "Print JSON")
      .completes("files")
      .runs([options] { return run_disown(*options); });
}

}  // namespace

std::string pool_name(const nvme::Identity& identity) {
  std::array<char, 17> text{};
  snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(identity.pool));
  return text.data();
}

std::string owner_text(const nvme::Identity& identity) {
  constexpr size_t kShort = 16;
  if (identity.cluster.empty()) return "no cluster's yet";
  const bool is_long = identity.cluster.size() > kShort;
  return "the cluster " + printable(identity.cluster.substr(0, kShort)) + (is_long ? "..." : "");
}

std::string counted(uint64_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

void add_pool(CommandLine& line) {
  Command group = line.add("pool", "Make, verify and explain durable pools, without a daemon");
  add_create(group);
  add_pool_check(group);
  add_pool_explain(group);
  add_disown(group);
}

}  // namespace ocm::cli
