// Statuses of the C library as exceptions: the tree is in oncilla/errors.py.
#include "core.h"

namespace ocm::python {

void raise_status(int status, const std::string& text) {
  // It may be cut within a character, or tell of a path that is not UTF-8.
  const nb::object readable =
      nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
  if (!readable.is_valid()) throw nb::python_error();
  const nb::object errors = nb::steal(enter_python([] { return PyImport_ImportModule("oncilla.errors"); }));
  if (!errors.is_valid()) throw nb::python_error();
  const nb::object made = nb::steal(enter_python(
      [&] { return PyObject_CallMethod(errors.ptr(), "from_status", "iO", status, readable.ptr()); }));
  if (!made.is_valid()) throw nb::python_error();
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
  throw nb::python_error();
}

void raise_status(int status) { raise_status(status, ocm_last_error()); }

const char* Text::c_str() const {
  if (bytes_.find('\0') != std::string::npos) {
    raise_status(OCM_INVALID_ARGUMENT, "a name has no '\\0' in it");
  }
  return bytes_.c_str();
}

}  // namespace ocm::python
