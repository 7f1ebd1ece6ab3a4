// The physical limit of tcp here: a plain send and recv loop over loopback, both sides spinning.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

#include "base/status.h"
#include "os/fd.h"

namespace ocm::cli {

/// A connection to a thread that takes or sends what it is asked for. The thread spins while this lives.
/// Threads: one caller.
class RawLoop {
 public:
  /// `buffer_bytes`: SO_SNDBUF and SO_RCVBUF of both ends; 0: the system's default.
  /// `bytes_max`: the largest transfer. Errors: kIo.
  static Result<std::unique_ptr<RawLoop>> start(uint64_t bytes_max, int buffer_bytes);
  ~RawLoop();

  /// Sends and waits for the one-byte acknowledgement.
  Status put(const std::byte* source, uint64_t bytes);
  /// Asks and receives.
  Status get(std::byte* target, uint64_t bytes);

 private:
  RawLoop() = default;
  void serve();

  os::Fd client_;
  os::Fd server_;
  uint64_t bytes_max_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace ocm::cli
