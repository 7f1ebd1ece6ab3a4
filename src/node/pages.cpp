#include "node/pages.h"

#include <unistd.h>

#include <utility>

#include "base/assert.h"
#include "base/text.h"
#include "base/units.h"
#include "control/stats_wire.h"
#include "os/fd_reserve.h"
#include "wire/control.h"

namespace ocm::node {

using control::Reply;
using control::Task;

namespace {

control::FabricStats fabric_stats(const fabric::Servers::One& one) {
  const fabric::ServerStats& from = one.stats;
  control::FabricStats out;
  out.fabric = one.entry.fabric;
  out.served = one.server != nullptr;
  out.why_not = utf8_prefix(one.why_not, wire::kDetailBytesMax);
  OCM_DASSERT(out.why_not.size() <= wire::kDetailBytesMax && is_utf8(out.why_not));
  out.put_bytes = from.put_bytes.load(std::memory_order_relaxed);
  out.get_bytes = from.get_bytes.load(std::memory_order_relaxed);
  out.put_ops = from.put_ops.load(std::memory_order_relaxed);
  out.get_ops = from.get_ops.load(std::memory_order_relaxed);
  out.atomic_ops = from.atomic_ops.load(std::memory_order_relaxed);
  out.errors = from.errors.load(std::memory_order_relaxed);
  out.connections = from.connections.load(std::memory_order_relaxed);
  out.connections_total = from.connections_total.load(std::memory_order_relaxed);
  out.refused = from.refused.load(std::memory_order_relaxed);
  return out;
}

/// Of all caches together, one for each length of pages.
control::CacheStats cache_stats(cache::Caches& caches) {
  control::CacheStats out;
  for (cache::PageCache* one : caches.all()) {
    const cache::PageCache::Statistics its = one->statistics();
    out.bytes_used += its.used * its.page_bytes;
    out.bytes_dirty += its.dirty * its.page_bytes;
    out.served += its.holder.served;
    out.missed += its.holder.misses;
    out.upgraded += its.holder.upgrades;
    out.failed += its.holder.failed;
    out.from_home += its.holder.from_home;
    out.from_other += its.holder.from_peers;
    out.supplied += its.holder.supplied;
    out.invalidated += its.holder.invalidations;
    out.evicted += its.holder.evicted;
    out.cleaned += its.holder.cleaned;
    out.read_ahead += its.holder.ahead;
    out.read_ahead_unused += its.holder.ahead_unused;
    out.mapped_loads += its.holder.mapped_loads;
    out.mapped_stores += its.holder.mapped_stores;
    out.withdrawn += its.holder.withdrawn;
    out.device_reads += its.home.reads;
    out.device_writes += its.home.writes;
    out.device_read_errors += its.home.failed_reads;
    out.device_write_errors += its.home.failed_writes;
    out.lost += its.home.lost;
    out.packets_sent += its.packets_sent;
    out.packets_refused += its.packets_refused;
    out.terms_ended += its.terms_ended;
  }
  out.bytes_limit = caches.bytes();
  return out;
}

/// The rest of `query` after "key=", to the next '&'; empty if there is none.
std::string asked_for(const std::string& query, const std::string& key) {
  size_t at = 0;
  while (at < query.size()) {
    const size_t end = std::min(query.find('&', at), query.size());
    if (query.compare(at, key.size() + 1, key + "=") == 0)
      return query.substr(at + key.size() + 1, end - at - key.size() - 1);
    at = end + 1;
  }
  return {};
}

}  // namespace

uint32_t Pages::viewer(uint32_t uid) { return uid == ::geteuid() ? 0 : uid; }

control::Stats Pages::stats(uint32_t uid) const {
  control::Stats out;
  out.node = core_.name;
  out.at_ns = core_.now_ns();
  for (const auto& one : servers_.all()) out.fabrics.push_back(fabric_stats(one));
  out.pools = home_.pools();
  out.extents = home_.extents();
  out.extents_sharing_file = home_.extents_sharing_file();
  out.copies = remaker_.progress();
  if (home_.caches() != nullptr) out.cache = cache_stats(*home_.caches());
  constexpr size_t kSessionsMax = 4096;
  (void)sessions_.moved();
  out.session_count = sessions_.count();
  for (const auto& [id, session] : sessions_.all()) {
    if (out.sessions.size() >= kSessionsMax) break;
    if (uid != 0 && session->uid != uid) continue;
    out.sessions.push_back({.session = to_hex(id).substr(0, 8),
                            .program = session->program,
                            .pid = session->pid,
                            .uid = session->uid,
                            .bytes_held = session->bytes_held,
                            .allocations = session->allocations.size(),
                            .put_bytes = session->moved.put_bytes,
                            .get_bytes = session->moved.get_bytes});
  }
  OCM_DASSERT(out.sessions.size() <= kSessionsMax);
  return out;
}

Task<HttpServer::Answer> Pages::http(HttpServer::Request request) {
  using Answer = HttpServer::Answer;
  const size_t query = request.path.find('?');
  const std::string path = request.path.substr(0, query);
  constexpr std::string_view kNode = "?node=";
  const bool named = query != path.npos && request.path.compare(query, kNode.size(), kNode) == 0;
  const std::string node = named ? request.path.substr(query + kNode.size()) : std::string();
  const bool founds = path == "/cluster/found", resizes = path == "/cache";
  if ((founds || resizes) != request.post)
    co_return Answer{405, "text/plain", founds || resizes ? "POST only\n" : "GET only\n"};
  if (founds) co_return co_await found(node, request.uid);
  if (resizes) {
    const std::string asked = query == path.npos ? "" : request.path.substr(query + 1);
    co_return co_await resize_cache(asked_for(asked, "node"), asked_for(asked, "bytes"), request.uid);
  }
  if (path == "/cluster") {
    if (!request.uid) co_return Answer{403, "text/plain", "on the Unix socket only\n"};
    co_return Answer{200, "application/json",
                     cluster_json(cluster_.fresh_view(), cluster_.coordinator_error(),
                                  cluster_.quorum().known(), cluster_.quorum().voters_seen())};
  }
  if (path == "/metrics") {
    co_return Answer{200, "text/plain; version=0.0.4; charset=utf-8",
                     prometheus_text(core_.metrics, servers_, sessions_.moved(), stats(0),
                                     cluster_.fresh_view(), cluster_.names())};
  }
  if (path == "/status" || path == "/stop-check") {
    if (path == "/status") co_return co_await status(node, request.uid);
    co_return co_await stop_check(node, request.uid);
  }
  if (path == "/healthz") {
    if (core_.draining) co_return Answer{503, "text/plain", "draining\n"};
    co_return Answer{200, "text/plain", "ok\n"};
  }
  if (path == "/readyz") {
    if (core_.draining || core_.stopping) co_return Answer{503, "text/plain", "draining\n"};
    if (cluster_.has_coordinator()) co_return Answer{200, "text/plain", "ready\n"};
    co_return Answer{503, "text/plain", "no coordinator: " + cluster_.coordinator_error() + "\n"};
  }
  co_return Answer{404, "text/plain", "/metrics, /status, /cluster, /healthz and /readyz are here\n"};
}

Task<HttpServer::Answer> Pages::status(std::string node, std::optional<uint32_t> uid) {
  using Answer = HttpServer::Answer;
  const Limits limits{os::fd_limit(), core_.config.descriptors_wanted()};
  const std::string& error = cluster_.coordinator_error();
  if (!uid) {  // nobody known asks: of this node only, so that strangers cause no traffic, and no sessions
    co_return Answer{200, "application/json",
                     status_json(stats(0), cluster_.fresh_view(), cluster_.names(), nullptr, error, limits)};
  }
  const Reply reply = co_await stats_of(std::move(node), viewer(*uid));
  const Status status = control::reply_status(reply.message);
  if (!status.is_ok()) co_return Answer{503, "text/plain", std::string(status.message()) + "\n"};
  const control::NameList names = cluster_.list_names(viewer(*uid));
  co_return Answer{200, "application/json",
                   status_json(control::from_wire(reply.message.stats_reply()), cluster_.fresh_view(),
                               cluster_.names(), &names, cluster_.coordinator_error(), limits)};
}

Task<HttpServer::Answer> Pages::stop_check(std::string node, std::optional<uint32_t> uid) {
  using Answer = HttpServer::Answer;
  if (!uid) co_return Answer{403, "text/plain", "on the Unix socket only: it asks other nodes\n"};
  if (node.empty()) node = core_.name;
  if (!knows(node)) co_return Answer{404, "text/plain", "no node named " + node.substr(0, 64) + "\n"};
  wire::Envelope message;
  message.mutable_stop_check()->set_uid(viewer(*uid));
  // The node itself waits up to two deadlines for others.
  const uint64_t deadline_ns = core_.now_ns() + 3 * core_.config.failure_deadline_ns();
  const auto reply = co_await cluster_.homes().ask(node, std::move(message), deadline_ns);
  if (!reply.is_ok()) co_return Answer{503, "text/plain", std::string(reply.status().message()) + "\n"};
  co_return Answer{200, "application/json",
                   stop_check_json(control::from_wire(reply.value().stop_check_reply()))};
}

Task<HttpServer::Answer> Pages::found(std::string node, std::optional<uint32_t> uid) {
  using Answer = HttpServer::Answer;
  if (!uid || !is_privileged(*uid))
    co_return Answer{403, "text/plain",
                     "root and the daemon's own user alone found a cluster, on the Unix socket\n"};
  if (!knows(node)) co_return Answer{404, "text/plain", "no node named " + node.substr(0, 64) + "\n"};
  wire::Envelope message;
  message.mutable_found_cluster();
  const uint64_t deadline_ns = core_.now_ns() + 4 * core_.config.failure_deadline_ns();
  const auto reply = co_await cluster_.homes().ask(node, std::move(message), deadline_ns);
  const Status status = reply.status();
  if (status.is_ok()) co_return Answer{200, "application/json", "{}\n"};
  const int code = status.code() == Code::kExists ? 409 : 503;
  co_return Answer{code, "text/plain", std::string(status.message()) + "\n"};
}

Task<HttpServer::Answer> Pages::resize_cache(std::string node, std::string bytes,
                                             std::optional<uint32_t> uid) {
  using Answer = HttpServer::Answer;
  if (!uid || !is_privileged(*uid))
    co_return Answer{403, "text/plain",
                     "root and the daemon's own user alone change its memory, on the Unix socket\n"};
  if (node.empty()) node = core_.name;
  if (!knows(node)) co_return Answer{404, "text/plain", "no node named " + node.substr(0, 64) + "\n"};
  const auto length = parse_bytes(bytes);
  if (!length.is_ok())
    co_return Answer{400, "text/plain", "bytes: " + std::string(length.status().message()) + "\n"};
  wire::Envelope message;
  message.mutable_resize_cache()->set_bytes(length.value());
  const auto reply = co_await cluster_.homes().ask(node, std::move(message));
  const Status status = reply.status();
  if (status.is_ok()) co_return Answer{200, "application/json", "{}\n"};
  const bool is_asker = status.code() == Code::kUnsupported || status.code() == Code::kInvalidArgument;
  const int code = is_asker ? 400 : 503;
  co_return Answer{code, "text/plain", std::string(status.message()) + "\n"};
}

Task<Reply> Pages::stats_of(std::string node, uint32_t uid) {
  if (node.empty()) node = core_.name;
  if (!knows(node)) {
    co_return Status(Code::kUnknownNode, "no node named " + node.substr(0, 64)).with_node(node);
  }
  wire::Envelope message;
  message.mutable_stats()->set_uid(uid);
  co_return control::reply_of(co_await cluster_.homes().ask(std::move(node), std::move(message)));
}

bool Pages::knows(const std::string& node) const {
  return node == core_.name || !cluster_.address_of(node).empty();
}

}  // namespace ocm::node
