#include "wait.h"

#include <deque>

namespace ocm::python {
namespace {

/// Waits a slice for `op`. True when it has ended, with `status`; its handle is freed then.
bool wait_slice(ocm_op* op, uint64_t slice_ns, int& status) {
  status = ocm_op_wait(op, OCM_WAIT_REMOTE, slice_ns);
  if (status == OCM_DEADLINE) {  // the slice's, or the operation's own
    status = ocm_op_test(op);
    if (status == 0) return false;
    if (status > 0) status = OCM_OK;
  }
  return true;
}

/// The windows under way, oldest first. Without the GIL.
class Windows {
 public:
  Windows(SessionHandle& session, std::shared_ptr<Buffers> buffers)
      : session_(session), buffers_(std::move(buffers)) {}
  /// What nobody waits for any more goes to the session, with its buffers.
  ~Windows() {
    for (ocm_op* op : under_way_) session_.abandon(op, buffers_);
  }

  /// Starts windows and waits for one slice. True when nothing is left.
  bool advance(const StartNext& start_next, uint64_t slice_ns) {
    while (more_ && failure_.status == OCM_OK && under_way_.size() < 2) {
      ocm_op* op = nullptr;
      note(start_next(&op));
      if (op == nullptr) {
        more_ = false;
        break;
      }
      under_way_.push_back(op);
    }
    if (under_way_.empty()) return true;
    int status = OCM_OK;
    if (!wait_slice(under_way_.front(), slice_ns, status)) return false;
    note(status);
    (void)ocm_op_free(under_way_.front());
    under_way_.pop_front();
    return under_way_.empty() && (!more_ || failure_.status != OCM_OK);
  }
  void stop() { more_ = false; }
  const Failure& failure() const { return failure_; }

 private:
  void note(int status) {
    if (status < 0 && failure_.status == OCM_OK) failure_ = Failure::last(status);
  }

  SessionHandle& session_;
  std::shared_ptr<Buffers> buffers_;
  std::deque<ocm_op*> under_way_;
  bool more_ = true;
  Failure failure_;  // the first
};

}  // namespace

void check_interrupts(const Cancel* cancel) {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
  if (cancel != nullptr && cancel->cancelled()) {
    raise_status(OCM_CANCELLED, "the transfer was cancelled; what was under way has ended");
  }
}

void run_windows(SessionHandle& session, const StartNext& start_next, std::shared_ptr<Buffers> buffers,
                 const Cancel* cancel) {
  session.reap();
  Windows windows(session, std::move(buffers));
  const auto advance = [&](uint64_t slice_ns) {
    return without_gil([&] { return windows.advance(start_next, slice_ns); });
  };
  while (!advance(kSliceNs)) {
    if (PyErr_CheckSignals() != 0) {
      nb::python_error interrupt;
      windows.stop();
      (void)(advance(kSliceNs) || advance(kSliceNs));
      throw interrupt;
    }
    if (cancel != nullptr && cancel->cancelled()) windows.stop();
  }
  if (windows.failure().status != OCM_OK) raise_failure(windows.failure());
  if (cancel != nullptr && cancel->cancelled()) check_interrupts(cancel);
}

}  // namespace ocm::python
