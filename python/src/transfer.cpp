// Put, get, vectored, strided and copy for Python.
//
// What lies in one piece on this host is copied at once, in windows; everything else goes as operations
// (wait.h).
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <algorithm>

#include "allocation.h"

namespace ocm::python {
namespace {

constexpr uint64_t kKeepGilBytes = 4096;  // a copy that takes less than leaving the GIL does

struct Range {
  uint64_t offset;
  uint64_t bytes;
};

/// Checks a range, so that no memory is taken for a wrong one. Negative numbers never get here.
void check_range(const AllocationHandle& handle, uint64_t offset, uint64_t bytes) {
  if (offset <= handle.bytes() && bytes <= handle.bytes() - offset) return;
  raise_status(OCM_OUT_OF_RANGE, "bytes [" + std::to_string(offset) + ", " + std::to_string(offset) + " + " +
                                     std::to_string(bytes) + ") leave the allocation of " +
                                     std::to_string(handle.bytes()) + " bytes");
}

int move_now(AllocationHandle& handle, bool put, uint64_t offset, std::byte* data, uint64_t bytes) {
  return put ? ocm_put(handle.get(), offset, data, bytes) : ocm_get(handle.get(), offset, data, bytes);
}

/// Asks the daemon where it is the first to ask.
bool is_direct(AllocationHandle& handle) {
  if (handle.known_direct()) return true;
  Interruptible waits;
  const bool direct = without_gil([&] { return handle.direct(); });
  if (!direct) waits.check_signals();
  return direct;
}

/// Bytes that are copied at once, in windows between which signals are seen.
void move_direct(AllocationHandle& handle, bool put, uint64_t offset, std::byte* data, uint64_t bytes,
                 const Cancel* cancel) {
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t window = std::min(bytes - done, kWindowBytes);
    check_interruptible([&] { return move_now(handle, put, offset + done, data + done, window); });
    done += window;
    if (done < bytes) check_interrupts(cancel);
  }
}

void begins_at(Plan& plan, const std::shared_ptr<AllocationHandle>& handle, uint64_t offset, uint64_t bytes) {
  plan.near = handle;
  plan.near_offset = offset;
  plan.near_bytes = bytes;
}

/// `bytes` between the allocation at `offset` and the one buffer.
Plan plan_move(const std::shared_ptr<AllocationHandle>& handle, bool put, uint64_t offset, Buffer buffer) {
  Plan plan;
  plan.session = handle->shared_session();
  plan.ends = {handle->get()};
  plan.bytes = buffer.bytes();
  check_range(*handle, offset, plan.bytes);
  begins_at(plan, handle, offset, plan.bytes);
  std::byte* data = buffer.data();
  plan.buffers->push_back(std::move(buffer));
  plan.start_next = [=, done = uint64_t{0}, bytes = plan.bytes](uint64_t window_bytes, ocm_op** op) mutable {
    if (done == bytes) return static_cast<int>(OCM_OK);
    const uint64_t window = std::min(bytes - done, window_bytes);
    const uint64_t at = std::exchange(done, done + window);
    return put ? ocm_put_start(handle->get(), offset + at, data + at, window, op)
               : ocm_get_start(handle->get(), offset + at, data + at, window, op);
  };
  return plan;
}

uint64_t run_for_bytes(Plan plan, const Cancel* cancel) {
  const uint64_t bytes = plan.bytes;
  (void)run_windows(std::move(plan), cancel);
  return bytes;
}

/// Moves the bytes of the buffer.
void move(const std::shared_ptr<AllocationHandle>& handle, bool put, uint64_t offset, Buffer buffer,
          const Cancel* cancel) {
  const uint64_t bytes = buffer.bytes();
  check_range(*handle, offset, bytes);
  std::byte* data = buffer.data();
  if (handle->known_direct() && bytes <= kKeepGilBytes)
    return check(move_now(*handle, put, offset, data, bytes));
  if (is_direct(*handle)) return move_direct(*handle, put, offset, data, bytes, cancel);
  (void)run_windows(plan_move(handle, put, offset, std::move(buffer)), cancel);
}

/// Room for `bytes` of the allocation; None: to its end.
Buffer room_for(const AllocationHandle& handle, uint64_t offset, std::optional<uint64_t> bytes) {
  check_range(handle, offset, bytes.value_or(0));
  return Buffer::fresh_bytes(bytes.value_or(handle.bytes() - offset));
}

nb::bytes get(const Allocation& self, uint64_t offset, std::optional<uint64_t> bytes, const Cancel* cancel) {
  const auto handle = self.handle();
  Buffer target = room_for(*handle, offset, bytes);
  auto made = nb::borrow<nb::bytes>(target.object());
  move(handle, false, offset, std::move(target), cancel);
  return made;
}

Plan plan_get(const Allocation& self, uint64_t offset, std::optional<uint64_t> bytes) {
  const auto handle = self.handle();
  Buffer target = room_for(*handle, offset, bytes);
  nb::object made = target.object();
  Plan plan = plan_move(handle, false, offset, std::move(target));
  plan.result = std::move(made);
  return plan;
}

uint64_t get_into(const Allocation& self, nb::handle buffer, uint64_t offset, const Cancel* cancel) {
  Buffer target = Buffer::writable(buffer);
  const uint64_t bytes = target.bytes();
  move(self.handle(), false, offset, std::move(target), cancel);
  return bytes;
}

uint64_t put_from(const Allocation& self, nb::handle buffer, uint64_t offset, const Cancel* cancel) {
  Buffer source = Buffer::readable(buffer);
  const uint64_t bytes = source.bytes();
  move(self.handle(), true, offset, std::move(source), cancel);
  return bytes;
}

Plan plan_move_of(const Allocation& self, bool put, nb::handle buffer, uint64_t offset) {
  Buffer moved = put ? Buffer::readable(buffer) : Buffer::writable(buffer);
  return plan_move(self.handle(), put, offset, std::move(moved));
}

/// The next window out of a list of segments: whole ones, or a part of one that is larger.
class SegmentWindows {
 public:
  explicit SegmentWindows(std::vector<ocm_segment> segments) : segments_(std::move(segments)) {}
  /// Empty when there is none.
  const std::vector<ocm_segment>& next(uint64_t window_bytes) {
    window_.clear();
    uint64_t room = window_bytes;
    const size_t segments_max = window_bytes == kWindowBytes ? kSegmentsMax : segments_.size();
    while (next_ < segments_.size() && room > 0 && window_.size() < segments_max) {
      ocm_segment& rest = segments_[next_];
      const uint64_t bytes = std::min(rest.bytes, room);
      if (bytes > 0) window_.push_back({rest.offset, rest.pointer, bytes});
      room -= bytes;
      rest.offset += bytes;
      rest.pointer = static_cast<std::byte*>(rest.pointer) + bytes;
      rest.bytes -= bytes;
      if (rest.bytes == 0) ++next_;
    }
    return window_;
  }

 private:
  static constexpr size_t kSegmentsMax = 65536;
  std::vector<ocm_segment> segments_;
  std::vector<ocm_segment> window_;
  size_t next_ = 0;
};

/// `pieces`: an iterable of (offset, buffer).
Plan plan_vectored(const Allocation& self, bool put, nb::handle pieces) {
  const auto handle = self.handle();
  Plan plan;
  plan.session = handle->shared_session();
  plan.ends = {handle->get()};
  std::vector<ocm_segment> segments;
  uint64_t first = UINT64_MAX, last = 0;
  for (nb::handle piece : nb::iter(pieces)) {
    std::pair<uint64_t, nb::object> pair;
    if (!nb::try_cast(piece, pair))
      throw nb::type_error("a piece is a pair of an offset (>= 0) and a buffer");
    const auto& [offset, object] = pair;
    plan.buffers->push_back(put ? Buffer::readable(object) : Buffer::writable(object));
    const Buffer& buffer = plan.buffers->back();
    check_range(*handle, offset, buffer.bytes());
    segments.push_back({offset, buffer.data(), buffer.bytes()});
    plan.bytes += buffer.bytes();
    first = std::min(first, offset);
    last = std::max(last, offset + buffer.bytes());
  }
  begins_at(plan, handle, std::min(first, last), last - std::min(first, last));
  plan.start_next = [handle, put, windows = SegmentWindows(std::move(segments))](uint64_t window_bytes,
                                                                                 ocm_op** op) mutable {
    const std::vector<ocm_segment>& window = windows.next(window_bytes);
    if (window.empty()) return static_cast<int>(OCM_OK);
    return put ? ocm_putv_start(handle->get(), window.data(), window.size(), op)
               : ocm_getv_start(handle->get(), window.data(), window.size(), op);
  };
  return plan;
}

/// Rows between the allocation and packed rows of a buffer.
struct Rows {
  uint64_t offset, stride, row_bytes;
  uint64_t count = 0;
  uint64_t span = 0;  // from `offset` to the end of the last

  uint64_t in_window(uint64_t window_bytes) const {
    return window_bytes == kWindowBytes ? std::clamp<uint64_t>(window_bytes / row_bytes, 1, 65536) : count;
  }
};

Rows rows_of(const Buffer& buffer, uint64_t offset, uint64_t stride, uint64_t row_bytes) {
  Rows rows{offset, stride, row_bytes};
  if (row_bytes == 0 || buffer.bytes() % row_bytes != 0) {
    raise_status(OCM_INVALID_ARGUMENT, "the buffer's length is not a multiple of `row_bytes`");
  }
  rows.count = buffer.bytes() / row_bytes;
  uint64_t last = 0;
  if (rows.count > 0 &&
      (__builtin_mul_overflow(stride, rows.count - 1, &last) ||
       __builtin_add_overflow(last, row_bytes, &rows.span) || __builtin_add_overflow(last, offset, &last)))
    raise_status(OCM_OUT_OF_RANGE, "the rows overflow 64 bits");
  return rows;
}

Plan plan_strided(const std::shared_ptr<AllocationHandle>& handle, bool put, const Rows& rows,
                  Buffer buffer) {
  Plan plan;
  plan.session = handle->shared_session();
  plan.ends = {handle->get()};
  plan.bytes = buffer.bytes();
  begins_at(plan, handle, rows.offset, rows.span);
  std::byte* const data = buffer.data();
  plan.buffers->push_back(std::move(buffer));
  plan.start_next = [=, row = uint64_t{0}](uint64_t window_bytes, ocm_op** op) mutable {
    const uint64_t count = std::min(rows.in_window(window_bytes), rows.count - row);
    if (count == 0) return static_cast<int>(OCM_OK);
    const uint64_t first = std::exchange(row, row + count);
    const uint64_t at = rows.offset + first * rows.stride, bytes = rows.row_bytes;
    std::byte* const packed = data + first * bytes;
    return put ? ocm_put_strided_start(handle->get(), at, rows.stride, packed, bytes, bytes, count, op)
               : ocm_get_strided_start(handle->get(), at, rows.stride, packed, bytes, bytes, count, op);
  };
  return plan;
}

Plan plan_strided_of(const Allocation& self, bool put, nb::handle object, uint64_t offset, uint64_t stride,
                     uint64_t row_bytes) {
  Buffer buffer = put ? Buffer::readable(object) : Buffer::writable(object);
  const Rows rows = rows_of(buffer, offset, stride, row_bytes);
  return plan_strided(self.handle(), put, rows, std::move(buffer));
}

void move_strided(const Allocation& self, bool put, nb::handle object, uint64_t offset, uint64_t stride,
                  uint64_t row_bytes) {
  const auto handle = self.handle();
  Buffer buffer = put ? Buffer::readable(object) : Buffer::writable(object);
  const Rows all = rows_of(buffer, offset, stride, row_bytes);
  const uint64_t rows = all.count, rows_max = all.in_window(kWindowBytes);
  if (is_direct(*handle)) {
    for (uint64_t row = 0; row < rows; row += rows_max) {
      const uint64_t count = std::min(rows_max, rows - row), at = offset + row * stride;
      std::byte* const packed = buffer.data() + row * row_bytes;
      check_interruptible([&] {
        return put ? ocm_put_strided(handle->get(), at, stride, packed, row_bytes, row_bytes, count)
                   : ocm_get_strided(handle->get(), at, stride, packed, row_bytes, row_bytes, count);
      });
      if (row + count < rows) check_interrupts(nullptr);
    }
    return;
  }
  (void)run_windows(plan_strided(handle, put, all, std::move(buffer)), nullptr);
}

/// One end of a copy.
struct End {
  std::shared_ptr<AllocationHandle> handle;  // null: a buffer of this program
  std::byte* data = nullptr;
  uint64_t offset = 0;
  ocm_place place(uint64_t at) const {
    return handle != nullptr ? ocm_place_in(handle->get(), offset + at) : ocm_place_at(data + at);
  }
};

/// `object`: an allocation, or a buffer. `room`: the bytes from `offset` to its end.
End read_end(nb::handle object, uint64_t offset, bool target, Buffers& buffers, uint64_t& room) {
  End end;
  end.offset = offset;
  if (nb::isinstance<Allocation>(object)) {
    end.handle = nb::cast<Allocation&>(object).handle();
    check_range(*end.handle, offset, 0);
    room = end.handle->bytes() - offset;
    return end;
  }
  buffers.push_back(target ? Buffer::writable(object) : Buffer::readable(object));
  if (offset > buffers.back().bytes()) raise_status(OCM_OUT_OF_RANGE, "the offset leaves the buffer");
  end.data = buffers.back().data() + offset;
  room = buffers.back().bytes() - offset;
  return end;
}

Plan plan_copy(nb::handle target, uint64_t target_offset, nb::handle source, uint64_t source_offset,
               std::optional<uint64_t> bytes) {
  Plan plan;
  uint64_t target_room = 0;
  uint64_t source_room = 0;
  const End to = read_end(target, target_offset, true, *plan.buffers, target_room);
  const End from = read_end(source, source_offset, false, *plan.buffers, source_room);
  if (to.handle == nullptr && from.handle == nullptr) {
    raise_status(OCM_INVALID_ARGUMENT, "neither end is an allocation");
  }
  const uint64_t wanted = bytes.value_or(source_room);
  if (wanted > source_room || wanted > target_room) {
    raise_status(OCM_OUT_OF_RANGE, std::to_string(wanted) + " bytes are to be copied, the source has " +
                                       std::to_string(source_room) + ", the target room for " +
                                       std::to_string(target_room));
  }
  // Windows of a copy of overlapping ranges would read what was written: the library refuses the whole.
  if (to.handle == from.handle && target_offset < source_offset + wanted &&
      source_offset < target_offset + wanted && wanted > 0) {
    raise_status(OCM_INVALID_ARGUMENT, "the ranges overlap");
  }
  plan.session = (to.handle != nullptr ? to : from).handle->shared_session();
  for (const End& end : {to, from}) {
    if (end.handle != nullptr) plan.ends.push_back(end.handle->get());
  }
  plan.bytes = wanted;
  plan.start_next = [to, from, wanted, done = uint64_t{0}](uint64_t window_bytes, ocm_op** op) mutable {
    if (done == wanted) return static_cast<int>(OCM_OK);
    const uint64_t window = std::min(wanted - done, window_bytes);
    const uint64_t at = std::exchange(done, done + window);
    return ocm_place_copy_start(to.place(at), from.place(at), window, op);
  };
  return plan;
}

}  // namespace

void register_transfer(nb::class_<Allocation>& allocation, nb::module_& module) {
  const auto no_cancel = nb::arg("cancel").none() = nb::none();
  allocation
      .def("get", get, nb::arg("offset") = 0, nb::arg("nbytes").none() = nb::none(), nb::kw_only(), no_cancel,
           "Reads [offset, offset + nbytes) as bytes; nbytes None: to the end.\n\n"
           "Raises OutOfRange, Revoked (removed meanwhile), PeerLost, Lost.")
      .def("get_into", get_into, nb::arg("buffer"), nb::arg("offset") = 0, nb::kw_only(), no_cancel,
           "Fills the whole writable C-contiguous `buffer` from `offset`. Returns its length in bytes.\n\n"
           "On an error its bytes are unspecified. Raises as get(), and InvalidArgument for the buffer.")
      .def("put_from", put_from, nb::arg("buffer"), nb::arg("offset") = 0, nb::kw_only(), no_cancel,
           "Writes the whole C-contiguous `buffer` at `offset`. Returns its length in bytes.\n\n"
           "When it returns, a later get by anyone sees the bytes.\n"
           "Raises OutOfRange, Permission (attached for reading), Revoked, PeerLost.")
      .def(
          "getv",
          [](const Allocation& self, nb::handle pieces, const Cancel* cancel) {
            return run_for_bytes(plan_vectored(self, false, pieces), cancel);
          },
          nb::arg("pieces"), nb::kw_only(), no_cancel,
          "Vectored get: fills each writable buffer of the (offset, buffer) pairs. Returns the bytes "
          "moved.\n\n"
          "One window of operations for all of them. On an error any of them may have been filled.")
      .def(
          "putv",
          [](const Allocation& self, nb::handle pieces, const Cancel* cancel) {
            return run_for_bytes(plan_vectored(self, true, pieces), cancel);
          },
          nb::arg("pieces"), nb::kw_only(), no_cancel,
          "Vectored put: writes each buffer of the (offset, buffer) pairs. Returns the bytes moved.\n\n"
          "On an error any of them may have been written.")
      .def(
          "get_strided",
          [](const Allocation& self, nb::handle buffer, uint64_t offset, uint64_t stride,
             uint64_t row_bytes) { move_strided(self, false, buffer, offset, stride, row_bytes); },
          nb::arg("buffer"), nb::arg("offset"), nb::arg("stride"), nb::arg("row_bytes"),
          "Fills `buffer` with rows of `row_bytes` that lie `stride` bytes apart from `offset` on.")
      .def(
          "put_strided",
          [](const Allocation& self, nb::handle buffer, uint64_t offset, uint64_t stride,
             uint64_t row_bytes) { move_strided(self, true, buffer, offset, stride, row_bytes); },
          nb::arg("buffer"), nb::arg("offset"), nb::arg("stride"), nb::arg("row_bytes"),
          "Writes the packed rows of `buffer`, `row_bytes` each, `stride` bytes apart from `offset` on.");
  // Of `start_get()` and `aget()`, and so on: checked, and not begun.
  allocation.def("_plan_get", plan_get, nb::arg("offset"), nb::arg("nbytes").none())
      .def(
          "_plan_get_into",
          [](const Allocation& self, nb::handle buffer, uint64_t offset) {
            return plan_move_of(self, false, buffer, offset);
          },
          nb::arg("buffer"), nb::arg("offset"))
      .def(
          "_plan_put_from",
          [](const Allocation& self, nb::handle buffer, uint64_t offset) {
            return plan_move_of(self, true, buffer, offset);
          },
          nb::arg("buffer"), nb::arg("offset"))
      .def(
          "_plan_getv",
          [](const Allocation& self, nb::handle pieces) { return plan_vectored(self, false, pieces); },
          nb::arg("pieces"))
      .def(
          "_plan_putv",
          [](const Allocation& self, nb::handle pieces) { return plan_vectored(self, true, pieces); },
          nb::arg("pieces"))
      .def(
          "_plan_get_strided",
          [](const Allocation& self, nb::handle buffer, uint64_t offset, uint64_t stride,
             uint64_t row_bytes) { return plan_strided_of(self, false, buffer, offset, stride, row_bytes); },
          nb::arg("buffer"), nb::arg("offset"), nb::arg("stride"), nb::arg("row_bytes"))
      .def(
          "_plan_put_strided",
          [](const Allocation& self, nb::handle buffer, uint64_t offset, uint64_t stride,
             uint64_t row_bytes) { return plan_strided_of(self, true, buffer, offset, stride, row_bytes); },
          nb::arg("buffer"), nb::arg("offset"), nb::arg("stride"), nb::arg("row_bytes"));
  module.def(
      "copy",
      [](nb::handle target, uint64_t target_offset, nb::handle source, uint64_t source_offset,
         std::optional<uint64_t> bytes, const Cancel* cancel) {
        return run_for_bytes(plan_copy(target, target_offset, source, source_offset, bytes), cancel);
      },
      nb::arg("target"), nb::arg("target_offset"), nb::arg("source"), nb::arg("source_offset"),
      nb::arg("nbytes").none(), nb::kw_only(), no_cancel);
  module.def(
      "plan_copy",
      [](nb::handle target, uint64_t target_offset, nb::handle source, uint64_t source_offset,
         std::optional<uint64_t> bytes) {
        return plan_copy(target, target_offset, source, source_offset, bytes);
      },
      nb::arg("target"), nb::arg("target_offset"), nb::arg("source"), nb::arg("source_offset"),
      nb::arg("nbytes").none());
}

}  // namespace ocm::python
