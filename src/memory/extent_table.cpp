#include "memory/extent_table.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/units.h"
#include "memory/gap_tree.h"
#include "os/crypto.h"

namespace ocm::memory {
namespace {

constexpr uint64_t kPartitionBytes = GlobalAddress::kOffsetMask + 1;
constexpr uint64_t kAddressPageBytes = 4096;  // offset 0 is never given: a null address is nobody's
static_assert(kPartitionBytes % kAddressPageBytes == 0);
static_assert(std::atomic<uint32_t>::is_always_lock_free, "programs map it");

/// What the reaper does. A wake-up costs whoever frees more than the rest of it, and takes the core that a program of
/// this host waits on; so after its work the reaper lets more come together, and needs none for those.
enum class Reaper { kWorking, kGathering, kSleeping };
constexpr std::chrono::milliseconds kGather{1};
/// Extents take turns: one lasts so long, and a piece with all of its pages longer, 40 ms and at most 160.
constexpr uint64_t kTurnNs = 5'000'000;
constexpr uint64_t kLeastPiece = uint64_t{256} << 20, kMostPiece = uint64_t{1} << 30;
constexpr size_t kGatheredMax = 16;  // their descriptors are held meanwhile

std::optional<uint64_t> round_up(uint64_t bytes, uint64_t page) {
  OCM_DASSERT(page != 0);
  if (bytes > kPartitionBytes) return std::nullopt;
  return (bytes + page - 1) / page * page;
}

}  // namespace

void Extent::on_revoke(std::function<void()> run) {
  {
    const std::lock_guard lock(mutex_);
    if (!revoked_.load(std::memory_order_relaxed)) {
      hooks_.push_back(std::move(run));
      return;
    }
  }
  run();
}

void Extent::revoke() {
  std::vector<std::function<void()>> hooks;
  {
    const std::lock_guard lock(mutex_);
    OCM_DASSERT(!revoked_.load(std::memory_order_relaxed));
    revoked_.store(true, std::memory_order_release);
    hooks.swap(hooks_);
  }
  for (auto& hook : hooks) hook();
}

/// The bytes of an extent that has another id, too.
class SharedBacking final : public Backing {
 public:
  explicit SharedBacking(std::shared_ptr<Extent> first) : first_(std::move(first)) {
    OCM_DASSERT(first_->backing != nullptr);
  }
  uint64_t bytes() const override { return first_->backing->bytes(); }
  Staged* staged() override { return first_->backing->staged(); }
  bool has_file() override { return first_->backing->has_file(); }
  Result<std::byte*> data() override { return first_->backing->data(); }
  Result<os::Fd> share(Access access) override { return first_->backing->share(access); }
  void stop(std::function<void()> idle) override {
    if (!first_->revoked()) return idle();  // the first goes on, and has the bytes that were reserved
    first_->backing->stop(std::move(idle));
  }
  void discard(uint64_t offset, uint64_t bytes) override {
    if (first_->revoked()) first_->backing->discard(offset, bytes);
  }

 private:
  const std::shared_ptr<Extent> first_;
};

/// Everything behind the table's face. Extents hold it weakly through their deleter.
class ExtentTable::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(uint32_t partition, std::vector<PoolConfig> pools, std::span<std::atomic<uint32_t>> generations,
       bool reaper)
      : partition_(partition), generations_(generations), gaps_(kAddressPageBytes, kPartitionBytes) {
    for (PoolConfig& config : pools) {
      Pool& pool = pools_[static_cast<size_t>(config.backend->kind())];
      OCM_ASSERT(!pool.backend && config.backend);
      pool.backend = std::move(config.backend);
      pool.budget = std::make_unique<Budget>(config.budget_bytes);
      tell_free_locked(pool);  // nobody else has it yet
    }
    OCM_DASSERT(std::all_of(generations.begin(), generations.end(),
                            [](const auto& one) { return one.load() == 0; }));  // T3
    os::fill_random(std::as_writable_bytes(std::span(&first_generation_, 1)));
    live_.reserve(std::min<size_t>(generations.size(), size_t{1} << 17));  // no long pause to rehash later
    if (reaper) reaper_ = std::thread([this] { reap(); });
  }

  Result<std::shared_ptr<Extent>> create(uint64_t bytes, Kind kind, const ExtentOptions& options,
                                         uint64_t wait_ns);
  Result<std::shared_ptr<Extent>> adopt(uint64_t bytes, Kind kind, std::unique_ptr<Backing> backing);
  Result<std::shared_ptr<Extent>> find(ExtentId id) const {
    const std::lock_guard lock(mutex_);
    return find_locked(id);
  }
  /// What was removed. `retire`: its bytes count as used until it is let go.
  Result<std::shared_ptr<Extent>> remove(ExtentId id, bool retire);
  Result<std::shared_ptr<Extent>> share(ExtentId id);
  Status suspend(ExtentId id);
  Status resume(ExtentId id);
  PoolUse use(Kind kind) const {
    const std::lock_guard lock(mutex_);
    return use_locked(pools_[static_cast<size_t>(kind)]);
  }
  uint64_t reclaimed(Kind kind) const {
    const std::lock_guard lock(mutex_);
    return pools_[static_cast<size_t>(kind)].reclaimed;
  }
  bool may_fit_soon(Code refused, uint64_t bytes, Kind kind, uint64_t reclaimed) const {
    const std::lock_guard lock(mutex_);
    const Pool& pool = pools_[static_cast<size_t>(kind)];
    if (pool.reclaiming_bytes == 0 && pool.reclaimed == reclaimed) return false;
    const PoolUse use = use_locked(pool);
    return refused == Code::kNoFds ||
           (refused == Code::kPoolFull && bytes <= use.free_bytes() + use.reclaiming_bytes);
  }
  bool has(Kind kind) const {
    const auto i = static_cast<size_t>(kind);
    return i < pools_.size() && pools_[i].backend != nullptr;
  }
  KindBackend& backend(Kind kind) const {
    OCM_DASSERT(has(kind));
    return *pools_[static_cast<size_t>(kind)].backend;
  }
  uint64_t extents() const {
    const std::lock_guard lock(mutex_);
    return live_.size();
  }
  bool is_live(ExtentId id) const {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(id.address.offset());
    return found != live_.end() && found->second->id == id && !found->second->suspended();
  }
  uint32_t next_generation() const {
    const std::lock_guard lock(mutex_);
    return generation_at_locked(generations_given_);
  }
  std::vector<std::shared_ptr<Extent>> all() const;
  bool is_valid() const;
  void keep_mapped_pages() { keeps_mapped_.store(true); }
  void close();

 private:
  struct Pool {
    std::unique_ptr<KindBackend> backend;
    std::unique_ptr<Budget> budget;
    uint64_t creating_bytes = 0;
    uint64_t used_bytes = 0;
    uint64_t retired_bytes = 0;
    uint64_t reclaiming_bytes = 0;
    uint64_t reclaimed = 0;  // pieces so far
  };

  static PoolUse use_locked(const Pool& pool) {
    if (!pool.budget) return {};
    return {pool.budget->budget_bytes(), pool.creating_bytes + pool.used_bytes + pool.retired_bytes,
            pool.reclaiming_bytes, pool.backend->ready_bytes()};
  }
  /// After each change of what is free.
  static void tell_free_locked(Pool& pool) { pool.backend->keep_ready_within(use_locked(pool).free_bytes()); }
  Status full(const Pool& pool, Kind kind, uint64_t bytes) const;
  Result<std::shared_ptr<Extent>> find_locked(ExtentId id) const;
  /// Of the creation that so many were before. 2^32 - 1 values: 0 means "no extent".
  uint32_t generation_at_locked(uint64_t given) const {
    return static_cast<uint32_t>((first_generation_ + given) % 0xFFFF'FFFFu) + 1;
  }
  /// Offset, slot and generation for `extent`, or nothing of them.
  Status name_locked(Extent& extent, uint64_t page_bytes);
  /// And the budget.
  Status reserve_locked(Pool& pool, Extent& extent, uint64_t page_bytes);
  std::shared_ptr<Extent> shared_with_core(std::unique_ptr<Extent> extent) {
    return {extent.release(), [core = shared_from_this()](Extent* dead) { core->let_go(dead); }};
  }
  void unreserve_locked(Pool& pool, const Extent& extent);
  /// It has its bytes: from here on it is found.
  std::shared_ptr<Extent> complete(Pool& pool, std::unique_ptr<Extent> extent);
  std::optional<uint64_t> place_locked(uint64_t bytes, uint64_t page_bytes) const;
  /// T5, as long as the cursor is in its first round: what was created later lies further on.
  bool is_in_order_locked() const;
  std::optional<uint32_t> take_slot_locked();
  void let_go(Extent* extent);
  /// Nothing of it is under way.
  void stopped(std::unique_ptr<Extent> dead);
  void bury(std::unique_ptr<Extent> dead, std::unique_lock<std::mutex>& lock);
  void reap();
  void wake_reaper_locked();
  /// So much waits for the reaper that it may not gather more.
  bool has_gathered_locked(const Pool& pool) const {
    return dead_.size() >= kGatheredMax || pool.reclaiming_bytes > pool.budget->budget_bytes() / 2;
  }
  /// Of its pages, as many as one turn has time for. Returns of how many bytes.
  static uint64_t discard_some(Extent& dead);
  /// Gives some of its pages and then of its budget back; null: all of it is. `lock` is let go meanwhile.
  std::unique_ptr<Extent> reclaim(std::unique_ptr<Extent> dead, std::unique_lock<std::mutex>& lock);

  const uint32_t partition_;
  const std::span<std::atomic<uint32_t>> generations_;
  uint32_t first_generation_ = 0;  // set in the constructor, then const

  mutable std::mutex mutex_;  // guards all below, and every change of a budget
  std::array<Pool, kKindsMax> pools_;
  GapTree gaps_;
  uint64_t cursor_ = kAddressPageBytes;                         // where the next search begins
  uint64_t rounds_ = 0;                                         // how often it began again at the start
  std::unordered_map<uint64_t, std::shared_ptr<Extent>> live_;  // by offset
  uint64_t creating_ = 0;
  std::deque<uint32_t> free_slots_;  // oldest-freed first
  uint32_t fresh_slot_ = 0;          // slots from here on were never used
  uint64_t generations_given_ = 0;
  std::deque<std::unique_ptr<Extent>> dead_;  // let go, for the reaper
  Reaper reaper_is_ = Reaper::kWorking;
  bool closed_ = false;
  std::atomic<bool> keeps_mapped_{false};
  std::condition_variable work_;       // for the reaper
  std::condition_variable reclaimed_;  // for create(): budget came back
  size_t stopping_ = 0;  // extents that nobody has, with something under way; this lives as long
  std::condition_variable stopped_;
  std::thread reaper_;
};

Status ExtentTable::Core::full(const Pool& pool, Kind kind, uint64_t bytes) const {
  const PoolUse use = use_locked(pool);
  std::string text = std::string("asked for ") + format_bytes(bytes) + " of " + kind_name(kind) +
                     "; free here: " + format_bytes(use.free_bytes()) + " of " +
                     format_bytes(use.budget_bytes);
  if (use.reclaiming_bytes != 0) text += " (" + format_bytes(use.reclaiming_bytes) + " are being reclaimed)";
  return Status(Code::kPoolFull, std::move(text));
}

std::optional<uint64_t> ExtentTable::Core::place_locked(uint64_t bytes, uint64_t page_bytes) const {
  OCM_DASSERT(page_bytes >= kAddressPageBytes && bytes % kAddressPageBytes == 0);
  // A gap begins at a multiple of the smallest page; `slack` more bytes hold an aligned range for sure.
  const uint64_t slack = page_bytes - kAddressPageBytes;
  std::optional<uint64_t> offset = gaps_.find(cursor_, bytes + slack);
  if (!offset) offset = gaps_.find(kAddressPageBytes, bytes + slack);
  if (!offset) return std::nullopt;
  return round_up(*offset, page_bytes);
}

std::optional<uint32_t> ExtentTable::Core::take_slot_locked() {
  if (fresh_slot_ < generations_.size()) return fresh_slot_++;
  if (free_slots_.empty()) return std::nullopt;
  const uint32_t slot = free_slots_.front();
  OCM_DASSERT(slot < fresh_slot_ && generations_[slot].load(std::memory_order_relaxed) == 0);  // T3
  free_slots_.pop_front();
  return slot;
}

Status ExtentTable::Core::reserve_locked(Pool& pool, Extent& extent, uint64_t page_bytes) {
  const std::optional<uint64_t> rounded = round_up(extent.bytes, page_bytes);
  if (!rounded || !pool.budget->take(*rounded)) {
    wake_reaper_locked();
    return full(pool, extent.kind, extent.bytes);
  }
  OCM_DASSERT(*rounded >= extent.bytes && *rounded % page_bytes == 0);
  extent.span_bytes = extent.reserved_bytes = *rounded;
  const Status named = name_locked(extent, page_bytes);
  if (!named.is_ok()) {
    pool.budget->give(*rounded);
    return named;
  }
  pool.creating_bytes += *rounded;
  ++creating_;
  tell_free_locked(pool);
  return {};
}

Status ExtentTable::Core::name_locked(Extent& extent, uint64_t page_bytes) {
  const std::optional<uint64_t> offset = place_locked(extent.span_bytes, page_bytes);
  if (!offset) {
    return Status(Code::kPoolFull,
                  "no " + format_bytes(extent.bytes) +
                      " of contiguous addresses; longest gap: " + format_bytes(gaps_.longest()));
  }
  const std::optional<uint32_t> slot = take_slot_locked();
  if (!slot) {
    return Status(Code::kLimit, "the node's limit of " + std::to_string(generations_.size()) +
                                    " extents is reached; free some or raise the limit");
  }
  gaps_.take(*offset, extent.span_bytes);
  if (*offset < cursor_) ++rounds_;
  const uint64_t end = *offset + extent.span_bytes;
  cursor_ = end < kPartitionBytes ? end : kAddressPageBytes;
  if (cursor_ != end) ++rounds_;
  OCM_DASSERT(*offset % page_bytes == 0 && end <= kPartitionBytes);  // T2
  extent.id = {GlobalAddress(partition_, *offset), generation_at_locked(generations_given_++)};
  OCM_DASSERT(extent.id.generation != 0);  // T4
  extent.slot = *slot;
  return {};
}

void ExtentTable::Core::unreserve_locked(Pool& pool, const Extent& extent) {
  OCM_DASSERT(creating_ > 0 && pool.creating_bytes >= extent.reserved_bytes);  // T1
  --creating_;
  pool.creating_bytes -= extent.reserved_bytes;
  pool.budget->give(extent.reserved_bytes);
  tell_free_locked(pool);
  gaps_.give(extent.id.address.offset(), extent.span_bytes);
  free_slots_.push_back(extent.slot);
}

Result<std::shared_ptr<Extent>> ExtentTable::Core::create(uint64_t bytes, Kind kind,
                                                          const ExtentOptions& options, uint64_t wait_ns) {
  if (bytes == 0) return Status(Code::kInvalidArgument, "an extent of 0 bytes");
  if (!has(kind)) {
    return Status(Code::kUnsupported, std::string("this node offers no memory of kind ") + kind_name(kind));
  }
  Pool& pool = pools_[static_cast<size_t>(kind)];
  auto extent = std::make_unique<Extent>();
  extent->kind = kind;
  extent->bytes = bytes;
  extent->capability = os::random_id<Capability>();
  const uint64_t page_bytes = pool.backend->page_bytes(options);
  {
    std::unique_lock lock(mutex_);
    Status status = reserve_locked(pool, *extent, page_bytes);
    if (status.code() == Code::kPoolFull && wait_ns != 0) {
      const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(wait_ns);
      const auto could_fit = [&] {
        const std::optional<uint64_t> rounded = round_up(bytes, page_bytes);
        const PoolUse use = use_locked(pool);
        return use.reclaiming_bytes != 0 && rounded && *rounded <= use.free_bytes() + use.reclaiming_bytes;
      };
      bool in_time = true;
      while (status.code() == Code::kPoolFull && in_time && could_fit()) {
        in_time = reclaimed_.wait_until(lock, until) == std::cv_status::no_timeout;
        status = reserve_locked(pool, *extent, page_bytes);
      }
    }
    OCM_TRY(status);
  }
  auto backing = pool.backend->make(extent->reserved_bytes, options);
  if (!backing.is_ok()) {
    const std::lock_guard lock(mutex_);
    unreserve_locked(pool, *extent);
    wake_reaper_locked();  // what it has may be what was wanted
    return backing.status();
  }
  extent->backing = std::move(*backing);
  return complete(pool, std::move(extent));
}

Result<std::shared_ptr<Extent>> ExtentTable::Core::adopt(uint64_t bytes, Kind kind,
                                                         std::unique_ptr<Backing> backing) {
  OCM_ASSERT(has(kind) && backing != nullptr);
  Pool& pool = pools_[static_cast<size_t>(kind)];
  const uint64_t page_bytes = pool.backend->page_bytes({});
  if (bytes == 0 || round_up(bytes, page_bytes) != backing->bytes()) {
    return Status(Code::kInvalidArgument, "an extent of " + std::to_string(bytes) + " bytes does not fit " +
                                              std::to_string(backing->bytes()) + " that a pool kept");
  }
  auto extent = std::make_unique<Extent>();
  extent->kind = kind;
  extent->bytes = bytes;
  extent->capability = os::random_id<Capability>();
  {
    const std::lock_guard lock(mutex_);
    OCM_TRY(reserve_locked(pool, *extent, page_bytes));
  }
  extent->backing = std::move(backing);
  return complete(pool, std::move(extent));
}

std::shared_ptr<Extent> ExtentTable::Core::complete(Pool& pool, std::unique_ptr<Extent> extent) {
  OCM_DASSERT(extent->backing->bytes() == extent->reserved_bytes);
  extent->backing->named(extent->id);
  std::shared_ptr<Extent> shared = shared_with_core(std::move(extent));
  const std::lock_guard lock(mutex_);
  OCM_DASSERT(creating_ > 0 && pool.creating_bytes >= shared->reserved_bytes);  // T1
  OCM_DASSERT(!live_.contains(shared->id.address.offset()));                    // T2
  --creating_;
  pool.creating_bytes -= shared->reserved_bytes;
  pool.used_bytes += shared->reserved_bytes;
  live_.emplace(shared->id.address.offset(), shared);
  generations_[shared->slot].store(shared->id.generation, std::memory_order_release);
  return shared;
}

Result<std::shared_ptr<Extent>> ExtentTable::Core::find_locked(ExtentId id) const {
  if (id.address.partition() != partition_) {
    return Status(Code::kNotFound, "extent " + id.address.to_string() + " is not of this node");
  }
  const auto found = live_.find(id.address.offset());
  if (found != live_.end() && found->second->id.generation == id.generation) {
    if (!found->second->suspended()) return found->second;
    return Status(Code::kRevoked, "extent " + id.address.to_string() + " is being made again");
  }
  // How many creations after the first this generation was, or will be.
  const uint64_t turn =
      (uint64_t{id.generation} + 0xFFFF'FFFFu - 1 - first_generation_ % 0xFFFF'FFFFu) % 0xFFFF'FFFFu;
  const bool was_given = id.generation != 0 && turn < generations_given_;
  if (found != live_.end() || was_given) {
    return Status(Code::kRevoked, "extent " + id.address.to_string() + " was freed or removed");
  }
  return Status(Code::kNotFound, "no extent at " + id.address.to_string());
}

Result<std::shared_ptr<Extent>> ExtentTable::Core::remove(ExtentId id, bool retire) {
  std::shared_ptr<Extent> extent;
  {
    const std::lock_guard lock(mutex_);
    const auto live = live_.find(id.address.offset());
    if (live != live_.end() && live->second->id == id) {
      extent = live->second;  // also a suspended one
    } else {
      OCM_TRY_ASSIGN(extent, find_locked(id));
    }
    OCM_DASSERT(!extent->revoked());
    generations_[extent->slot].store(0, std::memory_order_release);
    live_.erase(id.address.offset());
    Pool& pool = pools_[static_cast<size_t>(extent->kind)];
    const auto sharer = extent->sharer_.lock();
    if (sharer && live_.contains(sharer->id.address.offset())) {  // it pays from now on
      sharer->reserved_bytes += extent->reserved_bytes;
      extent->reserved_bytes = 0;
    }
    OCM_DASSERT(pool.used_bytes >= extent->reserved_bytes);  // T1
    pool.used_bytes -= extent->reserved_bytes;
    (retire ? pool.retired_bytes : pool.reclaiming_bytes) += extent->reserved_bytes;
    extent->retired_ = retire;
    gaps_.give(id.address.offset(), extent->span_bytes);
    free_slots_.push_back(extent->slot);
  }
  extent->revoke();
  return extent;
}

Result<std::shared_ptr<Extent>> ExtentTable::Core::share(ExtentId id) {
  auto extent = std::make_unique<Extent>();
  const std::lock_guard lock(mutex_);
  OCM_TRY_ASSIGN(const std::shared_ptr<Extent> first, find_locked(id));
  const auto before = first->sharer_.lock();
  if (before && live_.contains(before->id.address.offset()))
    return Status(Code::kExists, "extent " + id.address.to_string() + " has another id already");
  extent->kind = first->kind;
  extent->bytes = first->bytes;
  extent->span_bytes = first->span_bytes;
  extent->capability = os::random_id<Capability>();
  OCM_TRY(name_locked(*extent, kAddressPageBytes));
  OCM_DASSERT(extent->span_bytes >= extent->bytes && extent->reserved_bytes == 0);
  extent->backing = std::make_unique<SharedBacking>(first);
  std::shared_ptr<Extent> shared = shared_with_core(std::move(extent));
  first->sharer_ = shared;
  live_.emplace(shared->id.address.offset(), shared);
  generations_[shared->slot].store(shared->id.generation, std::memory_order_release);
  return shared;
}

Status ExtentTable::Core::suspend(ExtentId id) {
  const std::lock_guard lock(mutex_);
  OCM_TRY_ASSIGN(const std::shared_ptr<Extent> extent, find_locked(id));
  OCM_DASSERT(generations_[extent->slot].load() == extent->id.generation);  // T3
  extent->suspended_.store(true, std::memory_order_release);
  generations_[extent->slot].store(0, std::memory_order_release);
  // A program stores, fences and looks at the slot: it finds 0, or what it stored is seen from here on.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return {};
}

Status ExtentTable::Core::resume(ExtentId id) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(id.address.offset());
  if (found == live_.end() || found->second->id != id || !found->second->suspended())
    return Status(Code::kNotFound, "extent " + id.address.to_string() + " is not suspended");
  OCM_DASSERT(generations_[found->second->slot].load(std::memory_order_relaxed) == 0);  // T3
  found->second->suspended_.store(false, std::memory_order_release);
  generations_[found->second->slot].store(id.generation, std::memory_order_release);
  return {};
}

void ExtentTable::Core::let_go(Extent* extent) {
  std::unique_ptr<Extent> dead(extent);
  if (!dead->backing || dead->backing->staged() == nullptr) {
    std::unique_lock lock(mutex_);
    if (!closed_) bury(std::move(dead), lock);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    ++stopping_;
  }
  Backing& backing = *dead->backing;
  backing.stop([this, dead = std::make_shared<std::unique_ptr<Extent>>(std::move(dead))]() mutable {
    stopped(std::move(*dead));
  });
}

void ExtentTable::Core::stopped(std::unique_ptr<Extent> dead) {
  std::unique_lock lock(mutex_);
  if (closed_) {
    lock.unlock();
    dead.reset();  // while its pool is there
    lock.lock();
  } else {
    bury(std::move(dead), lock);
  }
  OCM_DASSERT(stopping_ > 0);
  if (--stopping_ == 0) stopped_.notify_all();
}

void ExtentTable::Core::bury(std::unique_ptr<Extent> dead, std::unique_lock<std::mutex>& lock) {
  if (!reaper_.joinable()) {
    while (dead) dead = reclaim(std::move(dead), lock);
    return;
  }
  const Pool& pool = pools_[static_cast<size_t>(dead->kind)];
  dead_.push_back(std::move(dead));
  if (reaper_is_ == Reaper::kSleeping || has_gathered_locked(pool)) wake_reaper_locked();
}

void ExtentTable::Core::wake_reaper_locked() {
  if (reaper_is_ == Reaper::kWorking) return;
  reaper_is_ = Reaper::kWorking;
  work_.notify_one();
}

void ExtentTable::Core::reap() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (dead_.empty()) {
      if (closed_) return;
      const auto is_woken = [&] { return reaper_is_ == Reaper::kWorking || closed_; };
      reaper_is_ = Reaper::kGathering;
      if (!work_.wait_for(lock, kGather, is_woken) && dead_.empty()) {
        reaper_is_ = Reaper::kSleeping;
        work_.wait(lock, is_woken);
      }
      reaper_is_ = Reaper::kWorking;
      continue;
    }
    std::unique_ptr<Extent> dead = std::move(dead_.front());
    dead_.pop_front();
    dead = reclaim(std::move(dead), lock);
    if (dead) dead_.push_back(std::move(dead));  // who freed little does not wait for what another freed
  }
}

uint64_t ExtentTable::Core::discard_some(Extent& dead) {
  const uint64_t until_ns = os::now_ns() + kTurnNs;
  uint64_t left = dead.reserved_bytes;
  // Pages that nobody touched cost nothing: the pieces grow, as long as they take no time.
  for (uint64_t piece = kLeastPiece; left != 0; piece = std::min(2 * piece, kMostPiece)) {
    const uint64_t bytes = std::min(piece, left);
    left -= bytes;
    dead.backing->discard(left, bytes);
    if (os::now_ns() >= until_ns) break;
  }
  return dead.reserved_bytes - left;
}

std::unique_ptr<Extent> ExtentTable::Core::reclaim(std::unique_ptr<Extent> dead,
                                                   std::unique_lock<std::mutex>& lock) {
  Pool& pool = pools_[static_cast<size_t>(dead->kind)];
  uint64_t& counted = dead->retired_ ? pool.retired_bytes : pool.reclaiming_bytes;
  lock.unlock();
  // A program of this host that still maps the extent must not keep pages that are budgeted anew.
  const bool discards = dead->backing && !dead->backing->ends_whole() && !keeps_mapped_.load();
  const uint64_t bytes = discards ? discard_some(*dead) : dead->reserved_bytes;
  dead->reserved_bytes -= bytes;
  if (dead->reserved_bytes == 0) dead.reset();
  lock.lock();
  OCM_DASSERT(counted >= bytes);  // T1
  counted -= bytes;
  pool.budget->give(bytes);
  ++pool.reclaimed;
  tell_free_locked(pool);
  reclaimed_.notify_all();
  return dead;
}

std::vector<std::shared_ptr<Extent>> ExtentTable::Core::all() const {
  std::vector<std::shared_ptr<Extent>> list;
  const std::lock_guard lock(mutex_);
  list.reserve(live_.size());
  for (const auto& [offset, extent] : live_) list.push_back(extent);
  return list;
}

bool ExtentTable::Core::is_in_order_locked() const {
  if (rounds_ != 0) return true;
  std::vector<std::pair<uint64_t, uint64_t>> created;  // which one it was, its offset
  created.reserve(live_.size());
  for (const auto& [offset, extent] : live_) {
    const uint64_t first = first_generation_ % 0xFFFF'FFFFu;
    created.emplace_back((extent->id.generation - 1 + 0xFFFF'FFFFu - first) % 0xFFFF'FFFFu, offset);
  }
  std::sort(created.begin(), created.end());
  return std::is_sorted(created.begin(), created.end(),
                        [](const auto& a, const auto& b) { return a.second < b.second; });
}

bool ExtentTable::Core::is_valid() const {
  const std::lock_guard lock(mutex_);
  std::array<uint64_t, kKindsMax> live_bytes{};
  uint64_t creating_bytes = 0, all_live_bytes = 0;
  size_t suspended = 0;
  for (const auto& [offset, extent] : live_) {
    live_bytes[static_cast<size_t>(extent->kind)] += extent->reserved_bytes;
    all_live_bytes += extent->span_bytes;
    suspended += extent->suspended() ? 1 : 0;
    const uint32_t wanted = extent->suspended() ? 0 : extent->id.generation;
    if (generations_[extent->slot].load(std::memory_order_acquire) != wanted) return false;
    if (extent->bytes > extent->span_bytes || extent->id.address.offset() != offset) return false;
  }
  for (size_t i = 0; i < pools_.size(); ++i) {
    const Pool& pool = pools_[i];
    if (!pool.budget) continue;
    if (pool.used_bytes != live_bytes[i]) return false;
    const uint64_t taken = pool.creating_bytes + pool.used_bytes + pool.retired_bytes + pool.reclaiming_bytes;
    if (pool.budget->used_bytes() != taken || taken > pool.budget->budget_bytes()) return false;
    creating_bytes += pool.creating_bytes;
  }
  const uint64_t occupied =
      static_cast<uint64_t>(std::count_if(generations_.begin(), generations_.end(), [](const auto& g) {
        return g.load(std::memory_order_relaxed) != 0;
      }));
  return occupied + suspended == live_.size() && is_in_order_locked() &&
         fresh_slot_ == live_.size() + creating_ + free_slots_.size() && gaps_.is_valid() &&
         gaps_.free_length() + all_live_bytes + creating_bytes == kPartitionBytes - kAddressPageBytes;
}

void ExtentTable::Core::close() {
  for (const std::shared_ptr<Extent>& extent : all()) (void)remove(extent->id, false);
  OCM_DASSERT(is_valid());
  {
    const std::lock_guard lock(mutex_);
    OCM_DASSERT(live_.empty() && creating_ == 0);
    closed_ = true;
    work_.notify_one();
  }
  {
    std::unique_lock lock(mutex_);
    stopped_.wait(lock, [&] { return stopping_ == 0; });
  }
  if (reaper_.joinable()) reaper_.join();
}

ExtentTable::ExtentTable(uint32_t partition, std::vector<PoolConfig> pools,
                         std::span<std::atomic<uint32_t>> generations, bool reaper)
    : partition_(partition),
      core_(std::make_shared<Core>(partition, std::move(pools), generations, reaper)) {}
ExtentTable::~ExtentTable() { core_->close(); }

Result<std::shared_ptr<Extent>> ExtentTable::try_create(uint64_t bytes, Kind kind,
                                                        const ExtentOptions& options) {
  return core_->create(bytes, kind, options, 0);
}
Result<std::shared_ptr<Extent>> ExtentTable::create(uint64_t bytes, Kind kind, const ExtentOptions& options,
                                                    uint64_t wait_ns) {
  return core_->create(bytes, kind, options, wait_ns);
}
Result<std::shared_ptr<Extent>> ExtentTable::adopt(uint64_t bytes, Kind kind,
                                                   std::unique_ptr<Backing> backing) {
  return core_->adopt(bytes, kind, std::move(backing));
}
bool ExtentTable::lasts(Kind kind) const { return core_->backend(kind).lasts(); }
Result<std::vector<KindBackend::Survivor>> ExtentTable::survivors(Kind kind) {
  return core_->backend(kind).survivors();
}
void ExtentTable::promise(Kind kind, std::function<void(Status)> done) {
  core_->backend(kind).promise(std::move(done));
}
Result<std::shared_ptr<Extent>> ExtentTable::find(ExtentId id) const { return core_->find(id); }
Status ExtentTable::remove(ExtentId id) { return core_->remove(id, false).status(); }
Result<std::shared_ptr<Extent>> ExtentTable::retire(ExtentId id) { return core_->remove(id, true); }
Result<std::shared_ptr<Extent>> ExtentTable::share(ExtentId id) { return core_->share(id); }
Status ExtentTable::suspend(ExtentId id) { return core_->suspend(id); }
Status ExtentTable::resume(ExtentId id) { return core_->resume(id); }
void ExtentTable::keep_mapped_pages() { core_->keep_mapped_pages(); }
uint64_t ExtentTable::extents() const { return core_->extents(); }
bool ExtentTable::is_live(ExtentId id) const { return core_->is_live(id); }
uint32_t ExtentTable::next_generation() const { return core_->next_generation(); }
PoolUse ExtentTable::use(Kind kind) const { return core_->use(kind); }
uint64_t ExtentTable::reclaimed(Kind kind) const { return core_->reclaimed(kind); }
bool ExtentTable::may_fit_soon(Code refused, uint64_t bytes, Kind kind, uint64_t reclaimed) const {
  return core_->may_fit_soon(refused, bytes, kind, reclaimed);
}
bool ExtentTable::has(Kind kind) const { return core_->has(kind); }
std::vector<Kind> ExtentTable::kinds() const {
  std::vector<Kind> out;
  for (const KindName& line : kKinds) {
    if (has(line.kind)) out.push_back(line.kind);
  }
  return out;
}
ExtentOptions ExtentTable::completed(Kind kind, ExtentOptions options) const {
  OCM_DASSERT(has(kind));
  return core_->backend(kind).completed(options);
}
bool ExtentTable::is_valid() const { return core_->is_valid(); }

}  // namespace ocm::memory
