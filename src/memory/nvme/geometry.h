// Where the parts of a pool lie on its device.
//
//   superblock 0 | superblock 1 | checkpoint 0 | checkpoint 1 | journal, a ring | slots
//
// A slot holds one page. One of sixteen is spare: a page that is written anew goes to a new slot first. Pure.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "memory/nvme/block.h"

namespace ocm::memory::nvme {

struct Geometry {
  uint64_t device_bytes = 0;
  uint64_t slot_bytes = 0;  // of a page
  uint64_t slots = 0;
  uint64_t checkpoint_blocks = 0;  // of each of the two
  uint64_t journal_blocks = 0;

  /// Errors: kInvalidArgument: a page is no power of two from 4 KiB to 4 MiB, or the device is too small (both named).
  static Result<Geometry> of(uint64_t device_bytes, uint64_t slot_bytes);

  /// The device that `bytes` of pages need, with what comes on top. Errors: kInvalidArgument (that page; fewer bytes than
  /// kPagesMin pages, or more than kPagesMax).
  static Result<Geometry> for_pages(uint64_t bytes, uint64_t slot_bytes);
  static constexpr uint64_t kPagesMin = 8, kPagesMax = uint64_t{1} << 31;

  static constexpr uint64_t kSpareOf = 16;
  /// Pages that there is room for.
  uint64_t pages() const { return slots - (slots + kSpareOf - 1) / kSpareOf; }
  static uint64_t superblock_at(uint64_t which) {
    OCM_DASSERT(which < 2);
    return which * kBlockBytes;
  }
  uint64_t checkpoint_at(uint64_t which, uint64_t block) const {
    OCM_DASSERT(which < 2 && block <= checkpoint_blocks);
    return (2 + which * checkpoint_blocks + block) * kBlockBytes;
  }
  /// Of the journal's block with that sequence number.
  uint64_t journal_at(uint64_t sequence) const {
    return (2 + 2 * checkpoint_blocks + sequence % journal_blocks) * kBlockBytes;
  }
  uint64_t slot_at(uint64_t slot) const {
    OCM_DASSERT(slot <= slots);
    return slots_at() + slot * slot_bytes;
  }
  uint64_t metadata_bytes() const { return slots_at(); }
  /// The parts fit the device, and a checkpoint of all pages its place.
  bool is_valid() const;

  bool operator==(const Geometry&) const = default;

 private:
  uint64_t slots_at() const {
    const uint64_t blocks = (2 + 2 * checkpoint_blocks + journal_blocks) * kBlockBytes;
    return (blocks + slot_bytes - 1) / slot_bytes * slot_bytes;
  }
};

}  // namespace ocm::memory::nvme
