#include "control/membership.h"

#include <set>

namespace ocm::control {

const char* node_state_name(NodeState state) {
  switch (state) {
    case NodeState::kAlive: return "alive";
    case NodeState::kSuspect: return "suspect";
    case NodeState::kDead: return "dead";
    case NodeState::kDraining: return "draining";
  }
  return "?";
}

Status check_node_name(std::string_view name) {
  bool good = !name.empty() && name.size() <= kNodeNameBytesMax;
  for (const char c : name) {
    good = good && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                    c == '_' || c == '-');
  }
  if (good) return {};
  return Status(Code::kInvalidArgument, "a node name is 1 to 63 letters, digits, '.', '_' and '-'");
}

Status Membership::admit(const wire::NodeView& view, uint64_t now_ns) const {
  OCM_TRY(check_node_name(view.name()));
  if (view.incarnation().size() != 16) return Status(Code::kInvalidArgument, "an incarnation is 16 bytes");
  if (view.partition() == 0 || view.partition() > GlobalAddress::kPartitionMax) {
    return Status(Code::kInvalidArgument, "a partition is 1 to 2^24 - 1");
  }
  if (view.pools_size() > static_cast<int>(kKindsMax) || view.addresses_size() > 8 ||
      view.control_address().size() > 255 || view.http_address().size() > 255 || view.version().size() > 64 ||
      view.host_id().size() > 128) {
    return Status(Code::kInvalidArgument, "a field of the node's view is too long");
  }
  const uint64_t deadline_ms = options_.failure_deadline_ns / 1'000'000;
  if (view.failure_deadline_ms() != 0 && view.failure_deadline_ms() != deadline_ms) {
    return Status(Code::kInvalidArgument, "node " + view.name() + " has a failure deadline of " +
                                              std::to_string(view.failure_deadline_ms()) +
                                              " ms, and the coordinator one of " +
                                              std::to_string(deadline_ms) +
                                              " ms: give all nodes of the cluster the same ([cluster] "
                                              "failure_deadline_ms)");
  }
  if (view.failure_deadline_ms() != 0 && view.passes_on() != options_.passes_on) {
    return Status(Code::kInvalidArgument,
                  options_.passes_on ? "the coordinator's role passes on in this cluster: give node " +
                                           view.name() + " its seeds ([cluster] seeds), not a coordinator"
                                     : "the coordinator of this cluster has its role for good: give node " +
                                           view.name() + " its address ([cluster] coordinator), not seeds");
  }
  for (const auto& [name, node] : nodes_) {
    if (name != view.name() && node.view.partition() == view.partition()) {
      return Status(Code::kExists, "partition " + std::to_string(view.partition()) + " belongs to node " +
                                       name + "; restart this node to draw another");
    }
  }
  const auto known = nodes_.find(view.name());
  if (known == nodes_.end()) {
    if (nodes_.size() >= options_.nodes_max) return Status(Code::kLimit, "the cluster is full");
    return {};
  }
  const Node& node = known->second;
  const bool other = node.view.incarnation() != view.incarnation();
  // What drains is about to go, or waits in its stop for as long as it is heard.
  const uint64_t gone_ns = options_.failure_deadline_ns / (node.state == NodeState::kDraining ? 2 : 1);
  if (other && node.view.control_address() != view.control_address() && now_ns < node.heard_ns + gone_ns) {
    return Status(Code::kExists,
                  "another living node is named " + view.name() + ", at " + node.view.control_address());
  }
  return {};
}

Result<Membership::Heard> Membership::heard(uint64_t now_ns, const wire::NodeView& view) {
  if (nodes_.size() >= options_.nodes_max) evict(now_ns);
  OCM_TRY(admit(view, now_ns));
  Heard out;
  auto [it, fresh] = nodes_.try_emplace(view.name());
  Node& node = it->second;
  out.joined = fresh;
  out.restarted = !fresh && node.view.incarnation() != view.incarnation();
  out.returned = !fresh && node.state == NodeState::kDead;
  const bool draining = view.state() == static_cast<uint32_t>(NodeState::kDraining);
  const NodeState state = draining ? NodeState::kDraining : NodeState::kAlive;
  const bool freed = node.view.replicas_freed_before() != view.replicas_freed_before() ||
                     node.view.orphans_freed() != view.orphans_freed();
  if (fresh || out.restarted || freed || node.state != state) ++epoch_;
  node.view = view;
  node.state = state;
  node.heard_ns = now_ns;
  OCM_DASSERT(nodes_.size() <= options_.nodes_max && node.view.name() == it->first);
  OCM_DASSERT(may_live(view.name(), view.partition()));  // M1
  return out;
}

void Membership::start_from(uint64_t now_ns, const wire::ClusterView& view, const std::string& silent) {
  epoch_ = view.epoch() + 1;
  for (const wire::NodeView& node : view.nodes()) {
    if (!admit(node, now_ns).is_ok()) continue;
    const bool dead = node.state() == static_cast<uint32_t>(NodeState::kDead);
    const bool draining = node.state() == static_cast<uint32_t>(NodeState::kDraining);
    const NodeState state = dead ? NodeState::kDead : draining ? NodeState::kDraining : NodeState::kAlive;
    const uint64_t ago_ns = node.name() == silent ? options_.failure_deadline_ns / 2 : 0;
    nodes_[node.name()] = {node, state, now_ns > ago_ns ? now_ns - ago_ns : 0};
  }
  OCM_DASSERT(is_valid());
}

void Membership::goodbye(const std::string& name) {
  const auto it = nodes_.find(name);
  if (it == nodes_.end() || it->second.state == NodeState::kDraining) return;
  it->second.state = NodeState::kDraining;
  ++epoch_;
  OCM_DASSERT(is_valid());
}

std::vector<std::string> Membership::tick(uint64_t now_ns) {
  std::vector<std::string> died;
  for (auto& [name, node] : nodes_) {
    const uint64_t age = now_ns > node.heard_ns ? now_ns - node.heard_ns : 0;
    if (node.state == NodeState::kDead) continue;
    if (age >= options_.failure_deadline_ns) {
      node.state = NodeState::kDead;
      died.push_back(name);
      ++epoch_;
    } else if (node.state == NodeState::kAlive && age >= options_.failure_deadline_ns / 2) {
      node.state = NodeState::kSuspect;
      ++epoch_;
    }
  }
  evict(now_ns);
  OCM_DASSERT(died.empty() || is_valid());
  return died;
}

void Membership::evict(uint64_t now_ns) {
  const bool crowded = nodes_.size() >= options_.nodes_max;
  for (auto it = nodes_.begin(); it != nodes_.end();) {
    const Node& node = it->second;
    const bool old = now_ns > node.heard_ns + options_.forget_ns;
    if (node.state == NodeState::kDead && (old || crowded)) {
      it = nodes_.erase(it);
      ++epoch_;
    } else {
      ++it;
    }
  }
}

bool Membership::is_valid() const {
  std::set<uint32_t> partitions;
  for (const auto& [name, node] : nodes_) {
    const wire::NodeView& view = node.view;
    if (view.name() != name || !check_node_name(name).is_ok() || view.incarnation().size() != 16)
      return false;
    if (view.partition() == 0 || view.partition() > GlobalAddress::kPartitionMax) return false;
    if (!partitions.insert(view.partition()).second) return false;  // M1
    if (node.state < NodeState::kAlive || node.state > NodeState::kDraining) return false;
  }
  return nodes_.size() <= options_.nodes_max;
}

bool Membership::may_live(const std::string& name, uint32_t partition) const {
  const auto it = nodes_.find(name);
  return it != nodes_.end() && it->second.view.partition() == partition &&
         it->second.state != NodeState::kDead;
}

bool Membership::freed_replica(const std::string& name, uint32_t generation) const {
  const auto it = nodes_.find(name);
  const uint32_t before = it == nodes_.end() ? 0 : it->second.view.replicas_freed_before();
  return before != 0 && made_before(generation, before);
}

const wire::NodeView* Membership::find(const std::string& name) const {
  const auto it = nodes_.find(name);
  return it == nodes_.end() ? nullptr : &it->second.view;
}

void Membership::fill(wire::ClusterView& view, uint64_t now_ns) const {
  view.set_epoch(epoch_);
  view.set_cluster_id(run_);
  for (const auto& [name, node] : nodes_) {
    wire::NodeView& out = *view.add_nodes();
    out = node.view;
    out.set_state(static_cast<uint32_t>(node.state));
    out.set_heartbeat_age_ns(now_ns > node.heard_ns ? now_ns - node.heard_ns : 0);
  }
}

}  // namespace ocm::control
