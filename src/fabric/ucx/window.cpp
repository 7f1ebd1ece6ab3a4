#include "fabric/ucx/window.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace ocm::fabric::ucx {
namespace {

constexpr uint64_t kWindowBytesMax = uint64_t{1} << 45;
constexpr uint64_t kWindowBytesMin = uint64_t{1} << 36;
/// A huge page, so that an alias has the alignment that its pages need.
constexpr uint64_t kAlignmentBytes = uint64_t{2} << 20;

uint64_t round_up(uint64_t bytes) { return (bytes + kAlignmentBytes - 1) & ~(kAlignmentBytes - 1); }

}  // namespace

AddressWindow::~AddressWindow() {
  if (base_ != nullptr) ::munmap(base_, size_);
}

Status AddressWindow::reserve() {
  for (uint64_t size = kWindowBytesMax; size >= kWindowBytesMin; size /= 2) {
    void* base = ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) continue;
    base_ = static_cast<std::byte*>(base);
    size_ = size;
    const uint64_t misaligned = reinterpret_cast<uintptr_t>(base) % kAlignmentBytes;
    next_ = misaligned == 0 ? 0 : kAlignmentBytes - misaligned;
    return Status::ok();
  }
  return Status(Code::kNoMemory, "ucx: no address space to register extents in (see ulimit -v)");
}

bool AddressWindow::is_valid() const {
  uint64_t end = 0;
  bool first = true;
  for (const auto& [offset, bytes] : sinks_) {
    if (bytes == 0 || (!first && offset <= end)) return false;  // neighbours are merged
    end = offset + bytes;
    first = false;
  }
  return end <= next_ && next_ <= size_;
}

Result<std::byte*> AddressWindow::alias(std::byte* data, uint64_t bytes) {
  OCM_ASSERT(base_ != nullptr && data != nullptr && bytes > 0);
  const uint64_t room = round_up(bytes);
  if (room < bytes || room > size_ - next_) {
    return Status(Code::kLimit, "ucx: every address of the window was used once; restart the daemon");
  }
  std::byte* target = base_ + next_;
  // An old length of 0 maps a shared mapping once more and leaves the first alone.
  // Not through libc: with UCX's memory hooks its mremap loses the address.
  if (::syscall(SYS_mremap, data, uint64_t{0}, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, target) == -1) {
    if (errno == ENOMEM) return Status::from_errno(errno, "ucx: mapping an extent");
    return Status(Code::kUnsupported, "ucx: only extents of shared memory can be registered");
  }
  // W2 for what lies between the extent's last page and the next alias.
  const uint64_t page_end = (bytes + 4095) & ~uint64_t{4095};
  if (room > page_end && !make_sink(target + page_end, room - page_end)) {
    make_sink(target, room);
    return Status(Code::kNoMemory, "ucx: mapping an extent");
  }
  next_ += room;
  return target;
}

bool AddressWindow::make_sink(std::byte* base, uint64_t bytes) {
  return ::mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                -1, 0) != MAP_FAILED;
}

void AddressWindow::retire(std::byte* alias, uint64_t bytes) {
  const uint64_t room = round_up(bytes);
  OCM_ASSERT(alias >= base_ && alias + room <= base_ + next_);
  // Replacing is atomic: a copy under way goes on in the sink. It can fail only at the limit of mappings;
  // then the pages stay until the window ends, which is safe.
  if (!make_sink(alias, room)) return;
  auto [at, inserted] = sinks_.emplace(static_cast<uint64_t>(alias - base_), room);
  OCM_ASSERT(inserted);
  if (auto after = std::next(at); after != sinks_.end() && at->first + at->second == after->first) {
    at->second += after->second;
    sinks_.erase(after);
  }
  if (at != sinks_.begin()) {
    auto before = std::prev(at);
    if (before->first + before->second == at->first) {
      before->second += at->second;
      sinks_.erase(at);
    }
  }
}

void AddressWindow::drain_sinks() {
  for (const auto& [offset, bytes] : sinks_) ::madvise(base_ + offset, bytes, MADV_DONTNEED);
}

}  // namespace ocm::fabric::ucx
