// wire/frame: a header and an attach body from anywhere. What decodes encodes to the same bytes.
#include <array>
#include <cstring>

#include "base/assert.h"
#include "fuzz.h"
#include "wire/frame.h"

using namespace ocm;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = fuzz::bytes_of(data, size);
  if (size >= wire::kFrameHeaderBytes) {
    wire::FrameHeader header;
    if (wire::decode_frame(bytes.data(), header).is_ok()) {
      OCM_ASSERT(header.length <= wire::kFrameBytesMax && wire::payload_bytes(header) <= header.length);
      std::array<std::byte, wire::kFrameHeaderBytes> again;
      wire::encode_frame(header, again.data());
      OCM_ASSERT(std::memcmp(again.data(), bytes.data(), again.size()) == 0);
    }
  }
  wire::AttachBody body;
  if (wire::decode_attach(bytes, body).is_ok()) OCM_ASSERT(body.access == 1 || body.access == 3);
  return 0;
}

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> out;
  for (int type = 0; type < 40; ++type) {
    wire::FrameHeader header;
    header.type = static_cast<wire::FrameType>(type);
    header.offset = static_cast<uint64_t>(type) << 35;
    header.length = static_cast<uint64_t>(type) * 1000;
    std::string text(wire::kFrameHeaderBytes, '\0');
    wire::encode_frame(header, reinterpret_cast<std::byte*>(text.data()));
    out.push_back(text);
  }
  wire::AttachBody body;
  body.access = 3;
  std::string text(wire::kAttachBodyBytes, '\0');
  wire::encode_attach(body, reinterpret_cast<std::byte*>(text.data()));
  out.push_back(text);
  return out;
}
