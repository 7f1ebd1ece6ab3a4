#include "capi/oncillamem/library.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <utility>

#include "capi/oncillamem/remote_buffer.h"

namespace ocm::oncillamem {
namespace {

constexpr uint64_t kEmbeddedBytesMin = 1ull << 30;

// Relaxed: only its uniqueness matters.
std::atomic<uintptr_t> handles_given{0};
// Set before the first use, and anew in the one thread of a forked child.
std::atomic<Library*> current{nullptr};

ocm_alloc_t next_handle() {
  constexpr uintptr_t kStep = 16;  // looks like a pointer to those who print it
  return reinterpret_cast<ocm_alloc_t>((handles_given.fetch_add(1, std::memory_order_relaxed) + 1) * kStep);
}

// Memory is taken when it is touched: the budget of a node that is this program alone is half of what
// there is.
uint64_t embedded_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return kEmbeddedBytesMin;
  return std::max(kEmbeddedBytesMin, static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes) / 2);
}

Status not_initialised() {
  return Status(Code::kInvalidArgument, "the library is not initialised: call ocm_init first");
}

}  // namespace

Library& Library::instance() {
  static const bool ready = [] {
    current = new Library(nullptr);
    pthread_atfork(nullptr, nullptr, [] { current = new Library(current); });
    return true;
  }();
  (void)ready;
  return *current;
}

Status Library::init() {
  std::unique_lock gate(gate_);
  if (users_ == 0) {
    ocm_session_options options = OCM_SESSION_OPTIONS_INIT;
    options.embedded_bytes = embedded_bytes();
    if (std::getenv("OCM_NO_EMBEDDED") == nullptr) options.flags = OCM_SESSION_EMBEDDED_FALLBACK;
    OCM_TRY(from_api(ocm_session_open(&options, &session_)));
  }
  ++users_;
  return {};
}

Status Library::tini() {
  std::unique_lock gate(gate_);
  if (users_ == 0) return not_initialised();
  if (--users_ > 0) return {};
  for (auto& [handle, pair] : pairs_) pair->abandon_remote();
  const Status status = from_api(ocm_session_close(std::exchange(session_, nullptr)));
  pairs_.clear();
  return status;
}

Result<ocm_alloc_t> Library::allocate(const ocm_alloc_params& params) {
  std::shared_lock gate(gate_);
  if (users_ == 0) return not_initialised();
  OCM_TRY_ASSIGN(auto pair, Pair::make(session_, params));
  const ocm_alloc_t handle = next_handle();
  std::lock_guard lock(pairs_mutex_);
  pairs_.emplace(handle, std::move(pair));
  return handle;
}

Status Library::free(ocm_alloc_t handle) {
  std::shared_lock gate(gate_);
  OCM_TRY_ASSIGN(auto pair, find(handle));
  std::lock_guard lock(pairs_mutex_);
  if (pairs_.erase(handle) == 0) return Status(Code::kInvalidArgument, "the allocation was freed already");
  return {};
}

Result<std::shared_ptr<Pair>> Library::find(ocm_alloc_t handle) {
  if (handle == nullptr) return Status(Code::kInvalidArgument, "the allocation is NULL");
  if (users_ == 0) return not_initialised();
  std::lock_guard lock(pairs_mutex_);
  const auto found = pairs_.find(handle);
  if (found == pairs_.end())
    return Status(Code::kInvalidArgument, "no such allocation: it was freed, or never was one");
  return found->second;
}

}  // namespace ocm::oncillamem
