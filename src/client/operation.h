// A transfer under way: cut into legs, which are posted to the channels in a window and reaped in order.
//
//   kMoving --all legs reaped--------------------------------------------------------> kDone
//    ^   \--some replicas failed--> kConfirming --their loss is known to the cluster--^ ^
//    |                \--replicas failed, it would fail--> kResolving --nothing new-----/
//    \--the part was made again, or was frozen meanwhile-------/
//
// A leg (client/window.h) is one put or get on one extent, one atomic of a word, or one request to the daemon to copy from node
// to node. What lies on this host at both ends is copied at once and makes no leg.
//
// Invariants
//   P2 a put to replicas is done well only when every replica either took all bytes or is known to the
//      cluster as lost, so that no later get can find the old bytes.
//   P3 an operation uses one binding at each end (client/binding.h), and starts over whole with the next: what was not
//      acknowledged may be put again. The program's buffers are needed until then: puts to replicas keep them to the end,
//      and one of which the program has its buffer back ends with what it met.
//   P4 what starts over comes after what its thread started before on these allocations, and before what its
//      thread starts from then on.
//   P5 status_ is final once state_ is kDone.
//   P6 an atomic or a notification is applied once at most: it starts over only where nothing of it was sent, or its home
//      refused it.
//   P7 a daemon that left a request unanswered for its time is not asked again: it may stand still.
//   P8 puts to a replica take effect in their order, whichever connections break: what failed with one is posted anew on the
//      next when its turn to be settled comes, and nothing that comes later is posted there before.
// Threads: step() and cancel() by any thread (mutex_), the session's mover too; the handle's owner alone waits, reads and
//          destroys. Who moves it may dial a node meanwhile: nobody waits for mutex_, but who has given it up.
#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <memory>
#include <mutex>
#include <utility>

#include "client/binding.h"
#include "client/control.h"
#include "client/cutter.h"
#include "client/extent.h"
#include "client/order.h"
#include "client/polls.h"
#include "client/window.h"
#include "fabric/op.h"

namespace ocm::client {

class Session;

class Operation {
 public:
  Operation() {}  // NOLINT: a default one would be zeroed whole first, inline legs and all
  /// Waits for the end: the legs' buffers belong to the caller.
  ~Operation();
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  /// Starts moving `runs`, whose ranges were checked. `copies`: both ends are allocations.
  void start(Session& session, Runs runs, bool copies, uint64_t bytes_hint);
  /// An atomic, or (kPut) a put whose notification follows it, or (kNotify) that alone.
  struct Word {
    fabric::OpCode opcode = fabric::OpCode::kFetchAdd;
    uint64_t operand = 0, expected = 0;
    uint64_t* old = nullptr;     // of an atomic: gets the value before
    uint64_t notify_offset = 0;  // of a put: in the extent
  };
  /// `target`, in one extent with the notified word, was checked; `source`: what a put reads.
  void start_word(Session& session, const End& target, const std::byte* source, uint64_t bytes,
                  const Word& word);
  /// An operation that had nothing to do.
  void start_done() { state_.store(State::kDone, std::memory_order_release); }
  /// Moves what can be moved without blocking (apart from attaching). True when done.
  bool step();
  /// The same of one among others. `first`: those before it are done (P4). None of them waits for a thread that moves it now.
  bool step_as(bool first);
  bool step_of_mover(bool first);
  /// The same, but it waits for nobody who moves it.
  bool test();
  bool waits_for_its_turn() const { return state_.load(std::memory_order_acquire) == State::kResolving; }
  /// Of those that are looked at in the order in which they entered: whose threads have what under way. It needs no memory, and
  /// may take one for another that was not added: that one's turn comes later then.
  class Turns {
   public:
    void add(const void* thread, const Order* order) { all_.set(place(thread, order)); }
    bool has(const void* thread, const Order* order) const { return all_.test(place(thread, order)); }

   private:
    static constexpr size_t kBits = 16;
    static size_t place(const void* thread, const Order* order) {
      constexpr uint64_t kSpread = 0x9E3779B97F4A7C15ull;
      const uint64_t both = reinterpret_cast<uint64_t>(thread) * kSpread + reinterpret_cast<uint64_t>(order);
      return both * kSpread >> (64 - kBits);
    }
    std::bitset<size_t{1} << kBits> all_;
  };
  bool is_first_after(const Turns& before) const;
  void add_to(Turns& before) const;
  bool done() const { return state_.load(std::memory_order_acquire) == State::kDone; }
  /// The local buffers may be reused.
  bool locally_done();
  /// Nobody waits for it or moved it just now: it is the mover's. One that somebody sleeps for always is.
  bool is_left_alone(uint64_t now_ns);
  /// Adds what it waits for; what its channels moved so far.
  uint64_t sleeps_on(Polls& polls);
  /// Somebody is told when it is done, and the mover moves it.
  bool has_sleeper() const { return has_sleeper_.load(std::memory_order_relaxed); }
  /// `eventfd` becomes readable when it is done. False: it is.
  bool signal_when_done(int eventfd);
  /// Until done (or locally done); kDeadline if `deadline` passes first, or interrupted. It goes on then.
  Status wait(bool local, os::Deadline deadline);
  /// Until done, and its outcome; interrupted it is taken back. Of an operation that nothing comes after.
  Status run();
  /// It ends now, with kDeadline unless it was done: nothing touches the program's buffers any more, and what was posted may
  /// still be applied whole or in part. Of replicas some may have it then and others not. Who dials a node for it is interrupted.
  void take_back();
  /// The same with kCancelled, by any thread, now or, where somebody moves it, soon after. Never blocks.
  void cancel();
  /// The outcome; done() must be true.
  const Status& status() const {
    OCM_DASSERT(done());  // P5
    return status_;
  }
  /// Of the allocation, by this handle or another one that keeps an order with it.
  bool touches(const Allocation* allocation) const;
  /// By this handle.
  bool uses(const Allocation* allocation) const { return target_ == allocation || source_ == allocation; }
  Session* session() const { return session_; }
  /// The allocation is about to end, and the operation is done.
  void detach(const Allocation* allocation) {
    if (target_ == allocation) target_ = nullptr;
    if (source_ == allocation) source_ = nullptr;
  }
  Allocation* target() const { return target_; }
  Allocation* source() const { return source_; }

  /// UnderWay's list.
  Operation* next_under_way = nullptr;
  Operation** link_under_way = nullptr;
  uint64_t entered = 0;  // how manieth
  uint32_t movers = 0;   // threads that move it without holding UnderWay's lock

 private:
  enum class State : uint8_t { kIdle, kMoving, kConfirming, kResolving, kDone };
  /// An extent whose home may know of a part that goes on elsewhere.
  struct Suspect {
    Allocation* allocation = nullptr;
    ExtentId extent;
    bool maybe_frozen = false;
    bool silent = false;     // its home, and there is no replica
    bool asked = false;      // by this operation
    Code known = Code::kOk;  // what another one's question brought
    std::shared_ptr<Daemon> daemon;
    std::shared_ptr<Call> call;
  };

  struct WordUnderWay {
    Word word;
    fabric::Op notify;
  };

  void step_locked(bool first);
  void issue(const Cut& cut);
  /// `again`: its turn to be settled came, and it was not done.
  void issue_to(Cut cut, bool again = false);
  void settle(Leg& leg);
  /// A connection that broke at once may be one to an earlier run of the daemon: it is made anew, once, before a replica
  /// is given up. A node that stands still has had its time.
  bool broke_at_once(Cut& cut, const Status& status, uint64_t since_ns);
  void fail(const Status& status);
  /// True if it was a replica's failure, which is noted in the cut: another one may do.
  bool fail_cut(Cut& cut, bool blame_source, const Status& status);
  bool choose_source(Cut& cut);
  /// Puts to that replica are under way on another channel, which broke (P8).
  bool is_behind_broken(uint32_t extent, const fabric::Channel* channel);
  bool is_last_source(const Cut& cut) const;
  /// What was loaded from an extent of this host is good: it lived to the end. Errors: kRevoked, kPeerLost.
  Code source_after(const Cut& cut) const;
  /// The same of what was stored to a replica of this host.
  Code target_after(const Cut& cut) const;
  Code apply_here(const Extent& extent, std::byte* data, uint64_t offset, const std::byte* source,
                  uint64_t bytes) const;
  void take_word(fabric::Op& op);
  /// The bytes on this host, or null with `remote` set; errors are reported by fail_cut.
  Result<std::byte*> bytes_of(const End& end, const Binding* binding, uint32_t extent, bool& remote);
  Result<Attachment> attach(Extent& extent, uint64_t patience_ns);
  void progress_channels();
  /// How long a leg's node may be silent.
  uint64_t patience_ns(const Leg& pending) const;
  Result<std::shared_ptr<Call>> ask_daemon(wire::Envelope& request);
  bool test_call(Call& call, uint64_t now_ns);
  enum class Answer : uint8_t { kNone, kThere, kNoRoom };
  /// kNoRoom: the daemon had none for the request, and it may be made again now.
  Answer answer_of(Call& call, uint64_t now_ns);
  Result<std::shared_ptr<Call>> ask_for_loss(uint32_t replica);
  uint64_t call_patience_ns() const;
  void conclude();
  void conclude_confirmed();
  void finish();
  /// Holds telling_.
  void tell_sleeper();
  bool try_step(bool first, bool by_mover);
  /// Hold mutex_.
  bool step_under_lock(bool first, bool by_mover);
  void take_back_under_lock();
  /// What it ends with where it is given up.
  Status given_up() const;
  void release_busy();
  void hold_busy();
  // Starting over: operation_resolve.cpp.
  void begin();
  /// A number of it alone.
  static const void* this_thread();
  /// What the operation knows of the replicas of a part, by bit.
  struct Part {
    Allocation* allocation;
    const Binding* binding;
    uint32_t first, count;
    uint64_t failed, revoked;
  };
  Part target_part() const;
  Part source_part(const Cut& cut) const;
  /// The bytes of one end have no other extent: their part may go on elsewhere.
  Part only_part(const Cut& cut, bool source, Code code) const;
  void fail_only(const Cut& cut, bool source, const Status& status);
  /// `part` has no replica left, or one whose loss is in doubt.
  void fail_replicas(const Part& part, const Status& status);
  /// Those of `part` whose homes may know of a part that was made again: not the ones on nodes that died.
  void suspect(const Part& part);
  void finish_or_resolve();
  bool has_other_binding() const;
  void ask_of_suspects(uint64_t now_ns);
  void ask_of(Suspect& suspect);
  /// True if it started over.
  bool resolved();

  std::mutex mutex_;
  std::atomic<State> state_{State::kIdle};
  Session* session_ = nullptr;
  Allocation* target_ = nullptr;
  Allocation* source_ = nullptr;
  const Binding* target_binding_ = nullptr;  // null without an allocation
  const Binding* source_binding_ = nullptr;
  Status status_;
  Cutter cutter_;
  bool busy_held_ = false;      // hold_busy()
  bool keeps_busy_ = false;     // to the end; else until all is posted
  bool by_mover_ = false;       // the step
  bool counts_as_get_ = false;  // Allocation::gets()
  uint32_t legs_per_cut_ = 1;
  uint64_t target_failed_ = 0;   // replicas, by bit
  uint64_t target_revoked_ = 0;  // of those
  Status failure_;               // the first replica's
  bool unanswered_ = false;      // P7
  uint64_t moved_total_ = 0;     // of the channels, at the last look
  uint64_t begun_ns_ = 0;        // of gets of replicas
  uint64_t ask_again_ns_ = 0;
  uint64_t moved_at_ns_ = 0;  // when a leg was last posted to an empty window, or reaped
  std::vector<std::pair<uint32_t, std::shared_ptr<Call>>> confirmations_;
  std::vector<Suspect> suspects_;
  bool suspects_asked_ = false;
  bool loss_revoked_ = false;     // a replica was not given up, for it was only frozen
  bool replicas_failed_ = false;  // status_ is fail_replicas()'
  bool posts_again_ = false;      // what broke: nothing more is cut until all is settled (P8)
  bool buffer_given_ = false;     // back to the program, before the end
  uint32_t restarts_ = 0;
  std::unique_ptr<WordUnderWay> word_;  // null: bytes only
  std::atomic<uint32_t> waiters_{0};
  std::atomic<uint64_t> moved_by_somebody_ns_{0};  // but the mover
  std::atomic<bool> has_sleeper_{false};           // signal_when_done()
  std::atomic<Code> gives_up_{Code::kOk};          // kDeadline: take_back(); kCancelled: cancel()
  std::mutex telling_;                             // guards the next two
  int eventfd_ = -1;
  bool told_ = false;
  const void* thread_ = nullptr;  // that started it
  Window legs_;
};

}  // namespace ocm::client
