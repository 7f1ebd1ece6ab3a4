#include "memory/staged_memory.h"

#include <array>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/assert.h"

namespace ocm::memory {
namespace {

constexpr uint64_t kLockedBytes = uint64_t{64} << 10;
constexpr uint64_t kLocks = 16;  // of pieces of that length, by turns

class StagedMemory final : public Backing, public Staged {
 public:
  StagedMemory(std::unique_ptr<Backing> inner, std::byte* data) : inner_(std::move(inner)), data_(data) {}

  Staged* staged() override { return this; }
  bool has_file() override { return inner_->has_file(); }
  uint64_t bytes() const override { return inner_->bytes(); }
  Result<std::byte*> data() override { return not_mapped(); }
  Result<os::Fd> share(Access) override { return not_mapped(); }
  void discard(uint64_t offset, uint64_t bytes) override { inner_->discard(offset, bytes); }
  /// None is under way once each lock was free.
  void stop(std::function<void()> idle) override {
    for (std::mutex& lock : locks_) const std::lock_guard passed(lock);
    idle();
  }

  void read(uint64_t offset, std::span<std::byte> into, Done done) override {
    if (!into.empty()) {
      const Locked locked(*this, offset, into.size());
      std::memcpy(into.data(), data_ + offset, into.size());
    }
    done({});
  }
  void write(uint64_t offset, std::span<const std::byte> from, Done done) override {
    if (!from.empty()) {
      const Locked locked(*this, offset, from.size());
      std::memcpy(data_ + offset, from.data(), from.size());
    }
    done({});
  }
  void modify(uint64_t offset, std::function<void(std::byte*)> change, Done done) override {
    OCM_DASSERT(offset % 8 == 0);
    {
      const Locked locked(*this, offset, 8);
      change(data_ + offset);
    }
    done({});
  }

 private:
  /// S1: in the order of the locks, whatever the order of the pieces.
  class Locked {
   public:
    Locked(StagedMemory& its, uint64_t offset, uint64_t bytes) : its_(its) {
      OCM_DASSERT(bytes != 0 && offset <= its.bytes() && bytes <= its.bytes() - offset);
      const uint64_t first = offset / kLockedBytes, last = (offset + bytes - 1) / kLockedBytes;
      if (last - first >= kLocks - 1) {
        mask_ = (uint32_t{1} << kLocks) - 1;
      } else {
        for (uint64_t piece = first; piece <= last; ++piece) mask_ |= uint32_t{1} << piece % kLocks;
      }
      for (uint64_t i = 0; i < kLocks; ++i) {
        if (has(i)) its_.locks_[i].lock();
      }
    }
    ~Locked() {
      for (uint64_t i = 0; i < kLocks; ++i) {
        if (has(i)) its_.locks_[i].unlock();
      }
    }
    Locked(const Locked&) = delete;
    Locked& operator=(const Locked&) = delete;

   private:
    bool has(uint64_t lock) const { return (mask_ >> lock & 1) != 0; }
    StagedMemory& its_;
    uint32_t mask_ = 0;
  };

  static Status not_mapped() {
    return Status(Code::kUnsupported,
                  "the memory of a coherent extent is not mapped, for a cache may have newer bytes: put and "
                  "get them, or "
                  "map the pages that the daemon caches");
  }

  const std::unique_ptr<Backing> inner_;
  std::byte* const data_;  // of inner_
  std::array<std::mutex, kLocks> locks_;
};

}  // namespace

Result<std::unique_ptr<Backing>> staged_over_memory(std::unique_ptr<Backing> inner) {
  OCM_ASSERT(inner != nullptr && inner->staged() == nullptr);
  OCM_TRY_ASSIGN(std::byte* const data, inner->data());
  return std::unique_ptr<Backing>(std::make_unique<StagedMemory>(std::move(inner), data));
}

}  // namespace ocm::memory
