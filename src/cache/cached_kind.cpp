#include "cache/cached_kind.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "memory/staged_memory.h"

namespace ocm::cache {

namespace {

class CachedBacking final : public memory::Backing {
 public:
  CachedBacking(std::shared_ptr<Caches> caches, PageCache& cache, std::unique_ptr<memory::Backing> inner)
      : caches_(std::move(caches)), cache_(cache), inner_(std::move(inner)) {}
  ~CachedBacking() override { stop(nullptr); }

  void named(const ExtentId& id) override {
    OCM_ASSERT(extent_ == nullptr);
    id_ = id;
    const uint64_t bytes = inner_->bytes();
    const auto ended = [inner = inner_, idle = idle_](Staged*) mutable {
      inner.reset();  // before its pool may go
      if (*idle) (*idle)();
    };
    device_ = std::shared_ptr<Staged>(inner_->staged(), ended);
    cache_.add(id_, bytes, device_, {});
    const Status allowed = cache_.allow(id_, caches_->self(), true);
    OCM_ASSERT(allowed.is_ok());
    extent_ = std::make_unique<CachedExtent>(cache_, id_, bytes);
  }

  Staged* staged() override { return extent_.get(); }
  bool has_file() override { return inner_->has_file(); }
  /// Its pages are dropped, also those that the device has not got; some are on their way there.
  void stop(std::function<void()> idle) override {
    if (extent_ == nullptr) {
      if (idle) idle();
      return;
    }
    *idle_ = std::move(idle);
    cache_.remove(id_);
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
  const std::shared_ptr<Caches> caches_;
  PageCache& cache_;
  const std::shared_ptr<memory::Backing> inner_;
  ExtentId id_;
  /// Told when nobody has `device_` any more, which who has begun something there keeps.
  const std::shared_ptr<std::function<void()>> idle_ = std::make_shared<std::function<void()>>();
  std::shared_ptr<Staged> device_;
  std::unique_ptr<CachedExtent> extent_;
};

class CachedKind final : public memory::KindBackend {
 public:
  CachedKind(std::unique_ptr<memory::KindBackend> inner, std::shared_ptr<Caches> caches)
      : inner_(std::move(inner)), caches_(std::move(caches)) {}

  Kind kind() const override { return inner_->kind(); }
  memory::ExtentOptions completed(memory::ExtentOptions options) const override {
    return inner_->completed(options);
  }
  /// A coherent extent has whole pages of the cache: each of them is one node's at a time.
  uint64_t page_bytes(const memory::ExtentOptions& options) const override {
    const uint64_t its = inner_->page_bytes(options);
    return options.coherent ? std::max(its, inner_->cached_page_bytes()) : its;
  }
  uint64_t cached_page_bytes() const override { return inner_->cached_page_bytes(); }
  Result<std::unique_ptr<memory::Backing>> make(uint64_t bytes,
                                                const memory::ExtentOptions& options) override {
    OCM_TRY_ASSIGN(std::unique_ptr<memory::Backing> made, inner_->make(bytes, options));
    if (options.coherent && made->staged() == nullptr) {
      OCM_TRY_ASSIGN(made, memory::staged_over_memory(std::move(made)));
    }
    if (options.durable || made->staged() == nullptr) return made;
    PageCache& cache = caches_->of(inner_->cached_page_bytes());
    return std::unique_ptr<memory::Backing>(std::make_unique<CachedBacking>(caches_, cache, std::move(made)));
  }
  uint64_t ready_bytes() const override { return inner_->ready_bytes(); }
  void keep_ready_within(uint64_t free_bytes) override { inner_->keep_ready_within(free_bytes); }
  bool lasts() const override { return inner_->lasts(); }
  Result<std::vector<Survivor>> survivors() override { return inner_->survivors(); }
  void promise(std::function<void(Status)> done) override { inner_->promise(std::move(done)); }

 private:
  const std::unique_ptr<memory::KindBackend> inner_;
  const std::shared_ptr<Caches> caches_;
};

}  // namespace

std::unique_ptr<memory::KindBackend> with_cache(std::unique_ptr<memory::KindBackend> backend,
                                                std::shared_ptr<Caches> caches) {
  return std::make_unique<CachedKind>(std::move(backend), std::move(caches));
}

}  // namespace ocm::cache
