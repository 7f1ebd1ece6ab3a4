// `ocm demo`: a cluster on this machine, a gigabyte each way, every byte checked, and the rates.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/fabrics.h"
#include "base/ids.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/pattern.h"
#include "cli/progress.h"
#include "cli/rates.h"
#include "os/clock.h"
#include "tools/exit_code.h"
#include "tools/local_cluster.h"
#include "tools/output.h"
#include "tools/session.h"
#include "tools/signals.h"

namespace ocm::cli {
namespace {

constexpr uint64_t kPieceBytes = 32 * kMiB;   // what one put or get of the demo moves
constexpr uint64_t kRateNs = 100'000'000;     // how long each point of the table is measured
constexpr uint64_t kSlackBytes = 256 * kMiB;  // of each node's pool, for the table's own allocations

struct DemoOptions {
  uint64_t bytes = kGiB;
  uint32_t nodes = 3;
  bool keep = false;
};

/// The demo's cluster: stopped at the end, however the demo ends, unless it is kept.
class DemoCluster {
 public:
  static Result<DemoCluster> start(const DemoOptions& options) {
    const char* folder = getenv("TMPDIR");
    std::string directory =
        std::string(folder != nullptr && *folder == '/' ? folder : "/tmp") + "/oncilla-demo-XXXXXX";
    if (mkdtemp(directory.data()) == nullptr) return Status::from_errno(errno, "create " + directory);
    UpOptions up;
    up.directory = directory;
    up.nodes = options.nodes;
    const uint64_t stripes = std::max<uint64_t>(options.nodes - 1, 1);
    up.dram_bytes = (options.bytes / stripes / kMiB + 2) * kMiB + kSlackBytes;
    up.dies_with_parent = !options.keep;
    Result<ClusterRecord> record = start_cluster(up);
    if (!record.is_ok()) {
      std::error_code ignored;
      std::filesystem::remove(directory, ignored);
      return record.status();
    }
    return DemoCluster(std::move(record).value(), options.keep);
  }
  DemoCluster(DemoCluster&& other) noexcept : record_(std::move(other.record_)), keep_(other.keep_) {
    other.record_.nodes.clear();
  }
  DemoCluster& operator=(DemoCluster&&) = delete;
  ~DemoCluster() {
    if (record_.nodes.empty()) return;
    if (keep_ && !interrupted()) {
      printf("\nThe cluster stays: export OCM_SOCKET=%s; `ocm down --dir %s` stops it.\n", socket().c_str(),
             record_.directory.c_str());
      return;
    }
    const Result<int> stopped = stop_cluster(record_.directory);
    if (stopped.is_ok()) {
      printf("\nstopped the cluster and removed %s\n", record_.directory.c_str());
    } else {
      print_error(stopped.status().message());
    }
  }
  const std::string& socket() const { return record_.nodes.front().socket; }
  const std::string& directory() const { return record_.directory; }

 private:
  DemoCluster(ClusterRecord record, bool keep) : record_(std::move(record)), keep_(keep) {}
  ClusterRecord record_;
  bool keep_;
};

void title(const std::string& text) { printf("\n%s\n", colored(Color::kBold, text).c_str()); }

Status check_memory(uint64_t bytes) {
  std::ifstream file("/proc/meminfo");
  std::string key;
  uint64_t kib = 0;
  while (file >> key >> kib) {
    if (key == "MemAvailable:" && kib * kKiB < bytes + kSlackBytes) {
      return Status(Code::kNoMemory, "the demo wants " + format_bytes(bytes) +
                                         " of memory and this machine has " + format_bytes(kib * kKiB) +
                                         " to spare; give a smaller --bytes");
    }
    file.ignore(64, '\n');
  }
  return Status::ok();
}

void show_cluster(const std::vector<ocm_node_info>& nodes) {
  Table table({"NODE", "STATE", ">OFFERED", ">USED", ">PARTITION", "ROLE"});
  for (const ocm_node_info& node : nodes) {
    std::string role = node.coordinator ? "coordinator" : "";
    if (node.self) role += role.empty() ? "this session's" : ", this session's";
    table.add({node.name, state_text(node.state), format_bytes(node.pool_bytes[0]),
               format_bytes(node.used_bytes[0]), std::to_string(node.partition), role});
  }
  table.print();
}

Result<Allocation> allocate(ocm_session* session, const std::vector<ocm_node_info>& nodes, uint64_t bytes) {
  std::vector<const char*> others;
  for (const ocm_node_info& node : nodes) {
    if (!node.self || nodes.size() == 1) others.push_back(node.name);
  }
  ocm_allocation_options options = OCM_ALLOCATION_OPTIONS_INIT;
  options.layout = others.size() > 1 ? OCM_LAYOUT_STRIPED : OCM_LAYOUT_SINGLE;
  options.nodes = others.data();
  options.nodes_count = others.size();
  options.flags = OCM_ALLOCATION_DEDICATED;
  const uint64_t start = os::now_ns();
  ocm_allocation* made = nullptr;
  OCM_TRY(checked(ocm_allocation_create(session, bytes, &options, &made)));
  Allocation allocation(made);
  const uint64_t taken = os::now_ns() - start;
  title(format_bytes(bytes) + (others.size() > 1 ? " striped over the other nodes, in " : " allocated in ") +
        format_ns(static_cast<double>(taken)));
  ocm_allocation_info info{};
  info.size = sizeof(info);
  OCM_TRY(checked(ocm_allocation_query(made, &info)));
  Table table({"EXTENT ON", "GLOBAL ADDRESS", ">BYTES", "BY"});
  for (uint32_t i = 0; i < info.extents; ++i) {
    ocm_extent_info extent{};
    extent.size = sizeof(extent);
    OCM_TRY(checked(ocm_allocation_extent_query(made, i, &extent)));
    table.add({extent.node, GlobalAddress(extent.global_address).to_string(), format_bytes(extent.bytes),
               fabric_name(static_cast<Fabric>(extent.fabric))});
  }
  table.print();
  return allocation;
}

struct Moved {
  uint64_t put_ns = 0;
  uint64_t get_ns = 0;
  bool all_equal = true;
};

Status put_all(ocm_allocation* allocation, uint64_t bytes, uint64_t seed, Moved& moved) {
  std::vector<std::byte> buffer(std::min(bytes, kPieceBytes));
  Progress progress("put", bytes, Progress::Plain::kLines);
  for (uint64_t offset = 0; offset < bytes; offset += buffer.size()) {
    const std::span<std::byte> piece(buffer.data(), std::min<uint64_t>(buffer.size(), bytes - offset));
    fill_pattern(piece, offset, seed);
    Status status = check_interrupt();
    const uint64_t start = os::now_ns();
    if (status.is_ok()) status = checked(ocm_put(allocation, offset, piece.data(), piece.size()));
    if (!status.is_ok()) {
      progress.abandon();
      return status;
    }
    moved.put_ns += os::now_ns() - start;
    progress.update(offset + piece.size(), moved.put_ns);
  }
  progress.finish(moved.put_ns);
  return Status::ok();
}

/// Gets everything and compares each byte.
Status get_all(ocm_allocation* allocation, uint64_t bytes, uint64_t seed, Moved& moved) {
  std::vector<std::byte> buffer(std::min(bytes, kPieceBytes));
  Progress progress("get", bytes, Progress::Plain::kLines);
  for (uint64_t offset = 0; offset < bytes; offset += buffer.size()) {
    const std::span<std::byte> piece(buffer.data(), std::min<uint64_t>(buffer.size(), bytes - offset));
    std::fill(piece.begin(), piece.end(), std::byte{0xA5});
    Status status = check_interrupt();
    const uint64_t start = os::now_ns();
    if (status.is_ok()) status = checked(ocm_get(allocation, offset, piece.data(), piece.size()));
    if (!status.is_ok()) {
      progress.abandon();
      return status;
    }
    moved.get_ns += os::now_ns() - start;
    const size_t wrong = check_pattern(piece, offset, seed);
    if (wrong != piece.size()) {
      progress.abandon();
      moved.all_equal = false;
      return Status(Code::kInternal, "byte " + std::to_string(offset + wrong) +
                                         " differs from what was put; please report this");
    }
    progress.update(offset + piece.size(), moved.get_ns);
  }
  progress.finish(moved.get_ns);
  return Status::ok();
}

Status show_rates(ocm_session* session, uint64_t bytes, const Moved& moved) {
  title("Rates: one operation at a time, medians");
  const std::vector<uint64_t> sizes{64, 4 * kKiB, kMiB, kPieceBytes};
  std::vector<Rate> rates;
  auto append = [&](Result<std::vector<Rate>> more) -> Status {
    OCM_TRY(check_interrupt());
    OCM_TRY(more.status());
    rates.insert(rates.end(), more->begin(), more->end());
    return Status::ok();
  };
  OCM_TRY(append(measure_memcpy(sizes, kRateNs)));
  OCM_TRY(append(measure_raw(sizes, 2 * kRateNs)));
  for (const std::string& fabric : offered_fabrics()) {
    Result<std::vector<Rate>> measured = measure_fabric(session, fabric, sizes, kRateNs);
    if (measured.status().code() == Code::kUnsupported) continue;  // not of this cluster
    OCM_TRY(append(std::move(measured)));
  }
  print_rates(rates);
  auto rate = [&](uint64_t ns) {
    return format_rate(static_cast<double>(bytes) * 1e9 / static_cast<double>(std::max<uint64_t>(ns, 1)));
  };
  printf(
      "\n%s above, striped: put %s (which takes the memory's pages, as a first touch does), get %s.\n"
      "memcpy is the limit of shared memory; raw tcp, a bare send and recv loop with both sides spinning "
      "and\n"
      "the better of two buffer sizes, is the limit of what goes over sockets.\n",
      format_bytes(bytes).c_str(), rate(moved.put_ns).c_str(), rate(moved.get_ns).c_str());
  return Status::ok();
}

Status demo(const DemoOptions& asked) {
  DemoOptions options = asked;
  options.bytes = (options.bytes + 7) / 8 * 8;
  if (options.bytes == 0) return Status(Code::kInvalidArgument, "--bytes is 0; there is nothing to move");
  OCM_TRY(check_memory(options.bytes));
  title("A cluster of " + std::to_string(options.nodes) + " node" + (options.nodes == 1 ? "" : "s") +
        " on this machine");
  OCM_TRY_ASSIGN(const DemoCluster cluster, DemoCluster::start(options));
  OCM_TRY_ASSIGN(const Session session, open_session_at(cluster.socket()));
  OCM_TRY_ASSIGN(const auto nodes, list_nodes(session.get()));
  show_cluster(nodes);
  Moved moved;
  {
    OCM_TRY_ASSIGN(const Allocation allocation, allocate(session.get(), nodes, options.bytes));
    title("There and back, every byte checked");
    fflush(stdout);
    const uint64_t seed = os::now_ns();
    OCM_TRY(put_all(allocation.get(), options.bytes, seed, moved));
    OCM_TRY(get_all(allocation.get(), options.bytes, seed, moved));
    printf("%s: all %llu bytes came back as they were put\n", colored(Color::kGreen, "OK").c_str(),
           static_cast<unsigned long long>(options.bytes));
  }
  fflush(stdout);
  return show_rates(session.get(), options.bytes, moved);
}

}  // namespace

void add_demo(CommandLine& line) {
  auto options = std::make_shared<DemoOptions>();
  line.add("demo", "Start a cluster here, move a gigabyte each way, check it, show the rates, stop it")
      .bytes("--bytes", options->bytes, "How much to move each way")
      .number("-n,--nodes", options->nodes, 1, 16, "How many nodes")
      .flag("--keep", options->keep, "Leave the cluster running")
      .runs([options] {
        catch_interrupts();
        setvbuf(stdout, nullptr, _IOLBF, 0);  // in order with the progress on stderr
        const Status status = demo(*options);
        if (interrupted()) print_error("interrupted");
        return status.is_ok() ? kExitOk : fail(status);
      });
}

}  // namespace ocm::cli
