#include "client/word_wait.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "client/allocation.h"
#include "client/atomics.h"
#include "os/interrupt.h"

namespace ocm::client {
namespace {

void tell(int eventfd) {
  const uint64_t one = 1;
  if (eventfd < 0) return;
  [[maybe_unused]] const ssize_t n = ::write(eventfd, &one, sizeof(one));
}

}  // namespace

// ---------------------------------------------------------------- one look

bool WordWaits::look_here(WordWait& wait, uint64_t now_ns) {
  if (wait.get_ != nullptr) return false;
  const Allocation& allocation = *wait.allocation_;
  const Result<Piece> piece = word_piece(allocation, wait.offset_);
  if (!piece.is_ok()) {
    take(wait, piece.status(), now_ns);
    return true;
  }
  const Extent& extent = allocation.extent(piece.value().extent);
  if (allocation.replicated() || !extent.on_this_host()) return false;
  const std::byte* const data = extent.data_now();
  uint64_t seen = 0;
  // What cannot be loaded is got: that maps it, and follows a part that goes on elsewhere.
  if (data == nullptr || extent.local().load_word(data + piece.value().offset, seen) != Code::kOk)
    return false;
  take(wait, seen, now_ns);
  return true;
}

void WordWaits::look_far(WordWait& wait, Polls* polls) {
  if (wait.get_ == nullptr) {
    wait.get_ = std::make_unique<Operation>();
    const Run run{End{nullptr, 0, reinterpret_cast<std::byte*>(&wait.got_)},
                  End{wait.allocation_, wait.offset_, nullptr}, sizeof(wait.got_)};
    wait.get_->start(*wait.session_, Runs::one(run), false, sizeof(wait.got_));
  } else {
    (void)wait.get_->step();
  }
  if (!wait.get_->done() && polls != nullptr) (void)wait.get_->sleeps_on(*polls);
}

void WordWaits::take_get(WordWait& wait, uint64_t now_ns) {
  const std::unique_ptr<Operation> get = std::move(wait.get_);
  OCM_DASSERT(get->done());
  ++gets_total_;
  take(wait, get->status().is_ok() ? Result<uint64_t>(wait.got_) : Result<uint64_t>(get->status()), now_ns);
}

void WordWaits::take(WordWait& wait, const Result<uint64_t>& word, uint64_t now_ns) {
  if (!word.is_ok()) return finish(wait, word.status());
  if (word.value() >= wait.value_) {
    if (wait.seen_ != nullptr) *wait.seen_ = word.value();
    return finish(wait, {});
  }
  if (wait.deadline_.passed_at(now_ns))
    return finish(wait, Status(Code::kDeadline, "the word did not reach the value in time"));
  const uint64_t most_ns = wait.is_far_ ? kPauseNsMax * (1 + far_ / kFarLooksPerMs) : kPauseNsMax;  // W3
  wait.pause_ns_ = std::clamp(2 * wait.pause_ns_, kPauseNsMin, most_ns);
  wait.next_ns_ = now_ns + std::min(wait.pause_ns_, wait.deadline_.left_ns());
}

void WordWaits::finish(WordWait& wait, Status status) {
  OCM_DASSERT(!wait.looked_at_ && !wait.done());
  if (wait.get_ != nullptr) {
    wait.get_->take_back();
    wait.get_.reset();
  }
  if (all_.remove(&wait) > 0) {
    count_.fetch_sub(1, std::memory_order_seq_cst);
    if (wait.is_far_) --far_;
  }
  wait.status_ = std::move(status);
  wait.done_.store(true, std::memory_order_release);
  tell(wait.eventfd_);
  changed_.notify_all();
}

void WordWaits::end(WordWait& wait, Status status) {
  if (wait.done()) return;
  if (!wait.looked_at_) return finish(wait, std::move(status));
  wait.ending_ = std::move(status);
  wait.ends_.store(true);
}

// ---------------------------------------------------------------- the handle's owner

Status WordWaits::enter(WordWait& wait) {
  wait.session_ = wait.allocation_->session();
  const uint64_t now_ns = os::now_ns();
  std::unique_lock lock(mutex_);
  if (!look_here(wait, now_ns)) {
    wait.is_far_ = true;
    lock.unlock();
    look_far(wait, nullptr);  // nobody knows of it yet
    lock.lock();
    if (wait.get_->done()) take_get(wait, os::now_ns());
  }
  if (wait.done()) return wait.status_.code() == Code::kDeadline ? Status() : wait.status_;
  all_.push_back(&wait);
  count_.fetch_add(1, std::memory_order_seq_cst);
  if (wait.is_far_) ++far_;
  lock.unlock();
  if (mover_.hurry()) return {};
  leave(wait);
  return no_mover();
}

void WordWaits::leave(WordWait& wait) {
  std::unique_lock lock(mutex_);
  end(wait, Status(Code::kCancelled, "the operation was cancelled"));
  changed_.wait(lock, [&] { return wait.done(); });
}

void WordWaits::cancel(WordWait& wait) {
  const std::lock_guard lock(mutex_);
  end(wait, Status(Code::kCancelled, "the operation was cancelled"));
}

Status WordWaits::wait(const WordWait& wait, os::Deadline deadline) {
  constexpr int kSleepMsMax = 1000;
  os::Interrupts interrupts;
  std::unique_lock lock(mutex_);
  while (!wait.done()) {
    if (deadline.passed()) return Status(Code::kDeadline, "the operation is still under way");
    const int sleep_ms = std::max(1, deadline.poll_ms(interrupts.sleep_ms(kSleepMsMax)));
    changed_.wait_for(lock, std::chrono::milliseconds(sleep_ms));
    if (wait.done() || interrupts.none()) continue;
    lock.unlock();
    const bool came = interrupts.came();
    lock.lock();
    if (came && !wait.done()) return os::interrupted();
  }
  return wait.status_;
}

void WordWaits::signal(WordWait& wait, int eventfd) {
  const std::lock_guard lock(mutex_);
  wait.eventfd_ = eventfd;
  if (wait.done()) tell(eventfd);
}

void WordWaits::end_of(const Allocation* allocation) {
  if (is_empty()) return;
  std::unique_lock lock(mutex_);
  const auto is_its = [&](const WordWait* wait) { return wait->allocation_ == allocation; };
  for (auto next = all_.begin(); next != all_.end();) {
    WordWait& wait = **next++;
    if (is_its(&wait))
      end(wait, Status(Code::kRevoked, "the allocation was freed while its word was waited for"));
  }
  changed_.wait(lock, [&] { return std::none_of(all_.begin(), all_.end(), is_its); });
}

std::unique_lock<std::mutex> WordWaits::hold(const Allocation* allocation) {
  std::unique_lock lock(mutex_);
  const auto is_its = [&](const WordWait* wait) { return wait->allocation_ == allocation; };
  changed_.wait(lock, [&] {
    return std::none_of(all_.begin(), all_.end(),
                        [&](const WordWait* wait) { return is_its(wait) && wait->looked_at_; });
  });
  for (WordWait* wait : all_) {
    if (!is_its(wait) || wait->get_ == nullptr) continue;
    wait->get_->take_back();
    wait->get_.reset();
  }
  return lock;
}

// ---------------------------------------------------------------- the mover

WordWaits::Looked WordWaits::look(uint64_t now_ns, Polls& polls) {
  Looked out;
  std::unique_lock lock(mutex_);
  for (size_t left = all_.size(); left > 0 && !all_.empty(); --left) {
    all_.splice(all_.end(), all_, all_.begin());
    WordWait& wait = *all_.back();
    const bool is_due = wait.get_ != nullptr || now_ns >= wait.next_ns_;
    if (is_due && !look_here(wait, now_ns)) {
      if (!std::exchange(wait.is_far_, true)) ++far_;
      wait.looked_at_ = true;  // W2
      lock.unlock();
      Status failed;
      const os::InterruptedBy its_end(  // who dials a node for it
          [](int, void* one) { return static_cast<WordWait*>(one)->ends_.load() ? 1 : 0; }, &wait);
      try {
        look_far(wait, &polls);
      } catch (const std::bad_alloc&) {
        failed = Status(Code::kNoMemory);
      }
      lock.lock();
      wait.looked_at_ = false;
      changed_.notify_all();
      if (!wait.ending_.is_ok())
        finish(wait, std::move(wait.ending_));
      else if (!failed.is_ok())
        finish(wait, std::move(failed));
      else if (wait.get_->done())
        take_get(wait, os::now_ns());
      else if (wait.deadline_.passed_at(now_ns))
        finish(wait, Status(Code::kDeadline, "the word did not reach the value in time"));
    }
    // It may be destroyed once it is done.
    if (all_.empty() || all_.back() != &wait) continue;
    if (wait.get_ == nullptr) out.next_ns = std::min(out.next_ns, wait.next_ns_);
  }
  out.gets_total = gets_total_;
  return out;
}

}  // namespace ocm::client
