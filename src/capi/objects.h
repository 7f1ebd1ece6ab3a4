// What the handles of the C ABI stand for, and how a call ends: its status number and ocm_last_error().
#pragma once

#include <oncilla/oncilla.h>

#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>

#include "capi/failure.h"
#include "capi/handles.h"
#include "client/allocation.h"
#include "client/session.h"

namespace ocm::capi {

struct SessionObject {
  std::unique_ptr<client::Session> session;
  /// The first error of operations whose handles were freed before anyone asked.
  std::atomic<int> deferred_error{0};
};
struct OpObject {
  std::optional<client::Operation> operation;
  bool reported = false;  // somebody was told its status
};

using Sessions = HandleTable<SessionObject, 1>;
using Allocations = HandleTable<client::Allocation, 2>;
using Ops = HandleTable<OpObject, 3>;
extern Sessions sessions;
extern Allocations allocations;
extern Ops ops;

inline uint64_t bits(const void* handle) { return reinterpret_cast<uint64_t>(handle); }
template <class Handle>
Handle* handle_of(uint64_t value) {
  return reinterpret_cast<Handle*>(value);
}
inline client::Allocation* find(const ocm_allocation* handle) { return allocations.find(bits(handle)); }

/// A program in C may store any number in an enum; to load it as the enum is undefined then.
template <class Enum>
uint32_t number_in(const Enum& value) {
  uint32_t number = 0;
  static_assert(sizeof(number) == sizeof(value));
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

/// `hook` is called with the handle of each session that is being closed, before anything of it ends. One
/// hook.
void at_session_close(void (*hook)(uint64_t session));
/// For a handle that find() did not know: freed, or never one.
int fail_handle(Code why, const char* what);
inline int fail_handle(const ocm_allocation* handle) {
  return fail_handle(allocations.why(bits(handle)), "allocation");
}
inline int fail_handle(const ocm_session* handle) {
  return fail_handle(sessions.why(bits(handle)), "session");
}
inline int fail_handle(const ocm_op* handle) { return fail_handle(ops.why(bits(handle)), "operation"); }

/// Runs `body`, which returns a status number; no exception leaves the library.
template <class Body>
int guarded(Body body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(Code::kNoMemory, "this program is out of memory");
  } catch (const std::exception& e) {
    return fail(Code::kInternal, e.what());
  } catch (...) {
    return fail(Code::kInternal, "unknown exception");
  }
}

/// Reads a sized struct of the caller into one of ours; what it does not have is zero.
template <class Struct>
Status read_sized(const Struct& theirs, Struct& ours) {
  ours = Struct{};
  if (theirs.size < sizeof(size_t) || theirs.size > 4096) {
    return Status(Code::kInvalidArgument, "a struct's `size` is not set: start from its *_INIT");
  }
  __builtin_memcpy(&ours, &theirs, theirs.size < sizeof(Struct) ? theirs.size : sizeof(Struct));
  const auto* bytes = reinterpret_cast<const unsigned char*>(&theirs);
  for (size_t i = sizeof(Struct); i < theirs.size; ++i) {
    if (bytes[i] != 0)
      return Status(Code::kUnsupported, "the program uses options that this library is too old for");
  }
  return {};
}
/// Writes ours into the caller's sized struct, as far as it goes.
template <class Struct>
Status write_sized(Struct ours, Struct* theirs) {
  const size_t size = theirs->size;
  if (size < sizeof(size_t) || size > 4096) {
    return Status(Code::kInvalidArgument, "a struct's `size` is not set: size = sizeof(struct)");
  }
  ours.size = size;
  __builtin_memcpy(theirs, &ours, size < sizeof(Struct) ? size : sizeof(Struct));
  return {};
}

/// The embedded node: how to reach it, and what keeps it running.
struct Embedded {
  std::function<Result<os::Fd>()> dial;
  std::shared_ptr<void> owner;
};
Result<Embedded> start_embedded(uint64_t bytes);

}  // namespace ocm::capi
