// nvme: pages in an unnamed file of a directory, so that the bytes, and the room that they take, end with the daemon.
#include "memory/entry.h"

#include <linux/magic.h>
#include <sys/statfs.h>

#include <algorithm>
#include <bit>
#include <new>

#include "base/log.h"
#include "base/units.h"
#include "memory/nvme/file_device.h"
#include "memory/nvme/queue.h"
#include "memory/nvme/scratch.h"

namespace ocm::memory::nvme {
namespace {

constexpr Kind kSelf = Kind::kNvme;
constexpr Setting kOwnSettings[] = {
    {kBytes.data(), Setting::Type::kBytes, 0, 0, GlobalAddress::kOffsetMask, false,
     "bytes of storage offered, such as 100GiB"},
    {"path", Setting::Type::kPath, 0, 0, 0, false, "directory for them, on the device to use", "/var/tmp"},
    {"page_bytes", Setting::Type::kBytes, 64 * kKiB, 4 * kKiB, 4 * kMiB, false,
     "what is read and written at once: a power of two"},
};
static_assert(std::all_of(std::begin(kOwnSettings), std::end(kOwnSettings),
                          [](const Setting& one) { return one.is_valid(); }));
constexpr const Setting& kOffered = kOwnSettings[0];
static_assert(kOffered.key == kBytes);
constexpr const Setting& kPath = kOwnSettings[1];
constexpr const Setting& kPageBytes = kOwnSettings[2];

/// Slots for those that go bad.
uint64_t spares(uint64_t pages) { return pages / 64 + 4; }

class NvmeBackend final : public KindBackend {
 public:
  /// Of a node that offers nothing.
  explicit NvmeBackend(uint64_t page_bytes) : page_bytes_(page_bytes) {}
  NvmeBackend(std::unique_ptr<FileDevice> device, std::unique_ptr<Queue> queue, uint32_t slots,
              uint64_t page_bytes)
      : page_bytes_(page_bytes),
        device_(std::move(device)),
        queue_(std::move(queue)),
        pool_(std::make_unique<ScratchPool>(*queue_, 0, slots, page_bytes)) {
    OCM_DASSERT(slots * page_bytes <= device_->bytes());
  }

  Kind kind() const override { return kSelf; }
  uint64_t page_bytes(const ExtentOptions&) const override { return page_bytes_; }
  Result<std::unique_ptr<Backing>> make(uint64_t bytes, const ExtentOptions&) override {
    if (pool_ == nullptr) return Status(Code::kUnsupported, "the node offers no memory of kind nvme");
    return pool_->make(bytes);
  }

 private:
  const uint64_t page_bytes_;
  // Each outlives those below it.
  const std::unique_ptr<FileDevice> device_;
  const std::unique_ptr<Queue> queue_;
  const std::unique_ptr<ScratchPool> pool_;
};

Result<std::unique_ptr<KindBackend>> make(const Settings& settings, const OfferOptions&) {
  const uint64_t page_bytes = settings.get(kSelf, kPageBytes);
  const uint64_t pages = (settings.get(kSelf, kOffered) + page_bytes - 1) / page_bytes;
  if (pages == 0) return std::unique_ptr<KindBackend>(std::make_unique<NvmeBackend>(page_bytes));
  const uint64_t slots = pages + spares(pages);
  if (slots >= ScratchPool::kSlotsMax)
    return Status(Code::kInvalidArgument, "[offer.nvme] bytes is " + format_bytes(pages * page_bytes) +
                                              "; with pages of " + format_bytes(page_bytes) + " at most " +
                                              format_bytes(ScratchPool::kSlotsMax / 65 * 64 * page_bytes));
  OCM_TRY_ASSIGN(auto device, FileDevice::make_unnamed(settings.text(kSelf, kPath), slots * page_bytes));
  OCM_TRY_ASSIGN(auto queue, Queue::open(*device));
  log::info("pool.nvme", {{"path", settings.text(kSelf, kPath)},
                          {"bytes", pages * page_bytes},
                          {"on_device", slots * page_bytes},
                          {"page_bytes", page_bytes},
                          {"requests_by", queue->way()},
                          {"past_the_cache", device->is_direct()}});
  try {
    return std::unique_ptr<KindBackend>(std::make_unique<NvmeBackend>(
        std::move(device), std::move(queue), static_cast<uint32_t>(slots), page_bytes));
  } catch (const std::bad_alloc&) {
    return Status(Code::kNoMemory, "no memory for the buffers of the pool of kind nvme");
  }
}

Status check_machine(const Settings& settings, std::vector<std::string>& warnings) {
  const uint64_t page_bytes = settings.get(kSelf, kPageBytes);
  if (!std::has_single_bit(page_bytes))
    return Status(Code::kInvalidArgument,
                  "[offer.nvme] page_bytes is " + std::to_string(page_bytes) + "; it must be a power of two");
  const uint64_t bytes = settings.get(kSelf, kOffered);
  if (bytes == 0) return {};
  const std::string path = settings.text(kSelf, kPath);
  struct statfs system {};
  if (::statfs(path.c_str(), &system) != 0)
    return Status(Code::kInvalidArgument,
                  "[offer.nvme] path: " + std::string(Status::from_errno(errno, path).message()));
  const uint64_t there = static_cast<uint64_t>(system.f_bavail) * static_cast<uint64_t>(system.f_frsize);
  const uint64_t pages = (bytes + page_bytes - 1) / page_bytes;
  const uint64_t taken = (pages + spares(pages)) * page_bytes;
  if (taken > there)
    return Status(Code::kInvalidArgument, "[offer.nvme] bytes is " + format_bytes(bytes) + ", which takes " +
                                              format_bytes(taken) + "; " + path + " has room for " +
                                              format_bytes(there));
  if (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC)
    warnings.push_back("[offer.nvme] path: " + path + " is in memory, not on a device");
  return {};
}

}  // namespace

extern const Entry kEntry;
constinit const Entry kEntry{
    .kind = kSelf,
    .traits = {.mapped = false, .replicas = false},
    .settings = kOwnSettings,
    .make = make,
    .check_machine = check_machine,
};

}  // namespace ocm::memory::nvme
