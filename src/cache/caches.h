// The page caches of one daemon, one for each length of pages, and their clock: one thread. They share one budget of memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cache/page_cache.h"

namespace ocm::cache {

struct CachesOptions {
  NodeNumber self = 1;     // the partition of this run
  uint64_t bytes = 0;      // of memory for pages; each cache uses at least Budget::kFewest pages
  bool cooperates = true;  // PageCacheOptions
  uint64_t failure_deadline_ns = 3'000'000'000;
};

class Caches {
 public:
  /// As PageCache::Ports::send(), with the length of the cache's pages.
  using Send = std::function<void(NodeNumber to, uint64_t page_bytes, const PacketHeader& header,
                                  const PageBytes& bytes)>;

  explicit Caches(const CachesOptions& options);
  /// As ~PageCache().
  ~Caches();
  Caches(const Caches&) = delete;
  Caches& operator=(const Caches&) = delete;

  NodeNumber self() const;
  /// Of memory for pages, of all caches together.
  uint64_t bytes() const;
  /// They take as much from now on; what is too much goes in the next seconds.
  void resize(uint64_t bytes);
  /// Packets leave by `send` and `all_sent`, which any thread calls. Once, before an extent of another node is attached.
  void send_by(Send send, std::function<void()> all_sent);

  static constexpr uint64_t kPageBytesLeast = 4096, kPageBytesMost = uint64_t{4} << 20;
  static bool is_page_length(uint64_t bytes) {
    return bytes >= kPageBytesLeast && bytes <= kPageBytesMost && (bytes & (bytes - 1)) == 0;
  }
  /// Of pages of that length, which is one; made by the first call. It lives as long as this.
  PageCache& of(uint64_t page_bytes);
  /// Null: there is none yet.
  PageCache* find(uint64_t page_bytes);
  /// Those that there are.
  std::vector<PageCache*> all();

  /// PageCache::allow() of the extent, whose home is here. The length of its pages; 0: no cache has it.
  uint64_t allow(const ExtentId& extent, NodeNumber node, bool writes);
  void run_is_over(NodeNumber node);

 private:
  class Clock;
  const std::unique_ptr<Clock> clock_;
};

}  // namespace ocm::cache
