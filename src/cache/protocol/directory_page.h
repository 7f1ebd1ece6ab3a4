// What the home knows of one page: who holds it and in which state, and the one transaction that is open for it. Pure,
// as node_page.h is; allocates only where a page has more than eight holders.
//
//   stable  U storage only; S sharers, storage is current; E one owner, clean; O a dirty owner, perhaps beside sharers
//           (nobody, once it died and its bytes could not be stored); M a dirty owner alone; L lost; A away: those of
//           `ring` may have the newest bytes, and may come back with them
//   busy    B_R storage is read; B_W storage is written; B_I InvAcks are missing; B_F a Fetch was sent, Done is missing;
//           B_G bytes or a grant were sent, Done is missing; B_P a ProbeReply is missing; B_C a Recalled is missing
//
// The table of requests is in directory_table.h. Everything else:
//
//   InvAck      B_I        counts, and shortens the ring at once
//   Done        B_F B_G    the entry becomes what the request made of it; of an older epoch, or without its ticket: ignored
//   I/O result  B_R B_W    grants; stores
//   ProbeReply  B_P        below
//   Recalled    B_C        the bytes go on to who asked: B_G
//   Return      idle       A, one of `ring`, a copy of the version: StillYours, B_G; else, with a copy: NoMore
//                          A, one of `ring`, without: no candidate any more; the last: U if storage has the version, else L
//   elsewhere each is a fault of its sender, and changes nothing.
//
// A term ends, of R (who asked), T (the supplier), or another; where nothing is said it leaves the ring at the end
//   idle  a sharer: leaves the ring. The owner: E: U; M: A; O: rescue, the first sharer that answers a Probe has its bytes
//         stored: S; if no sharer answers: A
//   B_R   R: the request is forgotten
//   B_W   R: the bytes are here: it is finished
//   B_I   it counts as acknowledged. R: nothing is granted, who is left stays. T: the request again
//   B_G   R: DataE, DataS: as if it had not asked; DataM, GrantM: A, for R may have written
//   B_F   R: Probe T. A copy: what T says of it, alone or not; none: R may have written: A, with what T kept stored
//         T: Probe R. A copy: as Done; it waits: the request again
//   B_P   who is asked: as the end of R and T; both: A of both
//   B_C   T: the request again. R: the bytes are stored
//   A     of who may not come back: no candidate any more, and L instead of U at the end
// B_R fails: who is gone leaves first. S: a sharer is asked, or, where the slot is bad, has its bytes stored anew: O, rescue
// O whose owner died and could not be rescued: the last sharer's PutS is a rescue, too; if that fails: L
// L: the version goes beyond that of a grant that was under way, so that nothing old is ever taken for the newest
// Overdue: the bytes of B_F do not come, and nobody is dead: Probe R. A copy: as Done; it waits: Recall T. Elsewhere: who
// has not answered is at fault, and its term ends.
//
// Invariants, over all nodes and messages of a page (tests/model/cache_model.cpp)
//   I1 where a node is in M, E, EM_A or MC_A no other can load.
//   I2 a load returns the newest store; W1: who is granted M without bytes overwrites all of the page first.
//   I3 who can load is in the ring, or is R of the open transaction.
//   I4 one copy of the ring at most is dirty.
//   I5 idle U, S, E: the storage has `version`. O, M: it has an older one, and every copy of the ring has `version`.
//   I6 one request, put or return of a node is under way for a page.
//   I7 with no further fault every waiting request is answered.
//   I8 a frame is freed in I only.
//   I9 after deaths a page answers its newest bytes, or says that they are lost or away; never older ones, never zeros.
//      One term that ends though nobody dies, or one message between two holders that is lost, loses no page.
//   I10 a message of an older epoch or term changes no state.
// A node that does not keep to this harms itself and those it sends bytes to that they wait for: they cannot know that the
// home has asked another since, or what epoch it is, and end their term with it, or it does. It makes no two others find
// each other at fault by anything else that it sends (tests/unit/cache_hostile_test.cpp).
// What the home must keep: an entry in U that is forgotten, and made again, begins with an epoch and a version that are not
// below any that it had. Else an old Fetch would be obeyed, and what was frozen long ago would be taken for the newest.
#pragma once

#include <cstdint>
#include <string_view>

#include "cache/protocol/few.h"
#include "cache/protocol/message.h"

namespace ocm::cache {

enum class PageState : uint8_t { kU, kS, kE, kO, kM, kL, kA };
inline constexpr size_t kPageStates = static_cast<size_t>(PageState::kA) + 1;
/// "U"
std::string_view state_name(PageState state);
enum class Busy : uint8_t { kIdle, kRead, kWrite, kInvalidate, kFetch, kGrant, kProbe, kRecall };
/// "B_R"
std::string_view busy_name(Busy busy);

/// A request, put or return of a node, as the directory keeps it.
struct Asked {
  NodeNumber node = kNobody;
  MessageKind kind = MessageKind::kGetS;
  bool whole = false, copy = false, kept = false;
  uint64_t request = 0;
  uint64_t version = 0;
  bool operator==(const Asked&) const = default;
};

enum class Presence : uint8_t {
  kHere,
  kAway,  // its term has ended, it may come back with what it has
  kDead,
};
struct Gone {
  NodeNumber node = kNobody;
  Presence presence = Presence::kAway;
};

struct Transaction {
  enum class Probing : uint8_t { kNone, kSupplier, kRequester, kRescue };
  /// B_W: a node's put, or, with nobody to answer, what a rescue found, what a supplier had kept or what was recalled
  /// for one that is gone.
  enum class Storing : uint8_t { kPut, kRescued, kKept, kRecalled };
  Asked asked;                    // R is asked.node; kNobody: a rescue
  uint64_t ticket = 0;            // R has no Done before it was given this
  NodeNumber supplier = kNobody;  // T; of a rescue: the owner that is gone
  Presence requester_is = Presence::kHere, supplier_is = Presence::kHere;
  MessageKind sent = MessageKind::kGetS;  // B_G: DataE, DataS, DataM, GrantM or StillYours
  bool shares = false;                    // B_G: T has obeyed a Fetch or Recall: its copy is not alone
  bool overdue = false;                   // B_P: R is asked because the bytes do not come
  Storing storing = Storing::kPut;
  Probing probing = Probing::kNone;
  NodeNumber probed = kNobody;
  Few<NodeNumber, 8> unacked;  // B_I
};

struct DirectoryPage {
  PageState state = PageState::kU;
  Busy busy = Busy::kIdle;
  bool doubt = false;          // A: one that may have written is dead, or has given up what it had
  NodeNumber owner = kNobody;  // E O M
  uint32_t epoch = 1;          // counts the repairs
  uint64_t version = 1;        // counts the exclusive grants
  uint64_t storage_version = 1;
  Few<NodeNumber, 8> ring;  // the holders, the supplier first
  Few<Asked, 8> queue;      // one of a node, and a return
  Few<Gone, 8> gone;        // they leave the ring when the transaction ends
  /// A: what one gave to another one before both were away, returned by the former. Whether it is the newest says the other.
  Asked returned;
  Transaction transaction;

  bool holds(NodeNumber node) const;
  bool is_valid() const;
};

struct DirectoryEvent {
  enum class Kind : uint8_t {
    kMessage,    // of a node, in its term; `refuse`
    kRead,       // the storage was read: `good`; `bad_slot`: its bytes are gone
    kWritten,    // the storage was written: `good`
    kTermEnded,  // of `node`; `good`: it may come back with what it has. Again, if that turns out otherwise
    kGraceOver,  // those that are away may not come back with it any more
    kOverdue,    // the transaction has taken as long as a failure deadline
  };
  Kind kind = Kind::kMessage;
  NodeNumber node = kNobody;
  uint64_t ticket = 0;  // of the transaction that may begin: a number that nobody can guess
  bool good = true, bad_slot = false;
  Code refuse = Code::kOk;  // kGetM: kPermission, kLimit: not allowed
  Message message;
};

struct DirectoryPolicy {
  /// Memory of the home is storage (kind dram), or the home alone supplies what is clean (cooperation off).
  bool storage_supplies = false;
  /// Where it does: the holder that supplies what is clean all the same, if it has it: the home's own cache.
  NodeNumber supplier = kNobody;
};

struct DirectoryAction {
  enum class Kind : uint8_t {
    kSend,   // `message`; a payload is what was read or what the last message brought
    kRead,   // the storage
    kWrite,  // what the last message brought, to the storage
    kFault,  // of `message.from`
  };
  Kind kind = Kind::kFault;
  Message message;
};

/// The rules beside the table that a step applied: for statistics, and a checker that wants each of them met.
// clang-format off
#define OCM_CACHE_RULES(X)                                                                             \
  X(kRefused) X(kReadFailed) X(kReadBad) X(kReadBadRescue) X(kReadNowFetch) X(kWriteFailed)            \
  X(kForgetRequest) X(kWriterGone) X(kAckOfGone) X(kGrantCancelled) X(kAskAgainNoSupplier)             \
  X(kBytesLostOnTheWay) X(kGrantMayBeUsed) X(kYoursInterrupted) X(kSupplierAlone) X(kSupplierShares)   \
  X(kSupplierGave) X(kSupplierKept) X(kRequesterHas) X(kRequesterWaits) X(kBothGone) X(kOverdueHas)    \
  X(kOverdueWaits) X(kRecalled) X(kRecalledStored) X(kRecalledNobodyWaits) X(kRecallSupplierGone)      \
  X(kRescue) X(kRescued) X(kRescueNext) X(kRescueNobody) X(kRescueNotStored) X(kRescueLastPut)         \
  X(kLastPutLost) X(kSharerGone) X(kOwnerGoneClean) X(kOwnerGoneDirty) X(kCandidateGone) X(kReturned)  \
  X(kReturnedKept) X(kReturnedWaits) X(kReturnedInDoubt) X(kReturnedLate) X(kReturnedEmptyCurrent)    \
  X(kReturnedEmptyLost) X(kReturnedEmptyOthers) X(kGraceOver) X(kOlderDone)
// clang-format on
enum class Rule : uint8_t {
#define X(name) name,
  OCM_CACHE_RULES(X)
#undef X
};
std::string_view rule_name(Rule rule);
inline constexpr size_t kRules = static_cast<size_t>(Rule::kOlderDone) + 1;
static_assert(kRules <= 64, "a step has a bit for each");

struct DirectoryStep {
  DirectoryPage page;
  Few<DirectoryAction, 4> actions;
  uint64_t rules = 0;  // 1 << Rule
  uint64_t cells = 0;  // of the table: 1 << (state * kDirectoryColumns + column)
  bool fault = false;  // of message.from: nothing was changed
};

DirectoryStep step(DirectoryPage page, const DirectoryEvent& event, const DirectoryPolicy& policy);

}  // namespace ocm::cache
