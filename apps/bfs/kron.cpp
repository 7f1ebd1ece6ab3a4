#include "bfs/kron.h"

#include <chrono>
#include <functional>
#include <memory>
#include <random>

#include "bfs/array_edges.h"
#include "bfs/split.h"
#include "bfs/validate.h"

namespace ocm::bfs {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A place with what searches it, behind one face.
struct Subject {
  std::string name;
  std::function<Done(uint32_t, const SearchOptions&)> run;
  std::function<std::span<const uint32_t>()> parents;
  std::function<Moved()> moved = [] { return Moved{}; };
};

template <class Edges>
void add_search(Subject& subject, std::shared_ptr<Edges> edges, Team& team) {
  auto search = std::make_shared<Search<Edges>>(*edges, team);
  subject.run = [edges, search](uint32_t root, const SearchOptions& options) {
    return search->run(root, options);
  };
  subject.parents = [edges, search] { return std::span(search->parents(), edges->local().vertices); };
}

Subject arrays(const SplitGraph& graph, Team& team) {
  Subject subject{"arrays", {}, {}};
  add_search(subject, std::make_shared<ArrayEdges<>>(graph.local, graph.rest.data()), team);
  return subject;
}

/// Puts the rest into memory at the place and searches it there.
Expected<Subject> at_place(const Placement& place, const SplitGraph& graph, const WindowOptions& windows,
                           Session& session, Team& team) {
  std::vector<std::byte> narrow;
  if (!place.in_place) narrow = packed(graph.rest, neighbour_bits(graph.local.vertices));
  const std::span<const std::byte> rest = place.in_place ? std::as_bytes(std::span(graph.rest)) : narrow;
  const uint64_t bytes = std::max<uint64_t>(rest.size(), sizeof(uint32_t));
  Expected<Allocation> made = session.allocate(bytes, place.allocation);
  if (!made) return made.error();
  auto memory = std::make_shared<Allocation>(std::move(*made));
  if (Done done = memory->put(0, rest); !done) return done.error();
  Subject subject{place.name, {}, {}};
  if (place.in_place) {
    Expected<std::span<std::byte>> here = memory->bytes(0, bytes);
    if (!here) return here.error();
    const auto* wide = reinterpret_cast<const uint32_t*>(here->data());
    std::shared_ptr<ArrayEdges<>> edges(new ArrayEdges<>(graph.local, wide),
                                        [memory](ArrayEdges<>* gone) { delete gone; });
    add_search(subject, std::move(edges), team);
  } else {
    std::shared_ptr<ClusterEdges> edges(new ClusterEdges(graph.local, *memory, team.workers(), windows),
                                        [memory](ClusterEdges* gone) { delete gone; });
    subject.moved = [edges] { return edges->moved(); };
    add_search(subject, std::move(edges), team);
  }
  return subject;
}

/// Vertices with neighbours, the same for the same seed.
std::vector<uint32_t> choose_roots(const Graph& graph, unsigned count, uint64_t seed) {
  std::vector<uint32_t> roots;
  if (graph.neighbours.empty()) return roots;
  std::mt19937_64 random(seed);
  while (roots.size() < count) {
    const auto v = static_cast<uint32_t>(random() % graph.vertices());
    if (graph.degree(v) > 0) roots.push_back(v);
  }
  return roots;
}

Moved operator-(const Moved& a, const Moved& b) {
  return {a.bytes - b.bytes, a.segments - b.segments, a.windows - b.windows};
}

/// One search, timed, added to `series`.
Done measure(Subject& subject, const Graph& graph, uint32_t root, bool check, Team& team, Series& series) {
  const auto start = std::chrono::steady_clock::now();
  if (Done done = subject.run(root, {series.direction}); !done) return done;
  const double seconds = seconds_since(start);
  series.seconds.push_back(seconds);
  series.teps.push_back(static_cast<double>(traversed_edges(graph, subject.parents())) / seconds);
  if (!check) return {};
  if (auto fault = validate(graph, root, subject.parents(), team)) {
    return Error(OCM_INTERNAL, "the tree from root " + std::to_string(root) + " at " + subject.name +
                                   " fails check " + std::to_string(static_cast<int>(fault->check)) + ": " +
                                   fault->what);
  }
  ++series.validated;
  return {};
}

/// All roots in one direction; the subjects take turns.
Done run_direction(Direction direction, std::vector<Subject>& subjects, const Graph& graph,
                   const std::vector<uint32_t>& roots, bool check, Team& team, std::vector<Series>& out) {
  std::vector<Series> series;
  std::vector<Moved> before;
  for (Subject& subject : subjects) {
    // The first search touches its memory and connects.
    if (Done done = subject.run(roots.front(), {direction}); !done) return done;
    series.push_back({direction, subject.name, {}, {}, {}, 0});
    before.push_back(subject.moved());
  }
  for (const uint32_t root : roots) {
    for (size_t i = 0; i < subjects.size(); ++i) {
      if (Done done = measure(subjects[i], graph, root, check, team, series[i]); !done) return done;
    }
  }
  for (size_t i = 0; i < subjects.size(); ++i) series[i].moved = subjects[i].moved() - before[i];
  out.insert(out.end(), series.begin(), series.end());
  return {};
}

}  // namespace

Expected<KronReport> run_kron(const KronOptions& options, Session* session, Team& team) {
  KronReport report;
  const auto start = std::chrono::steady_clock::now();
  Graph graph;
  {
    const EdgeList list = kronecker(options.scale, options.edge_factor, options.seed, team);
    report.edges_generated = list.edges.size();
    graph = build(list, team);
  }
  const SplitGraph parts = split(graph, options.first_neighbours, team);
  report.build_seconds = seconds_since(start);
  report.vertices = graph.vertices();
  report.edges_kept = graph.neighbours.size();
  const std::vector<uint32_t> roots = choose_roots(graph, options.roots, options.seed);
  if (roots.empty()) return Error(OCM_INVALID_ARGUMENT, "the graph has no edge to search: raise the scale");

  std::vector<Subject> subjects{arrays(parts, team)};
  for (const Placement& place : options.places) {
    Expected<Subject> subject = at_place(place, parts, options.windows, *session, team);
    if (!subject) return subject.error();
    subjects.push_back(std::move(*subject));
  }
  for (const Direction direction : options.directions) {
    Done done = run_direction(direction, subjects, graph, roots, options.validate, team, report.series);
    if (!done) return done.error();
  }
  return report;
}

}  // namespace ocm::bfs
