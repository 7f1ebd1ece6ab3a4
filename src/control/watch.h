// How a daemon is told of the end of extents that its programs hold, by their homes and unasked: both ends of that, pure.
//
// A daemon names the extents to a home, in one request at a time. The home keeps each until it is over there, and then until
// the daemon has heard that it is. So what waits for a daemon is a set and no queue: it is never longer than what was asked
// for, nothing in it can be overtaken or lost, and after a cut the same messages bring everything up to date.
//
//   the daemon's:  unsent --begin--> in doubt --answer--> known --over--> gone       (want() and drop() at any time)
//   the home's:    watched --over()--> untold --heard()--> gone
//
// Invariants
//   V1 an extent that a daemon wants is, at its home, watched or untold, or the daemon is about to name it (again).
//   V2 an end is reported once, of what is wanted, and only of what its home said is over.
//   V3 requests have growing numbers: one that comes after a later one changes nothing, and the newest may come again.
//   V4 a home keeps what it was asked to watch, `most` of one user at most; of what is more it says so.
// Threads: none of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/ids.h"
#include "base/mutation.h"
#include "control/ownership.h"

namespace ocm::control {

struct WatchAsked {
  uint64_t number = 0;
  std::vector<ExtentId> begin, end;
};
struct WatchAnswer {
  std::vector<ExtentId> over;     // of `begin`, they are not there (any more)
  std::vector<ExtentId> refused;  // of `begin`: V4
};

/// What one user's sessions of a daemon watch at one run of a home.
class Watching {
 public:
  void want(ExtentId id) {
    const auto it = all_.try_emplace(id).first;
    it->second.wanted = true;
    settle(it);
  }
  void drop(ExtentId id) {
    const auto it = all_.find(id);
    if (it == all_.end()) return;
    it->second.wanted = false;
    settle(it);
  }
  bool wants(ExtentId id) const {
    const auto it = all_.find(id);
    return it != all_.end() && it->second.wanted;
  }
  /// There is something to tell the home, and no request under way.
  bool is_due() const { return !asked_ && !due_.empty(); }
  bool is_empty() const { return all_.empty() && !asked_; }

  /// The next request. Requires is_due(), and a number that is greater than any before of this daemon.
  const WatchAsked& ask(uint64_t number, size_t most) {
    OCM_ASSERT(is_due());
    asked_.emplace().number = number;
    while (!due_.empty() && asked_->begin.size() + asked_->end.size() < most) {
      const ExtentId id = *due_.begin();
      due_.erase(due_.begin());
      One& one = all_.at(id);
      one.known = Known::kUnsure;
      one.asked = number;
      (one.wanted ? asked_->begin : asked_->end).push_back(id);
    }
    return *asked_;
  }
  /// Of the request under way. What is over, or refused, and still wanted.
  WatchAnswer answered(const WatchAnswer& answer) {
    end_asking(/*heard=*/true);
    return {told(answer.over), told(answer.refused)};
  }
  /// Nobody answered it: the home may have heard it or not.
  void unheard() { end_asking(/*heard=*/false); }
  /// The home says that these are over. Those that are wanted, each once.
  std::vector<ExtentId> told(const std::vector<ExtentId>& over) {
    std::vector<ExtentId> out;
    for (const ExtentId& id : over) {
      const auto it = all_.find(id);
      if (it == all_.end()) continue;
      if (it->second.wanted) out.push_back(id);
      forget(it);
    }
    return out;
  }
  /// That run of the home is over, and nothing of it is under way any more.
  std::vector<ExtentId> all_over() {
    std::vector<ExtentId> out;
    for (const auto& [id, one] : all_) {
      if (one.wanted) out.push_back(id);
    }
    all_.clear();
    due_.clear();
    asked_.reset();
    std::sort(out.begin(), out.end());
    return out;
  }
  /// V1, as far as it is seen here; O(extents).
  bool is_valid() const {
    for (const auto& [id, one] : all_) {
      const bool is_settled = one.known == (one.wanted ? Known::kYes : Known::kNo);
      if (!is_settled && !due_.contains(id) && !is_asked(one)) return false;
    }
    return std::all_of(due_.begin(), due_.end(), [this](ExtentId id) { return all_.contains(id); });
  }

 private:
  friend struct WatchName;                            // of the model
  enum class Known : uint8_t { kNo, kYes, kUnsure };  // whether the home watches it
  struct One {
    bool wanted = false;
    Known known = Known::kNo;
    uint64_t asked = 0;  // the number of the last request that it was in
  };
  using All = std::unordered_map<ExtentId, One, ExtentHash>;

  bool is_asked(const One& one) const { return asked_ && one.asked == asked_->number; }
  /// What was told as over meanwhile, and is wanted anew, was not in the request.
  void end_asking(bool heard) {
    OCM_ASSERT(asked_.has_value());
    const WatchAsked asked = std::move(*asked_);
    asked_.reset();
    for (const auto* ids : {&asked.begin, &asked.end}) {
      for (const ExtentId& id : *ids) {
        const auto it = all_.find(id);
        if (it == all_.end()) continue;
        if (it->second.asked != asked.number && !OCM_MUTATION("answer-another-time")) continue;
        if (heard || OCM_MUTATION("unheard-is-heard"))
          it->second.known = ids == &asked.begin ? Known::kYes : Known::kNo;
        settle(it);
      }
    }
  }
  void settle(All::iterator it) {
    const One& one = it->second;
    if (is_asked(one)) return;  // its answer comes first
    if (one.known == (one.wanted ? Known::kYes : Known::kNo))
      due_.erase(it->first);
    else
      due_.insert(it->first);
    if (!one.wanted && one.known == Known::kNo) forget(it);
  }
  void forget(All::iterator it) {
    due_.erase(it->first);
    all_.erase(it);
  }

  All all_;
  std::set<ExtentId> due_;  // named in the next requests
  std::optional<WatchAsked> asked_;
};

/// Who watches what at a home.
class Watchers {
 public:
  /// One run of a daemon, for one of its users.
  struct Watcher {
    std::string node;
    Incarnation incarnation;
    uint32_t uid = 0;
    auto operator<=>(const Watcher&) const = default;
  };
  /// `most`: V4. `is_over`: what is asked of an extent.
  WatchAnswer take(const Watcher& by, const WatchAsked& asked, size_t most,
                   const std::function<bool(ExtentId)>& is_over) {
    WatchAnswer out;
    const uint32_t slot = slot_of(by);
    if (asked.number < kept_[slot].newest && !OCM_MUTATION("take-late")) return out;  // V3
    kept_[slot].newest = std::max(kept_[slot].newest, asked.number);
    for (const ExtentId& id : asked.end) leave(slot, id);
    for (const ExtentId& id : asked.begin) {
      if (is_over(id) && !OCM_MUTATION("watch-in-vain")) {
        out.over.push_back(id);  // and if it waits to be told it goes on to: this answer may be nobody's
      } else if (!kept_[slot].watched.contains(id)) {
        if (watched_of(by.uid) >= most) {
          out.refused.push_back(id);
          continue;
        }
        kept_[slot].watched.insert(id);
        by_extent_[id].push_back(slot);
        ++of_user_[by.uid];
      }
    }
    return out;
  }
  /// It ended here. Those who had nothing to hear before.
  std::vector<Watcher> over(ExtentId id) {
    std::vector<Watcher> out;
    const auto watched = by_extent_.extract(id);
    if (watched.empty()) return out;
    for (const uint32_t slot : watched.mapped()) {
      Kept& kept = kept_[slot];
      if (kept.untold.empty()) out.push_back(kept.by);
      kept.watched.erase(id);
      kept.untold.insert(id);
    }
    return out;
  }
  std::vector<ExtentId> untold(const Watcher& by, size_t most) const {
    std::vector<ExtentId> out;
    const auto at = slots_.find(by);
    if (at == slots_.end()) return out;
    for (const ExtentId& id : kept_[at->second].untold) {
      if (out.size() == most) break;
      out.push_back(id);
    }
    return out;
  }
  void heard(const Watcher& by, const std::vector<ExtentId>& ids) {
    const auto at = slots_.find(by);
    if (at == slots_.end()) return;
    for (const ExtentId& id : ids) {
      if (kept_[at->second].untold.erase(id) != 0) release(by.uid);
    }
  }
  /// Other runs of that daemon than this one have ended.
  void other_run(const std::string& node, const Incarnation& incarnation) {
    auto at = slots_.lower_bound(Watcher{node, {}, 0});
    while (at != slots_.end() && at->first.node == node) {
      if (at->first.incarnation == incarnation) {
        ++at;
        continue;
      }
      const uint32_t slot = at->second;
      while (!kept_[slot].watched.empty()) leave(slot, *kept_[slot].watched.begin());
      while (!kept_[slot].untold.empty()) leave(slot, *kept_[slot].untold.begin());
      kept_[slot] = {};
      free_.push_back(slot);
      at = slots_.erase(at);
    }
  }
  size_t watched_of(uint32_t uid) const {
    const auto count = of_user_.find(uid);
    return count == of_user_.end() ? 0 : count->second;
  }
  /// V4's count, and that both directions agree; O(extents).
  bool is_valid() const {
    std::unordered_map<uint32_t, size_t> counts;
    size_t links = 0;
    for (const auto& [by, slot] : slots_) {
      const Kept& kept = kept_[slot];
      const size_t mine = kept.watched.size() + kept.untold.size();
      if (kept.by != by) return false;
      if (mine != 0) counts[by.uid] += mine;
      links += kept.watched.size();
    }
    for (const auto& [id, watchers] : by_extent_) {
      if (watchers.empty()) return false;
      for (const uint32_t slot : watchers) {
        if (!kept_[slot].watched.contains(id) || kept_[slot].untold.contains(id)) return false;
        --links;
      }
    }
    return links == 0 && counts == of_user_ && slots_.size() + free_.size() == kept_.size();
  }

 private:
  friend struct WatchName;  // of the model
  using Ids = std::unordered_set<ExtentId, ExtentHash>;
  struct Kept {
    Watcher by;
    uint64_t newest = 0;  // request
    Ids watched, untold;
  };

  uint32_t slot_of(const Watcher& by) {
    if (const auto known = slots_.find(by); known != slots_.end()) return known->second;
    if (free_.empty()) {
      free_.push_back(static_cast<uint32_t>(kept_.size()));
      kept_.emplace_back();
    }
    const uint32_t slot = free_.back();
    free_.pop_back();
    kept_[slot].by = by;
    slots_.emplace(by, slot);
    return slot;
  }
  void release(uint32_t uid) {
    const auto count = of_user_.find(uid);
    OCM_ASSERT(count != of_user_.end() && count->second > 0);
    if (--count->second == 0) of_user_.erase(count);
  }
  void leave(uint32_t slot, ExtentId id) {  // a copy: it may be in what is changed
    Kept& kept = kept_[slot];
    if (kept.untold.erase(id) != 0) release(kept.by.uid);
    if (kept.watched.erase(id) == 0) return;
    release(kept.by.uid);
    const auto watched = by_extent_.find(id);
    OCM_ASSERT(watched != by_extent_.end());
    std::erase(watched->second, slot);
    if (watched->second.empty()) by_extent_.erase(watched);
  }

  std::map<Watcher, uint32_t> slots_;  // in kept_
  std::vector<Kept> kept_;
  std::vector<uint32_t> free_;                                                 // of kept_
  std::unordered_map<ExtentId, std::vector<uint32_t>, ExtentHash> by_extent_;  // of what is watched
  std::unordered_map<uint32_t, size_t> of_user_;                               // watched or untold
};

}  // namespace ocm::control
