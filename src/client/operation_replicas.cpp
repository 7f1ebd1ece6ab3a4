// An operation among replicas: which one a get reads, what becomes of one that fails, and when a put that missed some is done
// (P2, P8).
#include <algorithm>
#include <string>

#include "client/allocation.h"
#include "client/operation.h"
#include "client/session.h"
#include "control.pb.h"

namespace ocm::client {
namespace {

/// Codes that speak of one replica and not of the request.
bool is_replica_failure(Code code) {
  return code == Code::kPeerLost || code == Code::kNotFound || code == Code::kRevoked ||
         code == Code::kProtocol;
}

Status none_left() { return Status(Code::kLost, "every replica was on a node that died"); }

}  // namespace

bool Operation::is_behind_broken(uint32_t extent, const fabric::Channel* channel) {
  for (uint32_t i = legs_.head(); i != legs_.tail(); --i) {
    const Leg& before = legs_[i - 1];
    if (before.call == nullptr && before.cut.target_extent == extent) return before.channel.get() != channel;
  }
  return false;
}

bool Operation::choose_source(Cut& cut) {
  if (!replicated(cut.source.allocation)) return true;
  const uint64_t now = os::now_ns();
  int best = -1, best_rank = 0;
  for (uint32_t i = 0; i < cut.sources; ++i) {
    const Extent& extent = (*source_binding_)[cut.source_first + i];
    if ((cut.source_failed >> i & 1) != 0 || extent.lost()) continue;
    const bool avoided = extent.avoided(now) || session_->is_dead(extent.descriptor().id.address.partition());
    const int rank = (extent.on_this_host() ? 2 : 0) + (avoided ? 0 : 4) + 1;
    if (rank > best_rank) best = static_cast<int>(i), best_rank = rank;
  }
  if (best < 0) {
    // Every replica is gone or failed just now; the first failure says more than "none left".
    fail_replicas(source_part(cut), failure_.is_ok() ? none_left() : failure_);
    return false;
  }
  cut.source_extent = cut.source_first + static_cast<uint32_t>(best);
  return true;
}

bool Operation::broke_at_once(Cut& cut, const Status& status, uint64_t since_ns) {
  if (cut.again || status.code() != Code::kPeerLost) return false;
  const uint32_t partition = (*target_binding_)[cut.target_extent].descriptor().id.address.partition();
  cut.again = os::now_ns() - since_ns < session_->patience_ns(partition) / 2;
  return cut.again;
}

bool Operation::is_last_source(const Cut& cut) const {
  for (uint32_t i = 0; i < cut.sources; ++i) {
    const uint32_t index = cut.source_first + i;
    if (index != cut.source_extent && (cut.source_failed >> i & 1) == 0 && !(*source_binding_)[index].lost())
      return false;
  }
  return true;
}

bool Operation::fail_cut(Cut& cut, bool blame_source, const Status& status) {
  const End& end = blame_source ? cut.source : cut.target;
  const uint32_t index = blame_source ? cut.source_extent : cut.target_extent;
  if (end.allocation == nullptr) {
    fail(status);
    return false;
  }
  Extent& extent = (*(blame_source ? source_binding_ : target_binding_))[index];
  const Code code = status.code() == Code::kNotFound ? Code::kRevoked : status.code();
  const Status there = Status::of_node(code, extent.descriptor().node, ": " + std::string(status.message()));
  if (code == Code::kPeerLost) extent.avoid_node_until(os::now_ns() + Extent::kAvoidNs);
  if (code == Code::kRevoked) extent.attach_anew();
  if (!replicated(end.allocation)) {
    const bool broke = code == Code::kPeerLost || code == Code::kProtocol || code == Code::kAuth;
    const bool may_be_applied = word_ != nullptr && cut.sent && broke;
    may_be_applied ? fail(there.with_code(Code::kPeerLost)) : fail_only(cut, blame_source, there);  // P6
    return false;
  }
  if (!is_replica_failure(status.code())) {
    fail(there);
    return false;
  }
  if (blame_source) {
    extent.avoid_until(os::now_ns() + Extent::kAvoidNs);
    const uint64_t bit = uint64_t{1} << (index - cut.source_first);
    cut.source_failed |= bit;
    if (code == Code::kRevoked) cut.source_revoked |= bit;
  } else {
    const uint64_t bit = uint64_t{1} << index;
    target_failed_ |= bit;
    if (code == Code::kRevoked) target_revoked_ |= bit;
  }
  if (failure_.is_ok()) failure_ = there;
  return true;
}

void Operation::conclude() {
  if (!status_.is_ok() || !replicated(target_)) return finish_or_resolve();
  const uint32_t replicas = std::min(target_->shape().extents, kReplicasMax);
  uint32_t good = 0;
  for (uint32_t i = 0; i < replicas; ++i) {
    if ((target_failed_ >> i & 1) == 0 && !(*target_binding_)[i].lost()) ++good;
  }
  if (good == 0) {
    fail_replicas(target_part(), target_failed_ == 0 ? none_left() : failure_);
    return finish_or_resolve();
  }
  OCM_DASSERT((target_revoked_ & ~target_failed_) == 0);
  if (target_failed_ == 0) return finish();
  // P2: the put is not acknowledged before the cluster knows which replicas missed it.
  state_.store(State::kConfirming, std::memory_order_relaxed);
  moved_at_ns_ = os::now_ns();
  for (uint32_t i = 0; i < replicas; ++i) {
    if ((target_failed_ >> i & 1) == 0) continue;
    auto call = ask_for_loss(i);
    if (!call.is_ok()) {
      fail_replicas(target_part(), failure_);
      break;
    }
    confirmations_.emplace_back(i, std::move(*call));
  }
  conclude_confirmed();
}

Result<std::shared_ptr<Call>> Operation::ask_for_loss(uint32_t replica) {
  OCM_DASSERT((target_failed_ >> replica & 1) != 0);  // P2: of those that missed it
  const ExtentDescriptor& descriptor = (*target_binding_)[replica].descriptor();
  wire::Envelope request;
  wire::LostReplicaRequest& lost = *request.mutable_lost_replica();
  lost.set_allocation_id(target_->id().bytes.data(), 16);
  lost.set_address(descriptor.id.address.bits());
  lost.set_generation(descriptor.id.generation);
  lost.set_revoked((target_revoked_ >> replica & 1) != 0);
  return ask_daemon(request);
}

void Operation::conclude_confirmed() {
  const uint64_t now = os::now_ns();
  for (auto& [index, call] : confirmations_) {
    const Answer answer = answer_of(*call, now);
    if (answer == Answer::kThere) continue;
    if (answer == Answer::kNone) return;
    auto again = ask_for_loss(index);
    if (!again.is_ok()) continue;
    call = std::move(*again);
    return;
  }
  for (auto& [index, call] : confirmations_) {
    if (call->status.is_ok()) {
      (*target_binding_)[index].mark_lost();
      continue;
    }
    loss_revoked_ = loss_revoked_ || call->status.code() == Code::kRevoked;
    fail_replicas(target_part(), failure_.with_message(std::string(failure_.message()) +
                                                       "; and its loss could not be confirmed: " +
                                                       std::string(call->status.message())));
  }
  finish_or_resolve();
}

}  // namespace ocm::client
