// A graph in two parts: what a search keeps beside its vertices, and the long rest of the edges.
//
//   heads    the `each` first neighbours of every vertex (kNoVertex where there are fewer)
//   rest     all other neighbours, vertex after vertex: the part that lives in cluster memory
//   offsets  where each vertex' part of the rest begins
#pragma once

#include <cstdint>
#include <vector>

#include "bfs/bitmap.h"
#include "bfs/graph.h"

namespace ocm::bfs {

/// Shapes: heads[v * each + i]; the rest of v is [offsets[v], offsets[v + 1]).
struct LocalPart {
  uint32_t vertices = 0;
  uint32_t each = 0;
  uint64_t edges = 0;  // of the whole graph, each direction by itself
  std::vector<uint32_t> heads;
  std::vector<uint64_t> offsets;
  Bitmap isolated;  // vertices without neighbours

  uint64_t rest_degree(uint32_t v) const { return offsets[v + 1] - offsets[v]; }
  uint64_t rest_edges() const { return offsets.back(); }
};

struct SplitGraph {
  LocalPart local;
  std::vector<uint32_t> rest;
};

/// Shapes: any `each`; 0 leaves all edges to the rest.
SplitGraph split(const Graph& graph, uint32_t each, Team& team);

}  // namespace ocm::bfs
