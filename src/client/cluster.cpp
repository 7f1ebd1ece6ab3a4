#include "client/cluster.h"

#include "base/text.h"
#include "client/session.h"
#include "control.pb.h"

namespace ocm::client {
namespace {

void append_names(const wire::NameList& page, std::vector<NameInfo>& names) {
  for (const wire::Allocation& one : page.allocations()) {
    NameInfo info;
    info.name = one.name();
    info.shape = {one.bytes_total(), one.chunk_bytes(), one.extents_count(),
                  static_cast<Layout>(one.layout())};
    info.kind = static_cast<Kind>(one.kind());
    info.durable = one.durable();
    info.coherent = one.coherent();
    info.owner_uid = one.owner_uid();
    info.mode = one.mode();
    info.lost = one.lost();
    info.replicas_missing = one.lost() ? 0 : one.lost_count();
    names.push_back(std::move(info));
  }
}

}  // namespace

Result<std::vector<NameInfo>> list_names(Session& session, const std::string& prefix) {
  if (!is_utf8(prefix)) return Status(Code::kInvalidArgument, "`prefix` is not UTF-8");
  std::vector<NameInfo> names;
  for (bool more = true; more;) {
    wire::Envelope request;
    request.mutable_name_list()->set_prefix(prefix);
    if (!names.empty()) request.mutable_name_list()->set_after(names.back().name);
    OCM_TRY_ASSIGN(const Reply reply, session.call(request));
    const wire::NameList& page = reply.message->names();
    more = page.more() && page.allocations_size() > 0;
    append_names(page, names);
  }
  return names;
}

Status remove_name(Session& session, const std::string& name) {
  wire::Envelope request;
  request.mutable_name_remove()->set_name(name);
  return session.call(request).status();
}

Result<std::vector<NodeInfo>> list_nodes(Session& session) {
  wire::Envelope request;
  request.mutable_cluster();
  OCM_TRY_ASSIGN(const Reply reply, session.call(request));
  const wire::ClusterView& view = reply.message->cluster_view();
  std::vector<NodeInfo> nodes;
  for (const wire::NodeView& one : view.nodes()) {
    NodeInfo info;
    info.name = one.name();
    info.partition = one.partition();
    info.state = one.state();
    info.self = one.name() == session.node();
    info.coordinator = !view.coordinator().empty() && one.name() == view.coordinator();
    for (const wire::PoolView& pool : one.pools()) {
      if (!is_kind(pool.kind())) continue;
      info.pool_bytes[pool.kind()] = pool.bytes_total();
      info.used_bytes[pool.kind()] = pool.bytes_used();
    }
    info.sessions = one.sessions();
    info.extents = one.extents();
    info.heartbeat_age_ns = one.heartbeat_age_ns();
    nodes.push_back(std::move(info));
  }
  return nodes;
}

}  // namespace ocm::client
