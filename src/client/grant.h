// What the daemon granted: the extents of one allocation, and the three requests around it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "client/binding.h"
#include "client/layout.h"

namespace ocm::wire {
class Allocation;
class Envelope;
class ExtentDescriptor;
}  // namespace ocm::wire

namespace ocm::client {

struct AllocationOptions {
  Kind kind = kDefaultKind;
  Layout layout = Layout::kSingle;
  uint32_t extents = 0;
  uint64_t chunk_bytes = 0;
  std::vector<std::string> nodes;
  Fabric fabric = Fabric::kAny;
  uint32_t flags = 0;  // OCM_ALLOCATION_*
};
/// The same numbers as OCM_ALLOCATION_*.
inline constexpr uint32_t kDedicated = 1u << 0, kZero = 1u << 1, kPopulate = 1u << 2, kHugepages = 1u << 3,
                          kLocal = 1u << 4, kRemote = 1u << 5, kChecksum = 1u << 6, kDurable = 1u << 7,
                          kCoherent = 1u << 8;
inline constexpr uint32_t kAllocationFlags = (1u << 9) - 1;

/// Under which an allocation is published, and who may open it.
struct PublishedName {
  std::string name;
  uint32_t owner_uid = 0;
  uint32_t mode = 0;
};

struct Grant {
  AllocationId id;
  SessionId session;  // at whose daemon it counts: another one begins where that session was lost
  Shape shape;
  Kind kind = kDefaultKind;
  bool durable = false, coherent = false;
  Access access = Access::kReadWrite;
  bool replicated = false;  // parts have replicas: a put must reach all of them, a get reads one
  Sequence sequence;        // of layout sequence only
  std::vector<std::unique_ptr<Extent>> extents;          // of all bindings
  std::vector<std::unique_ptr<const Binding>> bindings;  // the last one is how it is now
  std::map<ExtentId, std::pair<Code, uint64_t>>
      not_resolved;      // of replicas: an answer without news, and when it came
  std::mutex rebinding;  // guards these three once an allocation has the grant
  /// Of what was joined: the homes know the extents by these when a daemon has forgotten the sequence.
  std::vector<AllocationId> parts;
  std::string hold_id;             // empty: the memory goes with its name
  bool may_be_named = false;       // it was published, without an answer
  std::atomic<bool> moved{false};  // an extent is another than it was at first
  std::atomic<bool> over{false};   // the daemon knows that a part of one extent was freed
  std::atomic<uint64_t> resolves_from_ns{0};

  /// Null while it is not published.
  const PublishedName* published() const { return published_.load(std::memory_order_acquire); }
  /// It is, and stays so.
  void set_published(PublishedName name) {
    auto mine = std::make_unique<const PublishedName>(std::move(name));
    const PublishedName* none = nullptr;
    if (published_.compare_exchange_strong(none, mine.get(), std::memory_order_acq_rel)) (void)mine.release();
  }
  Grant() = default;
  Grant(const Grant&) = delete;
  Grant& operator=(const Grant&) = delete;
  ~Grant() { delete published_.load(std::memory_order_relaxed); }

  /// One past the last extent of the part that begins with extent `first`: see control/parts.h.
  uint32_t part_end(uint32_t first) const {
    if (shape.layout == Layout::kSequence) return sequence.part_end(first);
    return shape.layout == Layout::kReplicated ? shape.extents : first + 1;
  }

 private:
  std::atomic<const PublishedName*> published_{nullptr};
};

/// Errors: those of ocm_allocation_create.
Result<std::unique_ptr<Grant>> request_grant(Session& session, uint64_t bytes,
                                             const AllocationOptions& options);
/// `hold`: the memory stays until the grant is returned. Errors: kNotFound, kPermission, kPeerLost, kLimit,
/// kNoCoordinator.
Result<std::unique_ptr<Grant>> attach_grant(Session& session, const std::string& name, Access access,
                                            bool hold);
/// Asks the daemon to make one allocation of `parts`; its id. Errors: those of ocm_allocation_join.
Result<AllocationId> request_join(Session& session, const std::vector<AllocationId>& parts);
/// What is left of a grant whose extents are destroyed: enough to give it back.
struct ReturnedGrant {
  AllocationId id;
  SessionId session;
  std::string hold_id;
  bool may_be_named = false;
  std::vector<AllocationId> parts;  // of an unpublished one

  ReturnedGrant(const AllocationId& granted, const SessionId& of) : id(granted), session(of) {}
  explicit ReturnedGrant(Grant& grant)
      : id(grant.id),
        session(grant.session),
        hold_id(std::move(grant.hold_id)),
        may_be_named(grant.may_be_named) {
    if (grant.published() == nullptr) parts = std::move(grant.parts);
  }
};
/// Gives it back. A grant whose daemon is gone is gone already: kOk.
/// The caller has destroyed its extents before: the home gets pages back only when nobody maps them.
Status return_grant(Session& session, const ReturnedGrant& grant);

/// Asks for the allocation as it is now; `extent` is one of a part that may go on elsewhere. `silent`: it did not answer.
wire::Envelope resolve_request(const AllocationId& id, ExtentId extent, bool silent);
/// True if the daemon's answer to it says that the part is gone, or that it cannot be followed.
bool ends_part(Code known);
/// What an operation ends with whose extents answered `failure`; `known`: what the daemon said of their part.
/// kRevoked is final, so it is told only where that ends it, and always there. A frozen replica answers it, too.
Status after_resolve(const Status& failure, Code known);
/// `reply` is the allocation as the daemon knows it now. True if an extent is another, or was lost, since the
/// last binding. Holds rebinding. Errors: kProtocol, kUnsupported (no fabric to a new extent); nothing
/// changed then.
Result<bool> rebind_grant(Session& session, const std::shared_ptr<Daemon>& daemon, Reply reply, Grant& grant);

}  // namespace ocm::client
