// Strings of Python as the C library takes them.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace ocm::python {

/// A str in UTF-8. A lone surrogate in it becomes three bytes that are not UTF-8: the library refuses them where
/// they matter, as it does for any program.
class Text {
 public:
  Text() = default;
  explicit Text(std::string bytes) : bytes_(std::move(bytes)) {}
  /// Raises InvalidArgument where C would see its beginning only.
  const char* c_str() const;

 private:
  std::string bytes_;
};

}  // namespace ocm::python

namespace nanobind::detail {

template <>
struct type_caster<ocm::python::Text> {
  NB_TYPE_CASTER(ocm::python::Text, const_name("str"))

  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    if (!PyUnicode_Check(source.ptr())) return false;
    const object bytes = steal(PyUnicode_AsEncodedString(source.ptr(), "utf-8", "surrogatepass"));
    if (!bytes.is_valid()) {  // out of memory
      PyErr_Clear();
      return false;
    }
    value = ocm::python::Text(
        std::string(PyBytes_AsString(bytes.ptr()), static_cast<size_t>(PyBytes_Size(bytes.ptr()))));
    return true;
  }
};

}  // namespace nanobind::detail
