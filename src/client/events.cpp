#include "client/events.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "client/session.h"
#include "control.pb.h"
#include "os/interrupt.h"
#include "wire/convert.h"

namespace ocm::client {
namespace {

constexpr uint32_t kResync = 1;
/// So long one request waits at the daemon.
constexpr uint64_t kWaitNs = 60'000'000'000;
/// And so much longer for its answer.
constexpr uint64_t kAnswerNs = 1'000'000'000;
constexpr uint64_t kRedialNs = 50'000'000;

/// False: the deadline passed, or the wait was interrupted.
bool lock_until(std::unique_lock<std::timed_mutex>& lock, os::Deadline deadline) {
  os::Interrupts interrupts;
  while (!os::lock_within(lock, std::chrono::milliseconds(deadline.poll_ms(os::Interrupts::kMs)))) {
    if (deadline.passed() || interrupts.came()) return false;
  }
  return true;
}

}  // namespace

Result<Event> Events::next(os::Deadline deadline) {
  std::unique_lock reading(reading_, std::defer_lock);
  if (!lock_until(reading, deadline))
    return Status(Code::kDeadline, "another thread waits for the next event");
  os::Interrupts interrupts;
  while (waiting_.empty()) {
    const uint32_t interrupts_before = os::interrupts_of_thread();
    const Status status = read(deadline);
    if (!waiting_.empty()) break;
    const bool is_gone = status.code() == Code::kNoDaemon;  // the session connects again
    const bool is_late =                                    // it stands still, and may go on
        status.code() == Code::kDeadline && os::interrupts_of_thread() == interrupts_before;
    if (!status.is_ok() && !is_gone && !is_late) return status;
    if (deadline.passed()) return is_gone ? status : Status(Code::kDeadline, "no event until the deadline");
    if (!is_gone) continue;
    const timespec pause{0, static_cast<long>(std::min(kRedialNs, deadline.left_ns()))};
    ::nanosleep(&pause, nullptr);
    if (interrupts.came()) return os::interrupted();
  }
  Event event = std::move(waiting_.front());
  waiting_.pop_front();
  return event;
}

Status Events::read(os::Deadline deadline) {
  OCM_TRY_ASSIGN(const std::shared_ptr<Daemon> daemon, session_.daemon());
  const uint64_t wait_ns = std::min(deadline.left_ns(), kWaitNs);
  wire::Envelope request;
  auto& asked = *request.mutable_events();
  asked.set_stream(stream_);
  asked.set_after(received_);
  asked.set_wait_ms(static_cast<uint32_t>(wait_ns / 1'000'000));
  const os::Deadline answer_by = os::Deadline::after_ns(wait_ns + kAnswerNs);
  OCM_TRY_ASSIGN(const std::shared_ptr<Call> call, daemon->control().start(request, answer_by));
  OCM_TRY(daemon->control().wait(*call, answer_by));
  const wire::Events& told = call->reply.message->events_reply();
  if (told.stream() != stream_) {
    if (stream_ != 0) waiting_.push_back({.kind = kResync, .node = session_.node()});  // N2
    stream_ = told.stream();
    received_ = 0;
  }
  for (const wire::Events::Event& one : told.events()) {
    if (one.number() <= received_) continue;  // N1
    received_ = one.number();
    waiting_.push_back({.kind = one.kind(),
                        .allocation = wire::id_from<AllocationId>(one.allocation_id()),
                        .name = one.name(),
                        .node = one.node(),
                        .partition = one.partition()});
  }
  return {};
}

}  // namespace ocm::client
