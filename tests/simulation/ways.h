// The ways between the nodes of the simulated cluster, one for each direction: what is sent on a stream
// arrives in order, once, after a delay that the seed chooses, and late while the way is cut. So a message
// that lies in a stream during a cut arrives after it, whatever its sender believes by then.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "sim_env.h"

namespace ocm::simulation {

class Pipe;

class Ways {
 public:
  Ways(Clock& clock, size_t nodes, uint64_t seed)
      : clock_(clock), nodes_(nodes), cuts_(nodes * nodes), random_(seed) {}

  bool is_cut(size_t from, size_t to) const { return cuts_[from * nodes_ + to] > 0; }
  bool any_cut() const {
    return std::any_of(cuts_.begin(), cuts_.end(), [](int cuts) { return cuts > 0; });
  }
  /// Cuts of one way add up.
  void cut(size_t from, size_t to) { ++cuts_[from * nodes_ + to]; }
  void restore(size_t from, size_t to);
  /// What waits behind a cut is dropped: it may keep its own way, and coroutines of both ends.
  void drop_parked();
  /// At the end of the world: all that is under way is dropped, for the same reason.
  void drop_all();
  /// Of a connection, while its caller has it: `broke` runs at the caller's end when it is reset.
  void watch(const std::shared_ptr<Pipe>& there, const std::shared_ptr<Pipe>& back,
             std::function<void()> broke);
  /// Breaks every connection between two nodes: what is in them arrives no more.
  void reset(size_t a, size_t b);
  /// One message in `odds` takes up to `late_ns`, and one in `odds` of those that may be repeated comes twice.
  void set_late(uint64_t odds, uint64_t late_ns) {
    late_odds_ = odds;
    late_ns_ = late_ns;
  }
  bool repeats() { return late_odds_ != 0 && random_() % late_odds_ == 0; }

 private:
  friend class Pipe;
  void note_used(std::weak_ptr<Pipe> pipe) {
    std::erase_if(used_, [](const auto& old) { return old.expired(); });
    used_.push_back(std::move(pipe));
  }
  uint64_t delay_ns() {
    uint64_t out = 50'000 + random_() % 300'000;
    if (late_odds_ != 0 && random_() % late_odds_ == 0) out += random_() % late_ns_;
    return out;
  }

  Clock& clock_;
  const size_t nodes_;
  std::vector<int> cuts_;
  std::mt19937_64 random_;
  uint64_t late_odds_ = 0, late_ns_ = 0;
  struct Watched {
    std::weak_ptr<Pipe> there, back;
    std::function<void()> broke;
  };
  std::vector<Watched> watched_;
  std::vector<std::shared_ptr<Pipe>> parked_;  // also of connections that their owners closed
  std::vector<std::weak_ptr<Pipe>> used_;      // every pipe that something was sent into
};

/// One direction of a stream.
class Pipe : public std::enable_shared_from_this<Pipe> {
 public:
  Pipe(Ways& ways, size_t from, size_t to) : ways_(ways), from_(from), to_(to) {}

  void send(std::function<void()> arrive) {
    if (broken_) return;
    if (last_ns_ == 0) ways_.note_used(weak_from_this());
    last_ns_ = std::max(last_ns_, ways_.clock_.now_ns() + ways_.delay_ns());
    queue_.push_back({last_ns_, std::move(arrive)});
    if (queue_.size() == 1) schedule(last_ns_);
  }

 private:
  friend class Ways;
  struct Item {
    uint64_t at_ns;
    std::function<void()> arrive;
  };
  void schedule(uint64_t at_ns) {
    ways_.clock_.at(at_ns, [self = shared_from_this()] { self->step(); });
  }
  void step() {
    if (queue_.empty()) return;  // it broke
    if (ways_.is_cut(from_, to_)) {
      parked_ns_ = ways_.clock_.now_ns();
      ways_.parked_.push_back(shared_from_this());
      return;
    }
    const std::function<void()> arrive = std::move(queue_.front().arrive);
    queue_.pop_front();
    if (!queue_.empty()) schedule(queue_.front().at_ns);
    arrive();
  }

  Ways& ways_;
  const size_t from_, to_;
  uint64_t last_ns_ = 0;
  uint64_t parked_ns_ = 0;  // since when
  bool broken_ = false;
  std::deque<Item> queue_;
};

inline void Ways::watch(const std::shared_ptr<Pipe>& there, const std::shared_ptr<Pipe>& back,
                        std::function<void()> broke) {
  std::erase_if(watched_, [](const Watched& one) { return one.there.expired(); });
  watched_.push_back({there, back, std::move(broke)});
}

inline void Ways::reset(size_t a, size_t b) {
  const auto watched = watched_;
  for (const Watched& one : watched) {
    const auto there = one.there.lock(), back = one.back.lock();
    if (!there || !back || std::minmax(there->from_, there->to_) != std::minmax(a, b)) continue;
    for (const auto& pipe : {there, back}) {
      pipe->broken_ = true;
      std::exchange(pipe->queue_, {}).clear();
    }
    clock_.in(delay_ns(), one.broke);
  }
}

inline void Ways::drop_parked() {
  std::vector<std::shared_ptr<Pipe>> parked;
  parked.swap(parked_);
  for (auto& pipe : parked) std::exchange(pipe->queue_, {}).clear();
}

inline void Ways::drop_all() {
  drop_parked();
  for (const auto& used : used_) {
    if (const auto pipe = used.lock()) std::exchange(pipe->queue_, {}).clear();
  }
}

inline void Ways::restore(size_t from, size_t to) {
  if (--cuts_[from * nodes_ + to] > 0) return;
  std::vector<std::shared_ptr<Pipe>> parked;
  parked.swap(parked_);
  for (auto& pipe : parked) {
    if (pipe->queue_.empty()) continue;
    if (pipe->from_ == from && pipe->to_ == to) {
      // The next retransmission: after a cut as long as it lasted, at most.
      const uint64_t backoff_ns = std::max<uint64_t>(clock_.now_ns() - pipe->parked_ns_, 400'000'000);
      pipe->schedule(clock_.now_ns() + delay_ns() + random_() % backoff_ns);
    } else {
      parked_.push_back(std::move(pipe));
    }
  }
}

}  // namespace ocm::simulation
