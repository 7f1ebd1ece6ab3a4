#include "memory/dram/shared_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "base/units.h"

namespace ocm::memory {
namespace {

constexpr uint64_t kUnitBytes = 4096;  // of lengths and offsets: a page

}  // namespace

/// The bytes of one extent.
class SharedFile::Range final : public Backing {
 public:
  Range(std::shared_ptr<SharedFile> file, uint64_t offset, uint64_t bytes)
      : file_(std::move(file)), offset_(offset), bytes_(bytes) {
    OCM_DASSERT(offset % kUnitBytes == 0 && bytes % kUnitBytes == 0 && bytes != 0);  // S1
  }
  ~Range() override { file_->give(offset_, bytes_); }

  uint64_t bytes() const override { return bytes_; }
  bool has_file() override { return false; }
  Result<std::byte*> data() override { return file_->mapping_.data() + offset_; }
  Result<os::Fd> share(Access) override {
    return Status(Code::kUnsupported, "the extent shares a file with others, which no program maps");
  }
  void discard(uint64_t offset, uint64_t bytes) override {
    OCM_DASSERT(offset <= bytes_ && bytes <= bytes_ - offset);
    file_->discard(offset_ + offset, bytes);
  }

 private:
  const std::shared_ptr<SharedFile> file_;
  const uint64_t offset_, bytes_;
};

Result<std::shared_ptr<SharedFile>> SharedFile::make(const Options& options) {
  OCM_DASSERT(options.bytes != 0 && options.bytes % kUnitBytes == 0);
  OCM_TRY_ASSIGN(os::Fd fd, os::make_memfd("ocm-extents", options.bytes, {.numa_node = options.numa_node}));
  OCM_TRY_ASSIGN(os::Mapping mapping, os::Mapping::map(fd.get(), options.bytes, true));
  if (!options.core_dump) mapping.keep_from_core_dumps();
  return std::shared_ptr<SharedFile>(new SharedFile(std::move(fd), std::move(mapping)));
}

SharedFile::SharedFile(os::Fd fd, os::Mapping mapping)
    : fd_(std::move(fd)), mapping_(std::move(mapping)), free_(0, mapping_.bytes()) {}

Result<std::unique_ptr<Backing>> SharedFile::cut(uint64_t bytes, bool populate) {
  std::optional<uint64_t> offset;
  {
    const std::lock_guard lock(mutex_);
    offset = free_.find(0, bytes);
    if (offset) free_.take(*offset, bytes);
  }
  if (!offset) {
    return Status(Code::kNoMemory,
                  "the file that extents share has no " + format_bytes(bytes) + " in one piece");
  }
  auto range = std::make_unique<Range>(shared_from_this(), *offset, bytes);
  if (populate && ::fallocate(fd_.get(), 0, static_cast<off_t>(*offset), static_cast<off_t>(bytes)) != 0) {
    return Status::from_errno(errno == ENOSPC ? ENOMEM : errno, "populating an extent");
  }
  return std::unique_ptr<Backing>(std::move(range));
}

void SharedFile::give(uint64_t offset, uint64_t bytes) {
  discard(offset, bytes);
  const std::lock_guard lock(mutex_);
  free_.give(offset, bytes);
}

void SharedFile::discard(uint64_t offset, uint64_t bytes) {
  if (!os::discard(fd_.get(), offset, bytes)) std::memset(mapping_.data() + offset, 0, bytes);  // S2
}

bool SharedFile::is_valid() const {
  const std::lock_guard lock(mutex_);
  return free_.is_valid() && free_.free_length() <= mapping_.bytes();
}

}  // namespace ocm::memory
