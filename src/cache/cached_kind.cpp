#include "cache/cached_kind.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/assert.h"
#include "os/clock.h"
#include "os/crypto.h"

namespace ocm::cache {

namespace {

constexpr NodeNumber kSelf = 1;  // nobody else's cache has these pages

PageCacheOptions options_of(const CachedKindOptions& options, uint64_t page_bytes) {
  PageCacheOptions out;
  out.self = kSelf;
  out.page_bytes = page_bytes;
  constexpr uint64_t kFramesMost = 1u << 30;
  out.frames =
      static_cast<uint32_t>(std::clamp<uint64_t>(options.bytes / page_bytes, Budget::kFewest, kFramesMost));
  out.give_up_ns = options.failure_deadline_ns / 2;
  out.home.overdue_ns = options.failure_deadline_ns;
  return out;
}

}  // namespace

class KindCache::Clock final : public PageCache::Ports {
 public:
  Clock(const CachedKindOptions& options, uint64_t page_bytes)
      : cache_(*this, options_of(options, page_bytes)), thread_([this] { run(); }) {}
  ~Clock() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  PageCache& cache() { return cache_; }
  ExtentId next_id() { return {GlobalAddress(kSelf, (next_++ % kIds + 1) << 12), 1}; }

  uint64_t now_ns() override { return os::now_ns(); }
  uint64_t random() override {
    uint64_t out = 0;
    os::fill_random(std::as_writable_bytes(std::span(&out, 1)));
    return out;
  }
  void send(NodeNumber, const PacketHeader&, const PageBytes&) override { OCM_ASSERT(false); }
  void due_changed() override {
    {
      const std::lock_guard lock(mutex_);
      changed_due_ = true;
    }
    changed_.notify_all();
  }

 private:
  static constexpr uint64_t kIds = uint64_t{1} << 27;
  void run() {
    std::unique_lock lock(mutex_);
    while (!ends_) {
      changed_due_ = false;
      lock.unlock();
      const uint64_t due = cache_.due_ns(), now = os::now_ns();
      if (due <= now) cache_.tick();
      lock.lock();
      if (due <= now) continue;
      constexpr uint64_t kLongestNs = 1'000'000'000;
      changed_.wait_for(lock, std::chrono::nanoseconds(std::min(due - now, kLongestNs)),
                        [&] { return ends_ || changed_due_; });
    }
  }

  std::atomic<uint64_t> next_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false, changed_due_ = false;
  PageCache cache_;  // ends before what it calls
  std::thread thread_;
};

KindCache::KindCache(const CachedKindOptions& options, uint64_t page_bytes)
    : clock_(std::make_unique<Clock>(options, page_bytes)) {}
KindCache::~KindCache() = default;
PageCache& KindCache::pages() { return clock_->cache(); }
ExtentId KindCache::next_id() { return clock_->next_id(); }

namespace {

class CachedBacking final : public memory::Backing {
 public:
  CachedBacking(std::shared_ptr<KindCache> cache, std::unique_ptr<memory::Backing> inner)
      : cache_(std::move(cache)), inner_(std::move(inner)), id_(cache_->next_id()) {
    const uint64_t bytes = inner_->bytes();
    const auto ended = [inner = inner_, idle = idle_](Staged*) mutable {
      inner.reset();  // before its pool may go
      if (*idle) (*idle)();
    };
    device_ = std::shared_ptr<Staged>(inner_->staged(), ended);
    cache_->pages().add(id_, bytes, device_, {});
    const Status allowed = cache_->pages().allow(id_, kSelf, true);
    OCM_ASSERT(allowed.is_ok());
    extent_ = std::make_unique<CachedExtent>(cache_->pages(), id_, bytes);
  }
  ~CachedBacking() override { stop(nullptr); }

  Staged* staged() override { return extent_.get(); }
  /// Its pages are dropped, also those that the device has not got; some are on their way there.
  void stop(std::function<void()> idle) override {
    if (extent_ == nullptr) {
      if (idle) idle();
      return;
    }
    *idle_ = std::move(idle);
    cache_->pages().remove(id_);
    extent_.reset();
    device_.reset();
  }
  bool ends_whole() override { return inner_->ends_whole(); }
  uint64_t bytes() const override { return inner_->bytes(); }
  Result<std::byte*> data() override { return inner_->data(); }
  Result<os::Fd> share(Access access) override { return inner_->share(access); }
  void discard(uint64_t offset, uint64_t bytes) override {
    OCM_ASSERT(extent_ == nullptr);  // it was stopped
    inner_->discard(offset, bytes);
  }

 private:
  const std::shared_ptr<KindCache> cache_;
  const std::shared_ptr<memory::Backing> inner_;
  const ExtentId id_;
  /// Told when nobody has `device_` any more, which who has begun something there keeps.
  const std::shared_ptr<std::function<void()>> idle_ = std::make_shared<std::function<void()>>();
  std::shared_ptr<Staged> device_;
  std::unique_ptr<CachedExtent> extent_;
};

class CachedKind final : public memory::KindBackend {
 public:
  CachedKind(std::unique_ptr<memory::KindBackend> inner, std::shared_ptr<KindCache> cache)
      : inner_(std::move(inner)), cache_(std::move(cache)) {}

  Kind kind() const override { return inner_->kind(); }
  memory::ExtentOptions completed(memory::ExtentOptions options) const override {
    return inner_->completed(options);
  }
  uint64_t page_bytes(const memory::ExtentOptions& options) const override {
    return inner_->page_bytes(options);
  }
  Result<std::unique_ptr<memory::Backing>> make(uint64_t bytes,
                                                const memory::ExtentOptions& options) override {
    OCM_TRY_ASSIGN(std::unique_ptr<memory::Backing> made, inner_->make(bytes, options));
    if (options.durable || made->staged() == nullptr) return made;
    return std::unique_ptr<memory::Backing>(std::make_unique<CachedBacking>(cache_, std::move(made)));
  }
  uint64_t ready_bytes() const override { return inner_->ready_bytes(); }
  void keep_ready_within(uint64_t free_bytes) override { inner_->keep_ready_within(free_bytes); }
  bool lasts() const override { return inner_->lasts(); }
  Result<std::vector<Survivor>> survivors() override { return inner_->survivors(); }
  void promise(std::function<void(Status)> done) override { inner_->promise(std::move(done)); }

 private:
  const std::unique_ptr<memory::KindBackend> inner_;
  const std::shared_ptr<KindCache> cache_;  // ends before what it has pages of
};

}  // namespace

std::unique_ptr<memory::KindBackend> with_cache(std::unique_ptr<memory::KindBackend> backend,
                                                const CachedKindOptions& options,
                                                std::shared_ptr<KindCache>& cache) {
  cache = std::make_shared<KindCache>(options, backend->page_bytes({}));
  return std::make_unique<CachedKind>(std::move(backend), cache);
}

}  // namespace ocm::cache
