// wire/frame: what is encoded decodes, and nothing else does.
#include "wire/frame.h"

#include <gtest/gtest.h>

#include <array>

#include "base/crc32c.h"

namespace ocm::wire {
namespace {

FrameHeader sample() {
  FrameHeader header;
  header.type = FrameType::kPut;
  header.tag = 7;
  header.index = 3;
  header.offset = 1ull << 39;
  header.length = 4096;
  header.operand = 42;
  return header;
}

TEST(Frame, RoundTrips) {
  std::array<std::byte, kFrameHeaderBytes> bytes{};
  encode_frame(sample(), bytes.data());
  FrameHeader out;
  ASSERT_TRUE(decode_frame(bytes.data(), out).is_ok());
  EXPECT_EQ(out, sample());
}

TEST(Frame, AnyFlippedBitIsRefused) {
  std::array<std::byte, kFrameHeaderBytes> good{};
  encode_frame(sample(), good.data());
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bytes = good;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    FrameHeader out;
    EXPECT_FALSE(decode_frame(bytes.data(), out).is_ok()) << bit;
  }
}

TEST(Frame, OversizedLengthIsRefused) {
  FrameHeader header = sample();
  header.length = kFrameBytesMax + 1;
  std::array<std::byte, kFrameHeaderBytes> bytes{};
  encode_frame(header, bytes.data());
  FrameHeader out;
  EXPECT_EQ(decode_frame(bytes.data(), out).code(), Code::kProtocol);
}

TEST(Frame, AttachBodyRoundTripsAndChecksAccess) {
  AttachBody body;
  body.address = 5;
  body.generation = 9;
  body.access = 3;
  body.proof.fill(std::byte{0xAA});
  std::array<std::byte, kAttachBodyBytes> bytes{};
  encode_attach(body, bytes.data());
  AttachBody out;
  ASSERT_TRUE(decode_attach(bytes, out).is_ok());
  EXPECT_EQ(out.generation, 9u);
  EXPECT_EQ(out.proof, body.proof);
  bytes[12] = std::byte{2};
  EXPECT_EQ(decode_attach(bytes, out).code(), Code::kProtocol);
  EXPECT_EQ(decode_attach(std::span(bytes).first(47), out).code(), Code::kProtocol);
}

}  // namespace
}  // namespace ocm::wire
