// Atomics and notified access through the C ABI.
#include "client/atomics.h"

#include "capi/objects.h"
#include "capi/start.h"

namespace ocm::capi {
namespace {

int run_atomic(ocm_allocation* allocation, fabric::OpCode opcode, uint64_t offset, uint64_t operand,
               uint64_t expected, uint64_t* old) {
  return guarded([&] {
    client::Allocation* object = find(allocation);
    if (object == nullptr) return fail_handle(allocation);
    const Result<uint64_t> before = client::atomic(*object, opcode, offset, operand, expected);
    if (!before.is_ok()) return fail(before.status());
    if (old != nullptr) *old = before.value();
    return static_cast<int>(OCM_OK);
  });
}

/// `begin(operation, allocation)` starts it.
template <class Begin>
int start_word_on(ocm_allocation* allocation, ocm_op** op, Begin begin) {
  return start_on_allocation(allocation, op, [&](client::Allocation& object) {
    return start_operation(object.session(), op,
                           [&](client::Operation& operation) { return begin(operation, object); });
  });
}

int start_atomic(ocm_allocation* allocation, fabric::OpCode opcode, uint64_t offset, uint64_t operand,
                 uint64_t expected, uint64_t* old, ocm_op** op) {
  return start_word_on(allocation, op, [&](client::Operation& operation, client::Allocation& object) {
    return client::start_atomic(operation, object, opcode, offset, operand, expected, old);
  });
}

int start_wait(client::Allocation& object, uint64_t offset, uint64_t value, uint64_t deadline_ns,
               uint64_t* seen, ocm_op** op) {
  if (const Status usable = client::check_wait(object, offset); !usable.is_ok()) return fail(usable);
  const Ops::Reserved slot = ops.reserve();
  if (slot.object == nullptr) return fail(Code::kQueueFull, "too many operations in this process");
  try {
    const os::Deadline deadline =
        deadline_ns != 0 ? os::Deadline::after_ns(deadline_ns) : os::Deadline::never();
    auto word = std::make_unique<client::WordWait>(object, offset, value, deadline, seen);
    if (const Status entered = object.session()->under_way().words().enter(*word); !entered.is_ok()) {
      ops.release(slot.index);
      return fail(entered);
    }
    slot.object->reported = false;
    slot.object->word = std::move(word);
  } catch (...) {
    ops.release(slot.index);
    throw;
  }
  *op = handle_of<ocm_op>(ops.publish(slot.index));
  return OCM_OK;
}

}  // namespace
}  // namespace ocm::capi

using namespace ocm;        // NOLINT: the C ABI of this very namespace
using namespace ocm::capi;  // NOLINT
using fabric::OpCode;

extern "C" {

int ocm_atomic_fetch_add(ocm_allocation* a, uint64_t offset, uint64_t operand, uint64_t* old) {
  return run_atomic(a, OpCode::kFetchAdd, offset, operand, 0, old);
}
int ocm_atomic_swap(ocm_allocation* a, uint64_t offset, uint64_t operand, uint64_t* old) {
  return run_atomic(a, OpCode::kSwap, offset, operand, 0, old);
}
int ocm_atomic_compare_swap(ocm_allocation* a, uint64_t offset, uint64_t expected, uint64_t desired,
                            uint64_t* old) {
  return run_atomic(a, OpCode::kCompareSwap, offset, desired, expected, old);
}
int ocm_atomic_and(ocm_allocation* a, uint64_t offset, uint64_t operand, uint64_t* old) {
  return run_atomic(a, OpCode::kAnd, offset, operand, 0, old);
}
int ocm_atomic_or(ocm_allocation* a, uint64_t offset, uint64_t operand, uint64_t* old) {
  return run_atomic(a, OpCode::kOr, offset, operand, 0, old);
}
int ocm_atomic_xor(ocm_allocation* a, uint64_t offset, uint64_t operand, uint64_t* old) {
  return run_atomic(a, OpCode::kXor, offset, operand, 0, old);
}

int ocm_atomic_fetch_add_start(ocm_allocation* a, uint64_t offset, uint64_t operand, uint64_t* old,
                               ocm_op** op) {
  return start_atomic(a, OpCode::kFetchAdd, offset, operand, 0, old, op);
}
int ocm_atomic_swap_start(ocm_allocation* a, uint64_t offset, uint64_t operand, uint64_t* old, ocm_op** op) {
  return start_atomic(a, OpCode::kSwap, offset, operand, 0, old, op);
}
int ocm_atomic_compare_swap_start(ocm_allocation* a, uint64_t offset, uint64_t expected, uint64_t desired,
                                  uint64_t* old, ocm_op** op) {
  return start_atomic(a, OpCode::kCompareSwap, offset, desired, expected, old, op);
}
int ocm_atomic_and_start(ocm_allocation* a, uint64_t offset, uint64_t operand, uint64_t* old, ocm_op** op) {
  return start_atomic(a, OpCode::kAnd, offset, operand, 0, old, op);
}
int ocm_atomic_or_start(ocm_allocation* a, uint64_t offset, uint64_t operand, uint64_t* old, ocm_op** op) {
  return start_atomic(a, OpCode::kOr, offset, operand, 0, old, op);
}
int ocm_atomic_xor_start(ocm_allocation* a, uint64_t offset, uint64_t operand, uint64_t* old, ocm_op** op) {
  return start_atomic(a, OpCode::kXor, offset, operand, 0, old, op);
}

int ocm_put_notify(ocm_allocation* allocation, uint64_t offset, const void* source, uint64_t bytes,
                   uint64_t notify_offset, uint64_t value) {
  return guarded([&] {
    client::Allocation* object = find(allocation);
    if (object == nullptr) return fail_handle(allocation);
    return finish(client::put_notify(*object, offset, static_cast<const std::byte*>(source), bytes,
                                     notify_offset, value));
  });
}

int ocm_put_notify_start(ocm_allocation* allocation, uint64_t offset, const void* source, uint64_t bytes,
                         uint64_t notify_offset, uint64_t value, ocm_op** op) {
  return start_word_on(allocation, op, [&](client::Operation& operation, client::Allocation& object) {
    return client::start_put_notify(operation, object, offset, static_cast<const std::byte*>(source), bytes,
                                    notify_offset, value);
  });
}

int ocm_wait_at_least_start(ocm_allocation* allocation, uint64_t offset, uint64_t value, uint64_t deadline_ns,
                            uint64_t* seen, ocm_op** op) {
  return start_on_allocation(allocation, op, [&](client::Allocation& object) {
    return start_wait(object, offset, value, deadline_ns, seen, op);
  });
}

int ocm_wait_at_least(ocm_allocation* allocation, uint64_t offset, uint64_t value, uint64_t deadline_ns,
                      uint64_t* seen) {
  return guarded([&] {
    client::Allocation* object = find(allocation);
    if (object == nullptr) return fail_handle(allocation);
    const uint64_t patience = deadline_ns != 0 ? deadline_ns : object->session()->deadline_ns();
    const Result<uint64_t> word =
        client::wait_at_least(*object, offset, value, os::Deadline::after_ns(patience));
    if (!word.is_ok()) return fail(word.status());
    if (seen != nullptr) *seen = word.value();
    return static_cast<int>(OCM_OK);
  });
}

}  // extern "C"
