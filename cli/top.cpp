// `ocm top`: use and rates of each node and session, live, from /status of the daemons.
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/units.h"
#include "cli/commands.h"
#include "cli/node_status.h"
#include "oncilla/oncilla.h"
#include "os/clock.h"
#include "tools/exit_code.h"
#include "tools/output.h"
#include "tools/signals.h"

namespace ocm::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TopOptions {
  std::string http;
  double interval_seconds = 1;
  bool once = false;
  bool json = false;
};

/// One look at the cluster.
struct Sample : ClusterStatus {
  uint64_t at_ns = 0;
};

struct SessionRate {
  std::string node;
  SessionLoad load;
  double put = 0, get = 0;
};
struct NodeRate {
  PeerView peer;
  bool reached = false;
  uint64_t bytes_total = 0, bytes_used = 0, bytes_ready = 0;
  uint64_t extents = 0, errors = 0;
  size_t sessions = 0;
  double put = 0, get = 0, operations = 0;
  CacheLoad cache;
  double cached = 0;           // accesses to its page caches in a second
  std::optional<double> hits;  // of them: asked nobody
};
struct View {
  std::vector<NodeRate> nodes;
  std::vector<SessionRate> sessions;
};

Result<Sample> take_sample(const std::string& http) {
  Sample sample;
  OCM_TRY_ASSIGN(static_cast<ClusterStatus&>(sample), fetch_cluster_status(http));
  sample.at_ns = os::now_ns();
  return sample;
}

/// A counter's growth in a second; 0 when its daemon or session began anew in between.
double rate(uint64_t before, uint64_t now, double seconds) {
  return now < before || seconds <= 0 ? 0 : static_cast<double>(now - before) / seconds;
}

FabricLoad sum(const NodeStatus& status) {
  FabricLoad all;
  for (const FabricLoad& each : status.fabrics) {
    all.put_bytes += each.put_bytes;
    all.get_bytes += each.get_bytes;
    all.operations += each.operations;
    all.errors += each.errors;
  }
  return all;
}

const SessionLoad* find_session(const NodeStatus& status, const std::string& session) {
  for (const SessionLoad& each : status.sessions) {
    if (each.session == session) return &each;
  }
  return nullptr;
}

void add_node(View& view, const PeerView& peer, const Sample& before, const Sample& now, double seconds) {
  NodeRate node;
  node.peer = peer;
  std::vector<PoolLoad> pools = peer.pools;
  const auto status = now.nodes.find(peer.name);
  if (status != now.nodes.end()) {
    node.reached = true;
    if (!status->second.pools.empty()) pools = status->second.pools;
    node.extents = status->second.extents;
    node.sessions = status->second.session_count;
    const FabricLoad counters = sum(status->second);
    node.errors = counters.errors;
    const auto old = before.nodes.find(peer.name);
    const bool known = old != before.nodes.end();
    const FabricLoad earlier = known ? sum(old->second) : counters;
    node.put = rate(earlier.put_bytes, counters.put_bytes, seconds);
    node.get = rate(earlier.get_bytes, counters.get_bytes, seconds);
    node.operations = rate(earlier.operations, counters.operations, seconds);
    node.cache = status->second.cache;
    const CacheLoad before_it = known ? old->second.cache : node.cache;
    node.cached = rate(before_it.served, node.cache.served, seconds);
    if (node.cached > 0) node.hits = rate(before_it.hits(), node.cache.hits(), seconds) / node.cached;
    for (const SessionLoad& load : status->second.sessions) {
      const SessionLoad* then = known ? find_session(old->second, load.session) : nullptr;
      if (then == nullptr) then = &load;
      view.sessions.push_back({peer.name, load, rate(then->put_bytes, load.put_bytes, seconds),
                               rate(then->get_bytes, load.get_bytes, seconds)});
    }
  }
  for (const PoolLoad& pool : pools) {
    node.bytes_total += pool.bytes_total;
    node.bytes_used += pool.bytes_used;
    node.bytes_ready += pool.bytes_ready;
  }
  view.nodes.push_back(std::move(node));
}

View compare(const Sample& before, const Sample& now) {
  View view;
  const double seconds = static_cast<double>(now.at_ns - before.at_ns) / 1e9;
  for (const PeerView& peer : now.entry.peers) add_node(view, peer, before, now, seconds);
  std::stable_sort(view.sessions.begin(), view.sessions.end(),
                   [](const SessionRate& a, const SessionRate& b) {
                     return a.put + a.get != b.put + b.get ? a.put + a.get > b.put + b.get
                                                           : a.load.bytes_held > b.load.bytes_held;
                   });
  return view;
}

Json to_json(const View& view) {
  Json nodes = Json::array(), sessions = Json::array();
  for (const NodeRate& node : view.nodes) {
    nodes.push_back({{"node", node.peer.name},
                     {"state", node.peer.state},
                     {"reached", node.reached},
                     {"bytes_total", node.bytes_total},
                     {"bytes_used", node.bytes_used},
                     {"bytes_ready", node.bytes_ready},
                     {"extents", node.extents},
                     {"sessions", node.sessions},
                     {"put_bytes_per_second", node.put},
                     {"get_bytes_per_second", node.get},
                     {"operations_per_second", node.operations},
                     {"errors", node.errors},
                     {"cache_bytes_used", node.cache.bytes_used},
                     {"cache_bytes_limit", node.cache.bytes_limit},
                     {"cache_accesses_per_second", node.cached},
                     {"cache_hits", node.hits.has_value() ? Json(*node.hits) : Json()}});
  }
  for (const SessionRate& each : view.sessions) {
    sessions.push_back({{"node", each.node},
                        {"session", each.load.session},
                        {"program", each.load.program},
                        {"pid", each.load.pid},
                        {"uid", each.load.uid},
                        {"bytes_held", each.load.bytes_held},
                        {"allocations", each.load.allocations},
                        {"put_bytes_per_second", each.put},
                        {"get_bytes_per_second", each.get}});
  }
  return {{"nodes", nodes}, {"sessions", sessions}};
}

/// "97 %"; of a node whose cache nobody used, nothing.
std::string hits_text(const NodeRate& node) {
  if (!node.hits.has_value()) return "-";
  return std::to_string(static_cast<int>(*node.hits * 100)) + " %";
}

std::string to_text(const View& view) {
  Table nodes({"NODE", "STATE", ">OFFERED", ">USED", ">", ">READY", ">EXTENTS", ">SESSIONS", ">PUT", ">GET",
               ">OPS/S", ">CACHED", ">HITS", ">ERRORS"});
  for (const NodeRate& node : view.nodes) {
    const int state = node.peer.state == "alive"      ? OCM_NODE_ALIVE
                      : node.peer.state == "dead"     ? OCM_NODE_DEAD
                      : node.peer.state == "draining" ? OCM_NODE_DRAINING
                                                      : OCM_NODE_SUSPECT;
    const std::string unknown = "?";
    nodes.add({colored(Color::kBold, printable(node.peer.name)), state_text(state),
               format_bytes(node.bytes_total), format_bytes(node.bytes_used),
               percent(node.bytes_used, node.bytes_total),
               node.reached ? format_bytes(node.bytes_ready) : unknown,
               node.reached ? std::to_string(node.extents) : unknown,
               node.reached ? std::to_string(node.sessions) : unknown,
               node.reached ? format_rate(node.put) : unknown, node.reached ? format_rate(node.get) : unknown,
               node.reached ? std::to_string(static_cast<uint64_t>(node.operations)) : unknown,
               node.cache.is_there ? format_bytes(node.cache.bytes_used)
               : node.reached      ? "-"
                                   : unknown,
               hits_text(node), node.reached ? std::to_string(node.errors) : unknown});
  }
  std::string text = nodes.to_string() + "\n";
  for (const NodeRate& node : view.nodes) {
    const std::string last = missing_replicas_text(node.peer);
    if (!last.empty()) text += last + "\n";
  }
  if (view.sessions.empty()) return text + "no sessions\n";
  Table sessions({"SESSION", "ON", ">PID", "USER", ">HOLDS", ">ALLOCATIONS", ">PUT", ">GET", "PROGRAM"});
  for (const SessionRate& each : view.sessions) {
    sessions.add({printable(each.load.session), printable(each.node), std::to_string(each.load.pid),
                  user_name(each.load.uid), format_bytes(each.load.bytes_held),
                  std::to_string(each.load.allocations), format_rate(each.put), format_rate(each.get),
                  printable(each.load.program)});
  }
  return text + sessions.to_string();
}

/// The terminal without line editing, on its other screen; as it was when this ends.
class Screen {
 public:
  Screen() {
    tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    fputs("\033[?1049h\033[?25l\033[?7l", stdout);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen() {
    fputs("\033[?7h\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  /// As many lines as fit.
  void show(const std::string& text) {
    winsize size{};
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    std::string out = "\033[H";
    int row = 1;
    for (size_t at = 0; at < text.size() && (size.ws_row == 0 || row < size.ws_row); ++row) {
      const size_t end = std::min(text.find('\n', at), text.size());
      out += text.substr(at, end - at) + "\033[K\n";
      at = end + 1;
    }
    out += "\033[J";
    fwrite(out.data(), 1, out.size(), stdout);
    fflush(stdout);
  }

 private:
  termios before_{};
};

/// Sleeps for the interval. False when the user wants to end: q on a terminal, or Ctrl-C.
bool pause(double seconds, bool keys) {
  const os::Deadline deadline = os::Deadline::after_ns(static_cast<uint64_t>(seconds * 1e9));
  while (!deadline.passed()) {
    if (interrupted()) return false;
    pollfd each{STDIN_FILENO, POLLIN, 0};
    if (poll(&each, keys ? 1 : 0, deadline.poll_ms(1000)) <= 0) continue;
    char key = 'q';
    if (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q') return false;
  }
  return !interrupted();
}

Status top(const Globals& globals, const TopOptions& options) {
  OCM_TRY_ASSIGN(const std::string http, http_address(globals, options.http));
  Result<Sample> first = take_sample(http);
  OCM_TRY(check_interrupt());
  OCM_TRY_ASSIGN(Sample before, std::move(first));
  const bool live = !options.once && !options.json && isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
  std::optional<Screen> screen;
  if (live) screen.emplace();
  while (pause(options.interval_seconds, live)) {
    Result<Sample> now = take_sample(http);
    if (interrupted()) break;
    if (!now.is_ok()) return now.status();
    const View view = compare(before, now.value());
    if (live) {
      screen->show("ocm top, " + std::to_string(view.nodes.size()) + " nodes, by " + http + "; q ends\n\n" +
                   to_text(view));
    } else {
      puts(options.json
               ? to_json(view).dump(options.once ? 2 : -1, ' ', false, Json::error_handler_t::replace).c_str()
               : to_text(view).c_str());
      fflush(stdout);
    }
    if (options.once || ferror(stdout) != 0) return Status::ok();  // main() tells the error
    before = std::move(now).value();
  }
  if (options.once) return check_interrupt();
  return Status::ok();
}

}  // namespace

void add_top(CommandLine& line) {
  auto options = std::make_shared<TopOptions>();
  const Globals& globals = line.globals();
  line.add("top", "Watch usage and transfer rates of nodes and sessions; q quits")
      .text("--http", options->http, "HOST:PORT",
            "A daemon's HTTP interface, which shows no sessions [$OCM_HTTP, then the socket's daemon]")
      .seconds("-i,--interval", options->interval_seconds, "Time between refreshes")
      .flag("-1,--once", options->once, "Print one table and exit")
      .flag("--json", options->json, "Print JSON, one object for each refresh")
      .runs([options, &globals] {
        catch_interrupts();
        const Status status = top(globals, *options);
        return status.is_ok() ? kExitOk : fail(status);
      });
}

}  // namespace ocm::cli
