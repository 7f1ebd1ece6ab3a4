// Copies that wait for a thread, and whose turn it is.
//
// Invariants
//   U1 users take turns, and the sessions of one user: a piece of one copy each. What one asks for delays
//      another by the pieces under way, however much waits.
//   U2 of a user at most kUserMax wait, of all at most kAllMax; a job is of bounded size.
//   U3 the copies of one session are taken in order.
// Threads: the owner serialises.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>

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
  fabric::FabricAddress source_address;  // of another node
  bool source_failed = false;            // with an error: its end is to blame, and not the target's
  std::function<void(const Status&, bool source_failed)> done;  // once, by any thread
};

class CopyQueue {
 public:
  static constexpr size_t kUserMax = 4096, kAllMax = 16384;

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
    const uint32_t uid = turn_.front();
    turn_.pop_front();
    User& user = users_.at(uid);
    const SessionId session = user.turn.front();
    user.turn.pop_front();
    auto& jobs = user.sessions.at(session);
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
    return job;
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
    return jobs;
  }

  std::deque<uint32_t> turn_;
  std::unordered_map<uint32_t, User> users_;  // none is empty
  size_t size_ = 0;
};

}  // namespace ocm::node
