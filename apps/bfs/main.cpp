// `oncilla-bfs`: breadth-first search on graphs in cluster memory, beside the same search in plain arrays.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>
#include <thread>

#include "bfs/report.h"
#include "bfs/validate.h"

namespace {

using namespace ocm;
using namespace ocm::bfs;

// As `ocm` exits: one number for each thing that a script would act on (ocm(1)).
constexpr int kExitFailure = 1, kExitUsage = 2, kExitNoCluster = 3, kExitNotFound = 4, kExitFull = 6,
              kExitPermission = 7, kExitLost = 8;

int exit_code(int status) {
  switch (status) {
    case OCM_INVALID_ARGUMENT: return kExitUsage;
    case OCM_NO_DAEMON:
    case OCM_DRAINING:
    case OCM_NO_COORDINATOR: return kExitNoCluster;
    case OCM_UNKNOWN_NODE:
    case OCM_NOT_FOUND: return kExitNotFound;
    case OCM_POOL_FULL:
    case OCM_QUOTA:
    case OCM_LIMIT:
    case OCM_NO_MEMORY: return kExitFull;
    case OCM_PERMISSION:
    case OCM_AUTH: return kExitPermission;
    case OCM_DEADLINE:
    case OCM_PEER_LOST:
    case OCM_LOST:
    case OCM_REVOKED: return kExitLost;
    default: return kExitFailure;
  }
}

int fail(const Error& error) {
  std::fprintf(stderr, "oncilla-bfs: %s: %s\n", error.name(), error.message().c_str());
  return exit_code(error.status());
}

struct Options {
  std::vector<std::string> graphs{"shoc", "kron"};
  std::vector<unsigned> scales{20};
  uint32_t vertices = 1'000'000;
  unsigned runs = 7;
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  std::string place = "both";
  std::vector<std::string> nodes;
  bool striped = false;
  ocm_fabric fabric = OCM_FABRIC_ANY;
  std::string direction = "both";
  bool embedded = false;
  bool json = false;
  uint64_t window_kib = WindowOptions().bytes >> 10;
  KronOptions kron;
};

void describe(CLI::App& app, Options& o) {
  app.add_option("--graph", o.graphs, "Which graphs: shoc, kron")
      ->check(CLI::IsMember({"shoc", "kron"}))
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--scale", o.scales, "Kronecker: 2^SCALE vertices; several are run one after the other")
      ->check(CLI::Range(1, 28))
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--edge-factor", o.kron.edge_factor, "Kronecker: edges for each vertex")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--roots", o.kron.roots, "Kronecker: number of vertices to search from")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--seed", o.kron.seed, "Random seed of the graph and the roots")->capture_default_str();
  app.add_option("--vertices", o.vertices, "SHOC: number of vertices of the tree")
      ->check(CLI::Range(2, 1 << 30))
      ->capture_default_str();
  app.add_option("--runs", o.runs, "SHOC: number of runs")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--threads", o.threads, "Search threads")->check(CLI::Range(1, 256))->capture_default_str();
  app.add_option(
         "--place", o.place,
         "Where the edges lie: local (cluster memory of this node), remote (of another), both, or none: "
         "plain arrays alone. Plain arrays are always measured too")
      ->check(CLI::IsMember({"local", "remote", "both", "none"}))
      ->capture_default_str();
  app.add_option("--node", o.nodes, "Remote: on this node; several: striped over them")->delimiter(',');
  app.add_flag("--striped", o.striped, "Remote: striped over all nodes with room");
  std::map<std::string, ocm_fabric> fabrics{{"any", OCM_FABRIC_ANY}};
  std::string names = "any";
#define OCM_LINE(CONSTANT, Name, name, number, offered) \
  if ((offered) != 0) fabrics[#name] = OCM_FABRIC_##CONSTANT, names += ", " #name;
  OCM_FABRICS(OCM_LINE)
#undef OCM_LINE
  app.add_option("--fabric", o.fabric, "How remote edges are reached: " + names)
      ->transform(CLI::CheckedTransformer(fabrics, CLI::ignore_case))
      ->option_text("FABRIC");
  app.add_option("--direction", o.direction, "Kronecker: topdown, optimising or both")
      ->check(CLI::IsMember({"topdown", "optimising", "both"}))
      ->capture_default_str();
  app.add_option("--first-neighbours", o.kron.first_neighbours,
                 "Kronecker: how many neighbours of each vertex, those of greatest degree, are kept local")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  app.add_option("--window-kib", o.window_kib, "KiB of one vectored get; each thread has two in progress")
      ->check(CLI::Range(4, 65536))
      ->capture_default_str();
  app.add_option("--gap-bytes", o.kron.windows.gap_bytes_max,
                 "Rows that lie no further apart are fetched as one, with what is between them")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_flag("--validate", o.kron.validate,
               "Check every tree as Graph 500 requires, and against a serial search");
  app.add_flag("--embedded", o.embedded, "No daemon: a node inside this process (--place local or none)");
  app.add_flag("--json", o.json, "Print one line of JSON for each measurement, with its goals");
  app.footer(
      "Examples:\n"
      "  ocm up --nodes 3 && export OCM_SOCKET=...        a cluster on this machine\n"
      "  oncilla-bfs                                      SHOC and Kronecker scale 20\n"
      "  oncilla-bfs --graph kron --scale 18 --validate   every tree checked\n"
      "  oncilla-bfs --graph kron --node n2,n3            the edges striped over two nodes\n"
      "  oncilla-bfs --scale 20,22 --place remote --json  the figures of the benchmark\n"
      "The daemon is found by OCM_SOCKET, else /run/oncilla/oncillad.sock.");
}

std::vector<Placement> places_of(const Options& o) {
  std::vector<Placement> places;
  if (o.place == "local" || o.place == "both") {
    places.push_back({"local", {.flags = OCM_ALLOCATION_LOCAL}, true});
  }
  if (o.place == "remote" || o.place == "both") {
    AllocationOptions there{.nodes = o.nodes, .fabric = o.fabric};
    if (o.striped || o.nodes.size() > 1) there.layout = OCM_LAYOUT_STRIPED;
    if (!o.striped && o.nodes.empty()) there.flags |= OCM_ALLOCATION_REMOTE;
    places.push_back({o.striped || o.nodes.size() > 1 ? "striped" : "remote", there, false});
  }
  return places;
}

Done check_shoc(const Graph& graph, const std::vector<uint32_t>& parents, const std::string& place,
                Team& team) {
  if (auto fault = validate(graph, 0, parents, team)) {
    return Error(OCM_INTERNAL, "SHOC at " + place + " fails check " +
                                   std::to_string(static_cast<int>(fault->check)) + ": " + fault->what);
  }
  return {};
}

Done shoc(const Options& o, const std::vector<Placement>& places, Session* session, Team& team) {
  const ShocTree shoc_tree{o.vertices};
  std::vector<ShocSeries> series{{"arrays", {}}};
  for (const Placement& place : places) series.push_back({place.name, {}});
  std::vector<uint32_t> parents;
  for (unsigned run = 0; run <= o.runs; ++run) {  // the first one connects, and is not counted
    for (size_t i = 0; i < series.size(); ++i) {
      Expected<Phases> phases =
          i == 0 ? run_shoc_here(shoc_tree, team, parents)
                 : run_shoc_cluster(shoc_tree, *session, places[i - 1].allocation, team, parents);
      if (!phases) return phases.error();
      if (o.kron.validate && run == 0) {
        const Graph graph = build(tree(o.vertices), team);
        if (Done done = check_shoc(graph, parents, series[i].place, team); !done) return done;
      }
      if (run > 0) series[i].runs.push_back(*phases);
    }
  }
  o.json ? print_shoc_json(o.vertices, o.threads, series) : print_shoc(o.vertices, series);
  return {};
}

Done kron(KronOptions options, const Options& o, Session* session, Team& team) {
  Expected<KronReport> report = run_kron(options, session, team);
  if (!report) return report.error();
  o.json ? print_kron_json(options, o.threads, *report) : print_kron(options, *report);
  return {};
}

Done run(Options& o) {
  const std::vector<Placement> places = places_of(o);
  Session session;
  if (!places.empty()) {
    SessionOptions how;
    how.program = "oncilla-bfs";
    if (o.embedded) {
      how.flags = OCM_SESSION_EMBEDDED;
      how.embedded_bytes = uint64_t{16} << 30;  // a bound; pages are taken as they are touched
    }
    Expected<Session> opened = Session::open(how);
    if (!opened) return opened.error();
    session = std::move(*opened);
  }
  o.kron.places = places;
  o.kron.windows.bytes = o.window_kib << 10;
  if (o.direction == "topdown") o.kron.directions = {Direction::kTopDown};
  if (o.direction == "optimising") o.kron.directions = {Direction::kOptimising};
  Team team(o.threads);
  for (const std::string& graph : o.graphs) {
    if (graph == "shoc") {
      if (Done done = shoc(o, places, &session, team); !done) return done;
      continue;
    }
    for (const unsigned scale : o.scales) {
      KronOptions options = o.kron;
      options.scale = scale;
      if (Done done = kron(options, o, &session, team); !done) return done;
    }
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Breadth-first search on graphs in cluster memory, beside the same search in plain arrays.");
  describe(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  if (options.embedded && options.place == "both") options.place = "local";
  if (options.embedded && options.place == "remote") {
    return fail(
        Error(OCM_INVALID_ARGUMENT, "--embedded is one node: it has no remote memory; use --place local"));
  }
  try {
    if (Done done = run(options); !done) return fail(done.error());
  } catch (const std::bad_alloc&) {
    return fail(
        Error(OCM_NO_MEMORY, "the system refused memory for the graph: lower --scale or --edge-factor"));
  }
  return 0;
}
