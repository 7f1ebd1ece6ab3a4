// An opened table: its segments, held, as they were when it was opened.
//
// Ownership: the handle and every stream and array that came from it share it; the last one lets the memory
// go. Threads:   any; everything but what is atomic is constant after open().
#pragma once

#include <oncilla/table.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "capi/handles.h"
#include "table/names.h"
#include "table/sessions.h"

namespace ocm::table {

/// A segment and where its parts are.
struct Segment {
  Allocation allocation;
  Catalogue catalogue;
  uint32_t number = 0;                // 0: the first
  ExtentId first_extent;              // whatever its name and number, it is this one
  uint64_t first_row = 0;             // in the table
  std::vector<uint64_t> part_starts;  // in the segment
  /// By part: unknown (0), not on this host (1), or its pointer.
  std::unique_ptr<std::atomic<uintptr_t>[]> part_pointers;

  size_t part_of(uint64_t offset) const;
  /// Bytes at `offset` (of a chunk) on this host, or null.
  const std::byte* local(uint64_t offset) const;
};

/// A row group: which one of which segment.
struct GroupPlace {
  uint32_t segment = 0;
  uint32_t group = 0;
  uint64_t first_row = 0;
};

class Table {
 public:
  /// Errors: those of ocm_table_open.
  static Result<std::shared_ptr<Table>> open(ocm_session* session, const std::string& name);

  const std::string& name() const { return name_; }
  SessionState& state() const { return *state_; }
  const std::shared_ptr<SessionState>& shared_state() const { return state_; }
  ocm_session* session() const { return session_; }
  const Field& schema() const { return segments_.front().catalogue.schema; }
  uint64_t id() const { return segments_.front().catalogue.table; }
  const std::vector<Segment>& segments() const { return segments_; }
  const std::vector<GroupPlace>& groups() const { return groups_; }
  const Segment& segment_of(const GroupPlace& place) const { return segments_[place.segment]; }
  const Group& group_of(const GroupPlace& place) const {
    OCM_DASSERT(place.segment < segments_.size() &&
                place.group < segments_[place.segment].catalogue.groups.size());
    return segments_[place.segment].catalogue.groups[place.group];
  }
  uint64_t rows() const { return rows_; }
  /// The same for two tables: they have the same rows.
  uint64_t version() const;
  /// Of the segment that has the fewest.
  uint32_t replicas() const;
  std::atomic<uint64_t>& bytes_moved() { return bytes_moved_; }

  /// Where a chunk is: the first extent of its part that is alive.
  Status locate(const Segment& segment, uint64_t offset, ocm_extent_info& info) const;
  /// Row groups follow each other through the segments; O(row groups).
  bool is_valid() const;
  /// "table orders, row group 3"
  std::string describe(uint32_t group) const {
    return "table " + name_ + ", row group " + std::to_string(group);
  }

 private:
  Status add_segment(HeldSegment held, uint32_t number);

  std::string name_;
  ocm_session* session_ = nullptr;
  std::shared_ptr<SessionState> state_;
  std::vector<Segment> segments_;
  std::vector<GroupPlace> groups_;
  uint64_t rows_ = 0;
  std::atomic<uint64_t> bytes_moved_{0};
};

/// What a handle stands for. Another thread may close it while one takes its table.
class TableObject {
 public:
  std::shared_ptr<Table> get() {
    const std::lock_guard lock(mutex_);
    return table_;
  }
  /// Gives what was there.
  std::shared_ptr<Table> set(std::shared_ptr<Table> table) {
    const std::lock_guard lock(mutex_);
    table_.swap(table);
    return table;
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<Table> table_;
};
using Tables = capi::HandleTable<TableObject, 4>;
extern Tables tables;

}  // namespace ocm::table
