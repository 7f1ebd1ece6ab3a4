// Put, get, copy, their strided, vectored and asynchronous forms, and fences, through the C ABI.
#include "client/transfer.h"

#include <cstring>

#include "capi/objects.h"
#include "capi/start.h"
#include "client/big_copy.h"
#include "os/interrupt.h"

namespace ocm::capi {
namespace {

using client::End;
using client::Run;
using client::Runs;

static_assert(sizeof(client::Segment) == sizeof(ocm_segment) &&
              offsetof(client::Segment, pointer) == offsetof(ocm_segment, pointer) &&
              offsetof(client::Segment, bytes) == offsetof(ocm_segment, bytes));

End in(client::Allocation* allocation, uint64_t offset) { return {allocation, offset, nullptr}; }
End at(const void* pointer) { return {nullptr, 0, static_cast<std::byte*>(const_cast<void*>(pointer))}; }

/// Checked and counted, ready to start.
struct Prepared {
  client::Session* session = nullptr;
  Runs runs;
  uint64_t bytes = 0;
  bool copies = false;
};

Status order_and_count(const Prepared& prepared, bool put, client::Allocation* allocation) {
  OCM_TRY(keep_order(*prepared.session, allocation, put));
  put ? count_put(*prepared.session, prepared.bytes) : count_get(*prepared.session, prepared.bytes);
  return {};
}

Status prepare(client::Allocation& allocation, bool put, uint64_t offset, const void* pointer, uint64_t bytes,
               Prepared& out) {
  const Run run = put ? Run{in(&allocation, offset), at(pointer), bytes}
                      : Run{at(pointer), in(&allocation, offset), bytes};
  OCM_TRY(client::check_end(run.target, bytes, true));
  OCM_TRY(client::check_end(run.source, bytes, false));
  out.session = allocation.session();
  out.runs = Runs::one(run);
  out.bytes = bytes;
  return order_and_count(out, put, &allocation);
}

Status prepare_vectored(client::Allocation& allocation, bool put, const ocm_segment* segments, size_t count,
                        bool copy, Prepared& out) {
  if (segments == nullptr && count > 0) return Status(Code::kInvalidArgument, "`segments` is null");
  const auto* list = reinterpret_cast<const client::Segment*>(segments);
  OCM_TRY(client::check_segments(allocation, put, list, count, &out.bytes));
  out.session = allocation.session();
  out.runs = Runs::vectored(&allocation, put, list, count, copy);
  return order_and_count(out, put, &allocation);
}

Status prepare_strided(client::Allocation& allocation, bool put, uint64_t offset, uint64_t stride,
                       const void* pointer, uint64_t pointer_stride, uint64_t row_bytes, uint64_t rows,
                       Prepared& out) {
  const Run run = put ? Run{in(&allocation, offset), at(pointer), row_bytes}
                      : Run{at(pointer), in(&allocation, offset), row_bytes};
  const uint64_t target_stride = put ? stride : pointer_stride;
  const uint64_t source_stride = put ? pointer_stride : stride;
  OCM_TRY(client::check_rows(run, target_stride, source_stride, rows));
  if (__builtin_mul_overflow(row_bytes, rows, &out.bytes)) {
    return Status(Code::kOutOfRange, "the rows together overflow 64 bits");
  }
  out.session = allocation.session();
  out.runs = Runs::rows(run, target_stride, source_stride, row_bytes == 0 ? 0 : rows);
  return order_and_count(out, put, &allocation);
}

/// `number` is the status when the result is bad.
bool read_place(const ocm_place& place, End& end, int& number) {
  if (place.allocation == nullptr) {
    end = at(place.pointer);
    return true;
  }
  client::Allocation* object = find(place.allocation);
  if (object == nullptr) {
    number = fail_handle(place.allocation);
    return false;
  }
  end = in(object, place.offset);
  return true;
}

Status prepare_copy(const End& target, const End& source, uint64_t bytes, Prepared& out) {
  OCM_TRY(client::check_copy(target, source, bytes));
  client::Allocation* any = target.allocation != nullptr ? target.allocation : source.allocation;
  if (any == nullptr) {  // memory of this program at both ends
    client::big_move(target.pointer, source.pointer, bytes);
    return {};
  }
  out.session = any->session();
  out.runs = Runs::one({target, source, bytes});
  out.bytes = bytes;
  out.copies = target.allocation != nullptr && source.allocation != nullptr;
  if (out.copies) {
    // A copy does not go through one channel's order: what was started before must be complete.
    for (const client::Allocation* end : {target.allocation, source.allocation}) {
      if (!out.session->under_way().drain(end)) return os::interrupted();
    }
  }
  OCM_TRY(keep_order(*out.session, source.allocation, false));
  return order_and_count(out, target.allocation != nullptr, any);
}

int run(const Status& prepared_well, Prepared& prepared) {
  if (!prepared_well.is_ok()) return fail(prepared_well);
  if (prepared.session == nullptr) return OCM_OK;
  return finish(client::transfer(*prepared.session, std::move(prepared.runs), prepared.bytes));
}

int start(const Status& prepared_well, Prepared& prepared, ocm_op** op) {
  if (!prepared_well.is_ok()) return fail(prepared_well);
  return start_operation(prepared.session, op, [&](client::Operation& operation) -> Status {
    if (prepared.session != nullptr)
      operation.start(*prepared.session, std::move(prepared.runs), prepared.copies, prepared.bytes);
    else
      operation.start_done();
    return {};
  });
}

/// The head of every function on one allocation: `prepare_on(object, prepared)`, then to the end.
template <class Prepare>
int run_on(ocm_allocation* allocation, Prepare prepare_on) {
  return guarded([&] {
    client::Allocation* object = find(allocation);
    if (object == nullptr) return fail_handle(allocation);
    Prepared prepared;
    const Status status = prepare_on(*object, prepared);
    return run(status, prepared);
  });
}
/// The same, only started.
template <class Prepare>
int start_on(ocm_allocation* allocation, ocm_op** op, Prepare prepare_on) {
  return start_on_allocation(allocation, op, [&](client::Allocation& object) {
    Prepared prepared;
    const Status status = prepare_on(object, prepared);
    return start(status, prepared, op);
  });
}

/// The object is retired already. The first error that nobody saw is kept for the next fence.
void end_operation(OpObject& object, uint64_t handle) {
  if (object.word != nullptr) {
    object.session()->under_way().words().leave(*object.word);
    object.word.reset();
    return ops.release(Ops::index_of(handle));
  }
  client::Operation& operation = *object.operation;
  const os::Uninterrupted to_the_end;
  (void)operation.wait(false, os::Deadline::never());
  if (client::Session* session = operation.session()) {
    session->under_way().leave(operation);
    const int number = static_cast<int>(operation.status().code());
    if (!object.reported && number != OCM_OK) {
      for (client::Allocation* allocation : {operation.target(), operation.source()}) {
        int none = 0;
        if (allocation != nullptr) allocation->deferred_error().compare_exchange_strong(none, number);
      }
      sessions.for_each([&](uint64_t, SessionObject& one) {
        int none = 0;
        if (one.session.get() == session) one.deferred_error.compare_exchange_strong(none, number);
      });
    }
  }
  object.operation.reset();
  ops.release(Ops::index_of(handle));
}

// Not a part of what calls them, which would save registers for them first.
[[gnu::noinline]] int put_long_way(ocm_allocation* handle, uint64_t offset, const void* source,
                                   uint64_t bytes) {
  return guarded([&] {
    client::Allocation* object = find(handle);
    if (object == nullptr) return fail_handle(handle);
    if (source == nullptr && bytes > 0) return fail(Code::kInvalidArgument, "`source` is null");
    Prepared prepared;
    const Status status = prepare(*object, true, offset, source, bytes, prepared);
    if (status.is_ok()) (void)object->open_directly();
    return run(status, prepared);
  });
}

[[gnu::noinline]] int get_long_way(ocm_allocation* handle, uint64_t offset, void* target, uint64_t bytes) {
  return guarded([&] {
    client::Allocation* object = find(handle);
    if (object == nullptr) return fail_handle(handle);
    if (target == nullptr && bytes > 0) return fail(Code::kInvalidArgument, "`target` is null");
    Prepared prepared;
    const Status status = prepare(*object, false, offset, target, bytes, prepared);
    if (status.is_ok()) (void)object->open_directly();
    return run(status, prepared);
  });
}

int fence_result(std::atomic<int>& deferred) {
  const int number = deferred.exchange(0);
  if (number == OCM_OK) return OCM_OK;
  return fail(static_cast<Code>(number),
              "an operation failed, and its handle was freed before its status was read");
}

}  // namespace
}  // namespace ocm::capi

using namespace ocm;        // NOLINT: the C ABI of this very namespace
using namespace ocm::capi;  // NOLINT

extern "C" {

int ocm_put(ocm_allocation* allocation, uint64_t offset, const void* source, uint64_t bytes) {
  if (client::Allocation* object = find(allocation)) [[likely]] {
    std::byte* target = object->direct_now(offset, bytes, true);
    if (target != nullptr && source != nullptr) [[likely]] {
      client::big_copy(target, source, bytes);
      client::count_put(*object->session(), bytes);
      return OCM_OK;
    }
  }
  return put_long_way(allocation, offset, source, bytes);
}

int ocm_get(ocm_allocation* allocation, uint64_t offset, void* target, uint64_t bytes) {
  if (client::Allocation* object = find(allocation)) [[likely]] {
    const std::byte* source = object->direct_now(offset, bytes, false);
    if (source != nullptr && target != nullptr) [[likely]] {
      client::big_copy(target, source, bytes);
      if (object->direct_good()) [[likely]] {
        client::count_get(*object->session(), bytes);
        return OCM_OK;
      }
    }
  }
  return get_long_way(allocation, offset, target, bytes);
}

int ocm_putv(ocm_allocation* allocation, const ocm_segment* segments, size_t count) {
  return run_on(allocation, [&](client::Allocation& object, Prepared& out) {
    return prepare_vectored(object, true, segments, count, false, out);
  });
}
int ocm_getv(ocm_allocation* allocation, const ocm_segment* segments, size_t count) {
  return run_on(allocation, [&](client::Allocation& object, Prepared& out) {
    return prepare_vectored(object, false, segments, count, false, out);
  });
}

int ocm_put_strided(ocm_allocation* allocation, uint64_t offset, uint64_t stride, const void* pointer,
                    uint64_t pointer_stride, uint64_t row_bytes, uint64_t rows) {
  return run_on(allocation, [&](client::Allocation& object, Prepared& out) {
    return prepare_strided(object, true, offset, stride, pointer, pointer_stride, row_bytes, rows, out);
  });
}
int ocm_get_strided(ocm_allocation* allocation, uint64_t offset, uint64_t stride, void* pointer,
                    uint64_t pointer_stride, uint64_t row_bytes, uint64_t rows) {
  return run_on(allocation, [&](client::Allocation& object, Prepared& out) {
    return prepare_strided(object, false, offset, stride, pointer, pointer_stride, row_bytes, rows, out);
  });
}

int ocm_place_copy(ocm_place target, ocm_place source, uint64_t bytes) {
  return guarded([&] {
    End to, from;
    int number = OCM_OK;
    if (!read_place(target, to, number) || !read_place(source, from, number)) return number;
    Prepared prepared;
    const Status status = prepare_copy(to, from, bytes, prepared);
    return run(status, prepared);
  });
}

// ---------------------------------------------------------------- asynchronous forms

int ocm_put_start(ocm_allocation* allocation, uint64_t offset, const void* source, uint64_t bytes,
                  ocm_op** op) {
  return start_on(allocation, op, [&](client::Allocation& object, Prepared& out) {
    return prepare(object, true, offset, source, bytes, out);
  });
}
int ocm_get_start(ocm_allocation* allocation, uint64_t offset, void* target, uint64_t bytes, ocm_op** op) {
  return start_on(allocation, op, [&](client::Allocation& object, Prepared& out) {
    return prepare(object, false, offset, target, bytes, out);
  });
}
int ocm_putv_start(ocm_allocation* allocation, const ocm_segment* segments, size_t count, ocm_op** op) {
  return start_on(allocation, op, [&](client::Allocation& object, Prepared& out) {
    return prepare_vectored(object, true, segments, count, true, out);
  });
}
int ocm_getv_start(ocm_allocation* allocation, const ocm_segment* segments, size_t count, ocm_op** op) {
  return start_on(allocation, op, [&](client::Allocation& object, Prepared& out) {
    return prepare_vectored(object, false, segments, count, true, out);
  });
}
int ocm_put_strided_start(ocm_allocation* allocation, uint64_t offset, uint64_t stride, const void* pointer,
                          uint64_t pointer_stride, uint64_t row_bytes, uint64_t rows, ocm_op** op) {
  return start_on(allocation, op, [&](client::Allocation& object, Prepared& out) {
    return prepare_strided(object, true, offset, stride, pointer, pointer_stride, row_bytes, rows, out);
  });
}
int ocm_get_strided_start(ocm_allocation* allocation, uint64_t offset, uint64_t stride, void* pointer,
                          uint64_t pointer_stride, uint64_t row_bytes, uint64_t rows, ocm_op** op) {
  return start_on(allocation, op, [&](client::Allocation& object, Prepared& out) {
    return prepare_strided(object, false, offset, stride, pointer, pointer_stride, row_bytes, rows, out);
  });
}
int ocm_place_copy_start(ocm_place target, ocm_place source, uint64_t bytes, ocm_op** op) {
  return guarded([&] {
    if (op == nullptr) return fail(Code::kInvalidArgument, "`op` is null");
    End to, from;
    int number = OCM_OK;
    if (!read_place(target, to, number) || !read_place(source, from, number)) return number;
    Prepared prepared;
    const Status status = prepare_copy(to, from, bytes, prepared);
    return start(status, prepared, op);
  });
}

int ocm_op_wait(ocm_op* op, uint32_t flags, uint64_t deadline_ns) {
  return guarded([&] {
    OpObject* object = ops.find(bits(op));
    if (object == nullptr) return fail_handle(op);
    if ((flags & ~(OCM_WAIT_LOCAL | OCM_WAIT_FREE)) != 0) {
      return fail(unknown_flags(flags & ~(OCM_WAIT_LOCAL | OCM_WAIT_FREE), "OCM_WAIT_"));
    }
    // Without a deadline of its own the operation ends by the session's: it fails without progress.
    const os::Deadline deadline =
        deadline_ns != 0 ? os::Deadline::after_ns(deadline_ns) : os::Deadline::never();
    const bool frees = (flags & OCM_WAIT_FREE) != 0;
    const uint32_t interrupts = os::interrupts_of_thread();
    Status status = object->word != nullptr
                        ? object->session()->under_way().words().wait(*object->word, deadline)
                        : object->operation->wait((flags & OCM_WAIT_LOCAL) != 0, deadline);
    const bool is_interrupted = os::interrupts_of_thread() != interrupts;
    if (is_interrupted && frees && object->operation) object->operation->take_back();
    // Somebody else may have moved it since. Who waits for a word for ever need not be waited for.
    const bool over = object->done() || (is_interrupted && frees);
    if (over) {
      if (object->done()) status = object->status();
      object->reported = true;
      if (frees && ops.retire(bits(op)) != nullptr) end_operation(*object, bits(op));
    }
    return finish(status);
  });
}

int ocm_op_test(ocm_op* op) {
  return guarded([&] {
    OpObject* object = ops.find(bits(op));
    if (object == nullptr) return fail_handle(op);
    if (object->word != nullptr ? !object->done() : !object->operation->test()) return 0;
    object->reported = true;
    const Status& status = object->status();
    return status.is_ok() ? 1 : fail(status);
  });
}

int ocm_op_signal(ocm_op* op, int eventfd) {
  return guarded([&] {
    OpObject* object = ops.find(bits(op));
    if (object == nullptr) return fail_handle(op);
    client::Session* const session = object->session();
    if (object->word != nullptr) {
      session->under_way().words().signal(*object->word, eventfd);
      return static_cast<int>(OCM_OK);
    }
    client::Operation& operation = *object->operation;
    if (session != nullptr) return finish(session->under_way().signal(operation, eventfd));
    (void)operation.signal_when_done(eventfd);  // it was done at once
    return static_cast<int>(OCM_OK);
  });
}

int ocm_op_cancel(ocm_op* op) {
  return guarded([&] {
    OpObject* object = ops.find(bits(op));
    if (object == nullptr) return fail_handle(op);
    object->reported = true;
    if (object->word != nullptr)
      object->session()->under_way().words().cancel(*object->word);
    else
      object->operation->cancel();
    return static_cast<int>(OCM_OK);
  });
}

int ocm_op_free(ocm_op* op) {
  return guarded([&] {
    OpObject* object = ops.retire(bits(op));
    if (object == nullptr) return fail_handle(op);
    end_operation(*object, bits(op));
    return static_cast<int>(OCM_OK);
  });
}

int ocm_fence(ocm_allocation* allocation) {
  return guarded([&] {
    client::Allocation* object = find(allocation);
    if (object == nullptr) return fail_handle(allocation);
    if (!object->session()->under_way().drain(object)) return fail(os::interrupted());
    return fence_result(object->deferred_error());
  });
}

int ocm_session_fence(ocm_session* session) {
  return guarded([&] {
    SessionObject* object = sessions.find(bits(session));
    if (object == nullptr) return fail_handle(session);
    if (!object->session->under_way().drain(nullptr)) return fail(os::interrupted());
    return fence_result(object->deferred_error);
  });
}

}  // extern "C"
