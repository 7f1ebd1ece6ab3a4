// The table of node_page.h: what is done, and which state follows. "-": no correct home or caller brings that event in
// that state.
#pragma once

#include <array>

#include "cache/protocol/node_page.h"

namespace ocm::cache {

enum class NodeDo : uint8_t {
  kFault,    // "-"
  kHit,      // at once
  kWait,     // the thread waits until the state is stable
  kLost,     // the thread gets PEER_LOST
  kAskS,     // GetS
  kAskM,     // GetM
  kPutS,     // unmap, PutS
  kPutD,     // unmap, PutD
  kClean,    // protect if writable, Clean
  kTake,     // the bytes are the copy: Done
  kGranted,  // Done
  kSupply,   // protect if writable, DataS
  kGive,     // unmap, DataM; kept until it is taken
  kDropAck,  // unmap, InvAck
  kSettle,   // an answer: the state alone
  kRefused,  // an answer: the waiting threads get its code
  kKeep,     // an answer: the device failed, the bytes stay here
  kYours,    // Done; the frozen copy is a copy again
};
struct NodeCell {
  NodeDo what;
  NodeState next;
};
using NodeTable = std::array<std::array<NodeCell, kNodeTableInputs>, kNodeStates>;

namespace table {

using enum NodeDo;
using enum NodeState;

// clang-format off
inline constexpr NodeCell no{kFault, kI};
constexpr NodeCell hit(NodeState s) { return {kHit, s}; }
constexpr NodeCell wait(NodeState s) { return {kWait, s}; }
constexpr NodeCell lost(NodeState s) { return {kLost, s}; }
constexpr NodeCell get_s(NodeState s) { return {kAskS, s}; }
constexpr NodeCell get_m(NodeState s) { return {kAskM, s}; }
constexpr NodeCell put_s(NodeState s) { return {kPutS, s}; }
constexpr NodeCell put_d(NodeState s) { return {kPutD, s}; }
constexpr NodeCell clean(NodeState s) { return {kClean, s}; }
constexpr NodeCell take(NodeState s) { return {kTake, s}; }
constexpr NodeCell grant(NodeState s) { return {kGranted, s}; }
constexpr NodeCell send(NodeState s) { return {kSupply, s}; }
constexpr NodeCell give(NodeState s) { return {kGive, s}; }
constexpr NodeCell ack(NodeState s) { return {kDropAck, s}; }
constexpr NodeCell to(NodeState s) { return {kSettle, s}; }
constexpr NodeCell nack(NodeState s) { return {kRefused, s}; }
constexpr NodeCell keep(NodeState s) { return {kKeep, s}; }
constexpr NodeCell yours(NodeState s) { return {kYours, s}; }

inline constexpr NodeTable kNodes = {{
//          Load         Store        Evict        Clean
//          DataS        DataE        DataM        GrantM       FetchS       FetchM       Inv
//          PutAck       CleanAck     PutStale     Nack         StillYours   NoMore
/* I     */ {get_s(kIsD), get_m(kImAd), no,          no,
             no,          no,          no,          no,          no,          no,          no,
             no,          no,          no,          no,          no,          no},
/* S     */ {hit(kS),     get_m(kSmA), put_s(kSiA), no,
             no,          no,          no,          no,          send(kS),    give(kI),    ack(kI),
             no,          no,          no,          no,          no,          no},
/* E     */ {hit(kE),     get_m(kEmA), put_s(kEiA), no,
             no,          no,          no,          no,          send(kS),    give(kI),    no,
             no,          no,          no,          no,          no,          no},
/* O     */ {hit(kO),     get_m(kOmA), put_d(kOiA), clean(kOcA),
             no,          no,          no,          no,          send(kO),    give(kI),    ack(kI),
             no,          no,          no,          no,          no,          no},
/* M     */ {hit(kM),     hit(kM),     put_d(kMiA), clean(kMcA),
             no,          no,          no,          no,          send(kO),    give(kI),    no,
             no,          no,          no,          no,          no,          no},
/* IS_D  */ {wait(kIsD),  wait(kIsD),  no,          no,
             take(kS),    take(kE),    no,          no,          no,          no,          no,
             no,          no,          no,          nack(kI),    no,          no},
/* IM_AD */ {wait(kImAd), wait(kImAd), no,          no,
             no,          no,          take(kM),    no,          no,          no,          no,
             no,          no,          no,          nack(kI),    no,          no},
/* SM_A  */ {hit(kSmA),   wait(kSmA),  no,          no,
             no,          no,          no,          grant(kM),   send(kSmA),  give(kImAd), ack(kImAd),
             no,          no,          no,          nack(kS),    no,          no},
/* EM_A  */ {hit(kEmA),   wait(kEmA),  no,          no,
             no,          no,          no,          grant(kM),   send(kSmA),  give(kImAd), no,
             no,          no,          no,          nack(kE),    no,          no},
/* OM_A  */ {hit(kOmA),   wait(kOmA),  no,          no,
             no,          no,          no,          grant(kM),   send(kOmA),  give(kImAd), ack(kImAd),
             no,          no,          no,          nack(kO),    no,          no},
/* SI_A  */ {wait(kSiA),  wait(kSiA),  no,          no,
             no,          no,          no,          no,          send(kSiA),  give(kIiA),  ack(kIiA),
             to(kI),      no,          no,          no,          no,          no},
/* EI_A  */ {wait(kEiA),  wait(kEiA),  no,          no,
             no,          no,          no,          no,          send(kSiA),  give(kIiA),  no,
             to(kI),      no,          no,          no,          no,          no},
/* OI_A  */ {wait(kOiA),  wait(kOiA),  no,          no,
             no,          no,          no,          no,          send(kOiA),  give(kIiA),  ack(kIiA),
             to(kI),      no,          no,          keep(kO),    no,          no},
/* MI_A  */ {wait(kMiA),  wait(kMiA),  no,          no,
             no,          no,          no,          no,          send(kOiA),  give(kIiA),  no,
             to(kI),      no,          no,          keep(kM),    no,          no},
/* MC_A  */ {hit(kMcA),   wait(kMcA),  no,          no,
             no,          no,          no,          no,          send(kOcA),  give(kIiA),  no,
             no,          to(kE),      no,          keep(kM),    no,          no},
/* OC_A  */ {hit(kOcA),   wait(kOcA),  no,          no,
             no,          no,          no,          no,          send(kOcA),  give(kIiA),  ack(kIiA),
             no,          to(kS),      no,          keep(kO),    no,          no},
/* II_A  */ {wait(kIiA),  wait(kIiA),  no,          no,
             no,          no,          no,          no,          no,          no,          no,
             no,          to(kI),      to(kI),      keep(kI),    no,          no},
/* X     */ {lost(kX),    lost(kX),    no,          no,
             no,          no,          no,          no,          no,          no,          no,
             no,          no,          no,          no,          no,          no},
/* X_A   */ {wait(kXA),   wait(kXA),   no,          no,
             no,          no,          no,          no,          no,          no,          no,
             no,          no,          no,          no,          yours(kO),   to(kI)},
}};
// clang-format on

/// A thread that waits, hits or fails changes nothing; who can supply a copy can give it up.
constexpr bool is_sound() {
  for (size_t state = 0; state < kNodeStates; ++state) {
    for (const NodeCell& cell : kNodes[state]) {
      const bool stays = cell.what == kHit || cell.what == kWait || cell.what == kLost;
      if (stays && cell.next != static_cast<NodeState>(state)) return false;
    }
    if ((kNodes[state][static_cast<size_t>(NodeInput::kFetchS)].what == kSupply) !=
        (kNodes[state][static_cast<size_t>(NodeInput::kFetchM)].what == kGive))
      return false;
  }
  return true;
}
static_assert(is_sound());

}  // namespace table

#ifdef OCM_MODEL
inline NodeTable node_table = table::kNodes;  // a checker changes one cell at a time
#else
inline constexpr const NodeTable& node_table = table::kNodes;
#endif

inline const NodeCell& node_cell(NodeState state, NodeInput input) {
  OCM_DASSERT(static_cast<size_t>(input) < kNodeTableInputs);
  return node_table[static_cast<size_t>(state)][static_cast<size_t>(input)];
}

}  // namespace ocm::cache
