// Control messages on a stream: u32 little-endian length, then one Envelope (control.proto).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace ocm::wire {

class Envelope;

inline constexpr size_t kControlHeaderBytes = 4;
/// A control message at most; larger ones are kTooLarge at the sender and kProtocol at the receiver.
inline constexpr size_t kControlBytesMax = size_t{4} << 20;
/// Between daemons that have proven themselves: what a voter tells of all parts that it may remember
/// (LossLedger::kPartsMax) and notes of names (kNotedBytesMax, kRemovedMax), three times in one message.
inline constexpr size_t kNodeBytesMax = size_t{60} << 20;
/// Descriptors that travel with one message at most.
inline constexpr uint32_t kControlFdsMax = 16;
/// Of the sentence that says why a request failed.
inline constexpr size_t kDetailBytesMax = 4096;

/// Appends header and message to `out`. Errors: kTooLarge.
Status append_control(const Envelope& message, std::string& out, size_t bytes_max = kControlBytesMax);
/// The length that the 4 header bytes announce. Errors: kProtocol (0 or above `bytes_max`).
Result<uint32_t> control_length(std::span<const std::byte> header, size_t bytes_max = kControlBytesMax);
/// Parses one message, of kNodeBytesMax at most. Errors: kProtocol.
Status parse_control(std::span<const std::byte> bytes, Envelope& message);
/// Of a reply: code, sentence, node and subject. A sentence is cut at kDetailBytesMax; a name that is longer than
/// kNameBytesMax, or no text, is left out.
void put_status(const Status& status, Envelope& reply);
/// What a reply says. A code that is none of ours is kProtocol; a node or subject that is no name is left out.
Status status_of(const Envelope& reply);
/// The name of the body's field in control.proto, "allocate"; "unknown" without a body.
std::string_view body_name(const Envelope& message);

}  // namespace ocm::wire
