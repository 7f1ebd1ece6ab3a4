#include "wait.h"

namespace ocm::python {

bool wait_slice(ocm_op* op, uint64_t slice_ns, int& status) {
  status = ocm_op_wait(op, OCM_WAIT_REMOTE, slice_ns);
  if (status != OCM_DEADLINE) return true;  // the slice's, or the operation's own
  status = ocm_op_test(op);
  if (status == 0) return false;
  if (status > 0) status = OCM_OK;
  return true;
}

Windows::~Windows() {
  for (ocm_op* op : under_way_) session_.abandon(op, buffers_, ends_);
}

void Windows::take_back() {
  stop();
  Interruptible waits;
  waits.end_waits();
  for (; !under_way_.empty(); under_way_.pop_front())
    (void)ocm_op_wait(under_way_.front(), OCM_WAIT_REMOTE | OCM_WAIT_FREE, 0);
}

void Windows::note(int status) {
  if (status < 0 && failure_.status == OCM_OK) failure_ = Failure::last(status);
}

void Windows::start(const StartNext& start_next) {
  while (wants_start()) {
    ocm_op* op = nullptr;
    note(start_next(kWindowBytes, &op));
    if (op == nullptr) {
      more_ = false;
      return;
    }
    under_way_.push_back(op);
  }
}

bool Windows::end_oldest() {
  int status = OCM_OK;
  if (!wait_slice(under_way_.front(), kSliceNs, status)) return false;
  note(status);
  (void)ocm_op_free(under_way_.front());
  under_way_.pop_front();
  return true;
}

void check_interrupts(const Cancel* cancel) {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  check_cancelled(cancel);
}

void check_cancelled(const Cancel* cancel) {
  if (cancel != nullptr && cancel->cancelled()) {
    raise_status(OCM_CANCELLED, "the transfer was cancelled; what was under way has ended");
  }
}

nb::object run_windows(Plan plan, const Cancel* cancel) {
  plan.session->reap();
  Interruptible waits;
  Windows windows(plan);
  /// True when nothing is left.
  const auto advance = [&] {
    return without_gil([&] {
      windows.start(plan.start_next);
      return windows.empty() || (windows.end_oldest() && windows.empty() && !windows.wants_start());
    });
  };
  const auto check_signals = [&] {
    try {
      waits.check_signals();
    } catch (const nb::python_error&) {
      without_gil([&] { windows.take_back(); });
      throw;
    }
  };
  while (!advance()) {
    check_signals();
    if (cancel != nullptr && cancel->cancelled()) windows.stop();
  }
  if (windows.failure().status != OCM_OK) {
    check_signals();
    raise_failure(windows.failure());
  }
  check_cancelled(cancel);
  return plan.result.is_valid() ? plan.result : nb::cast(plan.bytes);
}

void register_wait(nb::module_& module) {
  nb::class_<Cancel>(module, "Cancel", "Stops the transfers that were given it.")
      .def(nb::init<>())
      .def("cancel", &Cancel::cancel, "Asks to stop: they end after what is under way, and raise Cancelled.");
}

}  // namespace ocm::python
