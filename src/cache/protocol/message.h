// What the nodes that cache a page, and its home, tell each other about it.
//
// Under this lies a courier for each pair of nodes, which delivers exactly once or ends the term between them, in no
// order. What names the page (extent, generation, number) and the term stands in the courier's header.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "base/status.h"

namespace ocm::cache {

/// A node of the cluster, as page directories name it: one run of its daemon, by the partition of that.
using NodeNumber = uint32_t;
inline constexpr NodeNumber kNobody = 0xFFFF'FFFF;
inline constexpr NodeNumber kHome =
    0xFFFF'FFFE;  // the page directory; the home's own cache is a node like others

enum class MessageKind : uint8_t {
  // node -> home, at most one of them from a node at a time (kReturn aside): they wait while the page is busy
  kGetS,   // a copy to read
  kGetM,   // the right to write; `whole`: all of the page will be overwritten
  kPutS,   // drops a clean copy
  kPutD,   // drops a dirty copy, with its bytes
  kClean,  // a dirty copy's bytes, of which a clean copy stays
  kReturn,  // the first of a new term: `copy`: a frozen copy of `version` is here; `kept`: it was sent to somebody
  // node -> home
  kDone,        // the request is served
  kInvAck,      // the copy is gone, no program can read it
  kProbeReply,  // what is here; with bytes where there are some and the home asked
  kRecalled,    // bytes for kRecall, or none
  // home -> node
  kDataE,   // bytes, and that nobody else has a copy
  kDataM,   // bytes (none: you wanted to overwrite them all), and the right to write; also supplier -> node
  kDataS,   // bytes, a copy to read; also supplier -> node
  kGrantM,  // the right to write the copy that is held
  kStillYours,  // the frozen copy is the newest one; it is in O
  kNoMore,      // the frozen copy is nothing any more
  kFetchS,      // send your copy to `peer`
  kFetchM,      // and drop it
  kInv,         // drop, then kInvAck
  kProbe,       // what have you? Obey no older epoch from now on; `data`: with the bytes
  kRecall,      // as kFetchS or kFetchM (`exclusive`), to the home, also of what was sent and not taken
  kPutAck,      // taken
  kCleanAck,    // taken
  kPutStale,    // you were no holder any more
  kNack,        // `code`: kLost, kIo, kPermission, kPeerLost, kLimit, kRevoked
};
inline constexpr size_t kMessageKinds = static_cast<size_t>(MessageKind::kNack) + 1;
/// "GetS"
std::string_view message_name(MessageKind kind);
inline bool is_kind(uint8_t number) { return number < kMessageKinds; }
static_assert(kHome < kNobody, "whoever is below the home is a node");

struct Message {
  enum class Payload : uint8_t { kNone, kPage };
  MessageKind kind = MessageKind::kGetS;
  Payload payload = Payload::kNone;
  NodeNumber from = kNobody, to = kNobody;
  NodeNumber peer = kNobody;  // kFetchS, kFetchM: who asked
  Code code = Code::kOk;      // kNack
  uint64_t request = 0;       // which request of the asking node this is about; never 0
  uint64_t ticket = 0;  // of the transaction: from the home by who supplies to who asked, and back with kDone
  uint64_t version = 0;  // of the bytes; kFetchM: that the asking node will have
  uint32_t epoch = 0;
  // By kind; false elsewhere.
  bool whole = false;      // kGetM
  bool copy = false;       // kProbeReply, kReturn
  bool exclusive = false;  // kProbeReply: and nobody else has one. kRecall: to be dropped
  bool waiting = false;    // kProbeReply: `request` waits for bytes
  bool kept = false;       // kProbeReply, kReturn: sent to somebody who has not said that he took it
  bool forgot = false;     // kReturn: frozen copies were given up since the last term
  bool data = false;       // kProbe
  bool operator==(const Message&) const = default;
};
static_assert(std::is_trivially_copyable_v<Message>);

}  // namespace ocm::cache
