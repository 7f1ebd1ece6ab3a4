// Breadth-first search, level by level: from the frontier down, or from the unvisited vertices up.
//
// Going down, the rows of the frontier are read and each unvisited neighbour is claimed. Going up, each
// unvisited vertex looks for any neighbour in the frontier and stops at the first. Up is cheaper while the
// frontier is a large part of the graph: the search turns up when the frontier has more than 1/alpha of the
// edges that were not looked at, and down again when less than 1/beta of the vertices are in it. Source:
// Beamer, Asanovic, Patterson, Direction-Optimizing Breadth-First Search (SC '12).
//
// A row's first neighbours are looked at before the source of edges is asked for its rest.
//
// Invariants
//   S1 visited_ has a bit for every vertex with a parent, and for every isolated one.
//   S2 A vertex' parent is written once, by the worker that set its bit.
//   S3 Going up, the words of visited_ and next_ belong to the worker that took their block.
// Threads: one search at a time; its team works on it.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <memory>
#include <oncilla/oncilla.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "bfs/bitmap.h"
#include "bfs/split.h"
#include "bfs/team.h"

namespace ocm::bfs {

enum class Direction { kTopDown, kOptimising };

struct SearchOptions {
  Direction direction = Direction::kOptimising;
  uint64_t alpha = 15;
  uint64_t beta = 18;
};

/// One step of a search.
struct Level {
  bool up = false;
  uint64_t found = 0;
  uint64_t nanoseconds = 0;
};

template <class Edges>
class Search {
  using Local = std::remove_cvref_t<decltype(std::declval<Edges&>().local())>;

 public:
  /// Both must outlive this.
  Search(Edges& edges, Team& team)
      : edges_(edges),
        local_(edges.local()),
        team_(team),
        parents_(std::make_unique<uint32_t[]>(local_.vertices)),
        visited_(local_.vertices),
        front_(local_.vertices),
        next_(local_.vertices),
        workers_(team.workers()) {}

  /// Finds a parent for everything that can be reached from `root`, whose parent is itself.
  /// Shapes: root < vertices. Errors: those of the source of edges; what was found so far is of no use.
  Done run(uint32_t root, const SearchOptions& options) {
    begin(root);
    uint64_t edges_left = local_.edges;
    while (!frontier_.empty()) {
      const bool may_turn = options.direction == Direction::kOptimising;
      if (may_turn && turns_up(edges_left, options.alpha)) {
        if (Done done = go_up(options.beta); !done) return done;
      } else {
        if (Done done = timed(false, [&] { return step_down(); }); !done) return done;
      }
    }
    return {};
  }

  /// Shapes: [0, vertices); kNoVertex where nothing was found.
  const uint32_t* parents() const { return parents_.get(); }
  const std::vector<Level>& levels() const { return levels_; }

 private:
  static constexpr uint64_t kBlockWords = 16;  // of the bitmaps: what a worker takes at a time going up

  struct alignas(64) Worker {
    std::vector<uint32_t> queue;  // found in this step
    uint64_t found = 0;
    Done done;
  };

  // ------------------------------------------------------------------ turning

  void begin(uint32_t root) {
    team_.run([&](unsigned worker) {
      const auto [begin, end] = team_.share(worker, local_.vertices, 64);
      std::fill(parents_.get() + begin, parents_.get() + end, kNoVertex);
      for (uint64_t i = begin / 64; i < (end + 63) / 64; ++i) visited_.word(i) = local_.isolated.word(i);
    });
    levels_.clear();
    visited_.set(root);
    parents_[root] = root;
    frontier_.assign(1, root);
  }

  /// How many, counting no further than beyond `most`.
  uint64_t edges_of_frontier(uint64_t most) const {
    uint64_t edges = 0;
    for (const uint32_t v : frontier_) {
      edges += local_.rest_degree(v) + local_.each;
      if (edges > most) break;
    }
    return edges;
  }

  /// True if the edges of the frontier are more than 1/alpha of those left; else takes them off.
  bool turns_up(uint64_t& edges_left, uint64_t alpha) const {
    const uint64_t most = edges_left / alpha, edges = edges_of_frontier(most);
    if (edges > most) return true;
    edges_left -= edges;
    return false;
  }

  Done go_up(uint64_t beta) {
    set_front();
    uint64_t awake = frontier_.size(), before = 0;
    do {
      before = awake;
      Done done = timed(true, [&] { return step_up(); });
      if (!done) return done;
      awake = levels_.back().found;
      front_.swap(next_);
    } while (awake >= before || awake > local_.vertices / beta);
    take_front();
    return {};
  }

  template <class Step>
  Done timed(bool up, Step step) {
    const auto start = std::chrono::steady_clock::now();
    for (Worker& worker : workers_) worker.found = 0;
    Done done = step();
    uint64_t found = 0;
    for (const Worker& worker : workers_) found += worker.found;
    const auto took = std::chrono::steady_clock::now() - start;
    levels_.push_back({up, found, static_cast<uint64_t>(std::chrono::nanoseconds(took).count())});
    return done;
  }

  /// The first error of any worker.
  Done outcome() const {
    for (const Worker& worker : workers_) {
      if (!worker.done) return worker.done;
    }
    return {};
  }

  // ------------------------------------------------------------------ the frontier as list and as bits

  void set_front() {
    team_.run([&](unsigned worker) {
      const auto [begin, end] = team_.share(worker, front_.words());
      for (uint64_t i = begin; i < end; ++i) front_.word(i) = 0;
    });
    team_.run(
        [&](unsigned worker) {
          const auto [begin, end] = team_.share(worker, frontier_.size());
          for (uint64_t i = begin; i < end; ++i) front_.claim(frontier_[i]);
        },
        frontier_.size());
  }

  /// The list of front_, in ascending order.
  void take_front() {
    std::vector<uint64_t> at(team_.workers() + 1);
    team_.run([&](unsigned worker) {
      const auto [begin, end] = team_.share(worker, front_.words());
      uint64_t count = 0;
      for (uint64_t i = begin; i < end; ++i) count += std::popcount(front_.word(i));
      at[worker + 1] = count;
    });
    for (size_t w = 1; w < at.size(); ++w) at[w] += at[w - 1];
    frontier_.resize(at.back());
    team_.run([&](unsigned worker) {
      const auto [begin, end] = team_.share(worker, front_.words());
      uint32_t* out = frontier_.data() + at[worker];
      for (uint64_t i = begin; i < end; ++i) {
        for (uint64_t bits = front_.word(i); bits != 0; bits &= bits - 1)
          *out++ = static_cast<uint32_t>(i * 64 + std::countr_zero(bits));
      }
    });
  }

  /// The queues become the frontier, in ascending order: rows are then read in theirs, which doubles the rate
  /// of plain arrays too, and rows that lie side by side become one segment.
  void take_queues() {
    frontier_.clear();
    for (Worker& worker : workers_) {
      frontier_.insert(frontier_.end(), worker.queue.begin(), worker.queue.end());
      worker.found = worker.queue.size();
      worker.queue.clear();
    }
    if (frontier_.size() < local_.vertices / 256) {
      std::sort(frontier_.begin(), frontier_.end());
    } else {
      set_front();
      take_front();
    }
  }

  // ------------------------------------------------------------------ down

  Done step_down() {
    const uint64_t grain = std::clamp<uint64_t>(frontier_.size() / (16 * team_.workers()), 1, 1024);
    std::atomic<uint64_t> taken{0};
    team_.run(
        [&](unsigned number) {
          Worker& worker = workers_[number];
          const auto look_at = [&](uint32_t parent, auto neighbours, uint64_t count) {
            for (; count > 0; --count, ++neighbours) {
              const uint32_t v = *neighbours;
              if (visited_.test_shared(v) || !visited_.claim(v)) continue;
              parents_[v] = parent;
              worker.queue.push_back(v);
            }
          };
          uint64_t at = 0, end = 0;
          const auto next = [&](uint32_t& v) {
            for (;; ++at) {
              if (at == end) {
                at = taken.fetch_add(grain, std::memory_order_relaxed);
                if (at >= frontier_.size()) return at = end = frontier_.size(), false;
                end = std::min(at + grain, frontier_.size());
              }
              v = frontier_[at];
              const uint32_t* heads = local_.heads.data() + uint64_t{v} * local_.each;
              uint64_t count = 0;
              while (count < local_.each && heads[count] != kNoVertex) ++count;
              look_at(v, heads, count);
              if (local_.rest_degree(v) > 0) return ++at, true;
            }
          };
          worker.done = edges_.stream(number, next, look_at);
        },
        edges_of_frontier(Team::kThingsMin));
    take_queues();
    return outcome();
  }

  // ------------------------------------------------------------------ up

  Done step_up() {
    std::atomic<uint64_t> taken{0};
    team_.run([&](unsigned number) {
      Worker& worker = workers_[number];
      const auto found = [&](uint32_t v, uint32_t parent) {
        parents_[v] = parent;
        visited_.set(v);
        next_.set(v);
        ++worker.found;
      };
      const auto look_at = [&](uint32_t v, auto neighbours, uint64_t count) {
        if (next_.test(v)) return;  // in an earlier piece of its row
        for (; count > 0; --count, ++neighbours) {
          if (front_.test(*neighbours)) return found(v, *neighbours);
        }
      };
      Unvisited unvisited(*this, taken);
      const auto next = [&](uint32_t& v) {
        while (unvisited.next(v)) {
          const uint32_t* head = local_.heads.data() + uint64_t{v} * local_.each;
          const uint32_t* end = head + local_.each;
          while (head != end && *head != kNoVertex && !front_.test(*head)) ++head;
          if (head == end) {
            if (local_.rest_degree(v) > 0) return true;
          } else if (*head != kNoVertex) {
            found(v, *head);
          }
        }
        return false;
      };
      worker.done = edges_.stream(number, next, look_at);
    });
    return outcome();
  }

  /// The unvisited vertices of the blocks that one worker takes; clears their words of next_.
  class Unvisited {
   public:
    Unvisited(Search& search, std::atomic<uint64_t>& taken) : search_(search), taken_(taken) {}
    bool next(uint32_t& v) {
      while (bits_ == 0) {
        if (++word_ >= end_ && !take()) return false;
        search_.next_.word(word_) = 0;
        bits_ = ~search_.visited_.word(word_);
      }
      v = static_cast<uint32_t>(word_ * 64 + std::countr_zero(bits_));
      bits_ &= bits_ - 1;
      return v < search_.local_.vertices || next(v);
    }

   private:
    bool take() {
      word_ = taken_.fetch_add(kBlockWords, std::memory_order_relaxed);
      const uint64_t words = search_.next_.words();
      if (word_ >= words) return word_ = end_ = words, false;
      end_ = std::min(word_ + kBlockWords, words);
      return true;
    }

    Search& search_;
    std::atomic<uint64_t>& taken_;
    uint64_t word_ = 0, end_ = 0, bits_ = 0;
  };

  Edges& edges_;
  const Local& local_;
  Team& team_;
  std::unique_ptr<uint32_t[]> parents_;
  Bitmap visited_, front_, next_;
  std::vector<uint32_t> frontier_;
  std::vector<Worker> workers_;
  std::vector<Level> levels_;
};

}  // namespace ocm::bfs
