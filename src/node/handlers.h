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

  /// `refusal`: said of a message that nobody answers.
  explicit Handlers(const char* refusal) : refusal_(refusal) {}

  /// `handler` may be a coroutine: it lives as long as this.
  void on(Body body, Handler handler) {
    OCM_DASSERT(body != wire::Envelope::BODY_NOT_SET && handler);
    const bool is_new = handlers_.emplace(body, std::move(handler)).second;
    OCM_ASSERT(is_new);  // H1
  }
  /// Of what is answered without waiting.
  void on_now(Body body, Now handler) {
    on(body, [now = std::move(handler)](From from, wire::Envelope request) -> control::Task<control::Reply> {
      co_return now(std::move(from), std::move(request));
    });
  }
  /// What its handler answers. Errors: kProtocol (it has none).
  control::Task<control::Reply> answer(From from, wire::Envelope request) const {
    const auto found = handlers_.find(request.body_case());
    if (found == handlers_.end()) return refuse();
    return found->second(std::move(from), std::move(request));
  }

 private:
  control::Task<control::Reply> refuse() const { co_return Status(Code::kProtocol, refusal_); }

  const char* const refusal_;
  std::map<Body, Handler> handlers_;
};

/// From other daemons, by the name that they proved, and from this one itself.
using PeerHandlers = Handlers<std::string>;

}  // namespace ocm::node
