// A program's session: its daemon, its ways to other nodes, its slabs and what is under way.
//
// Ownership: the session owns routes and slabs; allocations point to their session and must end before it.
// Threads:   any thread may call anything; close() only when no other call is running.
// Loss:      when the daemon goes, extents on this node answer kPeerLost, remote ones go on; the session dials again
//            in the background, and at the next call that needs a daemon, and is taken up (resume). Then those of this
//            node without replicas answer kRevoked.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/control.h"
#include "client/daemon.h"
#include "client/events.h"
#include "client/nodes.h"
#include "client/order.h"
#include "client/receipts.h"
#include "client/route.h"
#include "client/slab.h"
#include "client/underway.h"
#include "os/fd.h"

namespace ocm::client {

struct SessionOptions {
  /// Connects to the daemon's Unix socket (or to an embedded node); called again to resume.
  std::function<Result<os::Fd>()> dial;
  std::string program;
  Fabric fabric = Fabric::kAny;
  uint64_t deadline_ns = 0;  // 0: the cluster's failure deadline
  /// Kept until the session is gone: an embedded node.
  std::shared_ptr<void> owner;
};

class Session {
 public:
  /// Errors: kNoDaemon, kLimit, kAuth, kDraining, kProtocol.
  static Result<std::unique_ptr<Session>> open(SessionOptions options);
  /// Every allocation of the session must be gone.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// The daemon, dialled again if it was lost. Errors: kNoDaemon and those of open().
  Result<std::shared_ptr<Daemon>> daemon();
  /// The run of the daemon that the session last spoke to, lost or not; never null.
  /// Cost: a lock and a reference count.
  std::shared_ptr<Daemon> daemon_now() const;
  /// One request to the daemon, and its reply with a good code; `from` gets the run that it came from.
  /// Errors: the reply's, kNoDaemon, kDeadline.
  Result<Reply> call(wire::Envelope& request, std::shared_ptr<Daemon>* from = nullptr);
  /// The same of that run. `sent`: whether it has or will have heard it.
  Result<Reply> ask(Daemon& to, wire::Envelope& request, bool* sent = nullptr) const;

  /// Keeps what came with an allocation from that run of the daemon, and shows it to the next ones before
  /// they get any request about it.
  void keep_receipt(const AllocationId& id, const std::string& receipt, const std::shared_ptr<Daemon>& from,
                    const std::string& hold = {});
  /// While one lives, an allocation may come of which no receipt is kept yet. When all have ended that a daemon's end
  /// may have cut off, its next run is told that it was shown everything: what was made in vain is given back.
  class Growing {
   public:
    explicit Growing(Session& session);
    ~Growing();
    Growing(const Growing&) = delete;
    Growing& operator=(const Growing&) = delete;

   private:
    Session& session_;
    uint64_t runs_;
  };
  void renew_receipt(const AllocationId& id, const std::string& receipt);
  /// Its publishing is not answered, or is: shown with the receipt.
  void doubt_name(const AllocationId& id, bool doubt);
  /// The daemon's next run is told that a handle has ended. False if a daemon is there by now: ask it.
  bool free_later(const AllocationId& id, const std::string& hold);
  /// A handle has ended, of which that run of the daemon could not be told: it will be. False if another run is there by
  /// now, which was shown the handle.
  bool free_later(const Daemon& from, const wire::Envelope& request, const AllocationId& id,
                  const std::string& hold);
  /// That run of the daemon was told that a handle has ended. False: as of free_later().
  bool handle_ended(const Daemon& from, const AllocationId& id, const std::string& hold);
  /// A handle has become part of another one.
  void drop_receipt(const AllocationId& id, const std::string& hold = {});

  /// That run of the daemon had no room for a request to free something, or that says that all was shown: it is told
  /// later. The next run needs neither: it is shown what the program has.
  void tell_later(uint64_t run, std::shared_ptr<wire::Envelope> request);

  const std::string& node() const { return node_; }
  Fabric fabric() const { return options_.fabric; }
  /// Longest time without progress before a peer counts as lost.
  uint64_t deadline_ns() const { return deadline_ns_; }
  /// How long one control request may take.
  uint64_t call_deadline_ns() const;

  Routes& routes() { return *routes_; }
  Slabs& slabs() { return *slabs_; }
  UnderWay& under_way() { return under_way_; }
  Orders& orders() { return orders_; }
  Events& events() { return events_; }
  /// As far as the daemon has told: all nodes live; that run of a daemon is dead, or will be gone soon.
  bool all_live() { return nodes_.all_live(page()); }
  bool is_dead(uint32_t partition) { return nodes_.is_dead(page(), partition); }
  bool is_leaving(uint32_t partition) { return nodes_.is_leaving(page(), partition); }
  /// deadline_ns(), or less where the cluster calls that run of a daemon dead.
  uint64_t patience_ns(uint32_t partition) {
    return is_dead(partition) ? patience_with_dead_ns_ : deadline_ns_;
  }
  /// Of all its tables. Cost: all that they hold.
  bool is_valid() const;
  /// Where the program counts what it moves, for the daemon to show.
  fabric::shm::SessionPage& page() { return *page_.load(std::memory_order_relaxed); }

 private:
  class SlabsFromDaemon;
  explicit Session(SessionOptions options);
  std::vector<std::shared_ptr<Daemon>> runs_now() const;
  Status show_receipts(Daemon& to, const std::vector<Receipts::Shown>& shown, os::Deadline deadline);
  void take_refused(Daemon& daemon);
  /// Holds mutex_.
  bool is_complete_due() const;
  /// Tells the daemon that it was shown everything, if it is due; waits for no answer. True if it had no room for it.
  bool tell_if_complete();
  /// The same, and frees what is due. True if something still is. The watcher's.
  bool tell_what_is_due();

  SessionOptions options_;
  std::string node_;
  uint64_t deadline_ns_ = 0;
  mutable std::mutex mutex_;     // guards daemon_, runs_, receipts_
  std::timed_mutex dial_mutex_;  // one resume at a time; guards dial_failed_at_ns_
  uint64_t dial_failed_at_ns_ = 0;
  std::shared_ptr<Daemon> daemon_;
  std::vector<std::shared_ptr<Daemon>> runs_;  // the last runs spoken to: keeps their pages mapped
  Receipts receipts_;
  uint64_t runs_resumed_ = 0;           // guarded by mutex_, as the next two
  std::map<uint64_t, size_t> growing_;  // by runs_resumed_ when they began
  std::atomic<uint64_t> unshown_run_{
      0};  // of the daemon: it took not all, and is never told that it was shown everything
  bool complete_due_ = false;  // the daemon was not told that it was shown everything
  uint64_t due_again_ns_ = 0;
  std::vector<std::shared_ptr<wire::Envelope>> due_;  // frees of daemon_; all guarded by mutex_
  std::atomic<fabric::shm::SessionPage*> page_{nullptr};
  std::unique_ptr<SlabSource> slab_source_;
  std::unique_ptr<Routes> routes_;
  std::unique_ptr<Slabs> slabs_;
  Orders orders_;
  UnderWay under_way_;
  Nodes nodes_;
  Events events_{*this};
  uint64_t patience_with_dead_ns_ = 0;
};

}  // namespace ocm::client
