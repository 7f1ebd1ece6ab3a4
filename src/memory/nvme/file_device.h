// A pool's file, or block device: past the kernel's cache where it lets us (O_DIRECT), so that memory is spent once.
//
// One process writes it at a time, and nobody reads it meanwhile. A flush that failed once has failed for good: the kernel may have dropped what it could
// not write, and a second one would say nothing of it.
#pragma once

#include <memory>
#include <string>

#include "memory/nvme/block.h"
#include "memory/nvme/device.h"
#include "os/fd.h"

namespace ocm::memory::nvme {

class FileDevice final : public Device {
 public:
  /// Makes a file of that length, all of it allocated now, readable by its owner alone. Errors: kExists, kNoMemory (no
  /// room; says how much), kPermission, kNotFound (its directory), kIo.
  static Result<std::unique_ptr<FileDevice>> make(const std::string& path, uint64_t bytes);
  static Status create(const std::string& path, uint64_t bytes) { return make(path, bytes).status(); }
  /// A new one without a name, in that directory: it goes with the process, however that ends. Errors: those of make().
  static Result<std::unique_ptr<FileDevice>> make_unnamed(const std::string& directory, uint64_t bytes);
  enum class Access { kReadWrite, kRead };  // kRead: write() fails
  /// Errors: kNotFound, kExists (in use by another process, or mounted), kPermission, kInvalidArgument (neither file nor
  /// block device), kIo.
  static Result<std::unique_ptr<FileDevice>> open(const std::string& path,
                                                  Access access = Access::kReadWrite);

  uint64_t bytes() const override { return bytes_; }
  Status read(uint64_t offset, std::span<std::byte> to) override;
  Status write(uint64_t offset, std::span<const std::byte> from) override;
  Status flush() override;
  /// False: what it runs on refuses O_DIRECT, and the kernel keeps a second copy of what is read.
  bool is_direct() const { return direct_; }
  /// For requests beside these (queue.h).
  int fd() const { return fd_.get(); }
  /// kIo: "WHAT the pool PATH at OFFSET", and why.
  Status failure(const char* what, int error, uint64_t offset) const;

 private:
  FileDevice(os::Fd fd, std::string path, uint64_t bytes);
  static Result<std::unique_ptr<FileDevice>> opened(os::Fd fd, const std::string& path, uint64_t bytes);
  Status check(uint64_t offset, uint64_t length) const;

  const os::Fd fd_;
  const std::string path_;
  const uint64_t bytes_;
  bool direct_ = false;
  Buffer bounce_;  // O_DIRECT wants memory that is aligned as the device's blocks
  Status flush_failed_;
};

}  // namespace ocm::memory::nvme
