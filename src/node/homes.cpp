#include "node/homes.h"

#include "base/assert.h"
#include "base/fault.h"
#include "base/log.h"
#include "node/cluster.h"
#include "node/standing.h"

namespace ocm::node {

using control::Reply;
using control::Task;

namespace {

/// That a message takes while it is asked again and again, and while it waits for its turn.
constexpr size_t kAskedBytes = 4096, kUntoldBytes = 384;
/// Of one session to one node, once that is heard.
constexpr size_t kAtOnce = 16;
constexpr uint64_t kUnknownNs = 86'400'000'000'000;
static_assert(Homes::kAnyRun == 0, "no partition: those are from 1 on");

}  // namespace

Task<Result<wire::Envelope>> Homes::ask(std::string node, wire::Envelope request, uint64_t deadline_ns,
                                        wire::Envelope* reply_on_error, bool* sent) {
  if (is_here(node)) {
    OCM_ASSERT(here_);
    Reply reply = co_await here_(std::move(request));
    const Status status = control::reply_status(reply.message);
    if (status.is_ok()) co_return std::move(reply.message);
    if (reply_on_error != nullptr) *reply_on_error = std::move(reply.message);
    co_return status;
  }
  const std::string address = cluster_.address_of(node);
  if (address.empty()) co_return Status::of_node(Code::kPeerLost, node, " is not in the cluster");
  if (deadline_ns == 0) deadline_ns = core_.deadline_ns();
  co_return co_await peers_.call(address, std::move(request), deadline_ns, reply_on_error, sent);
}

Task<std::vector<Result<wire::Envelope>>> Homes::ask_all(Requests requests, uint64_t deadline_ns) {
  const auto one = [](Homes& homes, std::string node, wire::Envelope request, uint64_t until_ns,
                      Result<wire::Envelope>& out) -> Task<void> {
    out = co_await homes.ask(std::move(node), std::move(request), until_ns);
  };
  std::vector<Result<wire::Envelope>> answers(requests.size(), Status(Code::kPeerLost));
  std::vector<Task<void>> tasks;
  for (size_t i = 0; i < requests.size(); ++i) {
    auto& [node, request] = requests[i];
    tasks.push_back(one(*this, std::move(node), std::move(request), deadline_ns, answers[i]));
  }
  if (!tasks.empty()) co_await core_.env.join(std::move(tasks));
  OCM_DASSERT(answers.size() == requests.size());
  co_return answers;
}

uint32_t Homes::run_of(const std::string& node) const {
  const control::NodeInfo* known = cluster_.find(node);
  return known == nullptr ? kAnyRun : known->partition;
}

bool Homes::is_dead(const std::string& node) const {
  const control::NodeInfo* known = cluster_.find(node);
  return known != nullptr && known->state == control::NodeState::kDead;
}

bool Homes::is_over(const std::string& node, uint32_t run, uint32_t shown) const {
  const uint32_t now = run_of(node);
  return run != kAnyRun && now != kAnyRun && now != run && now != shown;
}

Task<Status> Homes::until_heard(std::string node, uint32_t run, wire::Envelope message,
                                std::function<bool()> wanted, control::Charge /*charge*/) {
  Status told(Code::kCancelled);
  uint64_t known_ns = core_.now_ns();
  uint32_t shown = run_of(node);
  while (!core_.draining && (!wanted || wanted())) {
    const bool known = cluster_.find(node) != nullptr;
    if (known) known_ns = core_.now_ns();
    told = Status::of_node(Code::kPeerLost, node, " is not known, or was started again");
    if (!known && fault::at(fault::Point::kUnknownIsGone)) break;
    if (run_of(node) == run) shown = run;
    if (is_over(node, run, shown) || core_.now_ns() - known_ns > kUnknownNs) break;
    const auto reply = co_await ask(node, message);
    told = reply.status();
    if (!is_unheard(told)) break;
    told = Status(Code::kCancelled);
    co_await core_.env.sleep_ns(core_.config.heartbeat_ns());
  }
  co_return told;
}

Result<control::Charge> Homes::charge_of(control::Allowances& allowances, uint32_t uid, size_t bytes) {
  control::Charge charge = is_privileged(uid) ? control::Charge() : control::Charge(allowances.of(uid));
  if (charge.resize(bytes)) return charge;
  const std::string who = std::to_string(uid);
  if (const auto left_out = core_.limiter.admit("not_told", who, core_.now_ns())) {
    log::warn("not_told", {{"uid", who},
                           {"why", "too much of this user waits for nodes that are not heard"},
                           {"left_out", *left_out}});
  }
  return Status(Code::kLimit);
}

Homes::Message Homes::kept(wire::Envelope message) {
  const size_t bytes = control::kKeptBytesPerWireByte * message.ByteSizeLong();
  return {[message = std::move(message)] { return std::optional(message); }, bytes};
}

void Homes::tell_in_turn(const SessionId& session, const std::string& node, Untold what) {
  OCM_DASSERT(what.message.made && what.wanted);
  enqueue({.session = session, .node = node}, std::move(what));
}

void Homes::tell_end(uint32_t uid, const std::string& node, uint32_t run, wire::Envelope message) {
  enqueue({.ends_of = uid, .node = node}, {run, kept(std::move(message)), [] { return true; }});
}

void Homes::enqueue(To to, Untold what) {
  OCM_DASSERT(to.session == SessionId() || to.ends_of == 0);
  const bool is_end = to.session == SessionId();
  auto charge = charge_of(is_end ? ends_ : waiting_, is_end ? to.ends_of : uid_of(to.session),
                          kUntoldBytes + what.message.bytes);
  if (!charge.is_ok()) return;
  what.charge = std::move(charge).value();
  std::shared_ptr<Queue>& queue = untold_[to];
  if (queue == nullptr) queue = std::make_shared<Queue>();
  queue->all.push_back(std::move(what));
  if (queue->is_told) return;
  core_.env.spawn(tell_untold(std::move(to)));
}

Task<void> Homes::tell_untold(To to) {
  const std::shared_ptr<Queue> queue = untold_.at(to);
  if (queue->is_told) co_return;
  const Standing telling(queue->is_told);
  co_await core_.env.sleep_ns(1);  // who asks for it has more to do first
  size_t done = 0;
  for (size_t at_once = 1; !queue->all.empty(); at_once = kAtOnce) {
    std::vector<Task<void>> tasks;
    for (; !queue->all.empty() && tasks.size() < at_once; queue->all.pop_front())
      tasks.push_back(tell_one(to.node, std::move(queue->all.front())));
    co_await core_.env.join(std::move(tasks));
    if (++done % kAtOnce == 0)
      co_await core_.env.sleep_ns(1);  // they may all be for nothing: others are answered meanwhile
  }
  untold_.erase(to);
}

Task<void> Homes::tell_one(std::string node, Untold what) {
  if (!what.wanted()) co_return;
  std::optional<wire::Envelope> message = what.message.made();
  if (!message) co_return;
  // If there is no more, some of a few that are asked at once are not charged whole.
  (void)what.charge.resize(kAskedBytes + what.message.bytes);
  (void)co_await until_heard(std::move(node), what.run, std::move(*message), std::move(what.wanted),
                             std::move(what.charge));
}

void Homes::tell(std::string node, uint32_t run, wire::Envelope message) {
  const auto until = [](Homes& homes, std::string at, uint32_t of, wire::Envelope what) -> Task<void> {
    (void)co_await homes.until_heard(std::move(at), of, std::move(what));
  };
  core_.env.spawn(until(*this, std::move(node), run, std::move(message)));
}

}  // namespace ocm::node
