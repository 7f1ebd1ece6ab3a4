// One live connection for each route of a client: what a client gave up is never applied after what it
// wrote next over a new connection.
//
// A put that failed at the client may still lie in the socket of the connection it was sent on. The hello
// names the route and the attempt, which grows with each connect; a newer attempt fences the older one
// before it is answered.
//
// Invariants
//   G1 A seat's connection touches extents, and opens or closes its socket, only with `in_use` held.
//   G2 When enter() has returned true, no connection of the same key that entered before applies anything
//      any more: it was seen out of `in_use` with `fenced` set.
//   G3 A thread waits for a seat of an older attempt of the same key only, so waits never form a circle.
//   G4 A key is known as long as the connection that entered last: no more keys than connections.
// Threads: any.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/assert.h"
#include "base/fault.h"
#include "base/ids.h"
#include "fabric/tcp/places.h"

namespace ocm::fabric::tcp {

/// What others may know of a connection: its place in the fence. Outlives it.
struct Seat {
  std::mutex in_use;
  /// Set before the one who fences waits for `in_use`, so that a busy connection does not keep it out.
  std::atomic<bool> fenced{false};
  int fd = -1;  // under in_use; -1: closed
  Place place;  // under in_use; of a connection that proved itself
};

/// Whose connection: the session, and which of its ways here. Route 0: none, nothing is fenced.
struct RouteKey {
  SessionId session;
  uint64_t route = 0;
  auto operator<=>(const RouteKey&) const = default;
};

class Fences {
 public:
  /// `seat`, whose in_use the caller holds, takes the place of the older attempt. False if there was this
  /// attempt or a newer one. Waits until the older connection's thread has let go of it.
  bool enter(const RouteKey& key, uint64_t attempt, const std::shared_ptr<Seat>& seat) {
    if (key.route == 0) return true;
    OCM_ASSERT(seat != nullptr);
    std::shared_ptr<Seat> older;
    {
      const std::lock_guard lock(mutex_);
      Newest& newest = newest_[key];
      if (newest.seat != nullptr && newest.attempt >= attempt) return false;
      older = std::move(newest.seat);
      newest = {attempt, seat};
    }
    if (older == nullptr) return true;
    OCM_ASSERT(older != seat);  // G3: a thread that waits for itself waits for ever
    if (!fault::at(fault::Point::kFenceOpen)) older->fenced.store(true, std::memory_order_release);
    const std::lock_guard lock(older->in_use);
    if (older->fd >= 0) ::shutdown(older->fd, SHUT_RDWR);  // its thread wakes up and closes it
    older->place = {};                                     // `seat` finds one, whatever that thread does now
    return true;
  }

  /// The connection of `seat` ends.
  void leave(const RouteKey& key, const std::shared_ptr<Seat>& seat) {
    if (key.route == 0) return;
    const std::lock_guard lock(mutex_);
    const auto found = newest_.find(key);
    if (found != newest_.end() && found->second.seat == seat) newest_.erase(found);
  }

  /// G4: what is known is the newest attempt of a route, with its seat. Cost: the routes.
  bool is_valid() const {
    const std::lock_guard lock(mutex_);
    return std::all_of(newest_.begin(), newest_.end(),
                       [](const auto& one) { return one.first.route != 0 && one.second.seat != nullptr; });
  }

 private:
  struct Newest {
    uint64_t attempt = 0;
    std::shared_ptr<Seat> seat;
  };
  mutable std::mutex mutex_;
  std::map<RouteKey, Newest> newest_;
};

}  // namespace ocm::fabric::tcp
