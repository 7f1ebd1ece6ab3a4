// The extents that this home serves over its fabrics: opened by id, mapped at the first remote attach if they can be.
//
// Invariants
//   D1 an extent is served by at most one ServedExtent, shared by all connections.
//   D2 the extent leaves the table's generation first, and revoke() marks it then: an open() in between finds that it
//      is gone. A free is answered after both, so no op passes after its answer.
//   D3 it is kept until revoke(), so that connections hold it only while an operation uses it: a reader that sits
//      idle does not keep the pages of a removed extent.
//   D4 what is served and is none of the table's has an id that the table gives nobody.
// Threads: any.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "fabric/served.h"
#include "memory/extent_table.h"

namespace ocm::node {

class Directory final : public fabric::ExtentDirectory {
 public:
  /// `token` derives the session keys; `lease` guards replicas. Both outlive this.
  Directory(memory::ExtentTable& table, std::span<const std::byte> token, const std::atomic<uint64_t>& lease)
      : table_(table), token_(token), lease_(lease) {}

  Result<std::shared_ptr<fabric::ServedExtent>> open(ExtentId id) override;
  /// Bytes that are none of the table's: of another node's extent, or of none, at offset 0 (D4). Until revoke(). False: an
  /// earlier extent of that address is still served.
  bool serve(ExtentId id, uint64_t bytes, const Capability& capability, std::shared_ptr<Staged> staged);
  std::array<std::byte, 32> session_key(const SessionId& session) override;

  /// From here on the extent answers only while the node's lease runs. Before it is given out.
  void require_lease(ExtentId id);
  bool requires_lease(ExtentId id);
  /// What answers only under the lease; what is suspended, too.
  std::vector<ExtentId> replicas();
  /// The extent is freed: ops under way may end, no new one passes. Once what is given is expired, none is under way.
  std::weak_ptr<fabric::ServedExtent> revoke(ExtentId id);
  /// The same while the table has it suspended: it is still a replica, which its node may not take for nothing.
  std::weak_ptr<fabric::ServedExtent> suspend(ExtentId id);
  /// Also called by revoke(), for a fabric that keeps registrations of its own. Set before serving.
  void on_revoke(std::function<void(ExtentId)> hook) { on_revoke_ = std::move(hook); }
  /// D1, and that nothing is kept that was revoked (D2); O(extents that are served).
  bool is_valid() const;

 private:
  struct Served;
  bool is_of_table(ExtentId id) const;
  std::weak_ptr<fabric::ServedExtent> end(ExtentId id, bool is_freed);

  memory::ExtentTable& table_;
  const std::span<const std::byte> token_;
  const std::atomic<uint64_t>& lease_;
  std::function<void(ExtentId)> on_revoke_;
  mutable std::mutex mutex_;
  std::unordered_map<GlobalAddress, std::shared_ptr<Served>> served_;  // D3
  std::unordered_map<GlobalAddress, uint32_t> leased_;                 // replicas, with their generation
};

}  // namespace ocm::node
