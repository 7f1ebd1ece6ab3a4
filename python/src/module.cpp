// oncilla._core: the C ABI for Python.
#include <nanobind/nanobind.h>

#include <cstdlib>

#include "core.h"
#include "operation.h"

namespace nb = nanobind;

NB_MODULE(_core, module) {
  // Objects that live when the interpreter ends are the system's to clean up; the tests want to know of them.
  nb::set_leak_warnings(std::getenv("ONCILLA_LEAK_WARNINGS") != nullptr);
  module.def("status_name", ocm_status_name, nb::arg("status"),
             "The short name of a status, such as POOL_FULL.");
  module.def("status_text", ocm_strerror, nb::arg("status"), "The fixed sentence of a status.");
  module.def("version", ocm_version, "MAJOR.MINOR.PATCH of the library that is loaded.");
  nb::dict fabrics;
#define OCM_LINE(CONSTANT, Name, name, number, offered) fabrics[#name] = number;
  OCM_FABRICS(OCM_LINE)
#undef OCM_LINE
  module.attr("FABRICS") = fabrics;  // their numbers, by name
  ocm::python::watch_interrupts();
  ocm::python::register_wait(module);
  ocm::python::register_operation(module);
  ocm::python::register_session(module);
  ocm::python::register_allocation(module);
  ocm::python::register_table(module);
}
