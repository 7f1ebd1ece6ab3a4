// The pages that this node caches, of all homes: carries out what protocol/node_page.h decides, for programs' accesses on one
// side and messages on the other, and gives frames by replacement/.
//
// Invariants
//   H1 accesses to one page are carried out in the order in which they came.
//   H2 frames that are used are at most those of the budget, but for what shrinking has not taken yet; where none is free,
//      pages wait for one in the order in which they asked.
//   H3 a page that waits for an answer, has accesses waiting or bytes kept is pinned: it is no victim.
//   H4 while half of the frames are dirty no page becomes dirty; cleaning goes on then.
//   H5 a page without frame, request and waiting accesses has no entry.
//   H6 a page that programs map is in its extent's shadow, and one that they store to is M. What would change that waits
//      until it is not so: protected in each program, or moved out of the shadow. Meanwhile no access writes to it, and while
//      it moves nobody reads it: it may be a hole already. Puts and atomics take it out first.
//      Nothing here touches a shadow's mapping: a program that may write can make such a touch wait.
//   H7 a page that was given to a program stays for a while, that its thread gets to use it: two nodes, or a cache of four
//      pages, go on. And one that cannot be withdrawn for give_up_after() and an eighth, for a program holds up the kernel, is
//      taken all the same: all programs that map the extent here lose it.
//   H8 what the home sends about an extent that it has revoked was under way meanwhile, in whatever order: it is late, and
//      no fault.
//   H9 what waits when a term ends goes on in the next one, if there is one within a term's time. It fails with the second.
// Threads: one at a time. Nothing here waits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/frames.h"
#include "cache/packet.h"
#include "cache/protocol/node_page.h"
#include "cache/replacement/budget.h"
#include "cache/replacement/streams.h"
#include "cache/replacement/two_queue.h"
#include "cache/shadow.h"
#include "cache/viewer.h"

namespace ocm::cache {

/// One access of a program inside one page.
struct PageAccess {
  /// The last two: by a program that maps the page.
  enum class Kind : uint8_t { kRead, kWrite, kModify, kLoad, kStore };
  Kind kind = Kind::kRead;
  uint32_t offset = 0;  // in the page
  std::span<std::byte> into;
  std::span<const std::byte> from;
  std::function<void(std::byte*)> change;  // kModify: of the 8 bytes at `offset`
  std::function<void(Code)> done;          // must not wait, nor call the cache
  std::shared_ptr<Viewer> viewer;          // kLoad, kStore
  bool may_store = false;                  // kLoad: the viewer may
  bool outlived_term = false;

  bool writes() const { return kind != Kind::kRead && kind != Kind::kLoad; }
  bool maps() const { return kind == Kind::kLoad || kind == Kind::kStore; }
};

/// Of one node, or one extent of it.
struct HolderStatistics {
  uint64_t served = 0;                     // accesses
  uint64_t misses = 0, upgrades = 0;       // that had to ask the home
  uint64_t from_peers = 0, from_home = 0;  // pages that came
  uint64_t supplied = 0;                   // pages sent to others
  uint64_t invalidations = 0;
  uint64_t evicted = 0, cleaned = 0;
  uint64_t ahead = 0, ahead_unused = 0;  // brought in before they were asked for; and gone without
  uint64_t writers_waited = 0;
  uint64_t failed = 0;                           // accesses
  uint64_t mapped_loads = 0, mapped_stores = 0;  // faults of programs that map pages, and got them
  uint64_t given_up = 0;                         // extents whose programs lost their mappings: H7
  uint64_t withdrawn = 0;  // pages that were taken from such programs, or from their stores
};

class Holder {
 public:
  /// Who carries what it says.
  class Out {
   public:
    virtual ~Out() = default;
    /// To the home of the page (`message.to` is kHome), or another node.
    virtual void post(const PageName& name, const Message& message, PageBytes bytes) = 0;
    /// `sender` need not keep the bytes of `request` any longer.
    virtual void taken(NodeNumber sender, const PageName& name, uint64_t request) = 0;
    /// `sender` (kHome: the page's home) sent what no correct node sends.
    virtual void fault(NodeNumber sender, const PageName& name) = 0;
    /// A number that nobody can guess, not 0.
    virtual uint64_t fresh() = 0;
    enum class Term : uint8_t { kNone, kBegins, kRuns };
    /// Whether pages of that home may be used (kRuns), or soon may (kBegins).
    virtual Term term(NodeNumber home) = 0;
    /// The newest Probe of that home in its term.
    virtual uint32_t probed(NodeNumber home) = 0;
    /// Done is told when nothing of the cache is in the middle of a step.
    virtual void finish(std::function<void(Code)> done, Code code) = 0;
    /// Nobody needs it any more; where it ends nothing is in the middle of a step.
    virtual void let_go(std::shared_ptr<Shadow> shadow) = 0;
  };

  Holder(Out& out, uint64_t page_bytes, uint32_t frames);

  uint64_t page_bytes() const { return frames_.page_bytes(); }
  /// Programs of this node may use an extent of `pages`.
  void attach(const ExtentId& extent, uint32_t pages);
  /// No more; none of their accesses is under way. Its pages go, and it is attached until the last is gone.
  void detach(const ExtentId& extent, uint64_t now_ns);
  /// Of homes but this. Cost: all pages.
  size_t pages_but_of(NodeNumber home) const {
    return static_cast<size_t>(std::count_if(
        pages_.begin(), pages_.end(), [&](const auto& entry) { return home_of(entry.first) != home; }));
  }
  bool may_attach(const ExtentId& extent, uint32_t pages) const {
    const auto it = extents_.find(extent);
    return it == extents_.end() || it->second.pages == pages;
  }
  bool is_attached(const ExtentId& extent) const { return extents_.contains(extent); }
  /// Extents of that home which are attached.
  uint32_t attached_of(NodeNumber home) const {
    const auto it = of_home_.find(home);
    return it == of_home_.end() ? 0 : it->second;
  }
  /// Programs map its pages there; it is attached, and has none yet. Where it has one: shadow_of().
  void show(const ExtentId& extent, std::shared_ptr<Shadow> shadow, uint64_t number);
  /// False: the extent's shadow is another one by now.
  bool add_viewer(const ExtentId& extent, const Shadow* shadow, std::shared_ptr<Viewer> viewer);
  bool is_viewer(const ExtentId& extent, const Viewer* viewer) const;
  /// A fault of it is under way for that page already.
  bool is_waiting(const PageName& name, const Viewer* viewer, bool stores) const;
  std::shared_ptr<Shadow> shadow_of(const ExtentId& extent) const {
    const auto it = extents_.find(extent);
    return it == extents_.end() || it->second.detaching ? nullptr : it->second.shadow;
  }
  /// V2 of viewer.h. With the last one the extent's shadow goes, and what somebody planted in its holes.
  void viewer_ended(const ExtentId& extent, const Viewer* viewer, uint64_t now_ns);
  /// Viewer::protect() and Shadow::move_out() are done.
  void is_protected(const PageName& name, const Viewer* viewer, uint64_t now_ns);
  void moved_out(const PageName& name, uint64_t shadow_number, uint64_t now_ns);
  /// Viewer::enter() is done.
  void entered(const PageName& name, const Viewer* viewer, uint64_t now_ns);
  /// Of all extents: whoever maps something loses it.
  void give_up_shadows(uint64_t now_ns);
  /// Inside the page and the extent, which is attached.
  void access(const PageName& name, PageAccess access, uint64_t now_ns);

  /// `message.from` is kHome, of the page's home, or another node.
  void receive(const PageName& name, const Message& message, const PageBytes& bytes, uint64_t now_ns);
  void taken(const PageName& name, NodeNumber peer, uint64_t request, uint64_t now_ns);
  /// The extent is gone at its home: every access answers kRevoked from now on.
  void revoke(const ExtentId& extent, uint64_t now_ns);

  void term_ended(NodeNumber home, uint64_t now_ns);
  /// How many frozen pages it has asked the home about.
  uint64_t term_began(NodeNumber home, uint64_t now_ns);
  /// What waited for it goes on.
  void term_ready(NodeNumber home, uint64_t now_ns);
  /// True if there was a frozen page, which is given up.
  bool grace_over(NodeNumber home, uint64_t now_ns);
  bool has_frozen(NodeNumber home) const;
  /// The end of its term is not carried out yet: programs still use pages of it, and the next one must not begin.
  bool is_ending(NodeNumber home) const;

  void resize(uint32_t frames, uint64_t now_ns);
  uint32_t frames(uint64_t now_ns) const { return budget_.frames(now_ns); }
  uint32_t used() const { return frames_.used(); }
  uint32_t dirty() const { return static_cast<uint32_t>(dirty_.size()); }
  /// What waits so long for a frame, or for dirty pages to become fewer, while no page before it got what it waits for, fails
  /// with kIo if a device failed meanwhile. One that stands still is waited for, as it would be without a cache.
  void give_up_after(uint64_t ns) { give_up_ns_ = ns; }
  /// H8: a message and its answer are under way for so long at most, or the term ends.
  void late_for(uint64_t ns) { late_ns_ = ns; }
  /// Evicts, cleans and brings in what is due.
  void tick(uint64_t now_ns);
  uint64_t due_ns(uint64_t now_ns) const;

  const HolderStatistics& statistics() const { return statistics_; }
  /// H2, H3, H5. Cost: all pages.
  bool is_valid() const;

  static constexpr uint64_t kIdleCleanNs = 5'000'000'000, kAgainNs = 100'000'000;
  static constexpr uint64_t kStaysNs = 100'000;  // H7
  static constexpr uint32_t kCleansMost = 8;
  static constexpr uint32_t kMapsAhead = 8;  // pages for one fault

 private:
  struct Page;
  using Entry = std::pair<const PageName, Page>;
  /// What waits until a page is withdrawn (H6).
  struct Held {
    NodeEvent event;
    PageBytes bytes;
  };
  /// Of a page that is in a shadow.
  struct Mapped {
    /// kEntering: its bytes are in the frame still, and no program has it.
    enum class Stage : uint8_t { kEntering, kUsed, kStays, kProtecting, kMoving };
    enum class Level : uint8_t { kNothing, kProtected, kOut };
    std::shared_ptr<Shadow> shadow;
    Stage stage = Stage::kEntering;
    const Viewer* entering_by = nullptr;
    Level level = Level::kNothing;  // to be reached, while not kUsed
    bool writable = false;
    std::vector<std::shared_ptr<Viewer>> writers;
    std::vector<const Viewer*> unanswered;  // kProtecting
    uint64_t granted_ns = 0;
    uint64_t asked_ns = 0;       // since when it is to be withdrawn
    uint64_t shadow_number = 0;  // of its extent, at this cache
    uint64_t move = 0;           // kMoving: the shadow's number of it
    std::list<Held> held;

    /// Nothing is written while it is withdrawn; and its bytes are nowhere for sure while they move.
    bool bars(const PageAccess& access) const {
      return stage == Stage::kMoving || (stage != Stage::kUsed && (access.writes() || access.maps()));
    }
  };
  struct Page {
    NodePage protocol;
    Frame frame = kNoFrame;
    bool pinned = false;
    bool is_dirty = false;
    bool waits = false;  // in frame_waiters_ or dirty_waiters_
    uint64_t waits_since_ns = 0;
    bool ahead = false;          // was brought in before it was asked for, and is not used yet
    uint64_t not_before_ns = 0;  // its device failed: it is not sent there again before
    uint64_t dirty_ns = 0;
    std::unique_ptr<Mapped> mapped;  // null: no program maps it
    std::list<PageAccess> waiting;
    std::list<Entry*>::iterator dirty_at;

    /// Into a shadow, or out of it (H6).
    bool is_on_its_way() const { return mapped != nullptr && mapped->stage != Mapped::Stage::kUsed; }
    /// The end of its home's term is held (H6): what it was said to be from then on it is not yet.
    bool is_ending() const {
      return mapped != nullptr && std::any_of(mapped->held.begin(), mapped->held.end(), [](const Held& one) {
               return one.event.input == NodeInput::kTermEnd;
             });
    }
  };
  struct Extent {
    uint32_t pages = 0, cached = 0;
    bool detaching = false;
    std::unique_ptr<Streams> streams;
    std::shared_ptr<Shadow> shadow;  // null: no program maps any of it
    uint64_t shadow_number = 0;
    std::vector<std::shared_ptr<Viewer>> viewers;
    uint32_t mapped = 0;  // pages in the shadow
  };
  struct IdHash {
    size_t operator()(const ExtentId& id) const {
      return std::hash<GlobalAddress>{}(id.address) ^ id.generation;
    }
  };
  /// Pages that wait for the same, the one that has done so longest first.
  struct Queue {
    std::list<PageName> pages;
    uint64_t moved_ns = 0;  // when one of them went on last
  };
  using Outcome = NodeStep::Outcome;

  static NodeNumber home_of(const PageName& name) { return name.extent.address.partition(); }
  Entry& entry_of(const PageName& name);
  std::vector<PageName> pages_of(const ExtentId& extent) const;
  /// H5.
  void forget_if_empty(Entry& entry);
  void forget_extent(const ExtentId& extent);

  /// kWait, but for loads and stores: H6.
  Outcome apply(Entry& entry, const NodeEvent& event, const PageBytes& bytes, Code& code);
  Outcome local(Entry& entry, NodeInput input, bool whole, Code& code);
  void act(Entry& entry, const NodeEvent& event, const NodeAction& action, const PageBytes& bytes);
  void count(NodeState before, NodeState after);
  void bookkeep(Entry& entry);
  void perform(Entry& entry, PageAccess& access);
  /// Its bytes, wherever they are.
  void copy_out(const Entry& entry, uint64_t offset, std::span<std::byte> into);
  void begin_entering(Entry& entry, const std::shared_ptr<Viewer>& viewer);
  void map_page(Entry& entry, const PageAccess& access);
  void map_ahead(const PageName& from, const PageAccess& access);
  bool must_wait(Entry& entry, const NodeEvent& event, const NodeStep& result, const PageBytes& bytes);
  void take(Entry& entry, const NodeEvent& event, const PageBytes& bytes);
  void withdraw(Entry& entry, Mapped::Level level);
  void begin_withdrawing(Entry& entry);
  void protection_ended(Entry& entry);
  void end_withdrawing(Entry& entry);
  void leave_shadow(Entry& entry);
  void drop_shadow_if_unused(const ExtentId& extent);
  void give_up_shadow(const ExtentId& extent);
  void give_up_overdue();
  uint64_t overdue_due_ns() const;
  void refuse_waiting(Entry& entry, const Viewer* viewer);
  void fail_waiting(Entry& entry, Code code);
  void outlive_term(Entry& entry);

  void run(Entry& entry);
  bool may_begin(Entry& entry, const PageAccess& access);
  void used(Entry& entry, bool missed);
  bool give_frame(Entry& entry);
  void free_frame(Entry& entry);
  void bring_ahead(const PageName& from, bool missed);

  /// What follows from what just happened, until nothing does.
  void settle();
  void run_list(std::list<PageName>& list);
  void wait_in(Queue& queue, Entry& entry);
  void go_on(Queue& queue);
  void give_up(Queue& queue);
  bool may_give_frame() const;
  void make_room();
  void clean();
  bool leave(Entry& entry, NodeInput input);
  uint32_t reserve(uint32_t frames) const;
  bool is_dirty_enough() const;
  template <class Do>
  void each_page(NodeNumber home, Do act);

  Out& out_;
  Frames frames_;
  Budget budget_;
  TwoQueue queue_;
  uint64_t now_ns_ = 0, ticked_ns_ = 0;
  std::unordered_map<ExtentId, Extent, IdHash> extents_;
  std::map<NodeNumber, uint32_t> of_home_;  // how many of extents_
  std::unordered_map<PageName, Page, PageNameHash> pages_;
  std::vector<Entry*> of_frame_;
  std::list<Entry*> dirty_;                                 // the one that has been so longest first
  std::list<PageName> ready_;                               // something changed for what waits for them
  Queue frame_waiters_, dirty_waiters_;                     // H2, H4
  std::list<PageName> stuck_;                               // their device failed
  std::unordered_map<ExtentId, uint64_t, IdHash> revoked_;  // H8: until when
  std::deque<ExtentId> revoked_in_order_;
  std::deque<std::pair<PageName, uint64_t>> withdrawing_;  // H7, and since when; some are not, any more
  std::list<PageName> staying_;                            // H7, the one that has longest first
  std::vector<Frame> aged_;
  uint32_t leaving_ = 0, cleaning_ = 0, becoming_dirty_ = 0;  // pages under way to that
  uint32_t held_evicts_ = 0, held_cleans_ = 0;                // H6: that will be
  uint64_t reads_ahead_until_ns_ = 0;
  uint64_t overdue_since_ns_ = 0;  // H7
  uint64_t late_ns_ = 6'000'000'000;
  uint64_t give_up_ns_ = 3'000'000'000;
  uint64_t failed_ns_ = 0;           // when a device failed last
  uint64_t no_memory_until_ns_ = 0;  // the system had none for a frame: it is not asked again before
  HolderStatistics statistics_;
};

}  // namespace ocm::cache
