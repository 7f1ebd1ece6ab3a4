// Graphs: generated as lists of edges, searched as compressed sparse rows.
//
// As GAP and Graph 500 allow, a graph is built symmetric, without self loops and without duplicates. The
// neighbours of a vertex stand in the order of their degree, the greatest first: a search from below finds a
// parent among the first few. Rates count the edges that were generated, as Graph 500 does: duplicates and
// self loops are among them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bfs/team.h"

namespace ocm::bfs {

inline constexpr uint32_t kNoVertex = UINT32_MAX;

struct Edge {
  uint32_t from, to;
};

struct EdgeList {
  uint32_t vertices = 0;
  std::vector<Edge> edges;
};

/// The two-way tree of SHOC: vertex v has the children 2v+1 and 2v+2 below `vertices`.
EdgeList tree(uint32_t vertices);

/// Graph 500's Kronecker graph (A, B, C = 0.57, 0.19, 0.19): 2^scale vertices with scrambled labels and
/// edge_factor times as many edges. The same seed gives the same graph with any team.
/// Shapes: 1 <= scale <= 30.
EdgeList kronecker(unsigned scale, unsigned edge_factor, uint64_t seed, Team& team);

struct Graph {
  std::vector<uint64_t> offsets{0};    // vertices + 1
  std::vector<uint32_t> neighbours;    // of v: [offsets[v], offsets[v + 1])
  std::vector<uint32_t> input_degree;  // ends of generated edges at v; a self loop has two

  uint32_t vertices() const { return static_cast<uint32_t>(offsets.size() - 1); }
  uint64_t degree(uint32_t v) const { return offsets[v + 1] - offsets[v]; }
  std::span<const uint32_t> of(uint32_t v) const { return {neighbours.data() + offsets[v], degree(v)}; }
};

/// Symmetric, each edge once, neighbours by descending degree. Shapes: every end < list.vertices.
/// Cost: each worker reads all edges and keeps those of its share of the vertices.
Graph build(const EdgeList& list, Team& team);

}  // namespace ocm::bfs
