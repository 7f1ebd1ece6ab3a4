// Making one allocation of several: their extents change hands, and nothing is copied.
#include <algorithm>
#include <iterator>

#include "base/limits.h"
#include "client/allocation.h"
#include "client/session.h"
#include "os/interrupt.h"

namespace ocm::client {
namespace {

/// What the daemon cannot see, and what is cheaper to refuse here.
Status check_parts(const Session& session, std::span<Allocation* const> parts) {
  size_t extents = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Allocation* part = parts[i];
    const std::string which = "part " + std::to_string(i);  // counted from 0, as in the caller's array
    if (part->session() != &session)
      return Status(Code::kInvalidArgument, which + " is of another session: allocate all parts in one");
    if (part->slab())
      return Status(Code::kUnsupported, which + " is a piece of a slab: allocate it with DEDICATED");
    if (part->published()) {
      return Status(Code::kInvalidArgument,
                    which + " is published as " + part->name()->name + ": join the parts before publishing");
    }
    const Layout layout = part->shape().layout;
    if (layout != Layout::kSingle && layout != Layout::kReplicated) {
      return Status(Code::kUnsupported, which + " has layout " + layout_name(layout) +
                                            ": join allocations of layout single or replicated");
    }
    if (part->replicated() != parts.front()->replicated()) {
      return Status(Code::kInvalidArgument, which + (part->replicated() ? " is" : " is not") +
                                                " replicated, unlike part 0: replicate all parts or none");
    }
    extents += part->shape().extents;
  }
  if (extents > kSequenceExtentsMax) {
    return Status(Code::kTooLarge, "the parts have " + std::to_string(extents) +
                                       " extents; a sequence can have " +
                                       std::to_string(kSequenceExtentsMax));
  }
  std::vector<std::pair<const Allocation*, size_t>> sorted;
  for (size_t i = 0; i < parts.size(); ++i) sorted.emplace_back(parts[i], i);
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end(),
                                        [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != sorted.end()) {
    return Status(Code::kInvalidArgument, "parts " + std::to_string(twice->second) + " and " +
                                              std::to_string(std::next(twice)->second) +
                                              " are the same allocation: give each once");
  }
  return {};
}

}  // namespace

Status Allocation::join(Session& session, std::span<Allocation* const> parts) {
  OCM_ASSERT(session_ == nullptr);
  if (parts.empty())
    return Status(Code::kInvalidArgument, "no parts are given: join at least one allocation");
  OCM_TRY(check_parts(session, parts));
  // All that may fail comes before the daemon's answer: from then on the parts are no more.
  auto grant = std::make_unique<Grant>();
  grant->sequence.reserve(parts.size());
  grant->parts.reserve(parts.size());
  grant->replicated = parts.front()->replicated();
  grant->kind = parts.front()->kind();
  grant->durable = grant->coherent = true;
  grant->session = parts.front()->grant_->session;
  bool checksums = false;
  size_t extents = 0;
  for (Allocation* part : parts) {
    if (!session.under_way().drain(part)) return os::interrupted();
    grant->sequence.add(part->bytes(), part->shape().extents);
    grant->parts.push_back(part->id());
    checksums = checksums || part->checksum();
    grant->durable = grant->durable && part->durable();
    grant->coherent = grant->coherent && part->coherent();
    extents += part->grant_->extents.size();
  }
  grant->extents.reserve(extents);
  std::vector<Binding::Place> places;
  places.reserve(grant->sequence.extents());
  for (Allocation* part : parts)
    places.insert(places.end(), part->binding()->places().begin(), part->binding()->places().end());
  grant->bindings.push_back(std::make_unique<const Binding>(std::move(places)));
  grant->shape = {grant->sequence.bytes(), 0, grant->sequence.extents(), Layout::kSequence};
  OCM_DASSERT(grant->sequence.is_valid() &&
              grant->sequence.extents() == grant->bindings.back()->places().size());
  OCM_TRY_ASSIGN(grant->id, request_join(session, grant->parts));
  int error = 0;
  for (Allocation* part : parts) {
    session.under_way().detach(part);
    if (error == 0) error = part->deferred_error_.load(std::memory_order_relaxed);
    for (std::unique_ptr<Extent>& extent : part->grant_->extents) grant->extents.push_back(std::move(extent));
    part->clear();
  }
  take_grant(session, std::move(grant), checksums ? kChecksum : 0);
  deferred_error_.store(error, std::memory_order_relaxed);
  return {};
}

}  // namespace ocm::client
