#include "client/cluster.h"

#include "client/session.h"
#include "control.pb.h"

namespace ocm::client {
namespace {

constexpr size_t kNameBytesMax = 255;

/// Source: RFC 3629, section 4 (overlong forms, surrogates and what lies above U+10FFFF are refused).
bool is_utf8(const std::string& text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const int more = lead < 0x80                   ? 0
                     : lead >= 0xC2 && lead < 0xE0 ? 1
                     : lead >= 0xE0 && lead < 0xF0 ? 2
                     : lead >= 0xF0 && lead < 0xF5 ? 3
                                                   : -1;
    if (more < 0 || i + static_cast<size_t>(more) >= text.size()) return false;
    uint32_t point = more == 0 ? lead : lead & (0x3Fu >> more);
    for (int k = 1; k <= more; ++k) {
      const auto next = static_cast<unsigned char>(text[i + static_cast<size_t>(k)]);
      if ((next & 0xC0) != 0x80) return false;
      point = point << 6 | (next & 0x3F);
    }
    if ((more == 2 && (point < 0x800 || (point >= 0xD800 && point < 0xE000))) ||
        (more == 3 && (point < 0x10000 || point > 0x10FFFF))) {
      return false;
    }
    i += static_cast<size_t>(more) + 1;
  }
  return true;
}

}  // namespace

Status check_name(const std::string& name) {
  if (name.empty()) return Status(Code::kInvalidArgument, "a name has at least one byte");
  if (name.size() > kNameBytesMax) return Status(Code::kTooLarge, "a name has at most 255 bytes");
  if (name.find('/') != std::string::npos || name.find('\0') != std::string::npos || !is_utf8(name)) {
    return Status(Code::kInvalidArgument, "a name is UTF-8 without '/' and '\\0'");
  }
  return {};
}

Result<std::vector<NameInfo>> list_names(Session& session, const std::string& prefix) {
  wire::Envelope request;
  request.mutable_name_list()->set_prefix(prefix);
  OCM_TRY_ASSIGN(const Reply reply, session.call(request));
  std::vector<NameInfo> names;
  for (const wire::Allocation& one : reply.message->names().allocations()) {
    NameInfo info;
    info.name = one.name();
    info.shape = {one.bytes_total(), one.chunk_bytes(), static_cast<uint32_t>(one.extents_size()),
                  static_cast<Layout>(one.layout())};
    info.kind = static_cast<Kind>(one.kind());
    info.owner_uid = one.owner_uid();
    info.mode = one.mode();
    info.lost = one.lost();
    names.push_back(std::move(info));
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
      if (pool.kind() >= kKinds) continue;
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
