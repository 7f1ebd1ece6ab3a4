// The local half of a 2013 allocation: zeroed, page-aligned memory of this program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/status.h"

namespace ocm::oncillamem {

/// Owns one private anonymous mapping.
class LocalBuffer {
 public:
  /// Errors: kInvalidArgument (0 bytes), kNoMemory.
  static Result<LocalBuffer> make(uint64_t bytes);
  LocalBuffer(LocalBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  LocalBuffer(const LocalBuffer&) = delete;
  LocalBuffer& operator=(const LocalBuffer&) = delete;
  ~LocalBuffer();

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  LocalBuffer(std::byte* data, uint64_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* data_;
  uint64_t bytes_;
};

}  // namespace ocm::oncillamem
