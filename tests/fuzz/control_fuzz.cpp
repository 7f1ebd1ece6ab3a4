// wire/control: a stream of control messages from anywhere.
#include <cstring>

#include "base/assert.h"
#include "base/text.h"
#include "control.pb.h"
#include "fuzz.h"
#include "wire/control.h"

using namespace ocm;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto bytes = fuzz::bytes_of(data, size);
  while (bytes.size() >= wire::kControlHeaderBytes) {
    const auto length = wire::control_length(bytes.first(wire::kControlHeaderBytes));
    if (!length.is_ok()) break;
    OCM_ASSERT(length.value() > 0 && length.value() <= wire::kControlBytesMax);
    bytes = bytes.subspan(wire::kControlHeaderBytes);
    if (length.value() > bytes.size()) break;
    wire::Envelope message;
    if (wire::parse_control(bytes.first(length.value()), message).is_ok()) {
      std::string again;
      (void)wire::append_control(message, again);
      const Status status = wire::status_of(message);
      OCM_ASSERT(is_utf8(status.node()) && is_utf8(status.subject()));
      OCM_ASSERT(status.node().size() <= kNameBytesMax && status.subject().size() <= kNameBytesMax);
    }
    bytes = bytes.subspan(length.value());
  }
  return 0;
}

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> out;
  const auto add = [&](const wire::Envelope& message) {
    std::string text;
    if (wire::append_control(message, text).is_ok()) out.push_back(text);
  };
  wire::Envelope hello, allocate, copy, view, reply;
  hello.set_id(1);
  hello.mutable_session_hello()->set_program("fuzz");
  add(hello);
  allocate.set_id(2);
  allocate.mutable_allocate()->set_bytes_total(~0ull);
  allocate.mutable_allocate()->add_nodes("a");
  add(allocate);
  copy.mutable_copy()->mutable_target()->set_capability(std::string(16, 'c'));
  add(copy);
  for (int i = 0; i < 3; ++i) view.mutable_cluster_view()->add_nodes()->set_name("node");
  add(view);
  reply.set_reply(true);
  reply.set_code(-20);
  reply.set_detail("full");
  reply.set_failed_node("node");
  reply.set_failed_subject("name");
  reply.set_failed_subject_kind(1);
  auto* extent = reply.mutable_allocation()->add_extents();
  extent->add_addresses()->set_address("host:1");
  add(reply);
  wire::Envelope join, hold, sequence;
  join.mutable_join()->add_allocation_ids(std::string(16, 'p'));
  add(join);
  hold.mutable_hold()->set_hold_id(std::string(16, 'h'));
  hold.mutable_hold()->add_extents()->set_address(~0ull);
  add(hold);
  sequence.mutable_allocation()->set_layout(3);
  sequence.mutable_allocation()->add_part_bytes(~0ull);
  sequence.mutable_allocation()->add_extents()->set_part(~0u);
  sequence.mutable_allocation()->add_homes()->set_node("node");
  add(sequence);
  out.push_back(out[0] + out[1] + out[2]);
  out.emplace_back("\xff\xff\xff\xff", 4);
  out.emplace_back("\0\0\0\0", 4);
  return out;
}
