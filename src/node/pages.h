// What a daemon shows of itself and of others: figures for `ocm top`, and pages over HTTP.
//
// A user sees his own sessions and names; root and the daemon's own user, here 0, everybody's. Who asks over TCP is not
// known: he sees figures of this node alone, and causes no traffic.
// Threads: the loop's.
#pragma once

#include <optional>
#include <string>

#include "node/cluster.h"
#include "node/http.h"
#include "node/remaker.h"
#include "node/report.h"
#include "node/sessions.h"
#include "node/stopper.h"

namespace ocm::node {

class Pages {
 public:
  Pages(Core& core, Home& home, Cluster& cluster, Sessions& sessions, Remaker& remaker, Stopper& stopper,
        const fabric::Servers& servers)
      : core_(core),
        home_(home),
        cluster_(cluster),
        sessions_(sessions),
        remaker_(remaker),
        stopper_(stopper),
        servers_(servers) {}

  /// Whose things a user may see: 0 for everybody's.
  static uint32_t viewer(uint32_t uid);
  /// With the sessions of `uid`, of 0 all.
  control::Stats stats(uint32_t uid) const;
  /// The same of any node (empty: this one). Errors: kUnknownNode, kPeerLost, kDeadline.
  control::Task<control::Reply> stats_of(std::string node, uint32_t uid);
  control::Task<HttpServer::Answer> http(HttpServer::Request request);

 private:
  control::Task<HttpServer::Answer> status(std::string node, std::optional<uint32_t> uid);
  control::Task<HttpServer::Answer> stop_check(std::string node, std::optional<uint32_t> uid);
  /// Root and the daemon's own user may: what is founded takes replicas away.
  control::Task<HttpServer::Answer> found(std::string node, std::optional<uint32_t> uid);
  /// The same may, of any node: `bytes` is a length as base/units.h reads it.
  control::Task<HttpServer::Answer> resize_cache(std::string node, std::string bytes,
                                                 std::optional<uint32_t> uid);
  bool knows(const std::string& node) const;

  Core& core_;
  Home& home_;
  Cluster& cluster_;
  Sessions& sessions_;
  Remaker& remaker_;
  Stopper& stopper_;
  const fabric::Servers& servers_;
};

}  // namespace ocm::node
