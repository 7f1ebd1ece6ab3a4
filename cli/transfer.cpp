#include "cli/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include "base/units.h"
#include "tools/session.h"
#include "tools/signals.h"

namespace ocm::cli {
namespace {

Status cannot_open(const std::string& path, int error) {
  const Code code = error == ENOENT ? Code::kNotFound : error == EACCES ? Code::kPermission : Code::kIo;
  return Status(code, path + ": " + strerror(error));
}

constexpr uint64_t kBufferBytes = 8 * kMiB;

/// Whether a file descriptor that does not block was not ready. Waits for it a while, or until a signal comes.
bool waited(int fd, short events) {
  if (errno != EAGAIN) return false;
  pollfd each{fd, events, 0};
  poll(&each, 1, 200);
  return true;
}

/// Reads until `bytes` or the end. Errors: kIo, kCancelled.
Result<uint64_t> read_full(int fd, std::byte* target, uint64_t bytes) {
  uint64_t done = 0;
  while (done < bytes) {
    OCM_TRY(check_interrupt());
    const ssize_t got = read(fd, target + done, bytes - done);
    if (got == 0) break;
    if (got < 0 && (errno == EINTR || waited(fd, POLLIN))) continue;
    if (got < 0) return Status::from_errno(errno, "read");
    done += static_cast<uint64_t>(got);
  }
  return done;
}

Status write_full(int fd, const std::byte* source, uint64_t bytes) {
  uint64_t done = 0;
  while (done < bytes) {
    OCM_TRY(check_interrupt());
    const ssize_t put = write(fd, source + done, bytes - done);
    if (put < 0 && (errno == EINTR || waited(fd, POLLOUT))) continue;
    if (put < 0) return Status::from_errno(errno, "write");
    done += static_cast<uint64_t>(put);
  }
  return Status::ok();
}

Status wait_for(Op& op) {
  if (op == nullptr) return Status::ok();
  const Status status = checked(ocm_op_wait(op.get(), OCM_WAIT_REMOTE, 0));
  op.reset();
  return status;
}

/// A pipe's bytes in an unnamed file of the temporary folder.
Result<Source> spool(int fd, const std::string& path, uint64_t most_bytes) {
  const char* folder = getenv("TMPDIR");
  if (folder == nullptr) folder = "/tmp";
  Source source{os::Fd(::open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600)), 0};
  if (!source.fd.is_open())
    return Status::from_errno(errno, std::string("make a temporary file in ") + folder);
  std::vector<std::byte> buffer(kMiB);
  while (true) {
    OCM_TRY_ASSIGN(const uint64_t got, read_full(fd, buffer.data(), buffer.size()));
    if (got == 0) break;
    source.bytes += got;
    if (source.bytes > most_bytes) {
      return Status(Code::kPoolFull, path + " has more than " + format_bytes(most_bytes) +
                                         ", all the memory that the cluster offers");
    }
    const Status kept = write_full(source.fd.get(), buffer.data(), got);
    if (!kept.is_ok() && kept.code() != Code::kCancelled)
      return Status(kept.code(), "keeping " + path + " in a file in " + folder +
                                     " (TMPDIR) until its length is known: " + std::string(kept.message()));
    OCM_TRY(kept);
  }
  lseek(source.fd.get(), 0, SEEK_SET);
  return source;
}

}  // namespace

Status put_from(int fd, ocm_allocation* allocation, uint64_t bytes, Progress& progress) {
  std::array<std::vector<std::byte>, 2> buffers;
  std::array<Op, 2> ops;  // after the buffers: destroyed first, so that no operation outlives its bytes
  for (auto& buffer : buffers) buffer.resize(std::min(bytes, kBufferBytes));
  uint64_t offset = 0;
  for (size_t turn = 0; offset < bytes; turn ^= 1) {
    OCM_TRY(wait_for(ops[turn]));
    const uint64_t wanted = std::min(bytes - offset, kBufferBytes);
    OCM_TRY_ASSIGN(const uint64_t got, read_full(fd, buffers[turn].data(), wanted));
    if (got != wanted) {
      return Status(Code::kIo,
                    "the file became shorter than " + std::to_string(bytes) + " bytes while it was read");
    }
    ocm_op* op = nullptr;
    OCM_TRY(checked(ocm_put_start(allocation, offset, buffers[turn].data(), wanted, &op)));
    ops[turn].reset(op);
    offset += wanted;
    progress.update(offset);
  }
  for (Op& op : ops) OCM_TRY(wait_for(op));
  std::byte beyond{};
  OCM_TRY_ASSIGN(const uint64_t more, read_full(fd, &beyond, 1));
  if (more != 0) {
    return Status(Code::kIo,
                  "the file became longer than " + std::to_string(bytes) + " bytes while it was read");
  }
  return Status::ok();
}

Status get_to(int fd, ocm_allocation* allocation, uint64_t bytes, Progress& progress) {
  std::array<std::vector<std::byte>, 2> buffers;
  std::array<Op, 2> ops;
  for (auto& buffer : buffers) buffer.resize(std::min(bytes, kBufferBytes));
  uint64_t started = 0, written = 0;
  auto start = [&](size_t turn) -> Status {
    const uint64_t wanted = std::min(bytes - started, kBufferBytes);
    if (wanted == 0) return Status::ok();
    ocm_op* op = nullptr;
    OCM_TRY(checked(ocm_get_start(allocation, started, buffers[turn].data(), wanted, &op)));
    ops[turn].reset(op);
    started += wanted;
    return Status::ok();
  };
  OCM_TRY(start(0));
  for (size_t turn = 0; written < bytes; turn ^= 1) {
    const uint64_t ready = started - written;
    OCM_TRY(wait_for(ops[turn]));
    OCM_TRY(start(turn ^ 1));
    OCM_TRY(write_full(fd, buffers[turn].data(), ready));
    written += ready;
    progress.update(written);
  }
  return Status::ok();
}

Result<Source> open_source(const std::string& path, uint64_t most_bytes) {
  Source source{os::Fd(path == "-" ? dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)), 0};
  if (!source.fd.is_open()) {
    if (errno == EINTR) OCM_TRY(check_interrupt());  // a pipe waits for its writer
    return cannot_open(path, errno);
  }
  struct stat info {};
  if (fstat(source.fd.get(), &info) != 0) return Status::from_errno(errno, path);
  if (S_ISDIR(info.st_mode)) return Status(Code::kInvalidArgument, path + " is a directory; put one file");
  if (S_ISREG(info.st_mode) && info.st_size > 0) {  // a file of /proc says 0 and has something
    const off_t position = std::max<off_t>(lseek(source.fd.get(), 0, SEEK_CUR), 0);
    source.bytes = static_cast<uint64_t>(std::max<off_t>(info.st_size - position, 0));
  } else {
    OCM_TRY_ASSIGN(source, spool(source.fd.get(), path, most_bytes));
  }
  if (source.bytes == 0) return Status(Code::kInvalidArgument, path + " is empty; there is nothing to put");
  return source;
}

Result<Target> Target::open(const std::string& path) {
  Target target;
  target.path_ = path;
  struct stat info {};
  const bool exists = stat(path.c_str(), &info) == 0;
  // A link that the system does not follow, in /tmp for instance, is not followed here either.
  if (!exists && errno != ENOENT && path != "-") return cannot_open(path, errno);
  if (path == "-") {
    target.fd_ = os::Fd(dup(STDOUT_FILENO));
  } else if (exists && S_ISDIR(info.st_mode)) {
    return Status(Code::kInvalidArgument, path + " is a directory; name a file in it");
  } else if (exists && !S_ISREG(info.st_mode)) {
    target.fd_ = os::Fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  } else {
    // A symbolic link keeps pointing where it does: the file behind it is replaced.
    std::error_code error;
    std::filesystem::path behind = path;
    for (int links = 0; links < 40 && std::filesystem::is_symlink(behind, error); ++links)
      behind = behind.parent_path() / std::filesystem::read_symlink(behind, error);
    target.path_ = behind.string();
    std::string partial = target.path_ + ".ocm-XXXXXX";
    target.fd_ = os::Fd(mkostemp(partial.data(), O_CLOEXEC));
    if (!target.fd_.is_open() && errno == ENAMETOOLONG) {
      partial = (behind.parent_path() / ".ocm-XXXXXX").string();
      target.fd_ = os::Fd(mkostemp(partial.data(), O_CLOEXEC));
    }
    if (target.fd_.is_open()) {
      target.partial_ = partial;
      const mode_t mask = umask(0);
      umask(mask);
      // Not set-uid and the like: the new file is the caller's, whoever the old one's owner was.
      fchmod(target.fd_.get(), exists ? info.st_mode & 0777 : 0666 & ~mask);
    }
  }
  if (!target.fd_.is_open()) {
    if (errno == EINTR) OCM_TRY(check_interrupt());  // a pipe waits for its reader
    return cannot_open(path, errno);
  }
  return target;
}

Target::~Target() {
  if (!partial_.empty()) unlink(partial_.c_str());
}

Status Target::commit(uint64_t bytes) {
  if (partial_.empty()) return Status::ok();
  struct stat info {};
  if (fstat(fd_.get(), &info) != 0) return Status::from_errno(errno, partial_);
  if (static_cast<uint64_t>(info.st_size) != bytes) {
    return Status(Code::kIo, path_ + " would hold " + std::to_string(info.st_size) + " bytes instead of " +
                                 std::to_string(bytes) + "; it was not written");
  }
  if (close(fd_.release()) != 0) return Status::from_errno(errno, "close " + partial_);  // NFS tells here
  if (rename(partial_.c_str(), path_.c_str()) != 0) return Status::from_errno(errno, "rename to " + path_);
  partial_.clear();
  return Status::ok();
}

}  // namespace ocm::cli
