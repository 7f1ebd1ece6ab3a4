// A connection to another daemon, for requests to it. `Connection` is the real one; a simulation brings its
// own.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "base/status.h"
#include "control.pb.h"
#include "control/env.h"

namespace ocm::control {

class Link {
 public:
  virtual ~Link() = default;

  /// Sends a request and waits for its reply. The reply's own code is left to the caller: see reply_status().
  /// The peer may hear the request also after the deadline, as long as the link stands.
  /// Errors: kPeerLost (closed before), kDeadline, kTooLarge, kQueueFull.
  virtual Task<Result<wire::Envelope>> call(wire::Envelope request, uint64_t deadline_ns) = 0;
  /// Ends it; calls under way get kPeerLost.
  virtual void close(const Status& why) = 0;
  virtual bool is_open() const = 0;
  /// When anything came from the other end last, or the link was made.
  virtual uint64_t heard_ns() const = 0;
  /// `run` is called once it has closed, whoever closed it.
  void on_closed(std::function<void()> run) { on_closed_ = std::move(run); }

 protected:
  /// Once it is not open any more.
  void tell_closed() {
    if (const auto run = std::exchange(on_closed_, nullptr)) run();
  }

 private:
  std::function<void()> on_closed_;
};

}  // namespace ocm::control
