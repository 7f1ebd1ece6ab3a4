// One client's connection to one home over UCX: a worker, an endpoint, and the queue of operations.
//
//   post -> waiting --issue--> issued --(data done, round sealed and checked)--> done, in post order
//
// A round is a run of operations that share one remote completion: a flush if any of them writes, and one
// read of each extent's generation word. flush() and progress() close the open round; it is sealed (flush
// and reads are posted) when its operations are issued and its long gets have their bytes.
//
// Invariants
//   X1 Entries complete from the head only, so in post order.
//   X2 An entry is issued only if it does not overlap an issued one of the same extent where either
//      writes: UCX orders nothing between its operations.
//   X3 The word is read after a get's bytes: short gets by the order of one lane, long ones by waiting (and
//      atomics, where the card does not do them). A put needs no order: an extent that lives after post()
//      makes the put one that came before the revoke.
//   X4 No Op is finished while UCX may touch its buffer: a broken channel closes its endpoint first, and
//      destroys its worker if that does not end every request.
//   X5 Callbacks run inside worker progress under mutex_; they only count and set broken_.
//
// Threads: any; mutex_ serialises.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "fabric/ucx/active_message.h"
#include "fabric/ucx/channel.h"

namespace ocm::fabric::ucx {

class UcxChannel final : public Channel {
 public:
  static Result<std::unique_ptr<Channel>> connect(std::shared_ptr<Context> context,
                                                  const std::string& address, const Credentials& who,
                                                  os::Deadline deadline);
  ~UcxChannel() override;

  Result<uint32_t> attach(const ExtentDescriptor& extent, Access access, os::Deadline deadline) override;
  void detach(uint32_t index) override;
  void post(Op& op) override;
  void withdraw(Op& op) override;
  void flush() override;
  void progress(uint64_t now_ns, uint64_t stall_ns) override;
  uint64_t moved_total() const override { return moved_total_.load(std::memory_order_relaxed); }
  PollOn poll_on() override;
  Status health() const override;
  uint32_t in_flight() const override { return in_flight_.load(std::memory_order_relaxed); }
  /// X1, X2 and X4 between calls, and that what is under way is counted once. Cost: all of it.
  bool is_valid() const;

 private:
  /// An attached extent; shared by the operations on it. Ends before the worker does.
  struct Target {
    ExtentId id;
    Access access = Access::kRead;
    uint64_t base = 0;
    uint64_t bytes = 0;
    uint64_t word_address = 0;
    uint64_t word = 0;
    ucp_rkey_h rkey = nullptr;
    bool revoked = false;  // seen by a round; stays
    ~Target() {
      if (rkey != nullptr) ucp().ucp_rkey_destroy(rkey);
    }
  };
  struct Check {
    std::shared_ptr<Target> target;
    uint64_t word = 0;  // what the home's word held
  };
  struct Round {
    uint32_t entries = 0;      // not yet completed
    uint32_t unissued = 0;     // started, but not with their last byte
    uint32_t outstanding = 0;  // data requests
    uint32_t gating = 0;       // of those, long gets
    uint32_t sealing = 0;      // flush and word requests
    bool writes = false;
    bool closed = false;
    bool sealed = false;
    bool checked = false;
    std::deque<Check> checks;
    bool complete() const { return sealed && outstanding == 0 && sealing == 0; }
  };
  struct Entry {
    Op* op = nullptr;
    std::shared_ptr<Target> target;
    Round* round = nullptr;  // null: nothing goes to the network
    Code code = Code::kOk;
    uint32_t outstanding = 0;
    bool started = false;
    bool issued = false;
    uint64_t operand = 0;  // atomics: what UCX reads, and where it answers
    uint64_t reply = 0;
  };
  /// One UCX request of ours.
  struct Pending {
    UcxChannel* channel = nullptr;
    Entry* entry = nullptr;  // null: part of a seal
    Round* round = nullptr;
    uint64_t bytes = 0;
    bool gating = false;
  };

  explicit UcxChannel(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  Status open_endpoint(const std::string& worker_address);
  Status authenticate(const Credentials& who, os::Deadline deadline);
  void on_message(const Message& message);
  /// Sends a request and waits for its answer. Errors: kPeerLost.
  Result<Message> call(Message message, os::Deadline deadline);
  /// Waits until `done()` (called with mutex_ held) or the deadline. False: broken or too late.
  template <class Done>
  bool wait_until(std::unique_lock<std::mutex>& lock, os::Deadline deadline, Done done);

  Code validate(const Op& op, const Target* target) const;
  /// Appends it to entries_; the channel is lost: it ends.
  void enter(Op& op);
  bool conflicts(const Entry& entry) const;
  void issue();
  bool issue_data(Entry& entry);
  bool issue_atomic(Entry& entry);
  void join_round(Entry& entry);
  void close_round();
  void seal(Round& round);
  void complete_head();
  /// Everything that can move now: issue, seal, complete; and break if a callback said so.
  void advance();
  void pump();
  /// Accounts for what an *_nbx call returned. False: it failed.
  bool started(ucs_status_ptr_t request, Pending* pending);
  void ended(Pending* pending, ucs_status_t status);
  Pending* make_pending(Entry* entry, Round* round, uint64_t bytes, bool gating);
  ucp_request_param_t request_param(Pending* pending) const;
  void lose(Status status);
  bool holds() const;  // is_valid(), with mutex_ held
  void tear_down(bool force);
  static void on_request(void* request, ucs_status_t status, void* user_data);

  const std::shared_ptr<Context> context_;
  mutable std::mutex mutex_;
  Status health_;
  MessageSink sink_;
  std::unique_ptr<Worker> worker_;  // null once broken
  ucp_ep_h endpoint_ = nullptr;
  bool broken_ = false;  // set by callbacks
  Status broken_why_;

  std::shared_ptr<Target> words_;  // the home's table of generation words

  Nonce server_nonce_{};
  uint64_t connection_ = 0;
  uint64_t next_request_ = 1;
  std::map<uint64_t, Message> replies_;  // only of requests under way
  std::map<uint64_t, bool> calls_;       // requests under way

  std::unordered_map<uint32_t, std::shared_ptr<Target>> targets_;
  uint32_t next_index_ = 1;
  std::deque<Entry> entries_;  // references stay good: only the ends change
  size_t issued_ = 0;          // the first so many entries are issued
  std::deque<Round> rounds_;
  uint64_t bytes_in_flight_ = 0;
  uint32_t requests_ = 0;
  uint64_t last_progress_ns_ = 0;  // 0: to be set by the next progress()
  bool progressed_ = false;
  std::atomic<uint32_t> in_flight_{0};
  std::atomic<uint64_t> moved_total_{0};  // requests that ended
  std::vector<std::unique_ptr<Pending>> pool_;
  std::vector<Pending*> pool_free_;
};

}  // namespace ocm::fabric::ucx
