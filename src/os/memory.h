// memfds and mappings: the kernel keeps extents apart, zeroes them and takes them back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/status.h"
#include "os/fd.h"

namespace ocm::os {

/// How a memfd is backed.
struct MemfdOptions {
  bool hugepages = false;   // MFD_HUGETLB; kNoMemory if the node has too few
  bool populate = false;    // take every page now; kNoMemory rather than SIGBUS later
  int numa_node = -1;       // -1: the kernel's choice
  bool seal_later = false;  // seal_writes() follows; else nobody adds a seal any more
};

/// An anonymous file of `bytes` zeros, sealed against shrinking, growing and further seals, close-on-exec,
/// and readable and writable by its owner only.
/// Errors: kNoMemory, kNoFds, kIo.
Result<Fd> make_memfd(const char* name, uint64_t bytes, const MemfdOptions& options);

/// What the kernel does for shared memory by itself or for who asks: as /sys/kernel/mm/transparent_hugepage/shmem_enabled
/// says, such as "never"; empty where it knows none.
std::string shared_huge_pages();

/// From here on nobody can map or write the memfd (made with seal_later) anew for writing, nor seal it;
/// writable mappings that exist stay.
Status seal_writes(int fd);

/// Gives whole pages of the memfd back, also those that others map; their bytes are zeros again. False: they are as they
/// were.
bool discard(int fd, uint64_t offset, uint64_t bytes);

/// The same memfd opened anew for reading only: nobody who gets it can map it writable.
Result<Fd> reopen_read_only(int fd);

/// A MAP_SHARED mapping that unmaps itself.
class Mapping {
 public:
  Mapping() = default;
  /// Maps [0, bytes) of `fd`, rounded up to its pages (huge ones cannot be mapped or unmapped in part).
  /// Errors: kNoMemory, kPermission (fd is read-only), kIo.
  static Result<Mapping> map(int fd, uint64_t bytes, bool writable);
  /// Zeros of this process alone. Errors: kNoMemory.
  static Result<Mapping> anonymous(uint64_t bytes);
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        mapped_bytes_(std::exchange(other.mapped_bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapped_bytes_, other.mapped_bytes_);
    return *this;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  bool is_mapped() const { return data_ != nullptr; }
  /// The first touch takes 2 MiB at once where the kernel gives huge pages for shared memory to who asks (shmem_enabled
  /// is `advise`), which costs a twentieth; elsewhere it changes nothing. Nobody gives a part of such an extent back.
  void prefer_huge_pages();
  /// The first touch takes one system page, also where shared memory gets huge ones unasked (shmem_enabled is `always`): who
  /// gives parts of it back would have paid for all of one.
  void refuse_huge_pages() const;
  /// A core dump of this process does not contain the bytes.
  void keep_from_core_dumps();

 private:
  Mapping(std::byte* data, uint64_t bytes, uint64_t mapped_bytes)
      : data_(data), bytes_(bytes), mapped_bytes_(mapped_bytes) {
    OCM_DASSERT(data != nullptr && mapped_bytes != 0);
  }
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t mapped_bytes_ = 0;
};

}  // namespace ocm::os
