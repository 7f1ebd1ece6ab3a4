#include "memory/nvme/block.h"

#include <bit>
#include <cstring>
#include <type_traits>

#include "base/assert.h"
#include "base/crc32c.h"

namespace ocm::memory::nvme {
namespace {

static_assert(std::endian::native == std::endian::little, "what lies on the device is little endian");

constexpr uint32_t kMagic = 0x314D434F;  // "OCM1"

struct Header {
  uint32_t magic;
  uint8_t version, kind;
  uint16_t used;
  uint32_t crc, blocks;
  uint64_t pool, sequence, first;
};
static_assert(sizeof(Header) == kBlockHeaderBytes);
static_assert(std::has_unique_object_representations_v<Header>, "no byte of it is left to chance");
static_assert(kPayloadBytes <= UINT16_MAX, "a header counts what is used of it");

uint32_t checksum(Header header, const BlockBytes& bytes) {
  header.crc = 0;
  const uint32_t crc = crc32c(0, &header, sizeof(header));
  return crc32c(crc, bytes.data() + sizeof(header), bytes.size() - sizeof(header));
}

}  // namespace

void seal(const Block& block, BlockBytes& out) {
  OCM_ASSERT(block.payload.size() <= kPayloadBytes);
  Header header{kMagic,
                kFormatVersion,
                static_cast<uint8_t>(block.kind),
                static_cast<uint16_t>(block.payload.size()),
                0,
                block.blocks,
                block.pool,
                block.sequence,
                block.first};
  out.fill(std::byte{0});
  if (!block.payload.empty())
    std::memcpy(out.data() + sizeof(header), block.payload.data(), block.payload.size());
  header.crc = checksum(header, out);
  std::memcpy(out.data(), &header, sizeof(header));
  OCM_DASSERT(open_block(out, block.kind).has_value());
}

std::optional<Block> open_block(const BlockBytes& bytes, BlockKind kind) {
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kMagic || header.version != kFormatVersion ||
      header.kind != static_cast<uint8_t>(kind) || header.used > kPayloadBytes ||
      header.crc != checksum(header, bytes))
    return std::nullopt;
  return Block{kind,         header.pool,   header.sequence,
               header.first, header.blocks, std::span(bytes).subspan(sizeof(header), header.used)};
}

std::optional<uint8_t> claimed_version(const BlockBytes& bytes) {
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.magic != kMagic) return std::nullopt;
  return header.version;
}

}  // namespace ocm::memory::nvme
