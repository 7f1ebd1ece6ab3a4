#include "cache/caches.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/assert.h"
#include "os/clock.h"
#include "os/crypto.h"

namespace ocm::cache {

class Caches::Clock {
 public:
  explicit Clock(const CachesOptions& options) : options_(options), bytes_(options.bytes) {}
  ~Clock() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  const CachesOptions& options() const { return options_; }
  void send_by(Send send, std::function<void()> all_sent) {
    OCM_ASSERT(!send_);
    send_ = std::move(send);
    all_sent_ = std::move(all_sent);
  }

  PageCache& of(uint64_t page_bytes) {
    OCM_ASSERT(is_page_length(page_bytes));
    const std::lock_guard making(making_);
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = caches_.find(page_bytes); known != caches_.end()) return known->second->cache;
    }
    const std::vector<PageCache*> others = all();
    const size_t count = others.size() + 1;
    for (PageCache* one : others) one->resize(frames(one->page_bytes(), count));
    auto made = std::make_unique<One>(*this, options_for(page_bytes, count));
    const std::lock_guard lock(mutex_);
    PageCache& cache = caches_.emplace(page_bytes, std::move(made)).first->second->cache;
    changed_due_ = true;
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    return cache;
  }
  void resize(uint64_t bytes) {
    const std::lock_guard making(making_);
    bytes_.store(bytes);
    const std::vector<PageCache*> every = all();
    for (PageCache* one : every) one->resize(frames(one->page_bytes(), every.size()));
  }
  uint64_t bytes() const { return bytes_.load(); }
  PageCache* find(uint64_t page_bytes) {
    const std::lock_guard lock(mutex_);
    const auto known = caches_.find(page_bytes);
    return known == caches_.end() ? nullptr : &known->second->cache;
  }
  std::vector<PageCache*> all() {
    const std::lock_guard lock(mutex_);
    std::vector<PageCache*> out;
    for (const auto& [length, one] : caches_) out.push_back(&one->cache);
    return out;
  }

 private:
  /// One of them, and what it asks.
  struct One final : PageCache::Ports {
    One(Clock& its, const PageCacheOptions& options) : clock(its), cache(*this, options) {}
    uint64_t now_ns() override { return os::now_ns(); }
    uint64_t random() override {
      uint64_t out = 0;
      os::fill_random(std::as_writable_bytes(std::span(&out, 1)));
      return out;
    }
    void send(NodeNumber to, const PacketHeader& header, const PageBytes& bytes) override {
      if (clock.send_) clock.send_(to, cache.page_bytes(), header, bytes);
    }
    void all_sent() override {
      if (clock.all_sent_) clock.all_sent_();
    }
    void due_changed() override { clock.due_changed(); }
    Clock& clock;
    PageCache cache;  // last: it ends before what it calls
  };

  /// Of one of `count` caches.
  uint32_t frames(uint64_t page_bytes, size_t count) const {
    constexpr uint64_t kFramesMost = 1u << 30;
    return static_cast<uint32_t>(
        std::clamp<uint64_t>(bytes_.load() / count / page_bytes, Budget::kFewest, kFramesMost));
  }
  PageCacheOptions options_for(uint64_t page_bytes, size_t count) const {
    PageCacheOptions out;
    out.self = options_.self;
    out.page_bytes = page_bytes;
    out.frames = frames(page_bytes, count);
    out.term_ns = out.give_up_ns = options_.failure_deadline_ns / 2;
    out.cooperates = options_.cooperates;
    out.home.overdue_ns = options_.failure_deadline_ns;
    return out;
  }

  void due_changed() {
    {
      const std::lock_guard lock(mutex_);
      changed_due_ = true;
    }
    changed_.notify_all();
  }
  void run() {
    std::unique_lock lock(mutex_);
    while (!ends_) {
      changed_due_ = false;
      lock.unlock();
      const uint64_t now_ns = os::now_ns();
      uint64_t due_ns = ~uint64_t{0};
      bool ticked = false;
      for (PageCache* one : all()) {
        const uint64_t its_ns = one->due_ns();
        if (its_ns <= now_ns) {
          one->tick();
          ticked = true;
        }
        due_ns = std::min(due_ns, its_ns);
      }
      lock.lock();
      if (ticked) continue;
      const auto is_changed = [&] { return ends_ || changed_due_; };
      if (due_ns == ~uint64_t{0})
        changed_.wait(lock, is_changed);
      else
        changed_.wait_for(lock, std::chrono::nanoseconds(due_ns - now_ns), is_changed);
    }
  }

  const CachesOptions options_;
  std::atomic<uint64_t> bytes_;  // changed under making_
  Send send_;
  std::function<void()> all_sent_;
  std::mutex making_;  // of() and resize(), one at a time, without the lock below
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false, changed_due_ = false;
  std::map<uint64_t, std::unique_ptr<One>> caches_;
  std::thread thread_;
};

Caches::Caches(const CachesOptions& options) : clock_(std::make_unique<Clock>(options)) {}
Caches::~Caches() = default;
NodeNumber Caches::self() const { return clock_->options().self; }
uint64_t Caches::bytes() const { return clock_->bytes(); }
void Caches::resize(uint64_t bytes) { clock_->resize(bytes); }
void Caches::send_by(Send send, std::function<void()> all_sent) {
  clock_->send_by(std::move(send), std::move(all_sent));
}
PageCache& Caches::of(uint64_t page_bytes) { return clock_->of(page_bytes); }
PageCache* Caches::find(uint64_t page_bytes) { return clock_->find(page_bytes); }
std::vector<PageCache*> Caches::all() { return clock_->all(); }

uint64_t Caches::allow(const ExtentId& extent, NodeNumber node, bool writes) {
  for (PageCache* one : all()) {
    if (one->allow(extent, node, writes).is_ok()) return one->page_bytes();
  }
  return 0;
}

void Caches::run_is_over(NodeNumber node) {
  if (node == self()) return;
  for (PageCache* one : all()) one->run_is_over(node);
}

}  // namespace ocm::cache
