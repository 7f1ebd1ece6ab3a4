// Making one allocation of several: their extents change hands, and nothing is copied.
#include <algorithm>

#include "base/limits.h"
#include "client/allocation.h"
#include "client/session.h"
#include "os/interrupt.h"

namespace ocm::client {
namespace {

/// What the daemon cannot see, and what is cheaper to refuse here.
Status check_parts(const Session& session, std::span<Allocation* const> parts) {
  size_t extents = 0;
  for (const Allocation* part : parts) {
    if (part->session() != &session) return Status(Code::kInvalidArgument, "a part is of another session");
    if (part->slab()) {
      return Status(Code::kUnsupported, "a part is a piece of a slab: allocate it DEDICATED");
    }
    if (part->published()) return Status(Code::kInvalidArgument, "a part is published");
    const Layout layout = part->shape().layout;
    if (layout != Layout::kSingle && layout != Layout::kReplicated)
      return Status(Code::kUnsupported, "parts are single or replicated allocations");
    if (part->replicated() != parts.front()->replicated())
      return Status(Code::kInvalidArgument, "either all parts are replicated or none is");
    extents += part->shape().extents;
  }
  if (extents > kSequenceExtentsMax) {
    return Status(Code::kTooLarge, "a sequence has at most " + std::to_string(kSequenceExtentsMax) +
                                       " extents; " + std::to_string(extents) + " are given");
  }
  std::vector<const Allocation*> sorted(parts.begin(), parts.end());
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return Status(Code::kInvalidArgument, "a part is given twice");
  return {};
}

}  // namespace

Status Allocation::join(Session& session, std::span<Allocation* const> parts) {
  OCM_ASSERT(session_ == nullptr);
  if (parts.empty()) return Status(Code::kInvalidArgument, "there is nothing to join");
  OCM_TRY(check_parts(session, parts));
  // All that may fail comes before the daemon's answer: from then on the parts are no more.
  auto lease = std::make_unique<Lease>();
  lease->sequence.reserve(parts.size());
  lease->parts.reserve(parts.size());
  lease->replicated = parts.front()->replicated();
  lease->session = parts.front()->lease_->session;
  bool checksums = false;
  size_t extents = 0;
  for (Allocation* part : parts) {
    if (!session.under_way().drain(part)) return os::interrupted();
    lease->sequence.add(part->bytes(), part->shape().extents);
    lease->parts.push_back(part->id());
    checksums = checksums || part->checksum();
    extents += part->lease_->extents.size();
  }
  lease->extents.reserve(extents);
  std::vector<Binding::Place> places;
  places.reserve(lease->sequence.extents());
  for (Allocation* part : parts)
    places.insert(places.end(), part->binding()->places().begin(), part->binding()->places().end());
  lease->bindings.push_back(std::make_unique<const Binding>(std::move(places)));
  lease->shape = {lease->sequence.bytes(), 0, lease->sequence.extents(), Layout::kSequence};
  OCM_TRY_ASSIGN(lease->id, request_join(session, lease->parts));
  int error = 0;
  for (Allocation* part : parts) {
    session.under_way().detach(part);
    if (error == 0) error = part->deferred_error_.load(std::memory_order_relaxed);
    for (std::unique_ptr<Extent>& extent : part->lease_->extents) lease->extents.push_back(std::move(extent));
    part->clear();
  }
  take_lease(session, std::move(lease), checksums ? kChecksum : 0);
  deferred_error_.store(error, std::memory_order_relaxed);
  return {};
}

}  // namespace ocm::client
