// Searches of a Kronecker graph from many roots, as Graph 500 asks: in plain arrays, which is the limit, and
// with the edges in cluster memory, in turns.
#pragma once

#include <oncilla/oncilla.hpp>
#include <string>
#include <vector>

#include "bfs/cluster_edges.h"
#include "bfs/graph.h"
#include "bfs/search.h"

namespace ocm::bfs {

/// Where the edges lie in the cluster.
struct Placement {
  std::string name;
  AllocationOptions allocation;
  bool in_place = false;  // on this host: read where they are, without a transfer
};

struct KronOptions {
  unsigned scale = 20;
  unsigned edge_factor = 16;
  uint64_t seed = 1;
  unsigned roots = 16;
  uint32_t first_neighbours = 4;  // of each vertex, kept local
  bool validate = false;
  std::vector<Direction> directions{Direction::kTopDown, Direction::kOptimising};
  std::vector<Placement> places;
  WindowOptions windows;
};

/// The searches of one direction at one place; entry i is of root i in all of a report.
struct Series {
  Direction direction;
  std::string place;  // "arrays" is the limit
  std::vector<double> seconds;
  std::vector<double> teps;  // traversed edges in a second, as Graph 500 counts
  Moved moved;               // of all roots
  uint32_t validated = 0;
};

struct KronReport {
  uint64_t vertices = 0;
  uint64_t edges_generated = 0;
  uint64_t edges_kept = 0;  // each direction by itself
  double build_seconds = 0;
  std::vector<Series> series;
};

/// Searches from `roots` vertices that have neighbours. `session` is used only with places.
/// Errors: POOL_FULL and the others of allocate; those of put and get; INTERNAL where a tree is not valid.
Expected<KronReport> run_kron(const KronOptions& options, Session* session, Team& team);

}  // namespace ocm::bfs
