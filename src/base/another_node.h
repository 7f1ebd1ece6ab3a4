// Which errors of one node say that another one may do: for whoever chooses nodes.
#pragma once

#include "base/status.h"

namespace ocm {

/// The node is away, on its way out, or short of something else than the room that was asked for; its device may have failed.
constexpr bool another_node_may_do(Code code) {
  return code == Code::kPeerLost || code == Code::kDraining || code == Code::kNoMemory ||
         code == Code::kNoFds || code == Code::kLimit || code == Code::kIo;
}

}  // namespace ocm
