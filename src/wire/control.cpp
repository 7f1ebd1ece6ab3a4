#include "wire/control.h"

#include <google/protobuf/stubs/logging.h>

#include <cstring>

#include "base/text.h"
#include "control.pb.h"

namespace ocm::wire {
namespace {

static_assert(kControlHeaderBytes == sizeof(uint32_t));
static_assert(kNodeBytesMax <= INT32_MAX, "protobuf counts in int");
static_assert(kControlBytesMax <= kNodeBytesMax);
static_assert(kDetailBytesMax + 2 * kNameBytesMax < kControlBytesMax / 2, "a status can be sent");

/// A name that a reply may carry: whole, and harmless as a C string.
bool is_sendable(std::string_view name) {
  return !name.empty() && name.size() <= kNameBytesMax && name.find('\0') == std::string_view::npos &&
         is_utf8(name);
}

}  // namespace

Status append_control(const Envelope& message, std::string& out, size_t bytes_max) {
  const size_t bytes = message.ByteSizeLong();
  if (bytes == 0 || bytes > bytes_max) {
    return Status(Code::kTooLarge, "control message of " + std::to_string(bytes) + " bytes; at most " +
                                       std::to_string(bytes_max));
  }
  const auto length = static_cast<uint32_t>(bytes);
  const size_t start = out.size();
  out.resize(start + kControlHeaderBytes + bytes);
  std::memcpy(out.data() + start, &length, sizeof(length));
  const uint8_t* end = message.SerializeWithCachedSizesToArray(
      reinterpret_cast<uint8_t*>(out.data() + start + kControlHeaderBytes));
  OCM_ASSERT(end == reinterpret_cast<const uint8_t*>(out.data() + out.size()));
  return {};
}

Result<uint32_t> control_length(std::span<const std::byte> header, size_t bytes_max) {
  OCM_ASSERT(header.size() >= kControlHeaderBytes);
  uint32_t length = 0;
  std::memcpy(&length, header.data(), sizeof(length));
  if (length == 0 || length > bytes_max) return Status(Code::kProtocol, "control message length");
  return length;
}

Status parse_control(std::span<const std::byte> bytes, Envelope& message) {
  // Malformed text makes protobuf write to stderr; a hostile peer must not fill it, nor a program's own.
  const google::protobuf::LogSilencer silence;
  if (bytes.size() > kNodeBytesMax || !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Status(Code::kProtocol, "malformed control message");
  }
  return {};
}

void put_status(const Status& status, Envelope& reply) {
  reply.clear_detail();
  reply.clear_failed_node();
  reply.clear_failed_subject();
  reply.clear_failed_subject_kind();
  reply.set_code(static_cast<int>(status.code()));
  if (status.is_ok()) return;
  // A string that is not UTF-8 would end the connection at the receiver.
  const std::string_view detail = utf8_prefix(status.message(), kDetailBytesMax);
  OCM_DASSERT(detail.size() <= kDetailBytesMax && is_utf8(detail));
  reply.set_detail(detail.data(), detail.size());
  if (is_sendable(status.node())) reply.set_failed_node(std::string(status.node()));
  if (!is_sendable(status.subject())) return;
  reply.set_failed_subject(std::string(status.subject()));
  reply.set_failed_subject_kind(static_cast<uint32_t>(status.subject_kind()));
}

Status status_of(const Envelope& reply) {
  if (reply.code() == 0) return {};
  if (!is_code(reply.code())) return Status(Code::kProtocol, "the peer answered with an unknown code");
  const auto code = static_cast<Code>(reply.code());
  Status out = reply.detail().empty() ? Status(code) : Status(code, reply.detail());
  if (is_sendable(reply.failed_node())) out = out.with_node(reply.failed_node());
  const uint32_t kind = reply.failed_subject_kind();
  if (is_subject(static_cast<int>(kind)) && is_sendable(reply.failed_subject()))
    out = out.with_subject(static_cast<Subject>(kind), reply.failed_subject());
  OCM_DASSERT(!out.is_ok());
  return out;
}

}  // namespace ocm::wire
