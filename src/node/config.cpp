#include "node/config.h"

#include "control/membership.h"
#include "control/sockets.h"

namespace ocm::node {

Status Config::check() const {
  if (!name.empty()) OCM_TRY(control::check_node_name(name));
  return {};
}

}  // namespace ocm::node
