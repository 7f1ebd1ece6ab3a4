#include "memory/nvme/durable.h"

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "base/mutation.h"
#include "base/units.h"

namespace ocm::memory::nvme {
namespace {

/// Of one extent.
class InPool final : public Lasting {
 public:
  InPool(DurablePool& pool, const ExtentId& id) : pool_(pool), id_(id) {}
  Status keep(std::string description) override { return pool_.named(id_, std::move(description)); }
  Status forget() override { return pool_.unnamed(id_); }

 private:
  DurablePool& pool_;
  const ExtentId id_;
};

}  // namespace

/// Pages whose writes are done when they are promised.
class DurablePool::LastingPages final : public Backing, public Staged {
 public:
  LastingPages(DurablePool& pool, const ExtentId& id, std::unique_ptr<Backing> pages)
      : pool_(pool), pages_(std::move(pages)), lasting_(std::make_shared<InPool>(pool, id)) {
    OCM_ASSERT(pages_ != nullptr && pages_->staged() != nullptr);
  }

  Staged* staged() override { return this; }
  std::shared_ptr<Lasting> lasting() override { return lasting_; }
  bool ends_whole() override { return pages_->ends_whole(); }
  uint64_t bytes() const override { return pages_->bytes(); }
  Result<std::byte*> data() override { return pages_->data(); }
  Result<os::Fd> share(Access access) override { return pages_->share(access); }
  void discard(uint64_t offset, uint64_t bytes) override { pages_->discard(offset, bytes); }

  void read(uint64_t offset, std::span<std::byte> into, Done done) override {
    pages_->staged()->read(offset, into, std::move(done));
  }
  void write(uint64_t offset, std::span<const std::byte> from, Done done) override {
    pages_->staged()->write(offset, from, promised(std::move(done)));
  }
  void modify(uint64_t offset, std::function<void(std::byte*)> change, Done done) override {
    pages_->staged()->modify(offset, std::move(change), promised(std::move(done)));
  }

 private:
  Done promised(Done done) {
    return [&pool = pool_, done = std::move(done)](Status status) mutable {
      if (!status.is_ok()) return done(std::move(status));
      pool.promise(std::move(done));
    };
  }

  DurablePool& pool_;
  const std::unique_ptr<Backing> pages_;
  const std::shared_ptr<Lasting> lasting_;
};

DurablePool::DurablePool(Queue& queue, std::unique_ptr<Store> store, std::chrono::milliseconds within)
    : PagePool(queue, store->geometry().slot_at(0), store->geometry().slots, store->geometry().slot_bytes),
      within_(within),
      geometry_(store->geometry()),
      store_(std::move(store)) {
  for (const auto& [id, extent] : store_->contents().extents()) pages_ += count_of(extent.bytes);
}

Result<std::unique_ptr<DurablePool>> DurablePool::open(Queue& queue, std::unique_ptr<Store> store,
                                                       std::chrono::milliseconds within) {
  const Geometry& geometry = store->geometry();
  if (geometry.slots >= kSlotsMax) {
    return Status(Code::kInvalidArgument, "a pool of " + format_bytes(geometry.device_bytes) +
                                              " has more pages of " + format_bytes(geometry.slot_bytes) +
                                              " than 2^32: make it with larger ones");
  }
  try {
    std::unique_ptr<DurablePool> pool(new DurablePool(queue, std::move(store), within));
    pool->thread_ = std::thread([raw = pool.get()] { raw->loop(); });
    return pool;
  } catch (const std::bad_alloc&) {
    return Status(Code::kNoMemory, "no memory for the buffers of a durable pool");
  } catch (const std::system_error&) {
    return Status(Code::kNoMemory, "no thread for a durable pool");
  }
}

DurablePool::~DurablePool() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    OCM_ASSERT(backed_.empty() && writing_ == 0);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  OCM_DASSERT(want_slot_.empty() && want_promise_.empty() && is_valid());
}

// ---- extents

std::vector<DurablePool::Extent> DurablePool::extents() const {
  std::lock_guard lock(mutex_);
  std::vector<Extent> out;
  for (const auto& [id, extent] : store_->contents().extents())
    out.push_back({id, extent.bytes, extent.name});
  return out;
}

Result<std::unique_ptr<Backing>> DurablePool::backing_of(const ExtentId& id) {
  std::lock_guard lock(mutex_);
  const auto extent = store_->contents().extents().find(id);
  if (extent == store_->contents().extents().end())
    return Status(Code::kNotFound, "the pool has no such extent");
  OCM_ASSERT(!backed_.contains(id));
  OCM_TRY_ASSIGN(auto out, make_pages(id, extent->second.bytes, extent->second.pages));
  backed_.insert(id);
  return out;
}

Result<std::unique_ptr<Backing>> DurablePool::make(const ExtentId& id, uint64_t bytes) {
  const uint64_t pages = count_of(bytes);
  {
    std::lock_guard lock(mutex_);
    OCM_TRY(writable_);
    if (pages > geometry_.pages() || pages_ > geometry_.pages() - pages) {
      return Status(Code::kNoMemory, "the pool has room for " +
                                         format_bytes(geometry_.pages() * page_bytes()) + ", of which " +
                                         format_bytes(pages_ * page_bytes()) + " are taken");
    }
    OCM_TRY(add(nvme::made(id, bytes)));
    pages_ += pages;
    backed_.insert(id);
  }
  auto out = make_pages(id, bytes, {});
  if (!out.is_ok()) ended(id);
  return out;
}

std::unique_ptr<Backing> DurablePool::lasting(const ExtentId& id, std::unique_ptr<Backing> pages) {
  return std::make_unique<LastingPages>(*this, id, std::move(pages));
}

void DurablePool::ended(const ExtentId& id) {
  std::lock_guard lock(mutex_);
  OCM_DASSERT(backed_.contains(id));
  backed_.erase(id);
  (void)free_if_over(id);  // else it ends with the run
}

Status DurablePool::free_if_over(const ExtentId& id) {
  const auto extent = store_->contents().extents().find(id);
  if (extent == store_->contents().extents().end() || !extent->second.name.empty() || backed_.contains(id))
    return {};  // what is in the slots of a backing's pages must not be another's
  const uint64_t pages = count_of(extent->second.bytes);
  OCM_TRY(add(nvme::freed(id)));
  OCM_DASSERT(pages_ >= pages);
  pages_ -= pages;
  return {};
}

Status DurablePool::named(const ExtentId& id, std::string description) {
  OCM_DASSERT(!description.empty());
  std::lock_guard lock(mutex_);
  return add(nvme::named(id, std::move(description)));
}

Status DurablePool::unnamed(const ExtentId& id) {
  std::lock_guard lock(mutex_);
  OCM_TRY(add(nvme::named(id, {})));
  return free_if_over(id);
}

void DurablePool::promise(std::function<void(Status)> done) {
  OCM_DASSERT(done != nullptr);
  std::lock_guard lock(mutex_);
  OCM_DASSERT(!ending_);
  want_promise_.push_back(std::move(done));
  changed_.notify_one();  // with the lock: who hears of the promise may end the pool
}

DurablePool::State DurablePool::state() const {
  std::lock_guard lock(mutex_);
  return {geometry_.slots, store_->slots_free(), bad_ + bad_later_.size(), pages_, lost_, commits_,
          writable_};
}

bool DurablePool::is_valid() const {
  std::lock_guard lock(mutex_);
  const uint64_t slots = store_->contents().slots_taken() + store_->slots_freed() + releasing_ +
                         store_->slots_free() + writing_ + bad_;
  uint64_t pages = 0;
  for (const auto& [id, extent] : store_->contents().extents()) pages += count_of(extent.bytes);
  return slots == geometry_.slots && pages == pages_ && store_->is_valid() && buffers_are_valid();
}

// ---- what its pages ask

Status DurablePool::writable() const {
  std::lock_guard lock(mutex_);
  return writable_;
}

std::optional<DurablePool::MaybeSlot> DurablePool::take_slot(OwnSlot, std::function<void(MaybeSlot)> then) {
  std::lock_guard lock(mutex_);
  if (!writable_.is_ok()) return MaybeSlot(writable_);
  if (want_slot_.empty()) {
    if (const auto slot = next_free()) return MaybeSlot(*slot);
  }
  want_slot_.push_back(std::move(then));
  changed_.notify_one();
  return {};
}

Status DurablePool::written(const PageId& page, [[maybe_unused]] OwnSlot own, uint32_t slot, uint32_t crc) {
  std::lock_guard lock(mutex_);
  OCM_DASSERT(writing_ > 0 && own != slot);
  --writing_;
  const PageAt* before = store_->contents().find(page.extent, page.page);
  const uint64_t version = before == nullptr ? 1 : before->version + 1;
  const Status status = add(page_at(page.extent, page.page, {slot, crc, version}));
  if (!status.is_ok()) store_->give_slot(slot);
  if (has_work()) changed_.notify_one();
  return status;
}

void DurablePool::not_written([[maybe_unused]] OwnSlot own, [[maybe_unused]] uint32_t slot) {
  std::lock_guard lock(mutex_);
  OCM_DASSERT(writing_ > 0 && own != slot && !store_->contents().is_taken(slot));
  --writing_;
  ++bad_;
  if (has_work()) changed_.notify_one();
}

Status DurablePool::stop_writes(const Status& why) {
  std::lock_guard lock(mutex_);
  return stop(why);
}

void DurablePool::lost(uint32_t slot) {
  Lock lock(mutex_);
  OCM_DASSERT(store_->contents().is_taken(slot));
  bad_later_.insert(slot);
  const uint64_t lost = ++lost_, bad = bad_ + bad_later_.size();
  lock.unlock();
  tell_lost(lost, bad);
}

// ---- with the lock

Status DurablePool::add(const Record& record) {
  OCM_TRY(writable_);
  const bool is_first = !store_->has_changes();
  OCM_TRY(store_->add(record));
  if (is_first) {
    due_ = std::chrono::steady_clock::now() + within_;
    changed_.notify_one();
  }
  return {};
}

std::optional<uint32_t> DurablePool::next_free() {
  while (const auto slot = store_->take_slot()) {
    if (bad_later_.erase(*slot) == 0) {
      ++writing_;
      return slot;
    }
    ++bad_;
  }
  return {};
}

Status DurablePool::stop(const Status& why) {
  if (writable_.is_ok()) {
    writable_ = read_only(why);
    changed_.notify_one();
  }
  return writable_;
}

bool DurablePool::is_short() const {
  const uint64_t spare = geometry_.slots - geometry_.pages();
  return store_->slots_freed() > 0 && store_->slots_free() < std::max<uint64_t>(1, spare / kShortOf);
}

bool DurablePool::has_work() const {
  if (ending_ || !want_promise_.empty()) return true;
  if (!writable_.is_ok()) return !want_slot_.empty();
  // Where nothing can free one any more, who waits is told.
  if (!want_slot_.empty() && (store_->slots_free() > 0 || store_->slots_freed() > 0 || writing_ == 0))
    return true;
  return is_short() || (store_->has_changes() && std::chrono::steady_clock::now() >= due_);
}

// ---- its thread

void DurablePool::loop() {
  Lock lock(mutex_);
  do {
    while (!has_work()) {
      if (writable_.is_ok() && store_->has_changes()) {
        changed_.wait_until(lock, due_);
      } else {
        changed_.wait(lock);
      }
    }
    commit(lock);
  } while (!ending_ || !want_promise_.empty() || (writable_.is_ok() && store_->has_changes()));
}

void DurablePool::commit(Lock& lock) {
  auto callers = std::exchange(want_promise_, {});
  if (writable_.is_ok() && store_->has_changes()) {
    Store::Group group = store_->begin_commit();
    releasing_ = group.freed.size();
    lock.unlock();
    const Status on_device = store_->write(group);
    lock.lock();
    const Status promised = store_->end_commit(std::move(group), on_device);
    if (promised.is_ok()) {
      releasing_ = 0;
      ++commits_;
    } else {
      (void)stop(promised);
    }
  }
  if (OCM_MUTATION("promise-who-came-meanwhile")) {
    for (auto& done : std::exchange(want_promise_, {})) callers.push_back(std::move(done));
  }
  const Status status = writable_;  // R3
  lock.unlock();
  for (const auto& done : callers) done(status);
  lock.lock();
  hand_out_slots(lock);
}

void DurablePool::hand_out_slots(Lock& lock) {
  while (!want_slot_.empty()) {
    MaybeSlot out = Status(Code::kIo, "too many of the pool's slots are bad");
    if (!writable_.is_ok()) {
      out = writable_;
    } else if (const auto slot = next_free()) {
      out = *slot;
    } else if (store_->slots_freed() > 0 || writing_ > 0) {
      return;  // R4
    }
    const auto then = std::move(want_slot_.front());
    want_slot_.pop_front();
    lock.unlock();
    then(std::move(out));
    lock.lock();
  }
}

}  // namespace ocm::memory::nvme
