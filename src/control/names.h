// The coordinator's registry of published allocations. Pure; soft: the homes hold the whole Allocation of
// each name that has extents there and send it again to a coordinator that started anew.
//
// Invariants
//   N1 a name leads to at most one allocation, and an allocation has at most one name. Where a home brings a name that
//      another allocation has got meanwhile, its own is known by name_in_conflict(): it is neither hidden nor kept for ever.
//   N2 a removed allocation's id stays in a bounded list, so that a home that was away does not bring it
//      back. Where a home has not heard of it, also that of a replica that was given up, other nodes have the id, too, and
//      show it to a coordinator that started anew.
//   N3 capabilities leave only through attach(), and READ gets the derived one.
//   N4 while X is published, who publishes `X~...` is X's owner or root, and X's owner owns it: what is
//      appended to a table is its owner's. What homes report was published under this rule, and is taken as
//      it is, for X may not be known yet, or have come after `X~...`.
//   N5 one uid has at most half of the names; root and the privileged user may have all. What homes report was given its
//      name under this rule, and is taken also where others have filled its place.
//   N6 a replica is of one name.
//   N7 what a program published without an answer it may publish again; if it frees it or ends before it had one,
//      there is no such name once the coordinator answers its daemon.
//   N8 a replica that a home reports, and that the newest record of the name has given up or replaced, is freed there:
//      voters that gave it up may have forgotten it, and its home was away.
//   N9 each home of a part that was made again tells the coordinator of it, so that one of them is enough: the one that led
//      may end before it is heard. What it tells of an allocation whose publish was undone gives it no name.
//   N10 a name that voters noted (notes.h) and that no home has reported yet is expected: nobody else gets it, it can be
//      removed, and what its home reports when it is back is known by it. So it is again when its program publishes it once
//      more and that is undone: the voters have the note still. Of two notes of one name the newer counts.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/ids.h"
#include "base/text.h"
#include "control/allocation.h"
#include "control/notes.h"
#include "control/recent.h"

namespace ocm::control {

inline constexpr size_t kNamesListedMax = 8192;

/// What an allocation is named whose name another has got meanwhile: X.conflict-1f2e3d4c, and `more`.
std::string name_in_conflict(const Allocation& allocation, const std::string& more = {});
/// True if `uid` may do `access` to an allocation of `owner` with `mode`. Root may everything.
bool may_access(uint32_t mode, uint32_t owner, uint32_t uid, Access access);

/// Of names, in their order.
struct NameList {
  struct Entry {
    std::string name;
    uint64_t bytes_total = 0;
    Kind kind = kDefaultKind;
    bool durable = false, coherent = false;
    Layout layout = Layout::kSingle;
    uint64_t chunk_bytes = 0;
    uint32_t owner_uid = 0, mode = 0;
    uint32_t extents = 0;
    uint32_t lost_extents = 0;  // replicas that were given up, or whose node is gone
    bool lost = false;          // bytes are
  };
  std::vector<Entry> entries;
  bool more = false;  // follow the last one
};

class Names {
 public:
  /// `privileged`: besides root the one user who may have all names.
  explicit Names(size_t names_max, uint32_t privileged = 0)
      : names_max_(names_max), privileged_(privileged) {}

  /// Takes the allocation under its `name`, whose owner becomes that of N4. If it has that name, it gets the mode.
  /// Errors: kInvalidArgument, kExists (also where voters noted it by another name), kLimit, kPermission, kRevoked (it was
  /// removed).
  Status publish(Allocation allocation);
  /// With the capabilities that `access` allows. Errors: kNotFound, kPermission.
  Result<Allocation> attach(const std::string& name, Access access, uint32_t uid) const;
  /// What `uid` may read, without extents, in the order of the names: the first kNamesListedMax after `after`. `gone`
  /// says which extents are lost; `replica`: it is one of an allocation with replicas.
  using Gone = std::function<bool(const PlacedExtent&, bool replica)>;
  NameList list(const std::string& prefix, const std::string& after, uint32_t uid, const Gone& gone) const;
  /// The id of the allocation that `uid` may remove from the name. Errors: kNotFound, kPermission.
  Result<AllocationId> removable(const std::string& name, uint32_t uid) const;
  /// Gives the whole allocation, so that its extents can be freed. Errors: kNotFound (also where the name is another
  /// allocation's), kPermission.
  Result<Allocation> remove(const std::string& name, const AllocationId& allocation, uint32_t uid);
  /// Forgets a name whose publishing failed halfway; no trace stays. Gives the allocation as it is now; nothing if it
  /// does not have the name any more: it was removed meanwhile, and the name may be another's. `noted`: what was expected
  /// of it before it was published, and is again (N10).
  std::optional<Allocation> forget(const std::string& name, const AllocationId& allocation,
                                   const std::optional<NameNote>& noted = {});

  /// It was removed, or shall be without a name. Gives the allocation if it has one: to be freed.
  std::optional<Allocation> remember_removed(const AllocationId& allocation);
  bool was_removed(const AllocationId& allocation) const { return removed_.contains(allocation); }
  /// What is remembered, the oldest first.
  const std::deque<AllocationId>& removed() const { return removed_.in_order(); }

  enum class Merged { kKnown, kAdded, kRemoved, kRenamed, kRefused };
  /// A home reports what it holds. kRemoved: the home shall free it. kRenamed: the name is another's, so that it is known
  /// as name_in_conflict() from now on, with `random` where that is another's, too. kRefused: it is no allocation.
  /// `former` gets the replicas that one record still has, though another one knows that they were given up.
  Merged merge(const Allocation& allocation, uint64_t random = 0,
               std::vector<PlacedExtent>* former = nullptr);

  /// N10: a voter noted it. Gives what is to be freed: the note says that the allocation of a name was removed.
  std::optional<Allocation> expect(const NameNote& note);
  /// Null: none is expected by that name.
  const NameNote* expected(const std::string& name) const;
  bool expects(const AllocationId& allocation) const { return expected_ids_.contains(allocation); }
  std::optional<NameNote> noted(const AllocationId& allocation) const;

  /// A part goes on elsewhere. True if it was one of a published allocation.
  bool relocate(const PartMoved& moved);
  /// A replica was given up. True if it was one of a published allocation, and not noted already.
  bool lose_extent(const ExtentId& id);

  const Allocation* find(const std::string& name) const;
  /// Null if it has no name.
  const Allocation* find_id(const AllocationId& allocation) const;
  /// What misses something. Cost: a look at every extent of every name.
  struct Census {
    std::set<std::string> degraded;  // names that miss a replica, and no bytes
    std::set<std::string> lost;      // names that miss bytes
  };
  Census census(const Gone& gone) const;
  /// Grows with every change of what census() looks at, apart from `gone`.
  uint64_t version() const { return version_; }
  size_t size() const { return names_.size(); }
  /// N1, N6, and what is counted; O(extents).
  bool is_valid() const;

 private:
  const size_t names_max_;
  uint64_t version_ = 0;
  const uint32_t privileged_;
  std::map<std::string, Allocation> names_;
  std::unordered_map<AllocationId, std::string> ids_;
  std::map<ExtentId, std::string> replicas_;     // extents of parts with replicas -> name
  std::unordered_map<uint32_t, size_t> by_uid_;  // how many names
  Recent<AllocationId> removed_{kRemovedMax};    // N2
  std::map<std::string, NameNote> expected_;     // N10
  std::unordered_map<AllocationId, std::string> expected_ids_;

  Status take(Allocation allocation, bool reported = false);
  static NameList::Entry entry_of(const Allocation& found, const Gone& gone);
  void index(const Allocation& allocation, bool add);
  bool has_replicas_of_others(const Allocation& allocation) const;  // N6
  /// The record of a name by a newer one of its own. False: N6 forbids it.
  bool replace(Allocation& mine, Allocation newer);
  Allocation take_out(std::map<std::string, Allocation>::iterator it);
  void drop_expected(const AllocationId& allocation);
};

}  // namespace ocm::control
