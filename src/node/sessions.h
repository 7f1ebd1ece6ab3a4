// The sessions of this host's programs: who they are, what they hold, and their end.
//
// Invariants
//   P1 an allocation is in its session's table exactly while its extents are owed back: published and attached
//      ones are there too, marked, and are not freed with the session.
//   P2 the end of the connection is the end of the session: every home that holds something of it is told, again
//      and again until it has answered or is gone. What has ended begins no more in this run.
//   P3 one uid has at most half of the sessions; root and the daemon's own user may have all.
//   P4 what a receipt says of a session that resumed is believed, but for one thing: the session owns an
//      allocation only if a home says so of one of its extents. It may have been published or freed since.
//   P5 a session that resumed ends with the connection only if its program has shown there what it has, and said so or
//      something else. One that gave up its hello, because this daemon stood still, or had no memory to go on after it
//      had shown receipts, comes again and finds the session, for deadline and grace.
//   P6 what homes report of former runs and a program does not have, when it has shown all, is given back: what was
//      freed or made when the daemon ended, and was not heard.
//   P7 telling a session of nodes writes into its page and waits for nobody, whatever the program does with it.
//   P8 a session is its user's: another uid does not take it up, its key or not. Homes charge the uid that is in its id.
// Threads: the loop's.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/assert.h"
#include "control/allowance.h"
#include "control/home_requests.h"
#include "control/ownership.h"
#include "control/recent.h"
#include "control/rpc.h"
#include "fabric/shm/tables.h"
#include "node/core.h"
#include "node/records.h"
#include "os/crypto.h"
#include "os/memory.h"

namespace ocm::node {

struct Session {
  explicit Session(control::Env& env) : goes_on(env) {}

  SessionId id;
  uint32_t uid = 0;
  uint32_t pid = 0;
  std::string program;
  bool ended = false;
  bool resumed = false;     // its daemon restarted under it
  bool resuming = false;    // the homes have not been told of that yet
  control::Signal goes_on;  // it is not resuming any more, has ended, or a request to publish has
  bool heard = false;       // its program had the answer to its hello, has shown what it has, and said more
  bool waiting = false;     // for its program, which closed the connection before it was heard
  size_t hellos = 0;
  Records allocations;
  /// Extents that are in `allocations` only because homes reported them, by address: the ids they know.
  std::unordered_map<uint64_t, AllocationId> reported;
  std::set<ExtentId> given_back;  // what it freed before its home had reported it
  /// Homes reported other extents than a receipt has: parts were made again after it was given.
  std::unordered_set<AllocationId> outdated;
  bool follows_outdated = false;
  /// What homes have of it, by node, as they told last since its daemon restarted.
  std::map<std::string, std::unordered_set<ExtentId, control::ExtentHash>> told;
  /// Extents that its program has shown and that their homes did not tell of: freed while its daemon was away, perhaps.
  std::unordered_set<ExtentId, control::ExtentHash> missing;
  /// Homes have these for it, and no record that is up to date does: nothing counts on them.
  std::unordered_set<ExtentId, control::ExtentHash> outside;
  std::unordered_set<AllocationId> looked_for;  // for such ones, now
  /// Handles that ended while this daemon was away, as the program shows, each by its hold; empty: without one.
  std::unordered_map<AllocationId, std::vector<std::string>> freed;
  bool give_back_due = false, giving_back = false;
  size_t restored_bytes = 0;                // of receipts, and of the holds that were shown
  control::Charge restored;                 // the same, of its user's
  bool refused = false;                     // one of them
  bool complete = false;                    // its program has shown all that it has of former runs (P6)
  std::unordered_set<AllocationId> making;  // in this run, and not in `allocations` yet
  // By their order, as hashes of what a program shows may be the same.
  std::map<control::HoldId, AllocationId> holds_shown;
  std::set<control::HoldId> holds_reported;                // by homes, and not begun in this run
  std::set<std::string> homes;                             // other nodes that may hold something of it
  std::map<control::HoldId, std::set<std::string>> holds;  // and the nodes that were asked, or are to be
  /// Extents of other nodes that are cached here for it (node/cached_extents.h), for as long as these live.
  std::map<ExtentId, std::shared_ptr<const void>> cached;
  uint64_t bytes_held = 0;
  os::Mapping page;            // fabric/shm/tables.h: counters, written by the program; what is told of nodes
  uint64_t nodes_version = 0;  // the page's, where a program may write what it likes
  std::shared_ptr<struct EventStream> events;  // null: its program has not asked for any
  Moved moved;  // of the page: never falls, nor grows faster than any machine could
  uint64_t moved_at_ns = 0;
};

/// Why nothing is done with what the session holds as `claimed_quota_bytes`: kRevoked (all homes have freed it), kPeerLost.
Status unsettled(const Session& session, const HeldAllocation& held);

class Sessions {
 public:
  /// What one session may show after a restart: 300,000 small allocations, or 64 of the longest sequences; their holds,
  /// too.
  static constexpr size_t kRestoredBytesMax = size_t{256} << 20;
  static_assert(kRestoredBytesMax >= wire::kNodeBytesMax, "more than one message shows");
  /// And all sessions of one user.
  static constexpr size_t kUserRestoredBytesMax = 2 * kRestoredBytesMax;
  /// A record that is shown counts as so much, and control::kKeptBytesPerWireByte.
  static constexpr size_t kShownRecordBytes = 384;
  /// A hold that is shown counts as so much for each home, and for each extent: what it takes here until its session ends,
  /// and for how long it keeps this daemon busy.
  static constexpr size_t kShownHoldBytes = 320, kShownHoldExtentBytes = 16;

  explicit Sessions(Core& core)
      : core_(core), receipt_mac_(os::hmac_sha256(core.token, {os::bytes_of("oncilla receipts")})) {}

  /// Takes a new session, or one that resumes with its key and uid, once in this run or while it waits for its program.
  /// Gives the session and the page's descriptor.
  /// Errors: kLimit, kAuth (also where it has ended), kExists, kProtocol, kDraining, kNoFds.
  struct Opened {
    std::shared_ptr<Session> session;
    os::Fd page;
  };
  Result<Opened> open(const wire::SessionHello& hello, uint32_t uid, uint32_t pid);
  /// It is over: this run does not take it up again, for its homes, once told, do not either.
  void end(const std::shared_ptr<Session>& session);

  /// Tells all sessions which runs of daemons are dead or drain from now on, where these are others than before.
  void tell(std::vector<fabric::shm::NodeWord> nodes);

  /// Charges the user's quota. Errors: kQuota.
  Status charge(uint32_t uid, uint64_t bytes);
  void refund(uint32_t uid, uint64_t bytes);

  /// The memory of this daemon that the record of an attached allocation takes, which has so many bytes in a message, charged to the user for as long as what it
  /// returns lives. Errors: kLimit.
  Result<std::shared_ptr<control::Charge>> charge_record(uint32_t uid, size_t message_bytes);

  /// Reads the pages. The sum over all sessions, also those that have ended; never falls.
  Moved moved();

  size_t count() const { return sessions_.size(); }
  /// Until one ends, until `deadline_ns` at most.
  control::Task<void> next_end(uint64_t deadline_ns) { return ended_.wait_until(deadline_ns); }
  const std::unordered_map<SessionId, std::shared_ptr<Session>>& all() const { return sessions_; }
  std::string resume_key(const SessionId& id) const;
  /// P1, P3, P4, P8, what an ended one has left, and what is charged; O(allocations).
  bool is_valid() const;

  // ---- what a session brings along after this daemon restarted: sessions_resume.cpp
  /// Shows this daemon's next run what the session holds; empty where there is no next run.
  std::string receipt(const SessionId& session, const HeldAllocation& held) const;
  /// The same; `allocation`: of `held`, as a message.
  std::string receipt(const SessionId& session, const HeldAllocation& held,
                      const wire::Allocation& allocation) const;
  /// Takes what the receipts say. Errors: kAuth (one is no receipt of this session), kLimit, kInvalidArgument
  /// (the daemon did not restart).
  Status restore(Session& session, const wire::SessionRestore& request);
  /// The home on `node` has these for the session, and no others.
  void report(Session& session, const std::string& node, const control::SessionExtents& extents);
  /// P6: takes out what homes have reported and its program does not have, by node.
  std::map<std::string, std::vector<ExtentDescriptor>> take_unclaimed(Session& session);
  /// Those of `extents`, of what it owns, that their homes did not tell of are its `missing`. True: there are some.
  using Extents = std::vector<control::PlacedExtent>;
  bool look_for_missing(Session& session, const Extents& extents) const;
  void look_for_missing(Session& session) const;
  /// What was claimed and a home has reported is owned from now on.
  void settle(Session& session);
  void settle(Session& session, HeldAllocation& held);

 private:
  void tell(Session& session) const;
  /// May `uid` have one more? Errors: kLimit.
  Status check_room(uint32_t uid) const;
  void look_at_page(Session& session);
  Status charge_restored(Session& session, size_t bytes);
  Status restore_one(Session& session, const wire::SessionRestore::Shown& shown);
  bool absorb(Session& session, const HeldAllocation& held);
  void own(Session& session, HeldAllocation& held);
  static void note_outdated(Session& session, const HeldAllocation& held);
  bool is_missing(const Session& session, const control::PlacedExtent& extent) const;

  os::Digest mac_of(const SessionId& session, std::string_view record) const;

  Core& core_;
  const os::Hmac receipt_mac_;  // of a key made of the token: the library keeps it where core dumps have it
  Moved moved_;
  std::vector<fabric::shm::NodeWord> nodes_;  // as told last
  std::unordered_map<SessionId, std::shared_ptr<Session>> sessions_;
  control::Signal ended_{core_.env};  // one of them
  control::Recent<SessionId> over_{control::kOverMax};
  std::unordered_map<uint32_t, uint64_t> uid_bytes_;
  std::unordered_map<uint32_t, size_t> uid_sessions_;
  control::Allowances records_{control::kUserBytesMax};
  control::Allowances restored_{kUserRestoredBytesMax};
};

}  // namespace ocm::node
