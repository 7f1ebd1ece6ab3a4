// Leaving the GIL and taking it, on threads that may outlive the interpreter.
//
// Before Python 3.14 a thread that takes the GIL when the interpreter ends is ended by pthread_exit(), which
// unwinds its stack: at a `noexcept` frame, such as nanobind's, that ends the whole process. Here such a thread
// stays where it is for ever, without the GIL, as it does by itself from 3.14 on.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

namespace ocm::python {

/// Runs `call`, which enters the interpreter, and returns what it returns, if the interpreter lets it return.
/// `call` owns nothing whose destructor needs the GIL. Libraries below it may: pyarrow ends the process by itself
/// (PyGILState_Release) when the interpreter ends within its RecordBatchReader over a Python generator.
template <class Call>
auto enter_python(Call call) {
  try {
    return call();
  } catch (const abi::__forced_unwind&) {
    for (;;) ::pause();
  }
}

/// Held while this lives. Any thread.
class GilTaken {
 public:
  GilTaken() : state_(enter_python([] { return PyGILState_Ensure(); })) {}
  ~GilTaken() { PyGILState_Release(state_); }
  GilTaken(const GilTaken&) = delete;
  GilTaken& operator=(const GilTaken&) = delete;

 private:
  PyGILState_STATE state_;
};

/// Not held while this lives. A thread that holds it.
class GilLeft {
 public:
  GilLeft() : state_(PyEval_SaveThread()) {}
  ~GilLeft() {
    enter_python([this] { PyEval_RestoreThread(state_); });
  }
  GilLeft(const GilLeft&) = delete;
  GilLeft& operator=(const GilLeft&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace ocm::python
