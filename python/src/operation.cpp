#include "operation.h"

#include <nanobind/stl/optional.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace ocm::python {
namespace {

constexpr uint64_t kWhole = UINT64_MAX;
constexpr uint64_t kAtOnceBytesMax = uint64_t{1} << 20;  // what lies on this host is copied by who begins it

}  // namespace

Ready::Ready() : fd_(std::make_shared<Owned>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  if (fd_->fd < 0) {
    PyErr_SetFromErrno(PyExc_OSError);
    throw nb::python_error();
  }
}

Ready::Owned::~Owned() {
  if (fd >= 0) ::close(fd);
}

bool Ready::watch(const nb::object& operation) {
  auto& one = nb::cast<Operation&>(operation);
  if (one.done()) return false;
  if (one.told_ != nullptr && one.told_ != fd_)
    raise_status(OCM_INVALID_ARGUMENT, "the operation is awaited in another event loop");
  one.told_ = fd_;
  check(ocm_op_signal(one.op_, fd_->fd));
  watched_.push_back(operation);
  return true;
}

nb::list Ready::ended() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(fd_->fd, &count, sizeof(count));
  nb::list out;
  std::erase_if(watched_, [&](nb::object& one) {
    if (!nb::cast<Operation&>(one).done()) return false;
    out.append(std::move(one));
    return true;
  });
  return out;
}

Operation::Operation(Plan plan) : plan_(std::move(plan)) {
  if (plan_.waits_for_word) plan_.near->word_waits.insert(this);
}

Operation::~Operation() {
  forget_word();
  if (op_ == nullptr) return;
  (void)ocm_op_cancel(op_);
  if (done()) return;
  (void)ocm_op_signal(op_, -1);
  plan_.session->abandon(op_, plan_.buffers, plan_.ends);
}

bool Operation::begins_at_once() const {
  return plan_.near != nullptr && plan_.bytes <= kAtOnceBytesMax &&
         ocm_allocation_ready(plan_.near->get(), plan_.near_offset, plan_.near_bytes) == 1;
}

void Operation::begin() {
  if (std::exchange(begun_, true)) raise_status(OCM_INVALID_ARGUMENT, "the operation was begun before");
  Interruptible waits;
  beginning_ = &waits;
  if (cancelled_) waits.end_waits();
  ocm_op* op = nullptr;
  Failure failure;
  without_gil([&] {
    plan_.session->reap();
    const int status = plan_.start_next(kWhole, &op);
    if (status < 0) failure = Failure::last(status);
  });
  beginning_ = nullptr;
  op_ = op;
  if (failure.status != OCM_OK && failure_.status == OCM_OK) failure_ = std::move(failure);
  if (op_ == nullptr)
    let_go();  // it failed, or had nothing to do
  else if (cancelled_)
    (void)ocm_op_cancel(op_);
  waits.check_signals();
}

void Operation::note(int status) {
  if (status < 0 && failure_.status == OCM_OK) failure_ = Failure::last(status);
}

void Operation::let_go() {
  done_ = true;
  if (waiting_ > 0) return;
  if (op_ != nullptr) (void)ocm_op_free(std::exchange(op_, nullptr));
  plan_.buffers->clear();
  plan_.start_next = nullptr;
  forget_word();
  plan_.near.reset();
}

void Operation::forget_word() {
  if (plan_.waits_for_word && plan_.near != nullptr) plan_.near->word_waits.erase(this);
}

bool Operation::done() {
  if (op_ != nullptr && !done_) {
    const int status = ocm_op_test(op_);
    if (status == 0) return false;
    note(status);
    let_go();
  }
  return done_;
}

void Operation::cancel() {
  if (done_) return;
  cancelled_ = true;
  if (op_ != nullptr) (void)ocm_op_cancel(op_);
  if (beginning_ != nullptr) beginning_->end_waits();
}

void Operation::end(Failure why) {
  if (done()) return;
  failure_ = std::move(why);
  cancel();
}

nb::object Operation::wait(std::optional<double> deadline_s) {
  using Clock = std::chrono::steady_clock;
  if (deadline_s && std::isnan(*deadline_s)) throw nb::value_error("deadline_s is no number");
  if (!begun_) begin();
  const auto start = Clock::now();
  Interruptible waits;
  while (!done()) {
    double left_s = 1e9;
    if (deadline_s) left_s = *deadline_s - std::chrono::duration<double>(Clock::now() - start).count();
    if (left_s <= 0) raise_status(OCM_DEADLINE, "the operation is still under way");
    if (op_ == nullptr) raise_status(OCM_INVALID_ARGUMENT, "another thread is just beginning the operation");
    const auto slice_ns = static_cast<uint64_t>(std::clamp(left_s * 1e9, 1.0, static_cast<double>(kSliceNs)));
    ++waiting_;
    int status = OCM_OK;
    (void)without_gil([op = op_, slice_ns, &status] { return wait_slice(op, slice_ns, status); });
    --waiting_;
    if (done_) let_go();
    waits.check_signals();
  }
  return result();
}

nb::object Operation::result() const {
  if (!done_) raise_status(OCM_INVALID_ARGUMENT, "the operation is still under way: wait for it");
  if (failure_.status != OCM_OK) raise_failure(failure_);
  if (plan_.gives_word) return nb::cast(plan_.buffers->word);
  return plan_.result.is_valid() ? plan_.result : nb::cast(plan_.bytes);
}

void register_operation(nb::module_& module) {
  nb::class_<Ready>(module, "Ready",
                    "A descriptor that is readable when an operation that it watches is done.")
      .def(nb::init<>())
      .def("fileno", &Ready::fd, "The descriptor.")
      .def("watch", &Ready::watch, nb::arg("operation"),
           "Has it tell of an operation that was begun. False: it is done.")
      .def("ended", &Ready::ended, "The operations that are done since; it forgets them.");
  nb::class_<Plan>(module, "Plan", "What was checked, and is not begun.");
  nb::class_<Operation>(module, "Operation", "The base of oncilla.Operation.")
      .def(
          "__init__", [](Operation* self, Plan& plan) { new (self) Operation(std::move(plan)); },
          nb::arg("plan"))
      .def("done", &Operation::done, "True when it has ended, well or not. Never waits.")
      .def(
          "wait", &Operation::wait, nb::arg("deadline_s").none() = nb::none(),
          "Waits for its end and gives its result; again: the same. `deadline_s` None: without limit.\n\n"
          "Raises its error; DeadlineExceeded where it is still under way after `deadline_s` seconds, and it "
          "goes on.")
      .def("cancel", &Operation::cancel,
           "It ends, with Cancelled, unless it is done: at once, or where a node is just being connected to "
           "right after\n"
           "that. Then nothing touches its buffers any more. What was sent may still be applied, whole or in "
           "part.")
      .def("_begin", &Operation::begin, "Starts it; may wait for a node.")
      .def("_begins_at_once", &Operation::begins_at_once, "_begin() would not wait.")
      .def("_result", &Operation::result, "Of one that is done.");
}

}  // namespace ocm::python
