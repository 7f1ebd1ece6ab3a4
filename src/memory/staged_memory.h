// Bytes in memory that are reached as if they were on a device: by calls, and never by a mapping.
//
// A cache before them (cache/cached_kind.h) may have newer bytes than they are. Nothing that loads and stores by itself gets
// at them: data() and share() are not supported.
//
// Invariants
//   S1 a call has all of its bytes' locks from before its first byte to after its last: of two that touch the same bytes one
//      is carried out before the other, wherever they touch.
//   S2 a call is over, and `done` told, before it returns; `done` runs without a lock.
// Threads: any.
#pragma once

#include <memory>

#include "memory/pool.h"

namespace ocm::memory {

/// `inner` is not staged(). Errors: those of Backing::data().
Result<std::unique_ptr<Backing>> staged_over_memory(std::unique_ptr<Backing> inner);

}  // namespace ocm::memory
