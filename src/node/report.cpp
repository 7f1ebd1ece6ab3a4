#include "node/report.h"

#include <cstdio>

#include "base/assert.h"
#include "base/ids.h"

namespace ocm::node {
namespace {

static_assert(fabric::ServerStats::kLatencyBuckets < 32, "a bound fits into a word");
static_assert(fabric::ServerStats::kLatencyFirstNs > 0);

/// Quoted and escaped: good for JSON and for Prometheus labels.
std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof(code), "\\u%04x", static_cast<unsigned>(c));
      out += code;
    } else {
      out += c;
    }
  }
  OCM_DASSERT(out.size() >= text.size() + 1);
  return out + "\"";
}

class Text {
 public:
  void type(const char* name, const char* type, const char* help) {
    OCM_DASSERT(std::string_view(name).starts_with("oncilla_"));
    out_ += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }
  void value(const char* name, const std::string& labels, uint64_t value) {
    OCM_DASSERT(out_.empty() || out_.back() == '\n');
    out_ += name;
    if (!labels.empty()) out_ += "{" + labels + "}";
    out_ += " " + std::to_string(value) + "\n";
  }
  std::string& out() { return out_; }

 private:
  std::string out_;
};

/// {"key": value, ...}: numbers and texts.
class Object {
 public:
  Object& text(const char* key, std::string_view value) { return raw(key, quote(value)); }
  Object& number(const char* key, uint64_t value) { return raw(key, std::to_string(value)); }
  Object& raw(const char* key, const std::string& value) {
    out_ += (out_.empty() ? "" : ",") + quote(key) + ":" + value;
    return *this;
  }
  std::string done() const { return "{" + out_ + "}"; }

 private:
  std::string out_;
};

template <class Items, class Function>
std::string list(const Items& items, Function format) {
  std::string out;
  for (const auto& item : items) out += (out.empty() ? "" : ",") + format(item);
  return "[" + out + "]";
}

std::string pool_json(const control::PoolInfo& p) {
  return Object()
      .text("kind", kind_name(p.kind))
      .number("bytes_total", p.bytes_total)
      .number("bytes_used", p.bytes_used)
      .number("bytes_ready", p.bytes_ready)
      .raw("lasts", p.lasts ? "true" : "false")
      .raw("coherent", p.coherent ? "true" : "false")
      .done();
}

std::string node_json(const control::NodeInfo& n) {
  return Object()
      .text("name", n.name)
      .text("state", control::node_state_name(n.state))
      .text("version", n.version)
      .number("partition", n.partition)
      .text("control_address", n.control_address)
      .text("http_address", n.http_address)
      .number("heartbeat_age_ns", n.heartbeat_age_ns)
      .number("sessions", n.sessions)
      .number("extents", n.extents)
      .number("replicas_waiting", n.copies.replicas_waiting)
      .number("replicas_left", n.copies.replicas_left)
      .number("replicas_wanted", n.copies.replicas_wanted)
      .number("replica_copy_bytes", n.copies.replica_bytes)
      .number("replica_copy_bytes_done", n.copies.replica_bytes_copied)
      .raw("pools", list(n.pools, pool_json))
      .done();
}

std::string fabric_json(const control::FabricStats& f) {
  return Object()
      .text("fabric", fabric_name(f.fabric))
      .raw("served", f.served ? "true" : "false")
      .text("why_not", f.why_not)
      .number("put_bytes", f.put_bytes)
      .number("get_bytes", f.get_bytes)
      .number("put_ops", f.put_ops)
      .number("get_ops", f.get_ops)
      .number("atomic_ops", f.atomic_ops)
      .number("errors", f.errors)
      .number("connections", f.connections)
      .number("connections_total", f.connections_total)
      .number("refused", f.refused)
      .done();
}

std::string session_json(const control::SessionStats& s) {
  return Object()
      .text("session", s.session)
      .text("program", s.program)
      .number("pid", s.pid)
      .number("uid", s.uid)
      .number("bytes_held", s.bytes_held)
      .number("allocations", s.allocations)
      .number("put_bytes", s.put_bytes)
      .number("get_bytes", s.get_bytes)
      .done();
}

std::string cache_json(const control::CacheStats& cache) {
  Object out;
#define OCM_CACHE_STATS_PUT(name) out.number(#name, cache.name);
  OCM_CACHE_STATS(OCM_CACHE_STATS_PUT)
#undef OCM_CACHE_STATS_PUT
  return out.done();
}

std::string name_json(const control::NameList::Entry& name) {
  return Object()
      .text("name", name.name)
      .number("bytes", name.bytes_total)
      .text("layout", layout_name(name.layout))
      .number("extents", name.extents)
      .number("replicas_missing", name.lost ? 0 : name.lost_extents)
      .number("owner_uid", name.owner_uid)
      .number("mode", name.mode)
      .raw("lost", name.lost ? "true" : "false")
      .done();
}

void print_fabrics(Text& t, const control::Stats& stats) {
  t.type("oncilla_fabric_bytes_total", "counter", "Payload bytes served, by fabric and direction.");
  for (const auto& f : stats.fabrics) {
    const std::string fabric = std::string("fabric=\"") + fabric_name(f.fabric) + "\"";
    t.value("oncilla_fabric_bytes_total", fabric + ",direction=\"put\"", f.put_bytes);
    t.value("oncilla_fabric_bytes_total", fabric + ",direction=\"get\"", f.get_bytes);
  }
  t.type("oncilla_fabric_operations_total", "counter", "Operations served, by fabric and direction.");
  for (const auto& f : stats.fabrics) {
    const std::string fabric = std::string("fabric=\"") + fabric_name(f.fabric) + "\"";
    t.value("oncilla_fabric_operations_total", fabric + ",direction=\"put\"", f.put_ops);
    t.value("oncilla_fabric_operations_total", fabric + ",direction=\"get\"", f.get_ops);
    t.value("oncilla_fabric_operations_total", fabric + ",direction=\"atomic\"", f.atomic_ops);
  }
  const auto each = [&](const char* name, const char* type, const char* help, auto value) {
    t.type(name, type, help);
    for (const auto& f : stats.fabrics) {
      t.value(name, std::string("fabric=\"") + fabric_name(f.fabric) + "\"", value(f));
    }
  };
  each("oncilla_fabric_connections", "gauge", "Data connections open.",
       [](auto& f) { return f.connections; });
  each("oncilla_fabric_connections_total", "counter", "Data connections accepted.",
       [](auto& f) { return f.connections_total; });
  each("oncilla_fabric_connections_refused_total", "counter", "Data connections refused.",
       [](auto& f) { return f.refused; });
}

void print_errors(Text& t, Fabric fabric, const fabric::ServerStats& served) {
  const std::string label = std::string("fabric=\"") + fabric_name(fabric) + "\",code=";
  for (size_t i = 0; i < fabric::ServerStats::kCodes; ++i) {
    const uint64_t count = served.errors_by_code[i].load(std::memory_order_relaxed);
    const auto code = static_cast<Code>(-static_cast<int>(i));
    if (count == 0 && code != Code::kProtocol) continue;  // the family has a sample from the start
    t.value("oncilla_fabric_errors_total", label + quote(code_name(code)), count);
  }
}

/// Seconds from a request's frame, decoded, to its reply, queued.
void print_latency(Text& t, Fabric fabric, const fabric::ServerStats& served) {
  const std::string name = "oncilla_fabric_request_seconds";
  const std::string label = std::string("fabric=\"") + fabric_name(fabric) + "\"";
  uint64_t below = 0;
  char text[32];
  for (size_t i = 0; i <= fabric::ServerStats::kLatencyBuckets; ++i) {
    below += served.latency[i].load(std::memory_order_relaxed);
    std::snprintf(text, sizeof(text), "%g",
                  static_cast<double>(fabric::ServerStats::kLatencyFirstNs << i) / 1e9);
    const bool last = i == fabric::ServerStats::kLatencyBuckets;
    t.value((name + "_bucket").c_str(), label + ",le=\"" + (last ? "+Inf" : text) + "\"", below);
  }
  std::snprintf(text, sizeof(text), "%.9f",
                static_cast<double>(served.latency_sum_ns.load(std::memory_order_relaxed)) / 1e9);
  t.out() += name + "_sum{" + label + "} " + text + "\n";
  t.value((name + "_count").c_str(), label, below);
}

void print_programs(Text& t, const Moved& moved) {
  t.type("oncilla_program_bytes_total", "counter",
         "Payload bytes that this host's programs say they moved, through shared memory and every fabric.");
  t.value("oncilla_program_bytes_total", "direction=\"put\"", moved.put_bytes);
  t.value("oncilla_program_bytes_total", "direction=\"get\"", moved.get_bytes);
  t.type("oncilla_program_operations_total", "counter", "The same in operations.");
  t.value("oncilla_program_operations_total", "direction=\"put\"", moved.put_ops);
  t.value("oncilla_program_operations_total", "direction=\"get\"", moved.get_ops);
  t.value("oncilla_program_operations_total", "direction=\"atomic\"", moved.atomic_ops);
}

void print_cache(Text& t, const control::CacheStats& cache) {
  t.type("oncilla_cache_bytes", "gauge",
         "Memory that caches pages of memory on devices, of this node and of others.");
  t.value("oncilla_cache_bytes", "state=\"limit\"", cache.bytes_limit);
  t.value("oncilla_cache_bytes", "state=\"used\"", cache.bytes_used);
  t.value("oncilla_cache_bytes", "state=\"dirty\"", cache.bytes_dirty);
  t.type("oncilla_cache_accesses_total", "counter",
         "Accesses to cached pages: all that were served, and those that first asked for the page or the "
         "right to write.");
  t.value("oncilla_cache_accesses_total", "result=\"served\"", cache.served);
  t.value("oncilla_cache_accesses_total", "result=\"missed\"", cache.missed);
  t.value("oncilla_cache_accesses_total", "result=\"upgraded\"", cache.upgraded);
  t.value("oncilla_cache_accesses_total", "result=\"failed\"", cache.failed);
  t.type("oncilla_cache_pages_total", "counter", "Pages by what became of them in the cache.");
  t.value("oncilla_cache_pages_total", "event=\"read\"", cache.device_reads);
  t.value("oncilla_cache_pages_total", "event=\"written\"", cache.device_writes);
  t.value("oncilla_cache_pages_total", "event=\"evicted\"", cache.evicted);
  t.value("oncilla_cache_pages_total", "event=\"cleaned\"", cache.cleaned);
  t.value("oncilla_cache_pages_total", "event=\"read_ahead\"", cache.read_ahead);
  t.value("oncilla_cache_pages_total", "event=\"read_ahead_unused\"", cache.read_ahead_unused);
  t.value("oncilla_cache_pages_total", "event=\"lost\"", cache.lost);
  t.value("oncilla_cache_pages_total", "event=\"from_home\"", cache.from_home);
  t.value("oncilla_cache_pages_total", "event=\"from_other\"", cache.from_other);
  t.value("oncilla_cache_pages_total", "event=\"supplied\"", cache.supplied);
  t.value("oncilla_cache_pages_total", "event=\"invalidated\"", cache.invalidated);
  t.type("oncilla_cache_mapped_total", "counter",
         "Pages that programs use through pointers: given to their loads and stores, and withdrawn.");
  t.value("oncilla_cache_mapped_total", "event=\"loaded\"", cache.mapped_loads);
  t.value("oncilla_cache_mapped_total", "event=\"stored\"", cache.mapped_stores);
  t.value("oncilla_cache_mapped_total", "event=\"withdrawn\"", cache.withdrawn);
  t.type("oncilla_cache_device_errors_total", "counter", "Reads and writes of pages that the device failed.");
  t.value("oncilla_cache_device_errors_total", "access=\"read\"", cache.device_read_errors);
  t.value("oncilla_cache_device_errors_total", "access=\"write\"", cache.device_write_errors);
  t.type("oncilla_cache_packets_total", "counter",
         "Packets between the caches of nodes: sent, and of those that came the ones that no cache sends.");
  t.value("oncilla_cache_packets_total", "result=\"sent\"", cache.packets_sent);
  t.value("oncilla_cache_packets_total", "result=\"refused\"", cache.packets_refused);
  t.type("oncilla_cache_terms_ended_total", "counter",
         "How often a node whose pages are cached here was not heard in time: they were not used any more.");
  t.value("oncilla_cache_terms_ended_total", "", cache.terms_ended);
}

}  // namespace

std::string prometheus_text(const Metrics& metrics, const fabric::Servers& servers, const Moved& moved,
                            const control::Stats& stats, const control::View& view, size_t names) {
  Text t;
  print_fabrics(t, stats);
  t.type("oncilla_fabric_errors_total", "counter", "Requests that failed at their home, by fabric and code.");
  for (const auto& one : servers.all()) print_errors(t, one.entry.fabric, one.stats);
  t.type("oncilla_fabric_request_seconds", "histogram",
         "One of 64 data requests at its home: from its frame, decoded, to its reply, queued.");
  for (const auto& one : servers.all()) {
    if (one.entry.traits.home_checks) print_latency(t, one.entry.fabric, one.stats);
  }
  print_programs(t, moved);
  t.type("oncilla_pool_bytes", "gauge", "Bytes of the pools of this node.");
  for (const auto& p : stats.pools) {
    const std::string kind = std::string("kind=\"") + kind_name(p.kind) + "\"";
    t.value("oncilla_pool_bytes", kind + ",state=\"offered\"", p.bytes_total);
    t.value("oncilla_pool_bytes", kind + ",state=\"used\"", p.bytes_used);
    t.value("oncilla_pool_bytes", kind + ",state=\"ready\"", p.bytes_ready);
  }
  if (stats.cache.has_value()) print_cache(t, *stats.cache);
  t.type("oncilla_extents", "gauge", "Extents that live on this node.");
  t.value("oncilla_extents", "", stats.extents);
  t.type("oncilla_extents_sharing_file", "gauge",
         "Of these, small ones without a file of their own, which programs of this node do not map.");
  t.value("oncilla_extents_sharing_file", "", stats.extents_sharing_file);
  t.type("oncilla_replicas_waiting", "gauge",
         "Parts whose lost copies this node makes again, the one being copied among them.");
  t.value("oncilla_replicas_waiting", "", stats.copies.replicas_waiting);
  t.type("oncilla_replica_copy_bytes", "gauge", "Bytes to be copied of the part that is made again now.");
  t.value("oncilla_replica_copy_bytes", "", stats.copies.replica_bytes);
  t.type("oncilla_replica_copy_bytes_done", "gauge", "Of these, bytes copied.");
  t.value("oncilla_replica_copy_bytes_done", "", stats.copies.replica_bytes_copied);
  t.type("oncilla_sessions", "gauge", "Sessions open.");
  t.value("oncilla_sessions", "", stats.session_count);
  t.type("oncilla_sessions_total", "counter", "Sessions opened.");
  t.value("oncilla_sessions_total", "", metrics.sessions_total);
  t.type("oncilla_names", "gauge", "Published names, at the coordinator.");
  t.value("oncilla_names", "", names);
  t.type("oncilla_names_degraded", "gauge", "Published names that miss a replica, at the coordinator.");
  t.value("oncilla_names_degraded", "", metrics.names_degraded);
  t.type("oncilla_names_lost", "gauge", "Published names whose bytes are lost, at the coordinator.");
  t.value("oncilla_names_lost", "", metrics.names_lost);
  t.type("oncilla_control_connections", "gauge", "Control connections open.");
  t.value("oncilla_control_connections", "", metrics.connections);
  t.type("oncilla_control_connections_total", "counter", "Control connections accepted.");
  t.value("oncilla_control_connections_total", "", metrics.connections_total);
  t.type(
      "oncilla_control_connections_unproved_total", "counter",
      "Control connections closed because they did not prove themselves in time, or made room for others.");
  t.value("oncilla_control_connections_unproved_total", "", metrics.connections_unproved);
  t.type("oncilla_control_connections_refused_total", "counter", "Control connections over the limit.");
  t.value("oncilla_control_connections_refused_total", "", metrics.connections_refused);
  t.type("oncilla_auth_failures_total", "counter", "Daemons that did not prove the cluster token here.");
  t.value("oncilla_auth_failures_total", "", metrics.auth_failures);
  if (metrics.certificate_ends != 0) {
    t.type("oncilla_certificate_ends_seconds", "gauge",
           "When this node's TLS certificate ends, in seconds since 1970.");
    t.value("oncilla_certificate_ends_seconds", "", static_cast<uint64_t>(metrics.certificate_ends));
  }
  t.type("oncilla_has_coordinator", "gauge", "1 while this node is, or reaches, the coordinator.");
  t.value("oncilla_has_coordinator", "", view.coordinator.empty() ? 0 : 1);
  t.type("oncilla_stop_looks_total", "counter",
         "Looks at what a stop of this node would take; each asks other homes.");
  t.value("oncilla_stop_looks_total", "", metrics.stop_looks);
  t.type("oncilla_council_attempts_total", "counter", "Attempts to change the council, at the coordinator.");
  t.value("oncilla_council_attempts_total", "", metrics.council_attempts);
  t.type("oncilla_heartbeats_total", "counter", "Heartbeats.");
  t.value("oncilla_heartbeats_total", "what=\"sent\"", metrics.heartbeats_sent);
  t.value("oncilla_heartbeats_total", "what=\"failed\"", metrics.heartbeats_failed);
  t.value("oncilla_heartbeats_total", "what=\"received\"", metrics.heartbeats_received);
  t.type("oncilla_node_state", "gauge", "1 for the state that a node is in.");
  for (const auto& n : view.nodes) {
    t.value("oncilla_node_state",
            "node=" + quote(n.name) + ",state=\"" + control::node_state_name(n.state) + "\"", 1);
  }
  t.type("oncilla_errors_total", "counter", "Control requests that failed, by code.");
  for (const auto& [code, count] : metrics.errors) {
    t.value("oncilla_errors_total", "code=" + quote(code_name(static_cast<Code>(code))), count);
  }
  t.type("oncilla_control_request_seconds", "histogram", "Time to answer control requests.");
  for (const auto& [request, histogram] : metrics.requests) {
    histogram.print(t.out(), "oncilla_control_request_seconds", "request=" + quote(request));
  }
  return std::move(t.out());
}

std::string status_json(const control::Stats& stats, const control::View& view, size_t name_count,
                        const control::NameList* names, const std::string& coordinator_error,
                        const Limits& limits) {
  Object out;
  out.text("node", stats.node)
      .text("coordinator", view.coordinator)
      .text("coordinator_error", coordinator_error)
      .number("descriptors_max", limits.descriptors)
      .number("descriptors_wanted", limits.wanted)
      .number("epoch", view.epoch)
      .number("extents", stats.extents)
      .number("extents_sharing_file", stats.extents_sharing_file)
      .number("session_count", stats.session_count)
      .number("replicas_waiting", stats.copies.replicas_waiting)
      .number("replicas_left", stats.copies.replicas_left)
      .number("replicas_wanted", stats.copies.replicas_wanted)
      .number("replica_copy_bytes", stats.copies.replica_bytes)
      .number("replica_copy_bytes_done", stats.copies.replica_bytes_copied)
      .number("name_count", name_count)
      .raw("pools", list(stats.pools, pool_json))
      .raw("nodes", list(view.nodes, node_json))
      .raw("fabrics", list(stats.fabrics, fabric_json));
  if (stats.cache.has_value()) out.raw("cache", cache_json(*stats.cache));
  if (names != nullptr) {
    out.raw("sessions", list(stats.sessions, session_json)).raw("names", list(names->entries, name_json));
  }
  return out.done() + "\n";
}

std::string cluster_json(const control::View& view, const std::string& coordinator_error,
                         const control::Council& council,
                         const std::vector<std::pair<control::VoterInfo, control::VoterSeen>>& voters) {
  using control::VoterSeen;
  const auto voter = [](const auto& one) {
    const char* state = one.second == VoterSeen::kAnswers     ? "answers"
                        : one.second == VoterSeen::kRestarted ? "restarted"
                                                              : "silent";
    return Object()
        .text("node", one.first.name)
        .text("address", one.first.address)
        .text("state", state)
        .done();
  };
  return Object()
             .text("node", view.self)
             .text("coordinator", view.coordinator)
             .text("why", coordinator_error)
             .raw("council",
                  Object().number("number", council.number).raw("voters", list(voters, voter)).done())
             .number("features_all", view.features_all)
             .done() +
         "\n";
}

std::string stop_check_json(const control::StopCheck& found) {
  const auto name = [](const control::StopCheck::Name& one) {
    return Object().text("name", one.name).number("parts", one.parts).number("bytes", one.bytes).done();
  };
  return Object()
             .text("node", found.node)
             .raw("safe", found.takes_nothing() ? "true" : "false")
             .raw("stopping", found.stopping ? "true" : "false")
             .raw("coordinator", found.coordinator ? "true" : "false")
             .raw("hands_over", found.hands_over ? "true" : "false")
             .number("sessions", found.sessions)
             .number("last_parts", found.last_parts)
             .number("last_bytes", found.last_bytes)
             .number("unknown_parts", found.unknown_parts)
             .number("unknown_bytes", found.unknown_bytes)
             .number("unreplicated_extents", found.single_extents)
             .number("unreplicated_bytes", found.single_bytes)
             .number("name_count", found.names_count)
             .raw("names", list(found.names, name))
             .raw("not_heard", list(found.unheard, quote))
             .text("waits_for", found.waits_for)
             .done() +
         "\n";
}

}  // namespace ocm::node
