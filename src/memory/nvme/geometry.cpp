#include "memory/nvme/geometry.h"

#include <algorithm>
#include <bit>

#include "base/units.h"
#include "memory/nvme/records.h"

namespace ocm::memory::nvme {
namespace {

constexpr uint64_t kSlotsMin = 8, kSlotsMax = uint64_t{1} << 32;
constexpr uint64_t kJournalBlocksMin = 8, kJournalBlocksMax = 16'384;  // 64 MiB
constexpr uint64_t kExtentsBytesMin = 4 * kKiB,
                   kExtentsBytesFew = 64 * kKiB;  // of a checkpoint, beside the pages

Status check_page(uint64_t slot_bytes) {
  if (slot_bytes >= kBlockBytes && slot_bytes <= 4 * kMiB && std::has_single_bit(slot_bytes)) return {};
  return Status(Code::kInvalidArgument, "a page of " + std::to_string(slot_bytes) +
                                            " bytes: it is a power of two from 4 KiB to 4 MiB");
}

}  // namespace

Result<Geometry> Geometry::of(uint64_t device_bytes, uint64_t slot_bytes) {
  OCM_TRY(check_page(slot_bytes));
  Geometry out;
  out.device_bytes = device_bytes;
  out.slot_bytes = slot_bytes;
  out.journal_blocks = std::clamp(device_bytes / 64 / kBlockBytes, kJournalBlocksMin, kJournalBlocksMax);
  // A checkpoint tells every page and every extent: as many extents as there are pages, and some names.
  const uint64_t slots_at_most = std::min(device_bytes / slot_bytes, kSlotsMax);
  const uint64_t checkpoint_bytes =
      slots_at_most * (kPageRecordBytes + kMadeRecordBytes) +
      std::max(std::clamp(device_bytes / 8, kExtentsBytesMin, kExtentsBytesFew), device_bytes / 1024);
  out.checkpoint_blocks = checkpoint_bytes / kPayloadBytes + 1;
  const uint64_t metadata = out.metadata_bytes();
  if (metadata < device_bytes) out.slots = std::min((device_bytes - metadata) / slot_bytes, kSlotsMax);
  if (out.slots < kSlotsMin) {
    return Status(Code::kInvalidArgument, "a pool of " + format_bytes(device_bytes) +
                                              " has no room for 8 pages of " + format_bytes(slot_bytes) +
                                              " beside " + format_bytes(metadata) + " of metadata");
  }
  OCM_DASSERT(out.is_valid());
  return out;
}

Result<Geometry> Geometry::for_pages(uint64_t bytes, uint64_t slot_bytes) {
  OCM_TRY(check_page(slot_bytes));
  const uint64_t pages = bytes / slot_bytes + (bytes % slot_bytes == 0 ? 0 : 1);
  if (bytes < kPagesMin * slot_bytes || pages > kPagesMax) {
    return Status(Code::kInvalidArgument, "a pool of " + format_bytes(bytes) + ": with pages of " +
                                              format_bytes(slot_bytes) + " it has room for at least " +
                                              format_bytes(kPagesMin * slot_bytes) + " and at most " +
                                              format_bytes(kPagesMax * slot_bytes));
  }
  uint64_t slots = pages + pages / (kSpareOf - 1);
  while (slots - (slots + kSpareOf - 1) / kSpareOf < pages) ++slots;
  // More bytes need more metadata, which needs more bytes, a fraction of the ones before.
  uint64_t device_bytes = slots * slot_bytes;
  while (true) {
    auto grown = of(device_bytes, slot_bytes);
    if (grown.is_ok() && grown.value().pages() >= pages) return grown;
    const uint64_t missing = grown.is_ok() ? slots - grown.value().slots : 1;
    device_bytes += std::max<uint64_t>(1, missing) * slot_bytes;
  }
}

bool Geometry::is_valid() const {
  if (!std::has_single_bit(slot_bytes) || slot_bytes < kBlockBytes || journal_blocks == 0) return false;
  const uint64_t metadata_end = journal_at(journal_blocks - 1) + kBlockBytes;
  return metadata_end <= slot_at(0) && slot_at(slots) <= device_bytes && pages() < slots &&
         slots * kPageRecordBytes < checkpoint_blocks * kPayloadBytes;
}

}  // namespace ocm::memory::nvme
