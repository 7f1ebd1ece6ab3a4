// All servers of one home: started, announced, counted and stopped together, whatever fabrics there are.
//
// Threads: start() and stop() from one; revoke() and the counters from any.
#pragma once

#include <deque>
#include <memory>
#include <string>

#include "fabric/registry/registry.h"

namespace ocm::fabric {

class Servers {
 public:
  /// One fabric that a home could serve.
  struct One {
    explicit One(const Entry& of) : entry(of) {}

    const Entry& entry;
    ServerStats stats;               // all 0 while it is not served
    std::unique_ptr<Server> server;  // null: not served
    std::string why_not;             // it was to be, and cannot
  };

  Servers();
  /// Stops.
  ~Servers();
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  /// Each that the settings ask for. `directory` outlives this. Errors: of a fabric that had to start.
  Status start(const ServeOptions& options, ExtentDirectory& directory);
  void revoke(const ExtentId& id);
  void stop();

  /// In the order of the fabrics' lines; served or not.
  const std::deque<One>& all() const { return all_; }

 private:
  std::deque<One> all_;
};

}  // namespace ocm::fabric
