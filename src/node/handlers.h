// Which message is answered by what: each part of a node enters those that it answers, and nothing else names them.
//
// Invariants
//   H1 a message has one handler at most.
// Threads: entered before the loop runs; asked by the loop's.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "base/assert.h"
#include "control/env.h"
#include "control/rpc.h"

namespace ocm::node {

/// `From`: who asks.
template <class From>
class Handlers {
 public:
  using Body = wire::Envelope::BodyCase;
  using Handler = std::function<control::Task<control::Reply>(From from, wire::Envelope request)>;
  using Now = std::function<control::Reply(From from, wire::Envelope request)>;

  /// `handler` may be a coroutine: it lives as long as this.
  void on(Body body, Handler handler) {
    const bool is_new = handlers_.emplace(body, std::move(handler)).second;
    OCM_ASSERT(is_new);  // H1
  }
  /// Of what is answered without waiting.
  void on_now(Body body, Now handler) {
    on(body, [now = std::move(handler)](From from, wire::Envelope request) -> control::Task<control::Reply> {
      co_return now(std::move(from), std::move(request));
    });
  }
  /// Null: nobody answers it.
  const Handler* find(Body body) const {
    const auto found = handlers_.find(body);
    return found == handlers_.end() ? nullptr : &found->second;
  }

 private:
  std::map<Body, Handler> handlers_;
};

/// From other daemons, by the name that they proved, and from this one itself.
using PeerHandlers = Handlers<std::string>;

}  // namespace ocm::node
