#include "memory/nvme/pages.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

#include "base/crc32c.h"
#include "base/log.h"

namespace ocm::memory::nvme {

/// Those of one extent.
class PagePool::Pages final : public Backing, public Staged {
 public:
  class Entry {
   public:
    Entry() = default;
    bool is_in_slot() const { return place_ != 0 && place_ != kLost; }
    bool is_lost() const { return place_ == kLost; }
    uint32_t slot() const {
      OCM_DASSERT(is_in_slot());
      return place_ - 1;
    }
    OwnSlot own() const { return is_in_slot() ? OwnSlot(place_ - 1) : std::nullopt; }
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

  Pages(PagePool& pool, const ExtentId& extent, uint64_t bytes, uint64_t count, Entries entries)
      : pool_(pool), extent_(extent), bytes_(bytes), count_(count), entries_(std::move(entries)) {
    OCM_DASSERT(count * pool.page_bytes_ >= bytes);
  }
  ~Pages() override {
    OCM_ASSERT(busy_.empty());  // whoever began something keeps the backing
    discard(0, count_ * pool_.page_bytes_);
    pool_.ended(extent_);
  }

  uint64_t bytes() const override { return bytes_; }
  Result<std::byte*> data() override { return Status(Code::kUnsupported, "the bytes are on a device"); }
  Result<os::Fd> share(Access) override { return Status(Code::kUnsupported, "the bytes are on a device"); }
  void discard(uint64_t offset, uint64_t bytes) override {
    OCM_DASSERT(offset % pool_.page_bytes_ == 0 && offset + bytes <= count_ * pool_.page_bytes_);
    OCM_DASSERT(is_idle());
    const uint64_t end = (offset + bytes) / pool_.page_bytes_;
    for (uint64_t i = offset / pool_.page_bytes_; i < end; ++i) {
      if (entries_[i].is_in_slot()) pool_.gone(entries_[i].slot());
      entries_[i] = {};
    }
  }
  bool ends_whole() override { return !pool_.frees_slots(); }
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
    uint32_t slot = 0;    // it is written there
    uint32_t crc = 0;     // of what is written
    uint32_t failed = 0;  // tries
    Status failure;       // the last one's, of a write
  };

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

  bool is_idle() {
    const std::lock_guard lock(mutex_);
    return busy_.empty();
  }

  /// What became of a part; none: the device is at work, or a buffer or a slot is waited for.
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
        part->buffer = pool_.buffers_.try_take();
        if (part->buffer == nullptr) {
          return pool_.buffers_.await([this, part](std::byte* buffer) {
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
    OCM_DASSERT(!entry.is_lost());  // P1
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
      pool_.lost(entry.slot());
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
    part.crc = crc32c(0, part.buffer, pool_.page_bytes_);
    return place(part, entries_[part.page].own());
  }
  Outcome place(Part& part, OwnSlot own) {
    auto slot =
        pool_.take_slot(own, [this, &part](MaybeSlot got) { end(part, placed(part, std::move(got))); });
    return slot ? placed(part, std::move(*slot)) : Outcome();
  }
  Outcome placed(Part& part, MaybeSlot slot) {
    if (!slot.is_ok()) return part.failed == 0 ? slot.status() : pool_.stop_writes(part.failure);
    part.slot = *slot;
    pool_.queue_.submit({Request::Op::kWrite, pool_.offset_of(part.slot), part.buffer, pool_.page_bytes_,
                         [this, &part](const Status& status) { end(part, written(part, status)); }});
    return {};
  }
  Outcome written(Part& part, const Status& status) {
    Entry& entry = entries_[part.page];
    if (status.is_ok()) {
      const Status known = pool_.written({extent_, part.page}, entry.own(), part.slot, part.crc);
      if (known.is_ok()) entry.set(part.slot, part.crc);
      return known;
    }
    pool_.not_written(entry.own(), part.slot);
    part.failure = status;
    // What a write left in the page's own slot nobody knows; the checksum of before tells (P1).
    return ++part.failed <= kTries ? place(part, {}) : pool_.stop_writes(status);
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
    if (over->buffer != nullptr) pool_.buffers_.give(over->buffer);
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

  PagePool& pool_;
  const ExtentId extent_;
  const uint64_t bytes_;
  const uint64_t count_;
  const Entries entries_;  // each is touched by who carries out its page's first part

  std::mutex mutex_;
  std::unordered_map<uint64_t, std::deque<std::unique_ptr<Part>>> busy_;
};

PagePool::PagePool(Queue& queue, uint64_t first_byte, uint64_t slots, uint64_t page_bytes)
    : queue_(queue), first_byte_(first_byte), slots_(slots), page_bytes_(page_bytes), buffers_(page_bytes) {
  OCM_DASSERT(slots < kSlotsMax);
  OCM_ASSERT(std::has_single_bit(page_bytes) && page_bytes >= kBlockBytes && first_byte % kBlockBytes == 0);
}

Result<std::unique_ptr<Backing>> PagePool::make_pages(const ExtentId& extent, uint64_t bytes,
                                                      const std::unordered_map<uint64_t, PageAt>& pages) {
  const uint64_t count = count_of(bytes);
  // Zeros that cost memory where a page is written.
  Pages::Entries entries(static_cast<Pages::Entry*>(std::calloc(count, sizeof(Pages::Entry))));
  if (entries == nullptr)
    return Status(Code::kNoMemory, "no memory for the table of " + std::to_string(count) + " pages");
  for (const auto& [page, at] : pages) {
    OCM_DASSERT(page < count);
    entries[page].set(at.slot, at.crc);
  }
  return std::unique_ptr<Backing>(std::make_unique<Pages>(*this, extent, bytes, count, std::move(entries)));
}

Status PagePool::read_only(const Status& why) {
  Status out(Code::kIo, "the pool takes no more writes: " + std::string(why.message()));
  log::error("nvme_read_only", {{"why", out.message()}});
  return out;
}

void PagePool::tell_lost(uint64_t pages, uint64_t bad_slots) {
  // The first, and each time that they have doubled.
  if (std::has_single_bit(pages)) log::error("nvme_pages_lost", {{"pages", pages}, {"bad_slots", bad_slots}});
}

}  // namespace ocm::memory::nvme
