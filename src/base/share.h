// Of what there is a limited number of: how many one user may have, and how many all users together. The rest is for root
// and the daemon's own user, so that whoever may end what others hold gets in.
#pragma once

#include <cstdint>

#include "base/assert.h"

namespace ocm {

constexpr uint64_t share_of_one_user(uint64_t most) { return most / 2 + most % 2; }
/// All but a sixteenth; below sixteen, all.
constexpr uint64_t share_of_all_users(uint64_t most) { return most - most / 16; }
static_assert(share_of_one_user(1) == 1 && share_of_all_users(1) == 1, "a user gets the only one");

enum class Share : uint8_t { kOk, kOfOneUser, kOfAllUsers };
/// Which share is used up for a user who has `mine` of `most`, beside `of_users` of all users together, his own included.
constexpr Share used_up_share(bool privileged, uint64_t mine, uint64_t of_users, uint64_t most) {
  if (privileged) return Share::kOk;
  OCM_DASSERT(mine <= of_users);
  if (of_users >= share_of_all_users(most)) return Share::kOfAllUsers;
  return mine >= share_of_one_user(most) ? Share::kOfOneUser : Share::kOk;
}

}  // namespace ocm
