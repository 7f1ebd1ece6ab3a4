// One block of a pool's metadata on the device. Its checksum covers all of it: a block is as it was written, or it is none.
//
// Little endian: magic 4, version 1, kind 1, used 2, crc32c 4 (with 0 here), blocks 4, pool 8, sequence 8, first 8, payload.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>

#include "base/assert.h"

namespace ocm::memory::nvme {

inline constexpr uint64_t kBlockBytes = 4096;
inline constexpr uint64_t kBlockHeaderBytes = 40;
inline constexpr uint64_t kPayloadBytes = kBlockBytes - kBlockHeaderBytes;
/// Memory for what a device reads or writes, aligned as O_DIRECT wants it. Null: there is none.
struct FreeBuffer {
  void operator()(void* buffer) const { std::free(buffer); }
};
using Buffer = std::unique_ptr<std::byte[], FreeBuffer>;
inline Buffer make_buffer(uint64_t bytes) {
  OCM_DASSERT(bytes != 0 && bytes % kBlockBytes == 0);
  return Buffer(static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, bytes)));
}
using BlockBytes = std::array<std::byte, kBlockBytes>;

enum class BlockKind : uint8_t { kSuper = 1, kCheckpoint = 2, kJournal = 3 };

struct Block {
  BlockKind kind = BlockKind::kSuper;
  uint64_t pool = 0;      // which pool's, at random: what lay on the device before is none of it
  uint64_t sequence = 0;  // of the block in the journal, of the superblock or the checkpoint among theirs
  uint64_t first =
      0;  // journal: the sequence of the first of the group. Checkpoint: which block of it this is
  uint32_t blocks = 1;  // of the group or checkpoint
  std::span<const std::byte> payload;
};

/// `block.payload` has at most kPayloadBytes.
void seal(const Block& block, BlockBytes& out);
/// What was sealed; its payload lies in `bytes`. None: it is no block of that kind, or damaged.
std::optional<Block> open_block(const BlockBytes& bytes, BlockKind kind);
/// The version of the format that it claims to have, whole or not. None: there never was a block.
std::optional<uint8_t> claimed_version(const BlockBytes& bytes);
inline constexpr uint8_t kFormatVersion = 1;

}  // namespace ocm::memory::nvme
