// What an operator does to a durable pool that no daemon has: make one, verify its pages. What `ocm pool` prints is in cli.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/units.h"
#include "memory/nvme/file_device.h"
#include "memory/nvme/store.h"

namespace ocm::memory::nvme {

inline constexpr uint64_t kPageBytesDefault = 64 * kKiB;

struct MakeOptions {
  std::string path;    // of a file that does not exist, or of a block device
  uint64_t bytes = 0;  // of pages, at least; 0: as many as a block device holds
  uint64_t page_bytes = kPageBytesDefault;
  bool force = false;  // a block device's contents may go
};
struct Made {
  Identity identity;
  Geometry geometry;
  uint64_t offered_bytes = 0;  // what a daemon may offer of it, or was to be offered
  std::string configuration;   // the lines for oncillad.toml
};
/// A pool of no cluster. A file appears with all of its bytes allocated, or not at all; a block device is used whole. Errors:
/// kExists (a file is there, the device is in use, or something is on it), kInvalidArgument (a page, a length, a
/// directory), kNoMemory (the file system, or the device, has no room for it), kPermission, kNotFound (its directory), kIo.
Result<Made> make_pool(const MakeOptions& options);

/// What the first and last blocks of a device say is on it, such as "ext4"; empty: nothing that is known. Errors: kIo.
Result<std::string> contents_of(Device& device);

struct BadPage {
  ExtentId extent;
  bool has_name = false;
  uint64_t page = 0;
  Status why;  // kBadChecksum, or kIo
};
struct PagesChecked {
  uint64_t pages = 0;
  std::vector<BadPage> bad;
};
/// Reads each page in use and compares its checksum, in the order of the device. Errors: kNoMemory, those of `progress`,
/// which ends it.
Result<PagesChecked> check_pages(Device& device, const Inspection& found,
                                 const std::function<Status(uint64_t bytes_done)>& progress);

}  // namespace ocm::memory::nvme
