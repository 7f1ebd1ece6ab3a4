#include "node/voter_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "os/fd.h"

namespace ocm::node {
namespace {

constexpr std::string_view kMagic = "ocmvote2";
constexpr size_t kBootBytes = 36, kHeadBytes = kMagic.size() + kBootBytes;
// 65,536 parts of five replicas, three times: known, and twice in councils.
constexpr size_t kEntryBytesMax = size_t{64} << 20, kFileBytesMax = 3 * kEntryBytesMax;
using EntryHead = std::array<uint32_t, 3>;  // length, its complement, CRC-32C of the bytes
static_assert(kHeadBytes == 8 + 36 && sizeof(EntryHead) == 12);

bool is_written(int fd, const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

/// The file's size. Nothing: it is not one of this user's.
std::optional<size_t> size_of(const os::Fd& fd) {
  struct stat about {};
  if (!fd.is_open() || ::fstat(fd.get(), &about) != 0 || !S_ISREG(about.st_mode) ||
      about.st_uid != ::geteuid())
    return std::nullopt;
  return static_cast<size_t>(about.st_size);
}

std::string entry_of(const std::string& bytes) {
  const auto length = static_cast<uint32_t>(bytes.size());
  const EntryHead head = {length, ~length, crc32c(0, bytes.data(), bytes.size())};
  std::string out(reinterpret_cast<const char*>(head.data()), sizeof(head));
  return out += bytes;
}

/// Nothing: one is damaged.
std::optional<std::vector<std::string>> entries_of(std::string_view bytes) {
  std::vector<std::string> out;
  while (bytes.size() >= sizeof(EntryHead)) {
    EntryHead head;
    std::memcpy(head.data(), bytes.data(), sizeof(head));
    bytes.remove_prefix(sizeof(head));
    const auto [length, complement, crc] = head;
    if (length != ~complement || length > kEntryBytesMax) return std::nullopt;
    if (length > bytes.size()) break;
    if (crc != crc32c(0, bytes.data(), length)) return std::nullopt;
    out.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  return out;
}

}  // namespace

VoterFiles::VoterFiles(std::string run_dir, std::string boot_id)
    : run_dir_(std::move(run_dir)), boot_id_(std::move(boot_id)) {}

std::vector<std::string> VoterFiles::load(Of of) {
  const os::Fd fd(::open(path(of).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  const auto size = size_of(fd);
  if (!size || *size < kHeadBytes || *size > kFileBytesMax) return {};
  std::string bytes(*size, '\0');
  if (::read(fd.get(), bytes.data(), *size) != static_cast<ssize_t>(*size)) return {};
  const bool of_this_boot = bytes.compare(0, kHeadBytes, std::string(kMagic) + boot_id_) == 0;
  if (!of_this_boot) return {};
  return entries_of(std::string_view(bytes).substr(kHeadBytes)).value_or(std::vector<std::string>());
}

bool VoterFiles::save(Of of, const std::string& saying) {
  const std::string at = path(of), fresh = at + ".new";
  bool saved = false;
  sizes_.erase(of);
  if (!saying.empty() && saying.size() <= kEntryBytesMax && boot_id_.size() == kBootBytes) {
    const std::string bytes = std::string(kMagic) + boot_id_ + entry_of(saying);
    OCM_DASSERT(bytes.size() == kHeadBytes + sizeof(EntryHead) + saying.size());
    ::unlink(fresh.c_str());  // whatever it is: to open a pipe would wait for its reader
    const os::Fd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    saved = fd.is_open() && is_written(fd.get(), bytes) && ::rename(fresh.c_str(), at.c_str()) == 0;
    if (saved) sizes_[of] = bytes.size();
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

bool VoterFiles::append(Of of, const std::string& saying) {
  const auto known = sizes_.find(of);
  if (known == sizes_.end() || saying.size() > kEntryBytesMax) return false;
  const std::string bytes = entry_of(saying);
  const os::Fd fd(::open(path(of).c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  // Another one, or what could not be appended before, is replaced.
  const bool appended = known->second + bytes.size() <= kFileBytesMax && size_of(fd) == known->second &&
                        is_written(fd.get(), bytes);
  if (!appended) {
    sizes_.erase(known);
    return false;
  }
  known->second += bytes.size();
  return true;
}

}  // namespace ocm::node
