// What can go wrong on the fake network, and how often. Odds are for each message, in millionths.
#pragma once

#include <cstdint>

namespace ocm::fabric::fake {

struct Faults {
  uint32_t drop_ppm = 0;       // lost for good; what follows it on its extent is held, until the op stalls
  uint32_t duplicate_ppm = 0;  // arrives twice; applied once
  uint32_t delay_ppm = 0;      // arrives up to delay_ns_max later, so messages of other extents overtake it
  uint64_t delay_ns_max = 0;
};

struct NetworkOptions {
  uint64_t latency_ns = 5'000;       // one way
  uint64_t bytes_per_us = 10'000;    // of one message
  uint64_t piece_bytes = 64 * 1024;  // longer ops travel in pieces
  /// Waiting moves the virtual time on: progress() without anything due jumps to what comes next. Without it
  /// only advance() moves it, and attach() and connect().
  bool auto_advance = true;
  Faults faults;
};

/// What the network did, for tests that must know that a fault was met.
struct NetworkCounts {
  uint64_t messages = 0, dropped = 0, duplicated = 0, delayed = 0, ignored_duplicates = 0;
};

}  // namespace ocm::fabric::fake
