// The checks that Graph 500 asks of a search's result, and the serial search that it is compared with.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bfs/graph.h"

namespace ocm::bfs {

inline constexpr uint32_t kNoLevel = UINT32_MAX;

/// What a result can get wrong, by Graph 500's numbers.
enum class Check {
  kTree = 1,       // parents lead to the root, without cycles
  kLevels = 2,     // a vertex is one level below its parent
  kEdges = 3,      // no edge spans more than one level
  kComponent = 4,  // the tree has all of the root's component
  kParents = 5,    // a vertex and its parent are joined by an edge
};

struct Fault {
  Check check;
  std::string what;  // with the vertices
};

/// The depth of every vertex in the tree of `parents`, kNoLevel outside; a Fault (kTree) if it is no tree.
/// Shapes: parents[vertices]; the root is its own parent, kNoVertex is no vertex of the tree.
std::optional<Fault> levels_of(uint32_t root, std::span<const uint32_t> parents,
                               std::vector<uint32_t>& levels);

/// Checks 2 to 5 of a tree and the levels that go with it. Shapes: parents[vertices], levels[vertices].
std::optional<Fault> check_tree(const Graph& graph, std::span<const uint32_t> parents,
                                std::span<const uint32_t> levels, Team& team);

/// The levels of a plain search with a queue, kNoLevel where it does not come.
std::vector<uint32_t> serial_levels(const Graph& graph, uint32_t root);

/// All five checks, and the serial search's levels.
std::optional<Fault> validate(const Graph& graph, uint32_t root, std::span<const uint32_t> parents,
                              Team& team);

/// Graph 500's count: the generated edges inside the tree, duplicates and self loops among them.
uint64_t traversed_edges(const Graph& graph, std::span<const uint32_t> parents);

}  // namespace ocm::bfs
