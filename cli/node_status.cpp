#include "cli/node_status.h"

#include <stdlib.h>

#include <nlohmann/json.hpp>

#include "base/ids.h"
#include "cli/http.h"
#include "os/address.h"
#include "tools/output.h"
#include "tools/session.h"

namespace ocm::cli {
namespace {

using Parsed = nlohmann::json;

// A daemon of another version may say less: what is missing or of another type reads as 0 or "".
uint64_t number(const Parsed& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number() ? it->get<uint64_t>() : 0;
}
std::string text(const Parsed& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}
/// The objects of an array; of an object, its values with their keys under `name_key`.
std::vector<Parsed> items(const Parsed& object, const char* key, const char* name_key = "") {
  std::vector<Parsed> found;
  const auto it = object.find(key);
  if (it == object.end()) return found;
  if (it->is_array()) {
    for (const Parsed& each : *it) {
      if (each.is_object()) found.push_back(each);
    }
  } else if (it->is_object()) {
    for (const auto& [name, each] : it->items()) {
      if (!each.is_object()) continue;
      found.push_back(each);
      found.back()[name_key] = name;
    }
  }
  return found;
}

/// A kind, fabric or state as its name, whether the daemon says the name or the number.
std::string name_or_number(const Parsed& object, const char* key, const char* (*name_of)(int)) {
  const auto it = object.find(key);
  if (it != object.end() && it->is_number_integer()) return name_of(it->get<int>());
  return text(object, key);
}

std::vector<PoolLoad> pools_in(const Parsed& object) {
  std::vector<PoolLoad> pools;
  for (const Parsed& each : items(object, "pools", "kind")) {
    pools.push_back({name_or_number(each, "kind", [](int n) { return kind_name(static_cast<Kind>(n)); }),
                     number(each, "bytes_total"), number(each, "bytes_used"), number(each, "bytes_ready")});
  }
  return pools;
}

CacheLoad cache_in(const Parsed& object) {
  CacheLoad cache;
  const auto it = object.find("cache");
  if (it == object.end() || !it->is_object()) return cache;
  cache.is_there = true;
  cache.bytes_limit = number(*it, "bytes_limit");
  cache.bytes_used = number(*it, "bytes_used");
  cache.bytes_dirty = number(*it, "bytes_dirty");
  cache.served = number(*it, "served");
  cache.missed = number(*it, "missed");
  cache.upgraded = number(*it, "upgraded");
  cache.failed = number(*it, "failed");
  cache.from_home = number(*it, "from_home");
  cache.from_other = number(*it, "from_other");
  cache.supplied = number(*it, "supplied");
  cache.invalidated = number(*it, "invalidated");
  cache.evicted = number(*it, "evicted");
  cache.cleaned = number(*it, "cleaned");
  cache.mapped_loads = number(*it, "mapped_loads");
  cache.mapped_stores = number(*it, "mapped_stores");
  cache.withdrawn = number(*it, "withdrawn");
  cache.device_reads = number(*it, "device_reads");
  cache.device_writes = number(*it, "device_writes");
  cache.device_errors = number(*it, "device_read_errors") + number(*it, "device_write_errors");
  cache.lost = number(*it, "lost");
  return cache;
}

}  // namespace

Result<NodeStatus> parse_node_status(const std::string& source) {
  const Parsed json = Parsed::parse(source, nullptr, false);
  if (!json.is_object()) return Status(Code::kProtocol, "/status is not a JSON object; is that an oncillad?");
  NodeStatus status;
  status.name = text(json, "node");
  status.version = text(json, "version");
  status.coordinator = text(json, "coordinator");
  status.descriptors_max = number(json, "descriptors_max");
  status.descriptors_wanted = number(json, "descriptors_wanted");
  status.extents = number(json, "extents");
  status.session_count = number(json, "session_count");
  status.pools = pools_in(json);
  status.cache = cache_in(json);
  for (const Parsed& each : items(json, "fabrics", "fabric")) {
    status.fabrics.push_back(
        {name_or_number(each, "fabric", [](int n) { return fabric_name(static_cast<Fabric>(n)); }),
         number(each, "put_bytes"), number(each, "get_bytes"),
         number(each, "put_ops") + number(each, "get_ops") + number(each, "atomic_ops"),
         number(each, "errors"), each.value("served", Parsed(false)) == true, text(each, "why_not")});
  }
  for (const Parsed& each : items(json, "sessions", "session")) {
    status.sessions.push_back(
        {text(each, "session"), text(each, "program"), static_cast<uint32_t>(number(each, "pid")),
         static_cast<uint32_t>(number(each, "uid")), number(each, "bytes_held"), number(each, "allocations"),
         number(each, "put_bytes"), number(each, "get_bytes")});
  }
  for (const Parsed& each : items(json, "nodes", "name")) {
    status.peers.push_back({text(each, "name"), name_or_number(each, "state", state_name),
                            text(each, "version"), text(each, "http_address"), text(each, "control_address"),
                            number(each, "heartbeat_age_ns"), pools_in(each),
                            number(each, "replicas_waiting"), number(each, "replicas_left"),
                            number(each, "replicas_wanted"), number(each, "replica_copy_bytes"),
                            number(each, "replica_copy_bytes_done")});
  }
  if (status.name.empty()) return Status(Code::kProtocol, "/status names no node; is that an oncillad?");
  return status;
}

Result<NodeStatus> fetch_node_status(const std::string& address, const std::string& node) {
  const std::string path = node.empty() ? "/status" : "/status?node=" + node;
  OCM_TRY_ASSIGN(const std::string body, http_get(address, path));
  return parse_node_status(body);
}

Result<ClusterStatus> fetch_cluster_status(const std::string& http) {
  ClusterStatus out;
  OCM_TRY_ASSIGN(out.entry, fetch_node_status(http));
  for (const PeerView& peer : out.entry.peers) {
    if (peer.name == out.entry.name) {
      out.nodes[peer.name] = out.entry;
      continue;
    }
    if (peer.state == "dead") continue;
    Result<NodeStatus> status =
        is_local(http) ? fetch_node_status(http, peer.name) : fetch_node_status(peer.http);
    if (status.is_ok()) out.nodes[peer.name] = std::move(status).value();
  }
  return out;
}

std::string missing_replicas_text(const PeerView& node) {
  if (node.replicas_waiting == 0 || node.state == state_name(OCM_NODE_DEAD)) return {};
  std::string text =
      "replicas: " + std::to_string(node.replicas_left) + " of " + std::to_string(node.replicas_wanted);
  text += node.replicas_waiting == 1 ? " in 1 part"
                                     : " at worst in " + std::to_string(node.replicas_waiting) + " parts";
  if (node.copy_bytes != 0) text += ", copying " + percent(node.copy_bytes_done, node.copy_bytes);
  return text + " (on " + printable(node.name) + ")";
}

Status check_asked_node(const std::string& name) {
  for (const char letter : name) {
    if (static_cast<unsigned char>(letter) <= ' ' || letter == '?' || letter == '&' || letter == '\x7f')
      return Status(Code::kUnknownNode, "no node named " + printable(name));
  }
  return {};
}

bool is_alone(const NodeStatus& status) {
  if (status.peers.size() != 1 || status.coordinator != status.name) return false;
  const std::string& control = status.peers.front().control;
  return !control.empty() && !os::is_loopback(control.substr(0, control.rfind(':')));
}

Result<std::string> http_address(const Globals& globals, const std::string& asked) {
  if (!asked.empty()) return asked;
  const char* named = getenv("OCM_HTTP");
  if (named != nullptr && *named != '\0') return std::string(named);
  OCM_TRY_ASSIGN(const std::string socket, socket_path(globals));
  const size_t end = socket.rfind('/');
  char* const folder = realpath(end == std::string::npos ? "." : socket.substr(0, end + 1).c_str(), nullptr);
  const std::string path = std::string(folder == nullptr ? "/" : folder) + "/http.sock";
  free(folder);
  return path;
}

}  // namespace ocm::cli
