// A row group's wanted columns in this process: pointers into extents of this host, chunks of the cache, or
// memory that one vectored get filled.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "table/tables.h"

namespace ocm::table {

/// A chunk's bytes and what keeps them. A chunk of 0 bytes has no data.
struct HeldChunk {
  const std::byte* data = nullptr;
  std::shared_ptr<std::byte> memory;  // null: in an extent, which the table holds
};

/// The dictionaries that a scan has already, by segment and number.
using HeldDictionaries = std::map<std::pair<uint32_t, uint32_t>, HeldChunk>;

struct HeldGroup {
  uint32_t group = 0;
  std::vector<HeldChunk> columns;  // as wanted
  std::map<uint32_t, HeldChunk> dictionaries;
};

/// True if some of the group is neither on this host nor cached.
bool needs_moving(const Table& table, uint32_t group, const std::vector<uint32_t>& columns, uint32_t flags);

/// `columns` of `group` by `flags` (OCM_SCAN_*), on their way.
class Fetch {
 public:
  /// Starts to move what is elsewhere, but dictionaries that are known; those on their way are known from
  /// then on, so what was started first is finished first. What `table` refers to outlives it. Within a call that entered
  /// the session.
  Fetch(Table& table, uint32_t group, const std::vector<uint32_t>& columns, uint32_t flags,
        HeldDictionaries& known);
  /// Takes back what is under way.
  ~Fetch();
  Fetch(const Fetch&) = delete;
  Fetch& operator=(const Fetch&) = delete;

  /// Waits, once.
  /// Errors: kPeerLost, kLost and others of ocm_getv, naming the group and its node; kProtocol (malformed
  /// bytes).
  Result<HeldGroup> finish();

 private:
  /// A chunk that is wanted.
  struct Wish {
    const Field* field;
    const Chunk* chunk;
    HeldChunk* to;
  };

  CacheKey key_of(const Chunk& chunk) const { return {segment_.first_extent, chunk.offset}; }
  void wish_dictionaries(const Field& field, const Chunk& chunk, const HeldDictionaries& known);
  bool find_here(const Wish& wish);
  void start(HeldDictionaries& known);
  Status wait();
  Status fill();
  /// Which node it was, and what to do.
  Status explain(const Status& status) const;

  Table& table_;
  const GroupPlace& place_;
  const Segment& segment_;
  const uint32_t flags_;
  HeldGroup held_;
  std::vector<Wish> wishes_;  // into held_
  std::vector<const Wish*> moved_;
  uint64_t bytes_moved_ = 0;
  Status started_;
  ocm_op* op_ = nullptr;
};

}  // namespace ocm::table
