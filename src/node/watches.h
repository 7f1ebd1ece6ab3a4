// What daemons tell each other of the end of extents (control/watch.h): this one to those that watch extents here, and the
// homes of what the sessions here hold to this one. Messages go out while there is something to tell, and again, each
// heartbeat, until they are heard; between two ends nothing is sent.
//
// Threads: the loop's.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "control/watch.h"
#include "node/cluster.h"
#include "node/handlers.h"
#include "node/home.h"

namespace ocm::node {

class Watches {
 public:
  Watches(Core& core, Home& home, Cluster& cluster);

  enum class News {
    kGone,       // over, and its home knows no other place of its bytes
    kOver,       // over there; its part may go on elsewhere
    kUnwatched,  // its home watches no more for this user
  };
  /// Called with what is so of an extent that the session wants. Set before anything is wanted.
  void on_news(std::function<void(const SessionId&, ExtentId, News)> hook) { on_news_ = std::move(hook); }
  /// Called with a node whose daemon can be reached, or no more, over the connections that ends are asked for on.
  void on_reach(std::function<void(const std::string& node, uint32_t partition, bool reached)> hook) {
    on_reach_ = std::move(hook);
  }

  void want(const SessionId& session, const std::string& node, ExtentId id);
  void drop(const SessionId& session, ExtentId id);
  /// A node, or another run of its daemon, is in the view.
  void node_appeared(const control::NodeInfo& node);
  /// The daemon at this address has closed the connection to it.
  void connection_lost(const std::string& address);
  void enter(PeerHandlers& handlers);

  /// O(extents).
  bool is_valid() const;

 private:
  /// One user's at one run of a home.
  struct Place {
    std::string node;
    control::Watching watching;
    bool is_told = false;  // by tell_home()
    bool silent = false;   // as on_reach_ was told
    bool is_over = false;  // that run is
    bool look = false;     // whether it answers at all
  };
  using PlaceId = std::pair<uint32_t, uint32_t>;  // partition, uid
  void wake(const PlaceId& id);
  control::Task<void> tell_home(PlaceId id, std::shared_ptr<Place> place);
  void reached(const PlaceId& id, Place& place, bool reached);
  void news(uint32_t uid, const std::vector<ExtentId>& ids, News what);
  void note_over(ExtentId id);
  control::Task<void> tell_watcher(control::Watchers::Watcher watcher);
  control::Reply take(const std::string& from, const wire::WatchRequest& request);
  control::Reply told(const wire::ExtentsOver& told);
  static size_t most_of(uint32_t uid);

  Core& core_;
  Home& home_;
  Cluster& cluster_;
  Homes& homes_;
  std::function<void(const SessionId&, ExtentId, News)> on_news_;
  std::function<void(const std::string&, uint32_t, bool)> on_reach_;
  std::map<PlaceId, std::shared_ptr<Place>> places_;
  std::unordered_map<ExtentId, std::vector<SessionId>, control::ExtentHash> wanted_;
  uint64_t requests_ = 0;  // numbers of a home's new place are greater than those of the one before
  control::Watchers watchers_;
  std::set<control::Watchers::Watcher> telling_;
};

}  // namespace ocm::node
