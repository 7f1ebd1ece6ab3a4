// How much room the nodes have, asked anew where somebody finds none.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "control/view_wire.h"
#include "node/cluster.h"

namespace ocm::node {

using control::Task;

Task<void> Cluster::refresh_pools() {
  // Programs that find no room ask again and again, and all at once: those that wait share the next round of questions.
  if (asks_pools_) co_await pools_heard_.wait();
  if (asks_pools_) {  // began after this one came
    co_await pools_heard_.wait();
    co_return;
  }
  asks_pools_ = true;
  co_await ask_for_pools();
  asks_pools_ = false;
  pools_heard_.notify();
}

Task<void> Cluster::ask_for_pools() {
  constexpr size_t kAskedMax = 64;
  Homes::Requests requests;
  std::vector<std::string> nodes;
  for (const auto& room : rooms_.all()) {
    if (!room.usable || room.name == core_.name || requests.size() == kAskedMax) continue;
    nodes.push_back(room.name);
    wire::Envelope request;
    request.mutable_stats()->set_pools_only(true);
    requests.emplace_back(room.name, std::move(request));
  }
  note_own_pool();
  const uint64_t patience_ns = std::min<uint64_t>(core_.config.failure_deadline_ns(), 500'000'000);
  const auto answers = co_await homes_.ask_all(std::move(requests), core_.now_ns() + patience_ns);
  OCM_DASSERT(answers.size() == nodes.size());
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].is_ok()) continue;
    for (const auto& pool : answers[i].value().stats_reply().pools())
      note_pool(nodes[i], control::from_wire(pool));
  }
}

}  // namespace ocm::node
