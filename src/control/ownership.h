// Who owns the extents of a home: a session, through its daemon, or a name. Pure: time is given.
//
//   session's --to_name--> name's --end_name, held--> its holders' --the last hold ends--> to be freed
//       ^----to_session-----/  \-----end_name, not held------------------------------------^
//   what a session has as it ends, and what its last hold leaves, is nobody's until it is freed (L7)
//
// Invariants
//   L1 an extent is owned by one session, by one name, or, once its name has ended, by its holders. What a
//      session owns may be held only after publishing failed halfway; the holds are void then.
//   L2 a session's orphan timer runs exactly while the daemon incarnation that vouched for it is known to be
//      dead or replaced, or no member. resume() hands the session to another incarnation and stops the timer;
//      nothing else does, for a request of the former may come late. What has run out is freed where the node,
//      asked, says that it has no such session, or is dead and does not answer: a message that was missed, or
//      a node that others cannot reach, takes nothing from a session that goes on. One question in vain is not enough: it is
//      asked a failure deadline before the grace is over, and again a deadline later; one that had the session, and may be
//      starting again, until the deadline and the grace have passed since. Each new run of it that is seen has the grace
//      from then on, for its programs take their sessions up again; one that starts again and again, four in all.
//   L3 every operation is O(what it names); only owner_node_*() and expired() walk sessions, never extents.
//   L4 `held_` has the holds that list the extent, each once. A hold belongs to a session and ends with it.
//   L5 the holds of one uid take at most `held_bytes_max` here; those of root and of the privileged user are
//      bounded for each session only.
//   L7 nobody's again is nobody's for good: it is as if it were freed, but counts as its user's until remove().
//   L6 what a name owns at a home is in a record of that name there, or in a plan of a part (M10 of remake.h): else its end
//      would not be known there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/fault.h"
#include "base/ids.h"
#include "control/allowance.h"

namespace ocm::control {

using ocm::Incarnation;
using HoldId = Bits128<struct HoldTag>;
/// Of one session at one home.
inline constexpr size_t kHeldExtentsMax = size_t{1} << 20;
/// What a hold takes at its home, where each of its extents is listed twice, and of its session's daemon.
inline constexpr size_t held_bytes(size_t extents) { return 256 + extents * (sizeof(ExtentId) + 112); }
static_assert(held_bytes(kHeldExtentsMax) <= kUserBytesMax,
              "a user may have one hold as long as there can be");

struct ExtentHash {
  size_t operator()(const ExtentId& id) const noexcept { return std::hash<GlobalAddress>{}(id.address); }
};

/// A file takes a descriptor of the extent's home.
enum class File : uint8_t { kNone, kOwn, kShared };
/// What an extent takes, and whose share of it.
struct Taken {
  uint32_t uid = 0;
  uint64_t bytes = 0;
  File file = File::kOwn;
};

/// What a home remembers of one extent's owner.
struct Title : Taken {
  AllocationId allocation;
  std::optional<SessionId> session;  // none: owned by the name of `allocation`, or by holders
  bool name_ended = false;           // freed with the last hold
  bool nobodys = false;              // L7
  uint64_t attempt = 0;              // of a name's: that published it
  /// As messages name it: a session, or an attempt to publish, for a name may be ended and given again.
  std::string owner() const {
    return session ? std::string(reinterpret_cast<const char*>(session->bytes.data()), session->bytes.size())
                   : owner_by(attempt);
  }
  bool is_named() const { return !session && !name_ended && !nobodys; }
  /// One of `owners` has it.
  template <class Owners>
  bool is_of(const Owners& owners) const {
    return std::find(owners.begin(), owners.end(), owner()) != owners.end();
  }
  static std::string owner_by(uint64_t attempt) { return "publish " + std::to_string(attempt); }
};

class Ownership {
 public:
  explicit Ownership(uint32_t privileged = 0, size_t held_bytes_max = kUserBytesMax)
      : privileged_(privileged), held_bytes_max_(held_bytes_max) {}

  void add(ExtentId id, const SessionId& session, const std::string& node, const Incarnation& incarnation,
           const AllocationId& allocation, const Taken& taken) {
    OCM_DASSERT(!titles_.contains(id));  // L1
    titles_[id] = Title{taken, allocation, session};
    owner_of(session, node, incarnation).extents.insert(id);
    all_.add(taken);
    users_[taken.uid].add(taken);
  }

  /// Of a former run of this home: its name has it.
  void add_named(ExtentId id, const AllocationId& allocation, uint64_t attempt, const Taken& taken) {
    OCM_DASSERT(!titles_.contains(id));  // L1
    Title& title = titles_[id] = Title{taken, allocation, std::nullopt};
    title.attempt = attempt;
    all_.add(taken);
    users_[taken.uid].add(taken);
  }

  /// Null if nobody owns it.
  const Title* find(ExtentId id) const {
    const auto it = titles_.find(id);
    return it == titles_.end() || it->second.nobodys ? nullptr : &it->second;
  }

  bool remove(ExtentId id) {
    const auto it = titles_.find(id);
    if (it == titles_.end()) return false;
    if (it->second.session) disown(*it->second.session, id);
    const auto user = users_.find(it->second.uid);
    OCM_DASSERT(user != users_.end());
    all_.remove(it->second);
    user->second.remove(it->second);
    if (user->second.extents == 0) users_.erase(user);
    held_.erase(id);
    nobodys_ -= it->second.nobodys ? 1 : 0;
    titles_.erase(it);
    return true;
  }

  /// What it owned is nobody's from now on (L7). Its holds have ended before.
  std::vector<ExtentId> end_session(const SessionId& session) {
    const auto owner = owners_.find(session);
    if (owner == owners_.end()) return {};
    OCM_DASSERT(owner->second.holds.empty());
    std::vector<ExtentId> out(owner->second.extents.begin(), owner->second.extents.end());
    owners_.erase(owner);
    for (const ExtentId& id : out) make_nobodys(titles_.at(id));
    return out;
  }
  /// So many are still to be freed.
  size_t nobodys() const { return nobodys_; }

  /// The same bytes, their owner and holders, under another id. False if nobody owns `was`.
  bool rename(ExtentId was, ExtentId now) {
    const auto it = titles_.find(was);
    if (it == titles_.end() || it->second.nobodys || titles_.contains(now)) return false;
    const Title title = it->second;
    titles_.erase(it);
    titles_.emplace(now, title);
    if (title.session) {
      auto& extents = owners_.at(*title.session).extents;
      extents.erase(was);
      extents.insert(now);
    }
    auto held = held_.extract(was);
    if (held.empty()) return true;
    for (const auto& [hold, session] : held.mapped()) {
      std::vector<ExtentId>& listed = owners_.at(session).holds.at(hold);  // L4
      OCM_DASSERT(lists(listed, was) && !lists(listed, now));
      listed.erase(std::lower_bound(listed.begin(), listed.end(), was));
      list(listed, now);
    }
    held.key() = now;
    held_.insert(std::move(held));
    return true;
  }
  /// From the session that made it to the one that it was made for, as an extent of its allocation.
  bool give(ExtentId id, const AllocationId& allocation, const SessionId& session, const std::string& node,
            const Incarnation& incarnation) {
    if (!to_name(id, 0)) return false;
    titles_.find(id)->second.allocation = allocation;
    return to_session(id, session, node, incarnation);
  }
  /// The same, to a name.
  bool give_to_name(ExtentId id, const AllocationId& allocation, uint64_t attempt) {
    const auto it = titles_.find(id);
    if (!to_name(id, attempt)) return false;
    it->second.allocation = allocation;
    return true;
  }
  /// Who vouches for a session here; null if it owns and holds nothing.
  struct Vouching {
    std::string node;
    Incarnation incarnation;
  };
  std::optional<Vouching> vouching(const SessionId& session) const {
    const auto it = owners_.find(session);
    if (it == owners_.end()) return std::nullopt;
    return Vouching{it->second.node, it->second.incarnation};
  }

  /// From the session to the name of its allocation.
  bool to_name(ExtentId id, uint64_t attempt) {
    const auto it = titles_.find(id);
    if (it == titles_.end() || it->second.nobodys) return false;
    if (it->second.session) disown(*it->second.session, id);
    it->second.session.reset();
    it->second.attempt = attempt;
    return true;
  }
  /// Back to the session, when publishing failed halfway.
  bool to_session(ExtentId id, const SessionId& session, const std::string& node,
                  const Incarnation& incarnation) {
    const auto it = titles_.find(id);
    if (it == titles_.end() || it->second.session || it->second.nobodys) return false;
    it->second.session = session;
    it->second.name_ended = false;
    owner_of(session, node, incarnation).extents.insert(id);
    return true;
  }

  /// The name is over, or goes on without the extent. True if the extent is to be freed now; else its last
  /// hold will say so.
  bool end_name(ExtentId id) {
    const auto it = titles_.find(id);
    if (it == titles_.end() || it->second.session || it->second.nobodys || !held_.contains(id)) return true;
    if (fault::at(fault::Point::kHoldIgnored)) return true;
    it->second.name_ended = true;
    return false;
  }

  /// Holds those of `extents` that a name owns; gives the others. What the hold lists already stays as it is.
  /// Errors: kLimit.
  Result<std::vector<ExtentId>> hold(const SessionId& session, const std::string& node,
                                     const Incarnation& incarnation, const HoldId& id,
                                     const std::vector<ExtentId>& extents) {
    const auto known = owners_.find(session);
    const size_t before = known == owners_.end() ? 0 : known->second.held;
    OCM_DASSERT(before <= kHeldExtentsMax);
    if (extents.size() > kHeldExtentsMax - before)
      return Status(Code::kLimit, "a session holds at most " + std::to_string(kHeldExtentsMax) + " extents");
    const uint32_t uid = uid_of(session);
    const auto mine = uid_held_bytes_.find(uid);
    const size_t used_bytes = mine == uid_held_bytes_.end() ? 0 : mine->second;
    OCM_DASSERT(uid == 0 || uid == privileged_ || used_bytes <= held_bytes_max_);  // L5
    if (uid != 0 && uid != privileged_ && held_bytes(extents.size()) > held_bytes_max_ - used_bytes) {
      return Status(Code::kLimit, "the holds of uid " + std::to_string(uid) + " take " +
                                      std::to_string(used_bytes) + " of the " +
                                      std::to_string(held_bytes_max_) +
                                      " bytes that one user's may take of a node; free some attached memory");
    }
    std::vector<ExtentId> held, missing;
    for (const ExtentId& extent : extents) {
      const auto it = titles_.find(extent);
      const bool named = it != titles_.end() && it->second.is_named();
      (named ? held : missing).push_back(extent);
    }
    if (known != owners_.end() && known->second.holds.contains(id)) {
      const std::vector<ExtentId>& listed = known->second.holds.at(id);
      std::erase_if(held, [&](const ExtentId& extent) { return lists(listed, extent); });
    }
    std::sort(held.begin(), held.end());
    held.erase(std::unique(held.begin(), held.end()), held.end());  // a request may name it more than once
    if (held.empty()) return missing;
    for (const ExtentId& extent : held) held_[extent].emplace(id, session);
    Owner& owner = owner_of(session, node, incarnation);
    owner.held += held.size();
    OCM_DASSERT(owner.held <= kHeldExtentsMax);
    std::vector<ExtentId>& listed = owner.holds[id];
    uid_held_bytes_[uid] += held_bytes(held.size()) - (listed.empty() ? 0 : held_bytes(0));
    listed.insert(listed.end(), held.begin(), held.end());
    std::sort(listed.begin(), listed.end());
    return missing;
  }
  /// Gives what is nobody's from now on (L7): the hold was the last on what no name has any more.
  std::vector<ExtentId> end_hold(const SessionId& session, const HoldId& id) {
    const auto owner = owners_.find(session);
    if (owner == owners_.end()) return {};
    const auto hold = owner->second.holds.find(id);
    if (hold == owner->second.holds.end()) return {};
    std::vector<ExtentId> free;
    for (const ExtentId& extent : hold->second) {
      const auto it = held_.find(extent);
      if (it == held_.end()) continue;  // freed by the session that owned it
      it->second.erase({id, session});
      if (!it->second.empty()) continue;
      held_.erase(it);
      Title& title = titles_.at(extent);
      if (!title.name_ended) continue;
      make_nobodys(title);
      free.push_back(extent);
    }
    OCM_DASSERT(owner->second.held >= hold->second.size());
    owner->second.held -= hold->second.size();
    const auto mine = uid_held_bytes_.find(uid_of(session));
    OCM_DASSERT(mine != uid_held_bytes_.end());  // L5
    OCM_DASSERT(mine->second >= held_bytes(hold->second.size()));
    mine->second -= held_bytes(hold->second.size());
    if (mine->second == 0) uid_held_bytes_.erase(mine);
    owner->second.holds.erase(hold);
    forget_if_empty(owner);
    return free;
  }
  struct HeldBy {
    SessionId session;
    std::string node;
    Incarnation incarnation;
    HoldId hold;
  };
  /// The holds that list the extent, in the order of their ids.
  std::vector<HeldBy> holds_on(ExtentId extent) const {
    std::vector<HeldBy> out;
    const auto it = held_.find(extent);
    if (it == held_.end()) return out;
    for (const auto& [hold, session] : it->second) {
      const Owner& owner = owners_.at(session);
      out.push_back({session, owner.node, owner.incarnation, hold});
    }
    return out;
  }
  /// Whose daemons hold what no name has any more; one walk over all holds.
  std::unordered_map<ExtentId, std::set<std::string>, ExtentHash> holders_of_the_ended() const {
    std::unordered_map<ExtentId, std::set<std::string>, ExtentHash> out;
    for (const auto& [session, owner] : owners_) {
      for (const auto& [id, extents] : owner.holds) {
        for (const ExtentId& extent : extents) {
          const auto title = titles_.find(extent);
          if (title != titles_.end() && title->second.name_ended) out[extent].insert(owner.node);
        }
      }
    }
    return out;
  }
  bool has_hold(const SessionId& session, const HoldId& id) const {
    const auto owner = owners_.find(session);
    return owner != owners_.end() && owner->second.holds.contains(id);
  }
  /// One more extent of a hold that may be here already. False if it lists it, if no name owns it, or if the user's
  /// holds take too much (L5).
  bool add_to_hold(const HeldBy& by, ExtentId extent) {
    const auto title = titles_.find(extent);
    if (title == titles_.end() || !title->second.is_named()) return false;
    const uint32_t uid = uid_of(by.session);
    const auto known = owners_.find(by.session);
    const std::vector<ExtentId>* there = nullptr;
    if (known != owners_.end()) {
      const auto hold = known->second.holds.find(by.hold);
      if (hold != known->second.holds.end()) there = &hold->second;
      if (known->second.held >= kHeldExtentsMax) return false;
    }
    if (there != nullptr && lists(*there, extent)) return false;
    const size_t more_bytes = there == nullptr ? held_bytes(1) : held_bytes(1) - held_bytes(0);
    const auto mine = uid_held_bytes_.find(uid);
    const size_t used_bytes = mine == uid_held_bytes_.end() ? 0 : mine->second;
    OCM_DASSERT(uid == 0 || uid == privileged_ || used_bytes <= held_bytes_max_);  // L5
    if (uid != 0 && uid != privileged_ && more_bytes > held_bytes_max_ - used_bytes) return false;
    Owner& owner = owner_of(by.session, by.node, by.incarnation);
    list(owner.holds[by.hold], extent);
    ++owner.held;
    uid_held_bytes_[uid] += more_bytes;
    held_[extent].emplace(by.hold, by.session);
    return true;
  }
  std::vector<HoldId> holds_of(const SessionId& session) const {
    std::vector<HoldId> out;
    const auto owner = owners_.find(session);
    if (owner == owners_.end()) return out;
    for (const auto& [id, extents] : owner->second.holds) out.push_back(id);
    return out;
  }

  std::vector<ExtentId> of_session(const SessionId& session) const {
    const auto it = owners_.find(session);
    if (it == owners_.end()) return {};
    return {it->second.extents.begin(), it->second.extents.end()};
  }

  /// What names own that have not ended, in no order.
  std::vector<ExtentId> of_names() const {
    std::vector<ExtentId> out;
    for (const auto& [id, title] : titles_) {
      if (title.is_named()) out.push_back(id);
    }
    return out;
  }
  /// False if the session is here and goes on under another incarnation of its daemon than `told_by`, whose
  /// word of its end came late.
  bool is_ended_by(const SessionId& session, const Incarnation& told_by) const {
    const auto it = owners_.find(session);
    return it == owners_.end() || it->second.incarnation == told_by;
  }

  /// The session goes on under another daemon incarnation; false if it owns and holds nothing here.
  bool resume(const SessionId& session, const std::string& node, const Incarnation& incarnation) {
    const auto it = owners_.find(session);
    if (it == owners_.end() || it->second.node != node) return false;
    it->second.incarnation = incarnation;
    it->second.orphan = {};
    return true;
  }

  struct Patience {
    uint64_t grace_ns = 0, deadline_ns = 0;
    uint64_t longer_ns() const { return std::max(grace_ns, deadline_ns); }
  };
  /// News of a daemon: `alive` is its living incarnation, none if it is dead. Starts and stops timers (L2).
  void owner_node(const std::string& node, const std::optional<Incarnation>& alive, uint64_t now_ns,
                  const Patience& patience) {
    for (auto& [session, owner] : owners_) {
      if (owner.node != node) continue;
      OrphanTimer& orphan = owner.orphan;
      if (alive && *alive == owner.incarnation) {
        orphan = {};
        continue;
      }
      const bool begins = !orphan.runs();
      const bool is_new_run = alive && orphan.next_run != alive && now_ns < orphan.new_runs_until_ns;
      if (!begins && !is_new_run) continue;
      if (begins) orphan.new_runs_until_ns = now_ns + kNewRunsGraces * patience.longer_ns();
      orphan.asked_at_ns = now_ns + patience.grace_ns - std::min(patience.grace_ns, patience.deadline_ns);
      orphan.freed_from_ns = now_ns + patience.longer_ns();
      orphan.next_run = alive;
    }
  }

  /// The incarnation that is thought dead has answered: its timer runs anew.
  void renew(const SessionId& session, uint64_t now_ns, const Patience& patience) {
    const auto it = owners_.find(session);
    if (it == owners_.end() || !it->second.orphan.runs()) return;
    OrphanTimer& orphan = it->second.orphan;
    orphan.asked_at_ns = now_ns + patience.grace_ns;
    orphan.freed_from_ns = now_ns + patience.deadline_ns + patience.longer_ns();
    orphan.new_runs_until_ns = now_ns + kNewRunsGraces * patience.longer_ns();
  }
  /// Its daemon, asked as the timer had run out, did not answer, or does not know it. True: it is to be asked again.
  bool wait_longer(const SessionId& session, uint64_t now_ns) {
    const auto it = owners_.find(session);
    if (it == owners_.end() || it->second.orphan.freed_from_ns <= now_ns) return false;
    OCM_DASSERT(it->second.orphan.runs());
    it->second.orphan.asked_at_ns = it->second.orphan.freed_from_ns;
    return true;
  }
  /// That vouch for what is here.
  std::set<std::string> nodes() const {
    std::set<std::string> out;
    for (const auto& [session, owner] : owners_) out.insert(owner.node);
    return out;
  }

  /// Whose timer has run out.
  std::vector<SessionId> expired(uint64_t now_ns) const {
    std::vector<SessionId> out;
    for (const auto& [session, owner] : owners_) {
      if (owner.orphan.asked_at_ns <= now_ns) out.push_back(session);
    }
    return out;
  }
  bool is_expired(const SessionId& session, uint64_t now_ns) const {
    const auto it = owners_.find(session);
    return it != owners_.end() && it->second.orphan.asked_at_ns <= now_ns;
  }

  struct User {
    uint64_t bytes = 0;
    size_t extents = 0;
    size_t files = 0;    // of their own
    size_t sharing = 0;  // a file
    void add(const Taken& taken) {
      bytes += taken.bytes;
      files += taken.file == File::kOwn;
      sharing += taken.file == File::kShared;
      ++extents;
    }
    void remove(const Taken& taken) {
      OCM_DASSERT(extents > 0 && bytes >= taken.bytes);
      bytes -= taken.bytes;
      files -= taken.file == File::kOwn;
      sharing -= taken.file == File::kShared;
      --extents;
      OCM_DASSERT(files + sharing <= extents);
    }
    bool operator==(const User&) const = default;
  };
  /// What is kept for a user, whoever owns it.
  User of_user(uint32_t uid) const {
    const auto it = users_.find(uid);
    return it == users_.end() ? User{} : it->second;
  }
  /// For all of them.
  const User& all() const { return all_; }
  size_t sessions() const { return owners_.size(); }

  /// L2, by the news of the nodes: their living incarnation, none of those that are dead. Of others nothing is known.
  bool timers_fit(const std::unordered_map<std::string, std::optional<Incarnation>>& nodes) const {
    return std::all_of(owners_.begin(), owners_.end(), [&](const auto& one) {
      const auto known = nodes.find(one.second.node);
      if (known == nodes.end()) return true;
      return (known->second != one.second.incarnation) == one.second.orphan.runs();
    });
  }
  /// L1, L4, L5, and what is counted; O(extents and what holds list).
  bool is_valid() const {
    size_t owned = 0;
    decltype(held_) holders;
    std::unordered_map<uint32_t, size_t> bytes_held;
    for (const auto& [session, owner] : owners_) {
      if (owner.extents.empty() && owner.holds.empty()) return false;
      size_t held = 0;
      for (const auto& [id, extents] : owner.holds) {
        if (!std::is_sorted(extents.begin(), extents.end())) return false;
        held += extents.size();
        bytes_held[uid_of(session)] += held_bytes(extents.size());
        for (const ExtentId& extent : extents) {
          if (titles_.contains(extent)) holders[extent].emplace(id, session);
        }
      }
      if (held != owner.held) return false;
      for (const ExtentId& id : owner.extents) {
        const auto it = titles_.find(id);
        if (it == titles_.end() || it->second.session != session) return false;
      }
      owned += owner.extents.size();
    }
    size_t with_session = 0, nobodys = 0;
    User all;
    std::unordered_map<uint32_t, User> kept;
    for (const auto& [id, title] : titles_) {
      with_session += title.session ? 1 : 0;
      kept[title.uid].add(title);
      all.add(title);
      if (title.name_ended && (title.session || !holders.contains(id))) return false;
      if (title.nobodys && (title.session || title.name_ended)) return false;
      nobodys += title.nobodys ? 1 : 0;
    }
    const bool bounded = std::all_of(bytes_held.begin(), bytes_held.end(), [this](const auto& one) {
      return one.first == 0 || one.first == privileged_ || one.second <= held_bytes_max_;  // L5
    });
    return bounded && owned == with_session && bytes_held == uid_held_bytes_ && kept == users_ &&
           all == all_ && holders == held_ && nobodys == nobodys_;
  }

 private:
  static constexpr uint64_t kNoTimer = ~uint64_t{0};
  static constexpr uint64_t kNewRunsGraces = 4;
  /// L2. Before `freed_from_ns` nothing is freed, whatever its daemon says.
  struct OrphanTimer {
    uint64_t asked_at_ns = kNoTimer, freed_from_ns = 0;
    uint64_t new_runs_until_ns = 0;       // later ones have no grace of their own
    std::optional<Incarnation> next_run;  // the newest that was seen
    bool runs() const { return asked_at_ns != kNoTimer; }
  };
  struct Owner {
    std::string node;
    Incarnation incarnation;
    std::unordered_set<ExtentId, ExtentHash> extents;
    std::map<HoldId, std::vector<ExtentId>> holds;  // sorted; a hostile program may have given them one hash
    size_t held = 0;                                // extents in `holds`
    OrphanTimer orphan;
  };

  void make_nobodys(Title& title) {
    OCM_DASSERT(!title.nobodys);
    title.session.reset();
    title.name_ended = false;
    title.nobodys = true;
    ++nobodys_;
  }
  static bool lists(const std::vector<ExtentId>& sorted, ExtentId id) {
    return std::binary_search(sorted.begin(), sorted.end(), id);
  }
  static void list(std::vector<ExtentId>& sorted, ExtentId id) {
    sorted.insert(std::upper_bound(sorted.begin(), sorted.end(), id), id);
  }
  void disown(const SessionId& session, ExtentId id) {
    const auto it = owners_.find(session);
    if (it == owners_.end()) return;
    OCM_DASSERT(it->second.extents.contains(id));  // L1
    it->second.extents.erase(id);
    forget_if_empty(it);
  }
  void forget_if_empty(std::unordered_map<SessionId, Owner>::iterator owner) {
    OCM_DASSERT(!owner->second.holds.empty() || owner->second.held == 0);
    if (owner->second.extents.empty() && owner->second.holds.empty()) owners_.erase(owner);
  }
  /// A session that is here stays with who vouches for it (L2).
  Owner& owner_of(const SessionId& session, const std::string& node, const Incarnation& incarnation) {
    const auto [it, fresh] = owners_.try_emplace(session);
    if (fresh) {
      it->second.node = node;
      it->second.incarnation = incarnation;
    }
    return it->second;
  }

  const uint32_t privileged_;
  const size_t held_bytes_max_;
  std::unordered_map<ExtentId, Title, ExtentHash> titles_;
  std::unordered_map<SessionId, Owner> owners_;
  std::unordered_map<ExtentId, std::set<std::pair<HoldId, SessionId>>, ExtentHash> held_;  // L4
  std::unordered_map<uint32_t, User> users_;
  User all_;
  std::unordered_map<uint32_t, size_t> uid_held_bytes_;
  size_t nobodys_ = 0;
};

}  // namespace ocm::control
