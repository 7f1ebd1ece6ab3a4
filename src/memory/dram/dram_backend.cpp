#include "memory/dram/dram_backend.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <string>

#include "os/fd_reserve.h"

namespace ocm::memory {
namespace {

/// A process has 128 TiB of addresses.
constexpr uint64_t kSharedFileAddressesMax = uint64_t{1} << 43;

class DramBacking final : public Backing {
 public:
  /// `ready`: null for what is never ready.
  DramBacking(ReadyFiles::File file, uint64_t bytes, bool core_dump, std::shared_ptr<ReadyFiles> ready)
      : fd_(std::move(file.fd)),
        bytes_(bytes),
        core_dump_(core_dump),
        ready_(std::move(ready)),
        mapping_(std::move(file.mapping)) {
    OCM_DASSERT(fd_.is_open());
    if (mapping_.is_mapped() && !core_dump_) mapping_.keep_from_core_dumps();
  }

  uint64_t bytes() const override { return bytes_; }

  Result<std::byte*> data() override {
    if (std::byte* mapped = data_.load(std::memory_order_acquire)) return mapped;
    const std::lock_guard lock(mutex_);
    if (std::byte* mapped = data_.load(std::memory_order_relaxed)) return mapped;
    if (!mapping_.is_mapped()) {
      OCM_TRY_ASSIGN(mapping_, os::Mapping::map(fd_.get(), bytes_, true));
      mapping_.prefer_huge_pages();
      if (!core_dump_) mapping_.keep_from_core_dumps();
    }
    data_.store(mapping_.data(), std::memory_order_release);
    used();
    return mapping_.data();
  }

  Result<os::Fd> share(Access access) override {
    used();
    if (access == Access::kRead) return os::reopen_read_only(fd_.get());
    os::Fd copy(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
    if (!copy.is_open()) return Status::from_errno(errno, "duplicating an extent's descriptor");
    return copy;
  }

  void discard(uint64_t offset, uint64_t bytes) override {
    (void)os::discard(fd_.get(), offset, bytes);  // else the pages go with the last mapping
  }

 private:
  void used() {
    if (ready_ && !used_.exchange(true, std::memory_order_relaxed)) ready_->want(bytes_);
  }

  const os::Fd fd_;
  const uint64_t bytes_;
  const bool core_dump_;
  const std::shared_ptr<ReadyFiles> ready_;
  std::atomic<bool> used_{false};
  std::mutex mutex_;  // guards mapping_
  os::Mapping mapping_;
  std::atomic<std::byte*> data_{nullptr};  // mapping_.data() once it is complete
};

/// Mapping the file once reserves its huge pages for good, so that a later touch by anyone finds them.
Result<os::Fd> make_huge(uint64_t bytes, const os::MemfdOptions& options) {
  OCM_TRY_ASSIGN(os::Fd fd, os::make_memfd("ocm-extent-huge", bytes, options));
  OCM_TRY(os::Mapping::map(fd.get(), bytes, true).status());
  return fd;
}

}  // namespace

uint64_t huge_page_bytes() { return os::number_in("/proc/meminfo", "Hugepagesize:").value_or(0) * 1024; }

DramBackend::DramBackend(DramConfig config)
    : config_(config),
      page_bytes_(static_cast<uint64_t>(::sysconf(_SC_PAGESIZE))),
      huge_page_bytes_(huge_page_bytes()),
      ready_(std::make_shared<ReadyFiles>(ReadyFiles::Options{
          .most_bytes = config.ready_bytes, .make = [numa_node = config.numa_node](uint64_t bytes) {
            Result<os::Fd> fd = os::make_memfd("ocm-extent", bytes, {.numa_node = numa_node});
            if (fd.is_ok() && !os::fd_is_for(fd->get(), os::FdUse::kExtent)) fd = Code::kNoFds;
            return fd;
          }})) {}

ExtentOptions DramBackend::completed(ExtentOptions options) const {
  options.hugepages |= config_.hugepages;
  options.populate |= config_.populate;
  return options;
}

uint64_t DramBackend::page_bytes(const ExtentOptions& options) const {
  const bool huge = options.hugepages && huge_page_bytes_ != 0;
  return huge ? huge_page_bytes_ : page_bytes_;
}

Result<std::unique_ptr<Backing>> DramBackend::make(uint64_t bytes, const ExtentOptions& options) {
  if (!options.own_file) return make_in_shared_file(bytes, options.populate);
  os::MemfdOptions memfd;
  memfd.hugepages = options.hugepages && huge_page_bytes_ != 0;
  memfd.populate = options.populate;
  memfd.numa_node = config_.numa_node;
  std::shared_ptr<ReadyFiles> ready = memfd.hugepages ? nullptr : ready_;
  ReadyFiles::File file = ready ? ready->take(bytes) : ReadyFiles::File{};
  if (!file.fd.is_open()) {
    Result<os::Fd> fd = make_file(bytes, memfd);
    const Code code = fd.status().code();
    if ((code == Code::kNoFds || code == Code::kNoMemory) && ready_->give_back())
      fd = make_file(bytes, memfd);
    if (!fd.is_ok()) return fd.status();
    file.fd = std::move(*fd);
  }
  return std::unique_ptr<Backing>(
      std::make_unique<DramBacking>(std::move(file), bytes, config_.core_dump, std::move(ready)));
}

Result<std::unique_ptr<Backing>> DramBackend::make_in_shared_file(uint64_t bytes, bool populate) {
  std::shared_ptr<SharedFile> file;
  {
    const std::lock_guard lock(mutex_);
    if (shared_file_ == nullptr) {
      // First-fit finds room for what is at most 256 pages long in log2(256) times what is used, or little more (Robson
      // 1977), whatever is freed in between.
      const uint64_t addresses = std::min(9 * round_up(config_.bytes), kSharedFileAddressesMax);
      OCM_TRY_ASSIGN(shared_file_, SharedFile::make({.bytes = addresses,
                                                     .numa_node = config_.numa_node,
                                                     .core_dump = config_.core_dump}));
    }
    file = shared_file_;
  }
  return file->cut(round_up(bytes), populate);
}

Result<os::Fd> DramBackend::make_file(uint64_t bytes, const os::MemfdOptions& options) {
  Result<os::Fd> fd = Code::kNoMemory;
  if (options.hugepages) fd = make_huge(bytes, options);
  os::MemfdOptions ordinary = options;
  ordinary.hugepages = false;
  if (!fd.is_ok()) fd = os::make_memfd("ocm-extent", bytes, ordinary);
  if (!fd.is_ok()) return fd.status();
  if (os::fd_is_for(fd->get(), os::FdUse::kExtent)) return fd;
  return Status(Code::kNoFds, "no file descriptor is left for another extent: the daemon's limit is " +
                                  std::to_string(os::fd_limit()) +
                                  "; raise it (LimitNOFILE), or free extents");
}

}  // namespace ocm::memory
