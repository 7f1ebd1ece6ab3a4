// Atomics and notified access for Python.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "allocation.h"

namespace ocm::python {
namespace {

using Atomic = int (*)(ocm_allocation*, uint64_t, uint64_t, uint64_t*);

template <Atomic kAtomic>
uint64_t atomic(const Allocation& self, uint64_t offset, uint64_t operand) {
  const auto handle = self.handle();
  uint64_t old = 0;
  check_interruptible([&] { return kAtomic(handle->get(), offset, operand, &old); });
  return old;
}

uint64_t compare_swap(const Allocation& self, uint64_t offset, uint64_t expected, uint64_t desired) {
  const auto handle = self.handle();
  uint64_t old = 0;
  check_interruptible(
      [&] { return ocm_atomic_compare_swap(handle->get(), offset, expected, desired, &old); });
  return old;
}

using StartAtomic = int (*)(ocm_allocation*, uint64_t, uint64_t, uint64_t*, ocm_op**);

/// Something on the word at `offset`, which gives a word. `start(handle, word, op)`.
template <class Start>
Plan plan_word(const std::shared_ptr<AllocationHandle>& handle, uint64_t offset, Start start) {
  Plan plan;
  plan.session = handle->shared_session();
  plan.ends = {handle->get()};
  plan.gives_word = true;
  plan.near = handle;
  plan.near_offset = offset;
  plan.near_bytes = sizeof(uint64_t);
  plan.start_next = [=, word = &plan.buffers->word](uint64_t, ocm_op** op) {
    return start(handle->get(), word, op);
  };
  return plan;
}

template <StartAtomic kStart>
Plan plan_atomic(const Allocation& self, uint64_t offset, uint64_t operand) {
  return plan_word(self.handle(), offset, [=](ocm_allocation* a, uint64_t* old, ocm_op** op) {
    return kStart(a, offset, operand, old, op);
  });
}

Plan plan_compare_swap(const Allocation& self, uint64_t offset, uint64_t expected, uint64_t desired) {
  return plan_word(self.handle(), offset, [=](ocm_allocation* a, uint64_t* old, ocm_op** op) {
    return ocm_atomic_compare_swap_start(a, offset, expected, desired, old, op);
  });
}

Plan plan_put_notify(const Allocation& self, nb::handle buffer, uint64_t offset, uint64_t notify_offset,
                     uint64_t value) {
  const auto handle = self.handle();
  Plan plan;
  plan.session = handle->shared_session();
  plan.ends = {handle->get()};
  plan.buffers->push_back(Buffer::readable(buffer));
  const std::byte* const data = plan.buffers->back().data();
  plan.bytes = plan.buffers->back().bytes();
  plan.near = handle;
  plan.near_offset = notify_offset;  // of the same extent
  plan.near_bytes = sizeof(uint64_t);
  plan.start_next = [=, bytes = plan.bytes](uint64_t, ocm_op** op) {
    return ocm_put_notify_start(handle->get(), offset, data, bytes, notify_offset, value, op);
  };
  return plan;
}

Plan plan_wait(const Allocation& self, uint64_t offset, uint64_t value, std::optional<double> deadline_s) {
  if (deadline_s && std::isnan(*deadline_s)) throw nb::value_error("deadline_s is no number");
  const uint64_t deadline_ns =
      deadline_s ? static_cast<uint64_t>(std::clamp(*deadline_s * 1e9, 1.0, 9e18)) : 0;
  Plan plan = plan_word(self.handle(), offset, [=](ocm_allocation* a, uint64_t* seen, ocm_op** op) {
    return ocm_wait_at_least_start(a, offset, value, deadline_ns, seen, op);
  });
  plan.waits_for_word = true;
  return plan;
}

void put_notify(const Allocation& self, nb::handle buffer, uint64_t offset, uint64_t notify_offset,
                uint64_t value) {
  const auto handle = self.handle();
  const Buffer source = Buffer::readable(buffer);
  check_interruptible([&] {
    return ocm_put_notify(handle->get(), offset, source.data(), source.bytes(), notify_offset, value);
  });
}

/// In slices, between which signals are seen.
uint64_t wait_at_least(const Allocation& self, uint64_t offset, uint64_t value,
                       std::optional<double> deadline_s, const Cancel* cancel) {
  using Clock = std::chrono::steady_clock;
  const auto handle = self.handle();
  const auto start = Clock::now();
  if (deadline_s && std::isnan(*deadline_s)) throw nb::value_error("deadline_s is no number");
  Interruptible waits;
  for (;;) {
    double left_s = 1e9;
    if (deadline_s) left_s = *deadline_s - std::chrono::duration<double>(Clock::now() - start).count();
    const auto slice_ns = static_cast<uint64_t>(std::clamp(left_s * 1e9, 1.0, static_cast<double>(kSliceNs)));
    uint64_t seen = 0;
    const int status =
        without_gil([&] { return ocm_wait_at_least(handle->get(), offset, value, slice_ns, &seen); });
    if (status == OCM_OK) return seen;
    if (status != OCM_DEADLINE || left_s <= 0) waits.check(status);
    waits.check_signals();
    check_cancelled(cancel);
  }
}

}  // namespace

void register_atomics(nb::class_<Allocation>& allocation) {
  const auto define = [&](const char* name, auto function, const char* doc) {
    allocation.def(name, function, nb::arg("offset"), nb::arg("operand"), doc);
  };
  define(
      "fetch_add", atomic<ocm_atomic_fetch_add>,
      "Adds to the 64-bit word at `offset` (a multiple of 8), modulo 2**64. Returns the value before.\n\n"
      "Sequentially consistent among atomics. Raises InvalidArgument (alignment), Unsupported (replicated).");
  define("swap", atomic<ocm_atomic_swap>, "Stores `operand` in the 64-bit word. Returns the value before.");
  define("fetch_and", atomic<ocm_atomic_and>, "Bitwise and with the 64-bit word. Returns the value before.");
  define("fetch_or", atomic<ocm_atomic_or>, "Bitwise or with the 64-bit word. Returns the value before.");
  define("fetch_xor", atomic<ocm_atomic_xor>,
         "Bitwise exclusive or with the 64-bit word. Returns the value before.");
  allocation
      .def("compare_swap", compare_swap, nb::arg("offset"), nb::arg("expected"), nb::arg("desired"),
           "Stores `desired` if the 64-bit word is `expected`. Returns the value before.")
      .def("put_notify", put_notify, nb::arg("buffer"), nb::arg("offset"), nb::arg("notify_offset"),
           nb::arg("value") = 1,
           "Puts the buffer, then adds `value` to the 64-bit word at `notify_offset` of the same extent: who "
           "waits for\n"
           "the word sees the bytes.")
      .def("wait_at_least", wait_at_least, nb::arg("offset"), nb::arg("value"),
           nb::arg("deadline_s").none() = nb::none(), nb::kw_only(), nb::arg("cancel").none() = nb::none(),
           "Waits until the 64-bit word at `offset` is at least `value` (unsigned). Returns the value "
           "read.\n\n"
           "`deadline_s` None: without limit. Raises DeadlineExceeded, Revoked, PeerLost.");
  // Of `start_fetch_add()` and `afetch_add()`, and so on: not begun.
  const auto define_plan = [&](const char* name, auto function) {
    allocation.def(name, function, nb::arg("offset"), nb::arg("operand"));
  };
  define_plan("_plan_fetch_add", plan_atomic<ocm_atomic_fetch_add_start>);
  define_plan("_plan_swap", plan_atomic<ocm_atomic_swap_start>);
  define_plan("_plan_fetch_and", plan_atomic<ocm_atomic_and_start>);
  define_plan("_plan_fetch_or", plan_atomic<ocm_atomic_or_start>);
  define_plan("_plan_fetch_xor", plan_atomic<ocm_atomic_xor_start>);
  allocation
      .def("_plan_compare_swap", plan_compare_swap, nb::arg("offset"), nb::arg("expected"),
           nb::arg("desired"))
      .def("_plan_put_notify", plan_put_notify, nb::arg("buffer"), nb::arg("offset"),
           nb::arg("notify_offset"), nb::arg("value"))
      .def("_plan_wait_at_least", plan_wait, nb::arg("offset"), nb::arg("value"),
           nb::arg("deadline_s").none());
}

}  // namespace ocm::python
