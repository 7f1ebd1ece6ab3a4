// SHOC's breadth-first search as the documents time it: a tree is made in a store (plain memory, or cluster
// memory), is copied from there into the arrays of the kernel, is searched from vertex 0, and everything
// ends.
//
// Each run stands for a program with one search, so all memory is new: the pages of the store and of the
// kernel are touched for the first time here as there. Source: Oncilla (Cluster '13) VI.C and figure 12;
// thesis 7.5.3 and figure 49.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <oncilla/oncilla.hpp>
#include <vector>

#include "bfs/team.h"

namespace ocm::bfs {

/// Of one run; the names are those of figure 49.
struct Phases {
  static constexpr std::array<const char*, 4> kNames{"initialisation", "transfer", "kernel", "teardown"};
  std::array<double, 4> seconds{};
  double total() const { return seconds[0] + seconds[1] + seconds[2] + seconds[3]; }
};

/// The two-way tree with 32-bit offsets (4 MB for a million vertices) and neighbours (8 MB); any part of it
/// can be written by itself. Neighbours of v: its parent, then its children 2v+1 and 2v+2.
struct ShocTree {
  uint32_t vertices;  // at least 1

  uint32_t edges() const { return 2 * (vertices - 1); }
  uint32_t offset(uint32_t v) const { return (v > 0 ? v - 1 : 0) + std::min(2 * v, vertices - 1); }
  /// Offsets of [begin, end) and the neighbours of these vertices.
  void write(uint32_t begin, uint32_t end, uint32_t* offsets, uint32_t* neighbours) const;
};

/// With the store in this program. `parents` receives the result. Errors: NO_MEMORY.
Expected<Phases> run_shoc_here(const ShocTree& tree, Team& team, std::vector<uint32_t>& parents);
/// With the store in the cluster, as `options` say. Errors: NO_MEMORY, those of allocate, put and get.
Expected<Phases> run_shoc_cluster(const ShocTree& tree, Session& session, const AllocationOptions& options,
                                  Team& team, std::vector<uint32_t>& parents);

}  // namespace ocm::bfs
