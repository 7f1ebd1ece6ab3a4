// Making the lost replicas of a part again, while its bytes are in use: the steps of the home of the first living
// replica, which leads. Pure.
//
//   part [A lost, B]       B is the only one that answers; its home knows that from the votes (control/loss.h)
//   begin    B gets a second id B' on the same bytes; a spare home reserves C. Nobody knows B' and C.
//   copy     C := B', while programs write to B                                             (round by round)
//   freeze   B answers REVOKED and no operation on it is under way
//   compare  C = B', chunk by chunk; what differs is copied
//   decide   the spare home hears that [B' C] may follow; then a majority: [A B] is over, B' follows (R9)
//   give     the spare home: C is of the owner of B, in the part [B' C]
//   switch   B is over for good; who asks for it gets [B' C], which answer from now on
//
//   part [A lost, B, P]    P lives, too: its home cannot be told in the same moment
//   begin    P gets a second id P' as well, which answers REVOKED
//   decide   P's home hears that [B' P' C] may follow, too
//   give     P's home, when no operation on P is under way: P is over for good, P' answers. It does so, too, when a vote
//            tells that the part is over, whether the home that leads still lives or not.
//
//   kReserve -> kCopy -> kCompare -(little differs, or enough rounds)-> kFreeze -> kCompare -> kDecide -> kGive -> kSwitch -> kDone
//      |          |         |                                              |           |          |                  \-- unheard: kGive again
//      v          v         v                                              v           v          v
//   kRelease <--kThaw (if frozen)------------ a step failed, or B was freed ------------------------- -> kOver
//
// Invariants
//   M1 an operation on B that was answered well before the freeze is in B', and so in C when it is given; one that
//      was not answered before it is answered REVOKED, and is posted again to the whole part.
//   M2 C is told to nobody before it equals the frozen B', and B' to nobody but the spare homes. So each part that is
//      told has equal bytes, and each operation is of one part: all of [A B] or all of [B' C].
//   M3 from the first kGive on B never answers again: the spare home may lead others to [B' C] when this one is
//      gone. C leaves that part only by a decision of the council (control/loss.h).
//   M4 before it any failure ends in B as it was: what was reserved is released until that is heard.
//   M5 a copy that was not answered may still write: what it wrote to is released and never given.
//   M10 nobody is told of the part that follows before it is decided; from then on neither B nor P acknowledges anything, and
//      P' answers only when nothing is under way on P. What no majority answered may be decided: B stays frozen. P may be read
//      until its home hears of it, or has no lease any more: before that nobody acknowledges a put without P'.
//
// What the homes and daemons around it must keep, or M1 to M5 do not suffice (tests/model/remake_model.cpp breaks each)
//   M6 it begins when nobody can read A any more: the home asked the council as a writer does (LossAsker::kLost). That
//      a vote names A as lost is not enough: A's lease may still run while [B' C] acknowledges puts (R7).
//   M7 a freeze lasts from the first refusal until B answers again, also while operations end: who asks for B waits
//      (is_frozen()). A put that stores by itself (shm) looks at its slot again after its stores and a full fence.
//   M8 the spare home frees C on a vote that names it also while it is only reserved; it refuses a reservation or a
//      give of what was released or freed; it frees what was only reserved when the daemon that leads is over.
//   M9 a writer has a replica given up only where another of the same part took the whole put.
//   M11 the home that leads goes on giving C when B' was given up meanwhile, for C may be the last. But once others may know
//      [B' C], it may not hear who owns the part now: C changes its owner for it only while it is reserved. It is released
//      only where its owner freed the part, or the owner's session or name has ended.
//   M12 who has a plan keeps its replica until it knows what became of it: that it follows, from the home that leads, from a
//      vote, or from voters that remember the end; or that it does not, from that home's release or from a majority that
//      remembers the part without an end (LossAsker::settling). Voters that forgot it know nothing. So that they remember, the
//      home that leads says that B is gone only when all have heard kGive. "Without an end" is true only for a while where B is
//      the last: B's home may stand still, and have it decided later. So it counts only if B's home has answered nobody here
//      for three failure deadlines, and the voters in less than a third of one. B's home goes on without C only after a give
//      to C's home has failed, or was refused; it misses C then, and does not say that B was made again.
#pragma once

#include <cstdint>

namespace ocm::control {

class Remake {
 public:
  enum class Step : uint8_t {
    kReserve,
    kCopy,
    kCompare,
    kFreeze,
    kDecide,
    kGive,
    kSwitch,
    kThaw,
    kRelease,
    kDone,
    kOver
  };

  /// While programs write: so often, and until no more than this differs.
  static constexpr uint8_t kRoundsMax = 5;
  static constexpr uint64_t kLittleBytes = uint64_t{1} << 20;

  /// What to do next.
  Step next() const { return step_; }
  /// It was done. `changed_bytes`: of kCompare, what differed and was copied.
  void done(uint64_t changed_bytes = 0);
  /// It was not, or nobody knows whether it was. Of kDecide: it never will be.
  void failed();
  /// B is freed: nobody needs the copy.
  void freed();
  /// At kGive, of which nothing was sent now: the owner's name has ended, and who still holds the bytes reads them here.
  void unwanted();
  /// Nobody will hear kGive or kRelease any more: the node of the spare home is gone, or the replica there is.
  void spare_is_gone();

  bool is_switched() const { return switched_; }
  /// B answers REVOKED or may do so already: who asks for it waits.
  bool is_frozen() const { return frozen_ || step_ == Step::kFreeze || step_ == Step::kThaw; }
  /// The spare home may have heard that C is given (M3).
  bool may_be_given() const { return may_be_given_; }

 private:
  uint8_t rounds_ = 0;
  Step step_ = Step::kReserve;
  bool frozen_ = false;
  bool may_be_given_ = false;
  bool given_ = false;
  bool switched_ = false;
};

}  // namespace ocm::control
