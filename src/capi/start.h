// The handle of an operation, made where it starts.
#pragma once

#include "capi/objects.h"

namespace ocm::capi {

/// `begin(operation)` starts it, or refuses: then there is no handle. Within guarded().
template <class Begin>
int start_operation(client::Session* session, ocm_op** op, Begin begin) {
  const Ops::Reserved slot = ops.reserve();
  if (slot.object == nullptr) return fail(Code::kQueueFull, "too many operations in this process");
  slot.object->reported = false;
  OCM_ASSERT(!slot.object->operation.has_value());  // whoever had the slot has ended it
  client::Operation& operation = slot.object->operation.emplace();
  try {
    if (const Status begun = begin(operation); !begun.is_ok()) {
      slot.object->operation.reset();
      ops.release(slot.index);
      return fail(begun);
    }
    if (session != nullptr) session->under_way().enter(operation);
  } catch (...) {
    slot.object->operation.reset();  // waits: what was posted may still use the caller's buffers
    ops.release(slot.index);
    throw;
  }
  *op = handle_of<ocm_op>(ops.publish(slot.index));
  return OCM_OK;
}

/// The head of every function that starts something on one allocation: `start(object)`, then to the end.
template <class Start>
int start_on_allocation(ocm_allocation* allocation, ocm_op** op, Start start) {
  return guarded([&] {
    client::Allocation* object = find(allocation);
    if (object == nullptr) return fail_handle(allocation);
    if (op == nullptr) return fail(Code::kInvalidArgument, "`op` is null");
    return start(*object);
  });
}

}  // namespace ocm::capi
