#include "wire/control.h"

#include <google/protobuf/stubs/logging.h>

#include <cstring>

#include "control.pb.h"

namespace ocm::wire {

Status append_control(const Envelope& message, std::string& out) {
  const size_t bytes = message.ByteSizeLong();
  if (bytes == 0 || bytes > kControlBytesMax) {
    return Status(Code::kTooLarge, "control message of " + std::to_string(bytes) + " bytes; at most " +
                                       std::to_string(kControlBytesMax));
  }
  const auto length = static_cast<uint32_t>(bytes);
  const size_t start = out.size();
  out.resize(start + kControlHeaderBytes + bytes);
  std::memcpy(out.data() + start, &length, sizeof(length));
  message.SerializeWithCachedSizesToArray(
      reinterpret_cast<uint8_t*>(out.data() + start + kControlHeaderBytes));
  return {};
}

Result<uint32_t> control_length(std::span<const std::byte> header) {
  OCM_ASSERT(header.size() >= kControlHeaderBytes);
  uint32_t length = 0;
  std::memcpy(&length, header.data(), sizeof(length));
  if (length == 0 || length > kControlBytesMax) return Status(Code::kProtocol, "control message length");
  return length;
}

Status parse_control(std::span<const std::byte> bytes, Envelope& message) {
  // Malformed text makes protobuf write to stderr; a hostile peer must not fill it, nor a program's own.
  const google::protobuf::LogSilencer silence;
  if (bytes.size() > kControlBytesMax ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Status(Code::kProtocol, "malformed control message");
  }
  return {};
}

}  // namespace ocm::wire
