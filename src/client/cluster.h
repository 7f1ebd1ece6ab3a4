// Names and nodes, as the daemon tells them.
#pragma once

#include <string>
#include <vector>

#include "base/ids.h"
#include "client/layout.h"

namespace ocm::client {

class Session;

struct NameInfo {
  std::string name;
  Shape shape;
  Kind kind = kDefaultKind;
  bool durable = false, coherent = false;
  uint32_t owner_uid = 0;
  uint32_t mode = 0;
  bool lost = false;
  uint32_t replicas_missing = 0;  // given up, or on a node that is gone; 0 if it is lost
};

struct NodeInfo {
  std::string name;
  uint32_t partition = 0;
  uint32_t state = 0;  // ocm_node_state
  bool self = false;
  bool coordinator = false;
  uint64_t pool_bytes[kKindsMax] = {};
  uint64_t used_bytes[kKindsMax] = {};
  uint64_t sessions = 0;
  uint64_t extents = 0;
  uint64_t heartbeat_age_ns = 0;
};

Result<std::vector<NameInfo>> list_names(Session& session, const std::string& prefix);
Status remove_name(Session& session, const std::string& name);
Result<std::vector<NodeInfo>> list_nodes(Session& session);

}  // namespace ocm::client
