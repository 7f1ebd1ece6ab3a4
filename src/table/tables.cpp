#include "table/tables.h"

#include <algorithm>

namespace ocm::table {
namespace {

constexpr uintptr_t kUnknown = 0;
constexpr uintptr_t kElsewhere = 1;

bool same_field(const Field& a, const Field& b) {
  const auto same = [](const std::vector<Field>& left, const std::vector<Field>& right) {
    return std::equal(left.begin(), left.end(), right.begin(), right.end(), same_field);
  };
  return a.name == b.name && a.format == b.format && same(a.children, b.children) &&
         same(a.dictionary, b.dictionary);
}

/// The segments of a moment. A number stays free where its append failed after others had taken the next ones. But a list
/// comes in pages: that which one of them had not yet when a later one was read is in the second list.
Result<Owners> snapshot_of_appended(ocm_session* session, const std::string& name, uint64_t table) {
  OCM_TRY_ASSIGN(Owners out, owners_of_appended(session, name, table));
  if (out.empty() || out.rbegin()->first == out.size()) return out;  // 1, 2, ..., n
  OCM_TRY_ASSIGN(Owners later, owners_of_appended(session, name, table));
  later.erase(later.upper_bound(out.rbegin()->first), later.end());
  out.merge(later);
  return out;
}

/// Why listed segments were not found. OK: their appends failed just now. Errors: kNotFound (the table was dropped), kLost.
Status explain(ocm_session* session, const std::string& name, uint64_t table,
               const std::vector<uint32_t>& missed) {
  OCM_TRY_ASSIGN(const HeldSegment now, hold_segment(session, name));
  if (now.footer.table != table) return Status(Code::kNotFound, "it was dropped while it was opened");
  OCM_TRY_ASSIGN(const Owners still, owners_of_appended(session, name, table));
  for (const uint32_t number : missed) {
    if (!still.contains(number)) continue;
    // Or another append has the number now.
    const Status again = hold_segment(session, segment_name(name, {table, number})).status();
    if (again.code() == Code::kNotFound) {
      return Status(Code::kLost, "rows that were appended are gone with the node that had them")
          .with_subject(Subject::kSegment, segment_name(name, {table, number}));
    }
  }
  return {};
}

}  // namespace

size_t Segment::part_of(uint64_t offset) const {
  const auto after = std::upper_bound(part_starts.begin(), part_starts.end(), offset);
  OCM_DASSERT(after != part_starts.begin());
  return static_cast<size_t>(after - part_starts.begin()) - 1;
}

const std::byte* Segment::local(uint64_t offset) const {
  const size_t part = part_of(offset);
  OCM_DASSERT(offset - part_starts[part] < catalogue.parts[part]);  // C1
  uintptr_t known = part_pointers[part].load(std::memory_order_relaxed);
  if (known == kUnknown) {
    const Result<void*> pointer = plain_pointer(allocation.get(), part_starts[part], catalogue.parts[part]);
    if (!pointer.is_ok()) return nullptr;  // perhaps later
    known = pointer.value() != nullptr ? reinterpret_cast<uintptr_t>(pointer.value()) : kElsewhere;
    part_pointers[part].store(known, std::memory_order_relaxed);
  }
  if (known == kElsewhere) return nullptr;
  return reinterpret_cast<const std::byte*>(known) + (offset - part_starts[part]);
}

Result<std::shared_ptr<Table>> Table::open(ocm_session* session, const std::string& name) {
  auto table = std::make_shared<Table>();
  table->name_ = name;
  table->session_ = session;
  OCM_TRY_ASSIGN(table->state_, state_of(session));
  OCM_TRY_ASSIGN(HeldSegment first, hold_segment(session, name));
  const uint64_t id = first.footer.table;
  const uint32_t owner_uid = first.owner_uid;
  OCM_TRY(table->add_segment(std::move(first), 0));
  OCM_TRY_ASSIGN(const Owners owners, snapshot_of_appended(session, name, id));
  std::vector<uint32_t> missed;
  for (const auto& [number, uid] : owners) {
    if (!counts(owner_uid, uid)) continue;
    Result<HeldSegment> found = hold_segment(session, segment_name(name, {id, number}));
    if (found.status().code() == Code::kNotFound) {
      missed.push_back(number);
      continue;
    }
    OCM_TRY(found.status());
    HeldSegment held = std::move(found).value();
    if (!counts(owner_uid, held.owner_uid)) continue;
    if (held.footer.table != id) return Status(Code::kProtocol, "a segment of another table has its name");
    OCM_TRY(table->add_segment(std::move(held), number));
  }
  if (!missed.empty()) OCM_TRY(explain(session, name, id, missed));
  OCM_DASSERT(table->is_valid());
  return table;
}

Status Table::add_segment(HeldSegment held, uint32_t number) {
  Segment segment;
  OCM_TRY_ASSIGN(segment.catalogue, read_catalogue(held));
  segment.allocation = std::move(held.allocation);
  segment.number = number;
  ocm_extent_info first = OCM_EXTENT_INFO_INIT;
  OCM_TRY(status_of(ocm_allocation_extent_query(segment.allocation.get(), 0, &first)));
  segment.first_extent = {GlobalAddress(first.global_address), first.generation};
  segment.first_row = rows_;
  uint64_t start = 0;
  for (const uint64_t bytes : segment.catalogue.parts) {
    segment.part_starts.push_back(start);
    start += bytes;
  }
  segment.part_pointers = std::make_unique<std::atomic<uintptr_t>[]>(segment.catalogue.parts.size());
  if (!segments_.empty() && !same_field(schema(), segment.catalogue.schema))
    return Status(Code::kProtocol, "appended segment " + std::to_string(number) + " has another schema");
  for (uint32_t group = 0; group < segment.catalogue.groups.size(); ++group) {
    groups_.push_back({static_cast<uint32_t>(segments_.size()), group, rows_});
    if (__builtin_add_overflow(rows_, segment.catalogue.groups[group].rows, &rows_) || rows_ > INT64_MAX)
      return Status(Code::kProtocol, "its row groups have too many rows");
  }
  segments_.push_back(std::move(segment));
  return {};
}

uint64_t Table::version() const {
  uint64_t out = id();
  for (const Segment& segment : segments_) {
    for (const uint64_t word :
         {segment.first_extent.address.bits(), uint64_t{segment.first_extent.generation}})
      out = (out ^ word) * 0x9E3779B97F4A7C15ull;
    out ^= out >> 32;
  }
  return out;
}

bool Table::is_valid() const {
  uint64_t rows = 0;
  for (const GroupPlace& place : groups_) {
    if (place.segment >= segments_.size() || place.first_row != rows) return false;
    const std::vector<Group>& groups = segments_[place.segment].catalogue.groups;
    if (place.group >= groups.size()) return false;
    rows += groups[place.group].rows;
  }
  return !segments_.empty() && rows == rows_;
}

uint32_t Table::replicas() const {
  OCM_DASSERT(!segments_.empty());
  uint32_t least = UINT32_MAX;
  for (const Segment& segment : segments_) least = std::min(least, segment.catalogue.replicas);
  return least;
}

Status Table::locate(const Segment& segment, uint64_t offset, ocm_extent_info& info) const {
  const uint32_t replicas = segment.catalogue.replicas;
  OCM_DASSERT(replicas > 0);
  const uint64_t first = uint64_t{segment.part_of(offset)} * replicas;
  for (uint32_t i = 0; i < replicas; ++i) {
    info = OCM_EXTENT_INFO_INIT;
    OCM_TRY(status_of(
        ocm_allocation_extent_query(segment.allocation.get(), static_cast<uint32_t>(first + i), &info)));
    if (!info.lost) return {};
  }
  return {};
}

}  // namespace ocm::table
