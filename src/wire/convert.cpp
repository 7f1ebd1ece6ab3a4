#include "wire/convert.h"

namespace ocm::wire {

std::vector<ocm::FabricAddress> addresses_from(const FabricAddressFields& message) {
  std::vector<ocm::FabricAddress> out;
  out.reserve(static_cast<size_t>(message.size()));
  for (const FabricAddress& address : message)
    out.push_back({enum_from<Fabric>(address.fabric()), address.address(), address.key()});
  return out;
}

void addresses_to(const std::vector<ocm::FabricAddress>& addresses, FabricAddressFields& message) {
  message.Clear();
  for (const ocm::FabricAddress& address : addresses) {
    FabricAddress& out = *message.Add();
    out.set_fabric(static_cast<uint32_t>(address.fabric));
    out.set_address(address.address);
    out.set_key(address.key);
  }
}

void open_to(const ocm::ExtentDescriptor& extent, Access access, OpenExtentRequest& message) {
  set_ref(extent.id, message);
  message.set_capability(id_field(extent.capability));
  message.set_access(static_cast<uint32_t>(access));
}

Status open_from(const OpenExtentRequest& message, ocm::ExtentDescriptor& extent, Access& access) {
  access = enum_from<Access>(message.access());
  if (access != Access::kRead && access != Access::kReadWrite)
    return Status(Code::kInvalidArgument, "access " + std::to_string(message.access()) +
                                              " is unknown; it is 1 (read) or 3 (read and write)");
  extent.id = id_of(message);
  (void)read_id(message.capability(), extent.capability);
  return {};
}

ocm::ExtentDescriptor descriptor_from(const ExtentDescriptor& message) {
  ocm::ExtentDescriptor out;
  out.id = id_of(message);
  out.bytes = message.bytes();
  (void)read_id(message.capability(), out.capability);
  out.node = message.node();
  out.kind = enum_from<Kind>(message.kind());
  out.slot = message.slot();
  out.unmapped = message.unmapped();
  out.addresses = addresses_from(message.addresses());
  if (message.has_cached())
    out.cached = {enum_from<Fabric>(message.cached().fabric()), message.cached().address(), {}};
  return out;
}

void descriptor_to(const ocm::ExtentDescriptor& descriptor, ExtentDescriptor& message) {
  set_ref(descriptor.id, message);
  message.set_bytes(descriptor.bytes);
  message.set_capability(id_field(descriptor.capability));
  message.set_node(descriptor.node);
  message.set_kind(static_cast<uint32_t>(descriptor.kind));
  message.set_slot(descriptor.slot);
  message.set_unmapped(descriptor.unmapped);
  addresses_to(descriptor.addresses, *message.mutable_addresses());
}

}  // namespace ocm::wire
