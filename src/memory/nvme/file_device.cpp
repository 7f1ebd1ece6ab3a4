#include "memory/nvme/file_device.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/units.h"
#include "memory/nvme/block.h"

namespace ocm::memory::nvme {
namespace {

constexpr uint64_t kBounceBytes = kMiB;
static_assert(kBounceBytes % kBlockBytes == 0);

Status error_of(int error, const std::string& what) {
  const Code code = error == ENOENT                                       ? Code::kNotFound
                    : error == EEXIST || error == EBUSY                   ? Code::kExists
                    : error == EISDIR                                     ? Code::kInvalidArgument
                    : error == EACCES || error == EPERM || error == EROFS ? Code::kPermission
                    : error == ENOSPC || error == EDQUOT                  ? Code::kNoMemory
                                                                          : Code::kIo;
  return Status::from_errno(error, what).with_code(code);
}

}  // namespace

Result<std::unique_ptr<FileDevice>> FileDevice::make(const std::string& path, uint64_t bytes) {
  os::Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.is_open()) return error_of(errno, "making the pool " + path);
  auto made = [&]() -> Result<std::unique_ptr<FileDevice>> {
    int error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
    if (error == 0 && (::fsync(fd.get()) != 0 || ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0)) error = errno;
    if (error != 0) return error_of(error, "allocating " + format_bytes(bytes) + " for the pool " + path);
    return opened(std::move(fd), path, bytes);
  }();
  if (!made.is_ok()) ::unlink(path.c_str());
  return made;
}

Result<std::unique_ptr<FileDevice>> FileDevice::make_unnamed(const std::string& directory, uint64_t bytes) {
  os::Fd fd(::open(directory.c_str(), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600));
  if (!fd.is_open() && (errno == EOPNOTSUPP || errno == EISDIR)) {  // some file systems know no such file
    std::string name = directory + "/.oncilla-pool-XXXXXX";
    fd = os::Fd(::mkostemp(name.data(), O_CLOEXEC));
    if (fd.is_open()) ::unlink(name.c_str());
  }
  if (!fd.is_open()) return error_of(errno, "making a pool in " + directory);
  if (const int error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes)); error != 0)
    return error_of(error, "allocating " + format_bytes(bytes) + " for a pool in " + directory);
  return opened(std::move(fd), "in " + directory, bytes);
}

Result<std::unique_ptr<FileDevice>> FileDevice::opened(os::Fd fd, const std::string& path, uint64_t bytes) {
  std::unique_ptr<FileDevice> device(new FileDevice(std::move(fd), path, bytes / kBlockBytes * kBlockBytes));
  if (device->bounce_ == nullptr) return Status(Code::kNoMemory, "no memory for the pool's buffer");
  return device;
}

Result<std::unique_ptr<FileDevice>> FileDevice::open(const std::string& path, Access access) {
  // A pipe would wait for its other end. O_EXCL: a block device that is mounted, or part of another one, is busy.
  const int flags = O_CLOEXEC | O_NONBLOCK | O_EXCL | (access == Access::kRead ? O_RDONLY : O_RDWR);
  os::Fd fd(::open(path.c_str(), flags));
  if (!fd.is_open() && errno == EBUSY)
    return Status(Code::kExists, "the pool " + path + " is in use: it is mounted, or another program has it");
  if (!fd.is_open()) return error_of(errno, "opening the pool " + path);
  struct stat file {};
  if (::fstat(fd.get(), &file) != 0) return error_of(errno, "looking at the pool " + path);
  uint64_t bytes = static_cast<uint64_t>(std::max<off_t>(file.st_size, 0));
  if (S_ISBLK(file.st_mode)) {
    if (::ioctl(fd.get(), BLKGETSIZE64, &bytes) != 0) return error_of(errno, "asking the size of " + path);
  } else if (!S_ISREG(file.st_mode)) {
    return Status(Code::kInvalidArgument, "the pool " + path + " is neither a file nor a block device");
  }
  if (::flock(fd.get(), (access == Access::kRead ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
    return Status(Code::kExists,
                  "the pool " + path + " is in use by another process, such as a daemon; stop that first");
  }
  return opened(std::move(fd), path, bytes);
}

FileDevice::FileDevice(os::Fd fd, std::string path, uint64_t bytes)
    : fd_(std::move(fd)), path_(std::move(path)), bytes_(bytes) {
  bounce_ = make_buffer(kBounceBytes);
  const int flags = ::fcntl(fd_.get(), F_GETFL);
  direct_ = ::fcntl(fd_.get(), F_SETFL, flags | O_DIRECT) == 0;
  // Some take the flag, and refuse the first read.
  if (direct_ && bounce_ != nullptr && bytes_ >= kBlockBytes &&
      ::pread(fd_.get(), bounce_.get(), kBlockBytes, 0) < 0 && errno == EINVAL) {
    direct_ = ::fcntl(fd_.get(), F_SETFL, flags) != 0;
  }
}

Status FileDevice::failure(const char* what, int error, uint64_t offset) const {
  OCM_DASSERT(error > 0);
  return Status::from_errno(error, std::string(what) + " the pool " + path_ + " at " + std::to_string(offset))
      .with_code(Code::kIo);
}

Status FileDevice::check(uint64_t offset, uint64_t length) const {
  if (length <= bytes_ && offset <= bytes_ - length) return {};
  return Status(Code::kIo, "the pool " + path_ + " ends at " + std::to_string(bytes_));
}

Status FileDevice::read(uint64_t offset, std::span<std::byte> to) {
  OCM_DASSERT(offset % kBlockBytes == 0 && to.size() % kBlockBytes == 0);
  OCM_TRY(check(offset, to.size()));
  while (!to.empty()) {
    const size_t part = std::min<size_t>(to.size(), kBounceBytes);
    const ssize_t got = ::pread(fd_.get(), bounce_.get(), part, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = ENODATA;
    if (got <= 0) return failure("reading", errno, offset);
    std::memcpy(to.data(), bounce_.get(), static_cast<size_t>(got));
    to = to.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return {};
}

Status FileDevice::write(uint64_t offset, std::span<const std::byte> from) {
  OCM_DASSERT(offset % kBlockBytes == 0 && from.size() % kBlockBytes == 0);
  OCM_TRY(check(offset, from.size()));
  while (!from.empty()) {
    const size_t part = std::min<size_t>(from.size(), kBounceBytes);
    std::memcpy(bounce_.get(), from.data(), part);
    const ssize_t put = ::pwrite(fd_.get(), bounce_.get(), part, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put == 0) errno = ENOSPC;
    if (put <= 0) return failure("writing", errno, offset);
    from = from.subspan(static_cast<size_t>(put));
    offset += static_cast<uint64_t>(put);
  }
  return {};
}

Status FileDevice::flush() {
  OCM_TRY(flush_failed_);
  if (::fdatasync(fd_.get()) != 0) flush_failed_ = failure("flushing", errno, 0);
  return flush_failed_;
}

}  // namespace ocm::memory::nvme
