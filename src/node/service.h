// The requests that a daemon answers: from the programs of this host, and from other daemons.
//
// Threads: the loop's.
#pragma once

#include <functional>
#include <memory>

#include "fabric/served.h"
#include "node/allocator.h"
#include "node/copier.h"
#include "node/http.h"

namespace ocm::node {

/// The servers' counters, by fabric.
struct ServedStats {
  fabric::ServerStats tcp;
  fabric::ServerStats ucx;
};

class Service {
 public:
  Service(Core& core, Home& home, Peers& peers, Cluster& cluster, Sessions& sessions, Allocator& allocator,
          Copier& copier, const ServedStats& served)
      : core_(core),
        home_(home),
        peers_(peers),
        cluster_(cluster),
        sessions_(sessions),
        allocator_(allocator),
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
  struct Program {
    uint32_t uid = 0, pid = 0;
    bool opening = false;
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
  void accept(os::Fd socket, control::Connection::Options options, control::Connection::Handler handler,
              std::function<void()> closed);

  Core& core_;
  Home& home_;
  Peers& peers_;
  Cluster& cluster_;
  Sessions& sessions_;
  Allocator& allocator_;
  Copier& copier_;
  const ServedStats& served_;
  std::unordered_map<control::Connection*, std::shared_ptr<control::Connection>> connections_;
};

}  // namespace ocm::node
