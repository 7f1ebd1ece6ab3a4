#include "wait.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

namespace ocm::python {
namespace {

/// Waits a slice for `op`; 0: only looks. True when it has ended, with `status`.
bool wait_slice(ocm_op* op, uint64_t slice_ns, int& status) {
  if (slice_ns != 0) {
    status = ocm_op_wait(op, OCM_WAIT_REMOTE, slice_ns);
    if (status != OCM_DEADLINE) return true;  // the slice's, or the operation's own
  }
  status = ocm_op_test(op);
  if (status == 0) return false;
  if (status > 0) status = OCM_OK;
  return true;
}

}  // namespace

Windows::~Windows() {
  for (ocm_op* op : under_way_) {
    (void)ocm_op_signal(op, -1);
    session_.abandon(op, buffers_, ends_);
  }
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

void Windows::start(const StartNext& start_next, int eventfd) {
  while (wants_start()) {
    ocm_op* op = nullptr;
    note(start_next(&op));
    if (op == nullptr) {
      more_ = false;
      return;
    }
    if (eventfd >= 0) note(ocm_op_signal(op, eventfd));
    under_way_.push_back(op);
  }
}

bool Windows::end_oldest(uint64_t slice_ns) {
  int status = OCM_OK;
  if (!wait_slice(under_way_.front(), slice_ns, status)) return false;
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
      return windows.empty() || (windows.end_oldest(kSliceNs) && windows.empty() && !windows.wants_start());
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

Ready::Ready() : fd_(std::make_shared<Owned>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  if (fd_->fd < 0) {
    PyErr_SetFromErrno(PyExc_OSError);
    throw nb::python_error();
  }
}

Ready::Owned::~Owned() {
  if (fd >= 0) ::close(fd);
}

void Ready::clear() const {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(fd_->fd, &count, sizeof(count));
}

Transfer::~Transfer() = default;

void Transfer::begin(const Ready& ready) {
  told_ = ready.owned();
  without_gil([&] {
    plan_.session->reap();
    windows_.start(plan_.start_next, told_->fd);
  });
}

Transfer::State Transfer::reap() {
  while (!windows_.empty() && windows_.end_oldest(0)) {
  }
  if (windows_.wants_start()) return State::kBegin;
  return windows_.empty() ? State::kEnded : State::kUnderWay;
}

void Transfer::stop() {
  stopped_ = true;
  windows_.stop();
}

nb::object Transfer::result() {
  if (windows_.failure().status != OCM_OK) raise_failure(windows_.failure());
  if (stopped_) raise_status(OCM_CANCELLED, "the transfer was cancelled; what was under way has ended");
  return plan_.result.is_valid() ? plan_.result : nb::cast(plan_.bytes);
}

void register_wait(nb::module_& module) {
  nb::class_<Cancel>(module, "Cancel", "Stops the transfers that were given it.")
      .def(nb::init<>())
      .def("cancel", &Cancel::cancel, "Asks to stop: they end after what is under way, and raise Cancelled.");
  nb::class_<Ready>(module, "Ready", "A descriptor that is readable when something that was begun has ended.")
      .def(nb::init<>())
      .def("fileno", &Ready::fd, "The descriptor.")
      .def("clear", &Ready::clear, "It is not readable until something more ends.");
  nb::class_<Transfer>(module, "Transfer", "A transfer that an event loop sees through.")
      .def("begin", &Transfer::begin, nb::arg("ready"), "Starts what it has room for; may block.")
      .def(
          "reap", [](Transfer& self) { return static_cast<int>(self.reap()); },
          "0: under way; 1: begin() again; 2: result() is there.")
      .def("stop", &Transfer::stop, "Starts nothing any more.")
      .def("result", &Transfer::result, "What it gives, or raises its error.");
}

}  // namespace ocm::python
