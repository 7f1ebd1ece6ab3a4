// What a pool lies on: a file, a block device, or in tests one that loses what was not flushed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace ocm::memory::nvme {

/// Offsets and lengths are multiples of kBlockBytes. Errors: kIo.
class Device {
 public:
  virtual ~Device() = default;
  virtual uint64_t bytes() const = 0;
  virtual Status read(uint64_t offset, std::span<std::byte> to) = 0;
  virtual Status write(uint64_t offset, std::span<const std::byte> from) = 0;
  /// What was written before stays, whatever happens. After an error nothing is known of it.
  virtual Status flush() = 0;
};

}  // namespace ocm::memory::nvme
