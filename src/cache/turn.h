// One turn at a page cache: what is done under its lock, what follows from that, and what leaves afterwards (K1).
#pragma once

#include <deque>
#include <functional>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

#include "cache/page_cache.h"

namespace ocm::cache {

/// What leaves is carried out one after the other by each thread, also what comes of that: storage may answer before it
/// returns, and the next page be asked for, and so on.
class Leaving {
 public:
  using List = std::vector<std::function<void()>>;
  static void run(List list) {
    static thread_local std::deque<std::function<void()>>* under_way = nullptr;
    if (under_way != nullptr) {
      for (auto& one : list) under_way->push_back(std::move(one));
      return;
    }
    std::deque<std::function<void()>> all(std::make_move_iterator(list.begin()),
                                          std::make_move_iterator(list.end()));
    under_way = &all;
    for (; !all.empty(); all.pop_front()) all.front()();
    under_way = nullptr;
  }
};

/// When it ends all that follows was done, and leaves once the lock is free.
class PageCache::Turn {
 public:
  explicit Turn(PageCache& cache) : cache_(cache), lock_(cache.mutex_), now_ns(cache.ports_.now_ns()) {
    cache_.check_terms(now_ns);
  }
  ~Turn() {
    cache_.settle(now_ns);
    cache_.flush(now_ns);
    if (std::exchange(cache_.sends_, false))
      cache_.leaving_.push_back([&ports = cache_.ports_] { ports.all_sent(); });
    const uint64_t due = cache_.next_due_ns(now_ns);
    const bool earlier = due < cache_.told_due_ns_;
    cache_.told_due_ns_ = due;
    if (earlier) cache_.leaving_.push_back([&ports = cache_.ports_] { ports.due_changed(); });
    Leaving::List leaving;
    leaving.swap(cache_.leaving_);
    if (!leaving.empty()) {  // until it is done the cache lives
      ++cache_.under_way_;
      leaving.push_back([&cache = cache_] { cache.one_less(); });
    }
    lock_.unlock();
    Leaving::run(std::move(leaving));
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  PageCache& cache_;
  std::unique_lock<std::mutex> lock_;

 public:
  const uint64_t now_ns;
};

}  // namespace ocm::cache
