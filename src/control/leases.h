// Who owns the extents of a home: a session, through its daemon, or a name. Pure: time is given.
//
// Invariants
//   L1 an extent is owned by one session or by one name, never both.
//   L2 a session's orphan timer runs exactly while the daemon incarnation that vouched for it is known to be
//      dead or replaced; resume() hands the session to another incarnation and stops the timer.
//   L3 every operation is O(what it names); only owner_node_*() and expired() walk sessions, never extents.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/ids.h"

namespace ocm::control {

using Incarnation = Bits128<struct IncarnationTag>;

struct ExtentHash {
  size_t operator()(const ExtentId& id) const noexcept { return std::hash<GlobalAddress>{}(id.address); }
};

/// What a home remembers of one extent's owner.
struct Lease {
  AllocationId allocation;
  std::optional<SessionId> session;  // none: owned by the name of `allocation`
  uint32_t uid = 0;
  uint64_t bytes = 0;
};

class Leases {
 public:
  void add(ExtentId id, const SessionId& session, const std::string& node, const Incarnation& incarnation,
           const AllocationId& allocation, uint32_t uid, uint64_t bytes) {
    leases_[id] = Lease{allocation, session, uid, bytes};
    Owner& owner = owners_[session];
    owner.node = node;
    owner.incarnation = incarnation;
    owner.extents.insert(id);
    uid_bytes_[uid] += bytes;
  }

  const Lease* find(ExtentId id) const {
    const auto it = leases_.find(id);
    return it == leases_.end() ? nullptr : &it->second;
  }

  bool remove(ExtentId id) {
    const auto it = leases_.find(id);
    if (it == leases_.end()) return false;
    if (it->second.session) disown(*it->second.session, id);
    const auto uid = uid_bytes_.find(it->second.uid);
    uid->second -= it->second.bytes;
    if (uid->second == 0) uid_bytes_.erase(uid);
    leases_.erase(it);
    return true;
  }

  /// From the session to the name of its allocation.
  bool to_name(ExtentId id) {
    const auto it = leases_.find(id);
    if (it == leases_.end()) return false;
    if (it->second.session) disown(*it->second.session, id);
    it->second.session.reset();
    return true;
  }
  /// Back to the session, when publishing failed halfway.
  bool to_session(ExtentId id, const SessionId& session, const std::string& node,
                  const Incarnation& incarnation) {
    const auto it = leases_.find(id);
    if (it == leases_.end() || it->second.session) return false;
    it->second.session = session;
    Owner& owner = owners_[session];
    owner.node = node;
    owner.incarnation = incarnation;
    owner.extents.insert(id);
    return true;
  }

  std::vector<ExtentId> of_session(const SessionId& session) const {
    const auto it = owners_.find(session);
    if (it == owners_.end()) return {};
    return {it->second.extents.begin(), it->second.extents.end()};
  }

  /// The session goes on under another daemon incarnation; false if it holds nothing here.
  bool resume(const SessionId& session, const std::string& node, const Incarnation& incarnation) {
    const auto it = owners_.find(session);
    if (it == owners_.end() || it->second.node != node) return false;
    it->second.incarnation = incarnation;
    it->second.orphan_until_ns = kNoTimer;
    return true;
  }

  /// News of a daemon: `alive` is its living incarnation, none if it is dead. Starts and stops timers (L2).
  void owner_node(const std::string& node, const std::optional<Incarnation>& alive, uint64_t now_ns,
                  uint64_t grace_ns) {
    for (auto& [session, owner] : owners_) {
      if (owner.node != node) continue;
      if (alive && *alive == owner.incarnation) {
        owner.orphan_until_ns = kNoTimer;
      } else if (owner.orphan_until_ns == kNoTimer) {
        owner.orphan_until_ns = now_ns + grace_ns;
      }
    }
  }

  std::vector<SessionId> expired(uint64_t now_ns) const {
    std::vector<SessionId> out;
    for (const auto& [session, owner] : owners_) {
      if (owner.orphan_until_ns <= now_ns) out.push_back(session);
    }
    return out;
  }

  uint64_t uid_bytes(uint32_t uid) const {
    const auto it = uid_bytes_.find(uid);
    return it == uid_bytes_.end() ? 0 : it->second;
  }
  size_t extents() const { return leases_.size(); }
  size_t sessions() const { return owners_.size(); }

  bool is_valid() const {
    size_t owned = 0;
    for (const auto& [session, owner] : owners_) {
      if (owner.extents.empty()) return false;
      for (const ExtentId& id : owner.extents) {
        const auto it = leases_.find(id);
        if (it == leases_.end() || it->second.session != session) return false;
      }
      owned += owner.extents.size();
    }
    size_t with_session = 0;
    for (const auto& [id, lease] : leases_) with_session += lease.session ? 1 : 0;
    return owned == with_session;
  }

 private:
  static constexpr uint64_t kNoTimer = ~uint64_t{0};
  struct Owner {
    std::string node;
    Incarnation incarnation;
    std::unordered_set<ExtentId, ExtentHash> extents;
    uint64_t orphan_until_ns = kNoTimer;
  };

  void disown(const SessionId& session, ExtentId id) {
    const auto it = owners_.find(session);
    if (it == owners_.end()) return;
    it->second.extents.erase(id);
    if (it->second.extents.empty()) owners_.erase(it);
  }

  std::unordered_map<ExtentId, Lease, ExtentHash> leases_;
  std::unordered_map<SessionId, Owner> owners_;
  std::unordered_map<uint32_t, uint64_t> uid_bytes_;
};

}  // namespace ocm::control
