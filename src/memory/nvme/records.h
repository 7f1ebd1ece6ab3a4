// What a pool knows of its extents and pages, and the records that change it: written to the journal in groups, and all
// together as a checkpoint. Pure.
//
// Invariants
//   N1 each page of an extent lies in at most one slot, and each slot holds at most one page.
//   N2 a record that does not fit what is known (an unknown extent, a page or slot out of range, a slot that is taken)
//      changes nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ids.h"

namespace ocm::memory::nvme {

struct PageAt {
  uint32_t slot = 0;
  uint32_t crc = 0;      // crc32c of its bytes
  uint64_t version = 0;  // the page directory's
  bool operator==(const PageAt&) const = default;
};

struct StoredExtent {
  uint64_t bytes = 0;
  std::string name;  // what the home needs to know its name again, as it wrote it; empty: not published
  std::unordered_map<uint64_t, PageAt> pages;  // those that were ever written; the others are zeros
  bool operator==(const StoredExtent&) const = default;
};

struct Record {
  enum class Type : uint8_t { kMade = 1, kNamed = 2, kFreed = 3, kPage = 4 };
  Type type = Type::kMade;
  ExtentId id;
  uint64_t bytes = 0;  // kMade
  std::string name;    // kNamed; empty: not published any more
  uint64_t page = 0;   // kPage
  PageAt at;           // kPage
};
inline Record made(ExtentId id, uint64_t bytes) {
  Record out;
  out.type = Record::Type::kMade, out.id = id, out.bytes = bytes;
  return out;
}
inline Record named(ExtentId id, std::string name) {
  Record out;
  out.type = Record::Type::kNamed, out.id = id, out.name = std::move(name);
  return out;
}
inline Record freed(ExtentId id) {
  Record out;
  out.type = Record::Type::kFreed, out.id = id;
  return out;
}
inline Record page_at(ExtentId id, uint64_t page, const PageAt& at) {
  Record out;
  out.type = Record::Type::kPage, out.id = id, out.page = page, out.at = at;
  return out;
}
inline constexpr uint64_t kMadeRecordBytes = 1 + 12 + 8, kPageRecordBytes = 1 + 12 + 8 + 16;
inline constexpr uint64_t kNamedRecordBytes = 1 + 12 + 4;  // and the name
inline constexpr uint64_t kNameBytesMax = uint64_t{1} << 20;

void encode(const Record& record, std::string& out);
/// The next of `bytes`, which loses it. None: malformed; `bytes` is left as it was.
std::optional<Record> decode(std::span<const std::byte>& bytes);

class Contents {
 public:
  Contents(uint64_t slots, uint64_t slot_bytes) : slots_(slots), slot_bytes_(slot_bytes) {
    OCM_DASSERT(slot_bytes != 0 && slots <= uint64_t{1} << 32);
  }
  /// Errors: kProtocol (N2). `freed` gets the slots that nothing holds any more.
  Status apply(const Record& record, std::vector<uint32_t>& freed);
  /// What is not published ends, as after a restart; its slots are free.
  void drop_unnamed();

  const std::map<ExtentId, StoredExtent>& extents() const { return extents_; }
  const PageAt* find(ExtentId id, uint64_t page) const;
  bool is_taken(uint64_t slot) const {
    OCM_DASSERT(slot < slots_);
    return taken_.contains(static_cast<uint32_t>(slot));
  }
  uint64_t slots_taken() const { return taken_.size(); }
  /// Of encoded(), all but the pages' records.
  uint64_t described_bytes() const { return described_bytes_; }
  /// Extents that have a name.
  uint64_t names() const { return named_; }
  /// As records that make it of nothing.
  std::string encoded() const;
  /// N1.
  bool is_valid() const;

 private:
  uint64_t slots_, slot_bytes_;
  std::map<ExtentId, StoredExtent> extents_;
  std::unordered_map<uint32_t, ExtentId> taken_;  // by slot
  uint64_t described_bytes_ = 0;
  uint64_t named_ = 0;
};

}  // namespace ocm::memory::nvme
