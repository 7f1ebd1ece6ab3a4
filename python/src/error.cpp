// Statuses of the C library as exceptions: the tree is in oncilla/errors.py.
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

/// Of this thread's check_interruptible(), while it runs: what a handler raised.
thread_local std::optional<nb::python_error>* raised = nullptr;

int ask_python(void*) {
  if (raised == nullptr) return 0;
  if (raised->has_value()) return 1;
  const GilTaken gil;
  if (PyErr_CheckSignals() == 0) return 0;
  raised->emplace();
  return 1;
}

}  // namespace

void watch_interrupts() { ocm_interrupt_check(ask_python, nullptr); }

void check_interruptible(const std::function<int()>& call) {
  std::optional<nb::python_error> interrupt;
  std::optional<nb::python_error>* const outer =
      std::exchange(raised, &interrupt);  // a handler may call, too
  const int status = without_gil(call);
  raised = outer;
  if (!interrupt) return check(status);
  if (status < 0) throw nb::python_error(std::move(*interrupt));
  PyErr_SetInterrupt();  // the answer came after all: the handler runs once the caller has it
}

const char* Text::c_str() const {
  if (bytes_.find('\0') != std::string::npos) {
    raise_status(OCM_INVALID_ARGUMENT, "a name has no '\\0' in it");
  }
  return bytes_.c_str();
}

}  // namespace ocm::python
