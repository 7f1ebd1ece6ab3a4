#include "table/fetch.h"

#include <algorithm>

#include "table/format/verify.h"

namespace ocm::table {
namespace {

/// A chunk that is wanted.
struct Wish {
  const Field* field;
  const Chunk* chunk;
  HeldChunk* to;
};

class Fetch {
 public:
  Fetch(Table& table, uint32_t group, uint32_t flags)
      : table_(table),
        place_(table.groups()[group]),
        segment_(table.segment_of(place_)),
        group_(group),
        flags_(flags) {}

  Result<HeldGroup> run(const std::vector<uint32_t>& columns, HeldDictionaries& dictionaries) {
    HeldGroup held;
    held.group = group_;
    held.columns.resize(columns.size());
    const Group& group = table_.group_of(place_);
    for (size_t i = 0; i < columns.size(); ++i) {
      const Field& field = segment_.catalogue.schema.children[columns[i]];
      const Chunk& chunk = group.columns[columns[i]].chunk;
      wishes_.push_back({&field, &chunk, &held.columns[i]});
      wish_dictionaries(field, chunk, dictionaries, held);
    }
    OCM_TRY(about(table_.describe(group_), fill()));
    for (auto& [number, chunk] : held.dictionaries) {
      HeldChunk& known = dictionaries[{place_.segment, number}];
      if (known.data == nullptr) known = chunk;
    }
    return held;
  }

 private:
  CacheKey key_of(const Chunk& chunk) const { return {table_.id(), segment_.number, chunk.offset}; }

  /// Fields with a dictionary in the order of chunk.dictionaries.
  static void fields_with_dictionaries(const Field& field, std::vector<const Field*>& out) {
    if (field.has_dictionary()) out.push_back(&field);
    for (const Field& child : field.children) fields_with_dictionaries(child, out);
  }

  void wish_dictionaries(const Field& field, const Chunk& chunk, const HeldDictionaries& known,
                         HeldGroup& held) {
    std::vector<const Field*> fields;
    if (!chunk.dictionaries.empty()) fields_with_dictionaries(field, fields);
    for (size_t i = 0; i < fields.size(); ++i) {
      const uint32_t number = chunk.dictionaries[i];
      if (held.dictionaries.contains(number)) continue;
      HeldChunk& to = held.dictionaries[number];
      const Chunk& values = segment_.catalogue.dictionaries[number].chunk;
      if (const auto found = known.find({place_.segment, number}); found != known.end()) {
        to = found->second;
      } else {
        wishes_.push_back({&fields[i]->values(), &values, &to});
      }
      wish_dictionaries(fields[i]->values(), values, known, held);
    }
  }

  Status fill() {
    std::vector<ocm_segment> pieces;
    std::vector<const Wish*> moved;
    uint64_t bytes_moved = 0;
    for (const Wish& wish : wishes_) {
      const uint64_t bytes = wish.chunk->bytes();
      if (bytes == 0 || find_here(wish)) continue;
      wish.to->memory = table_.state().pool->take(bytes);
      wish.to->data = wish.to->memory.get();
      pieces.push_back({wish.chunk->offset, wish.to->memory.get(), bytes});
      moved.push_back(&wish);
      bytes_moved += bytes;
    }
    if (!pieces.empty()) {
      const Status status = status_of(ocm_getv(segment_.allocation.get(), pieces.data(), pieces.size()));
      if (!status.is_ok()) return explain(status, moved);
      table_.bytes_moved().fetch_add(bytes_moved, std::memory_order_relaxed);
    }
    const Depth depth = (flags_ & OCM_SCAN_VALIDATE) != 0 ? Depth::kAll : Depth::kEnds;
    for (const Wish& wish : wishes_) {
      const Status status = verify_chunk(segment_.catalogue, *wish.field, *wish.chunk, wish.to->data, depth);
      OCM_TRY(about("column `" + wish.field->name + "`", status));
    }
    if ((flags_ & OCM_SCAN_CACHE) != 0) {
      for (const Wish* wish : moved) {
        table_.state().cache.keep(key_of(*wish->chunk), wish->to->memory, wish->chunk->bytes());
      }
    }
    return {};
  }

  bool find_here(const Wish& wish) {
    if ((flags_ & OCM_SCAN_MOVE) == 0) {
      wish.to->data = segment_.local(wish.chunk->offset);
      if (wish.to->data != nullptr) return true;
    }
    if ((flags_ & OCM_SCAN_CACHE) == 0) return false;
    wish.to->memory = table_.state().cache.find(key_of(*wish.chunk));
    wish.to->data = wish.to->memory.get();
    return wish.to->data != nullptr;
  }

  /// Which node it was, and what to do.
  Status explain(const Status& status, const std::vector<const Wish*>& moved) const {
    std::vector<std::string> nodes;
    bool lost_only = false;
    for (const Wish* wish : moved) {
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
    if (gone) text += "; load the table anew, or keep it with replicas";
    return Status(status.code(), text);
  }

  Table& table_;
  const GroupPlace& place_;
  const Segment& segment_;
  uint32_t group_;
  uint32_t flags_;
  std::vector<Wish> wishes_;
};

}  // namespace

bool needs_moving(const Table& table, uint32_t group, const std::vector<uint32_t>& columns, uint32_t flags) {
  const GroupPlace& place = table.groups()[group];
  const Segment& segment = table.segment_of(place);
  for (const uint32_t column : columns) {
    const Chunk& chunk = table.group_of(place).columns[column].chunk;
    if (chunk.buffers.empty() || chunk.bytes() == 0) continue;
    if ((flags & OCM_SCAN_MOVE) == 0 && segment.local(chunk.offset) != nullptr) continue;
    const bool cached = (flags & OCM_SCAN_CACHE) != 0 &&
                        table.state().cache.holds({table.id(), segment.number, chunk.offset});
    if (!cached) return true;
  }
  return false;
}

Result<HeldGroup> fetch_group(Table& table, uint32_t group, const std::vector<uint32_t>& columns,
                              uint32_t flags, HeldDictionaries& dictionaries) {
  return Fetch(table, group, flags).run(columns, dictionaries);
}

}  // namespace ocm::table
