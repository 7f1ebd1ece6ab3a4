// Copies that wait for a thread, and whose turn it is.
//
// Invariants
//   U1 users take turns, and the sessions of one user: a piece of one copy each. What one asks for delays
//      another by the pieces under way, however much waits.
//   U2 of a user at most kUserMax wait, of all at most kAllMax; a job is of bounded size.
//   U3 the copies of one session are taken in order.
// Threads: the owner serialises.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/assert.h"
#include "base/ids.h"
#include "base/status.h"
#include "fabric/channel.h"

namespace ocm::node {

/// A copy into an extent of this home. It holds no memory while it waits: a thread opens the extents.
struct CopyJob {
  uint32_t uid = 0;
  SessionId session;
  ExtentId target, source;
  uint64_t target_offset = 0, source_offset = 0;
  uint64_t bytes = 0, moved = 0;
  bool source_is_here = false;
  Capability source_capability;
  std::string source_node;
  FabricAddress source_address;  // of another node
  bool source_failed = false;    // with an error: its end is to blame, and not the target's
  std::function<void(const Status&, bool source_failed)> done;  // once, by any thread
};

class CopyQueue {
 public:
  static constexpr size_t kUserMax = 4096, kAllMax = 16384;
  static_assert(kUserMax < kAllMax, "one user does not fill it");

  /// Errors: kQueueFull.
  Status push(CopyJob job) {
    const auto user = users_.find(job.uid);
    if (size_ >= kAllMax || (user != users_.end() && user->second.size >= kUserMax)) {
      return Status(Code::kQueueFull, "too many copies wait for this node; let some end first");
    }
    jobs_for(job).push_back(std::move(job));
    return {};
  }
  /// The rest of a job of which a piece is done: the next of its session.
  void push_rest(CopyJob job) { jobs_for(job).push_front(std::move(job)); }

  bool empty() const { return size_ == 0; }
  /// The next in turn; not empty().
  CopyJob pop() {
    OCM_DASSERT(size_ > 0 && !turn_.empty());
    const uint32_t uid = turn_.front();
    turn_.pop_front();
    User& user = users_.at(uid);
    OCM_DASSERT(user.size > 0 && !user.turn.empty());
    const SessionId session = user.turn.front();
    user.turn.pop_front();
    auto& jobs = user.sessions.at(session);
    OCM_DASSERT(!jobs.empty());
    CopyJob job = std::move(jobs.front());
    jobs.pop_front();
    --size_;
    if (jobs.empty()) {
      user.sessions.erase(session);
    } else {
      user.turn.push_back(session);
    }
    if (--user.size == 0) {
      users_.erase(uid);
    } else {
      turn_.push_back(uid);
    }
    OCM_DASSERT(turn_.size() == users_.size() && job.uid == uid && job.session == session);
    return job;
  }
  /// What waits is counted, and who has some stands in its turn once (U1); O(sessions * sessions).
  bool is_valid() const {
    size_t size = 0;
    for (const auto& [uid, user] : users_) {
      size_t jobs = 0;
      for (const auto& [session, queue] : user.sessions) {
        const auto turns = std::count(user.turn.begin(), user.turn.end(), session);
        if (queue.empty() || turns != 1) return false;
        jobs += queue.size();
      }
      if (jobs == 0 || jobs != user.size || user.turn.size() != user.sessions.size()) return false;
      if (std::count(turn_.begin(), turn_.end(), uid) != 1) return false;
      size += jobs;
    }
    return size == size_ && turn_.size() == users_.size();
  }

 private:
  struct User {
    std::deque<SessionId> turn;
    std::unordered_map<SessionId, std::deque<CopyJob>> sessions;  // none is empty
    size_t size = 0;
  };

  std::deque<CopyJob>& jobs_for(const CopyJob& job) {
    User& user = users_[job.uid];
    if (user.size++ == 0) turn_.push_back(job.uid);
    auto& jobs = user.sessions[job.session];
    if (jobs.empty()) user.turn.push_back(job.session);
    ++size_;
    OCM_DASSERT(turn_.size() == users_.size() && user.turn.size() == user.sessions.size());
    return jobs;
  }

  std::deque<uint32_t> turn_;
  std::unordered_map<uint32_t, User> users_;  // none is empty
  size_t size_ = 0;
};

}  // namespace ocm::node
