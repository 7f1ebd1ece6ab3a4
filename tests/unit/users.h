// Two users of this machine, neither root nor whoever runs the tests.
#pragma once

#include <cstdint>

namespace ocm::test {

inline constexpr uint32_t kAlice = 61001, kBob = 61002;

}  // namespace ocm::test
