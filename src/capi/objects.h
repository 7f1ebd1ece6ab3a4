// What the handles of the C ABI stand for.
#pragma once

#include <oncilla/oncilla.h>

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "capi/call.h"
#include "client/allocation.h"
#include "client/session.h"
#include "client/word_wait.h"

namespace ocm::capi {

/// What is called when a session is closed. It belongs to the slot, whose sessions follow each other.
class CloseHooks {
 public:
  using Hook = std::pair<void (*)(void*), void*>;
  void open(uint64_t handle) {
    const std::lock_guard lock(mutex_);
    OCM_DASSERT(hooks_.empty());
    handle_ = handle;
  }
  /// False: that session was closed.
  bool add(uint64_t handle, const Hook& hook) {
    const std::lock_guard lock(mutex_);
    if (handle_ != handle) return false;
    hooks_.push_back(hook);
    return true;
  }
  void close() {
    std::vector<Hook> hooks;
    {
      const std::lock_guard lock(mutex_);
      handle_ = 0;
      hooks.swap(hooks_);
    }
    for (auto hook = hooks.rbegin(); hook != hooks.rend(); ++hook) hook->first(hook->second);
  }

 private:
  std::mutex mutex_;
  uint64_t handle_ = 0;  // 0: of none
  std::vector<Hook> hooks_;
};

struct SessionObject {
  std::unique_ptr<client::Session> session;
  CloseHooks close_hooks;
  /// The first error of operations whose handles were freed before anyone asked.
  std::atomic<int> deferred_error{0};
};
/// One of the two, while the handle is live.
struct OpObject {
  std::optional<client::Operation> operation;
  std::unique_ptr<client::WordWait> word;
  bool reported = false;  // somebody was told its status

  client::Session* session() const { return word != nullptr ? word->session() : operation->session(); }
  bool done() const { return word != nullptr ? word->done() : operation->done(); }
  const Status& status() const { return word != nullptr ? word->status() : operation->status(); }
};

using Sessions = HandleTable<SessionObject, 1>;
using Allocations = HandleTable<client::Allocation, 2>;
using Ops = HandleTable<OpObject, 3>;
static_assert(sizeof(void*) == sizeof(uint64_t));  // a handle is a number in the form of a pointer
extern Sessions sessions;
extern Allocations allocations;
extern Ops ops;

inline client::Allocation* find(const ocm_allocation* handle) { return allocations.find(bits(handle)); }

inline int fail_handle(const ocm_allocation* handle) {
  return fail_handle(allocations.why(bits(handle)), "allocation");
}
inline int fail_handle(const ocm_session* handle) {
  return fail_handle(sessions.why(bits(handle)), "session");
}
inline int fail_handle(const ocm_op* handle) { return fail_handle(ops.why(bits(handle)), "operation"); }

/// The embedded node: how to reach it, and what keeps it running.
struct Embedded {
  std::function<Result<os::Fd>()> dial;
  std::shared_ptr<void> owner;
};
Result<Embedded> start_embedded(uint64_t bytes);

}  // namespace ocm::capi
