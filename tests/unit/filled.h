// Ids for tests: of one byte, sixteen times.
#pragma once

#include <cstddef>

#include "base/ids.h"

namespace ocm {

template <class Id>
Id filled(char byte) {
  Id out;
  out.bytes.fill(static_cast<std::byte>(byte));
  return out;
}

}  // namespace ocm
