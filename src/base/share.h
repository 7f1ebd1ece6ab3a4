// Of what there is a limited number of: how many one user may have, and how many all users together. The rest is for root
// and the daemon's own user, so that whoever may end what others hold gets in.
#pragma once

#include <cstdint>

namespace ocm {

constexpr uint64_t share_of_one_user(uint64_t most) { return most / 2 + most % 2; }
/// All but a sixteenth; below sixteen, all.
constexpr uint64_t share_of_all_users(uint64_t most) { return most - most / 16; }

}  // namespace ocm
