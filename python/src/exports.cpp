// The buffer protocol of allocations whose bytes lie in one piece on this host.
//
// An exported buffer holds the handle: the mapping stays while anyone looks at it.
#include "allocation.h"

namespace ocm::python {
namespace {

using Held = std::shared_ptr<AllocationHandle>;

int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  view->obj = nullptr;
  if (!nb::inst_ready(self)) {
    PyErr_SetString(PyExc_BufferError, "the allocation was not made: its __init__ did not run to its end");
    return -1;
  }
  try {
    auto& allocation = *nb::inst_ptr<Allocation>(self);
    auto held = std::make_unique<Held>(allocation.handle());
    AllocationHandle& handle = **held;
    ocm_allocation_info info = OCM_ALLOCATION_INFO_INIT;
    check(ocm_allocation_query(handle.get(), &info));
    void* pointer = nullptr;
    Interruptible waits;
    const int status =
        without_gil([&] { return ocm_allocation_map(handle.get(), 0, handle.bytes(), &pointer); });
    if (status == OCM_UNSUPPORTED) {
      Failure why = Failure::last(status);
      why.text =
          "no pointer to all of it: " + why.text + "; use get(), get_into() or read_array(), which copy";
      raise_failure(why);
    }
    waits.check(status);
    const int read_only = info.access == OCM_ACCESS_READ_WRITE ? 0 : 1;
    if (PyBuffer_FillInfo(view, self, pointer, static_cast<Py_ssize_t>(handle.bytes()), read_only, flags) !=
        0) {
      return -1;
    }
    view->internal = held.release();
    ++allocation.exports;
    return 0;
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return -1;
}

void release_buffer(PyObject* self, Py_buffer* view) noexcept {
  --nb::inst_ptr<Allocation>(self)->exports;
  Held* held = static_cast<Held*>(view->internal);
  without_gil([&] { delete held; });
}

}  // namespace

PyType_Slot allocation_slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
    {0, nullptr},
};

}  // namespace ocm::python
