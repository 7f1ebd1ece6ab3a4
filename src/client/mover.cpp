#include "client/mover.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <exception>
#include <new>

#include "client/polls.h"
#include "client/underway.h"
#include "os/clock.h"
#include "os/interrupt.h"
#include "os/signals.h"

namespace ocm::client {
namespace {

constexpr uint64_t kAwakeNs = 50'000'000;
constexpr int kQuietMs = static_cast<int>(UnderWay::kQuietNs / 1'000'000);
/// Another thread may take what would have woken this one.
constexpr int kSleepMsMax = 10;

}  // namespace

Mover::~Mover() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  (void)wake();
  thread_.join();
}

bool Mover::wake() {
  if (std::lock_guard lock(starting_); !thread_.joinable()) {
    if (!wake_.is_open()) wake_ = os::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_.is_open()) return false;
    const os::BlockedSignals none_for_it;
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::exception&) {  // no thread, or no memory for its stack
      return false;
    }
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof(one));
  return true;
}

void Mover::run() {
  const os::Uninterrupted for_others;
  asleep_.store(false, std::memory_order_seq_cst);
  uint64_t busy_ns = os::now_ns();
  uint64_t moved = 0;
  bool woken = false;  // by what an operation waits for
  while (!stopping_.load()) {
    const uint64_t now_ns = os::now_ns();
    Polls polls;
    polls.add(wake_.get(), POLLIN);
    if (under_way_.is_idle()) {
      if (now_ns - busy_ns > kAwakeNs) {
        asleep_.store(true, std::memory_order_seq_cst);
        if (under_way_.is_idle()) polls.sleep(-1);
        asleep_.store(false, std::memory_order_seq_cst);
        busy_ns = os::now_ns();
      } else {
        polls.sleep(kQuietMs);
      }
      woken = false;
    } else {
      busy_ns = now_ns;
      const UnderWay::Moved now = under_way_.move_what_is_left_alone(now_ns, polls);
      WordWaits::Looked words;
      try {
        words = under_way_.words().look(now_ns, polls);
      } catch (const std::bad_alloc&) {  // for an error's text; the next look has it
      }
      polls.at_latest(now_ns, words.next_ns);
      // Woken for bytes that were not for these: others move the same channels.
      const bool in_vain = woken && now.total + words.gets_total == moved;
      moved = now.total + words.gets_total;
      if (in_vain) {
        Polls only_told;
        only_told.add(wake_.get(), POLLIN);
        only_told.at_latest(now_ns, words.next_ns);
        only_told.sleep(kQuietMs);
        woken = false;
      } else {
        woken = polls.sleep(now.has_more ? kQuietMs : kSleepMsMax);
      }
    }
    uint64_t count = 0;
    if (::read(wake_.get(), &count, sizeof(count)) > 0) woken = false;
  }
}

}  // namespace ocm::client
