#include "client/transfer.h"

#include "client/allocation.h"
#include "client/session.h"
#include "os/interrupt.h"

namespace ocm::client {
namespace {

/// True if last = first + stride * (rows - 1) and last + bytes fit in 64 bits; `end` is the latter.
bool last_end(uint64_t first, uint64_t stride, uint64_t rows, uint64_t bytes, uint64_t* end) {
  uint64_t way = 0;
  return !__builtin_mul_overflow(stride, rows - 1, &way) && !__builtin_add_overflow(first, way, &way) &&
         !__builtin_add_overflow(way, bytes, end);
}

Status out_of_range(uint64_t offset, uint64_t bytes, const Allocation& allocation) {
  return Status(Code::kOutOfRange, "offset " + std::to_string(offset) + " and length " +
                                       std::to_string(bytes) + " leave the allocation of " +
                                       std::to_string(allocation.bytes()) + " bytes");
}

}  // namespace

Status check_end(const End& end, uint64_t bytes, bool write) {
  if (end.allocation == nullptr) {
    if (end.pointer == nullptr && bytes > 0) return Status(Code::kInvalidArgument, "a pointer is null");
    return {};
  }
  if (end.allocation->check_range(end.offset, bytes) != Code::kOk) {
    return out_of_range(end.offset, bytes, *end.allocation);
  }
  if (write && end.allocation->access() != Access::kReadWrite) {
    return Status(Code::kPermission, "the allocation was attached for reading only");
  }
  if (write && end.allocation->read_only_layout()) {
    return Status(Code::kUnsupported,
                  "the allocation was joined of replicated parts, which makes it read-only: write the parts "
                  "before they are joined");
  }
  return {};
}

Status check_rows(const Run& first, uint64_t target_stride, uint64_t source_stride, uint64_t rows) {
  if (rows == 0) return {};
  const auto check = [&](const End& end, uint64_t stride, bool write) -> Status {
    OCM_TRY(check_end(end, first.bytes, write));
    uint64_t last = 0;
    const uint64_t start = end.allocation != nullptr ? end.offset : reinterpret_cast<uint64_t>(end.pointer);
    if (!last_end(start, stride, rows, first.bytes, &last)) {
      return Status(Code::kOutOfRange, "the rows overflow the address space");
    }
    if (end.allocation != nullptr && last > end.allocation->bytes()) {
      return out_of_range(last - first.bytes, first.bytes, *end.allocation);
    }
    return {};
  };
  OCM_TRY(check(first.target, target_stride, true));
  return check(first.source, source_stride, false);
}

Status check_segments(const Allocation& allocation, bool put, const Segment* segments, size_t count,
                      uint64_t* bytes_total) {
  *bytes_total = 0;
  for (size_t i = 0; i < count; ++i) {
    const End there{const_cast<Allocation*>(&allocation), segments[i].offset, nullptr};
    const End here{nullptr, 0, static_cast<std::byte*>(segments[i].pointer)};
    OCM_TRY(check_end(there, segments[i].bytes, put));
    OCM_TRY(check_end(here, segments[i].bytes, !put));
    if (__builtin_add_overflow(*bytes_total, segments[i].bytes, bytes_total)) {
      return Status(Code::kOutOfRange, "the segments together overflow 64 bits");
    }
  }
  return {};
}

Status check_copy(const End& target, const End& source, uint64_t bytes) {
  OCM_TRY(check_end(target, bytes, true));
  OCM_TRY(check_end(source, bytes, false));
  const bool within = target.allocation != nullptr && source.allocation != nullptr &&
                      target.allocation->order() == source.allocation->order();  // by two handles, too
  if (within && bytes > 0) {
    const uint64_t low = std::min(target.offset, source.offset);
    const uint64_t high = std::max(target.offset, source.offset);
    if (high - low < bytes) return Status(Code::kInvalidArgument, "the ranges overlap in one allocation");
  }
  if (target.allocation != nullptr && source.allocation != nullptr &&
      target.allocation->session() != source.allocation->session()) {
    return Status(Code::kInvalidArgument, "the allocations are of different sessions");
  }
  return {};
}

Status keep_order(Session& session, Allocation* allocation, bool put) {
  if (allocation == nullptr) return {};
  const bool waits = allocation->busy().load(std::memory_order_acquire) != 0 ||
                     (put && allocation->gets().load(std::memory_order_acquire) != 0);
  return !waits || session.under_way().drain(allocation) ? Status() : os::interrupted();
}

void count_put(Session& session, uint64_t bytes) {
  fabric::shm::SessionPage& page = session.page();
  page.add(page.put_ops, 1);
  page.add(page.put_bytes, bytes);
}

void count_get(Session& session, uint64_t bytes) {
  fabric::shm::SessionPage& page = session.page();
  page.add(page.get_ops, 1);
  page.add(page.get_bytes, bytes);
}

void start_transfer(Operation& operation, Session& session, Runs runs, bool copies, uint64_t bytes) {
  operation.start(session, std::move(runs), copies, bytes);
}

Status transfer(Session& session, Runs runs, uint64_t bytes) {
  Operation operation;
  operation.start(session, std::move(runs), false, bytes);
  return operation.run();
}

}  // namespace ocm::client
