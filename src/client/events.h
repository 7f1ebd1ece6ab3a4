// What the daemon tells this session unasked (control/event_queue.h), read by whoever waits for the next of it: no thread of
// its own, and nothing is asked for until somebody does.
//
// Invariants
//   N1 each event is given to one caller, in the order of the daemon's; what the daemon gave and nobody received, because a
//      wait ended first, it gives again.
//   N2 where the daemon is another run the first event is kResync, and what is so now follows.
// Threads: any; they wait for each other.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "base/ids.h"
#include "os/clock.h"

namespace ocm::client {

class Session;

struct Event {
  uint32_t kind = 0;  // an ocm_event_kind
  AllocationId allocation{};
  std::string name, node;
  uint32_t partition = 0;
};

class Events {
 public:
  explicit Events(Session& session) : session_(session) {}
  /// Errors: kDeadline (none until then), kNoDaemon (the daemon is gone, and did not come back until then).
  Result<Event> next(os::Deadline deadline);

 private:
  Status read(os::Deadline deadline);

  Session& session_;
  std::timed_mutex reading_;  // guards the rest
  uint64_t stream_ = 0, received_ = 0;
  std::deque<Event> waiting_;
};

}  // namespace ocm::client
