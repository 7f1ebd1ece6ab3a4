#include "control/membership.h"

#include <set>
#include <utility>

namespace ocm::control {

Status check_node_name(std::string_view name) {
  const std::string use = ": use 1 to 63 letters, digits, '.', '_' and '-'";
  static_assert(kNodeNameBytesMax == 63, "as the refusal says");
  if (name.empty()) return Status(Code::kInvalidArgument, "the node name is empty" + use);
  if (name.size() > kNodeNameBytesMax) {
    return Status(Code::kInvalidArgument,
                  "the node name has " + std::to_string(name.size()) + " bytes" + use);
  }
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
        c == '-')
      continue;
    const bool printable = c >= ' ' && c < 0x7f;  // anything else could disturb a terminal
    return Status(
        Code::kInvalidArgument,
        "the node name contains " +
            (printable ? std::string("'") + c + "'" : "an unsuitable byte at offset " + std::to_string(i)) +
            use);
  }
  return {};
}

Status Membership::admit(const NodeInfo& told, uint64_t now_ns) const {
  OCM_TRY(check_node_name(told.name));
  if (!told.incarnation)
    return Status(Code::kInvalidArgument, "node " + told.name + " gives no valid incarnation (16 bytes)");
  if (told.partition == 0 || told.partition > GlobalAddress::kPartitionMax) {
    return Status(Code::kInvalidArgument, "node " + told.name + " gives partition " +
                                              std::to_string(told.partition) + "; allowed are 1 to " +
                                              std::to_string(GlobalAddress::kPartitionMax));
  }
  if (told.pools.size() > kKindsMax || told.addresses.size() > 8 || told.control_address.size() > 255 ||
      told.http_address.size() > 255 || told.version.size() > 64 || told.host_id.size() > 128) {
    return Status(Code::kInvalidArgument,
                  "what node " + told.name + " tells of itself has a field over its limit");
  }
  if (const uint64_t missing = features_all_ & ~told.features; missing != 0) {
    return Status(Code::kInvalidArgument,
                  "node " + told.name + " lacks what this cluster does by now (features " +
                      std::to_string(missing) + "): update its daemon, which is of version " + told.version);
  }
  const uint64_t deadline_ms = options_.failure_deadline_ns / 1'000'000;
  if (told.failure_deadline_ms != 0 && told.failure_deadline_ms != deadline_ms) {
    return Status(Code::kInvalidArgument, "node " + told.name + " has a failure deadline of " +
                                              std::to_string(told.failure_deadline_ms) +
                                              " ms, and the coordinator one of " +
                                              std::to_string(deadline_ms) +
                                              " ms: give all nodes of the cluster the same ([cluster] "
                                              "failure_deadline_ms)");
  }
  if (told.failure_deadline_ms != 0 && told.passes_on != options_.passes_on) {
    return Status(Code::kInvalidArgument,
                  options_.passes_on ? "the coordinator's role passes on in this cluster: give node " +
                                           told.name + " its seeds ([cluster] seeds), not a coordinator"
                                     : "the coordinator of this cluster has its role for good: give node " +
                                           told.name + " its address ([cluster] coordinator), not seeds");
  }
  for (const auto& [name, node] : nodes_) {
    if (name != told.name && node.info.partition == told.partition) {
      return Status(Code::kExists, "partition " + std::to_string(told.partition) + " belongs to node " +
                                       name + "; restart this node to draw another");
    }
  }
  const auto known = nodes_.find(told.name);
  if (known == nodes_.end()) {
    if (nodes_.size() >= options_.nodes_max) return Status(Code::kLimit, "the cluster is full");
    return {};
  }
  const Node& node = known->second;
  const bool other = node.info.incarnation != told.incarnation;
  // What drains is about to go, or waits in its stop for as long as it is heard.
  const uint64_t gone_ns = options_.failure_deadline_ns / (node.info.state == NodeState::kDraining ? 2 : 1);
  if (other && node.info.control_address != told.control_address && now_ns < node.heard_ns + gone_ns) {
    return Status(Code::kExists,
                  "another living node is named " + told.name + ", at " + node.info.control_address);
  }
  return {};
}

Result<Membership::Heard> Membership::heard(uint64_t now_ns, NodeInfo told) {
  if (nodes_.size() >= options_.nodes_max) evict(now_ns);
  OCM_TRY(admit(told, now_ns));
  Heard out;
  auto [it, fresh] = nodes_.try_emplace(told.name);
  Node& node = it->second;
  out.joined = fresh;
  out.restarted = !fresh && node.info.incarnation != told.incarnation;
  out.returned = !fresh && node.info.state == NodeState::kDead;
  if (told.state != NodeState::kDraining) told.state = NodeState::kAlive;
  const bool freed = node.info.replicas_freed_before != told.replicas_freed_before ||
                     node.info.orphans_freed != told.orphans_freed;
  if (fresh || out.restarted || freed || node.info.state != told.state) ++epoch_;
  node.info = std::move(told);
  node.heard_ns = now_ns;
  OCM_DASSERT(nodes_.size() <= options_.nodes_max && node.info.name == it->first);
  OCM_DASSERT(may_live(node.info.name, node.info.partition));  // M1
  return out;
}

void Membership::start_from(uint64_t now_ns, const View& view, const std::string& silent) {
  epoch_ = view.epoch + 1;
  know_features(view.features_all);
  for (const NodeInfo& node : view.nodes) {
    if (!admit(node, now_ns).is_ok()) continue;
    const uint64_t ago_ns = node.name == silent ? options_.failure_deadline_ns / 2 : 0;
    Node& known = nodes_[node.name];
    known = {node, now_ns > ago_ns ? now_ns - ago_ns : 0};
    if (node.state != NodeState::kDead && node.state != NodeState::kDraining)
      known.info.state = NodeState::kAlive;
  }
  OCM_DASSERT(is_valid());
}

void Membership::goodbye(const std::string& name) {
  const auto it = nodes_.find(name);
  if (it == nodes_.end() || it->second.info.state == NodeState::kDraining) return;
  it->second.info.state = NodeState::kDraining;
  ++epoch_;
  OCM_DASSERT(is_valid());
}

std::vector<std::string> Membership::tick(uint64_t now_ns) {
  std::vector<std::string> died;
  for (auto& [name, node] : nodes_) {
    const uint64_t age = age_ns(node, now_ns);
    if (node.info.state == NodeState::kDead) continue;
    if (age >= options_.failure_deadline_ns) {
      node.info.state = NodeState::kDead;
      died.push_back(name);
      ++epoch_;
    } else if (node.info.state == NodeState::kAlive && age >= options_.failure_deadline_ns / 2) {
      node.info.state = NodeState::kSuspect;
      ++epoch_;
    }
  }
  evict(now_ns);
  raise_features(now_ns);
  OCM_DASSERT(died.empty() || is_valid());
  return died;
}

void Membership::raise_features(uint64_t now_ns) {
  if (!began_ns_) began_ns_ = now_ns;
  if (nodes_.empty() || now_ns < *began_ns_ + options_.failure_deadline_ns) return;
  uint64_t all = ~uint64_t{0};
  for (const auto& [name, node] : nodes_) {
    if (node.info.state != NodeState::kDead) all &= node.info.features;
  }
  if (all != ~uint64_t{0}) know_features(all);
}

void Membership::evict(uint64_t now_ns) {
  const bool crowded = nodes_.size() >= options_.nodes_max;
  for (auto it = nodes_.begin(); it != nodes_.end();) {
    const Node& node = it->second;
    const bool old = now_ns > node.heard_ns + options_.forget_ns;
    if (node.info.state == NodeState::kDead && (old || crowded)) {
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
    const NodeInfo& info = node.info;
    if (info.name != name || !check_node_name(name).is_ok() || !info.incarnation) return false;
    if (info.partition == 0 || info.partition > GlobalAddress::kPartitionMax) return false;
    if (!partitions.insert(info.partition).second) return false;  // M1
    if (info.state < NodeState::kAlive || info.state > NodeState::kDraining) return false;
  }
  return nodes_.size() <= options_.nodes_max;
}

bool Membership::may_live(const std::string& name, uint32_t partition) const {
  const auto it = nodes_.find(name);
  return it != nodes_.end() && it->second.info.partition == partition &&
         it->second.info.state != NodeState::kDead;
}

bool Membership::freed_replica(const std::string& name, uint32_t generation) const {
  const auto it = nodes_.find(name);
  const uint32_t before = it == nodes_.end() ? 0 : it->second.info.replicas_freed_before;
  return before != 0 && made_before(generation, before);
}

const NodeInfo* Membership::find(const std::string& name) const {
  const auto it = nodes_.find(name);
  return it == nodes_.end() ? nullptr : &it->second.info;
}

View Membership::view(uint64_t now_ns) const {
  View out;
  out.epoch = epoch_;
  out.run = run_;
  out.features_all = features_all_;
  out.nodes.reserve(nodes_.size());
  each(now_ns, [&out](const NodeInfo& node, uint64_t age) {
    out.nodes.push_back(node);
    out.nodes.back().heartbeat_age_ns = age;
  });
  return out;
}

}  // namespace ocm::control
