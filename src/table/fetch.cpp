#include "table/fetch.h"

#include <algorithm>
#include <utility>

#include "table/format/verify.h"

namespace ocm::table {
namespace {

/// Fields with a dictionary in the order of chunk.dictionaries.
void fields_with_dictionaries(const Field& field, std::vector<const Field*>& out) {
  if (field.has_dictionary()) out.push_back(&field);
  for (const Field& child : field.children) fields_with_dictionaries(child, out);
}

}  // namespace

Fetch::Fetch(Table& table, uint32_t group, const std::vector<uint32_t>& columns, uint32_t flags,
             HeldDictionaries& known)
    : table_(table), place_(table.groups()[group]), segment_(table.segment_of(place_)), flags_(flags) {
  OCM_DASSERT(table_.group_of(place_).columns.size() == table_.schema().children.size());
  held_.group = group;
  held_.columns.resize(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    const Field& field = segment_.catalogue.schema.children[columns[i]];
    const Chunk& chunk = table_.group_of(place_).columns[columns[i]].chunk;
    wishes_.push_back({&field, &chunk, &held_.columns[i]});
    wish_dictionaries(field, chunk, known);
  }
  start(known);
}

Fetch::~Fetch() {
  if (op_ != nullptr) table_.state().calls.end(op_);
}

void Fetch::wish_dictionaries(const Field& field, const Chunk& chunk, const HeldDictionaries& known) {
  std::vector<const Field*> fields;
  if (!chunk.dictionaries.empty()) fields_with_dictionaries(field, fields);
  OCM_DASSERT(fields.size() == chunk.dictionaries.size());  // C3
  for (size_t i = 0; i < fields.size(); ++i) {
    const uint32_t number = chunk.dictionaries[i];
    if (held_.dictionaries.contains(number)) continue;
    HeldChunk& to = held_.dictionaries[number];
    const Chunk& values = segment_.catalogue.dictionaries[number].chunk;
    if (const auto found = known.find({place_.segment, number}); found != known.end()) {
      to = found->second;
    } else {
      wishes_.push_back({&fields[i]->values(), &values, &to});
    }
    wish_dictionaries(fields[i]->values(), values, known);
  }
}

void Fetch::start(HeldDictionaries& known) {
  std::vector<ocm_segment> pieces;
  for (const Wish& wish : wishes_) {
    const uint64_t bytes = wish.chunk->bytes();
    if (bytes == 0 || find_here(wish)) continue;
    wish.to->memory = table_.state().pool->take(bytes);
    wish.to->data = wish.to->memory.get();
    pieces.push_back({wish.chunk->offset, wish.to->memory.get(), bytes});
    moved_.push_back(&wish);
    bytes_moved_ += bytes;
  }
  for (const auto& [number, chunk] : held_.dictionaries)
    known.emplace(std::pair(place_.segment, number), chunk);
  OCM_DASSERT(pieces.size() == moved_.size());
  if (pieces.empty()) return;
  started_ = status_of(ocm_getv_start(segment_.allocation.get(), pieces.data(), pieces.size(), &op_));
  if (op_ != nullptr) table_.state().calls.add(op_);
}

Status Fetch::wait() {
  if (op_ == nullptr) return started_;
  const Status status = status_of(ocm_op_wait(op_, OCM_WAIT_REMOTE, 0));
  table_.state().calls.end(std::exchange(op_, nullptr));  // interrupted, it is still under way
  return status;
}

Result<HeldGroup> Fetch::finish() {
  const Status filled = fill();
  if (!filled.is_ok())
    return about(table_.describe(held_.group), filled).with_subject(Subject::kTable, table_.name());
  return std::move(held_);
}

Status Fetch::fill() {
  if (const Status status = wait(); !status.is_ok()) return explain(status);
  table_.bytes_moved().fetch_add(bytes_moved_, std::memory_order_relaxed);
  const Depth depth = (flags_ & OCM_SCAN_VALIDATE) != 0 ? Depth::kAll : Depth::kEnds;
  for (const Wish& wish : wishes_) {
    OCM_DASSERT(wish.to->data != nullptr || wish.chunk->bytes() == 0);
    const Status status = verify_chunk(segment_.catalogue, *wish.field, *wish.chunk, wish.to->data, depth);
    OCM_TRY(about_column(wish.field->name, status));
  }
  if ((flags_ & OCM_SCAN_CACHE) != 0) {
    for (const Wish* wish : moved_) {
      table_.state().cache.keep(key_of(*wish->chunk), wish->to->memory, wish->chunk->bytes());
    }
  }
  return {};
}

bool Fetch::find_here(const Wish& wish) {
  OCM_DASSERT(wish.to->data == nullptr && wish.chunk->offset % kAlignment == 0);  // C1
  if ((flags_ & OCM_SCAN_MOVE) == 0) {
    wish.to->data = segment_.local(wish.chunk->offset);
    if (wish.to->data != nullptr) return true;
  }
  if ((flags_ & OCM_SCAN_CACHE) == 0) return false;
  wish.to->memory = table_.state().cache.find(key_of(*wish.chunk));
  wish.to->data = wish.to->memory.get();
  return wish.to->data != nullptr;
}

Status Fetch::explain(const Status& status) const {
  OCM_DASSERT(!status.is_ok() && !moved_.empty());
  std::vector<std::string> nodes;
  bool lost_only = false;
  for (const Wish* wish : moved_) {
    ocm_extent_info info;
    if (!table_.locate(segment_, wish->chunk->offset, info).is_ok()) continue;
    if (info.lost && !lost_only) nodes.clear();
    lost_only |= info.lost;
    const bool counts = info.lost || !lost_only;
    if (counts && std::find(nodes.begin(), nodes.end(), info.node) == nodes.end())
      nodes.emplace_back(info.node);
  }
  std::string text;
  for (const std::string& node : nodes) text += (text.empty() ? "" : " or ") + node;
  const bool gone = status.code() == Code::kPeerLost || status.code() == Code::kLost;
  text = "node " + text + (gone ? " does not answer (" : " refused (") +
         std::string(code_name(status.code())) + "): " + std::string(status.message());
  if (gone) text += "; load the table again, or keep it with replicas";
  return status.with_message(std::move(text)).with_node(nodes.empty() ? "" : nodes.front());
}

bool needs_moving(const Table& table, uint32_t group, const std::vector<uint32_t>& columns, uint32_t flags) {
  const GroupPlace& place = table.groups()[group];
  const Segment& segment = table.segment_of(place);
  const auto here = [&](const Chunk& chunk, const auto& self) -> bool {
    for (const uint32_t number : chunk.dictionaries) {
      if (!self(segment.catalogue.dictionaries[number].chunk, self)) return false;
    }
    if (chunk.bytes() == 0) return true;
    if ((flags & OCM_SCAN_MOVE) == 0 && segment.local(chunk.offset) != nullptr) return true;
    return (flags & OCM_SCAN_CACHE) != 0 && table.state().cache.holds({segment.first_extent, chunk.offset});
  };
  return !std::all_of(columns.begin(), columns.end(), [&](uint32_t column) {
    return here(table.group_of(place).columns[column].chunk, here);
  });
}

}  // namespace ocm::table
