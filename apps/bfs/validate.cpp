#include "bfs/validate.h"

#include <algorithm>

namespace ocm::bfs {
namespace {

std::string vertex(uint32_t v) { return "vertex " + std::to_string(v); }

std::optional<Fault> check_level(std::span<const uint32_t> parents, std::span<const uint32_t> levels,
                                 uint32_t v) {
  const uint32_t parent = parents[v];
  const uint32_t expected = parent == kNoVertex ? kNoLevel : parent == v ? 0 : levels[parent] + 1;
  if (levels[v] == expected) return {};
  return Fault{Check::kLevels, vertex(v) + " is not one level below its parent"};
}

std::optional<Fault> check_row(const Graph& graph, std::span<const uint32_t> parents,
                               std::span<const uint32_t> levels, uint32_t v) {
  const bool inside = parents[v] != kNoVertex;
  bool joined = !inside || parents[v] == v;
  for (const uint32_t w : graph.of(v)) {
    if (inside != (parents[w] != kNoVertex)) {
      return Fault{Check::kComponent,
                   "of the edge between " + vertex(v) + " and " + vertex(w) + " only one is in the tree"};
    }
    if (!inside) continue;
    joined = joined || w == parents[v];
    const uint32_t low = std::min(levels[v], levels[w]), high = std::max(levels[v], levels[w]);
    if (high - low > 1) {
      return Fault{Check::kEdges, "the edge between " + vertex(v) + " and " + vertex(w) + " spans " +
                                      std::to_string(high - low) + " levels"};
    }
  }
  if (!joined) return Fault{Check::kParents, vertex(v) + " and its parent share no edge"};
  return {};
}

/// check(v) of all vertices; the first fault.
template <class CheckOne>
std::optional<Fault> check_all(uint32_t vertices, Team& team, CheckOne check) {
  std::vector<std::optional<Fault>> faults(team.workers());
  team.run([&](unsigned worker) {
    const auto [begin, end] = team.share(worker, vertices);
    for (uint64_t v = begin; v < end && !faults[worker]; ++v)
      faults[worker] = check(static_cast<uint32_t>(v));
  });
  for (const std::optional<Fault>& fault : faults) {
    if (fault) return fault;
  }
  return {};
}

}  // namespace

std::optional<Fault> levels_of(uint32_t root, std::span<const uint32_t> parents,
                               std::vector<uint32_t>& levels) {
  levels.assign(parents.size(), kNoLevel);
  if (parents[root] != root) return Fault{Check::kTree, "the root is not its own parent"};
  levels[root] = 0;
  std::vector<uint32_t> way;
  for (uint32_t v = 0; v < parents.size(); ++v) {
    if (parents[v] == kNoVertex) continue;
    way.clear();
    uint32_t at = v;
    for (; levels[at] == kNoLevel; at = parents[at]) {
      if (parents[at] >= parents.size() || parents[at] == at || way.size() == parents.size())
        return Fault{Check::kTree, "the parents of " + vertex(v) + " do not lead to the root"};
      way.push_back(at);
    }
    for (uint32_t level = levels[at]; !way.empty(); way.pop_back()) levels[way.back()] = ++level;
  }
  return {};
}

std::optional<Fault> check_tree(const Graph& graph, std::span<const uint32_t> parents,
                                std::span<const uint32_t> levels, Team& team) {
  // All levels first: an edge over two levels may be no more than a wrong level.
  if (auto fault =
          check_all(graph.vertices(), team, [&](uint32_t v) { return check_level(parents, levels, v); }))
    return fault;
  return check_all(graph.vertices(), team, [&](uint32_t v) { return check_row(graph, parents, levels, v); });
}

std::vector<uint32_t> serial_levels(const Graph& graph, uint32_t root) {
  std::vector<uint32_t> levels(graph.vertices(), kNoLevel);
  std::vector<uint32_t> queue{root};
  levels[root] = 0;
  for (size_t at = 0; at < queue.size(); ++at) {
    for (const uint32_t w : graph.of(queue[at])) {
      if (levels[w] != kNoLevel) continue;
      levels[w] = levels[queue[at]] + 1;
      queue.push_back(w);
    }
  }
  return levels;
}

std::optional<Fault> validate(const Graph& graph, uint32_t root, std::span<const uint32_t> parents,
                              Team& team) {
  std::vector<uint32_t> levels;
  if (auto fault = levels_of(root, parents, levels)) return fault;
  if (auto fault = check_tree(graph, parents, levels, team)) return fault;
  const std::vector<uint32_t> expected = serial_levels(graph, root);
  for (uint32_t v = 0; v < graph.vertices(); ++v) {
    if (levels[v] != expected[v])
      return Fault{Check::kLevels, vertex(v) + " is not on the level of the serial search"};
  }
  return {};
}

uint64_t traversed_edges(const Graph& graph, std::span<const uint32_t> parents) {
  uint64_t ends = 0;
  for (uint32_t v = 0; v < graph.vertices(); ++v) {
    if (parents[v] != kNoVertex) ends += graph.input_degree[v];
  }
  return ends / 2;
}

}  // namespace ocm::bfs
