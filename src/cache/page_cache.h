// The page cache of one daemon: the pages that it caches (holder.h), those whose home it is (page_home.h), and the terms and
// couriers by which it and others carry out the page protocol. What sends packets, keeps time and has the storage is given.
//
//   program --read, write--> Holder --Message--> Link --packet--> other node's Link --> PageHome --read, write--> Staged
//                              ^-------------------- Data --------- other node's Holder <-- Fetch --'
//
// Invariants
//   T1, T2 of courier/term.h: of a home whose term does not run nothing is used, which is looked at before anything else.
//   K1 what leaves this node (packets, accesses to the storage, done) leaves when no lock is held, in no order.
//   K2 a node that is found at fault is not listened to until its term is over, and then as to one that comes back.
//   K3 a run of a daemon that is said to be over may only be cut off, and its programs use its pages until its term is over:
//      until then nobody gets them.
// Threads: any.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <shared_mutex>
#include <span>
#include <vector>

#include "base/staged.h"
#include "cache/courier/term.h"
#include "cache/holder.h"
#include "cache/link.h"
#include "cache/page_home.h"

namespace ocm::cache {

struct PageCacheOptions {
  NodeNumber self = 0;  // the partition of this run
  uint64_t page_bytes = uint64_t{64} << 10;
  uint32_t frames = 1024;
  uint64_t term_ns = 1'500'000'000;
  CourierLimits courier;
  HomeLimits home;
  /// Nodes supply each other. Else what is clean comes from the home's own cache, into which it is brought first: as vGASNet
  /// is without cooperation.
  bool cooperates = true;
  uint64_t give_up_ns = 3'000'000'000;  // what waits for a frame or to become dirty, where a device fails
};

class PageCache {
 public:
  class Ports {
   public:
    virtual ~Ports() = default;
    virtual uint64_t now_ns() = 0;
    /// 64 bits that nobody can guess.
    virtual uint64_t random() = 0;
    /// `bytes`: null, or page_bytes of them. It may be lost, and come twice or later than others.
    virtual void send(NodeNumber to, const PacketHeader& header, const PageBytes& bytes) = 0;
    /// Nothing more follows at once: what was sent may leave together.
    virtual void all_sent() {}
    /// due_ns() may be earlier than it was.
    virtual void due_changed() = 0;
  };

  PageCache(Ports& ports, const PageCacheOptions& options);
  /// Waits for what is under way at the storage. No access is, and nobody calls it any more.
  ~PageCache();
  PageCache(const PageCache&) = delete;
  PageCache& operator=(const PageCache&) = delete;

  uint64_t page_bytes() const { return options_.page_bytes; }

  // ---- at the home
  /// The extent, of this run, is coherent from now on, and `storage` used by nobody else.
  void add(const ExtentId& extent, uint64_t bytes, std::shared_ptr<Staged> storage,
           const DirectoryPolicy& policy);
  /// It is freed: whoever caches pages of it drops them.
  void remove(const ExtentId& extent);
  /// Another node, or this one, has proved its right to it. Errors: kRevoked.
  Status allow(const ExtentId& extent, NodeNumber node, bool writes);
  void forbid(const ExtentId& extent, NodeNumber node);

  // ---- where programs use it
  /// attach() may follow: it is not attached with another length.
  bool may_attach(const ExtentId& extent, uint64_t bytes);
  /// Its home allows it. As often as it is detached.
  void attach(const ExtentId& extent, uint64_t bytes);
  void detach(const ExtentId& extent);
  /// Pages of other homes that are here: used, on their way to their home, or it is away. Cost: all pages.
  size_t pages_of_others();
  /// As those of Staged. Errors: kPeerLost (its home is not reached; or whoever has the page may come back), kLost, kIo,
  /// kRevoked, kPermission.
  void read(const ExtentId& extent, uint64_t offset, std::span<std::byte> into, Staged::Done done);
  void write(const ExtentId& extent, uint64_t offset, std::span<const std::byte> from, Staged::Done done);
  void modify(const ExtentId& extent, uint64_t offset, std::function<void(std::byte*)> change,
              Staged::Done done);

  // ---- where programs map it: see viewer.h
  /// Where its pages are while programs use them; made by the first call. Errors: kRevoked (it is not attached, or over),
  /// kNoMemory, kNoFds.
  Result<std::shared_ptr<Shadow>> shadow(const ExtentId& extent);
  /// A program touched a page that it may not use now, with a load or a store: grant() or refuse() follows, once for all that
  /// it says meanwhile.
  void fault(const ExtentId& extent, uint32_t page, bool stores, const std::shared_ptr<Viewer>& viewer,
             bool may_store);
  /// It maps that shadow of the extent from now on, until viewer_ended(). False: the extent has another one, or none, now.
  bool add_viewer(const ExtentId& extent, const Shadow* shadow, std::shared_ptr<Viewer> viewer);
  void is_protected(const ExtentId& extent, uint32_t page, const Viewer* viewer);
  void entered(const ExtentId& extent, uint32_t page, const Viewer* viewer);
  void viewer_ended(const ExtentId& extent, const Viewer* viewer);

  // ---- from outside
  /// `bytes`: what came behind the header, page_bytes of them, or null. False: no cache of this cluster sends that.
  bool receive(NodeNumber from, std::span<const std::byte> header, PageBytes bytes);
  /// That run of a daemon is over for good.
  void run_is_over(NodeNumber node);
  /// When tick() is due; all ones: never.
  uint64_t due_ns();
  void tick();

  void resize(uint32_t frames);
  struct Statistics {
    HolderStatistics holder;
    HomeStatistics home;
    uint64_t page_bytes = 0;
    uint64_t frames = 0, used = 0, dirty = 0;
    size_t directory_pages = 0;
    uint64_t terms_ended = 0, faults = 0, packets_sent = 0, packets_refused = 0;
  };
  Statistics statistics();
  /// Of all its parts. Cost: all pages.
  bool is_valid();

 private:
  /// A home whose pages this node caches.
  struct HomeOf {
    explicit HomeOf(uint64_t term_ns) : term(term_ns) {}
    HeldTerm term;
    std::optional<Link> link;
    bool ready = false;
    bool forgot = false;  // gave up what was frozen
    uint32_t probed = 0;
    uint64_t newest = 0;
    uint64_t ask_ns = 0, ask_wait_ns = 0;
    uint64_t begins_until_ns = 0;  // until then accesses wait for a term; then they fail
    uint64_t beat_ns = 0;
    uint64_t grace_ns = 0;  // when what is frozen is given up; 0: nothing is
  };
  /// A node that caches pages whose home this is.
  struct Guest {
    explicit Guest(uint64_t term_ns) : term(term_ns) {}
    GivenTerm term;
    std::optional<Link> link;
    bool condemned = false;                               // K2
    bool is_over = false;                                 // K3
    bool is_told = false, forgot = false, ready = false;  // kReturned came; kReady left
    uint64_t returns = 0;
  };
  struct PeerOut {
    uint64_t number = 0;
    std::optional<Link> link;
  };
  struct Attached {
    uint64_t bytes = 0;
    uint32_t count = 0;
    bool is_over = false;  // its home's run is: every access answers kRevoked
  };
  struct Home {
    uint64_t bytes = 0;
    std::shared_ptr<Staged> storage;
  };
  struct Local {
    Channel channel = Channel::kToHome;
    Parcel parcel;
    uint64_t term = 0;  // of the node that asked; 0: this one did
  };
  /// The lock, what follows from what is done under it, and what leaves afterwards.
  class Turn;
  /// What the holder and the home say.
  class HolderSide;
  class HomeSide;

  void post(NodeNumber to, Channel channel, Parcel parcel);
  void one_less();
  uint64_t fresh();
  Holder::Out::Term term(NodeNumber home);
  void await_term(const ExtentId& extent, uint64_t now_ns);
  void await_term(NodeNumber node, HomeOf& home, uint64_t now_ns);
  void read_storage(const PageName& name);
  void write_storage(const PageName& name, PageBytes bytes);
  void condemn(NodeNumber node);

  void access(const ExtentId& extent, uint64_t offset, uint64_t bytes, const PageAccess& all,
              Staged::Done done);
  void check_terms(uint64_t now_ns);
  void end_term(NodeNumber node, HomeOf& home, uint64_t now_ns);
  void keep_term(NodeNumber node, HomeOf& home, uint64_t now_ns);
  void end_guest(NodeNumber node, Guest& guest, bool may_return, uint64_t now_ns);
  void settle(uint64_t now_ns);
  void flush(uint64_t now_ns);
  void send(NodeNumber to, const Packet& packet);
  uint64_t next_due_ns(uint64_t now_ns);

  bool receive_at_home(NodeNumber from, Packet& packet, uint64_t now_ns);
  bool receive_at_holder(NodeNumber from, Packet& packet, uint64_t now_ns);
  bool receive_of_peer(NodeNumber from, Packet& packet, uint64_t now_ns);
  bool is_to_be_here_first(NodeNumber from, uint64_t term, const Parcel& parcel, uint64_t now_ns);
  void give_term(NodeNumber from, const Packet& packet, uint64_t now_ns);
  void begin_term(NodeNumber from, HomeOf& home, const Packet& packet, uint64_t now_ns);
  void check_returns(NodeNumber from, Guest& guest, uint64_t now_ns);

  Ports& ports_;
  const PageCacheOptions options_;
  std::mutex mutex_;
  const std::unique_ptr<HolderSide> holder_side_;
  const std::unique_ptr<HomeSide> home_side_;
  PageHome page_home_;
  Holder holder_;
  std::map<ExtentId, Home> extents_;
  std::map<ExtentId, Attached> attached_;
  std::map<NodeNumber, HomeOf> homes_;
  std::map<NodeNumber, Guest> guests_;
  std::map<NodeNumber, PeerOut> peers_out_;
  std::map<NodeNumber, Link> peers_in_;
  std::vector<Local> local_;
  std::set<NodeNumber> faulty_homes_;
  std::vector<std::function<void()>> leaving_;  // K1
  bool sends_ = false;                          // packets are in it
  uint64_t under_way_ = 0;                      // accesses to the storage, and lists of what leaves
  std::condition_variable nothing_is_under_way_;
  /// The threads of shadows that move pages out, which a program can hold up for longer than the cache lives.
  struct Movers {
    void end() {
      const std::unique_lock lock(mutex);  // none is in a call any more
      ended = true;
    }
    std::shared_mutex mutex;
    bool ended = false;
  };
  const std::shared_ptr<Movers> movers_ = std::make_shared<Movers>();
  uint64_t told_due_ns_ = ~uint64_t{0};
  uint64_t shadows_ = 0;  // made so far
  uint64_t terms_ended_ = 0, faults_ = 0, packets_sent_ = 0, packets_refused_ = 0;
};

/// An extent as the programs of this node use it: attached while it lives.
class CachedExtent final : public Staged {
 public:
  CachedExtent(PageCache& cache, const ExtentId& extent, uint64_t bytes) : cache_(cache), extent_(extent) {
    cache_.attach(extent, bytes);
  }
  ~CachedExtent() override { cache_.detach(extent_); }
  void read(uint64_t offset, std::span<std::byte> into, Done done) override {
    cache_.read(extent_, offset, into, std::move(done));
  }
  void write(uint64_t offset, std::span<const std::byte> from, Done done) override {
    cache_.write(extent_, offset, from, std::move(done));
  }
  void modify(uint64_t offset, std::function<void(std::byte*)> change, Done done) override {
    cache_.modify(extent_, offset, std::move(change), std::move(done));
  }

 private:
  PageCache& cache_;
  const ExtentId extent_;
};

}  // namespace ocm::cache
