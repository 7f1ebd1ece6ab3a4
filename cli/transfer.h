// Bytes between a file and an allocation, two buffers deep: one moves while the other is read or written.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "cli/progress.h"
#include "oncilla/oncilla.h"
#include "os/fd.h"
#include "tools/session.h"

namespace ocm::cli {
using namespace tools;  // what the applications have, too

/// Puts exactly `bytes` from `fd` into the allocation.
/// Errors: kIo (the file is shorter or longer than that, or cannot be read), kCancelled, those of ocm_put.
Status put_from(int fd, ocm_allocation* allocation, uint64_t bytes, Progress& progress);
/// Writes the allocation's `bytes` to `fd`. Errors: kIo, kCancelled, those of ocm_get.
Status get_to(int fd, ocm_allocation* allocation, uint64_t bytes, Progress& progress);

/// A file to read and its length. What cannot tell its length (a pipe) is first copied into an unnamed file.
struct Source {
  os::Fd fd;
  uint64_t bytes = 0;
};
/// "-" is stdin. `most_bytes`: of what cannot tell its length, and may have no end. Errors: kNotFound, kPermission,
/// kInvalidArgument (empty, or a directory), kPoolFull (longer), kIo, kCancelled.
Result<Source> open_source(const std::string& path, uint64_t most_bytes);

/// A file that appears under its name when it is complete, and not at all otherwise.
class Target {
 public:
  /// "-" is stdout; devices and pipes are written directly.
  static Result<Target> open(const std::string& path);
  Target(Target&& other) noexcept = default;
  Target& operator=(Target&&) = delete;
  ~Target();

  int fd() const { return fd_.get(); }
  /// The file that is written until then; empty: there is none.
  const std::string& partial() const { return partial_; }
  /// Checks the length and gives the file its name.
  Status commit(uint64_t bytes);

 private:
  Target() = default;
  os::Fd fd_;
  std::string path_;
  std::string partial_;  // empty: nothing to rename or remove
};

}  // namespace ocm::cli
