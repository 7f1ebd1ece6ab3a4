#include "bfs/graph.h"

#include <algorithm>
#include <utility>

namespace ocm::bfs {
namespace {

struct Rows {
  std::vector<uint64_t> offsets;
  std::vector<uint32_t> neighbours;
};

/// offsets[v] = sum of the counts before v.
std::vector<uint64_t> offsets_of(const std::vector<uint32_t>& counts) {
  std::vector<uint64_t> offsets(counts.size() + 1);
  for (size_t v = 0; v < counts.size(); ++v) offsets[v + 1] = offsets[v] + counts[v];
  return offsets;
}

/// Both directions of every edge that is no self loop.
Rows symmetric(const EdgeList& list, Graph& graph, Team& team) {
  std::vector<uint32_t> counts(list.vertices);
  graph.input_degree.resize(list.vertices);
  team.run([&](unsigned worker) {
    const auto [begin, end] = team.share(worker, list.vertices);
    const auto count = [&, low = begin, high = end](uint32_t v, bool loop) {
      if (v < low || v >= high) return;
      ++graph.input_degree[v];
      if (!loop) ++counts[v];
    };
    for (const Edge& edge : list.edges) {
      count(edge.from, edge.from == edge.to);
      count(edge.to, edge.from == edge.to);
    }
  });
  Rows rows{offsets_of(counts), {}};
  rows.neighbours.resize(rows.offsets.back());
  team.run([&](unsigned worker) {
    const auto [begin, end] = team.share(worker, list.vertices);
    std::vector<uint64_t> at(rows.offsets.begin() + begin, rows.offsets.begin() + end);
    const auto place = [&, low = begin, high = end](uint32_t v, uint32_t neighbour) {
      if (v >= low && v < high) rows.neighbours[at[v - low]++] = neighbour;
    };
    for (const Edge& edge : list.edges) {
      if (edge.from == edge.to) continue;
      place(edge.from, edge.to);
      place(edge.to, edge.from);
    }
  });
  return rows;
}

/// All vertices by descending degree, then by label.
std::vector<uint32_t> by_degree(const Rows& rows) {
  const auto vertices = static_cast<uint32_t>(rows.offsets.size() - 1);
  uint64_t degree_max = 0;
  for (uint32_t v = 0; v < vertices; ++v)
    degree_max = std::max(degree_max, rows.offsets[v + 1] - rows.offsets[v]);
  std::vector<uint32_t> at(degree_max + 2);  // at[d]: vertices of greater degree, then the next free place
  for (uint32_t v = 0; v < vertices; ++v) ++at[rows.offsets[v + 1] - rows.offsets[v]];
  uint32_t before = 0;
  for (uint64_t d = degree_max + 1; d-- > 0;) before += std::exchange(at[d], before);
  std::vector<uint32_t> order(vertices);
  for (uint32_t v = 0; v < vertices; ++v) order[at[rows.offsets[v + 1] - rows.offsets[v]]++] = v;
  return order;
}

/// The same symmetric graph with each row in `order` and without duplicates, which become neighbours by it.
void order_rows(const Rows& rows, const std::vector<uint32_t>& order, Graph& graph, Team& team) {
  const auto vertices = static_cast<uint32_t>(order.size());
  std::vector<uint32_t> ordered(rows.neighbours.size());
  std::vector<uint32_t> counts(vertices);
  team.run([&](unsigned worker) {
    const auto [begin, end] = team.share(worker, vertices);
    for (const uint32_t u : order) {
      for (uint64_t i = rows.offsets[u]; i < rows.offsets[u + 1]; ++i) {
        const uint32_t v = rows.neighbours[i];
        if (v < begin || v >= end) continue;
        uint32_t* row = ordered.data() + rows.offsets[v];
        if (counts[v] == 0 || row[counts[v] - 1] != u) row[counts[v]++] = u;
      }
    }
  });
  graph.offsets = offsets_of(counts);
  graph.neighbours.resize(graph.offsets.back());
  team.run([&](unsigned worker) {
    const auto [begin, end] = team.share(worker, vertices);
    for (uint64_t v = begin; v < end; ++v) {
      std::copy_n(ordered.data() + rows.offsets[v], counts[v], graph.neighbours.data() + graph.offsets[v]);
    }
  });
}

}  // namespace

Graph build(const EdgeList& list, Team& team) {
  Graph graph;
  const Rows rows = symmetric(list, graph, team);
  order_rows(rows, by_degree(rows), graph, team);
  return graph;
}

}  // namespace ocm::bfs
