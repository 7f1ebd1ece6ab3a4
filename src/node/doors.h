// Where programs and daemons come in: their sockets, and who is let in.
//
// Invariants
//   V1 a connection that has not proved itself (TCP: the token; Unix: an accepted hello) lives kProveNs at most.
//   V2 of TCP connections at most kUnprovedMax are unproved: the oldest of them makes room for a new one, so that
//      silent ones never shut a daemon out. They do not count towards [limits] connections.
//   V3 programs and daemons are counted apart, and one uid has at most half of the programs' connections; root and
//      the daemon's own user may have all.
//   V4 the connections of any other uid take at most control::kUserBytesMax of memory together.
// Threads: the loop's.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>

#include "control/rpc.h"
#include "node/proof.h"
#include "node/service.h"

namespace ocm::node {

class Doors {
 public:
  Doors(Core& core, control::Loop& loop, Service& service) : core_(core), loop_(loop), service_(service) {}

  /// A connection of a local program; its uid and pid come from the kernel.
  void accept_program(os::Fd socket);
  /// A connection of another daemon.
  void accept_peer(os::Fd socket);
  /// Ends every session and connection that was accepted.
  void close_all();
  /// What is open is counted, by door and by user; O(users).
  bool is_valid() const;

 private:
  static constexpr uint64_t kProveNs = 5'000'000'000;
  static constexpr size_t kUnprovedMax = 128;
  struct Unproved {
    control::Connection* connection;
    uint64_t since_ns;
  };
  /// Connections of one socket: those that proved themselves count, the others wait here, oldest first.
  struct Door {
    size_t open = 0;
    std::list<Unproved> unproved;
  };
  struct Accepted {
    std::shared_ptr<control::Connection> connection;
    Door* door;
    std::optional<std::list<Unproved>::iterator> unproved;
  };
  /// `peer`: who it is, for the log.
  control::Connection* accept(Door& door, os::Fd socket, std::string peer,
                              control::Connection::Options options, control::Connection::Handler handler,
                              std::function<void()> closed);
  /// A step of a daemon's proof.
  control::Task<control::Reply> prove(std::shared_ptr<PeerGate> gate,
                                      std::shared_ptr<control::Connection> connection, std::string peer,
                                      wire::Envelope request);
  /// V1 and V2 do not hold for it any more.
  void proved(control::Connection* connection);
  void refuse(const std::string& peer);
  control::Task<void> close_unproved();

  Core& core_;
  control::Loop& loop_;
  Service& service_;
  std::unordered_map<control::Connection*, Accepted> connections_;
  Door programs_, daemons_;
  std::unordered_map<uint32_t, size_t> connections_by_uid_;  // of programs
  /// Requests outlive their connection, and their user's next one shares the allowance with them.
  control::Allowances allowances_{control::kUserBytesMax};
  bool closing_unproved_ = false;
};

}  // namespace ocm::node
