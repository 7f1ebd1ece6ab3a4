// The requests that a daemon answers: from the programs of this host, and from other daemons.
//
// Invariants
//   V1 a connection that has not proved itself (TCP: the token; Unix: an accepted hello) lives kProveNs at
//   most. V2 of TCP connections at most kUnprovedMax are unproved: the oldest of them makes room for a new
//   one, so
//      that silent ones never shut a daemon out. They do not count towards [limits] connections.
//   V3 programs and daemons are counted apart, and one uid has at most half of the programs' connections;
//      root and the daemon's own user may have all.
// Threads: the loop's.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>

#include "node/allocator.h"
#include "node/copier.h"
#include "node/holds.h"
#include "node/http.h"
#include "node/report.h"

namespace ocm::node {

class Service {
 public:
  Service(Core& core, Home& home, Peers& peers, Cluster& cluster, Sessions& sessions, Allocator& allocator,
          Holds& holds, Copier& copier, const ServedStats& served)
      : core_(core),
        home_(home),
        peers_(peers),
        cluster_(cluster),
        sessions_(sessions),
        allocator_(allocator),
        holds_(holds),
        copier_(copier),
        served_(served) {}

  /// A connection of a local program; its uid and pid come from the kernel.
  void accept_program(os::Fd socket);
  /// A connection of another daemon.
  void accept_peer(os::Fd socket);
  /// Ends every session and connection that was accepted.
  void close_all();

  wire::Stats stats() const;
  HttpServer::Answer http(const std::string& path) const;

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
  struct Program {
    uint32_t uid = 0, pid = 0;
    std::shared_ptr<Session> session;
  };
  control::Task<control::Reply> program_request(std::shared_ptr<Program> program,
                                                std::shared_ptr<control::Connection> connection,
                                                wire::Envelope request);
  control::Task<control::Reply> hello(std::shared_ptr<Program> program,
                                      std::shared_ptr<control::Connection> connection,
                                      wire::SessionHello request);
  control::Task<control::Reply> session_request(std::shared_ptr<Session> session, wire::Envelope request);
  control::Task<control::Reply> publish(std::shared_ptr<Session> session, wire::PublishRequest request);
  control::Task<control::Reply> attach(std::shared_ptr<Session> session, wire::AttachRequest request);
  control::Task<control::Reply> copy(wire::CopyRequest request);
  control::Task<control::Reply> lost_replica(std::shared_ptr<Session> session,
                                             wire::LostReplicaRequest request);
  control::Task<control::Reply> stats_of(wire::StatsRequest request);
  control::Task<control::Reply> peer_request(std::shared_ptr<PeerGate> gate,
                                             std::shared_ptr<control::Connection> connection,
                                             wire::Envelope request);
  control::Task<control::Reply> home_request(wire::Envelope request);
  void accept(Door& door, os::Fd socket, control::Connection::Options options,
              control::Connection::Handler handler, std::function<void()> closed);
  /// V1 and V2 do not hold for it any more.
  void proved(control::Connection* connection);
  void refuse(std::string_view who);
  control::Task<void> close_unproved();

  Core& core_;
  Home& home_;
  Peers& peers_;
  Cluster& cluster_;
  Sessions& sessions_;
  Allocator& allocator_;
  Holds& holds_;
  Copier& copier_;
  const ServedStats& served_;
  std::unordered_map<control::Connection*, Accepted> connections_;
  Door programs_, daemons_;
  std::unordered_map<uint32_t, size_t> connections_by_uid_;  // of programs
  bool closing_unproved_ = false;
};

}  // namespace ocm::node
