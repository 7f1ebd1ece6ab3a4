#include "cache/protocol/message.h"

#include <array>

namespace ocm::cache {

std::string_view message_name(MessageKind kind) {
  static constexpr std::array<std::string_view, kMessageKinds> kNames = {
      "GetS",     "GetM",  "PutS",   "PutD",   "Clean",    "Return",     "Done",   "InvAck", "ProbeReply",
      "Recalled", "DataE", "DataM",  "DataS",  "GrantM",   "StillYours", "NoMore", "FetchS", "FetchM",
      "Inv",      "Probe", "Recall", "PutAck", "CleanAck", "PutStale",   "Nack"};
  static_assert(!kNames.back().empty());
  return is_kind(static_cast<uint8_t>(kind)) ? kNames[static_cast<size_t>(kind)] : "?";
}

}  // namespace ocm::cache
