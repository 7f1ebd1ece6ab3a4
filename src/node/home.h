// The home role: makes extents for sessions of any node, and gives them back when their owners are gone.
//
// Every extent here is owned by a session, vouched for by its daemon, or by a name (control/ownership.h).
// Threads: the loop's; the table and the directory below are thread-safe.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "cache/caches.h"
#include "control/home_requests.h"
#include "control/recent.h"
#include "control/turns.h"
#include "node/core.h"
#include "node/directory.h"
#include "node/side_threads.h"

namespace ocm::node {

class Home {
 public:
  static Result<std::unique_ptr<Home>> make(Core& core);
  ~Home();
  /// The node ends. Programs of this host go on to read what they have mapped, whatever is freed from now on.
  void keep_mapped_pages() { table_->keep_mapped_pages(); }

  /// Makes an extent for the session. On failure `pool` still gets the home's view.
  /// Errors: kPoolFull, kQuota, kLimit, kUnsupported, kNoMemory, kNoFds, kInvalidArgument.
  control::Task<Result<ExtentDescriptor>> reserve(control::ReserveRequest request, control::PoolInfo& pool);
  /// The holder of the capability or the owning session gives it back; of what is held as drop() says.
  /// Errors: kRevoked, kNotFound, kPermission.
  Status release(const control::ReleaseRequest& request);
  /// `incarnation`: of its daemon. What comes from it for the session afterwards is refused; a session that goes on
  /// under another one does not end.
  void end_session(const SessionId& session, const control::Incarnation& incarnation);
  /// The session goes on, under this incarnation of its daemon.
  control::SessionExtents resume(const SessionId& session, const std::string& node,
                                 const control::Incarnation& incarnation);
  /// To the name, back to the session, or freed. Extents of other nodes in it are not looked at. What is durable of it is
  /// so, or is so no more, once kept() has said so.
  Status publish(const control::NameChange& request);

  // ---- what its pools keep beyond this run: see home_kept.cpp
  /// What they kept of former runs gets its names back. Before others are heard; waits for devices.
  Status revive();
  /// What was published, and what has ended, before, is so after a crash of this node, as far as it is durable. Errors: kIo.
  control::Task<Status> kept();
  /// Begins a hold. Errors: kCancelled, kLimit.
  /// Of `request.extents`, in their order, those that no name has here (any more).
  Result<std::vector<ExtentId>> hold(const control::HoldRequest& request);
  void end_hold(const SessionId& session, const control::HoldId& hold);
  /// Frees a replica that the cluster gave up, for a vote that names it (control/loss.h, R6) or for a newer record of its
  /// name (control/names.h, N8), and nothing else.
  /// What is held answers kRevoked from now on, but its pages stay for those who read them through pointers,
  /// until the last hold ends.
  void drop(ExtentId id);
  /// A voter knows what the part of `id`, a replica here, has lost, and whether it is over. False if it is here no
  /// more.
  bool note_lost(ExtentId id, const std::vector<ExtentId>& part, const std::vector<ExtentId>& lost,
                 const std::optional<ExtentId>& ended);

  // ---- a part that is made again: see control/remake.h. The ids of its former replicas lead to the present one here.
  static std::optional<ExtentId> first_living(const std::vector<ExtentId>& part,
                                              const std::vector<ExtentId>& lost) {
    const auto first =
        std::find_if(part.begin(), part.end(), [&](ExtentId one) { return !is_in(lost, one); });
    return first == part.end() ? std::nullopt : std::optional(*first);
  }
  struct ShortPart {
    ExtentId id;                 // the replica here
    std::vector<ExtentId> part;  // as it was made
    std::vector<ExtentId> lost;  // in the order of the decisions
    /// Replicas: more than `part` has where there was no room for all when it was made again.
    size_t wanted = 0;
    size_t living() const { return part.size() - lost.size(); }
    /// Whose home makes it again; none if all are lost.
    std::optional<ExtentId> leader() const { return first_living(part, lost); }
  };
  /// Replicas here that somebody owns and whose parts miss others: of the first living one, whose home makes them
  /// again; and of the last.
  std::vector<ShortPart> led_parts() const;
  std::vector<ShortPart> last_replicas() const;
  /// The same of those that another home makes again.
  std::vector<ShortPart> followed_parts() const;
  /// What is decided to be lost of the part of a replica here, as far as its votes told.
  std::vector<ExtentId> lost_of(ExtentId id) const {
    const auto known = degraded_.find(id);
    return known == degraded_.end() ? std::vector<ExtentId>() : known->second.lost;
  }
  /// What names own here without a record of them here: nobody would free it with its name.
  std::vector<ExtentId> nameless() const;
  /// Null if nobody owns it.
  const control::Title* title(ExtentId id) const { return ownership_.find(id); }
  std::optional<control::Ownership::Vouching> vouching(const SessionId& session) const {
    return ownership_.vouching(session);
  }
  /// A second id for the bytes of a replica. Errors: those of ExtentTable::share().
  Result<ExtentDescriptor> share(ExtentId id);
  /// Ends what share() made.
  void unshare(ExtentId id);
  /// The same for a home that leads elsewhere: the second id answers REVOKED until switch_over(). Errors: those of
  /// share(), kExists (a plan that may be decided has one).
  Result<ExtentDescriptor> share_closed(ExtentId id);
  void unshare(ExtentId id, ExtentId second);
  /// The part that may follow the one of `plan.replica`, here. Errors: kNotFound (it has not the second id).
  Status plan(control::PlannedPart plan);
  /// Null if there is none.
  const control::PlannedPart* plan_of(ExtentId id) const;
  const std::map<ExtentId, control::PlannedPart>& plans() const { return planned_; }
  /// The replica of which this is the second id, which does not answer yet.
  std::optional<ExtentId> planned_as(ExtentId second) const;
  /// The replica answers nobody. Nothing is under way on it once what is given is expired.
  Result<std::weak_ptr<fabric::ServedExtent>> freeze(ExtentId id);
  void thaw(ExtentId id);
  /// Ends the frozen replica here in favour of the one of `part.now` that is here.
  void switch_over(ExtentId was, control::PartMoved part);
  /// The part goes on elsewhere: its one extent here is over, and leads there (L1 of control/parts.h). Nobody may store to
  /// it any more, and its bytes are there. Errors: kRevoked (it is over already), kUnsupported (a replica, whose council
  /// would have to decide).
  Status leave(const control::PartMoved& part);
  /// A replica that another home had made here goes to its owner; `told`: its part leads to it from now on.
  /// Errors: kInvalidArgument, kNotFound, kCancelled.
  Status give(const control::GivenReplica& request, bool told = true);
  /// A replica that somebody owns by now: its part leads to it.
  void lead_to(const control::PartMoved& part, ExtentId id) {
    if (has(id) && made_as(id) == nullptr) remember(part, id);
  }
  /// Of the holds that come with a replica that was given, those that were not known here.
  std::vector<control::Ownership::HeldBy> take_holds(const control::GivenReplica& request);
  std::vector<control::Ownership::HeldBy> holds_on(ExtentId id) const { return ownership_.holds_on(id); }
  bool has_hold(const control::Ownership::HeldBy& by) const {
    return ownership_.has_hold(by.session, by.hold);
  }
  auto holders_of_the_ended() const { return ownership_.holders_of_the_ended(); }
  bool has_hold(const SessionId& session, const control::HoldId& id) const {
    return ownership_.has_hold(session, id);
  }
  /// Frees a replica that was made here for nothing.
  void discard(ExtentId id) { (void)remove(id); }
  /// It lives here, and is not frozen.
  bool has(ExtentId id) const { return table_->is_live(id); }
  /// None if it is not here.
  std::optional<Kind> kind_of(ExtentId id) const;
  /// The replica here of which `id` is the second id, which may not answer yet; itself otherwise.
  ExtentId first_of(ExtentId id) const {
    const auto first =
        std::find_if(shared_.begin(), shared_.end(), [id](const auto& one) { return one.second == id; });
    return first == shared_.end() ? id : first->first;
  }
  bool is_second(ExtentId id) const { return first_of(id) != id; }
  /// The same, also frozen.
  bool is_here(ExtentId id) const { return frozen_.contains(id) || has(id); }
  /// The same, or under a second id, or it knows what the replica became.
  bool knows(ExtentId id) const { return is_here(id) || is_second(id) || remade(id) != nullptr; }
  /// The name's allocation that has this extent of this home; null if none has.
  const control::Allocation* published_with(ExtentId id) const;
  /// The replica here that `id` became; itself otherwise.
  ExtentId present(ExtentId id) const;
  /// The former ids of a replica of this home, the oldest first.
  std::vector<ExtentId> formerly(ExtentId id) const;
  /// The part that `id` was made for; null if it was not made again, or is not here.
  const control::PartMoved* made_as(ExtentId id) const;
  /// `other`, of the part of `id`, was given up, as far as this home was told.
  bool is_known_lost(ExtentId id, ExtentId other) const;
  /// How often the part of this replica of this home was made again.
  uint32_t epoch_of(ExtentId id) const;
  /// What became of a replica, if one of its part lives here.
  const control::PartMoved* remade(ExtentId was) const;
  /// Called when a replica is removed that is frozen or shared, and with the others of a part whose present replica
  /// was removed for a request that named a former one.
  void on_removed(std::function<void(ExtentId)> hook) { on_removed_ = std::move(hook); }
  /// Called when an extent answers REVOKED from now on; perhaps again when it is freed.
  void on_over(std::function<void(ExtentId)> hook) { on_over_ = std::move(hook); }
  /// Called when a replica is dropped: the cluster goes on without it.
  void on_dropped(std::function<void(ExtentId)> hook) { on_dropped_ = std::move(hook); }
  /// Called when a voter tells that the part of a replica here is over.
  void on_ended(std::function<void(ExtentId, ExtentId)> hook) { on_ended_ = std::move(hook); }
  /// Called with a part made again that a failed publish gave back to its session, its extent here and that attempt.
  void on_part_given(std::function<void(const control::PartMoved&, ExtentId, uint64_t)> hook) {
    on_part_given_ = std::move(hook);
  }
  /// Whether a former replica of this home must not be told gone yet (M12 of control/remake.h).
  void on_needed(std::function<bool(ExtentId)> hook) { on_needed_ = std::move(hook); }
  /// Called with a part made again that was held under a former id, its extent here, and the hold.
  void on_held_late(
      std::function<void(const control::PartMoved&, ExtentId, control::Ownership::HeldBy)> hook) {
    on_held_late_ = std::move(hook);
  }
  using PartFreed = std::function<void(const control::PartMoved&, const std::set<std::string>&)>;
  void on_part_freed(PartFreed hook) { on_part_freed_ = std::move(hook); }

  /// News of membership, and the clock: gives the sessions whose daemon is dead, or another, for longer than
  /// the grace. It is to be asked whether it has them (L2 of control/ownership.h).
  void owner_node(const std::string& node, const std::optional<control::Incarnation>& alive);
  /// All nodes that the coordinator knows: what others own here, who never joined, is an orphan's.
  void members(const std::function<bool(const std::string&)>& is_member);
  struct Orphan {
    SessionId session;
    std::string node;
    control::Incarnation incarnation;  // the run of it that is asked
    bool lives = false;                // as far as is known
    bool operator==(const Orphan&) const = default;
  };
  std::vector<Orphan> tick(uint64_t now_ns);
  enum class Answer { kHasIt, kHasItNot, kNone };
  /// Frees what the session has here, or not. Nothing happens if there was news of it since it was asked for.
  void answered(const Orphan& asked, Answer answer);
  /// How often a daemon came back of whose sessions something was freed, as nobody had answered for them: it does not
  /// know that it has less.
  uint32_t orphans_freed() const { return orphans_freed_; }

  /// A descriptor of the extent's memory for a program of this host.
  Result<os::Fd> open(const ExtentDescriptor& extent, Access access) const;
  /// The extent, if `capability` opens it so. Errors: kRevoked, kNotFound, kPermission.
  Result<std::shared_ptr<memory::Extent>> find(const ExtentDescriptor& extent, Access access) const;

  /// The published allocations that have extents here.
  const std::unordered_map<AllocationId, control::Allocation>& published() const { return published_; }
  Result<os::Fd> share_generations() const;
  uint32_t slots() const { return slots_; }
  control::PoolInfo pool(Kind kind) const;
  /// Of every kind that it can offer.
  std::vector<control::PoolInfo> pools() const;
  uint64_t extents() const { return table_->extents(); }
  uint64_t extents_sharing_file() const { return ownership_.all().sharing; }
  uint32_t next_generation() const { return table_->next_generation(); }
  /// What somebody owns here.
  struct Owned {
    uint64_t extents = 0, bytes = 0;
  };
  Owned owned() const { return {ownership_.all().extents, ownership_.all().bytes}; }
  Directory& directory() { return *directory_; }
  /// Null: nothing is cached here.
  cache::Caches* caches() const { return caches_.get(); }
  /// The invariants of the table (T1 to T3) and of the titles, and that nobody reaches what is nobody's; O(extents).
  bool is_valid() const;

 private:
  explicit Home(Core& core)
      : core_(core), freed_(core.env), populating_(core.env, 1), side_(core.env, kPopulatingUsersMax) {}
  Status init();
  /// What a pool knows its cluster by; empty: the cluster has no token that lasts.
  std::string cluster() const;
  Status check_reserve(const control::ReserveRequest& request) const;
  Status check_share(const control::ReserveRequest& request) const;
  /// Those that a user's extents have already.
  Status check_files(uint32_t uid) const;
  /// One of limited things that extents take: `what` of `most`, the limit's setting in words.
  Status check_share_of(uint32_t uid, size_t control::Ownership::User::*what, uint64_t most, const char* name,
                        const char* limit) const;
  /// What all users but the privileged have together.
  uint64_t of_users(size_t control::Ownership::User::*what) const;
  static uint64_t most_files();
  /// At most `wanted`: their table is a file (`ulimit -f`).
  static uint32_t most_slots(uint64_t wanted);
  static control::File file_of(const memory::Extent& extent);
  /// The fabric's server decides about each operation: nothing is written past it.
  static bool home_checks(Fabric fabric);
  /// Its pool has a kind whose extents can be coherent.
  bool may_be_coherent(Kind kind) const;
  /// Programs of its node map it not, though its kind is mapped: it shares a file, or nodes may cache it.
  static bool is_unmapped(const memory::Extent& extent);
  /// A fabric whose home checks each operation, which is how programs of this node reach what they cannot map.
  bool network_leads_here() const;
  /// It is small, and the network leads to it: it need not have a file of its own.
  bool may_share_file(const control::ReserveRequest& request) const;
  /// There are descriptors enough for one that may share a file to have its own.
  bool gets_file(uint32_t uid) const;
  using Made = Result<std::shared_ptr<memory::Extent>>;
  struct Making;
  control::Task<Made> make_extent(const Making& making, uint64_t bytes, Kind kind,
                                  memory::ExtentOptions options);
  ExtentDescriptor describe(const memory::Extent& extent) const;
  Status remove(ExtentId id);
  /// The table has it no more, and nobody is to reach it.
  void revoke(ExtentId id);
  /// Also a frozen one.
  Result<std::shared_ptr<memory::Extent>> find_frozen_too(ExtentId id) const;
  void remember(const control::PartMoved& part, ExtentId here);
  /// Who asks for one of these ids learns where its part goes on.
  void lead_on(const std::vector<ExtentId>& former, const control::PartMoved& part);
  void forget_replica(ExtentId id);
  void add_published(const control::Allocation& allocation);
  void erase_published(const AllocationId& allocation);
  /// Without what its pools keep of it.
  void erase_record(const AllocationId& allocation);
  /// Its pools keep what is durable of a published allocation here. Errors: kLimit, kIo: nothing is kept.
  Status keep(const AllocationId& allocation);
  /// False if they did not keep it.
  bool forget(ExtentId id);
  Status revive(Kind kind, control::GivenReplica give, std::unique_ptr<memory::Backing> backing,
                std::map<AllocationId, control::Allocation>& records);
  /// Whether it names the living extents that are published here as its own: else nobody would free the
  /// others.
  bool has_all_published(const control::Allocation& allocation) const;
  /// The extent lives no more.
  void unpublish(ExtentId id);
  /// Frees it, or, where a name's holders read it, ends its life but keeps its pages for them.
  Status leave_out(ExtentId id);
  /// What is nobody's any more (L7 of control/ownership.h): nobody reaches it from now on, and it is freed in turns, for its
  /// home has others to answer.
  void free_all(const std::vector<ExtentId>& ids);
  void free_some();
  control::Task<void> free_in_turns();
  /// What refused an extent may be what is still to be freed.
  bool may_be_freed_soon(Code refused) const;
  /// Its node was away when it was given up, and the voters that did so have forgotten it: the newest record of the name
  /// tells.
  void drop_former(const ExtentDescriptor& extent);
  void free_session(const SessionId& session);
  /// Something was given to a session of this incarnation, which may be dead already.
  void check_owner(const std::string& node, const control::Incarnation& incarnation);
  static std::string over_key(const SessionId& session, const control::Incarnation& incarnation) {
    return id_field(session) + id_field(incarnation);
  }
  static std::string over_key(uint64_t attempt) { return "publish " + std::to_string(attempt); }

  Core& core_;
  os::Fd generations_fd_;
  os::Fd generations_read_only_;
  os::Mapping generations_;
  uint32_t slots_ = 0;
  uint64_t files_max_ = 0;                 // descriptors, and mappings, that extents may take
  bool told_of_sharing_ = false;           // in the log
  std::shared_ptr<cache::Caches> caches_;  // null: none
  std::unique_ptr<memory::ExtentTable> table_;
  std::unique_ptr<Directory> directory_;
  control::Ownership ownership_{::geteuid()};
  /// Reservations under way; cancelled ones are undone as soon as they are there.
  struct Making {
    SessionId session;
    control::Incarnation incarnation;
    AllocationId allocation;
    uint32_t uid = 0;
    bool cancelled = false;
  };
  std::list<Making> making_;
  std::optional<Orphan> orphan(const SessionId& session) const;
  control::Ownership::Patience patience() const {
    return {core_.config.orphan_grace_ns(), core_.config.failure_deadline_ns()};
  }
  void free_orphan(const SessionId& session);
  std::set<std::string> freed_of_;  // whose daemons, by node, did not answer
  uint32_t orphans_freed_ = 0;
  /// What late messages must not begin again: sessions of an incarnation, allocations that were given up,
  /// and attempts to publish that were undone.
  control::Recent<> over_{control::kOverMax};
  std::unordered_map<std::string, std::optional<control::Incarnation>> nodes_;  // the news of membership
  bool has_strangers_ = false;  // something was given to sessions of nodes that are not there
  std::unordered_map<AllocationId, control::Allocation> published_;
  struct Degraded {
    std::vector<ExtentId> part, lost;
    size_t wanted = 0;  // as ShortPart
  };
  std::vector<ShortPart> short_parts(const std::function<bool(ExtentId, const Degraded&)>& which) const;
  std::map<ExtentId, Degraded> degraded_;  // replicas here
  std::map<ExtentId, std::shared_ptr<memory::Extent>> frozen_;
  std::map<ExtentId, ExtentId> shared_;                 // replica -> its second id
  std::map<ExtentId, control::PlannedPart> planned_;    // by replica here, whose second id does not answer
  std::map<ExtentId, control::PartMoved> remade_;       // by former replica
  std::map<ExtentId, std::vector<ExtentId>> formerly_;  // present replica here -> the former ones
  std::deque<ExtentId> left_;                           // of remade_: what leads elsewhere, the oldest first
  std::function<void(ExtentId)> on_removed_, on_dropped_, on_over_;
  std::function<void(ExtentId, ExtentId)> on_ended_;
  PartFreed on_part_freed_;
  /// The owner of a replica here has ended: so have those of `part`, which it was made again into (null: none), and of
  /// what a home that leads plans for it. `owners`: only while one of these has them; empty: whoever has.
  void tell_part_freed(const control::PartMoved* part, ExtentId id,
                       const std::set<std::string>& owners = {}) const;
  std::function<void(const control::PartMoved&, ExtentId, uint64_t)> on_part_given_;
  std::function<void(const control::PartMoved&, ExtentId, control::Ownership::HeldBy)> on_held_late_;
  std::function<bool(ExtentId)> on_needed_;
  /// Their extents that live here, to the allocation's id; and how many each has.
  std::unordered_map<ExtentId, AllocationId, control::ExtentHash> published_extents_;
  std::unordered_map<AllocationId, size_t> published_living_;
  std::map<ExtentId, std::shared_ptr<memory::Lasting>> kept_;  // K1 of home_kept.cpp
  uint64_t kept_changes_ = 0;                                  // so far
  uint64_t kept_promised_ = 0;                                 // of them
  /// Dropped, and still held.
  std::unordered_map<ExtentId, std::shared_ptr<memory::Extent>, control::ExtentHash> retired_;
  std::deque<std::shared_ptr<memory::Extent>> to_free_;  // suspended, or removed meanwhile
  std::array<uint64_t, kKindsMax> to_free_bytes_{};
  control::Signal freed_;  // one turn of them
  /// Of each user one extent is populated at a time, and those of others beside it: a large one takes seconds.
  static constexpr size_t kPopulatingUsersMax = 8;
  control::Turns populating_;
  SideThreads side_;  // last: its work uses the table
};

}  // namespace ocm::node
