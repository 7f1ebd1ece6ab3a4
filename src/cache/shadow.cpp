#include "cache/shadow.h"

#include <fcntl.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/assert.h"

namespace ocm::cache {

namespace {

/// Not through a mapping, whose faults wait for who punches holes there.
void read_file(const os::Fd& file, uint64_t offset, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = ::pread(file.get(), into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    OCM_ASSERT(got > 0);  // memory, as long as the file that nobody can cut
    into = into.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
}

}  // namespace

/// Its thread outlives the shadow by what it is in the middle of: `moved` may be where the last owner lets the shadow go.
class Shadow::Mover {
 public:
  Mover(uint64_t page_bytes, std::shared_ptr<os::Fd> file, std::function<void(uint32_t)> moved)
      : page_bytes_(page_bytes), file_(std::move(file)), moved_(std::move(moved)) {}

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ends_ || !work_.empty(); });
      if (work_.empty()) return;
      const Move move = work_.front();
      work_.pop_front();
      // Under the lock, so that who gives up knows what has moved.
      read_file(*file_, move.page * page_bytes_, {move.to, page_bytes_});
      copied_ = move.number;
      lock.unlock();
      while (!os::discard(file_->get(), move.page * page_bytes_, page_bytes_)) {
        // Interrupted; nothing else keeps the hole from a file that nobody can seal.
        std::this_thread::yield();
      }
      moved_(move.page);
      lock.lock();
    }
  }
  uint64_t give(uint32_t page, std::byte* to) {
    uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      number = ++given_;
      work_.push_back({number, page, to});
    }
    changed_.notify_one();
    return number;
  }
  uint64_t end() {
    uint64_t copied = 0;
    {
      const std::lock_guard lock(mutex_);
      work_.clear();
      ends_ = true;
      copied = copied_;
    }
    changed_.notify_one();
    return copied;
  }

 private:
  struct Move {
    uint64_t number = 0;
    uint32_t page = 0;
    std::byte* to = nullptr;
  };
  const uint64_t page_bytes_;
  const std::shared_ptr<os::Fd> file_;
  const std::function<void(uint32_t)> moved_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Move> work_;
  uint64_t given_ = 0, copied_ = 0;
  bool ends_ = false;
};

Result<std::shared_ptr<Shadow>> Shadow::make(uint64_t page_bytes, uint32_t pages,
                                             std::function<void(uint32_t page)> moved) {
  OCM_ASSERT(page_bytes % 4096 == 0 && pages != 0);
  const uint64_t bytes = page_bytes * pages;
  OCM_TRY_ASSIGN(os::Fd fd, os::make_memfd("oncilla-shadow", bytes, {}));
  OCM_TRY_ASSIGN(os::Mapping mapping, os::Mapping::map(fd.get(), bytes, true));
  mapping.keep_from_core_dumps();
  mapping.refuse_huge_pages();
  const auto file = std::make_shared<os::Fd>(std::move(fd));
  const auto mover = std::make_shared<Mover>(page_bytes, file, std::move(moved));
  try {
    std::thread([mover] { mover->run(); }).detach();
  } catch (const std::system_error&) {
    return Status(Code::kNoMemory, "the system has no thread for the pages that programs map");
  }
  return std::shared_ptr<Shadow>(new Shadow(page_bytes, std::move(mapping), file, mover));
}

Shadow::~Shadow() { (void)mover_->end(); }

uint64_t Shadow::give_up() { return mover_->end(); }

Result<os::Fd> Shadow::share(bool writable) const {
  if (!writable) return os::reopen_read_only(file_->get());
  os::Fd copy(::fcntl(file_->get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.is_open()) return Status::from_errno(errno, "a descriptor of cached pages");
  return copy;
}

void Shadow::enter(uint32_t page, const std::byte* bytes) {
  std::memcpy(mapping_.data() + page * page_bytes_, bytes, page_bytes_);
}

void Shadow::read(uint32_t page, uint64_t offset, std::span<std::byte> into) const {
  OCM_DASSERT(offset <= page_bytes_ && into.size() <= page_bytes_ - offset);
  read_file(*file_, page * page_bytes_ + offset, into);
}

uint64_t Shadow::move_out(uint32_t page, std::byte* to) { return mover_->give(page, to); }

}  // namespace ocm::cache
