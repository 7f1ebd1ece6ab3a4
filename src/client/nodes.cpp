#include "client/nodes.h"

#include <algorithm>

namespace ocm::client {

void Nodes::read(const Page& page) {
  const std::lock_guard lock(mutex_);
  const uint64_t version = page.nodes_version.load(std::memory_order_acquire);
  if (version % 2 != 0) return;
  std::vector<fabric::shm::NodeWord> nodes;
  const uint64_t count = std::min(page.nodes_count.load(std::memory_order_relaxed), Page::kNodes);
  for (uint64_t i = 0; i < count; ++i)
    nodes.push_back(fabric::shm::NodeWord::of(page.nodes[i].load(std::memory_order_relaxed)));
  std::atomic_thread_fence(std::memory_order_acquire);
  if (page.nodes_version.load(std::memory_order_relaxed) != version) return;
  nodes_ = std::move(nodes);
  count_.store(nodes_.size(), std::memory_order_relaxed);
  seen_.store(version, std::memory_order_release);
}

bool Nodes::is_told(uint32_t partition, bool dead_only) {
  const std::lock_guard lock(mutex_);
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const fabric::shm::NodeWord& node) {
    return node.partition == partition && (node.kind == Kind::kDead || !dead_only);
  });
}

}  // namespace ocm::client
