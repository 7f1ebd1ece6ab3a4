// Allocations through the C ABI: create, free, ask about, publish, attach.
#include <algorithm>
#include <cstring>
#include <tuple>
#include <vector>

#include "base/text.h"
#include "capi/objects.h"
#include "client/cluster.h"
#include "client/transfer.h"

namespace ocm::capi {
namespace {

constexpr size_t kNodesMax = 4096;
constexpr size_t kPartsMax = 8192;

Status read_options(const ocm_allocation_options& in, client::AllocationOptions& out) {
  if (!is_kind(number_in(in.kind))) return unknown_value("kind", number_in(in.kind), "ocm_kind");
  if (number_in(in.layout) > OCM_LAYOUT_REPLICATED) {
    return number_in(in.layout) == OCM_LAYOUT_SEQUENCE
               ? Status(Code::kInvalidArgument, "`layout` is a sequence, which ocm_allocation_join() makes")
                     .with_subject(Subject::kOption, "layout")
               : unknown_value("layout", number_in(in.layout), "ocm_layout");
  }
  if (!is_fabric(number_in(in.fabric))) return unknown_value("fabric", number_in(in.fabric), "ocm_fabric");
  if (in.nodes_count > kNodesMax)
    return Status(Code::kTooLarge, std::to_string(in.nodes_count) + " nodes are named; at most 4096 can be");
  if (in.nodes_count > 0 && in.nodes == nullptr) return Status(Code::kInvalidArgument, "`nodes` is null");
  out.kind = static_cast<Kind>(in.kind);
  out.layout = static_cast<Layout>(in.layout);
  out.extents = in.extents;
  out.chunk_bytes = in.chunk_bytes;
  for (size_t i = 0; i < in.nodes_count; ++i) {
    if (in.nodes[i] == nullptr)
      return Status(Code::kInvalidArgument, "`nodes[" + std::to_string(i) + "]` is null");
    out.nodes.emplace_back(in.nodes[i]);
  }
  out.fabric = static_cast<Fabric>(in.fabric);
  out.flags = in.flags;
  return {};
}

/// Runs `fill` on a fresh allocation and gives its handle out.
template <class Fill>
int make_allocation(ocm_allocation** out, Fill fill) {
  const Allocations::Reserved slot = allocations.reserve();
  if (slot.object == nullptr) return fail(Code::kLimit, "too many allocations in this process");
  OCM_ASSERT(slot.object->session() == nullptr);  // whoever had the slot has emptied it
  Status status;
  try {
    status = fill(*slot.object);
  } catch (...) {
    slot.object->clear();
    allocations.release(slot.index);
    throw;
  }
  if (!status.is_ok()) {
    slot.object->clear();
    allocations.release(slot.index);
    return fail(status);
  }
  OCM_DASSERT(slot.object->is_valid() && slot.object->session() != nullptr);
  *out = handle_of<ocm_allocation>(allocations.publish(slot.index));
  return OCM_OK;
}

/// True if the cluster knows that the node is gone.
bool node_is_gone(client::Session& session, const std::string& name) {
  const auto nodes = client::list_nodes(session);
  if (!nodes.is_ok()) return false;
  const auto found = std::find_if(nodes.value().begin(), nodes.value().end(),
                                  [&](const client::NodeInfo& node) { return node.name == name; });
  return found == nodes.value().end() || found->state == OCM_NODE_DEAD;
}

}  // namespace
}  // namespace ocm::capi

using namespace ocm;        // NOLINT: the C ABI of this very namespace
using namespace ocm::capi;  // NOLINT

extern "C" {

int ocm_allocation_create(ocm_session* session, uint64_t bytes, const ocm_allocation_options* options,
                          ocm_allocation** allocation) {
  return guarded([&] {
    SessionObject* object = sessions.find(bits(session));
    if (object == nullptr) return fail_handle(session);
    if (allocation == nullptr) return fail(Code::kInvalidArgument, "`allocation` is null");
    client::AllocationOptions wanted;
    if (options != nullptr) {
      ocm_allocation_options read;
      if (const Status status = read_sized(*options, read); !status.is_ok()) return fail(status);
      if (const Status status = read_options(read, wanted); !status.is_ok()) return fail(status);
    }
    return make_allocation(
        allocation, [&](client::Allocation& fresh) { return fresh.create(*object->session, bytes, wanted); });
  });
}

int ocm_allocation_ready(ocm_allocation* allocation, uint64_t offset, uint64_t bytes) {
  return guarded([&] {
    client::Allocation* object = find(allocation);
    if (object == nullptr) return fail_handle(allocation);
    const Status range = client::check_end({object, offset, nullptr}, bytes, false);
    return range.is_ok() ? static_cast<int>(object->is_ready(offset, bytes)) : fail(range);
  });
}

int ocm_allocation_free(ocm_allocation* allocation) {
  return guarded([&] {
    client::Allocation* object = allocations.retire(bits(allocation));
    if (object == nullptr) return fail_handle(allocation);
    const Status status = object->free();
    OCM_DASSERT(object->session() == nullptr);  // the slot is empty before another one may have it
    allocations.release(Allocations::index_of(bits(allocation)));
    return finish(status);
  });
}

int ocm_allocation_join(ocm_session* session, ocm_allocation* const* parts, size_t count,
                        ocm_allocation** joined) {
  return guarded([&] {
    SessionObject* object = sessions.find(bits(session));
    if (object == nullptr) return fail_handle(session);
    if (joined == nullptr) return fail(Code::kInvalidArgument, "`joined` is null");
    if (parts == nullptr && count > 0) return fail(Code::kInvalidArgument, "`parts` is null");
    if (count > kPartsMax) {
      return fail(Code::kTooLarge, std::to_string(count) + " parts are given; a sequence can have 8192");
    }
    std::vector<client::Allocation*> objects;
    for (size_t i = 0; i < count; ++i) {
      objects.push_back(find(parts[i]));
      if (objects.back() == nullptr) return fail_handle(parts[i]);
    }
    return make_allocation(joined, [&](client::Allocation& fresh) {
      OCM_TRY(fresh.join(*object->session, objects));
      for (size_t i = 0; i < count; ++i) {
        if (allocations.retire(bits(parts[i])) != nullptr)
          allocations.release(Allocations::index_of(bits(parts[i])));
      }
      return Status();
    });
  });
}

uint64_t ocm_allocation_bytes(const ocm_allocation* allocation) {
  const client::Allocation* object = find(allocation);
  if (object != nullptr) return object->bytes();
  (void)guarded([&] { return fail_handle(allocation); });
  return 0;
}

int ocm_allocation_query(const ocm_allocation* allocation, ocm_allocation_info* info) {
  return guarded([&] {
    const client::Allocation* object = find(allocation);
    if (object == nullptr) return fail_handle(allocation);
    if (info == nullptr) return fail(Code::kInvalidArgument, "`info` is null");
    ocm_allocation_info out{};
    out.bytes = object->bytes();
    out.kind = static_cast<ocm_kind>(object->kind());
    out.layout = static_cast<ocm_layout>(object->shape().layout);
    out.chunk_bytes = object->shape().chunk_bytes;
    out.extents = object->shape().extents;
    out.access = static_cast<ocm_access>(object->access());
    const client::PublishedName* name = object->name();
    out.published = name != nullptr;
    out.slab = object->slab();
    if (name != nullptr) {
      out.owner_uid = name->owner_uid;
      out.mode = name->mode;
    }
    out.own_uid = object->session()->daemon_now()->uid();
    out.durable = object->durable();
    out.coherent = object->coherent();
    std::memcpy(out.id, object->grant_id().bytes.data(), sizeof(out.id));
    return finish(write_sized(out, info));
  });
}

int ocm_allocation_extent_query(const ocm_allocation* allocation, uint32_t index, ocm_extent_info* info) {
  return guarded([&] {
    const client::Allocation* object = find(allocation);
    if (object == nullptr) return fail_handle(allocation);
    if (info == nullptr) return fail(Code::kInvalidArgument, "`info` is null");
    if (index >= object->shape().extents) {
      return fail(Code::kOutOfRange,
                  "the allocation has " + std::to_string(object->shape().extents) + " extents");
    }
    const client::Extent& extent = object->extent(index);
    const ExtentDescriptor& descriptor = extent.descriptor();
    ocm_extent_info out{};
    out.global_address = descriptor.id.address.bits() + object->base();
    std::tie(out.offset, out.bytes) = object->range_of(index);
    out.generation = descriptor.id.generation;
    out.fabric = static_cast<ocm_fabric>(extent.fabric());
    out.local = extent.on_this_host();
    out.lost = extent.lost() || (out.local ? extent.check_local() == Code::kPeerLost
                                           : node_is_gone(*object->session(), descriptor.node));
    std::strncpy(out.node, descriptor.node.c_str(), sizeof(out.node) - 1);
    return finish(write_sized(out, info));
  });
}

int ocm_allocation_map(ocm_allocation* allocation, uint64_t offset, uint64_t bytes, void** pointer) {
  return guarded([&] {
    client::Allocation* object = find(allocation);
    if (object == nullptr) return fail_handle(allocation);
    if (pointer == nullptr) return fail(Code::kInvalidArgument, "`pointer` is null");
    const Result<std::byte*> data = object->pointer(offset, bytes);
    if (!data.is_ok()) return fail(data.status());
    *pointer = data.value();
    return static_cast<int>(OCM_OK);
  });
}

int ocm_allocation_publish(ocm_allocation* allocation, const char* name, uint32_t mode) {
  return guarded([&] {
    client::Allocation* object = find(allocation);
    if (object == nullptr) return fail_handle(allocation);
    if (name == nullptr) return fail(Code::kInvalidArgument, "`name` is null");
    if (const Status status = check_name(name); !status.is_ok()) return fail(status);
    if ((mode & ~0666u) != 0) return fail(Code::kInvalidArgument, "`mode` has bits other than 0666");
    return finish(object->publish(name, mode != 0 ? mode : 0600).with_subject(Subject::kAllocation, name));
  });
}

int ocm_allocation_attach(ocm_session* session, const char* name, ocm_access access,
                          ocm_allocation** allocation) {
  return guarded([&] {
    SessionObject* object = sessions.find(bits(session));
    if (object == nullptr) return fail_handle(session);
    if (name == nullptr) return fail(Code::kInvalidArgument, "`name` is null");
    if (allocation == nullptr) return fail(Code::kInvalidArgument, "`allocation` is null");
    const uint32_t wanted = number_in(access) & ~uint32_t{OCM_ACCESS_HOLD};
    const bool hold = wanted != number_in(access);
    if (wanted != OCM_ACCESS_READ && wanted != OCM_ACCESS_READ_WRITE) {
      return fail(unknown_value("access", number_in(access), "ocm_access"));
    }
    if (const Status status = check_name(name); !status.is_ok()) return fail(status);
    return make_allocation(allocation, [&](client::Allocation& fresh) {
      return fresh.attach(*object->session, name, static_cast<Access>(wanted), hold)
          .with_subject(Subject::kAllocation, name);
    });
  });
}

}  // extern "C"
