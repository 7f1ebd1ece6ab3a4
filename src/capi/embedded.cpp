// A node inside the program, for machines without a daemon: the same code paths, nothing listens.
#include "capi/objects.h"
#include "node/node.h"

namespace ocm::capi {

Result<Embedded> start_embedded(uint64_t bytes) {
  node::Config config;
  config.embedded = true;
  config.name = "embedded";
  config.offer(Kind::kDram, bytes);
  OCM_TRY_ASSIGN(std::unique_ptr<node::Node> started, node::Node::start(std::move(config)));
  const std::shared_ptr<node::Node> node = std::move(started);
  return Embedded{[node] { return node->connect_local(); }, node};
}

}  // namespace ocm::capi
