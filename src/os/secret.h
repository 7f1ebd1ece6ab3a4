// Bytes that nobody may read later: in pages of their own that no core dump contains.
#pragma once

#include <cstddef>
#include <span>

#include "os/memory.h"

namespace ocm::os {

class Secret {
 public:
  Secret() = default;
  /// A copy; wiping `bytes` is the caller's. Errors: kNoMemory.
  static Result<Secret> copy(std::span<const std::byte> bytes);
  operator std::span<const std::byte>() const { return {pages_.data(), pages_.bytes()}; }  // NOLINT

 private:
  Mapping pages_;  // the kernel zeroes them when they are unmapped
};

}  // namespace ocm::os
