// Statuses of the C library as exceptions: the tree is in oncilla/errors.py.
#include "core.h"

namespace ocm::python {

void raise_status(int status, const std::string& text) {
  const nb::object made = nb::module_::import_("oncilla.errors").attr("from_status")(status, text.c_str());
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
  throw nb::python_error();
}

void raise_status(int status) { raise_status(status, ocm_last_error()); }

}  // namespace ocm::python
