// The pages whose home this node is: carries out what protocol/directory_page.h decides, for messages of the nodes that cache
// them on one side and the storage on the other.
//
// Invariants
//   G1 a page that storage alone has (U) has no entry; its extent remembers the highest epoch and version of those that had
//      one, and the next begins with these.
//   G2 bytes of a put wait with it, of one put of a node at a time.
//   G3 of a page one access to the storage is under way at most.
//   G4 every transaction that takes as long as the failure deadline is overdue, and a page is away for the grace at most.
// Threads: one at a time. Nothing here waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cache/packet.h"
#include "cache/protocol/directory_page.h"

namespace ocm::cache {

struct HomeLimits {
  uint64_t overdue_ns = 1'500'000'000;
  uint64_t grace_ns = 10'000'000'000;
};
struct HomeStatistics {
  uint64_t requests = 0, reads = 0, writes = 0, failed_reads = 0, failed_writes = 0;
  uint64_t faults = 0, repairs = 0, overdue = 0, lost = 0;
};

class PageHome {
 public:
  class Out {
   public:
    virtual ~Out() = default;
    virtual void post(NodeNumber to, const PageName& name, const Message& message, PageBytes bytes) = 0;
    virtual void taken(NodeNumber sender, const PageName& name, uint64_t request) = 0;
    virtual void fault(NodeNumber sender, const PageName& name) = 0;
    virtual uint64_t fresh() = 0;
    /// was_read(), was_written() follow, later.
    virtual void read(const PageName& name) = 0;
    virtual void write(const PageName& name, PageBytes bytes) = 0;
    /// The extent is gone; said to each node that has it attached.
    virtual void revoke(NodeNumber to, const ExtentId& extent) = 0;
  };

  PageHome(Out& out, const HomeLimits& limits) : out_(out), limits_(limits) {}

  void add(const ExtentId& extent, uint32_t pages, const DirectoryPolicy& policy);
  void remove(const ExtentId& extent);
  bool has(const ExtentId& extent) const { return extents_.contains(extent); }
  /// `node` may read, or also write, its pages from now on.
  Status attach(const ExtentId& extent, NodeNumber node, bool writes);
  /// It holds none of them any more.
  void detach(const ExtentId& extent, NodeNumber node);

  /// `message.from` is a node, in its term.
  void receive(const PageName& name, const Message& message, PageBytes bytes, uint64_t now_ns);
  /// kOk with the bytes; kLost: its slot has them no more; else they may be there another time.
  void was_read(const PageName& name, Code code, PageBytes bytes, uint64_t now_ns);
  void was_written(const PageName& name, Code code, uint64_t now_ns);
  /// `may_return`: with what it has.
  void term_ended(NodeNumber node, bool may_return, uint64_t now_ns);
  /// In a new term: of the pages but those that it returned (which are listed no more) it froze none.
  void returned(NodeNumber node, bool forgot, uint64_t now_ns);
  /// Returns with a copy, that `node` sent in its term.
  uint64_t returns(NodeNumber node) const;

  void tick(uint64_t now_ns);
  uint64_t due_ns() const { return due_.empty() ? ~uint64_t{0} : due_.begin()->first; }

  size_t pages() const { return pages_.size(); }
  const HomeStatistics& statistics() const { return statistics_; }
  /// G1, G2. Cost: all entries.
  bool is_valid() const;

 private:
  struct Extent {
    uint32_t pages = 0;
    DirectoryPolicy policy;
    uint32_t epoch = 1;  // G1
    uint64_t version = 1;
    std::map<NodeNumber, bool> attached;  // true: writes
  };
  struct Page {
    DirectoryPage page;
    PageBytes bytes;                                     // read, or brought by the last message
    std::vector<std::pair<NodeNumber, PageBytes>> puts;  // G2
    bool uses_storage = false;                           // G3
    uint64_t due_ns = 0;                                 // G4; 0: nothing is
  };
  using Entry = std::pair<const PageName, Page>;
  struct IdHash {
    size_t operator()(const ExtentId& id) const {
      return std::hash<GlobalAddress>{}(id.address) ^ id.generation;
    }
  };

  Entry& entry_of(const PageName& name, const Extent& extent);
  void apply(Entry& entry, const DirectoryEvent& event, uint64_t now_ns);
  void act(Entry& entry, const DirectoryAction& action);
  void watch(Entry& entry, const DirectoryPage& before, uint64_t now_ns);
  void forget_if_empty(Entry& entry);
  void refuse(const PageName& name, const Message& message);
  template <class Do>
  void each_page(Do act);

  Out& out_;
  const HomeLimits limits_;
  std::unordered_map<ExtentId, Extent, IdHash> extents_;
  std::unordered_map<PageName, Page, PageNameHash> pages_;
  std::multimap<uint64_t, PageName> due_;  // some are not, any more
  std::map<NodeNumber, std::unordered_set<PageName, PageNameHash>> returned_;
  HomeStatistics statistics_;
};

}  // namespace ocm::cache
