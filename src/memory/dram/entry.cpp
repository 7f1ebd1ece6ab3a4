// dram: what every node offers.
#include "memory/entry.h"

#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "base/units.h"
#include "memory/dram/dram_backend.h"
#include "os/machine_memory.h"

namespace ocm::memory::dram {
namespace {

constexpr Kind kSelf = Kind::kDram;
constexpr uint64_t kNumaNodes = 64;  // what os::make_memfd() can bind to
constexpr Setting kOwnSettings[] = {
    {kBytes.data(), Setting::Type::kBytes, kGiB, 0, GlobalAddress::kOffsetMask, false,
     "bytes of DRAM offered, such as 4GiB"},
    {"ready", Setting::Type::kBytes, 0, 0, GlobalAddress::kOffsetMask, false,
     "limit on the bytes of extents that are prepared in advance, out of those offered"},
    {"hugepages", Setting::Type::kFlag, 0, 0, 1, false, "back extents with huge pages"},
    {"populate", Setting::Type::kFlag, 0, 0, 1, false, "take an extent's pages when it is made"},
    {"page_bytes", Setting::Type::kBytes, 64 * kKiB, 4 * kKiB, 4 * kMiB, false,
     "pages in which nodes cache coherent extents: a power of two"},
    {"numa_node", Setting::Type::kIndex, kNoIndex, 0, kNumaNodes - 1, false, "NUMA node of the extents"},
};
static_assert(std::all_of(std::begin(kOwnSettings), std::end(kOwnSettings),
                          [](const Setting& one) { return one.is_valid(); }));
constexpr const Setting& kOffered = kOwnSettings[0];
static_assert(kOffered.key == kBytes);
constexpr const Setting& kReady = kOwnSettings[1];
constexpr const Setting& kHugepages = kOwnSettings[2];
constexpr const Setting& kPopulate = kOwnSettings[3];
constexpr const Setting& kPageBytes = kOwnSettings[4];
constexpr const Setting& kNumaNode = kOwnSettings[5];

Result<std::unique_ptr<KindBackend>> make(const Settings& settings, const OfferOptions& options) {
  DramConfig config;
  config.bytes = settings.get(kSelf, kOffered);
  const uint64_t numa_node = settings.get(kSelf, kNumaNode);
  if (numa_node != kNoIndex) config.numa_node = static_cast<int>(numa_node);
  config.core_dump = options.core_dump;
  config.hugepages = settings.get(kSelf, kHugepages) != 0;
  config.populate = settings.get(kSelf, kPopulate) != 0;
  config.cached_page_bytes = settings.get(kSelf, kPageBytes);
  if (options.threads) config.ready_bytes = settings.get(kSelf, kReady);
  return std::unique_ptr<KindBackend>(std::make_unique<DramBackend>(config));
}

Status check_machine(const Settings& settings, std::vector<std::string>& warnings) {
  if (const uint64_t page_bytes = settings.get(kSelf, kPageBytes); !std::has_single_bit(page_bytes)) {
    return Status(Code::kInvalidArgument,
                  "[offer.dram] page_bytes is " + std::to_string(page_bytes) + "; it must be a power of two");
  }
  const uint64_t numa_node = settings.get(kSelf, kNumaNode);
  const std::string nodes = "/sys/devices/system/node";
  const std::string numa = nodes + "/node" + std::to_string(numa_node);
  if (numa_node != kNoIndex && ::access(nodes.c_str(), F_OK) == 0 && ::access(numa.c_str(), F_OK) != 0) {
    return Status(Code::kInvalidArgument,
                  "[offer.dram] numa_node is " + std::to_string(numa_node) + "; there is no " + numa);
  }
  struct sysinfo machine {};
  const uint64_t there =
      ::sysinfo(&machine) == 0 ? uint64_t{machine.totalram} * machine.mem_unit : ~uint64_t{0};
  const uint64_t bytes = settings.get(kSelf, kOffered);
  if (bytes > there) {
    return Status(Code::kInvalidArgument, "[offer.dram] bytes is " + std::to_string(bytes) +
                                              "; this machine has " + std::to_string(there) +
                                              " bytes of memory");
  }
  const uint64_t huge = os::number_in("/proc/sys/vm/nr_hugepages").value_or(0) * huge_page_bytes();
  if (settings.get(kSelf, kHugepages) != 0 && huge < bytes &&
      os::number_in("/proc/sys/vm/nr_overcommit_hugepages").value_or(0) == 0) {
    warnings.push_back("[offer.dram] hugepages: " + format_bytes(huge) + " of huge pages are reserved for " +
                       format_bytes(bytes) + ", so extents get ordinary pages: raise vm.nr_hugepages");
  }
  const std::string shared = os::shared_huge_pages();
  if (shared == "always" || shared == "within_size" || shared == "force") {
    warnings.push_back(
        "/sys/kernel/mm/transparent_hugepage/shmem_enabled is " + shared +
        ": each extent takes whole huge pages, which [offer.dram] bytes does not count; `advise` gives "
        "them only where they fit");
  }
  return {};
}

}  // namespace

extern const Entry kEntry;
constinit const Entry kEntry{
    .kind = kSelf,
    .traits = {.mapped = true, .replicas = true, .coherent = true},
    .settings = kOwnSettings,
    .make = make,
    .check_machine = check_machine,
};

}  // namespace ocm::memory::dram
