// What is asked of a node's daemon: of this one or over the network, once or until it is heard, of one or of many.
//
// A node that the view does not show may live: a new run of the coordinator knows no node that is cut off from it. Only
// another run of its daemon proves that what the former one had is gone.
//
// Invariants
//   O1 a node answers the same whoever asks: what is asked of this daemon goes to the handlers that peers reach, without a
//      connection, a deadline or a metric.
//   O2 what of a session waits for a node that is not heard is charged to its user: it keeps nothing of others from being
//      told. What is beyond that is not told, and logged; ends of sessions have a share of their own.
// Threads: the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/ids.h"
#include "control/allowance.h"
#include "control/rpc.h"
#include "node/core.h"
#include "node/peers.h"

namespace ocm::node {

class Cluster;

class Homes {
 public:
  static constexpr uint32_t kAnyRun = 0;  // no partition: whichever run there is

  Homes(Core& core, Peers& peers, const Cluster& cluster) : core_(core), peers_(peers), cluster_(cluster) {}
  /// The handlers of this daemon (O1). Before anything is asked.
  void serve(std::function<control::Task<control::Reply>(wire::Envelope)> here) {
    OCM_DASSERT(here && !here_);
    here_ = std::move(here);
  }

  bool is_here(const std::string& node) const { return node == core_.name; }
  /// A request to `node`, until `deadline_ns` (0: Core::deadline_ns()). `reply_on_error` (may be null) gets the envelope
  /// whatever its code, `sent` (may be null) whether another daemon may have heard it. Errors: kPeerLost (also: the node is
  /// not in the cluster), kAuth, kDeadline, and the answer's own.
  control::Task<Result<wire::Envelope>> ask(std::string node, wire::Envelope request,
                                            uint64_t deadline_ns = 0,
                                            wire::Envelope* reply_on_error = nullptr, bool* sent = nullptr);
  /// The same of many at once. The answers, in the order of `requests`.
  using Requests = std::vector<std::pair<std::string, wire::Envelope>>;
  control::Task<std::vector<Result<wire::Envelope>>> ask_all(Requests requests, uint64_t deadline_ns = 0);

  static bool is_unheard(const Status& told) {
    return told.code() == Code::kPeerLost || told.code() == Code::kDeadline;
  }
  /// The run of the daemon that the view shows; kAnyRun where it shows none.
  uint32_t run_of(const std::string& node) const;
  /// As far as the cluster knows: nothing that it would be asked comes to an answer.
  bool is_dead(const std::string& node) const;
  /// The view shows another run than `run`, and than it did when that was heard of (`shown`), for it may have been
  /// behind then: what that one had is gone.
  bool is_over(const std::string& node, uint32_t run, uint32_t shown) const;
  /// Asks one run of a node's daemon again each heartbeat, while `wanted` (empty: always) says so. The answer's status;
  /// kPeerLost: that run is over, or nobody has known the node for a day; kCancelled: not wanted any more, or this daemon
  /// drains. `wanted` is to be a variable of the caller's: GCC 12 destroys a lambda in a co_await twice. `charge`: what is
  /// charged for it as long as it waits.
  control::Task<Status> until_heard(std::string node, uint32_t run, wire::Envelope message,
                                    std::function<bool()> wanted = {},
                                    control::Charge charge = control::Charge());
  struct Message {
    std::function<std::optional<wire::Envelope>()> made;  // when it is told; none: nothing any more
    size_t bytes = 0;                                     // that it takes until then
  };
  /// As it is now.
  static Message kept(wire::Envelope message);
  struct Untold {
    uint32_t run = kAnyRun;
    Message message;
    std::function<bool()> wanted;
    control::Charge charge{};  // of the user's
  };
  /// Of `session`, to a node that was not heard: the same, in turn, so that many of them take little until the node is
  /// heard. Nothing is told before the caller goes on.
  void tell_in_turn(const SessionId& session, const std::string& node, Untold what);
  /// The same of the end of a session of that user: in turn with those of its other sessions.
  void tell_end(uint32_t uid, const std::string& node, uint32_t run, wire::Envelope message);
  /// Peers::on_lost().
  void on_lost(std::function<void(const std::string&)> hook) { peers_.on_lost(std::move(hook)); }
  /// Not waited for.
  void tell(std::string node, uint32_t run, wire::Envelope message);

 private:
  Core& core_;
  Peers& peers_;
  const Cluster& cluster_;
  std::function<control::Task<control::Reply>(wire::Envelope)> here_;
  /// In one queue.
  struct To {
    SessionId session;     // none: ends of sessions
    uint32_t ends_of = 0;  // the user's
    std::string node;
    auto operator<=>(const To&) const = default;
  };
  void enqueue(To to, Untold what);
  control::Task<void> tell_untold(To to);
  control::Task<void> tell_one(std::string node, Untold what);
  Result<control::Charge> charge_of(control::Allowances& allowances, uint32_t uid, size_t bytes);

  struct Queue {
    std::deque<Untold> all;
    bool is_told = false;  // by tell_untold(), which may have ended for want of memory
  };
  std::map<To, std::shared_ptr<Queue>> untold_;
  control::Allowances waiting_{control::kUserBytesMax}, ends_{control::kUserBytesMax};
};

}  // namespace ocm::node
