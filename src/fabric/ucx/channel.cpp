#include "fabric/ucx/channel.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "fabric/ucx/channel_impl.h"

namespace ocm::fabric::ucx {
namespace {

/// What one UCX request carries at most: completions of pieces show that a long operation moves.
constexpr uint64_t kPieceBytesMax = uint64_t{4} << 20;
/// Started and not complete; one more request starts below it.
constexpr uint64_t kWindowBytes = uint64_t{8} << 20;
constexpr size_t kIssuedMax = 256;
/// Gets up to here are one message of the lane that also reads the word (X3).
constexpr uint64_t kShortGetBytesMax = 1024;
constexpr int kPumpMax = 64;
constexpr uint64_t kTearDownNs = 500'000'000;
constexpr uint64_t kDrainNs = 1'000'000'000;

ucp_atomic_op_t atomic_op(OpCode opcode) {
  switch (opcode) {
    case OpCode::kSwap: return UCP_ATOMIC_OP_SWAP;
    case OpCode::kCompareSwap: return UCP_ATOMIC_OP_CSWAP;
    case OpCode::kAnd: return UCP_ATOMIC_OP_AND;
    case OpCode::kOr: return UCP_ATOMIC_OP_OR;
    case OpCode::kXor: return UCP_ATOMIC_OP_XOR;
    default: return UCP_ATOMIC_OP_ADD;
  }
}

bool is_data(OpCode opcode) { return opcode == OpCode::kPut || opcode == OpCode::kGet; }
uint64_t length_of(const Op& op) { return is_data(op.opcode) ? op.bytes : sizeof(uint64_t); }

}  // namespace

// ---------------------------------------------------------------- requests

UcxChannel::Pending* UcxChannel::make_pending(Entry* entry, Round* round, uint64_t bytes, bool gating) {
  if (pool_free_.empty()) {
    pool_.push_back(std::make_unique<Pending>());
    pool_free_.push_back(pool_.back().get());
  }
  Pending* pending = pool_free_.back();
  pool_free_.pop_back();
  *pending = Pending{this, entry, round, bytes, gating};
  if (entry == nullptr) {
    ++round->sealing;
  } else {
    ++entry->outstanding;
    ++round->outstanding;
    if (gating) ++round->gating;
  }
  bytes_in_flight_ += bytes;
  ++requests_;
  return pending;
}

ucp_request_param_t UcxChannel::request_param(Pending* pending) const {
  ucp_request_param_t param;
  std::memset(&param, 0, sizeof param);
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = &UcxChannel::on_request;
  param.user_data = pending;
  return param;
}

void UcxChannel::on_request(void* request, ucs_status_t status, void* user_data) {
  auto* pending = static_cast<Pending*>(user_data);
  pending->channel->ended(pending, status);
  ucp().ucp_request_free(request);
}

bool UcxChannel::started(ucs_status_ptr_t request, Pending* pending) {
  if (UCS_PTR_IS_PTR(request)) return true;  // on_request() follows, or came already
  ended(pending, UCS_PTR_RAW_STATUS(request));
  return !broken_;
}

void UcxChannel::ended(Pending* pending, ucs_status_t status) {
  if (status != UCS_OK && !broken_) {
    broken_ = true;
    broken_why_ = from_ucs(status, "an operation");
  }
  OCM_ASSERT(requests_ > 0 && bytes_in_flight_ >= pending->bytes);  // each ends once
  --requests_;
  bytes_in_flight_ -= pending->bytes;
  progressed_ = true;
  moved_total_.fetch_add(1, std::memory_order_relaxed);
  if (Entry* entry = pending->entry; entry == nullptr) {
    OCM_DASSERT(pending->round->sealing > 0);
    --pending->round->sealing;
  } else {
    OCM_DASSERT(entry->outstanding > 0 && pending->round->outstanding > 0);
    --entry->outstanding;
    --pending->round->outstanding;
    if (pending->gating) --pending->round->gating;
    if (status == UCS_OK && entry->issued && entry->outstanding == 0 && entry->op->opcode == OpCode::kPut) {
      entry->op->state.store(OpState::kLocal, std::memory_order_release);
    }
  }
  pool_free_.push_back(pending);
}

bool UcxChannel::is_valid() const {
  std::lock_guard lock(mutex_);
  return holds();
}

bool UcxChannel::holds() const {
  if (pool_.size() - pool_free_.size() != requests_ || issued_ > entries_.size()) return false;
  if (in_flight_.load(std::memory_order_relaxed) != entries_.size()) return false;
  if (worker_ == nullptr && (!entries_.empty() || !rounds_.empty())) return false;  // X4
  uint32_t joined = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (entry.op == nullptr || entry.op->done() || entry.issued != (i < issued_)) return false;  // X1
    if (entry.round == nullptr ? entry.outstanding != 0 : !entry.started) return false;
    joined += entry.round != nullptr ? 1 : 0;
  }
  for (const Round& round : rounds_) {
    if (round.entries == 0 || round.unissued > round.entries || round.gating > round.outstanding)
      return false;
    if (round.sealed && (!round.closed || round.unissued != 0)) return false;
    joined -= std::min(joined, round.entries);
  }
  return joined == 0;
}

// ---------------------------------------------------------------- operations

Code UcxChannel::validate(const Op& op, const Target* target) const {
  if (op.opcode == OpCode::kFence) return Code::kOk;
  if (target == nullptr) return Code::kNotFound;
  if (target->revoked) return Code::kRevoked;
  if (writes(op.opcode) && target->access != Access::kReadWrite) return Code::kPermission;
  if (!is_data(op.opcode) && op.offset % sizeof(uint64_t) != 0) return Code::kInvalidArgument;
  const uint64_t bytes = length_of(op);
  if (bytes > target->bytes || op.offset > target->bytes - bytes) return Code::kOutOfRange;
  return Code::kOk;
}

void UcxChannel::post(Op& op) {
  OCM_DASSERT(may_be_posted(op));
  Op* const notify = op.notify;
  std::lock_guard lock(mutex_);
  if (entries_.empty()) last_progress_ns_ = 0;
  enter(op);
  if (notify != nullptr) enter(*notify);
  if (worker_ == nullptr) return;
  in_flight_.store(static_cast<uint32_t>(entries_.size()), std::memory_order_relaxed);
  issue();
  if (broken_) lose(broken_why_);
}

void UcxChannel::enter(Op& op) {
  if (worker_ == nullptr) return op.finish(health_.code());
  op.bytes_sent = op.bytes_done = 0;
  Entry& entry = entries_.emplace_back();
  op.state.store(OpState::kPosted, std::memory_order_relaxed);
  entry.op = &op;
  if (auto found = targets_.find(op.index); found != targets_.end()) entry.target = found->second;
  entry.code = validate(op, entry.target.get());
}

bool UcxChannel::conflicts(const Entry& entry) const {
  if (entry.op->opcode == OpCode::kNotify) return issued_ != 0;
  const uint64_t begin = entry.op->offset;
  const uint64_t end = begin + length_of(*entry.op);
  const bool entry_writes = writes(entry.op->opcode);
  for (size_t i = 0; i < issued_; ++i) {
    const Entry& other = entries_[i];
    if (other.round == nullptr || (!entry_writes && !writes(other.op->opcode))) continue;
    if (other.target->base != entry.target->base) continue;
    if (begin < other.op->offset + length_of(*other.op) && other.op->offset < end) return true;
  }
  return false;
}

void UcxChannel::join_round(Entry& entry) {
  if (rounds_.empty() || rounds_.back().closed) rounds_.emplace_back();
  Round& round = rounds_.back();
  entry.round = &round;
  ++round.entries;
  ++round.unissued;
  round.writes |= writes(entry.op->opcode);
  for (const Check& check : round.checks) {
    if (check.target == entry.target) return;
  }
  round.checks.push_back({entry.target, 0});
}

void UcxChannel::issue() {
  while (issued_ < entries_.size() && issued_ < kIssuedMax && !broken_) {
    Entry& entry = entries_[issued_];
    const bool nothing_to_do = entry.code != Code::kOk || entry.op->opcode == OpCode::kFence ||
                               (is_data(entry.op->opcode) && entry.op->bytes == 0);
    if (!nothing_to_do) {
      if (!entry.started) {
        if (conflicts(entry)) return;  // X2
        if (entry.target->revoked) entry.code = Code::kRevoked;
      }
      if (entry.code == Code::kOk) {
        if (!entry.started) join_round(entry);
        entry.started = true;
        if (is_data(entry.op->opcode) ? !issue_data(entry) : !issue_atomic(entry)) return;
        --entry.round->unissued;
      }
    }
    entry.issued = true;
    ++issued_;
    if (entry.round != nullptr && entry.outstanding == 0 && entry.op->opcode == OpCode::kPut) {
      entry.op->state.store(OpState::kLocal, std::memory_order_release);
    }
  }
}

bool UcxChannel::issue_data(Entry& entry) {
  Op& op = *entry.op;
  const Target& target = *entry.target;
  while (op.bytes_sent < op.bytes) {
    if (bytes_in_flight_ >= kWindowBytes) return false;
    const uint64_t piece = std::min(op.bytes - op.bytes_sent, kPieceBytesMax);
    const uint64_t remote = target.base + op.offset + op.bytes_sent;
    std::byte* local = op.local + op.bytes_sent;
    op.bytes_sent += piece;
    const bool get = op.opcode == OpCode::kGet;
    Pending* pending = make_pending(&entry, entry.round, piece, get && op.bytes > kShortGetBytesMax);
    const ucp_request_param_t param = request_param(pending);
    ucs_status_ptr_t request = get ? ucp().ucp_get_nbx(endpoint_, local, piece, remote, target.rkey, &param)
                                   : ucp().ucp_put_nbx(endpoint_, local, piece, remote, target.rkey, &param);
    if (!started(request, pending)) return false;
  }
  return true;
}

bool UcxChannel::issue_atomic(Entry& entry) {
  const Op& op = *entry.op;
  entry.operand = op.operand;
  entry.reply = 0;
  if (op.opcode == OpCode::kCompareSwap) {
    entry.operand = op.expected;
    entry.reply = op.operand;
  }
  Pending* pending = make_pending(&entry, entry.round, 0, context_->hardware());
  ucp_request_param_t param = request_param(pending);
  param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
  param.datatype = ucp_dt_make_contig(sizeof(uint64_t));
  param.reply_buffer = &entry.reply;
  return started(ucp().ucp_atomic_op_nbx(endpoint_, atomic_op(op.opcode), &entry.operand, 1,
                                         entry.target->base + op.offset, entry.target->rkey, &param),
                 pending);
}

// ---------------------------------------------------------------- rounds

void UcxChannel::close_round() {
  if (!rounds_.empty()) rounds_.back().closed = true;
}

void UcxChannel::seal(Round& round) {
  OCM_ASSERT(round.closed && !round.sealed && round.unissued == 0 && round.gating == 0);  // X3
  round.sealed = true;
  if (round.writes) {
    Pending* pending = make_pending(nullptr, &round, 0, false);
    const ucp_request_param_t param = request_param(pending);
    if (!started(ucp().ucp_ep_flush_nbx(endpoint_, &param), pending)) return;
  }
  for (Check& check : round.checks) {
    Pending* pending = make_pending(nullptr, &round, 0, false);
    const ucp_request_param_t param = request_param(pending);
    if (!started(ucp().ucp_get_nbx(endpoint_, &check.word, sizeof check.word, check.target->word_address,
                                   words_->rkey, &param),
                 pending)) {
      return;
    }
  }
}

void UcxChannel::complete_head() {
  while (issued_ > 0) {
    Entry& entry = entries_.front();
    Round* round = entry.round;
    if (round != nullptr) {
      if (!round->complete()) return;
      if (!round->checked) {
        round->checked = true;
        for (Check& check : round->checks) check.target->revoked |= check.word != check.target->word;
      }
      if (entry.target->revoked) entry.code = Code::kRevoked;
      entry.op->bytes_done = entry.op->bytes_sent;
      entry.op->old_value = entry.reply;
      if (entry.op->opcode == OpCode::kNotify && entry.code == Code::kOk) {
        Message wake;
        wake.type = MessageType::kWake;
        wake.connection = connection_;
        wake.extent = entry.target->id;
        wake.offset = entry.op->offset;
        send_message(endpoint_, wake);
      }
    }
    Op* op = entry.op;
    const Code code = entry.code;
    OCM_ASSERT(issued_ > 0 && entry.outstanding == 0);  // X1, X4
    entries_.pop_front();
    --issued_;
    // Its notify is next: it was not issued, for it waits until everything before it is complete (X2).
    if (op->notify != nullptr && code != Code::kOk) entries_.front().code = code;
    if (round != nullptr && --round->entries == 0) {
      OCM_ASSERT(round == &rounds_.front());
      rounds_.pop_front();
    }
    in_flight_.store(static_cast<uint32_t>(entries_.size()), std::memory_order_relaxed);
    op->finish(code);  // last: the owner may free it at once
  }
}

void UcxChannel::advance() {
  if (worker_ == nullptr) return;
  size_t issued_before = 0;
  do {
    complete_head();
    issued_before = entries_.size() - issued_;
    issue();
    close_round();
    for (Round& round : rounds_) {
      if (broken_) break;
      if (round.closed && !round.sealed && round.unissued == 0 && round.gating == 0) seal(round);
    }
    complete_head();
  } while (!broken_ && entries_.size() - issued_ != issued_before);
  if (broken_) lose(broken_why_);
  OCM_DASSERT(holds());
}

void UcxChannel::pump() {
  if (worker_ == nullptr) return;
  for (int i = 0; i < kPumpMax && worker_->progress() != 0 && !broken_; ++i) {
  }
}

void UcxChannel::flush() {
  std::lock_guard lock(mutex_);
  advance();
}

void UcxChannel::withdraw(Op& op) {
  std::lock_guard lock(mutex_);
  if (!op.done() || (op.notify != nullptr && !op.notify->done()))
    lose(Status(Code::kPeerLost, "ucx: an operation was taken back, and the connection with it"));
  OCM_DASSERT(op.done() && (op.notify == nullptr || op.notify->done()));
}

void UcxChannel::progress(uint64_t now_ns, uint64_t stall_ns) {
  std::lock_guard lock(mutex_);
  pump();
  advance();
  if (worker_ == nullptr) return;
  if (progressed_ || last_progress_ns_ == 0 || entries_.empty()) {
    progressed_ = false;
    last_progress_ns_ = now_ns;
  } else if (now_ns > last_progress_ns_ && now_ns - last_progress_ns_ > stall_ns) {
    lose(Status(Code::kPeerLost, "ucx: the home stopped answering"));
  }
}

Channel::PollOn UcxChannel::poll_on() {
  std::lock_guard lock(mutex_);
  if (worker_ == nullptr || !worker_->arm()) return {};
  return {worker_->event_fd(), POLLIN};
}

Status UcxChannel::health() const {
  std::lock_guard lock(mutex_);
  return health_;
}

// ---------------------------------------------------------------- the end

void UcxChannel::tear_down(bool force) {
  if (endpoint_ != nullptr) {
    bool closed = false;
    ucp_request_param_t param;
    std::memset(&param, 0, sizeof param);
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.flags = force ? static_cast<uint32_t>(UCP_EP_CLOSE_FLAG_FORCE) : 0u;
    param.user_data = &closed;
    param.cb.send = [](void* request, ucs_status_t, void* user_data) {
      *static_cast<bool*>(user_data) = true;
      ucp().ucp_request_free(request);
    };
    for (auto& [index, target] : targets_) target.reset();
    ucs_status_ptr_t request = ucp().ucp_ep_close_nbx(endpoint_, &param);
    endpoint_ = nullptr;
    if (!UCS_PTR_IS_PTR(request)) closed = true;
    const os::Deadline deadline = os::Deadline::after_ns(kTearDownNs);
    while ((!closed || requests_ != 0) && !deadline.passed()) worker_->progress();
    // Freed before its end, a request calls nobody back; the worker's end takes it.
    if (!closed) ucp().ucp_request_free(request);
  }
  targets_.clear();
  words_.reset();
}

void UcxChannel::lose(Status status) {
  if (worker_ == nullptr) return;
  health_ = Status(Code::kPeerLost, std::string(status.message()));
  tear_down(true);
  // Keys go before the worker that made them, and operations only when nothing can touch them (X4).
  std::deque<Entry> entries;
  entries.swap(entries_);
  for (Entry& entry : entries) entry.target.reset();
  for (Round& round : rounds_) {
    for (Check& check : round.checks) check.target.reset();
  }
  worker_.reset();
  rounds_.clear();
  issued_ = 0;
  in_flight_.store(0, std::memory_order_relaxed);
  for (Entry& entry : entries) entry.op->finish(entry.code != Code::kOk ? entry.code : Code::kPeerLost);
}

UcxChannel::~UcxChannel() {
  std::lock_guard lock(mutex_);
  // What is under way completes if it can: a home does not like connections cut in the middle.
  const os::Deadline deadline = os::Deadline::after_ns(kDrainNs);
  while (worker_ != nullptr && !entries_.empty() && !deadline.passed()) {
    pump();
    advance();
  }
  if (worker_ == nullptr) return;
  if (entries_.empty()) {
    if (endpoint_ != nullptr && connection_ != 0) {
      Message bye;
      bye.type = MessageType::kBye;
      bye.connection = connection_;
      send_message(endpoint_, bye);
    }
    tear_down(false);
    worker_.reset();
  } else {
    lose(Status(Code::kPeerLost, "ucx: the channel was closed"));
  }
}

}  // namespace ocm::fabric::ucx
