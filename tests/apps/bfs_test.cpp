// Breadth-first search: the graphs, every source of edges against the serial search, and a validator that
// rejects.
#include <algorithm>
#include <random>
#include <set>

#include "../api/embedded.h"
#include "bfs/array_edges.h"
#include "bfs/cluster_edges.h"
#include "bfs/kron.h"
#include "bfs/search.h"
#include "bfs/shoc.h"
#include "bfs/validate.h"

namespace ocm::bfs {
namespace {

constexpr Direction kDirections[] = {Direction::kTopDown, Direction::kOptimising};

Graph graph_of(uint32_t vertices, std::vector<Edge> edges, unsigned workers = 2) {
  Team team(workers);
  return build({vertices, std::move(edges)}, team);
}

/// Edges at random, self loops and duplicates among them; some vertices stay alone.
EdgeList random_list(uint32_t vertices, size_t edges, uint64_t seed) {
  std::mt19937_64 random(seed);
  EdgeList list{vertices, {}};
  for (size_t i = 0; i < edges; ++i) {
    const auto v = static_cast<uint32_t>(random() % vertices);
    list.edges.push_back({v, static_cast<uint32_t>(random() % 8 == 0 ? v : random() % vertices)});
  }
  return list;
}

/// A graph in a window of cluster memory so small that rows are cut and windows are many.
class Bfs : public Embedded {
 protected:
  void SetUp() override {
    session_ = Session::open({.flags = OCM_SESSION_EMBEDDED, .embedded_bytes = 256 << 20}).value();
  }

  Allocation put(const SplitGraph& parts) {
    const std::vector<std::byte> rest = packed(parts.rest, neighbour_bits(parts.local.vertices));
    Allocation memory = session_.allocate(std::max<uint64_t>(rest.size(), 4)).value();
    memory.put(0, rest).check();
    return memory;
  }

  /// Searches in plain arrays and in cluster memory, both directions, and compares all with the serial
  /// search.
  void check(const Graph& graph, uint32_t root, uint32_t first_neighbours, const WindowOptions& windows) {
    const SplitGraph parts = split(graph, first_neighbours, team_);
    const Allocation memory = put(parts);
    ArrayEdges<> here(parts.local, parts.rest.data());
    ClusterEdges there(parts.local, memory, team_.workers(), windows);
    Search local(here, team_);
    Search remote(there, team_);
    for (const Direction direction : kDirections) {
      for (const uint64_t alpha : {1u, 15u, 1u << 30}) {  // turns late, as it should, and at once
        const SearchOptions options{direction, alpha, 18};
        ASSERT_TRUE(local.run(root, options));
        expect_valid(graph, root, local.parents());
        ASSERT_TRUE(remote.run(root, options));
        expect_valid(graph, root, remote.parents());
      }
    }
  }
  void expect_valid(const Graph& graph, uint32_t root, const uint32_t* parents) {
    const auto fault = validate(graph, root, {parents, graph.vertices()}, team_);
    EXPECT_FALSE(fault) << fault->what;
  }

  Session session_;
  Team team_{2};
};

// ------------------------------------------------------------------ graphs

TEST(BfsGraph, TreeHasTwoChildrenEach) {
  const EdgeList list = tree(6);
  ASSERT_EQ(list.edges.size(), 5u);
  const Graph graph = graph_of(6, list.edges);
  EXPECT_EQ(graph.neighbours.size(), 10u);
  const auto of_one = graph.of(1);
  EXPECT_EQ(std::set<uint32_t>(of_one.begin(), of_one.end()), (std::set<uint32_t>{0, 3, 4}));
}

TEST(BfsGraph, ShocTreeHasTheSizesOfTheDocuments) {
  EXPECT_EQ(ShocTree{1'000'000}.edges() * 4, 7'999'992u);
  EXPECT_EQ(ShocTree{1'000'000}.offset(1'000'000), ShocTree{1'000'000}.edges());
}

TEST(BfsGraph, ShocTreeIsTheTreeWhateverPartsItIsWrittenIn) {
  for (const uint32_t vertices : {1u, 2u, 3u, 6u, 1000u}) {
    const Graph expected = graph_of(vertices, tree(vertices).edges);
    const ShocTree tree{vertices};
    std::vector<uint32_t> offsets(vertices + 1, tree.edges()), neighbours(tree.edges());
    for (uint32_t v = 0; v < vertices; v += 7)
      tree.write(v, std::min(v + 7, vertices), &offsets[v], neighbours.data() + tree.offset(v));
    EXPECT_TRUE(std::equal(offsets.begin(), offsets.end(), expected.offsets.begin(), expected.offsets.end()));
    for (uint32_t v = 0; v < vertices; ++v) {
      std::multiset<uint32_t> row(neighbours.data() + offsets[v], neighbours.data() + offsets[v + 1]);
      EXPECT_EQ(row, std::multiset<uint32_t>(expected.of(v).begin(), expected.of(v).end()));
    }
  }
}

TEST(BfsGraph, KroneckerIsTheSameForAnyTeam) {
  Team one(1), three(3);
  const EdgeList a = kronecker(10, 16, 7, one), b = kronecker(10, 16, 7, three),
                 c = kronecker(10, 16, 8, one);
  const auto same = [](const Edge& x, const Edge& y) { return x.from == y.from && x.to == y.to; };
  ASSERT_EQ(a.edges.size(), 16u << 10);
  EXPECT_TRUE(std::equal(a.edges.begin(), a.edges.end(), b.edges.begin(), b.edges.end(), same));
  EXPECT_FALSE(std::equal(a.edges.begin(), a.edges.end(), c.edges.begin(), c.edges.end(), same));
}

TEST(BfsGraph, KroneckerUsesEveryLabelAndIsSkewed) {
  Team team(2);
  const EdgeList list = kronecker(12, 16, 1, team);
  uint64_t in_quadrant[4] = {};
  std::vector<uint32_t> degree(list.vertices);
  for (const Edge& edge : list.edges) {
    ASSERT_LT(std::max(edge.from, edge.to), list.vertices);
    ++degree[edge.from];
    ++in_quadrant[(edge.from >> 11) * 2 + (edge.to >> 11)];
  }
  // The labels are scrambled: what was the heavy quadrant is spread over all, but degrees stay far from even.
  for (const uint64_t count : in_quadrant) EXPECT_GT(count, list.edges.size() / 16);
  EXPECT_GT(*std::max_element(degree.begin(), degree.end()), 16u * 16);
}

TEST(BfsGraph, BuildIsSymmetricWithoutLoopsAndDuplicates) {
  const EdgeList list = random_list(300, 2000, 3);
  std::set<std::pair<uint32_t, uint32_t>> expected;
  std::vector<uint32_t> ends(300);
  for (const Edge& edge : list.edges) {
    ++ends[edge.from], ++ends[edge.to];
    if (edge.from != edge.to) expected.insert({edge.from, edge.to}), expected.insert({edge.to, edge.from});
  }
  for (const unsigned workers : {1u, 2u, 5u}) {
    const Graph graph = graph_of(300, list.edges, workers);
    std::set<std::pair<uint32_t, uint32_t>> got;
    for (uint32_t v = 0; v < 300; ++v) {
      for (const uint32_t w : graph.of(v))
        EXPECT_TRUE(got.insert({v, w}).second) << "twice: " << v << " " << w;
    }
    EXPECT_EQ(got, expected);
    EXPECT_EQ(graph.input_degree, ends);
  }
}

TEST(BfsGraph, NeighboursStandByDegree) {
  // 0 and 1 have many neighbours; 4's are 3 (2), 1 (4) and 0 (5).
  const Graph graph =
      graph_of(8, {{0, 1}, {0, 2}, {0, 4}, {0, 5}, {0, 6}, {1, 4}, {1, 5}, {1, 7}, {3, 4}, {3, 2}});
  const auto row = graph.of(4);
  EXPECT_EQ(std::vector<uint32_t>(row.begin(), row.end()), (std::vector<uint32_t>{0, 1, 3}));
}

TEST(BfsGraph, SplitKeepsEveryNeighbourOnce) {
  Team team(2);
  const Graph graph = build(random_list(200, 1500, 4), team);
  for (const uint32_t each : {0u, 1u, 4u, 64u}) {
    const SplitGraph parts = split(graph, each, team);
    for (uint32_t v = 0; v < 200; ++v) {
      std::vector<uint32_t> row;
      for (uint32_t i = 0; i < each; ++i) {
        if (parts.local.heads[v * each + i] != kNoVertex) row.push_back(parts.local.heads[v * each + i]);
      }
      for (uint64_t i = parts.local.offsets[v]; i < parts.local.offsets[v + 1]; ++i)
        row.push_back(parts.rest[i]);
      EXPECT_TRUE(std::equal(row.begin(), row.end(), graph.of(v).begin(), graph.of(v).end()));
      EXPECT_EQ(parts.local.isolated.test(v), row.empty());
    }
  }
}

// ------------------------------------------------------------------ searches

TEST_F(Bfs, RandomGraphsAgreeWithTheSerialSearch) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Graph graph = build(random_list(1000, 300 << seed, seed), team_);
    for (const uint32_t first : {0u, 2u, 4u}) check(graph, static_cast<uint32_t>(seed * 37), first, {});
  }
}

TEST_F(Bfs, SmallWindowsCutRowsAndCountWhatMoved) {
  const Graph graph = build(kronecker(11, 16, 2, team_), team_);
  uint32_t root = 0;
  while (graph.degree(root) == 0) ++root;
  check(graph, root, 3, {.bytes = 64, .count = 1, .segments = 2, .gap_bytes_max = 0});
  check(graph, root, 0, {.bytes = 256, .count = 5, .segments = 3, .gap_bytes_max = 4096});

  const SplitGraph parts = split(graph, 0, team_);
  const Allocation memory = put(parts);
  ClusterEdges exact(parts.local, memory, team_.workers(), {.gap_bytes_max = 0});
  Search search(exact, team_);
  ASSERT_TRUE(search.run(root, {Direction::kTopDown}));
  uint64_t edges = 0, rows = 0;
  for (uint32_t v = 0; v < graph.vertices(); ++v) {
    if (search.parents()[v] == kNoVertex || graph.degree(v) == 0) continue;
    edges += graph.degree(v);
    ++rows;
  }
  const uint64_t bytes = packed_bytes(edges, 11);
  EXPECT_GE(exact.moved().bytes, bytes) << "a row of the component moves once";
  EXPECT_LE(exact.moved().bytes, bytes + 2 * rows)
      << "without gaps, but for the rest of its first and last byte";
}

TEST(PackedEdges, AreReadAsTheyWereWritten) {
  for (unsigned bits = 1; bits <= 32; ++bits) {
    std::mt19937_64 random(bits);
    std::vector<uint32_t> wide(1000);
    for (uint32_t& one : wide) one = static_cast<uint32_t>(random() >> (64 - bits));
    wide[7] = static_cast<uint32_t>((uint64_t{1} << bits) - 1);
    std::vector<std::byte> narrow = packed(wide, bits);
    EXPECT_EQ(narrow.size(), (1000 * bits + 7) / 8);
    narrow.resize(narrow.size() + 8, std::byte{0xFF});
    PackedReader reader(narrow.data(), 0, bits);
    for (size_t i = 0; i < wide.size(); ++i, ++reader) ASSERT_EQ(*reader, wide[i]) << bits << " bits, " << i;
  }
  EXPECT_EQ(neighbour_bits(1), 1u);
  EXPECT_EQ(neighbour_bits(2), 1u);
  EXPECT_EQ(neighbour_bits(3), 2u);
  EXPECT_EQ(neighbour_bits(1u << 20), 20u);
  EXPECT_EQ(neighbour_bits((1u << 20) + 1), 21u);
}

TEST_F(Bfs, OptimisingMovesFewEdges) {
  const Graph graph = build(kronecker(14, 16, 5, team_), team_);
  const SplitGraph parts = split(graph, 4, team_);
  const Allocation memory = put(parts);
  ClusterEdges edges(parts.local, memory, team_.workers());
  Search search(edges, team_);
  uint32_t root = 0;
  while (graph.degree(root) < 2) ++root;
  ASSERT_TRUE(search.run(root, {}));
  EXPECT_LT(edges.moved().bytes, graph.neighbours.size() * 4 * 15 / 100);
  EXPECT_TRUE(
      std::any_of(search.levels().begin(), search.levels().end(), [](const Level& l) { return l.up; }));
}

TEST_F(Bfs, OneVertexIsItsOwnTree) {
  check(graph_of(1, {}), 0, 4, {});
  check(graph_of(1, {{0, 0}}), 0, 4, {});
}

TEST_F(Bfs, AnIsolatedRootFindsNobody) {
  const Graph graph = graph_of(130, {{0, 1}, {1, 129}});
  check(graph, 64, 4, {});
  check(graph, 129, 0, {});
}

TEST_F(Bfs, SelfLoopsAndDuplicatesLeadNowhere) {
  check(graph_of(5, {{0, 0}, {0, 1}, {1, 0}, {0, 1}, {3, 3}, {3, 4}}), 0, 1, {});
}

TEST_F(Bfs, ALongPathHasManyLevels) {
  std::vector<Edge> path;
  for (uint32_t v = 1; v < 1000; ++v) path.push_back({v - 1, v});
  const Graph graph = graph_of(1000, path);
  check(graph, 500, 1, {});
}

TEST_F(Bfs, StripedEdgesAreSearched) {
  const Graph graph = build(kronecker(12, 8, 3, team_), team_);
  KronOptions options{.scale = 12, .edge_factor = 8, .seed = 3, .roots = 3, .validate = true};
  AllocationOptions striped{.layout = OCM_LAYOUT_STRIPED, .extents = 3, .chunk_bytes = 64};
  options.places = {{"striped", striped, false}, {"local", {.flags = OCM_ALLOCATION_LOCAL}, true}};
  const Expected<KronReport> report = run_kron(options, &session_, team_);
  ASSERT_TRUE(report) << report.error().message();
  EXPECT_EQ(report->edges_kept, graph.neighbours.size());
  ASSERT_EQ(report->series.size(), 6u);  // arrays, striped, local; down, optimising
  for (const Series& series : report->series) EXPECT_EQ(series.validated, 3u);
  EXPECT_GT(report->series[1].moved.bytes, 0u);
  EXPECT_EQ(report->series[2].moved.bytes, 0u);
}

TEST_F(Bfs, NoRoomIsAnError) {
  const KronOptions options{.scale = 10, .roots = 1, .places = {{"local", {.nodes = {"nobody"}}, false}}};
  EXPECT_EQ(run_kron(options, &session_, team_).status(), OCM_UNKNOWN_NODE);
  Session small = Session::open({.flags = OCM_SESSION_EMBEDDED, .embedded_bytes = 64 << 10}).value();
  const KronOptions large{.scale = 12, .roots = 1, .places = {{"local", {}, false}}};
  EXPECT_EQ(run_kron(large, &small, team_).status(), OCM_POOL_FULL);
}

TEST_F(Bfs, MemoryThatGoesAwayEndsTheSearchWithAnError) {
  const Graph graph = build(kronecker(10, 16, 1, team_), team_);
  const SplitGraph parts = split(graph, 2, team_);
  Allocation owner = put(parts);
  owner.publish("bfs-rest").check();
  const Allocation reader = session_.attach("bfs-rest", OCM_ACCESS_READ).value();
  ClusterEdges edges(parts.local, reader, team_.workers(), {.bytes = 256});
  Search search(edges, team_);
  uint32_t root = 0;
  while (graph.degree(root) < 8) ++root;
  ASSERT_TRUE(search.run(root, {Direction::kTopDown}));
  session_.remove("bfs-rest").check();
  EXPECT_EQ(search.run(root, {Direction::kTopDown}).status(), OCM_REVOKED);
}

TEST_F(Bfs, ShocIsSearchedHereAndInTheCluster) {
  const Graph graph = build(tree(100'000), team_);
  std::vector<uint32_t> here, there;
  ASSERT_TRUE(run_shoc_here({100'000}, team_, here));
  const Expected<Phases> phases = run_shoc_cluster({100'000}, session_, {}, team_, there);
  ASSERT_TRUE(phases) << phases.error().message();
  EXPECT_GT(phases->total(), 0);
  EXPECT_EQ(here, there);
  for (uint32_t v = 1; v < 100'000; ++v) ASSERT_EQ(here[v], (v - 1) / 2);
  EXPECT_FALSE(validate(graph, 0, here, team_));
}

// ------------------------------------------------------------------ the validator

/// A square with a diagonal, 0-1-2-3-0 and 0-2, and a vertex alone.
class BfsValidator : public testing::Test {
 protected:
  std::optional<Check> fault(std::vector<uint32_t> parents) {
    const auto found = validate(graph_, 0, parents, team_);
    return found ? std::optional(found->check) : std::nullopt;
  }
  Team team_{1};
  const Graph graph_ = graph_of(5, {{0, 1}, {1, 2}, {2, 3}, {3, 0}, {0, 2}});
};

TEST_F(BfsValidator, AcceptsTheTree) { EXPECT_EQ(fault({0, 0, 0, 0, kNoVertex}), std::nullopt); }

TEST_F(BfsValidator, Check1RejectsCyclesAndStrayRoots) {
  EXPECT_EQ(fault({0, 2, 1, 0, kNoVertex}), Check::kTree);
  EXPECT_EQ(fault({0, 1, 0, 0, kNoVertex}), Check::kTree);
  EXPECT_EQ(fault({1, 0, 0, 0, kNoVertex}), Check::kTree);
  EXPECT_EQ(fault({0, 0, 0, 77, kNoVertex}), Check::kTree);
}

TEST_F(BfsValidator, Check2RejectsLevelsThatAreNotOneApart) {
  const std::vector<uint32_t> parents{0, 0, 0, 0, kNoVertex};
  const auto check = [&](std::vector<uint32_t> levels) {
    const auto found = check_tree(graph_, parents, levels, team_);
    return found ? std::optional(found->check) : std::nullopt;
  };
  EXPECT_EQ(check({0, 1, 1, 1, kNoLevel}), std::nullopt);
  EXPECT_EQ(check({0, 1, 2, 1, kNoLevel}), Check::kLevels);
  EXPECT_EQ(check({0, 1, 1, kNoLevel, kNoLevel}), Check::kLevels);
}

TEST_F(BfsValidator, Check3RejectsEdgesOverTwoLevels) {
  EXPECT_EQ(fault({0, 0, 1, 0, kNoVertex}), Check::kEdges);  // 0-2 is an edge, but 2 hangs below 1
}

TEST_F(BfsValidator, Check4RejectsAnIncompleteComponent) {
  EXPECT_EQ(fault({0, 0, 0, kNoVertex, kNoVertex}), Check::kComponent);
}

TEST_F(BfsValidator, Check5RejectsParentsThatAreNoNeighbours) {
  const Graph star = graph_of(4, {{0, 1}, {0, 2}, {1, 3}, {2, 3}, {1, 2}});
  const auto found = validate(graph_, 0, std::vector<uint32_t>{0, 0, 0, 0, 0}, team_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->check, Check::kParents);  // 4 is alone in the graph
  EXPECT_FALSE(validate(star, 0, std::vector<uint32_t>{0, 0, 0, 1}, team_));
}

TEST_F(BfsValidator, CountsTheGeneratedEdgesOfTheTree) {
  const Graph graph = graph_of(6, {{0, 1}, {1, 0}, {1, 1}, {2, 3}, {4, 4}});
  EXPECT_EQ(traversed_edges(graph, std::vector<uint32_t>{0, 0, kNoVertex, kNoVertex, kNoVertex, kNoVertex}),
            3u);
}

}  // namespace
}  // namespace ocm::bfs
