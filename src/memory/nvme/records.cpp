#include "memory/nvme/records.h"

#include <cstring>

namespace ocm::memory::nvme {
namespace {

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}
template <class T>
bool take(std::span<const std::byte>& bytes, T& value) {
  if (bytes.size() < sizeof(value)) return false;
  std::memcpy(&value, bytes.data(), sizeof(value));
  bytes = bytes.subspan(sizeof(value));
  return true;
}

/// Of encoded().
uint64_t name_bytes(const StoredExtent& extent) {
  return extent.name.empty() ? 0 : kNamedRecordBytes + extent.name.size();
}

/// What encode() makes of it.
[[maybe_unused]] uint64_t bytes_of(const Record& record) {
  switch (record.type) {
    case Record::Type::kMade: return kMadeRecordBytes;
    case Record::Type::kNamed: return kNamedRecordBytes + record.name.size();
    case Record::Type::kFreed: return 1 + 12;
    case Record::Type::kPage: return kPageRecordBytes;
  }
  return 0;
}

Status unfit(const char* why) { return Status(Code::kProtocol, std::string("a record of the pool ") + why); }

}  // namespace

void encode(const Record& record, std::string& out) {
  OCM_DASSERT(record.name.size() <= kNameBytesMax);
  [[maybe_unused]] const size_t before = out.size();
  put(out, static_cast<uint8_t>(record.type));
  put(out, record.id.address.bits());
  put(out, record.id.generation);
  switch (record.type) {
    case Record::Type::kMade: put(out, record.bytes); break;
    case Record::Type::kNamed:
      put(out, static_cast<uint32_t>(record.name.size()));
      out += record.name;
      break;
    case Record::Type::kFreed: break;
    case Record::Type::kPage:
      put(out, record.page);
      put(out, record.at.slot);
      put(out, record.at.crc);
      put(out, record.at.version);
      break;
  }
  OCM_DASSERT(out.size() - before == bytes_of(record));
}

std::optional<Record> decode(std::span<const std::byte>& bytes) {
  std::span<const std::byte> rest = bytes;
  Record out;
  uint8_t type = 0;
  uint64_t address = 0;
  uint32_t length = 0;
  if (!take(rest, type) || !take(rest, address) || !take(rest, out.id.generation)) return std::nullopt;
  out.type = static_cast<Record::Type>(type);
  out.id.address = GlobalAddress(address);
  switch (out.type) {
    case Record::Type::kMade:
      if (!take(rest, out.bytes)) return std::nullopt;
      break;
    case Record::Type::kNamed:
      if (!take(rest, length) || length > kNameBytesMax || rest.size() < length) return std::nullopt;
      out.name.assign(reinterpret_cast<const char*>(rest.data()), length);
      rest = rest.subspan(length);
      break;
    case Record::Type::kFreed: break;
    case Record::Type::kPage:
      if (!take(rest, out.page) || !take(rest, out.at.slot) || !take(rest, out.at.crc) ||
          !take(rest, out.at.version))
        return std::nullopt;
      break;
    default: return std::nullopt;
  }
  OCM_DASSERT(bytes.size() - rest.size() == bytes_of(out));
  bytes = rest;
  return out;
}

Status Contents::apply(const Record& record, std::vector<uint32_t>& freed) {
  const auto known = extents_.find(record.id);
  if (record.type == Record::Type::kMade) {
    if (known != extents_.end()) return unfit("makes an extent that there is");
    if (record.bytes == 0 || record.bytes > GlobalAddress::kOffsetMask)
      return unfit("makes an extent of no length");
    extents_[record.id].bytes = record.bytes;
    described_bytes_ += kMadeRecordBytes;
    return {};
  }
  if (known == extents_.end()) return unfit("is about an extent that there is not");
  StoredExtent& extent = known->second;
  switch (record.type) {
    case Record::Type::kMade: break;
    case Record::Type::kNamed:
      OCM_DASSERT(described_bytes_ >= kMadeRecordBytes + name_bytes(extent));
      described_bytes_ -= name_bytes(extent);
      named_ -= extent.name.empty() ? 0 : 1;
      extent.name = record.name;
      named_ += extent.name.empty() ? 0 : 1;
      described_bytes_ += name_bytes(extent);
      break;
    case Record::Type::kFreed:
      OCM_DASSERT(described_bytes_ >= kMadeRecordBytes + name_bytes(extent));
      described_bytes_ -= kMadeRecordBytes + name_bytes(extent);
      named_ -= extent.name.empty() ? 0 : 1;
      for (const auto& [page, at] : extent.pages) {
        OCM_DASSERT(taken_.contains(at.slot));  // N1
        taken_.erase(at.slot);
        freed.push_back(at.slot);
      }
      extents_.erase(known);
      break;
    case Record::Type::kPage: {
      if (record.page >= (extent.bytes + slot_bytes_ - 1) / slot_bytes_)
        return unfit("is about a page past the end");
      if (record.at.slot >= slots_) return unfit("names a slot past the end");
      if (!taken_.emplace(record.at.slot, record.id).second) return unfit("gives a slot a second page");
      const auto [at, is_new] = extent.pages.try_emplace(record.page, record.at);
      if (!is_new) {
        OCM_DASSERT(taken_.contains(at->second.slot) && at->second.slot != record.at.slot);  // N1
        taken_.erase(at->second.slot);
        freed.push_back(at->second.slot);
        at->second = record.at;
      }
      break;
    }
  }
  return {};
}

void Contents::drop_unnamed() {
  for (auto it = extents_.begin(); it != extents_.end();) {
    if (!it->second.name.empty()) {
      ++it;
      continue;
    }
    for (const auto& [page, at] : it->second.pages) taken_.erase(at.slot);
    OCM_DASSERT(described_bytes_ >= kMadeRecordBytes);
    described_bytes_ -= kMadeRecordBytes;
    it = extents_.erase(it);
  }
  OCM_DASSERT(is_valid());
}

const PageAt* Contents::find(ExtentId id, uint64_t page) const {
  const auto extent = extents_.find(id);
  if (extent == extents_.end()) return nullptr;
  const auto at = extent->second.pages.find(page);
  return at == extent->second.pages.end() ? nullptr : &at->second;
}

std::string Contents::encoded() const {
  std::string out;
  for (const auto& [id, extent] : extents_) {
    encode(made(id, extent.bytes), out);
    if (!extent.name.empty()) encode(named(id, extent.name), out);
    for (const auto& [page, at] : extent.pages) encode(page_at(id, page, at), out);
  }
  return out;
}

bool Contents::is_valid() const {
  size_t pages = 0, named = 0;
  for (const auto& [id, extent] : extents_) {
    named += extent.name.empty() ? 0 : 1;
    for (const auto& [page, at] : extent.pages) {
      const auto owner = taken_.find(at.slot);
      if (owner == taken_.end() || owner->second != id || at.slot >= slots_) return false;
      ++pages;
    }
  }
  return pages == taken_.size() && named == named_ &&
         encoded().size() == described_bytes_ + pages * kPageRecordBytes;
}

}  // namespace ocm::memory::nvme
