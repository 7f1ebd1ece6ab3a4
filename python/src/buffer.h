// Memory of Python objects that the C library reads or writes: any C-contiguous buffer.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <vector>

namespace ocm::python {

namespace nb = nanobind;

/// An exported buffer, held until destruction, which needs the GIL.
class Buffer {
 public:
  /// Raises InvalidArgument for what is not contiguous, TypeError for what is no buffer.
  static Buffer readable(nb::handle object);
  /// The same; a read-only one raises InvalidArgument too.
  static Buffer writable(nb::handle object);
  /// A fresh bytes object that nobody else has seen yet; `object()` is it. Raises MemoryError.
  static Buffer fresh_bytes(size_t bytes);

  Buffer(Buffer&& other) noexcept
      : view_(other.view_), object_(std::move(other.object_)), data_(other.data_) {
    other.view_.obj = nullptr;
  }
  Buffer& operator=(Buffer&&) = delete;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  std::byte* data() const { return data_; }
  size_t bytes() const { return static_cast<size_t>(view_.len); }
  nb::object object() const { return object_; }

 private:
  Buffer() = default;
  Py_buffer view_{};
  nb::object object_;
  std::byte* data_ = nullptr;
};

/// What an operation reads and writes.
struct Buffers : std::vector<Buffer> {
  uint64_t word = 0;  // of an atomic: what it was before; of a wait: what it was at its end
};

}  // namespace ocm::python
