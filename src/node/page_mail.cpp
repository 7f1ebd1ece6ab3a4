#include "node/page_mail.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/assert.h"
#include "node/as_daemon.h"
#include "os/crypto.h"
#include "os/interrupt.h"

namespace ocm::node {

namespace {

/// A daemon sends another one so many at once: while one is read there others are on their way.
constexpr size_t kBatchesAtOnce = 8;
constexpr int kLookMs = 20;
/// Couriers have fewer under way (B2): 64 for each of their channels.
constexpr size_t kWaitingMost = 4096;
constexpr uint64_t kAgainNs = 100'000'000;

}  // namespace

/// What comes: read in the data server's worker.
class PageMail::Box final : public Staged {
 public:
  Box(uint32_t self, cache::Caches& caches) : self_(self), caches_(caches) {}
  void read(uint64_t, std::span<std::byte>, Done done) override { done(Code::kPermission); }
  void modify(uint64_t, std::function<void(std::byte*)>, Done done) override { done(Code::kPermission); }
  void write(uint64_t offset, std::span<const std::byte> from, Done done) override {
    cache::PageCache* cache = nullptr;
    const auto wanted = [&](const cache::BatchHead& head) {
      cache = head.to == self_ ? caches_.find(head.page_bytes) : nullptr;
      return cache != nullptr;  // else it is for another run, or of no extent that is known here
    };
    const auto each = [&](const cache::BatchHead& head, std::span<const std::byte> header,
                          cache::PageBytes bytes) {
      (void)cache->receive(head.from, header, std::move(bytes));
    };
    const bool good = offset == 0 && cache::read_batch(from, wanted, each);
    done(good ? Status() : Status(Code::kInvalidArgument, "no packets of a page cache"));
  }

 private:
  const uint32_t self_;
  cache::Caches& caches_;
};

/// What leaves for one run of a daemon.
///
/// Who has something to send sends it, and what others add meanwhile: one at a time. The thread connects, and looks after
/// what the network does not take at once, or does not answer.
class PageMail::Sender {
 public:
  Sender(const Core& core, Directory& directory, const control::NodeInfo& node)
      : core_(core),
        to_(node.partition),
        who_(credentials_of(core, directory)),
        address_(checked_address(node.addresses)) {
    who_.node = node.name;
    if (const fabric::Entry* entry = fabric::find_entry(address_.fabric); entry != nullptr)
      connector_ = fabric::connector_of(*entry, {});
    mailbox_.id = mailbox_of(to_);
    mailbox_.bytes = cache::kBatchBytesMost;
    mailbox_.capability = capability_of(core.token, to_);
    mailbox_.node = node.name;
  }
  ~Sender() { OCM_ASSERT(!thread_.joinable()); }

  void push(uint64_t page_bytes, cache::Sent packet) {
    {
      const std::lock_guard lock(mutex_);
      if (ends_.load() || connector_ == nullptr || waiting_.size() >= kWaitingMost) return;  // B2
      if (!is_started()) return;
      waiting_.push_back({page_bytes, std::move(packet)});
      has_waiting_.store(true);
    }
  }
  /// What was pushed leaves.
  void flush() {
    if (has_waiting_.load()) one_at_a_time([this] { send_what_waits(false); });
  }
  bool has_waiting() const { return has_waiting_.load(); }
  void end() {
    const std::lock_guard lock(mutex_);
    ends_.store(true);
    if (thread_.joinable())
      ring();
    else
      has_ended_.store(true);
  }
  /// After end(): join() does not wait.
  bool has_ended() const { return has_ended_.load(); }
  /// After end().
  void join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  struct Waiting {
    uint64_t page_bytes;
    cache::Sent packet;
  };
  struct Plan {
    pollfd on = {-1, 0, 0};
    int timeout_ms = -1;
  };
  struct Flight {
    fabric::Op op;
    cache::BatchBytes message;
  };

  /// False: the system has no thread or no descriptor now.
  bool is_started() {
    if (thread_.joinable()) return true;
    if (!bell_.is_open()) bell_ = os::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!bell_.is_open()) return false;
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }
  void ring() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(bell_.get(), &one, sizeof(one));
  }

  /// Runs `what`, one thread at a time: who finds another one in it leaves it to that one.
  template <class What>
  void one_at_a_time(What what) {
    uint32_t asked = 1;
    if (asked_.fetch_add(1) != 0) return;
    do {
      what();
      asked = asked_.fetch_sub(asked) - asked;
    } while (asked != 0);
  }
  void send_what_waits(bool is_thread) {
    if (is_thread && has_waiting()) connect();
    if (channel_ != nullptr) look();
    while (!ends_.load() && can_post()) {
      const std::optional<cache::Batch> batch = take();
      if (!batch.has_value()) break;
      post(*batch);
    }
    plan(is_thread);
  }
  bool can_post() const {
    return channel_ != nullptr && channel_->is_usable() && flights_.size() < kBatchesAtOnce;
  }
  /// What the thread is to wait for; it is told if that is more than it does.
  void plan(bool is_thread) {
    Plan next;
    if (channel_ != nullptr && !flights_.empty()) {
      const fabric::Channel::PollOn on = channel_->poll_on();
      const bool is_full = flights_.size() >= kBatchesAtOnce;
      if (is_full || (on.events & POLLOUT) != 0) next.on = {on.fd, on.events, 0};
      next.timeout_ms = on.fd < 0 ? 1 : kLookMs;
    }
    const std::lock_guard lock(mutex_);
    const bool is_more = (next.on.events & ~plan_.on.events) != 0 ||
                         (plan_.timeout_ms < 0 && next.timeout_ms >= 0) || (!waiting_.empty() && !can_post());
    plan_ = next;
    if (is_more && !is_thread) ring();
  }
  void look() {
    channel_->progress(os::now_ns(), core_.config.failure_deadline_ns());
    while (!flights_.empty() && flights_.front()->op.done()) flights_.pop_front();
  }
  void post(const cache::Batch& batch) {
    auto flight = std::make_unique<Flight>();
    flight->message = batch.write();
    flight->op.opcode = fabric::OpCode::kPut;
    flight->op.index = index_;
    flight->op.local = flight->message.bytes.get();
    flight->op.bytes = flight->message.count;
    channel_->post(flight->op);
    channel_->flush();
    flights_.push_back(std::move(flight));
  }

  std::optional<cache::Batch> take() {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) return std::nullopt;
    cache::Batch batch(core_.partition, to_, waiting_.front().page_bytes);
    while (!waiting_.empty() && waiting_.front().page_bytes == batch.page_bytes() &&
           batch.has_room(waiting_.front().packet)) {
      batch.add(std::move(waiting_.front().packet));
      waiting_.pop_front();
    }
    OCM_ASSERT(batch.count() != 0);  // send() takes no page that does not fit
    has_waiting_.store(!waiting_.empty());
    return batch;
  }
  void drop_all() {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
    has_waiting_.store(false);
  }

  void run() {
    const os::InterruptedBy its_end(
        [](int, void* self) { return static_cast<Sender*>(self)->ends_.load() ? 1 : 0; }, this);
    while (!ends_.load()) {
      one_at_a_time([this] { send_what_waits(true); });
      sleep();
    }
    for (bool ended = false; !ended; std::this_thread::yield()) {
      one_at_a_time([&] {
        disconnect();
        ended = true;
      });
    }
    has_ended_.store(true);
  }

  void disconnect() {
    if (channel_ == nullptr) return;
    for (const auto& flight : flights_) channel_->withdraw(flight->op);
    flights_.clear();
    channel_.reset();
  }
  /// The thread's: there is a channel that can be used, or all that waits is dropped. One that could not be made is tried
  /// again after a while.
  void connect() {
    if (channel_ != nullptr && channel_->is_usable()) return;
    disconnect();
    if (os::now_ns() < again_ns_) return drop_all();
    const os::Deadline deadline = os::Deadline::after_ns(core_.config.failure_deadline_ns());
    auto made = connector_->connect(address_, who_, deadline);
    if (made.is_ok()) {
      auto index = (*made)->attach(mailbox_, Access::kReadWrite, deadline);
      if (index.is_ok()) {
        channel_ = std::move(*made);
        index_ = *index;
        return;
      }
    }
    again_ns_ = os::now_ns() + kAgainNs;
    drop_all();
  }

  /// The thread's: until it is rung for, the channel takes or says something that is waited for, or it is time to look.
  void sleep() {
    Plan plan;
    {
      const std::lock_guard lock(mutex_);
      plan = plan_;
    }
    pollfd on[2] = {{bell_.get(), POLLIN, 0}, plan.on};
    ::poll(on, 2, plan.timeout_ms);
    uint64_t rung = 0;
    [[maybe_unused]] const ssize_t got = ::read(bell_.get(), &rung, sizeof(rung));
  }

  const Core& core_;
  const uint32_t to_;
  fabric::Credentials who_;
  const FabricAddress address_;
  fabric::Connector* connector_ = nullptr;  // null: it serves no fabric that leads there
  ExtentDescriptor mailbox_;
  std::atomic<bool> ends_{false}, has_ended_{false};
  std::mutex mutex_;  // guards these
  std::deque<Waiting> waiting_;
  std::atomic<bool> has_waiting_{false};  // waiting_ has some; also read without it
  Plan plan_;
  os::Fd bell_;                     // opened before the thread starts
  std::thread thread_;              // started once
  std::atomic<uint32_t> asked_{0};  // of one_at_a_time(), which guards these
  std::unique_ptr<fabric::Channel> channel_;
  uint32_t index_ = 0;
  std::deque<std::unique_ptr<Flight>> flights_;
  uint64_t again_ns_ = 0;
};

PageMail::PageMail(Core& core, Directory& directory, cache::Caches& caches)
    : core_(core), directory_(directory), caches_(caches) {
  const bool is_new = directory.serve(mailbox_of(core.partition), cache::kBatchBytesMost,
                                      capability_of(core.token, core.partition),
                                      std::make_shared<Box>(core.partition, caches));
  OCM_ASSERT(is_new);
  caches.send_by([this](cache::NodeNumber to, uint64_t page_bytes, const cache::PacketHeader& header,
                        const cache::PageBytes& bytes) { send(to, page_bytes, header, bytes); },
                 [this] { flush(); });
}

PageMail::~PageMail() { stop(); }

Capability PageMail::capability_of(std::span<const std::byte> token, uint32_t partition) {
  const os::Digest digest =
      os::hmac_sha256(token, {os::bytes_of("oncilla page mailbox"), std::as_bytes(std::span(&partition, 1))});
  Capability out;
  std::copy_n(digest.begin(), out.bytes.size(), out.bytes.begin());
  return out;
}

void PageMail::node_appeared(const control::NodeInfo& node) {
  if (node.partition == 0 || node.partition == core_.partition) return;
  uint32_t& run = runs_[node.name];
  const uint32_t former = std::exchange(run, node.partition);
  if (former == node.partition) return;
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_) return;
    if (const auto old = senders_.find(former); old != senders_.end()) {
      old->second->end();
      ended_.push_back(std::move(old->second));
      senders_.erase(old);
    }
    std::erase_if(ended_, [](const std::shared_ptr<Sender>& one) {
      if (!one->has_ended()) return false;
      one->join();
      return true;
    });
    senders_[node.partition] = std::make_shared<Sender>(core_, directory_, node);
  }
  if (former != 0) caches_.run_is_over(former);
}

void PageMail::send(cache::NodeNumber to, uint64_t page_bytes, const cache::PacketHeader& header,
                    const cache::PageBytes& bytes) {
  OCM_ASSERT(cache::Batch::pages_fit(page_bytes));
  std::shared_ptr<Sender> sender;
  {
    const std::lock_guard lock(mutex_);
    const auto known = senders_.find(to);
    if (known == senders_.end()) return;
    sender = known->second;
  }
  sender->push(page_bytes, {header, bytes});
}

void PageMail::flush() {
  std::vector<std::shared_ptr<Sender>> senders;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [run, sender] : senders_) {
      if (sender->has_waiting()) senders.push_back(sender);
    }
  }
  for (const auto& sender : senders) sender->flush();
}

void PageMail::stop() {
  std::map<cache::NodeNumber, std::shared_ptr<Sender>> senders;
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    senders.swap(senders_);
  }
  for (const auto& [run, sender] : senders) {
    sender->end();
    ended_.push_back(sender);
  }
  for (const auto& sender : ended_) sender->join();
  ended_.clear();
}

}  // namespace ocm::node
