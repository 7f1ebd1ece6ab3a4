// Statuses of the C library as exceptions: the tree is in oncilla/errors.py.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cassert>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "core.h"

namespace ocm::python {

namespace {

/// It may be cut within a character, or tell of a path that is not UTF-8.
nb::object readable(const std::string& text) {
  nb::object out =
      nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
  if (!out.is_valid()) throw nb::python_error();
  return out;
}

}  // namespace

Failure Failure::last(int status) {
  Failure out{status, ocm_last_error(), {}, {}, OCM_SUBJECT_NONE};
  ocm_error_info info = OCM_ERROR_INFO_INIT;
  if (ocm_last_error_info(&info) != OCM_OK || info.status != status) return out;
  out.node = info.node;
  out.subject = info.subject;
  out.subject_kind = info.subject_kind;
  return out;
}

nb::tuple arguments_of(const Failure& failure) {
  return nb::make_tuple(failure.status, readable(failure.text), readable(failure.node),
                        readable(failure.subject), failure.subject_kind);
}

void raise_failure(const Failure& failure) {
  const nb::object errors = nb::steal(enter_python([] { return PyImport_ImportModule("oncilla.errors"); }));
  if (!errors.is_valid()) throw nb::python_error();
  const nb::object from_status = errors.attr("from_status");
  const nb::tuple arguments = arguments_of(failure);
  const nb::object made =
      nb::steal(enter_python([&] { return PyObject_CallObject(from_status.ptr(), arguments.ptr()); }));
  if (!made.is_valid()) throw nb::python_error();
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
  throw nb::python_error();
}

void raise_status(int status, const std::string& text) {
  raise_failure({status, text, {}, {}, OCM_SUBJECT_NONE});
}
void raise_status(int status) { raise_failure(Failure::last(status)); }

namespace {

/// The innermost of this thread.
thread_local Interruptible* innermost = nullptr;

// Of the module `_signal`, whose functions are not Python code, which would run the handlers.
PyObject* get_handler = nullptr;
PyObject* default_handler = nullptr;

/// When a handler last ended a wait, or would have.
std::atomic<uint64_t> interrupted_ns{0};
constexpr uint64_t kJustInterruptedNs = 10'000'000'000;

uint64_t now_ns() {
  return static_cast<uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

/// Whose signals Python handles: as it was when the module was loaded, or, in a child, the one that forked.
pid_t main_thread = 0;
bool is_main_thread() {
  const pid_t here = ::gettid();
  return here == ::getpid() || here == main_thread;
}

/// Ctrl-C was pressed, and will raise KeyboardInterrupt: it still will. No code of the program runs in here.
bool ctrl_c_waits() {
  if (get_handler == nullptr) return false;
  const nb::object now = nb::steal(PyObject_CallFunction(get_handler, "i", SIGINT));
  if (!now.is_valid()) PyErr_Clear();
  if (now.ptr() != default_handler || PyOS_InterruptOccurred() == 0) return false;
  PyErr_SetInterrupt();
  return true;
}

/// Raises it in the main thread, where handlers run, as soon as Python code does.
void raise_later(nb::python_error&& error) {
  auto* kept = new nb::python_error(std::move(error));
  const auto raise = [](void* one) {
    const std::unique_ptr<nb::python_error> mine(static_cast<nb::python_error*>(one));
    mine->restore();
    return -1;
  };
  if (Py_AddPendingCall(raise, kept) != 0) PyErr_SetInterrupt();  // as good as it can be; `kept` stays behind
}

}  // namespace

int ask_python(int may_call, void*) {
  Interruptible* const waits = innermost;
  if (waits == nullptr) return 0;
  if (waits->raised() || waits->ends_waits_) return 1;
  for (const std::atomic<bool>* const set : waits->ends_waits_when_) {
    if (set->load()) return 1;
  }
  // Another thread's handlers do not run there; and it might stay here for ever, with the library's locks, where the
  // interpreter ends.
  if (!is_main_thread() || !Py_IsInitialized()) return 0;
  const GilTaken gil;
  if (may_call == 0) return ctrl_c_waits() ? 1 : 0;
  if (PyErr_CheckSignals() == 0) return 0;
  waits->raised_.emplace();
  return 1;
}

void watch_interrupts() {
  const nb::module_ signals = nb::module_::import_("_signal");
  get_handler = nb::object(signals.attr("getsignal")).release().ptr();
  default_handler = nb::object(signals.attr("default_int_handler")).release().ptr();
  const nb::object thread = nb::module_::import_("threading").attr("main_thread")();
  main_thread = nb::cast<pid_t>(thread.attr("native_id"));
  ocm_interrupt_check(ask_python, nullptr);
}

Interruptible::Interruptible() : outer_(std::exchange(innermost, this)) {}

Interruptible::~Interruptible() {
  assert(innermost == this);
  innermost = outer_;
  if (!raised_) return;
  interrupted_ns.store(now_ns());
  raise_later(std::move(*raised_));
}

void Interruptible::end_waits_after_interrupt() {
  const uint64_t at = interrupted_ns.load();
  if (at != 0 && now_ns() - at < kJustInterruptedNs) end_waits();
}

void Interruptible::check_signals() {
  if (!raised_ && PyErr_CheckSignals() != 0) raised_.emplace();
  if (!raised_) return;
  interrupted_ns.store(now_ns());
  nb::python_error error = std::move(*raised_);
  raised_.reset();
  throw error;
}

void Interruptible::check(int status) {
  if (status >= 0) return;
  const Failure failure = Failure::last(status);
  check_signals();
  raise_failure(failure);
}

const char* Text::c_str() const {
  if (bytes_.find('\0') != std::string::npos) {
    raise_status(OCM_INVALID_ARGUMENT, "a name has no '\\0' in it");
  }
  return bytes_.c_str();
}

}  // namespace ocm::python
