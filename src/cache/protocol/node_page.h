// What one node that caches a page does: its state, the events that reach it, and the step between. Pure: no clock, no
// lock, no I/O, no allocation. Who carries the actions out feeds what comes of them back as events.
//
//   I --Load--> IS_D --DataS--> S          S, E, O --Store--> SM_A, EM_A, OM_A --GrantM--> M
//      \-Store-> IM_AD -DataM-> M          S, E, O, M --Evict--> SI_A, EI_A, OI_A, MI_A --PutAck--> I
//      (DataE after Load: E)               O, M --Clean--> OC_A, MC_A --CleanAck--> S, E
//
//   stable    I nothing; S a clean copy; E the only copy, clean; O a dirty copy beside clean ones; M the only copy, dirty
//   waiting   IS_D, IM_AD: no copy yet; SM_A, EM_A, OM_A: the copy is held and the right is asked for; SI_A, EI_A, OI_A,
//             MI_A: being dropped, and supplied meanwhile; OC_A, MC_A: being cleaned; II_A: dropped and lost meanwhile
//   frozen    X: the term ended over a dirty copy, which nobody may use; X_A: a new term has been asked whose it is
//
// The table is in node_table.h. Every event that is not in a table is below, at its NodeInput.
//
// Invariants, checked by tests/model/cache_model.cpp together with I1 to I10, which are of all nodes (directory_page.h)
//   P1 at most one request, put or return of the page is under way: `request`, which is 0 in stable states.
//   P2 what promises that no program can load or store is sent after the action that makes it so.
//   P3 bytes that were given up are `kept` until who asked says that he took them; the frame is freed in I, with nothing
//      kept. A new copy ends it, for it would not be there otherwise.
//   P4 Data is taken by the request that it answers, and not when it is of an older epoch than a Probe: then it is neither
//      taken nor acknowledged, and its sender keeps it.
//   P5 a message that no correct home sends changes nothing, and is a protocol fault of its sender; but a Fetch that is
//      older than the newest Probe of the term is no fault: it may have been under way since, and the page's entry is gone.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "cache/protocol/message.h"

namespace ocm::cache {

// clang-format off
enum class NodeState : uint8_t {
  kI, kS, kE, kO, kM, kIsD, kImAd, kSmA, kEmA, kOmA, kSiA, kEiA, kOiA, kMiA, kMcA, kOcA, kIiA, kX, kXA,
};
// clang-format on
inline constexpr size_t kNodeStates = static_cast<size_t>(NodeState::kXA) + 1;
/// "SM_A"
std::string_view state_name(NodeState state);

/// A load that meets no fault is allowed.
bool can_load(NodeState state);
inline bool can_store(NodeState state) { return state == NodeState::kM; }
bool has_copy(NodeState state);
/// The only copy of all, as far as this node knows.
bool is_exclusive(NodeState state);
bool is_dirty(NodeState state);

struct NodePage {
  NodeState state = NodeState::kI;
  bool whole = false;  // the request under way is of somebody who will overwrite all of the page
  NodeNumber kept_peer = kNobody;
  uint32_t epoch = 0;         // Data and Fetch of an older one are not obeyed
  uint64_t request = 0;       // P1; 0: none
  uint64_t version = 0;       // of the copy
  uint64_t kept_version = 0;  // P3
  uint64_t kept_request = 0;  // of `kept_peer`; 0: nothing is kept

  bool is_kept() const { return kept_request != 0; }
  bool is_valid() const;
  bool operator==(const NodePage&) const = default;
};

// clang-format off
enum class NodeInput : uint8_t {
  // of this node's programs and replacement: table
  kLoad, kStore, kEvict, kClean,
  // messages: table
  kDataS, kDataE, kDataM, kGrantM, kFetchS, kFetchM, kInv,
  kPutAck, kCleanAck, kPutStale, kNack, kStillYours, kNoMore,
  // in every state
  kProbe,      // answered with what is here; older epochs are over
  kRecall,     // as a Fetch to the home; where no copy is, what is kept, or nothing
  kTermEnd,    // the home may give the page to others: unmapped, and frozen if it may be the newest
  kTermBegin,  // a new term: a frozen copy is offered
  kGraceOver,  // nobody will say any more whose a frozen copy is
  kRevoke,     // the extent is gone
  kTaken,      // `message` (peer, request): that node took what was sent
};
// clang-format on
inline constexpr size_t kNodeTableInputs = static_cast<size_t>(NodeInput::kNoMore) + 1;
/// "FetchS"
std::string_view input_name(NodeInput input);

struct NodeEvent {
  NodeInput input = NodeInput::kLoad;
  bool whole = false;  // kStore: of all of the page
  /// kLoad, kStore, kEvict, kClean, kTermBegin: a number that no request of this node's run had, and nobody can guess.
  uint64_t fresh = 0;
  /// Messages: the highest epoch of a Probe or Recall by this home in this term, of any page.
  uint32_t probed = 0;
  Message message;
};
/// The event that a message from outside is; `message.from` is who sent it, as the courier knows. False: nodes get no
/// such message, or not from there: a protocol fault.
bool to_event(const Message& message, uint32_t probed, NodeEvent& event);

struct NodeAction {
  enum class Kind : uint8_t {
    kUnmap,      // no program can load or store from now on; the bytes stay
    kProtect,    // no program can store from now on
    kFill,       // the message's bytes are the copy
    kOverwrite,  // who asked for the whole page stores all of it now, before any other event of the page (W1)
    kRestore,    // what was kept is the copy again
    kSend,       // `message`, with the copy's bytes, or the kept ones, if it has a payload
    kAcknowledge,  // who sent the bytes need keep them no longer
    kWake,         // waiting threads try again, or fail with `code`
    kFree,         // the frame is free
    kFault,        // the sender of the message is at fault
  };
  Kind kind = Kind::kFault;
  Code code = Code::kOk;
  Message message;
};

struct NodeStep {
  enum class Outcome : uint8_t {
    kDone,
    kHit,      // kLoad, kStore: at once
    kWait,     // kLoad, kStore: try again when woken
    kFails,    // kLoad, kStore: `code`
    kIgnored,  // P4, P5: older than what was promised, or for nobody
    kFault,    // P5, or a local event that its caller may not bring in this state
  };
  NodePage page;
  Outcome outcome = Outcome::kDone;
  Code code = Code::kOk;
  uint8_t count = 0;
  std::array<NodeAction, 6> actions;

  const NodeAction* begin() const { return actions.data(); }
  const NodeAction* end() const { return actions.data() + count; }
  void add(NodeAction::Kind kind, Code with = Code::kOk) {
    OCM_ASSERT(count < actions.size());
    actions[count].kind = kind;
    actions[count++].code = with;
  }
  void send(const Message& message) {
    add(NodeAction::Kind::kSend);
    actions[count - 1].message = message;
  }
};

NodeStep step(const NodePage& page, const NodeEvent& event);

}  // namespace ocm::cache
