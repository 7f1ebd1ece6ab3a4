// How the inputs of node_fuzz are written: a byte that says what the daemon is, then records (records.h).
#pragma once

#include <cstdint>

namespace ocm::fuzz::node_input {

// Bits of `who`; the lowest says which node, or which program.
inline constexpr uint8_t kAnswer = 4;    // to the first request of this daemon that it answers,
inline constexpr uint8_t kAny = 128;     // or to whichever comes next
inline constexpr uint8_t kEnd = 8;       // the program ends
inline constexpr uint8_t kWait = 16;     // a while passes
inline constexpr uint8_t kProgram = 32;  // a program sends it; stop_check and stats_reply are read over HTTP
inline constexpr uint8_t kLong = 64;     // longer than a node lives unheard
// The first byte of an input.
inline constexpr char kCoordinator = 0, kMember = 1;

}  // namespace ocm::fuzz::node_input
