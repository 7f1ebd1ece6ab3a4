#include "buffer.h"

#include "core.h"

namespace ocm::python {
namespace {

/// The pending BufferError or ValueError becomes the cause of an InvalidArgument; a TypeError stays.
[[noreturn]] void raise_unusable(const char* text) {
  if (!PyErr_ExceptionMatches(PyExc_BufferError) && !PyErr_ExceptionMatches(PyExc_ValueError)) {
    throw nb::python_error();
  }
  nb::python_error cause;
  const std::string why = cause.what();
  raise_status(OCM_INVALID_ARGUMENT, std::string(text) + " (" + why.substr(0, why.find('\n')) + ")");
}

}  // namespace

Buffer Buffer::readable(nb::handle object) {
  Buffer buffer;
  if (PyObject_GetBuffer(object.ptr(), &buffer.view_, PyBUF_SIMPLE) != 0) {
    buffer.view_.obj = nullptr;
    raise_unusable("the source is not a C-contiguous buffer: pass numpy.ascontiguousarray(source)");
  }
  buffer.data_ = static_cast<std::byte*>(buffer.view_.buf);
  return buffer;
}

Buffer Buffer::writable(nb::handle object) {
  Buffer buffer;
  if (PyObject_GetBuffer(object.ptr(), &buffer.view_, PyBUF_WRITABLE) != 0) {
    buffer.view_.obj = nullptr;
    raise_unusable(
        "the target is not a writable C-contiguous buffer: pass a bytearray or a numpy array of its own");
  }
  buffer.data_ = static_cast<std::byte*>(buffer.view_.buf);
  return buffer;
}

Buffer Buffer::fresh_bytes(size_t bytes) {
  Buffer buffer;
  buffer.object_ = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes)));
  if (!buffer.object_.is_valid()) throw nb::python_error();
  buffer.view_.len = static_cast<Py_ssize_t>(bytes);
  buffer.data_ = reinterpret_cast<std::byte*>(PyBytes_AsString(buffer.object_.ptr()));
  return buffer;
}

Buffer::~Buffer() {
  if (view_.obj != nullptr) PyBuffer_Release(&view_);
}

}  // namespace ocm::python
