#include "client/operation.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "client/allocation.h"
#include "client/big_copy.h"
#include "client/session.h"
#include "control.pb.h"
#include "os/interrupt.h"
#include "wire/convert.h"

namespace ocm::client {
namespace {

constexpr uint64_t kAskAgainNs = 20'000'000;   // a daemon that had no room for a request
constexpr uint64_t kDialAgainNs = 20'000'000;  // to a node that was silent a moment ago

}  // namespace

Operation::~Operation() {
  const os::Uninterrupted to_the_end;
  if (state_.load(std::memory_order_acquire) != State::kIdle) (void)wait(false, os::Deadline::never());
}

void Operation::start(Session& session, Runs runs, bool copies, uint64_t bytes_hint) {
  OCM_ASSERT(state_.load(std::memory_order_relaxed) == State::kIdle && legs_.is_empty());
  session_ = &session;
  cutter_.take(std::move(runs));
  begin();
  if (!cutter_.exhausted()) {
    thread_ = this_thread();
    legs_per_cut_ = replicated(target_) ? std::min(target_->shape().extents, kReplicasMax) : 1;
    const bool many = cutter_.count(bytes_hint) * legs_per_cut_ > Window::kFew;
    if (many && !legs_.grow()) fail(Code::kNoMemory);
  }
  step();
  if (done()) return;
  // The handle's owner is the only one that knows of this operation yet, so it ends after this. What this thread starts next
  // waits for a copy, which takes several ways; for a put to replicas, which may be posted anew where a connection broke; and
  // until all of a long one is posted. A put waits for gets of replicas, too.
  if (!copies && replicated(source_) && !source_->read_only_layout()) {
    counts_as_get_ = true;
    source_->gets().fetch_add(1, std::memory_order_acq_rel);
  }
  keeps_busy_ = keeps_busy_ || copies || replicated(target_);
  if (keeps_busy_ || cutter_.has_more()) hold_busy();
}

void Operation::start_word(Session& session, const End& target, const std::byte* source, uint64_t bytes,
                           const Word& word) {
  OCM_DASSERT(target.allocation != nullptr && !target.allocation->replicated());
  word_ = std::make_unique<WordUnderWay>();
  word_->word = word;
  if (source == nullptr)
    source = reinterpret_cast<const std::byte*>(&word_->word);  // an atomic reads nothing
  start(session, Runs::one({target, End{nullptr, 0, const_cast<std::byte*>(source)}, bytes}), false, 0);
}

void Operation::begin() {
  state_.store(State::kMoving, std::memory_order_relaxed);
  if (!cutter_.begin()) return;
  // Another thread may look at whose turn it is: what starts over has the same ends, and writes nothing.
  const auto keep = [](Allocation*& end, Allocation* now) {
    if (end != now) end = now;
  };
  keep(target_, cutter_.target().allocation);
  keep(source_, cutter_.source().allocation);
  if (target_ != nullptr) target_binding_ = target_->binding();
  if (source_ != nullptr) source_binding_ = source_->binding();
  if (replicated(source_)) begun_ns_ = os::now_ns();
}

bool Operation::touches(const Allocation* allocation) const {
  if (allocation == nullptr) return true;
  const Order* const order = allocation->order();
  return (target_ != nullptr && target_->order() == order) ||
         (source_ != nullptr && source_->order() == order);
}

bool Operation::is_first_after(const Turns& before) const {
  return (target_ == nullptr || !before.has(thread_, target_->order())) &&
         (source_ == nullptr || !before.has(thread_, source_->order()));
}

void Operation::add_to(Turns& before) const {
  for (const Allocation* end : {target_, source_}) {
    if (end != nullptr) before.add(thread_, end->order());
  }
}

bool Operation::step() {
  if (done()) return true;
  bool first = false;
  if (waits_for_its_turn()) {
    session_->under_way().step(nullptr);
    first = session_->under_way().is_first(*this);
  }
  return step_as(first);
}

bool Operation::try_step(bool first, bool by_mover) {
  if (done()) return true;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock.owns_lock() ? step_under_lock(first, by_mover) : done();
}

bool Operation::step_as(bool first) { return try_step(first, false); }

bool Operation::step_of_mover(bool first) { return try_step(first, true); }

bool Operation::test() { return has_sleeper() ? done() : step(); }

bool Operation::step_under_lock(bool first, bool by_mover) {
  if (done()) return true;
  if (gives_up_.load() != Code::kOk) {
    take_back_under_lock();
    return true;
  }
  by_mover_ = by_mover;
  try {
    step_locked(first);
  } catch (const std::bad_alloc&) {
    fail(Code::kNoMemory);  // a cut or the outcome of a leg may be lost
  }
  if (busy_held_ && !keeps_busy_ && !done() && !cutter_.has_more()) release_busy();
  return done();
}

void Operation::step_locked(bool first) {
  progress_channels();
  while (!legs_.is_empty() && legs_.first().done()) {
    Leg& finished = legs_.reap();
    moved_at_ns_ = os::now_ns();
    settle(finished);
  }
  const State state = state_.load(std::memory_order_relaxed);
  if (state == State::kConfirming) return conclude_confirmed();
  if (state == State::kResolving) {
    const uint64_t now = os::now_ns();
    for (Suspect& suspect : suspects_) {
      if (suspect.call != nullptr) test_call(*suspect.call, now);
    }
    if (!first || !resolved()) return;
  }
  bool posted = false;
  if (legs_.is_empty()) posts_again_ = false;
  while (status_.is_ok() && !posts_again_ && legs_.room() >= legs_per_cut_ && cutter_.has_more()) {
    issue(cutter_.next(target_binding_, source_binding_, word_ != nullptr));
    posted = true;
  }
  if (posted) {
    fabric::Channel* last = nullptr;
    for (uint32_t i = legs_.tail(); i != legs_.head(); ++i) {
      fabric::Channel* channel = legs_[i].channel.get();
      // Behind operations of others a small one waits for company: it goes out with the next progress, which
      // whoever waits makes. 256 gets started together are then a few sends and not 256.
      if (channel != nullptr && channel != last && channel->in_flight() <= legs_.in_flight())
        channel->flush();
      last = channel;
    }
  }
  if (legs_.is_empty() && (cutter_.exhausted() || !status_.is_ok())) conclude();
}

void Operation::progress_channels() {
  if (legs_.is_empty()) return;
  const uint64_t now = os::now_ns();
  if (!by_mover_) moved_by_somebody_ns_.store(now, std::memory_order_relaxed);
  moved_total_ = 0;
  std::array<fabric::Channel*, 8> seen{};
  size_t count = 0;
  for (uint32_t i = legs_.tail(); i != legs_.head(); ++i) {
    Leg& pending = legs_[i];
    if (pending.call != nullptr) {
      test_call(*pending.call, now);
      continue;
    }
    if (pending.done()) continue;
    fabric::Channel* channel = pending.channel.get();
    if (std::find(seen.begin(), seen.begin() + count, channel) != seen.begin() + count) continue;
    if (count < seen.size()) seen[count++] = channel;
    channel->progress(now, patience_ns(pending));
    moved_total_ += channel->moved_total();
  }
}

uint64_t Operation::patience_ns(const Leg& pending) const {
  if (session_->all_live()) return session_->deadline_ns();
  const Cut& cut = pending.cut;
  const bool is_get = pending.op.opcode == fabric::OpCode::kGet;
  const Extent& far = is_get ? (*source_binding_)[cut.source_extent] : (*target_binding_)[cut.target_extent];
  return session_->patience_ns(far.descriptor().id.address.partition());
}

Result<std::shared_ptr<Call>> Operation::ask_daemon(wire::Envelope& request) {
  OCM_TRY_ASSIGN(const std::shared_ptr<Daemon> daemon, session_->daemon());
  return daemon->control().start(request, os::Deadline::after_ns(session_->deadline_ns()));
}

bool Operation::test_call(Call& call, uint64_t now_ns) {
  ControlConnection& control = session_->daemon_now()->control();
  if (control.test(call)) return true;
  if (now_ns - moved_at_ns_ > call_patience_ns()) {
    control.cancel(call, Status(Code::kDeadline, "the daemon did not answer in time"));
    unanswered_ = true;
  }
  return call.done.load(std::memory_order_acquire);
}

Operation::Answer Operation::answer_of(Call& call, uint64_t now_ns) {
  if (!test_call(call, now_ns)) return Answer::kNone;
  if (call.status.code() != Code::kQueueFull || now_ns - moved_at_ns_ > call_patience_ns())
    return Answer::kThere;
  if (now_ns < ask_again_ns_) return Answer::kNone;
  ask_again_ns_ = now_ns + kAskAgainNs;
  return Answer::kNoRoom;
}

uint64_t Operation::call_patience_ns() const {
  // A replica is lost only once its node's lease is over, whatever the session's own bound is.
  const bool legs = confirmations_.empty() && std::all_of(suspects_.begin(), suspects_.end(),
                                                          [](const Suspect& s) { return s.silent; });
  const uint64_t leases_ns = legs ? 0 : 4 * session_->daemon_now()->failure_deadline_ns();
  return std::max(session_->call_deadline_ns(), leases_ns);
}

void Operation::issue(const Cut& cut) {
  if (!replicated(cut.target.allocation)) return issue_to(cut);
  Cut copy = cut;
  const uint32_t replicas = std::min(cut.target.allocation->shape().extents, kReplicasMax);
  for (uint32_t i = 0; i < replicas; ++i) {
    if ((target_failed_ >> i & 1) != 0 || (*target_binding_)[i].lost()) continue;
    copy.target_extent = i;
    issue_to(copy);
  }
}

Result<std::byte*> Operation::bytes_of(const End& end, const Binding* binding, uint32_t index, bool& remote) {
  if (end.allocation == nullptr) return end.pointer;
  Extent& extent = (*binding)[index];
  if (!extent.on_this_host()) {
    remote = true;
    return nullptr;
  }
  std::byte* data = extent.data_now();
  if (data == nullptr) {
    OCM_TRY_ASSIGN(data, extent.open());
  }
  return data + end.offset;
}

void Operation::issue_to(Cut cut, bool again) {
  for (;;) {
    if (!choose_source(cut)) return;
    bool target_remote = false, source_remote = false;
    const auto target = bytes_of(cut.target, target_binding_, cut.target_extent, target_remote);
    if (!target.is_ok()) {
      fail_cut(cut, false, target.status());
      return;
    }
    const auto source = bytes_of(cut.source, source_binding_, cut.source_extent, source_remote);
    if (!source.is_ok()) {
      if (fail_cut(cut, true, source.status())) continue;
      return;
    }
    if (!target_remote && !source_remote) {
      if (word_ != nullptr) {
        const Code applied =
            apply_here((*target_binding_)[cut.target_extent], target.value() - cut.target.offset,
                       cut.target.offset, source.value(), cut.bytes);
        if (applied != Code::kOk) fail_cut(cut, false, applied);
        return;
      }
      big_copy(target.value(), source.value(), cut.bytes);
      const Code loaded = source_after(cut);
      if (loaded != Code::kOk) {
        if (fail_cut(cut, true, loaded)) continue;
        return;
      }
      if (const Code stored = target_after(cut); stored != Code::kOk) fail_cut(cut, false, stored);
      return;
    }
    Leg& fresh = legs_.fresh(cut);
    if (target_remote && source_remote) {
      wire::Envelope request;
      wire::CopyRequest& copy = *request.mutable_copy();
      descriptor_to((*target_binding_)[cut.target_extent].descriptor(), *copy.mutable_target());
      descriptor_to((*source_binding_)[cut.source_extent].descriptor(), *copy.mutable_source());
      copy.set_target_offset(cut.target.offset);
      copy.set_source_offset(cut.source.offset);
      copy.set_bytes_total(cut.bytes);
      auto call = ask_daemon(request);
      if (!call.is_ok()) return fail(call.status());
      fresh.call = std::move(*call);
    } else {
      const End& far = target_remote ? cut.target : cut.source;
      Extent& extent =
          target_remote ? (*target_binding_)[cut.target_extent] : (*source_binding_)[cut.source_extent];
      const bool put_to_replica = target_remote && replicated(cut.target.allocation);
      const uint64_t asked_ns = put_to_replica ? os::now_ns() : 0;
      const uint32_t partition = extent.descriptor().id.address.partition();
      uint64_t patience_ns = session_->patience_ns(partition);
      // Else each part of many, and each of many operations, would wait for it once more.
      if (put_to_replica && extent.avoided(asked_ns) && session_->is_dead(partition))
        patience_ns = std::min(patience_ns, kDialAgainNs);
      else if (!target_remote && replicated(cut.source.allocation) &&
               extent.failed_since(begun_ns_, os::now_ns()))
        patience_ns = std::max(kDialAgainNs, patience_ns / 16);
      const uint32_t interrupts = os::interrupts_of_thread();
      Result<Attachment> attachment = attach(extent, patience_ns);
      if (!attachment.is_ok()) {
        if (os::interrupts_of_thread() != interrupts || gives_up_.load() != Code::kOk)
          return fail(given_up());
        if (put_to_replica && broke_at_once(cut, attachment.status(), asked_ns)) continue;
        if (fail_cut(cut, source_remote, attachment.status()) && source_remote) continue;
        return;
      }
      if (put_to_replica && !again && is_behind_broken(cut.target_extent, attachment.value().channel.get())) {
        fresh.op.opcode = fabric::OpCode::kPut;
        fresh.op.finish(Code::kPeerLost);  // it waits for its turn
        posts_again_ = true;
        legs_.add();
        return;
      }
      fresh.channel = std::move(attachment.value().channel);
      fresh.op.opcode = target_remote ? fabric::OpCode::kPut : fabric::OpCode::kGet;
      fresh.op.checksum = far.allocation->checksum();
      fresh.op.index = attachment.value().index;
      fresh.op.offset = far.offset;
      fresh.op.local = target_remote ? source.value() : target.value();
      fresh.op.bytes = cut.bytes;
      fresh.posted_ns = asked_ns;
      fresh.cut.sent = true;
      if (word_ != nullptr) take_word(fresh.op);
    }
    if (legs_.is_empty()) moved_at_ns_ = os::now_ns();
    legs_.add();
    if (fresh.call != nullptr) return;
    try {
      fresh.channel->post(fresh.op);
    } catch (const std::bad_alloc&) {
      if (fresh.op.state.load(std::memory_order_relaxed) == fabric::OpState::kIdle)
        fresh.op.finish(Code::kNoMemory);
      throw;
    }
    return;
  }
}

/// A signal ends what its thread started, and nothing of another one's; giving it up ends that.
Result<Attachment> Operation::attach(Extent& extent, uint64_t patience_ns) {
  std::optional<os::InterruptedBy> end;
  const auto is_given_up = [](int, void* self) {
    return static_cast<Operation*>(self)->gives_up_.load() != Code::kOk ? 1 : 0;
  };
  if (thread_ != this_thread()) end.emplace(is_given_up, this, os::InterruptedBy::What::kWorkForAnother);
  return extent.attach(os::Deadline::after_ns(patience_ns));
}

Code Operation::apply_here(const Extent& extent, std::byte* data, uint64_t offset, const std::byte* source,
                           uint64_t bytes) const {
  const Word& word = word_->word;
  const fabric::shm::LocalExtent& here = extent.local();
  if (word.opcode == fabric::OpCode::kNotify) return here.notify(data + offset, word.operand);
  if (word.opcode == fabric::OpCode::kPut) {
    if (const Code code = here.put(data + offset, source, bytes, big_copy); code != Code::kOk) return code;
    return here.notify(data + word.notify_offset, word.operand);
  }
  uint64_t before = 0;
  const Code code = here.atomic(word.opcode, data + offset, word.operand, word.expected, before);
  if (code == Code::kOk && word.old != nullptr) *word.old = before;
  return code;
}

void Operation::take_word(fabric::Op& op) {
  const Word& word = word_->word;
  op.opcode = word.opcode;
  op.operand = word.operand;
  op.expected = word.expected;
  if (word.opcode != fabric::OpCode::kPut) return;
  fabric::Op& notify = word_->notify;
  notify.~Op();
  new (&notify) fabric::Op{};
  notify.opcode = fabric::OpCode::kNotify;
  notify.index = op.index;
  notify.offset = word.notify_offset;
  notify.bytes = sizeof(uint64_t);
  notify.operand = word.operand;
  op.operand = 0;
  op.notify = &notify;
}

Code Operation::source_after(const Cut& cut) const {
  if (cut.source.allocation == nullptr) return Code::kOk;
  const Extent& extent = (*source_binding_)[cut.source_extent];
  return extent.on_this_host() ? extent.local().check_loaded() : Code::kOk;
}

Code Operation::target_after(const Cut& cut) const {
  if (!replicated(cut.target.allocation)) return Code::kOk;
  const Extent& extent = (*target_binding_)[cut.target_extent];
  return extent.on_this_host() ? extent.local().check_stored() : Code::kOk;
}

void Operation::settle(Leg& finished) {
  OCM_DASSERT(finished.done() && finished.cut.bytes > 0);
  Cut cut = finished.cut;
  const bool was_call = finished.call != nullptr;
  const bool was_get = !was_call && finished.op.opcode == fabric::OpCode::kGet;
  const Reply* const reply = was_call ? &finished.call->reply : nullptr;
  const bool source_failed = reply != nullptr && reply->message && reply->message->source_failed();
  Status status = was_call ? finished.call->status : Status(finished.code());
  if (status.is_ok() && word_ != nullptr && word_->word.old != nullptr)
    *word_->word.old = finished.op.old_value;
  finished.channel.reset();
  finished.call.reset();
  bool blame_source = was_get || source_failed || (was_call && replicated(cut.source.allocation));
  if (status.is_ok() && !was_call && !was_get) {
    status = source_after(cut);
    blame_source = true;
  }
  if (status.is_ok() && was_get) {
    status = target_after(cut);
    blame_source = status.is_ok();
  }
  if (status.is_ok()) return;
  if (status.code() == Code::kInvalidArgument && !was_call) {
    // What else could be wrong with a put or a get was checked before.
    return fail(Status(status.code(),
                       was_get ? "the target's memory cannot be written: the pointer or the length is wrong"
                               : "the source's memory cannot be read: the pointer or the length is wrong"));
  }
  const bool put_to_replica = !was_call && !was_get && !blame_source && replicated(cut.target.allocation);
  const bool given_up = !status_.is_ok() || (target_failed_ >> cut.target_extent & 1) != 0;
  if (put_to_replica && !given_up && (!cut.sent || broke_at_once(cut, status, finished.posted_ns))) {
    posts_again_ = true;
    issue_to(cut, true);
    if (!legs_.is_empty() && legs_.last().channel != nullptr) legs_.last().channel->flush();
    return;
  }
  // A copy that failed without an answer of the target's home does not say which end failed. Between replicas it is the
  // source's, until the last source says the same: then it is the target's. Sources that were revoked may have been made
  // again all the same.
  if (was_call && blame_source && !source_failed && replicated(cut.target.allocation) &&
      is_last_source(cut)) {
    blame_source = false;
    if (status.code() == Code::kRevoked)
      cut.source_revoked |= uint64_t{1} << (cut.source_extent - cut.source_first);
    if (cut.source_revoked != 0) suspect(source_part(cut));
  }
  if (was_call && !source_failed && !replicated(cut.source.allocation) &&
      (status.code() == Code::kRevoked || status.code() == Code::kNotFound)) {
    if (replicated(cut.target.allocation))
      suspect(only_part(cut, true, Code::kRevoked));
    else
      fail_only(cut, true, status.with_code(Code::kRevoked));
  }
  if (fail_cut(cut, blame_source, status) && blame_source && status_.is_ok()) {
    issue_to(cut);  // another replica; the reaped leg made room
    if (!legs_.is_empty() && legs_.last().channel != nullptr) legs_.last().channel->flush();
  }
}

void Operation::fail(const Status& status) {
  if (status_.is_ok()) status_ = status;
}

void Operation::release_busy() {
  if (!busy_held_) return;
  busy_held_ = false;
  for (Allocation* end : {target_, source_}) {
    if (end == nullptr || end->read_only_layout()) continue;
    [[maybe_unused]] const uint32_t before = end->busy().fetch_sub(1, std::memory_order_acq_rel);
    OCM_DASSERT(before > 0);  // A3
  }
}

void Operation::hold_busy() {
  if (busy_held_) return;
  busy_held_ = true;
  for (Allocation* end : {target_, source_}) {
    if (end != nullptr && !end->read_only_layout()) end->busy().fetch_add(1, std::memory_order_acq_rel);
  }
}

void Operation::finish() {
  OCM_DASSERT(state_.load(std::memory_order_relaxed) != State::kDone && legs_.is_empty());  // P5, P1
  release_busy();
  if (std::exchange(counts_as_get_, false)) source_->gets().fetch_sub(1, std::memory_order_acq_rel);
  state_.store(State::kDone, std::memory_order_release);
  const std::lock_guard lock(telling_);
  tell_sleeper();
}

}  // namespace ocm::client
