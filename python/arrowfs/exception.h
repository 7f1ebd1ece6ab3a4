// The Python exception that a thread handles: what leaves a `with` block by one, and a `finally`, calls
// Close, and pyarrow tells a file system nothing else.
//
// Threads: any. One that Python does not know, such as Arrow's own, handles none and takes no GIL.
#pragma once

#include <Python.h>
#include <arrow/status.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "gil.h"

namespace arrow::py {
// Of arrow/python/common.h, which needs more of Python.h than the part that is the same for every release.
ARROW_EXPORT Status ConvertPyError(StatusCode code);
}  // namespace arrow::py

namespace ocm::arrowfs {

/// What a file that is being written asks at its end. Made when the file is opened.
///
/// An exception that was handled then does not end the file. It is marked with the number of the first file
/// that was opened under it; a reference to it would be a cycle through its traceback, and nobody would
/// collect that.
class HandledException {
 public:
  HandledException() {
    const Gil gil;
    Reference next(gil.handled());
    for (int i = 0; next && i < kChainMax; ++i) {
      if (mark_of(next.get()) == 0) mark(next.get());
      next.reset(PyException_GetContext(next.get()));
    }
  }

  /// The exception that is handled now, with a note about `path`, so that Python raises it again; OK if there
  /// is none, or only one from before the file.
  arrow::Status status(const std::string& path) const {
    const Gil gil;
    const Reference now(gil.handled());
    if (!now) return arrow::Status::OK();
    const uint64_t known_since = mark_of(now.get());
    if (known_since != 0 && known_since <= number_) return arrow::Status::OK();
    const std::string note =
        "ocm://" + path + " was closed while this exception was handled: nothing was published";
    const Reference text(PyUnicode_DecodeUTF8(note.data(), static_cast<Py_ssize_t>(note.size()), "replace"));
    if (text) Reference(PyObject_CallMethod(now.get(), "add_note", "O", text.get()));
    PyErr_Clear();
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(now.get())), now.get());
    return arrow::py::ConvertPyError(arrow::StatusCode::UnknownError);
  }

 private:
  static constexpr const char* kMark = "__ocm_file__";
  static constexpr int kChainMax = 1000;

  struct Release {
    void operator()(PyObject* object) const { Py_DECREF(object); }
  };
  using Reference = std::unique_ptr<PyObject, Release>;

  /// Held, if this is a thread of Python's.
  class Gil {
   public:
    Gil() : held_(Py_IsInitialized() != 0 && PyGILState_GetThisThreadState() != nullptr) {
      if (held_) gil_.emplace();
    }
    PyObject* handled() const { return held_ ? PyErr_GetHandledException() : nullptr; }

   private:
    bool held_;
    std::optional<python::GilTaken> gil_;
  };

  /// The number of the first file that was opened under the exception; 0: none was.
  static uint64_t mark_of(PyObject* exception) {
    const Reference name(PyUnicode_FromString(kMark));
    const Reference number(name ? PyObject_GenericGetAttr(exception, name.get()) : nullptr);
    const uint64_t mark = number ? PyLong_AsUnsignedLongLong(number.get()) : 0;
    if (PyErr_Occurred() == nullptr) return mark;
    PyErr_Clear();
    return 0;
  }
  void mark(PyObject* exception) const {
    const Reference name(PyUnicode_FromString(kMark));
    const Reference number(PyLong_FromUnsignedLongLong(number_));
    if (name && number) (void)PyObject_GenericSetAttr(exception, name.get(), number.get());
    PyErr_Clear();
  }

  static inline std::atomic<uint64_t> files_opened{0};
  const uint64_t number_ = ++files_opened;
};

}  // namespace ocm::arrowfs
