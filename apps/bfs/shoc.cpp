#include "bfs/shoc.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>

#include "bfs/array_edges.h"
#include "bfs/fresh_array.h"
#include "bfs/search.h"

namespace ocm::bfs {
namespace {

/// Has the members of LocalPart that Search reads, over 32-bit offsets and without heads.
struct ShocPart {
  static constexpr uint32_t each = 0;
  uint32_t vertices;
  uint64_t edges;
  FreshArray offsets;
  std::vector<uint32_t> heads;  // stays empty
  Bitmap isolated;              // stays so: a tree has none

  uint64_t rest_degree(uint32_t v) const { return offsets[v + 1] - offsets[v]; }
};

/// What a worker writes at a time.
constexpr uint32_t kPartVertices = 32 * 1024;

Error no_memory() {
  return {OCM_NO_MEMORY, "the system refused memory for the tree: ask for fewer vertices"};
}

/// Two arrays in plain memory; offsets has a last one more.
class StoreHere {
 public:
  Done allocate(const ShocTree& tree) {
    offsets_ = FreshArray(tree.vertices + 1);
    neighbours_ = FreshArray(tree.edges());
    if (offsets_.data() == nullptr || neighbours_.data() == nullptr) return no_memory();
    return {};
  }
  Done make(const ShocTree& tree, Team& team) {
    team.run([&](unsigned worker) {
      const auto [begin, end] = team.share(worker, tree.vertices, kPartVertices);
      if (begin < end) {
        tree.write(static_cast<uint32_t>(begin), static_cast<uint32_t>(end), offsets_.data() + begin,
                   neighbours_.data() + tree.offset(static_cast<uint32_t>(begin)));
      }
    });
    offsets_.data()[tree.vertices] = tree.edges();
    return {};
  }
  Done get(std::span<uint32_t> offsets, std::span<uint32_t> neighbours, Team& team) {
    team.run([&](unsigned worker) {
      copy(team, worker, offsets_, offsets);
      copy(team, worker, neighbours_, neighbours);
    });
    return {};
  }
  Done end() {
    offsets_ = FreshArray();
    neighbours_ = FreshArray();
    return {};
  }

 private:
  static void copy(const Team& team, unsigned worker, const FreshArray& from, std::span<uint32_t> to) {
    const auto [begin, end] = team.share(worker, to.size());
    std::memcpy(to.data() + begin, from.data() + begin, (end - begin) * sizeof(uint32_t));
  }

  FreshArray offsets_, neighbours_;
};

/// Two allocations in the cluster. What is made is put while the next part is being made.
class StoreCluster {
 public:
  StoreCluster(Session& session, const AllocationOptions& options) : session_(session), options_(options) {}

  Done allocate(const ShocTree& tree) {
    if (Done done = take(tree.vertices + 1, offsets_); !done) return done;
    return take(tree.edges(), neighbours_);
  }
  Done make(const ShocTree& tree, Team& team) {
    std::vector<Done> outcomes(team.workers());
    team.run([&](unsigned worker) { outcomes[worker] = make_share(tree, team, worker); });
    for (const Done& done : outcomes) {
      if (!done) return done;
    }
    return offsets_.store(uint64_t{tree.vertices} * sizeof(uint32_t), tree.edges());
  }
  Done get(std::span<uint32_t> offsets, std::span<uint32_t> neighbours, Team&) {
    Expected<Op> one = offsets_.get_start(0, std::as_writable_bytes(offsets));
    if (!one) return one.error();
    Expected<Op> other = neighbours_.get_start(0, std::as_writable_bytes(neighbours));
    if (!other) return other.error();
    Done first = one->wait(), second = other->wait();
    return first ? second : first;
  }
  Done end() {
    Done first = offsets_.free(), second = neighbours_.free();
    return first ? second : first;
  }

 private:
  /// Vertices under way to the cluster.
  struct Part {
    std::unique_ptr<uint32_t[]> offsets = std::make_unique_for_overwrite<uint32_t[]>(kPartVertices);
    std::unique_ptr<uint32_t[]> neighbours = std::make_unique_for_overwrite<uint32_t[]>(3 * kPartVertices);
    std::optional<Op> ops[2];  // after what they read

    Done wait() {
      for (std::optional<Op>& op : ops) {
        if (!op) continue;
        Done done = op->wait();
        op.reset();
        if (!done) return done;
      }
      return {};
    }
  };

  Done take(uint64_t count, Allocation& allocation) {
    Expected<Allocation> made = session_.allocate(count * sizeof(uint32_t), options_);
    if (!made) return made.error();
    allocation = std::move(*made);
    return {};
  }
  Done make_share(const ShocTree& tree, const Team& team, unsigned worker) {
    const auto [begin, end] = team.share(worker, tree.vertices, kPartVertices);
    Part parts[2];
    size_t turn = 0;
    for (auto v = static_cast<uint32_t>(begin); v < end; v += kPartVertices, turn ^= 1) {
      if (Done done = parts[turn].wait(); !done) return done;
      const auto last = static_cast<uint32_t>(std::min<uint64_t>(v + kPartVertices, end));
      if (Done done = start(tree, v, last, parts[turn]); !done) return done;
    }
    for (Part& part : parts) {
      if (Done done = part.wait(); !done) return done;
    }
    return {};
  }
  Done start(const ShocTree& tree, uint32_t begin, uint32_t end, Part& part) {
    tree.write(begin, end, part.offsets.get(), part.neighbours.get());
    const uint64_t from = tree.offset(begin), to = tree.offset(end);
    const auto begin_put = [](Allocation& memory, uint64_t at, const uint32_t* data, uint64_t count,
                              std::optional<Op>& op) -> Done {
      auto op_or = memory.put_start(at * sizeof(uint32_t), std::as_bytes(std::span(data, count)));
      if (!op_or) return op_or.error();
      op.emplace(std::move(*op_or));
      return {};
    };
    Done done = begin_put(offsets_, begin, part.offsets.get(), end - begin, part.ops[0]);
    if (!done) return done;
    return begin_put(neighbours_, from, part.neighbours.get(), to - from, part.ops[1]);
  }

  Session& session_;
  const AllocationOptions& options_;
  Allocation offsets_, neighbours_;
};

/// The arrays that the kernel reads and writes.
struct Kernel {
  Kernel(const ShocTree& tree, Team& team)
      : part{tree.vertices, tree.edges(), FreshArray(tree.vertices + 1), {}, Bitmap(tree.vertices)},
        neighbours(tree.edges()),
        edges(part, neighbours.data()),
        search(edges, team) {}
  bool is_valid() const { return part.offsets.data() != nullptr && neighbours.data() != nullptr; }

  ShocPart part;
  FreshArray neighbours;
  ArrayEdges<ShocPart> edges;
  Search<ArrayEdges<ShocPart>> search;
};

template <class Store>
Expected<Phases> run(const ShocTree& tree, Store store, Team& team, std::vector<uint32_t>& parents) {
  using Clock = std::chrono::steady_clock;
  Phases phases;
  Clock::time_point from = Clock::now();
  const auto ends = [&](int phase) {
    const Clock::time_point now = Clock::now();
    phases.seconds[phase] = std::chrono::duration<double>(now - from).count();
    from = now;
  };
  if (Done done = store.allocate(tree); !done) return done.error();
  if (Done done = store.make(tree, team); !done) return done.error();
  auto kernel = std::make_unique<Kernel>(tree, team);
  if (!kernel->is_valid()) return no_memory();
  ends(0);
  if (Done done = store.get(kernel->part.offsets.span(), kernel->neighbours.span(), team); !done)
    return done.error();
  ends(1);
  if (Done done = kernel->search.run(0, {Direction::kTopDown}); !done) return done.error();
  ends(2);
  parents.assign(kernel->search.parents(), kernel->search.parents() + tree.vertices);
  from = Clock::now();
  kernel.reset();
  if (Done done = store.end(); !done) return done.error();
  ends(3);
  return phases;
}

}  // namespace

void ShocTree::write(uint32_t begin, uint32_t end, uint32_t* offsets, uint32_t* neighbours) const {
  for (uint32_t v = begin; v < end; ++v) {
    *offsets++ = offset(v);
    if (v > 0) *neighbours++ = (v - 1) / 2;
    for (uint32_t child = 2 * v + 1; child <= 2 * v + 2 && child < vertices; ++child) *neighbours++ = child;
  }
}

Expected<Phases> run_shoc_here(const ShocTree& tree, Team& team, std::vector<uint32_t>& parents) {
  return run(tree, StoreHere(), team, parents);
}

Expected<Phases> run_shoc_cluster(const ShocTree& tree, Session& session, const AllocationOptions& options,
                                  Team& team, std::vector<uint32_t>& parents) {
  return run(tree, StoreCluster(session, options), team, parents);
}

}  // namespace ocm::bfs
