// The table of requests of directory_page.h: what the home does when a page is idle. T is the top of the ring, or the owner
// where there is one to be asked for the right; v is the version.
//
//   read       read storage; then DataE, or DataM with v+1; `whole`: DataM without bytes at once
//   fetch_s    FetchS(T, R); Done: T to the bottom of the ring, R on the top; E becomes S, M becomes O
//   grant      Inv all others; GrantM, v+1; Done: M of R alone
//   fetch_m    Inv all others; FetchM(T, R), v+1; Done: M of R alone
//   remove     leaves the ring; PutAck; the last one: U
//   write      of the owner: write storage; PutD: PutAck, S, or U if it was alone. Clean: CleanAck, S, or E if it was M.
//              It fails: Nack IO, the entry as before. Of anybody else: stale
//   stale      PutStale
//   nack       LOST; A: PEER_LOST
//   -          a fault of R
#pragma once

#include <array>

#include "cache/protocol/directory_page.h"

namespace ocm::cache {

enum class Plan : uint8_t { kFault, kRead, kFetchS, kGrant, kFetchM, kRemove, kWrite, kStale, kNack, kWhole };
/// GetM of R in the ring, and of another.
enum class Column : uint8_t { kGetS, kGetMHeld, kGetMNot, kPutS, kPutD, kClean };
inline constexpr size_t kDirectoryColumns = 6;
using DirectoryTable = std::array<std::array<Plan, kDirectoryColumns>, kPageStates>;

namespace table {

// clang-format off
inline constexpr DirectoryTable kDirectory = {{
//        GetS           GetM held     GetM not       PutS           PutD           Clean
/* U */ {Plan::kRead,   Plan::kFault, Plan::kRead,   Plan::kStale,  Plan::kStale,  Plan::kStale},
/* S */ {Plan::kFetchS, Plan::kGrant, Plan::kFetchM, Plan::kRemove, Plan::kStale,  Plan::kStale},
/* E */ {Plan::kFetchS, Plan::kGrant, Plan::kFetchM, Plan::kRemove, Plan::kStale,  Plan::kStale},
/* O */ {Plan::kFetchS, Plan::kGrant, Plan::kFetchM, Plan::kRemove, Plan::kWrite,  Plan::kWrite},
/* M */ {Plan::kFetchS, Plan::kFault, Plan::kFetchM, Plan::kStale,  Plan::kWrite,  Plan::kWrite},
/* L */ {Plan::kNack,   Plan::kFault, Plan::kWhole,  Plan::kStale,  Plan::kStale,  Plan::kStale},
/* A */ {Plan::kNack,   Plan::kFault, Plan::kNack,   Plan::kStale,  Plan::kStale,  Plan::kStale},
}};
// clang-format on
static_assert(static_cast<size_t>(Column::kClean) + 1 == kDirectoryColumns);

/// Nobody is asked for a page that nobody holds, and nobody gives one back.
constexpr bool is_held_where_it_is_taken() {
  for (const PageState state : {PageState::kU, PageState::kL, PageState::kA}) {
    for (const Plan plan : kDirectory[static_cast<size_t>(state)]) {
      if (plan == Plan::kFetchS || plan == Plan::kFetchM || plan == Plan::kGrant) return false;
      if (plan == Plan::kRemove || plan == Plan::kWrite) return false;
    }
  }
  return true;
}
static_assert(is_held_where_it_is_taken());

}  // namespace table

#ifdef OCM_MODEL
inline DirectoryTable directory_table = table::kDirectory;  // a checker changes one cell at a time
#else
inline constexpr const DirectoryTable& directory_table = table::kDirectory;
#endif

inline Plan directory_plan(PageState state, Column column) {
  return directory_table[static_cast<size_t>(state)][static_cast<size_t>(column)];
}

}  // namespace ocm::cache
