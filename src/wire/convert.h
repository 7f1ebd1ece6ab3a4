// Between messages and the values of base/ that they carry: the doors of daemons and programs use these and keep no
// message. What comes from outside is checked once, here.
//
// Threads: any. Pure.
#pragma once

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "base/extent.h"
#include "base/ids.h"
#include "base/status.h"
#include "control.pb.h"

namespace ocm::wire {

/// 16 bytes of a field. False if the length is another; `id` stays as it is.
template <class Id>
bool read_id(const std::string& field, Id& id) {
  static_assert(std::is_trivially_copyable_v<Id> && sizeof(Id) == 16);
  if (field.size() != id.bytes.size()) return false;
  __builtin_memcpy(id.bytes.data(), field.data(), id.bytes.size());
  return true;
}
/// The same; zeros if the length is another.
template <class Id>
Id id_from(const std::string& field) {
  Id out;
  (void)read_id(field, out);
  return out;
}
template <class Id>
std::string id_field(const Id& id) {
  return std::string(reinterpret_cast<const char*>(id.bytes.data()), id.bytes.size());
}

/// Of a message that has an extent's address and generation.
template <class Message>
ExtentId id_of(const Message& message) {
  return {GlobalAddress(message.address()), message.generation()};
}
/// Of extents, or of references to them, in their order.
template <class Messages>
std::vector<ExtentId> ids_in(const Messages& messages) {
  std::vector<ExtentId> out;
  out.reserve(static_cast<size_t>(messages.size()));
  for (const auto& one : messages) out.push_back(id_of(one));
  return out;
}
template <class Message>
void set_ref(const ExtentId& id, Message& out) {
  out.set_address(id.address.bits());
  out.set_generation(id.generation);
}
inline ExtentRef ref_of(const ExtentId& id) {
  ExtentRef out;
  set_ref(id, out);
  return out;
}
template <class Ids>
void add_refs(const Ids& ids, google::protobuf::RepeatedPtrField<ExtentRef>& out) {
  for (const ExtentId& id : ids) set_ref(id, *out.Add());
}

/// A number of a message as one of an enum of one byte. One that does not fit is of no version, and becomes 255, which is
/// no kind and no fabric either.
template <class Enum>
Enum enum_from(uint32_t number) {
  static_assert(std::is_same_v<std::underlying_type_t<Enum>, uint8_t>);
  return static_cast<Enum>(std::min<uint32_t>(number, 0xff));
}
static_assert(!is_kind(0xff) && !is_fabric(0xff));

static_assert(sizeof(Capability) == 16 && sizeof(Incarnation) == 16, "as read_id() takes them");

using FabricAddressFields = google::protobuf::RepeatedPtrField<FabricAddress>;
/// Those of fabrics that this version does not know, too: others may.
std::vector<ocm::FabricAddress> addresses_from(const FabricAddressFields& message);
void addresses_to(const std::vector<ocm::FabricAddress>& addresses, FabricAddressFields& message);

/// Who asks for an extent of this host, and for what.
void open_to(const ocm::ExtentDescriptor& extent, Access access, OpenExtentRequest& message);
/// Its id and capability. Errors: kInvalidArgument (no access).
Status open_from(const OpenExtentRequest& message, ocm::ExtentDescriptor& extent, Access& access);

/// A capability of another length than 16 bytes is read as zeros, which opens nothing; a kind may be unknown.
ocm::ExtentDescriptor descriptor_from(const ExtentDescriptor& message);
void descriptor_to(const ocm::ExtentDescriptor& descriptor, ExtentDescriptor& message);

}  // namespace ocm::wire
