// DRAM: one memfd for each extent, so that isolation, zeroing and return to the system are the kernel's; or, where
// descriptors are few, one for many small extents (memory/dram/shared_file.h).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "memory/dram/ready_files.h"
#include "memory/dram/shared_file.h"
#include "memory/pool.h"

namespace ocm::memory {

struct DramConfig {
  uint64_t bytes = uint64_t{1} << 30;  // offered
  int numa_node = -1;                  // -1: the kernel's choice
  bool core_dump = false;              // a core dump of the home contains the extents that it maps
  bool hugepages = false;              // of every extent
  bool populate = false;               // every extent
  uint64_t cached_page_bytes = uint64_t{64} << 10;  // of coherent extents
  uint64_t ready_bytes = 0;  // at most, of extents made before anybody asks (memory/dram/ready_files.h)
};

/// The size of the default huge page of this host (/proc/meminfo), 0 if it has none.
uint64_t huge_page_bytes();

/// Huge pages are used where the node has enough of them and ordinary ones otherwise; the length is rounded
/// up to huge pages either way.
class DramBackend final : public KindBackend {
 public:
  explicit DramBackend(DramConfig config = {});
  Kind kind() const override { return Kind::kDram; }
  ExtentOptions completed(ExtentOptions options) const override;
  uint64_t page_bytes(const ExtentOptions& options) const override;
  uint64_t cached_page_bytes() const override { return config_.cached_page_bytes; }
  Result<std::unique_ptr<Backing>> make(uint64_t bytes, const ExtentOptions& options) override;
  uint64_t ready_bytes() const override { return ready_->ready_bytes(); }
  void keep_ready_within(uint64_t free_bytes) override { ready_->keep_within(free_bytes); }

 private:
  Result<std::unique_ptr<Backing>> make_in_shared_file(uint64_t bytes, bool populate);
  uint64_t round_up(uint64_t bytes) const { return (bytes + page_bytes_ - 1) / page_bytes_ * page_bytes_; }
  Result<os::Fd> make_file(uint64_t bytes, const os::MemfdOptions& options);

  const DramConfig config_;
  const uint64_t page_bytes_;
  const uint64_t huge_page_bytes_;
  std::mutex mutex_;
  std::shared_ptr<SharedFile> shared_file_;  // guarded by mutex_; null until an extent is in it
  const std::shared_ptr<ReadyFiles> ready_;  // extents want the next of them, and may outlive this
};

}  // namespace ocm::memory
