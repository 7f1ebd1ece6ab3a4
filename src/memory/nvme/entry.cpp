// nvme: pages on a device. Where `path` is a directory they are in an unnamed file there, so that the bytes, and the room
// that they take, end with the daemon; where it is a pool (`ocm pool create`) what is published of them outlives it.
#include "memory/entry.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/units.h"
#include "memory/nvme/durable.h"
#include "memory/nvme/file_device.h"
#include "memory/nvme/queue.h"
#include "memory/nvme/scratch.h"
#include "memory/nvme/store.h"

namespace ocm::memory::nvme {
namespace {

constexpr Kind kSelf = Kind::kNvme;
constexpr Setting kOwnSettings[] = {
    {kBytes.data(), Setting::Type::kBytes, 0, 0, GlobalAddress::kOffsetMask, false,
     "bytes of storage offered, such as 100GiB"},
    {"path", Setting::Type::kPath, 0, 0, 0, false,
     "directory for them on the device to use, or a pool that keeps them (ocm pool create)", "/var/tmp"},
    {"page_bytes", Setting::Type::kBytes, 64 * kKiB, 4 * kKiB, 4 * kMiB, false,
     "what is read and written at once: a power of two; a pool has its own"},
};
static_assert(std::all_of(std::begin(kOwnSettings), std::end(kOwnSettings),
                          [](const Setting& one) { return one.is_valid(); }));
constexpr const Setting& kOffered = kOwnSettings[0];
static_assert(kOffered.key == kBytes);
constexpr const Setting& kPath = kOwnSettings[1];
constexpr const Setting& kPageBytes = kOwnSettings[2];

/// Slots for those that go bad.
uint64_t spares(uint64_t pages) { return pages / 64 + 4; }

class NothingOffered final : public KindBackend {
 public:
  explicit NothingOffered(uint64_t page_bytes) : page_bytes_(page_bytes) {}

  Kind kind() const override { return kSelf; }
  uint64_t page_bytes(const ExtentOptions&) const override { return page_bytes_; }
  Result<std::unique_ptr<Backing>> make(uint64_t, const ExtentOptions&) override {
    return Status(Code::kUnsupported, "the node offers no memory of kind nvme");
  }

 private:
  const uint64_t page_bytes_;
};

/// What is on it ends with the daemon.
class ScratchBackend final : public KindBackend {
 public:
  ScratchBackend(std::unique_ptr<FileDevice> device, std::unique_ptr<Queue> queue, uint32_t slots,
                 uint64_t page_bytes)
      : device_(std::move(device)), queue_(std::move(queue)), pool_(*queue_, 0, slots, page_bytes) {
    OCM_DASSERT(slots * page_bytes <= device_->bytes());
  }

  Kind kind() const override { return kSelf; }
  uint64_t page_bytes(const ExtentOptions&) const override { return pool_.page_bytes(); }
  Result<std::unique_ptr<Backing>> make(uint64_t bytes, const ExtentOptions& options) override {
    if (options.durable) {
      return Status(
          Code::kUnsupported,
          "the node's memory of kind nvme ends with its daemon: [offer.nvme] path is a directory, and no "
          "pool (ocm pool create)");
    }
    return pool_.make(bytes);
  }

 private:
  // Each outlives those below it.
  const std::unique_ptr<FileDevice> device_;
  const std::unique_ptr<Queue> queue_;
  ScratchPool pool_;
};

/// What is kept on it is there in the next run.
class DurableBackend final : public KindBackend {
 public:
  DurableBackend(std::unique_ptr<FileDevice> device, std::unique_ptr<Queue> queue, uint64_t start,
                 std::unique_ptr<DurablePool> pool)
      : start_(start), device_(std::move(device)), queue_(std::move(queue)), pool_(std::move(pool)) {}

  Kind kind() const override { return kSelf; }
  uint64_t page_bytes(const ExtentOptions&) const override { return pool_->page_bytes(); }
  bool lasts() const override { return true; }
  Result<std::unique_ptr<Backing>> make(uint64_t bytes, const ExtentOptions& options) override {
    // In the pool an extent has one id for good; those of the daemon's table are of one run.
    const ExtentId id{GlobalAddress(start_), ++made_};
    OCM_TRY_ASSIGN(auto pages, pool_->make(id, bytes));
    return options.durable ? pool_->lasting(id, std::move(pages)) : std::move(pages);
  }
  Result<std::vector<Survivor>> survivors() override {
    std::vector<Survivor> out;
    for (DurablePool::Extent& extent : pool_->extents()) {
      OCM_TRY_ASSIGN(auto pages, pool_->backing_of(extent.id));
      out.push_back({std::move(extent.description), pool_->lasting(extent.id, std::move(pages))});
    }
    return out;
  }
  void promise(std::function<void(Status)> done) override { pool_->promise(std::move(done)); }

 private:
  const uint64_t start_;  // of the pool: no two runs make the same ids
  std::atomic<uint32_t> made_{0};
  // Each outlives those below it.
  const std::unique_ptr<FileDevice> device_;
  const std::unique_ptr<Queue> queue_;
  const std::unique_ptr<DurablePool> pool_;
};

void tell(const Settings& settings, const FileDevice& device, const Queue& queue, uint64_t bytes,
          uint64_t page_bytes, bool lasts) {
  log::info("pool.nvme", {{"path", settings.text(kSelf, kPath)},
                          {"bytes", bytes},
                          {"on_device", device.bytes()},
                          {"page_bytes", page_bytes},
                          {"lasts", lasts},
                          {"requests_by", queue.way()},
                          {"past_the_cache", device.is_direct()}});
}

Result<std::unique_ptr<KindBackend>> make_scratch(const Settings& settings) {
  const uint64_t page_bytes = settings.get(kSelf, kPageBytes);
  const uint64_t pages = (settings.get(kSelf, kOffered) + page_bytes - 1) / page_bytes;
  const uint64_t slots = pages + spares(pages);
  if (slots >= ScratchPool::kSlotsMax)
    return Status(Code::kInvalidArgument, "[offer.nvme] bytes is " + format_bytes(pages * page_bytes) +
                                              "; with pages of " + format_bytes(page_bytes) + " at most " +
                                              format_bytes(ScratchPool::kSlotsMax / 65 * 64 * page_bytes));
  OCM_TRY_ASSIGN(auto device, FileDevice::make_unnamed(settings.text(kSelf, kPath), slots * page_bytes));
  OCM_TRY_ASSIGN(auto queue, Queue::open(*device));
  tell(settings, *device, *queue, pages * page_bytes, page_bytes, false);
  return std::unique_ptr<KindBackend>(std::make_unique<ScratchBackend>(
      std::move(device), std::move(queue), static_cast<uint32_t>(slots), page_bytes));
}

Result<std::unique_ptr<KindBackend>> make_durable(const Settings& settings, const std::string& cluster) {
  const std::string path = settings.text(kSelf, kPath);
  const uint64_t bytes = settings.get(kSelf, kOffered);
  const auto of_pool = [&path](const Status& status) {
    return Status(status.code(), "[offer.nvme] path: " + path + ": " + std::string(status.message()));
  };
  OCM_TRY_ASSIGN(auto device, FileDevice::open(path));
  auto store = Store::open(*device, cluster);
  if (!store.is_ok()) return of_pool(store.status());
  const Geometry geometry = store.value()->geometry();
  const uint64_t room = geometry.pages() * geometry.slot_bytes;
  if (bytes > room) {
    return Status(Code::kInvalidArgument, "[offer.nvme] bytes is " + format_bytes(bytes) + "; the pool " +
                                              path + " has room for " + format_bytes(room) + " (" +
                                              std::to_string(room) + " bytes)");
  }
  const uint64_t start = store.value()->starts();
  const Recovery recovery = store.value()->recovery();
  OCM_TRY_ASSIGN(auto queue, Queue::open(*device));
  auto pool = DurablePool::open(*queue, std::move(store).value());
  if (!pool.is_ok()) return of_pool(pool.status());
  tell(settings, *device, *queue, bytes, geometry.slot_bytes, true);
  log::info("pool.nvme.recovered", {{"path", path},
                                    {"start", start},
                                    {"extents", pool.value()->extents().size()},
                                    {"pages", pool.value()->state().pages},
                                    {"groups", recovery.groups},
                                    {"torn_blocks", recovery.torn_blocks},
                                    {"ended_with_the_run", recovery.unnamed}});
  return std::unique_ptr<KindBackend>(
      std::make_unique<DurableBackend>(std::move(device), std::move(queue), start, std::move(pool).value()));
}

bool is_directory(const std::string& path) {
  struct stat file {};
  return ::stat(path.c_str(), &file) == 0 && S_ISDIR(file.st_mode);
}

Result<std::unique_ptr<KindBackend>> make(const Settings& settings, const OfferOptions& options) {
  if (settings.get(kSelf, kOffered) == 0)
    return std::unique_ptr<KindBackend>(std::make_unique<NothingOffered>(settings.get(kSelf, kPageBytes)));
  try {
    return is_directory(settings.text(kSelf, kPath)) ? make_scratch(settings)
                                                     : make_durable(settings, options.cluster);
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
  if (::statfs(path.c_str(), &system) != 0) {
    const int error = errno;
    const std::string why(Status::from_errno(error, path).message());
    return Status(Code::kInvalidArgument,
                  "[offer.nvme] path: " + why +
                      (error == ENOENT ? " (a directory, or a pool that `ocm pool create` makes)" : ""));
  }
  if (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC)
    warnings.push_back("[offer.nvme] path: " + path + " is in memory, not on a device");
  if (!is_directory(path)) return {};  // what it has room for it says as it is opened
  const uint64_t there = static_cast<uint64_t>(system.f_bavail) * static_cast<uint64_t>(system.f_frsize);
  const uint64_t pages = (bytes + page_bytes - 1) / page_bytes;
  const uint64_t taken = (pages + spares(pages)) * page_bytes;
  if (taken > there)
    return Status(Code::kInvalidArgument, "[offer.nvme] bytes is " + format_bytes(bytes) + ", which takes " +
                                              format_bytes(taken) + "; " + path + " has room for " +
                                              format_bytes(there));
  return {};
}

}  // namespace

extern const Entry kEntry;
constinit const Entry kEntry{
    .kind = kSelf,
    .traits = {.mapped = false, .replicas = false, .coherent = true},
    .settings = kOwnSettings,
    .make = make,
    .check_machine = check_machine,
};

}  // namespace ocm::memory::nvme
