// An operation whose extents fail, and which follows their parts: it asks the daemon for the allocation as it is now, and
// starts over with that.
//
// A frozen replica answers kRevoked, and so does an extent whose part goes on elsewhere: only its home knows. The daemon
// answers once the part is made again, or will not be. Nothing new: what was revoked may be as it was, and is tried again;
// another failure stays the operation's. A home that is silent may be gone since its extents moved away: where there is
// no replica the daemon is asked about that, too.
#include <algorithm>
#include <optional>
#include <utility>

#include "client/allocation.h"
#include "client/operation.h"
#include "client/session.h"
#include "control.pb.h"

namespace ocm::client {

const void* Operation::this_thread() {
  static thread_local char here = 0;
  return &here;
}

Operation::Part Operation::target_part() const {
  return {target_,        target_binding_, 0, std::min(target_->shape().extents, kReplicasMax),
          target_failed_, target_revoked_};
}

Operation::Part Operation::source_part(const Cut& cut) const {
  return {source_, source_binding_, cut.source_first, cut.sources, cut.source_failed, cut.source_revoked};
}

Operation::Part Operation::only_part(const Cut& cut, bool source, Code code) const {
  return {source ? source_ : target_,
          source ? source_binding_ : target_binding_,
          source ? cut.source_extent : cut.target_extent,
          1,
          1,
          code == Code::kRevoked ? uint64_t{1} : 0};
}

void Operation::fail_only(const Cut& cut, bool source, const Status& status) {
  const Allocation* allocation = source ? source_ : target_;
  const bool silent = status.code() == Code::kPeerLost;
  if ((!silent && status.code() != Code::kRevoked) || !allocation->resolves(silent, os::now_ns()))
    return fail(status);
  const Part part = only_part(cut, source, status.code());
  if (status_.is_ok())
    fail_replicas(part, status);
  else if (replicas_failed_)
    suspect(part);
}

void Operation::fail_replicas(const Part& part, const Status& status) {
  if (!status_.is_ok()) return;
  status_ = status;
  replicas_failed_ = true;
  keeps_busy_ = true;
  hold_busy();  // P4
  suspect(part);
}

void Operation::suspect(const Part& part) {
  uint64_t living = 0, chosen = part.revoked;
  uint32_t last = part.count - 1;
  for (uint32_t i = 0; i < part.count; ++i) {
    if ((part.revoked >> i & 1) != 0 || (*part.binding)[part.first + i].lost()) continue;
    if ((part.failed >> i & 1) == 0)
      living |= uint64_t{1} << i;
    else
      last = i;
  }
  chosen |= living;
  if (chosen == 0) chosen = uint64_t{1} << last;
  for (uint32_t i = 0; i < part.count && suspects_.size() < kReplicasMax; ++i) {
    if ((chosen >> i & 1) == 0) continue;
    Suspect& one = suspects_.emplace_back();
    one.allocation = part.allocation;
    one.extent = (*part.binding)[part.first + i].descriptor().id;
    one.maybe_frozen = (living == 0 || loss_revoked_) && (part.revoked >> i & 1) != 0;
    one.silent = !part.allocation->replicated() && part.revoked == 0;
  }
}

void Operation::finish_or_resolve() {
  if (!replicas_failed_ || buffer_given_) return finish();
  if (unanswered_ || restarts_ == Allocation::kRebindsMax) {
    status_ = after_resolve(status_, unanswered_ ? Code::kDeadline : Code::kOk);
    return finish();
  }
  state_.store(State::kResolving, std::memory_order_relaxed);
  moved_at_ns_ = os::now_ns();
  suspects_asked_ = false;
}

bool Operation::has_other_binding() const {
  return (target_ != nullptr && target_->binding() != target_binding_) ||
         (source_ != nullptr && source_->binding() != source_binding_);
}

/// Only once it is this operation's turn: of many that failed together the first asks for all.
void Operation::ask_of_suspects(uint64_t now_ns) {
  suspects_asked_ = true;
  const uint64_t failed_ns = std::exchange(moved_at_ns_, now_ns);
  if (has_other_binding()) return;
  for (Suspect& suspect : suspects_) {
    if (!suspect.allocation->resolves(suspect.silent, now_ns)) continue;
    const std::optional<Code> known = suspect.allocation->not_resolved_since(suspect.extent, failed_ns);
    if (known && !suspect.maybe_frozen) {
      suspect.known = *known;
      continue;
    }
    suspect.asked = true;
    ask_of(suspect);
  }
}

void Operation::ask_of(Suspect& suspect) {
  suspect.call.reset();
  wire::Envelope request = resolve_request(suspect.allocation->grant_id(), suspect.extent, suspect.silent);
  Result<std::shared_ptr<Daemon>> daemon = session_->daemon();
  if (!daemon.is_ok()) return;
  auto call = (*daemon)->control().start(request, os::Deadline::after_ns(session_->deadline_ns()));
  if (!call.is_ok()) return;
  suspect.daemon = std::move(*daemon);
  suspect.call = std::move(*call);
}

bool Operation::resolved() {
  const uint64_t now = os::now_ns();
  if (!suspects_asked_) ask_of_suspects(now);
  for (Suspect& suspect : suspects_) {
    const Answer answer = suspect.call == nullptr ? Answer::kThere : answer_of(*suspect.call, now);
    if (answer == Answer::kNoRoom) ask_of(suspect);
    if (answer != Answer::kThere) return false;
  }
  const uint64_t answered_ns = os::now_ns();
  bool again = false;
  Code known = Code::kOk;  // the last answer that ends it
  for (Suspect& suspect : suspects_) {
    if (!suspect.asked) {  // known, or told to another one
      if (ends_part(suspect.known)) known = suspect.known;
      continue;
    }
    if (suspect.call == nullptr || !suspect.call->status.is_ok()) {
      const Code code = suspect.call == nullptr ? Code::kNoDaemon : suspect.call->status.code();
      if (ends_part(code)) known = code;
      suspect.allocation->was_not_resolved(suspect.extent, code, suspect.silent, answered_ns);
      continue;
    }
    Result<bool> changed = suspect.allocation->rebind(suspect.daemon, std::move(suspect.call->reply));
    if (changed.is_ok() && (changed.value() || suspect.maybe_frozen)) again = true;
    if (suspect.silent && !(changed.is_ok() && changed.value()))
      suspect.allocation->was_not_resolved(suspect.extent, Code::kPeerLost, true, answered_ns);
  }
  again = again || has_other_binding();  // another operation may have had the answer before
  suspects_.clear();
  if (!again) {
    status_ = after_resolve(status_, known);
    finish();
    return false;
  }
  ++restarts_;
  status_ = failure_ = Status();
  replicas_failed_ = false;
  target_failed_ = target_revoked_ = 0;
  loss_revoked_ = false;
  confirmations_.clear();
  begin();
  return true;
}

}  // namespace ocm::client
