// Extents of other nodes that this daemon caches for the programs of its host: their homes allow it, and they are served
// here under their own ids, by the same data server and with the same capability as at home.
//
// A program that was told of that reaches them here, over loopback; one that was not, or whose daemon has forgotten them
// since, reaches them at their home. All of them see the same bytes: the home's own cache takes part in the page protocol
// for whoever comes there.
//
// Invariants
//   E1 an extent is served here exactly while an Open of it lives.
//   E2 a daemon caches what a program of it proved to the home that it may open, and nothing else; a home allows it only to
//      the run of the daemon that asks.
// Threads: the loop's; an Open ends where its last owner does.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/allocation.h"
#include "node/cluster.h"
#include "node/handlers.h"
#include "node/home.h"
#include "node/sessions.h"

namespace ocm::node {

class CachedExtents {
 public:
  CachedExtents(Core& core, Home& home, Cluster& cluster)
      : core_(core), home_(home), cluster_(cluster), homes_(cluster.homes()) {}

  /// Of the extents of `allocation`, which the session holds, those are served here from now on that may be; asks their
  /// homes once, for a heartbeat at most. `allocation` stays as it is until then.
  control::Task<void> open(std::shared_ptr<Session> session, const control::Allocation& allocation);
  /// Says in the program's reply which of its extents are served here.
  void tell(const Session& session, wire::Allocation& told) const;
  /// The session does not hold these any more, if no record of it has them.
  static void ended(Session& session, const std::vector<ExtentId>& ids);
  /// All sessions have ended: returns when what was written to the pages is at their homes, or when these took none of
  /// them for a failure deadline.
  control::Task<void> leave();
  void enter(PeerHandlers& handlers);

 private:
  class Open;
  bool may_be_cached(const control::Allocation& allocation) const;
  using OpenMap = std::map<ExtentId, std::weak_ptr<Open>>;
  std::shared_ptr<Open> opened(ExtentId id) const;
  control::Task<void> ask(std::shared_ptr<Session> session, std::string node, wire::Envelope request);
  void take(Session& session, const wire::CacheRequest& asked, const wire::Cacheable& answer);
  control::Reply answer(const std::string& from, const wire::CacheRequest& request) const;

  Core& core_;
  Home& home_;
  Cluster& cluster_;
  Homes& homes_;
  const std::shared_ptr<OpenMap> open_ = std::make_shared<OpenMap>();  // those that live
};

}  // namespace ocm::node
