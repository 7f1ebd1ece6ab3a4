#include "oncilla_double.h"

#include <cstring>
#include <memory>
#include <mutex>
#include <set>

#define OCM_NO_SHORT_NAMES
#include "oncilla/oncilla.h"

struct ocm_session {
  std::mutex mutex;
  std::set<ocm_allocation*> allocations;
};

struct ocm_allocation {
  ocm_session* session;
  uint64_t bytes;
  std::unique_ptr<char[]> data;
};

namespace {

std::mutex mutex;

void record(const std::string& transfer) {
  std::lock_guard lock(mutex);
  ocm::testing::oncilla_double().transfers.push_back(transfer);
}

bool fits(const ocm_allocation* allocation, uint64_t offset, uint64_t bytes) {
  return offset <= allocation->bytes && bytes <= allocation->bytes - offset;
}

}  // namespace

ocm::testing::OncillaDouble& ocm::testing::oncilla_double() {
  static OncillaDouble instance;
  return instance;
}
using ocm::testing::oncilla_double;

const char* ocm_strerror(int) { return "the fixed sentence"; }
const char* ocm_last_error(void) { return "the double says no"; }

int ocm_session_open(const ocm_session_options* options, ocm_session** session) {
  oncilla_double().open_flags = options->flags;
  if (oncilla_double().open_status != 0) return oncilla_double().open_status;
  *session = new ocm_session;
  ++oncilla_double().sessions;
  return 0;
}

int ocm_session_close(ocm_session* session) {
  while (!session->allocations.empty()) ocm_allocation_free(*session->allocations.begin());
  delete session;
  --oncilla_double().sessions;
  return 0;
}

int ocm_allocation_create(ocm_session* session, uint64_t bytes, const ocm_allocation_options* options,
                          ocm_allocation** allocation) {
  std::lock_guard lock(session->mutex);
  if (oncilla_double().create_status != 0) return oncilla_double().create_status;
  if ((options->flags & OCM_ALLOCATION_REMOTE) && !oncilla_double().other_nodes) return OCM_POOL_FULL;
  const uint64_t held_bytes = oncilla_double().moves_bytes ? bytes : 0;
  *allocation = new ocm_allocation{session, bytes, std::make_unique<char[]>(held_bytes)};
  session->allocations.insert(*allocation);
  ++oncilla_double().allocations;
  oncilla_double().create_flags = options->flags;
  return 0;
}

int ocm_allocation_free(ocm_allocation* allocation) {
  std::lock_guard lock(allocation->session->mutex);
  allocation->session->allocations.erase(allocation);
  delete allocation;
  --oncilla_double().allocations;
  return 0;
}

int ocm_put(ocm_allocation* allocation, uint64_t offset, const void* source, uint64_t bytes) {
  record("put " + std::to_string(offset) + " " + std::to_string(bytes));
  if (oncilla_double().transfer_status != 0) return oncilla_double().transfer_status;
  if (!fits(allocation, offset, bytes)) return OCM_OUT_OF_RANGE;
  if (oncilla_double().moves_bytes) std::memcpy(allocation->data.get() + offset, source, bytes);
  return 0;
}

int ocm_get(ocm_allocation* allocation, uint64_t offset, void* target, uint64_t bytes) {
  record("get " + std::to_string(offset) + " " + std::to_string(bytes));
  if (oncilla_double().transfer_status != 0) return oncilla_double().transfer_status;
  if (!fits(allocation, offset, bytes)) return OCM_OUT_OF_RANGE;
  if (oncilla_double().moves_bytes) std::memcpy(target, allocation->data.get() + offset, bytes);
  return 0;
}

int ocm_place_copy(ocm_place target, ocm_place source, uint64_t bytes) {
  record("copy " + std::to_string(target.offset) + " " + std::to_string(source.offset) + " " +
         std::to_string(bytes));
  if (oncilla_double().transfer_status != 0) return oncilla_double().transfer_status;
  if (!fits(target.allocation, target.offset, bytes) || !fits(source.allocation, source.offset, bytes))
    return OCM_OUT_OF_RANGE;
  const bool same = target.allocation == source.allocation;
  if (same && target.offset < source.offset + bytes && source.offset < target.offset + bytes)
    return OCM_INVALID_ARGUMENT;
  if (oncilla_double().moves_bytes)
    std::memcpy(target.allocation->data.get() + target.offset, source.allocation->data.get() + source.offset,
                bytes);
  return 0;
}

int ocm_node_list(ocm_session*, bool (*visit)(const ocm_node_info*, void*), void* context) {
  ocm_node_info node{};
  node.size = sizeof(node);
  node.state = OCM_NODE_ALIVE;
  node.self = true;
  if (!visit(&node, context) || !oncilla_double().other_nodes) return 0;
  node.self = false;
  visit(&node, context);
  return 0;
}
