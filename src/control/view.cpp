#include "control/view.h"

namespace ocm::control {

const char* node_state_name(NodeState state) {
  switch (state) {
    case NodeState::kAlive: return "alive";
    case NodeState::kSuspect: return "suspect";
    case NodeState::kDead: return "dead";
    case NodeState::kDraining: return "draining";
  }
  return "?";
}

}  // namespace ocm::control
