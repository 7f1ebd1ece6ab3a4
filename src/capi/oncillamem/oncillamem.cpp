// The entry points of libocm: arguments checked, statuses turned into numbers and lines on stderr.
#pragma GCC visibility push(default)
#include "oncilla/oncillamem.h"
#pragma GCC visibility pop

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "capi/oncillamem/library.h"

using ocm::Code;
using ocm::Status;
using ocm::oncillamem::Library;
using ocm::oncillamem::Pair;

namespace {

// A program that goes on failing does not fill its user's terminal.
constexpr int kLinesMax = 100;
std::atomic<int> lines_written{0};

void write_line(const char* call, const char* what) {
  if (std::getenv("OCM_QUIET") != nullptr) return;
  const int line = lines_written.fetch_add(1, std::memory_order_relaxed) + 1;
  if (line > kLinesMax) return;
  std::fprintf(stderr, "oncilla: %s: %s%s\n", call, what,
               line == kLinesMax ? " (the last line of these)" : "");
}

int report(const char* call, const Status& status) {
  if (status.is_ok()) return 0;
  write_line(call, status.to_string().c_str());
  return static_cast<int>(status.code());
}

Status null_argument(const char* name) {
  return Status(Code::kInvalidArgument, std::string("the argument `") + name + "` is NULL");
}

// No exception (the tables may find no memory) leaves the library.
template <class Call>
int guarded(const char* name, Call call) noexcept {
  try {
    return report(name, call());
  } catch (const std::bad_alloc&) {
    write_line(name, "NO_MEMORY");
    return static_cast<int>(Code::kNoMemory);
  } catch (const std::exception& error) {
    write_line(name, error.what());
    return static_cast<int>(Code::kInternal);
  }
}

}  // namespace

extern "C" {

int ocm_init(void) {
  return guarded(__func__, [] { return Library::instance().init(); });
}

int ocm_tini(void) {
  return guarded(__func__, [] { return Library::instance().tini(); });
}

ocm_alloc_t ocm_alloc(ocm_alloc_param_t params) {
  ocm_alloc_t handle = nullptr;
  guarded(__func__, [&]() -> Status {
    if (params == nullptr) return null_argument("params");
    OCM_TRY_ASSIGN(handle, Library::instance().allocate(*params));
    return {};
  });
  return handle;
}

int ocm_free(ocm_alloc_t allocation) {
  return guarded(__func__, [&] { return Library::instance().free(allocation); });
}

int ocm_localbuf(ocm_alloc_t allocation, void** buf, size_t* len) {
  return guarded(__func__, [&]() -> Status {
    if (buf == nullptr) return null_argument("buf");
    if (len == nullptr) return null_argument("len");
    return Library::instance().with(allocation, [&](Pair& pair) -> Status {
      *buf = pair.local().data();
      *len = pair.local().bytes();
      return {};
    });
  });
}

bool ocm_is_remote(ocm_alloc_t allocation) {
  bool remote = false;
  guarded(__func__, [&] {
    return Library::instance().with(allocation, [&](Pair& pair) -> Status {
      remote = pair.is_remote();
      return {};
    });
  });
  return remote;
}

enum ocm_kind ocm_alloc_kind(ocm_alloc_t allocation) {
  enum ocm_kind kind {};
  guarded(__func__, [&] {
    return Library::instance().with(allocation, [&](Pair& pair) -> Status {
      kind = pair.kind();
      return {};
    });
  });
  return kind;
}

int ocm_remote_sz(ocm_alloc_t allocation, size_t* len) {
  return guarded(__func__, [&]() -> Status {
    if (len == nullptr) return null_argument("len");
    return Library::instance().with(allocation, [&](Pair& pair) -> Status {
      if (!pair.is_remote())
        return Status(Code::kInvalidArgument, "the allocation is of a local kind: it has no remote buffer");
      *len = pair.remote_bytes();
      return {};
    });
  });
}

int ocm_copy_out(void* dst, ocm_alloc_t src) {
  return guarded(__func__, [&]() -> Status {
    if (dst == nullptr) return null_argument("dst");
    return Library::instance().with(src, [&](Pair& pair) -> Status {
      std::memmove(dst, pair.local().data(), pair.local().bytes());
      return {};
    });
  });
}

int ocm_copy_in(ocm_alloc_t dst, void* src) {
  return guarded(__func__, [&]() -> Status {
    if (src == nullptr) return null_argument("src");
    return Library::instance().with(dst, [&](Pair& pair) -> Status {
      std::memmove(pair.local().data(), src, pair.local().bytes());
      return {};
    });
  });
}

int ocm_copy(ocm_alloc_t dst, ocm_alloc_t src, ocm_param_t params) {
  return guarded(__func__, [&]() -> Status {
    if (params == nullptr) return null_argument("params");
    // 2013: any op_flag but 0 writes; 0 exchanges the two.
    if (params->op_flag == 0) std::swap(dst, src);
    return Library::instance().with(
        dst, src, [&](Pair& target, Pair& source) { return Pair::copy(target, source, *params); });
  });
}

int ocm_copy_onesided(ocm_alloc_t allocation, ocm_param_t params) {
  return guarded(__func__, [&]() -> Status {
    if (params == nullptr) return null_argument("params");
    return Library::instance().with(allocation, [&](Pair& pair) {
      return params->op_flag == 0 ? pair.read(params->src_offset, params->dest_offset, params->bytes)
                                  : pair.write(params->src_offset, params->dest_offset, params->bytes);
    });
  });
}

// In no header, in 2013 neither: programs of EXTOLL's call it before ocm_tini without a declaration. The
// connections are not the caller's here, so there is nothing to do but to look at the handle.
__attribute__((visibility("default"))) int ocm_extoll_disconnect(ocm_alloc_t allocation) {
  return guarded(__func__,
                 [&] { return Library::instance().with(allocation, [](Pair&) { return Status(); }); });
}

}  // extern "C"
