#include "bfs/shoc.h"

#include <chrono>
#include <cstring>
#include <memory>

#include "bfs/array_edges.h"
#include "bfs/search.h"

namespace ocm::bfs {
namespace {

/// Has the members of LocalPart that Search reads, over 32-bit offsets and without heads.
struct ShocPart {
  static constexpr uint32_t each = 0;
  uint32_t vertices;
  uint64_t edges;
  std::unique_ptr<uint32_t[]> offsets;
  std::vector<uint32_t> heads;  // stays empty
  Bitmap isolated;              // a tree has none

  uint64_t rest_degree(uint32_t v) const { return offsets[v + 1] - offsets[v]; }
};

/// Two arrays in plain memory.
class StoreHere {
 public:
  Done allocate(uint64_t offsets, uint64_t neighbours) {
    offsets_ = std::make_unique_for_overwrite<uint32_t[]>(offsets);
    neighbours_ = std::make_unique_for_overwrite<uint32_t[]>(neighbours);
    return {};
  }
  Done put(const ShocGraph& graph) {
    std::copy(graph.offsets.begin(), graph.offsets.end(), offsets_.get());
    std::copy(graph.neighbours.begin(), graph.neighbours.end(), neighbours_.get());
    return {};
  }
  Done get(std::span<uint32_t> offsets, std::span<uint32_t> neighbours) {
    std::memcpy(offsets.data(), offsets_.get(), offsets.size_bytes());
    std::memcpy(neighbours.data(), neighbours_.get(), neighbours.size_bytes());
    return {};
  }
  Done end() {
    offsets_.reset();
    neighbours_.reset();
    return {};
  }

 private:
  std::unique_ptr<uint32_t[]> offsets_, neighbours_;
};

/// Two allocations in the cluster. Both move at once.
class StoreCluster {
 public:
  StoreCluster(Session& session, const AllocationOptions& options) : session_(session), options_(options) {}

  Done allocate(uint64_t offsets, uint64_t neighbours) {
    if (Done done = take(offsets * sizeof(uint32_t), offsets_); !done) return done;
    return take(neighbours * sizeof(uint32_t), neighbours_);
  }
  Done put(const ShocGraph& graph) {
    return both(offsets_.put_start(0, std::as_bytes(std::span(graph.offsets))),
                neighbours_.put_start(0, std::as_bytes(std::span(graph.neighbours))));
  }
  Done get(std::span<uint32_t> offsets, std::span<uint32_t> neighbours) {
    return both(offsets_.get_start(0, std::as_writable_bytes(offsets)),
                neighbours_.get_start(0, std::as_writable_bytes(neighbours)));
  }
  Done end() {
    Done first = offsets_.free(), second = neighbours_.free();
    return first ? second : first;
  }

 private:
  Done take(uint64_t bytes, Allocation& allocation) {
    Expected<Allocation> made = session_.allocate(bytes, options_);
    if (!made) return made.error();
    allocation = std::move(*made);
    return {};
  }
  static Done both(Expected<Op> first, Expected<Op> second) {
    if (!first) return first.error();
    if (!second) return second.error();
    Done one = first->wait(), other = second->wait();
    return one ? other : one;
  }

  Session& session_;
  const AllocationOptions& options_;
  Allocation offsets_, neighbours_;
};

/// The arrays that the kernel reads and writes.
struct Kernel {
  Kernel(const ShocGraph& graph, Team& team)
      : part{static_cast<uint32_t>(graph.offsets.size() - 1),
             graph.neighbours.size(),
             std::make_unique_for_overwrite<uint32_t[]>(graph.offsets.size()),
             {},
             Bitmap(graph.offsets.size() - 1)},
        neighbours(std::make_unique_for_overwrite<uint32_t[]>(graph.neighbours.size())),
        edges(part, neighbours.get()),
        search(edges, team) {}
  ShocPart part;
  std::unique_ptr<uint32_t[]> neighbours;
  ArrayEdges<ShocPart> edges;
  Search<ArrayEdges<ShocPart>> search;
};

template <class Store>
Expected<Phases> run(const ShocGraph& graph, Store store, Team& team, std::vector<uint32_t>& parents) {
  using Clock = std::chrono::steady_clock;
  Phases phases;
  Clock::time_point from = Clock::now();
  const auto ends = [&](int phase) {
    const Clock::time_point now = Clock::now();
    phases.seconds[phase] = std::chrono::duration<double>(now - from).count();
    from = now;
  };
  if (Done done = store.allocate(graph.offsets.size(), graph.neighbours.size()); !done) return done.error();
  if (Done done = store.put(graph); !done) return done.error();
  auto kernel = std::make_unique<Kernel>(graph, team);
  ends(0);
  const std::span offsets(kernel->part.offsets.get(), graph.offsets.size());
  const std::span neighbours(kernel->neighbours.get(), graph.neighbours.size());
  if (Done done = store.get(offsets, neighbours); !done) return done.error();
  ends(1);
  if (Done done = kernel->search.run(0, {Direction::kTopDown}); !done) return done.error();
  ends(2);
  parents.assign(kernel->search.parents(), kernel->search.parents() + kernel->part.vertices);
  from = Clock::now();
  kernel.reset();
  if (Done done = store.end(); !done) return done.error();
  ends(3);
  return phases;
}

}  // namespace

ShocGraph shoc_graph(const Graph& graph) {
  return {{graph.offsets.begin(), graph.offsets.end()}, graph.neighbours};
}

Phases run_shoc_here(const ShocGraph& graph, Team& team, std::vector<uint32_t>& parents) {
  return run(graph, StoreHere(), team, parents).value();
}

Expected<Phases> run_shoc_cluster(const ShocGraph& graph, Session& session, const AllocationOptions& options,
                                  Team& team, std::vector<uint32_t>& parents) {
  return run(graph, StoreCluster(session, options), team, parents);
}

}  // namespace ocm::bfs
