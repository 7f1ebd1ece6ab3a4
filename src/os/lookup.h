// Addresses of a host's name. getaddrinfo(3) has no deadline, and where the name server does not answer it
// takes as long as resolv.conf says: so it runs on a thread of its own, which ends by itself when nobody
// waits any more.
//
// Invariants
//   U1 Addresses that are numbers need no thread, and no name server.
//   U2 A name is looked up once at a time, whoever waits for it, and at most kLookupsMax names are.
// Threads: any. A child of fork() has no lookups under way.
#pragma once

#include <sys/socket.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "os/clock.h"
#include "os/fd.h"

namespace ocm::os {

inline constexpr size_t kLookupsMax = 16;
/// Who starts to listen waits so long for its own name.
inline constexpr uint64_t kListenLookupNs = 10'000'000'000;

/// Where to bind or connect a stream socket.
struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;

  int family() const { return address.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

class Lookup {
 public:
  struct State;

  /// Begins, or joins one that is under way. `passive`: to listen; `host` may be "*" then. `port`: digits.
  /// Errors: kLimit, kNoMemory, kNoFds.
  static Result<Lookup> start(const std::string& host, const std::string& port, bool passive = false);

  bool is_done() const;
  /// Becomes readable when it is done; -1 if it was at once. Of this object.
  int fd() const { return ended_.get(); }
  /// Not empty. Only when it is done. Errors: kInvalidArgument (there is no such name).
  Result<std::vector<Endpoint>> result() const;

 private:
  std::shared_ptr<State> state_;
  Fd ended_;
};

/// Waits for it. Errors: those above, kDeadline (also when interrupted).
Result<std::vector<Endpoint>> lookup(const std::string& host, const std::string& port, bool passive,
                                     Deadline deadline);

}  // namespace ocm::os
