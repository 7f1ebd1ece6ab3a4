#include "memory/nvme/scratch.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/crc32c.h"
#include "base/log.h"
#include "base/units.h"
#include "memory/nvme/block.h"

namespace ocm::memory::nvme {

/// The pages of one extent.
class ScratchPool::Pages final : public Backing, public Staged {
 public:
  static Result<std::unique_ptr<Backing>> make(ScratchPool& pool, uint64_t bytes) {
    const uint64_t count = (bytes + pool.page_bytes_ - 1) / pool.page_bytes_;
    if (count > pool.slots_)
      return Status(Code::kNoMemory,
                    "the device has room for " + format_bytes(pool.slots_ * pool.page_bytes_));
    // Zeros that cost memory where a page is written.
    Entries entries(static_cast<Entry*>(std::calloc(count, sizeof(Entry))));
    if (entries == nullptr)
      return Status(Code::kNoMemory, "no memory for the table of " + std::to_string(count) + " pages");
    return std::unique_ptr<Backing>(new Pages(pool, bytes, count, std::move(entries)));
  }

  ~Pages() override {
    OCM_ASSERT(busy_.empty());  // whoever began something keeps the backing
    discard(0, count_ * pool_.page_bytes_);
  }

  uint64_t bytes() const override { return bytes_; }
  Result<std::byte*> data() override { return Status(Code::kUnsupported, "the bytes are on a device"); }
  Result<os::Fd> share(Access) override { return Status(Code::kUnsupported, "the bytes are on a device"); }
  void discard(uint64_t offset, uint64_t bytes) override {
    OCM_DASSERT(offset % pool_.page_bytes_ == 0 && offset + bytes <= count_ * pool_.page_bytes_);
    const uint64_t end = (offset + bytes) / pool_.page_bytes_;
    for (uint64_t i = offset / pool_.page_bytes_; i < end; ++i) {
      if (entries_[i].is_in_slot()) pool_.give_slot(entries_[i].slot());
      entries_[i] = {};
    }
  }
  Staged* staged() override { return this; }

  void read(uint64_t offset, std::span<std::byte> into, Done done) override {
    begin(false, offset, into.data(), into.size(), nullptr, std::move(done));
  }
  void write(uint64_t offset, std::span<const std::byte> from, Done done) override {
    begin(true, offset, const_cast<std::byte*>(from.data()), from.size(), nullptr, std::move(done));
  }
  void modify(uint64_t offset, std::function<void(std::byte*)> change, Done done) override {
    OCM_ASSERT(offset % 8 == 0);
    begin(true, offset, nullptr, 8, std::move(change), std::move(done));
  }

 private:
  class Entry {
   public:
    Entry() = default;
    bool is_in_slot() const { return place_ != 0 && place_ != kLost; }
    bool is_lost() const { return place_ == kLost; }
    uint32_t slot() const {
      OCM_DASSERT(is_in_slot());
      return place_ - 1;
    }
    uint32_t crc() const {
      OCM_DASSERT(is_in_slot());
      return crc_;
    }
    void set(uint32_t slot, uint32_t crc) {
      OCM_DASSERT(slot < kSlotsMax);
      *this = Entry(slot + 1, crc);
    }
    void lose() { *this = Entry(kLost, 0); }

   private:
    static constexpr uint32_t kLost = std::numeric_limits<uint32_t>::max();
    Entry(uint32_t place, uint32_t crc) : place_(place), crc_(crc) {}
    uint32_t place_ = 0;  // 0: never written
    uint32_t crc_ = 0;
  };
  using Entries = std::unique_ptr<Entry[], FreeBuffer>;

  /// One call, until the last of its pages is done.
  struct Call {
    Done done;
    std::atomic<uint64_t> left;
    std::mutex mutex;
    Status status;  // the first that failed
  };
  /// Its part in one page.
  struct Part {
    std::shared_ptr<Call> call;
    bool writes;
    uint64_t page;
    uint64_t begin;    // in the page
    std::byte* bytes;  // null: `change`
    uint64_t length;
    std::function<void(std::byte*)> change;
    std::byte* buffer = nullptr;
    uint32_t failed = 0;  // tries
  };

  Pages(ScratchPool& pool, uint64_t bytes, uint64_t count, Entries entries)
      : pool_(pool), bytes_(bytes), count_(count), entries_(std::move(entries)) {
    OCM_DASSERT(count * pool.page_bytes_ >= bytes);
  }

  void begin(bool writes, uint64_t offset, std::byte* bytes, uint64_t length,
             std::function<void(std::byte*)> change, Done done) {
    OCM_ASSERT(length <= bytes_ && offset <= bytes_ - length);
    if (length == 0) return done({});
    const uint64_t page_bytes = pool_.page_bytes_;
    const uint64_t first = offset / page_bytes, last = (offset + length - 1) / page_bytes;
    OCM_DASSERT(last < count_ && (!change || first == last));
    auto call = std::make_shared<Call>();
    call->done = std::move(done);
    call->left = last - first + 1;
    for (uint64_t page = first; page <= last; ++page) {
      const uint64_t from = std::max(offset, page * page_bytes);
      const uint64_t until = std::min(offset + length, (page + 1) * page_bytes);
      auto part = std::make_unique<Part>();
      *part = {
          call,         writes, page, from % page_bytes, bytes == nullptr ? nullptr : bytes + (from - offset),
          until - from, change};
      {
        std::lock_guard lock(mutex_);
        auto [busy, idle] = busy_.try_emplace(page);
        busy->second.push_back(std::move(part));
        if (!idle) continue;
      }
      run(page);
    }
  }

  /// What became of a part; none: the device is at work, or a buffer is waited for.
  using Outcome = std::optional<Status>;

  /// The page's first part is the caller's to carry out, and those behind it as long as none has to wait.
  void run(uint64_t page) {
    for (bool more = true; more;) {
      Part* part;
      {
        std::lock_guard lock(mutex_);
        OCM_DASSERT(busy_.contains(page) && !busy_[page].empty());
        part = busy_[page].front().get();
      }
      Outcome outcome = without_device(*part);
      if (!outcome) {
        part->buffer = pool_.try_buffer();
        if (part->buffer == nullptr) {
          return pool_.await_buffer([this, part](std::byte* buffer) {
            part->buffer = buffer;
            end(*part, carry_out(*part));
          });
        }
        outcome = carry_out(*part);
      }
      if (!outcome) return;
      more = finish(*part, std::move(*outcome));
    }
  }
  Outcome without_device(Part& part) {
    const Entry& entry = entries_[part.page];
    if (entry.is_lost() && !is_whole(part)) return lost(part.page);
    if (part.writes || entry.is_in_slot()) return {};
    OCM_DASSERT(!entry.is_lost());  // X2
    std::memset(part.bytes, 0, part.length);
    return Status();
  }

  bool is_whole(const Part& part) const {
    return part.writes && !part.change && part.length == length_of(part.page);
  }
  /// Of what the extent has of it; the rest of the last page is zeros for good.
  uint64_t length_of(uint64_t page) const {
    return std::min(pool_.page_bytes_, bytes_ - page * pool_.page_bytes_);
  }
  Status lost(uint64_t page) const {
    return Status(Code::kLost,
                  "page " + std::to_string(page) + " of an extent: the device has not got it any more");
  }

  Outcome carry_out(Part& part) {
    OCM_DASSERT(part.buffer != nullptr);
    const Entry& entry = entries_[part.page];
    if (entry.is_in_slot() && !is_whole(part)) return fetch(part);
    if (part.length < pool_.page_bytes_) std::memset(part.buffer, 0, pool_.page_bytes_);
    return store(part);
  }

  Outcome fetch(Part& part) {
    pool_.queue_.submit({Request::Op::kRead, pool_.offset_of(entries_[part.page].slot()), part.buffer,
                         pool_.page_bytes_,
                         [this, &part](const Status& status) { end(part, fetched(part, status)); }});
    return {};
  }
  Outcome fetched(Part& part, const Status& status) {
    Entry& entry = entries_[part.page];
    if (!status.is_ok() || crc32c(0, part.buffer, pool_.page_bytes_) != entry.crc()) {
      if (++part.failed == 1) return fetch(part);  // once more
      pool_.slot_is_bad();
      pool_.page_is_lost();
      entry.lose();
      return lost(part.page);
    }
    part.failed = 0;
    if (part.writes) return store(part);
    std::memcpy(part.bytes, part.buffer + part.begin, part.length);
    return Status();
  }

  /// The buffer has the page as it was.
  Outcome store(Part& part) {
    OCM_DASSERT(part.writes && part.begin + part.length <= length_of(part.page));
    if (Status writable = pool_.writable(); !writable.is_ok()) return writable;
    if (part.change) {
      part.change(part.buffer + part.begin);
    } else {
      std::memcpy(part.buffer + part.begin, part.bytes, part.length);
    }
    const uint32_t crc = crc32c(0, part.buffer, pool_.page_bytes_);
    const Entry& entry = entries_[part.page];
    if (entry.is_in_slot()) return write_to(part, entry.slot(), crc);
    auto slot = pool_.take_slot();
    return slot.is_ok() ? write_to(part, *slot, crc) : Outcome(slot.status());
  }
  Outcome write_to(Part& part, uint32_t slot, uint32_t crc) {
    pool_.queue_.submit(
        {Request::Op::kWrite, pool_.offset_of(slot), part.buffer, pool_.page_bytes_,
         [this, &part, slot, crc](const Status& status) { end(part, written(part, slot, crc, status)); }});
    return {};
  }
  Outcome written(Part& part, uint32_t slot, uint32_t crc, const Status& status) {
    Entry& entry = entries_[part.page];
    const bool is_its_own = entry.is_in_slot() && entry.slot() == slot;
    if (status.is_ok()) {
      if (entry.is_in_slot() && !is_its_own) pool_.slot_is_bad();  // the one that it had failed before
      entry.set(slot, crc);
      return Status();
    }
    if (!is_its_own) pool_.slot_is_bad();
    auto next = ++part.failed <= kTries ? pool_.take_slot() : Result<uint32_t>(status);
    if (next.is_ok()) return write_to(part, *next, crc);
    // What the first write left in the page's own slot nobody knows; the checksum of before tells (X2).
    return pool_.stop_writes(status);
  }

  /// After it had to wait.
  void end(Part& part, Outcome outcome) {
    if (!outcome) return;  // another thread may have ended it by now
    const uint64_t page = part.page;
    if (finish(part, std::move(*outcome))) run(page);
  }
  /// True: the page's next part is the caller's to carry out. Else the extent may be gone when this returns.
  bool finish(Part& part, Status status) {
    std::unique_ptr<Part> over;
    bool more;
    {
      std::lock_guard lock(mutex_);
      const auto busy = busy_.find(part.page);
      OCM_DASSERT(busy != busy_.end() && busy->second.front().get() == &part);
      over = std::move(busy->second.front());
      busy->second.pop_front();
      more = !busy->second.empty();
      if (!more) busy_.erase(busy);
    }
    if (over->buffer != nullptr) pool_.give_buffer(over->buffer);
    Call& call = *over->call;
    if (!status.is_ok()) {
      std::lock_guard lock(call.mutex);
      if (call.status.is_ok()) call.status = std::move(status);
    }
    const uint64_t left = call.left.fetch_sub(1, std::memory_order_acq_rel);
    OCM_DASSERT(left > 0);
    if (left == 1) call.done(std::move(call.status));
    return more;
  }

  ScratchPool& pool_;
  const uint64_t bytes_;
  const uint64_t count_;
  const Entries entries_;  // each is touched by who carries out its page's first part

  std::mutex mutex_;
  std::unordered_map<uint64_t, std::deque<std::unique_ptr<Part>>> busy_;
};

ScratchPool::ScratchPool(Queue& queue, uint64_t first_byte, uint32_t slots, uint64_t page_bytes)
    : queue_(queue),
      first_byte_(first_byte),
      slots_(slots),
      page_bytes_(page_bytes),
      buffers_(static_cast<uint32_t>(std::clamp<uint64_t>(kBuffersBytes / page_bytes, 4, Queue::kDepth))),
      memory_(make_buffer(buffers_ * page_bytes)) {
  OCM_ASSERT(std::has_single_bit(page_bytes) && page_bytes >= kBlockBytes && first_byte % kBlockBytes == 0);
  OCM_DASSERT(slots < kSlotsMax);
  if (memory_ == nullptr) throw std::bad_alloc();
  for (uint32_t i = 0; i < buffers_; ++i) free_buffers_.push_back(memory_.get() + i * page_bytes);
}

ScratchPool::~ScratchPool() {
  OCM_ASSERT(free_buffers_.size() == buffers_);
  OCM_DASSERT(free_.size() + bad_ == fresh_ && is_valid());  // X1: no page is left
}

Result<std::unique_ptr<Backing>> ScratchPool::make(uint64_t bytes) {
  OCM_TRY(writable());
  return Pages::make(*this, bytes);
}

ScratchPool::State ScratchPool::state() const {
  std::lock_guard lock(mutex_);
  return {slots_, free_.size() + (slots_ - fresh_), bad_, lost_, writable_};
}

bool ScratchPool::is_valid() const {
  std::lock_guard lock(mutex_);
  std::vector<bool> met(fresh_, false);
  for (const uint32_t slot : free_) {
    if (slot >= fresh_ || met[slot]) return false;
    met[slot] = true;
  }
  return fresh_ <= slots_ && free_.size() + bad_ <= fresh_ && free_buffers_.size() <= buffers_;
}

Result<uint32_t> ScratchPool::take_slot() {
  std::lock_guard lock(mutex_);
  OCM_TRY(writable_);
  if (!free_.empty()) {
    const uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  if (fresh_ == slots_) return Status(Code::kIo, "too many of the pool's slots are bad");
  return fresh_++;
}

void ScratchPool::give_slot(uint32_t slot) {
  std::lock_guard lock(mutex_);
  OCM_DASSERT(slot < fresh_ && free_.size() + bad_ < fresh_);  // X1
  free_.push_back(slot);
}

void ScratchPool::slot_is_bad() {
  std::lock_guard lock(mutex_);
  OCM_DASSERT(free_.size() + bad_ < fresh_);  // X1
  ++bad_;
}

void ScratchPool::page_is_lost() {
  std::unique_lock lock(mutex_);
  const uint64_t lost = ++lost_, bad = bad_;
  lock.unlock();
  // The first, and each time that they have doubled.
  if (std::has_single_bit(lost)) log::error("nvme_pages_lost", {{"pages", lost}, {"bad_slots", bad}});
}

Status ScratchPool::stop_writes(const Status& why) {
  std::unique_lock lock(mutex_);
  const bool first = writable_.is_ok();
  if (first) writable_ = Status(Code::kIo, "the pool takes no more writes: " + std::string(why.message()));
  const Status out = writable_;
  lock.unlock();
  if (first) log::error("nvme_read_only", {{"why", out.message()}});
  return out;
}

std::byte* ScratchPool::try_buffer() {
  std::lock_guard lock(mutex_);
  if (free_buffers_.empty() || !want_buffer_.empty()) return nullptr;
  std::byte* buffer = free_buffers_.back();
  free_buffers_.pop_back();
  return buffer;
}

void ScratchPool::await_buffer(std::function<void(std::byte*)> use) {
  {
    std::lock_guard lock(mutex_);
    want_buffer_.push_back(std::move(use));
  }
  hand_out_buffers();
}

void ScratchPool::give_buffer(std::byte* buffer) {
  {
    std::lock_guard lock(mutex_);
    OCM_DASSERT(free_buffers_.size() < buffers_);  // X4
    free_buffers_.push_back(buffer);
  }
  hand_out_buffers();
}

void ScratchPool::hand_out_buffers() {
  std::unique_lock lock(mutex_);
  if (handing_out_) return;  // who does so sees this one, too; also the caller's own caller
  handing_out_ = true;
  while (!want_buffer_.empty() && !free_buffers_.empty()) {
    const auto use = std::move(want_buffer_.front());
    want_buffer_.pop_front();
    std::byte* buffer = free_buffers_.back();
    free_buffers_.pop_back();
    lock.unlock();
    use(buffer);
    lock.lock();
  }
  handing_out_ = false;
}

}  // namespace ocm::memory::nvme
