// One extent as this session reaches it: mapped on this host, or attached over a route.
//
// Both are made when first needed. An attachment ends with its channel; the next operation attaches anew,
// so a node that was stopped and goes on is usable again.
// Threads: any.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "client/daemon.h"
#include "client/mapped_pages.h"
#include "client/route.h"
#include "fabric/channel.h"
#include "fabric/shm/local_extent.h"

namespace ocm::client {

/// An index and the channel it is good on.
struct Attachment {
  std::shared_ptr<fabric::Channel> channel;
  uint32_t index = 0;
};

class Extent {
 public:
  /// Errors: kUnsupported (no fabric to the node), kProtocol.
  static Result<std::unique_ptr<Extent>> make(Session& session, std::shared_ptr<Daemon> daemon,
                                              ExtentDescriptor descriptor, Access access, Fabric wanted,
                                              Layout layout);
  ~Extent();

  const ExtentDescriptor& descriptor() const { return descriptor_; }
  /// What the program asked for.
  Fabric wanted() const { return wanted_; }
  Fabric fabric() const { return fabric_.load(std::memory_order_relaxed); }
  bool on_this_host() const { return on_this_host_; }

  // ---- on this host
  /// The mapping, made now if there is none. Errors: kPeerLost (the daemon went), kRevoked, kNoFds,
  /// kNoMemory.
  Result<std::byte*> open();
  /// Maps a descriptor that came with the allocation.
  Status adopt(os::Fd fd);
  /// The bytes if they may be loaded and stored now, else null: check_local() says why.
  std::byte* data_now() const {
    std::byte* data = data_.load(std::memory_order_acquire);
    return data != nullptr && check_local() == Code::kOk ? data : nullptr;
  }
  Code check_local() const { return local_.check(); }
  const fabric::shm::LocalExtent& local() const { return local_; }

  // ---- in pages that the daemon caches
  /// It may be; of a small extent in a shared file no daemon does.
  bool is_cached() const { return is_cached_; }
  /// The mapping; another one where the last one has parts that give SIGBUS. Errors: those of MappedPages::open().
  Result<std::byte*> map_cached();

  // ---- elsewhere
  /// The attachment, made now if there is none or its channel is lost. Blocks to the deadline at most, or
  /// until it is interrupted. Its errors do not name the node.
  Result<Attachment> attach(os::Deadline deadline);

  /// open() and attach() would wait for nothing.
  bool is_reached() {
    if (on_this_host()) return data_now() != nullptr;
    const std::unique_lock lock(mutex_, std::try_to_lock);
    return lock.owns_lock() && attachment_.channel != nullptr && attachment_.channel->is_usable();
  }

  /// The home refused the attachment: one that was frozen and answers again has forgotten it.
  void attach_anew() {
    const std::lock_guard lock(mutex_);
    attachment_.channel.reset();
    if (via_cache_) cached_way_->is_past.store(true);
  }

  /// Replicas: nobody can read this one any more.
  bool lost() const { return lost_.load(std::memory_order_acquire); }
  void mark_lost() { lost_.store(true, std::memory_order_release); }
  /// Replicas: it, or its node, failed a moment ago: ask another one first.
  bool avoided(uint64_t now_ns) const {
    return now_ns < avoid_until_ns_.load(std::memory_order_relaxed) ||
           (first_route_ != nullptr && first_route_->avoided(now_ns));
  }
  /// The same, and the failure came after `since_ns`.
  bool failed_since(uint64_t since_ns, uint64_t now_ns) const {
    return avoided(now_ns) && avoided(since_ns + kAvoidNs);
  }
  static constexpr uint64_t kAvoidNs = 1'000'000'000;
  void avoid_until(uint64_t at_ns) { avoid_until_ns_.store(at_ns, std::memory_order_relaxed); }
  void avoid_node_until(uint64_t at_ns) {
    avoid_until(at_ns);
    if (first_route_ != nullptr) first_route_->avoid_until(at_ns);
  }

 private:
  Extent(Session& session, std::shared_ptr<Daemon> daemon, ExtentDescriptor descriptor, Access access,
         Fabric wanted, bool replica)
      : session_(session),
        daemon_(std::move(daemon)),
        descriptor_(std::move(descriptor)),
        access_(access),
        wanted_(wanted),
        replica_(replica) {}

  /// Holds mutex_.
  Result<Attachment> attach_by_route(os::Deadline deadline);
  Result<Attachment> attach_by(Route& route, os::Deadline deadline);

  Session& session_;
  const std::shared_ptr<Daemon> daemon_;
  const ExtentDescriptor descriptor_;
  const Access access_;
  const Fabric wanted_;
  const bool replica_;
  bool on_this_host_ = false, is_cached_ = false;  // for good
  std::atomic<Fabric> fabric_{Fabric::kAny};  // another one of other hosts after an attach that was refused
  std::timed_mutex mutex_;                    // guards mapping_, attachment_, route_
  os::Mapping mapping_;
  std::vector<std::unique_ptr<MappedPages>>
      pages_;  // the last one may live; pointers of the program may be in any
  std::atomic<std::byte*> data_{nullptr};
  fabric::shm::LocalExtent local_;
  std::shared_ptr<CachedWay> cached_way_;  // null: of memory that daemons do not cache
  Route* cached_route_ = nullptr;          // to the own daemon
  bool via_cache_ = false;                 // attachment_ is
  Route* route_ = nullptr;
  Route* first_route_ = nullptr;  // set once: what it knows of the node is the same for all routes to it
  Attachment attachment_;
  std::atomic<bool> lost_{false};
  std::atomic<uint64_t> avoid_until_ns_{0};
};

}  // namespace ocm::client
