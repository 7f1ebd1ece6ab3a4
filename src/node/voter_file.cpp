#include "node/voter_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "os/fd.h"

namespace ocm::node {
namespace {

constexpr char kMagic[8] = {'o', 'c', 'm', 'v', 'o', 't', 'e', '1'};
constexpr size_t kBootBytes = 36;
constexpr size_t kBytesMax = size_t{16} << 20;
constexpr size_t kCheckedFrom = sizeof(kMagic) + sizeof(uint32_t);
constexpr size_t kHeadBytes = kCheckedFrom + kBootBytes;
static_assert(sizeof(kMagic) == 8 && kHeadBytes == 8 + 4 + 36 && kHeadBytes < kBytesMax);

bool is_written(int fd, const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

VoterFiles::VoterFiles(std::string run_dir, std::string boot_id)
    : run_dir_(std::move(run_dir)), boot_id_(std::move(boot_id)) {}

std::string VoterFiles::load(Of of) {
  const os::Fd fd(::open(path(of).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat about {};
  if (!fd.is_open() || ::fstat(fd.get(), &about) != 0 || !S_ISREG(about.st_mode) ||
      about.st_uid != ::geteuid())
    return {};
  const auto size = static_cast<size_t>(about.st_size);
  if (size < kHeadBytes || size > kBytesMax) return {};
  std::string bytes(size, '\0');
  if (::read(fd.get(), bytes.data(), size) != about.st_size) return {};
  uint32_t crc = 0;
  std::memcpy(&crc, bytes.data() + sizeof(kMagic), sizeof(crc));
  const bool whole = std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) == 0 &&
                     crc == crc32c(0, bytes.data() + kCheckedFrom, size - kCheckedFrom);
  const bool of_this_boot = bytes.compare(kCheckedFrom, kBootBytes, boot_id_) == 0;
  return whole && of_this_boot ? bytes.substr(kHeadBytes) : std::string();
}

bool VoterFiles::save(Of of, const std::string& saying) {
  const std::string at = path(of), fresh = at + ".new";
  bool saved = false;
  if (!saying.empty() && saying.size() <= kBytesMax - kHeadBytes && boot_id_.size() == kBootBytes) {
    std::string bytes = boot_id_ + saying;
    const uint32_t crc = crc32c(0, bytes.data(), bytes.size());
    bytes.insert(0, reinterpret_cast<const char*>(&crc), sizeof(crc));
    bytes.insert(0, kMagic, sizeof(kMagic));
    OCM_DASSERT(bytes.size() == kHeadBytes + saying.size() && bytes.size() <= kBytesMax);
    ::unlink(fresh.c_str());  // whatever it is: to open a pipe would wait for its reader
    const os::Fd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    saved = fd.is_open() && is_written(fd.get(), bytes) && ::rename(fresh.c_str(), at.c_str()) == 0;
    if (!saved) log::warn("voter_not_remembered", {{"file", at}, {"error", std::strerror(errno)}});
  }
  if (saved) return true;
  ::unlink(fresh.c_str());
  if (::unlink(at.c_str()) == 0 || errno == ENOENT) return false;
  log::error("voter_file",
             {{"file", at},
              {"error", std::strerror(errno)},
              {"why", "it can be neither written nor removed, and what it says is not true any more"}});
  std::_Exit(1);
}

}  // namespace ocm::node
