// Latency and bandwidth by size: of the fabrics, of memcpy, of a raw socket loop. For `ocm bench` and
// `ocm demo`; the comparison with other systems is bench/'s.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "oncilla/oncilla.h"

namespace ocm::cli {

/// One measured point: a completed operation of `bytes`, one at a time.
struct Rate {
  std::string what;       // "tcp", "memcpy", ...
  std::string direction;  // "put", "get", "copy"
  uint64_t bytes = 0;
  double ns_median = 0;
  double ns_min = 0;
  double ns_max = 0;
  uint64_t operations = 0;

  double bytes_per_second() const { return ns_median > 0 ? static_cast<double>(bytes) * 1e9 / ns_median : 0; }
};

/// Every function measures each size (and direction) for about `budget_ns`, after a warm-up.
Result<std::vector<Rate>> measure_memcpy(const std::vector<uint64_t>& sizes, uint64_t budget_ns);
/// The better of the system's socket buffers and of buffers of 128 KiB, for each point.
Result<std::vector<Rate>> measure_raw(const std::vector<uint64_t>& sizes, uint64_t budget_ns);
/// Over memory of its own: this node's for shm, another node's for the rest where there is one.
/// Errors: kUnsupported (this cluster has no such fabric), kPoolFull, those of put and get, kCancelled.
Result<std::vector<Rate>> measure_fabric(ocm_session* session, const std::string& fabric,
                                         const std::vector<uint64_t>& sizes, uint64_t budget_ns);

/// Two tables on stdout: time of one operation, and bytes in a second; a column for each (what, direction).
void print_rates(const std::vector<Rate>& rates);

}  // namespace ocm::cli
