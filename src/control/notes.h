// What voters note of names: that one was given to an allocation, with its homes, or taken from it. A publish and a removal
// are answered once a majority of the voters has noted them, so every later coordinator knows them, whoever is away then
// (E4). Descriptors are the homes': a note says only whose a name is and where to ask. Pure.
//
//   coordinator   notes of one round -----> a majority of the council's voters
//   council n+1   has the notes of a majority of council n (S2 of succession.h), with its votes and losses
//   next one      expects each noted name from its homes (N10 of names.h)
//
// Invariants
//   K1 of an allocation the note of the highest sequence counts, and a removal is final.
//   K2 a voter takes notes of its council's coordinator alone, and none once it is sealed: a majority that noted something
//      and a majority that is sealed share a voter.
//   K3 there are kNotedMax names at most, of kNotedBytesMax together, and kRemovedMax removals: of these the oldest goes. A
//      name that has no room is answered without a note. Half of both at most are one user's, and three quarters all users'
//      but root; what was noted somewhere is noted all the same.
//   K4 a name has one note: the newer ends that of another allocation, which was renamed or whose publish was undone.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "control/recent.h"

namespace ocm::control {

inline constexpr size_t kNotedMax = 65536, kNotedBytesMax = size_t{8} << 20;
inline constexpr size_t kRemovedMax = 65536;

struct NameNote {
  AllocationId id;
  std::string name;  // empty: it was removed
  uint32_t owner_uid = 0, mode = 0;
  std::vector<std::string> homes;  // nodes
  uint64_t sequence = 0;           // of the coordinators' notes, one after the other
  bool operator==(const NameNote&) const = default;

  bool is_removal() const { return name.empty(); }
  size_t bytes() const {
    size_t out = 64 + name.size();
    for (const std::string& home : homes) out += 8 + home.size();
    return out;
  }
};

class NameNotes {
 public:
  /// False: there is no room (K3).
  bool take(NameNote note);
  /// The same for a new one: of one user, or all of them, there may be enough.
  bool take_new(NameNote note);
  /// What another voter noted.
  void merge(const NameNotes& other);
  void clear();

  const std::map<AllocationId, NameNote>& names() const { return names_; }
  /// The oldest first.
  const std::deque<AllocationId>& removed() const { return removed_.in_order(); }
  bool was_removed(const AllocationId& id) const { return removed_.contains(id); }
  bool empty() const { return names_.empty() && removed().empty(); }
  /// The highest that it saw.
  uint64_t sequence() const { return sequence_; }
  /// Grows with each change.
  uint64_t version() const { return changed_before_ + changed_.size(); }
  /// What was taken since; nothing: too much.
  std::optional<std::vector<NameNote>> since(uint64_t version) const;
  /// K1, K3; O(notes).
  bool is_valid() const;

 private:
  void note_change(const AllocationId& id);
  void drop(std::map<AllocationId, NameNote>::iterator it);

  struct Use {
    size_t names = 0, bytes = 0;
    bool operator==(const Use&) const = default;
  };
  Use of_users() const;

  std::map<AllocationId, NameNote> names_;
  std::map<std::string, AllocationId> by_name_;
  size_t bytes_ = 0;             // of names_
  std::map<uint32_t, Use> use_;  // by user
  Recent<AllocationId> removed_{kRemovedMax};
  uint64_t sequence_ = 0;
  std::deque<AllocationId> changed_;  // the newest last
  uint64_t changed_before_ = 0;       // of them that are forgotten
};

}  // namespace ocm::control
