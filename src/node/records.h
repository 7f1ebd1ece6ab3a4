// What a session holds: its records of allocations, also by the extents that they are made of.
//
// Invariants
//   B1 each extent of a record that is whole leads to it. So a part that goes on elsewhere, or loses a replica, costs what
//      it changes, however much else the session holds.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "control/allocation.h"
#include "control/allowance.h"
#include "control/ownership.h"

namespace ocm::node {

struct HeldAllocation {
  control::Allocation allocation;
  bool owned = true;         // freed with the session; false once published, or attached
  uint64_t quota_bytes = 0;  // charged to the uid here
  uint32_t handles = 1;      // of the program: it may attach what it has
  /// A receipt says that it is owned, and so much charged; no home has said so yet (P4 of sessions.h).
  std::optional<uint64_t> claimed_quota_bytes;
  bool publishing = false;            // a request to publish it is under way
  bool named = false;                 // it was published here, as allocation.name
  bool may_be_named = false;          // and was not answered, or one before was not (N7 of control/names.h)
  std::vector<AllocationId> parts{};  // what it was joined of: homes know it by those
  std::shared_ptr<control::Charge> record{};  // for what was attached: it is in nobody's pool here

  /// False: only homes told of it, extent by extent, after this daemon restarted.
  bool is_whole() const { return allocation.bytes_total != 0; }
  /// What is claimed or named is not owned (P1, P4 of sessions.h).
  bool is_valid() const { return !owned || (!claimed_quota_bytes && !named); }
};

class Records {
  using Map = std::unordered_map<AllocationId, HeldAllocation>;

 public:
  using iterator = Map::iterator;
  using const_iterator = Map::const_iterator;

  iterator begin() { return map_.begin(); }
  iterator end() { return map_.end(); }
  const_iterator begin() const { return map_.begin(); }
  const_iterator end() const { return map_.end(); }
  iterator find(const AllocationId& id) { return map_.find(id); }
  const_iterator find(const AllocationId& id) const { return map_.find(id); }
  const HeldAllocation& at(const AllocationId& id) const { return map_.at(id); }
  bool contains(const AllocationId& id) const { return map_.contains(id); }
  size_t size() const { return map_.size(); }
  bool empty() const { return map_.empty(); }

  /// In place of what is there.
  void put(const AllocationId& id, HeldAllocation held);
  /// The record that homes tell of extent by extent: new, or not whole.
  HeldAllocation& reported(const AllocationId& id) { return map_[id]; }
  HeldAllocation take(iterator it);
  iterator erase(iterator it);
  void erase(const AllocationId& id);
  void clear();

  /// As control::take_grant().
  bool take_grant(iterator it, const control::Allocation& granted);
  /// As control::relocate(): the records that the part is of.
  std::vector<iterator> relocate(const control::PartMoved& part);
  /// As control::mark_lost(), in all records.
  void mark_lost(const ExtentId& replica);

  /// Of the records that are whole: those that have the extent.
  std::vector<iterator> with(const ExtentId& extent);
  /// Told of each extent of a record that is whole, as it comes and goes, of each record with a part that goes on in another
  /// extent, and of each that ends.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void comes(const control::PlacedExtent& extent) = 0;
    virtual void goes(const ExtentId& extent) = 0;
    virtual void moved(const AllocationId& id, const ExtentId& to) = 0;
    virtual void ended(const AllocationId& id) = 0;
  };
  /// From now on, for as long as this lives.
  void observe(std::shared_ptr<Observer> observer) { observer_ = std::move(observer); }

  /// B1, and each record; O(extents).
  bool is_valid() const;

 private:
  void list(const_iterator it);
  void unlist(const_iterator it);

  using Index = std::unordered_multimap<ExtentId, AllocationId, control::ExtentHash>;
  /// The end: nothing leads from it to that record.
  Index::const_iterator listed(const ExtentId& extent, const AllocationId& id) const;

  Map map_;
  Index by_extent_;
  std::shared_ptr<Observer> observer_;  // null: none
};

}  // namespace ocm::node
