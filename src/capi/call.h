// How a function of the C interface is written, in whatever room: no exception leaves it, sized structs are read and
// written as far as they go, and what fails is told by ocm_last_error().
#pragma once

#include <oncilla/oncilla.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <type_traits>

#include "capi/failure.h"
#include "capi/handles.h"

namespace ocm::capi {

inline uint64_t bits(const void* handle) { return reinterpret_cast<uint64_t>(handle); }
template <class Handle>
Handle* handle_of(uint64_t value) {
  return reinterpret_cast<Handle*>(value);
}

/// A program in C may store any number in an enum; to load it as the enum is undefined then.
template <class Enum>
uint32_t number_in(const Enum& value) {
  uint32_t number = 0;
  static_assert(sizeof(number) == sizeof(value));
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

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

/// `option` holds a number that names nothing: "`layout` is 9, which is not a value of enum ocm_layout".
inline Status unknown_value(const char* option, uint64_t value, const char* type) {
  return Status(Code::kInvalidArgument, std::string("`") + option + "` is " + std::to_string(value) +
                                            ", which is not a value of " + type)
      .with_subject(Subject::kOption, option);
}

/// "`flags` has the bits 0x30, which are no OCM_SCAN_ flags": `unknown` are those of no flag.
inline Status unknown_flags(uint32_t unknown, const char* prefix) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%x", unknown);
  return Status(Code::kInvalidArgument, std::string("`flags` has the bits ") + text + ", which are no " +
                                            prefix + " flags of this library")
      .with_subject(Subject::kOption, "flags");
}

/// Of a sized struct, of this version of the library or a later one.
inline constexpr size_t kSizedBytesMax = 4096;

/// Reads a sized struct of the caller into one of ours; what it does not have is zero.
template <class Struct>
Status read_sized(const Struct& theirs, Struct& ours) {
  static_assert(offsetof(Struct, size) == 0 && std::is_trivially_copyable_v<Struct>);
  static_assert(sizeof(Struct) <= kSizedBytesMax);
  ours = Struct{};
  if (theirs.size < sizeof(size_t) || theirs.size > kSizedBytesMax) {
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
  static_assert(offsetof(Struct, size) == 0 && std::is_trivially_copyable_v<Struct>);
  const size_t size = theirs->size;
  if (size < sizeof(size_t) || size > kSizedBytesMax) {
    return Status(Code::kInvalidArgument, "a struct's `size` is not set: size = sizeof(struct)");
  }
  ours.size = size;
  __builtin_memcpy(theirs, &ours, size < sizeof(Struct) ? size : sizeof(Struct));
  return {};
}

}  // namespace ocm::capi
