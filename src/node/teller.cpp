#include "node/teller.h"

#include <utility>

#include "base/fault.h"

namespace ocm::node {

using control::Task;

namespace {

constexpr size_t kWaitingMax = 65536;
constexpr uint64_t kUnknownNs = 86'400'000'000'000;

}  // namespace

uint32_t Teller::run_of(const std::string& node) const {
  const wire::NodeView* known = cluster_.find(node);
  return known == nullptr ? kAnyRun : known->partition();
}

bool Teller::is_over(const std::string& node, uint32_t run, uint32_t shown) const {
  const uint32_t now = run_of(node);
  return run != kAnyRun && now != kAnyRun && now != run && now != shown;
}

Task<Status> Teller::until_heard(std::string node, uint32_t run, wire::Envelope message,
                                 std::function<bool()> wanted) {
  if (waiting_ >= kWaitingMax) co_return Status(Code::kLimit);
  ++waiting_;
  Status told(Code::kCancelled);
  uint64_t known_ns = core_.now_ns();
  uint32_t shown = run_of(node);
  while (!core_.draining && (!wanted || wanted())) {
    const bool known = cluster_.find(node) != nullptr;
    if (known) known_ns = core_.now_ns();
    told = Status(Code::kPeerLost, "node " + node + " is not known, or was started again");
    if (!known && fault::at(fault::Point::kUnknownIsGone)) break;
    if (run_of(node) == run) shown = run;
    if (is_over(node, run, shown) || core_.now_ns() - known_ns > kUnknownNs) break;
    const auto reply = co_await peers_.call(cluster_.address_of(node), message, core_.deadline_ns());
    told = reply.status();
    if (!is_unheard(told)) break;
    told = Status(Code::kCancelled);
    co_await core_.env.sleep_ns(core_.config.heartbeat_ns());
  }
  --waiting_;
  co_return told;
}

}  // namespace ocm::node
