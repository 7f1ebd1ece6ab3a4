#include "table/sessions.h"

#include <pthread.h>

#include <map>

#include "capi/call.h"
#include "capi/failure.h"
#include "table/fork.h"
#include "table/tables.h"

namespace ocm::table {
namespace {

struct States {
  std::mutex mutex;  // guards all
  std::map<uint64_t, std::shared_ptr<SessionState>> all;
};
// Never destroyed: threads may still run when the program ends. A child begins with an empty one.
States* states = new States;
std::atomic<uint32_t> generation{0};

void begin_child() {
  generation.fetch_add(1, std::memory_order_relaxed);
  states = new States;
  tables.reset_in_child();
}

/// Called by the session's close, before anything of it ends.
void end_session(void* session) {
  std::shared_ptr<SessionState> state;
  {
    std::lock_guard lock(states->mutex);
    const auto found = states->all.find(capi::bits(session));
    if (found == states->all.end()) return;
    state = std::move(found->second);
    states->all.erase(found);
  }
  state->calls.stop();
  state->cache.limit(0);
}

}  // namespace

bool Calls::enter() {
  std::lock_guard lock(mutex_);
  if (stopping()) return false;
  ++running_;
  return true;
}

void Calls::leave() {
  std::lock_guard lock(mutex_);
  OCM_DASSERT(running_ > 0);
  if (--running_ == 0) none_.notify_all();
}

void Calls::add(ocm_op* op) {
  const std::lock_guard lock(mutex_);
  OCM_DASSERT(running_ > 0);
  under_way_.insert(op);
  if (stopping()) (void)ocm_op_cancel(op);
}

void Calls::end(ocm_op* op) {
  const std::lock_guard lock(mutex_);
  if (under_way_.erase(op) == 0) return;
  (void)ocm_op_cancel(op);
  (void)ocm_op_free(op);
}

void Calls::stop() {
  std::unique_lock lock(mutex_);
  stopping_.store(true, std::memory_order_relaxed);
  for (ocm_op* op : under_way_) (void)ocm_op_cancel(op);
  none_.wait(lock, [&] { return running_ == 0; });
  for (ocm_op* op : under_way_) (void)ocm_op_free(op);  // S1, S2
  under_way_.clear();
}

uint32_t fork_generation() { return generation.load(std::memory_order_relaxed); }

void watch_forks() {
  static const bool watched = (pthread_atfork(nullptr, nullptr, begin_child), true);
  (void)watched;
}

Result<std::shared_ptr<SessionState>> state_of(ocm_session* session) {
  watch_forks();
  std::lock_guard lock(states->mutex);
  const auto known = states->all.find(capi::bits(session));
  if (known != states->all.end()) return known->second;
  auto fresh = std::make_shared<SessionState>();
  const auto added = states->all.emplace(capi::bits(session), fresh).first;
  const Status status = capi::last_failure(ocm_session_on_close(session, end_session, session));
  if (status.is_ok()) return fresh;  // it ends with the session; until end_session() had the lock it was open
  states->all.erase(added);
  return status;
}

}  // namespace ocm::table
