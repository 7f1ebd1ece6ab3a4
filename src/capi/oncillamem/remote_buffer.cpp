#include "capi/oncillamem/remote_buffer.h"

namespace ocm::oncillamem {
namespace {

bool stop_at_other_node(const ocm_node_info* info, void* found) {
  const bool other = !info->self && info->state != OCM_NODE_DEAD;
  if (other) *static_cast<bool*>(found) = true;
  return !other;
}

// A cluster that cannot be asked is not known to be this node alone.
bool is_alone(ocm_session* session) {
  bool other = false;
  return ocm_node_list(session, stop_at_other_node, &other) == OCM_OK && !other;
}

}  // namespace

Status from_api(int status) {
  if (status >= 0) return {};
  const char* detail = ocm_last_error();
  if (detail == nullptr || detail[0] == '\0') detail = ocm_strerror(status);
  return Status(static_cast<Code>(status), detail);
}

Result<ocm_allocation*> make_remote_buffer(ocm_session* session, uint64_t bytes) {
  if (bytes == 0) return Status(Code::kInvalidArgument, "rem_alloc_bytes is 0");
  ocm_allocation_options options = OCM_ALLOCATION_OPTIONS_INIT;
  options.flags = OCM_ALLOCATION_REMOTE | OCM_ALLOCATION_ZERO;
  ocm_allocation* allocation = nullptr;
  Status status = from_api(ocm_allocation_create(session, bytes, &options, &allocation));
  if (!status.is_ok() && is_alone(session)) {
    options.flags = OCM_ALLOCATION_ZERO;
    status = from_api(ocm_allocation_create(session, bytes, &options, &allocation));
  }
  if (!status.is_ok()) return status;
  return allocation;
}

}  // namespace ocm::oncillamem
