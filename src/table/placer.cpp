#include "table/placer.h"

#include <algorithm>

#include "base/another_node.h"
#include "base/kinds.h"
#include "base/units.h"

namespace ocm::table {
namespace {

bool collect(const ocm_node_info* info, void* context) {
  static_cast<std::vector<ocm_node_info>*>(context)->push_back(*info);
  return true;
}

uint64_t offered(const ocm_node_info& node, ocm_kind kind) {
  return kind < std::size(node.pool_bytes) ? node.pool_bytes[kind] : 0;
}

}  // namespace

/// Worth asking another node instead. Some may have a pool that lasts, and others none.
bool Placer::try_another(Code code) const {
  return another_node_may_do(code) || code == Code::kPoolFull || code == Code::kDeadline ||
         code == Code::kUnknownNode || (durable_ && code == Code::kUnsupported);
}

Result<Placer> Placer::make(ocm_session* session, const ocm_table_options& options,
                            const std::vector<std::string>& inherited) {
  std::vector<ocm_node_info> nodes;
  OCM_TRY(status_of(ocm_node_list(session, collect, &nodes)));
  Placer placer;
  placer.session_ = session;
  placer.kind_ = static_cast<ocm_kind>(options.kind);
  placer.replicas_ = std::max(1u, options.replicas);
  placer.durable_ = (options.flags & OCM_TABLE_DURABLE) != 0;
  placer.fixed_ = options.placement == OCM_TABLE_WHOLE && options.nodes_count > 0;
  for (size_t i = 0; i < options.nodes_count; ++i) {
    const std::string name = options.nodes[i] != nullptr ? options.nodes[i] : "";
    const auto found =
        std::find_if(nodes.begin(), nodes.end(), [&](const auto& node) { return node.name == name; });
    if (found == nodes.end()) {
      return Status(Code::kUnknownNode, "no node `" + name + "`: see `ocm status`").with_node(name);
    }
    placer.ring_.push_back(name);
  }
  const bool inherits =
      options.nodes_count == 0 && (options.flags & OCM_TABLE_REMOTE) == 0 && !inherited.empty();
  for (size_t i = 0; inherits && i < inherited.size(); ++i) {
    const bool alive = std::any_of(nodes.begin(), nodes.end(), [&](const auto& node) {
      return node.name == inherited[i] && node.state == OCM_NODE_ALIVE;
    });
    if (alive) placer.ring_.push_back(inherited[i]);
  }
  if (options.nodes_count == 0 && !inherits) {
    const auto own = std::find_if(nodes.begin(), nodes.end(), [](const auto& node) { return node.self; });
    if (own != nodes.end()) std::rotate(nodes.begin(), own, nodes.end());
    for (const ocm_node_info& node : nodes) {
      const bool wanted = node.state == OCM_NODE_ALIVE && offered(node, placer.kind_) > 0 &&
                          ((options.flags & OCM_TABLE_REMOTE) == 0 || !node.self);
      if (wanted) placer.ring_.emplace_back(node.name);
    }
  }
  if (placer.ring_.size() < placer.replicas_ || placer.ring_.empty()) {
    const std::string kind = std::string(" memory of kind ") + kind_name(static_cast<Kind>(placer.kind_));
    const bool offers = std::any_of(nodes.begin(), nodes.end(),
                                    [&](const auto& node) { return offered(node, placer.kind_) > 0; });
    if (!offers) return Status(Code::kUnsupported, "no node offers" + kind);
    return Status(Code::kPoolFull, std::to_string(placer.replicas_) + " replicas need as many nodes, and " +
                                       std::to_string(placer.ring_.size()) + " can be used for" + kind +
                                       ": start more, or name others");
  }
  OCM_DASSERT(placer.replicas_ >= 1 && placer.ring_.size() >= placer.replicas_);
  return placer;
}

Result<Allocation> Placer::allocate(uint64_t bytes, uint64_t turn) const {
  const size_t count = ring_.size();
  OCM_DASSERT(count >= replicas_ && bytes > 0);
  Status refused;
  // Where replicas do not fit together another node is left out each time.
  for (size_t tried = 0; tried < (fixed_ ? 1 : count); ++tried) {
    std::vector<const char*> nodes;
    for (size_t i = 0; nodes.size() < replicas_; ++i) {
      const bool left_out = replicas_ > 1 && tried > 0 && replicas_ < count && i == tried - 1;
      if (!left_out) nodes.push_back(ring_[(turn + (replicas_ == 1 ? tried : 0) + i) % count].c_str());
    }
    Result<Allocation> made = allocate_on(nodes, bytes);
    if (made.is_ok() || !try_another(made.status().code())) return made;
    refused = made.status();
  }
  return refused;
}

Result<Allocation> Placer::allocate_on_or_near(const std::vector<std::string>& wanted, uint64_t bytes) const {
  std::vector<const char*> nodes;
  const auto add = [&](const std::string& name) {
    const bool has = std::any_of(nodes.begin(), nodes.end(), [&](const char* one) { return name == one; });
    if (!has && nodes.size() < replicas_) nodes.push_back(name.c_str());
  };
  for (const std::string& name : wanted) add(name);
  for (const std::string& name : ring_) add(name);
  Result<Allocation> made = allocate_on(nodes, bytes);
  return made.is_ok() || !try_another(made.status().code()) ? std::move(made) : allocate(bytes, 0);
}

Result<Allocation> Placer::allocate_on(const std::vector<const char*>& nodes, uint64_t bytes) const {
  OCM_DASSERT(!nodes.empty() && nodes.size() <= replicas_);
  ocm_allocation_options options = OCM_ALLOCATION_OPTIONS_INIT;
  options.kind = kind_;
  options.layout = replicas_ > 1 ? OCM_LAYOUT_REPLICATED : OCM_LAYOUT_SINGLE;
  options.extents = replicas_;
  options.nodes = nodes.data();
  options.nodes_count = nodes.size();
  options.flags = OCM_ALLOCATION_DEDICATED | (durable_ ? uint32_t{OCM_ALLOCATION_DURABLE} : 0);
  ocm_allocation* handle = nullptr;
  OCM_TRY(status_of(ocm_allocation_create(session_, bytes, &options, &handle)));
  return Allocation(handle);
}

std::string Placer::room() const {
  std::vector<ocm_node_info> nodes;
  if (ocm_node_list(session_, collect, &nodes) != OCM_OK) return "the nodes' room is unknown";
  std::string text;
  for (const ocm_node_info& node : nodes) {
    const uint64_t pool = offered(node, kind_);
    if (pool == 0) continue;
    OCM_DASSERT(kind_ < std::size(node.used_bytes));
    const uint64_t used = std::min(pool, node.used_bytes[kind_]);
    text += (text.empty() ? "" : ", ") + std::string(node.name) + " has " + format_bytes(pool - used) +
            " free of " + format_bytes(pool);
  }
  return text + " (by the last heartbeats)";
}

}  // namespace ocm::table
