// Counters of the control plane, and their form as Prometheus text. Data counters are the servers' own.
//
// Threads: the loop's.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace ocm::node {

/// Latencies in powers of two from 1 us to 8 s.
class Histogram {
 public:
  static constexpr int kBuckets = 24;
  static_assert(kBuckets < 64, "a bound is a bit of a word");
  void add(uint64_t ns);
  /// Appends `name_bucket{labels,le=...}`, `_sum` and `_count`.
  void print(std::string& out, std::string_view name, std::string_view labels) const;

 private:
  std::array<uint64_t, kBuckets + 1> counts_{};
  uint64_t sum_ns_ = 0;
  uint64_t count_ = 0;
};

/// What programs say that they moved, over every fabric.
struct Moved {
  uint64_t put_bytes = 0, get_bytes = 0, put_ops = 0, get_ops = 0, atomic_ops = 0;
};

struct Metrics {
  std::map<std::string, Histogram, std::less<>> requests;  // by request
  std::map<int, uint64_t> errors;                          // by code
  uint64_t sessions_total = 0;
  int64_t certificate_ends = 0;  // seconds since 1970, UTC; 0: there is none
  uint64_t heartbeats_sent = 0;
  uint64_t heartbeats_failed = 0;
  uint64_t heartbeats_received = 0;
  uint64_t council_attempts = 0;  // at the coordinator: to seal councils and have the next one chosen
  uint64_t connections = 0;       // control connections open now
  uint64_t connections_total = 0;
  uint64_t connections_refused = 0;   // over a limit
  uint64_t names_degraded = 0;        // at the coordinator: they miss a replica, and no bytes
  uint64_t names_lost = 0;            // at the coordinator: they miss bytes
  uint64_t auth_failures = 0;         // daemons that did not prove the cluster token
  uint64_t stop_looks = 0;            // at what a stop would take: each asks the homes of all replicas here
  uint64_t connections_unproved = 0;  // closed: they did not prove themselves in time

  void request(std::string_view name, uint64_t ns, int code);
};

}  // namespace ocm::node
