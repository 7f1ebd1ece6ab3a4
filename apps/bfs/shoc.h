// SHOC's breadth-first search as the documents time it: the graph lies in a store (plain memory, or cluster
// memory), is copied from there into the arrays of the kernel, is searched from vertex 0, and everything
// ends. Source: Oncilla (Cluster '13) VI.C and figure 12; thesis 7.5.3 and figure 49.
#pragma once

#include <array>
#include <oncilla/oncilla.hpp>

#include "bfs/graph.h"

namespace ocm::bfs {

/// Of one run; the names are those of figure 49.
struct Phases {
  static constexpr std::array<const char*, 4> kNames{"initialisation", "transfer", "kernel", "teardown"};
  std::array<double, 4> seconds{};
  double total() const { return seconds[0] + seconds[1] + seconds[2] + seconds[3]; }
};

/// The graph as SHOC has it: 32-bit offsets (4 MB for a million vertices) and neighbours (8 MB for its tree).
struct ShocGraph {
  std::vector<uint32_t> offsets;
  std::vector<uint32_t> neighbours;
};
/// Shapes: fewer than 2^32 edges.
ShocGraph shoc_graph(const Graph& graph);

/// With the store in this program. `parents` receives the result.
Phases run_shoc_here(const ShocGraph& graph, Team& team, std::vector<uint32_t>& parents);
/// With the store in the cluster, as `options` say. Errors: those of allocate, put and get.
Expected<Phases> run_shoc_cluster(const ShocGraph& graph, Session& session, const AllocationOptions& options,
                                  Team& team, std::vector<uint32_t>& parents);

}  // namespace ocm::bfs
