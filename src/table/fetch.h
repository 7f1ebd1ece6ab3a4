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

/// `columns` of `group` by `flags` (OCM_SCAN_*).
/// Errors: kPeerLost, kLost and others of ocm_getv, naming the group and its node; kProtocol (malformed
/// bytes).
Result<HeldGroup> fetch_group(Table& table, uint32_t group, const std::vector<uint32_t>& columns,
                              uint32_t flags, HeldDictionaries& dictionaries);

}  // namespace ocm::table
