// The whole daemon as an object: pools served over fabrics, sessions of local programs, its place in the
// cluster.
//
//   start() -> running --drain()--> draining --stop()--> stopped
//
// Threads: start, stop and the destructor by one thread; the rest by any.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "node/config.h"
#include "os/fd.h"

namespace ocm::node {

class Node {
 public:
  /// Runs until stop(). Embedded (config.embedded): no socket file, no listeners, alone.
  /// Errors: kInvalidArgument (configuration), kExists (another daemon), kAuth (secrets), kIo, kNoMemory.
  static Result<std::unique_ptr<Node>> start(Config config);
  ~Node();
  /// "0.1.0": the project's.
  static const char* version();

  /// Goes on, but takes no new extents; calls `then`, on the loop's thread, as soon as a stop takes no last copy of
  /// replicated bytes (node/stopper.h), after a look at what it takes if [replicas] wait_at_stop is false. Once, before
  /// stop().
  void when_stop_is_safe(std::function<void()> then);
  /// Refuses new work, tells the coordinator, closes sessions and servers, joins the threads. Once.
  void stop();

  /// Empty when embedded.
  const std::string& socket_path() const;
  const std::string& name() const;
  /// As bound: ports are real. Empty when embedded.
  const std::string& control_address() const;
  const std::string& http_address() const;
  /// The program's end of a new local connection; peer credentials are this process'. Errors: kNoFds,
  /// kDraining.
  Result<os::Fd> connect_local();

 private:
  struct Impl;
  explicit Node(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ocm::node
