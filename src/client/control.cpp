#include "client/control.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "control.pb.h"
#include "fabric/wait.h"
#include "os/interrupt.h"

namespace ocm::client {
namespace {

constexpr uint64_t kReplySpinNs = 50'000;
constexpr size_t kFdsWaitingMax = 64;
constexpr size_t kReadBytes = 64 * 1024;

}  // namespace

ControlConnection::ControlConnection(os::Fd socket) : socket_(std::move(socket)) {}

// A code alone: a sentence takes memory, and a destructor must not throw.
ControlConnection::~ControlConnection() { fail(Code::kCancelled); }

Result<std::shared_ptr<Call>> ControlConnection::start(wire::Envelope& request, os::Deadline deadline,
                                                       bool* sent) {
  auto call = std::make_shared<Call>();
  call->gives_memory = request.has_allocate() || request.has_attach();
  if (request.has_free() || (request.has_session_restore() && request.session_restore().complete()))
    call->again = std::make_shared<wire::Envelope>(request);
  {
    std::lock_guard lock(mutex_);
    if (failed()) return why_;
    call->id = next_id_++;
    [[maybe_unused]] const bool is_new = calls_.emplace(call->id, call).second;
    OCM_DASSERT(is_new);
  }
  request.set_id(call->id);
  std::string bytes;
  Status status = wire::append_control(request, bytes);
  if (!status.is_ok()) {
    forget(*call);
    return status;
  }
  bool begun = false;
  status = send_all(bytes, deadline, begun);
  if (sent != nullptr) *sent = begun || status.is_ok();
  send_returns();
  if (!status.is_ok()) {
    if (!begun || !give_up(*call)) forget(*call);
    return status;
  }
  return call;
}

bool ControlConnection::tell(wire::Envelope& request) {
  bool sent = false;
  auto call = start(request, os::Deadline::after_ns(1'000'000), &sent);
  // Who reads may have its answer already.
  if (call.is_ok() && !give_up(**call)) return (*call)->status.code() != Code::kQueueFull;
  return sent;
}

Status ControlConnection::send_all(const std::string& bytes, os::Deadline deadline, bool& begun) {
  constexpr size_t kKeptBytes = 64 * 1024;
  std::lock_guard lock(sending_);
  const os::HoldsLocks held;
  os::Interrupts interrupts;
  const size_t before = unsent_.size();
  unsent_ += bytes;  // the last that may need memory: half a message would be the end of the connection
  size_t sent = 0;
  while (sent < unsent_.size()) {
    const ssize_t n =
        ::send(socket_.get(), unsent_.data() + sent, unsent_.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      sent += static_cast<size_t>(n);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (deadline.passed() || interrupts.came()) {
        begun = sent > before;
        if (!begun) unsent_.resize(before);
        unsent_.erase(0, sent);
        return Status(Code::kDeadline, "the daemon does not take requests in time");
      }
      pollfd p{socket_.get(), POLLOUT, 0};
      ::poll(&p, 1, deadline.poll_ms(interrupts.sleep_ms(100)));
      if (failed()) break;
    } else if (errno != EINTR) {
      fail(Status(Code::kNoDaemon, "the daemon hung up"));
      break;
    }
  }
  const bool all = sent == unsent_.size();
  unsent_.clear();
  if (unsent_.capacity() > kKeptBytes) unsent_ = std::string();
  if (all) return {};
  std::lock_guard state(mutex_);
  return why_;
}

void ControlConnection::send_returns() {
  {
    std::lock_guard lock(mutex_);
    if (returns_.empty()) return;
  }
  std::unique_lock sender(sending_, std::try_to_lock);
  if (!sender.owns_lock()) return;  // its holder comes here next
  {
    std::lock_guard lock(mutex_);
    unsent_ += returns_;
    returns_.clear();
  }
  const ssize_t n = ::send(socket_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n > 0) unsent_.erase(0, static_cast<size_t>(n));  // the rest goes with the next request
}

bool ControlConnection::test(Call& call) {
  if (call.done.load(std::memory_order_acquire)) return true;
  if (std::unique_lock reader(reading_, std::try_to_lock); reader.owns_lock()) {
    while (read_some()) {
    }
  }
  return call.done.load(std::memory_order_acquire);
}

Status ControlConnection::wait(Call& call, os::Deadline deadline) {
  fabric::Waiter waiter(kReplySpinNs);
  bool spinning = true;
  os::Interrupts interrupts;
  while (!call.done.load(std::memory_order_acquire)) {
    if (std::unique_lock reader(reading_, std::try_to_lock); reader.owns_lock()) {
      if (read_some()) continue;
      if (call.done.load(std::memory_order_acquire)) break;
      if (!spinning) {
        pollfd p{socket_.get(), POLLIN, 0};
        if (::poll(&p, 1, deadline.poll_ms(interrupts.sleep_ms(1000))) > 0) continue;
      }
    } else if (!spinning) {
      std::unique_lock lock(mutex_);
      ++sleepers_;
      // 20 ms: the reader may have left between try_lock and here.
      changed_.wait_for(lock, std::chrono::milliseconds(deadline.poll_ms(20) > 0 ? deadline.poll_ms(20) : 1));
      --sleepers_;
    }
    spinning = spinning && waiter.spins(os::now_ns());
    const bool is_interrupted = !spinning && interrupts.came();
    if (!call.done.load(std::memory_order_acquire) && (is_interrupted || deadline.passed())) {
      if (!give_up(call)) break;
      return Status(Code::kDeadline, is_interrupted ? "the wait for the daemon's answer was interrupted"
                                                    : "the daemon did not answer in time");
    }
  }
  std::lock_guard lock(mutex_);
  if (sleepers_ > 0) changed_.notify_all();  // one of them becomes the reader
  return call.status;
}

bool ControlConnection::read_some() {
  if (failed()) return false;
  if (in_.size() < in_used_ + kReadBytes) in_.resize(in_used_ + kReadBytes);
  iovec part{in_.data() + in_used_, in_.size() - in_used_};
  alignas(cmsghdr) char ancillary[CMSG_SPACE(sizeof(int) * wire::kControlFdsMax)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = ancillary;
  message.msg_controllen = sizeof(ancillary);
  const ssize_t n = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0) {
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
      fail(Status(Code::kNoDaemon, "the connection to the daemon broke"));
    }
    return false;
  }
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      fds_.emplace_back(fd);
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) fds_cut_ = true;
  if (n == 0) {
    fail(Status(Code::kNoDaemon, "the daemon hung up"));
    return false;
  }
  in_used_ += static_cast<size_t>(n);
  OCM_ASSERT(in_used_ <= in_.size());
  while (parse_one()) {
  }
  send_returns();
  if (fds_.size() > kFdsWaitingMax) fail(Status(Code::kProtocol, "the daemon sent too many descriptors"));
  return true;
}

bool ControlConnection::parse_one() {
  if (failed() || in_used_ < wire::kControlHeaderBytes) return false;
  const auto* start = reinterpret_cast<const std::byte*>(in_.data());
  const Result<uint32_t> length = wire::control_length({start, wire::kControlHeaderBytes});
  if (!length.is_ok()) {
    fail(length.status());
    return false;
  }
  const size_t whole = wire::kControlHeaderBytes + length.value();
  if (in_used_ < whole) return false;
  Reply reply{std::make_shared<wire::Envelope>(), {}};
  Status status = wire::parse_control({start + wire::kControlHeaderBytes, length.value()}, *reply.message);
  if (!status.is_ok()) {
    fail(status);
    return false;
  }
  std::memmove(in_.data(), in_.data() + whole, in_used_ - whole);
  in_used_ -= whole;

  const uint32_t wanted = reply.message->fds();
  while (reply.fds.size() < wanted && !fds_.empty()) {
    reply.fds.push_back(std::move(fds_.front()));
    fds_.pop_front();
  }
  if (reply.message->code() != 0) {
    status = wire::status_of(*reply.message);
  } else if (reply.fds.size() < wanted) {
    status = fds_cut_ ? Status(Code::kNoFds) : Status(Code::kProtocol, "a descriptor is missing");
  }
  if (wanted > 0) fds_cut_ = false;

  std::unique_lock lock(mutex_);
  const auto found = calls_.find(reply.message->id());
  if (found == calls_.end()) {
    std::shared_ptr<wire::Envelope> again = return_late(*reply.message);
    lock.unlock();
    if (again != nullptr && refused_) refused_(std::move(again));
    return true;
  }
  const std::shared_ptr<Call> call = found->second;
  calls_.erase(found);
  call->reply = std::move(reply);
  finish(call, std::move(status));
  return true;
}

bool ControlConnection::is_valid() const {
  std::lock_guard lock(mutex_);
  if (failed() && !calls_.empty()) return false;
  if (late_.load(std::memory_order_acquire) != given_up_ids_.size()) return false;
  return std::all_of(calls_.begin(), calls_.end(), [this](const auto& one) {
    const Call& call = *one.second;
    return call.id == one.first && call.id < next_id_ && !given_up_ids_.contains(call.id) &&
           !call.done.load(std::memory_order_acquire);
  });
}

/// Holds mutex_.
void ControlConnection::finish(const std::shared_ptr<Call>& call, Status status) {
  OCM_ASSERT(!call->done.load(std::memory_order_relaxed));  // it is answered once
  call->status = std::move(status);
  call->done.store(true, std::memory_order_release);
  if (sleepers_ > 0) changed_.notify_all();
}

void ControlConnection::forget(Call& call) {
  std::lock_guard lock(mutex_);
  calls_.erase(call.id);
}

bool ControlConnection::give_up(Call& call) {
  {
    std::lock_guard lock(mutex_);
    if (calls_.erase(call.id) == 0) return false;
    given_up_ids_.emplace(call.id, GivenUp{call.gives_memory, call.again});
    late_.store(given_up_ids_.size(), std::memory_order_release);
  }
  if (given_up_) given_up_();
  return true;
}

void ControlConnection::cancel(Call& call, const Status& why) {
  if (!give_up(call)) return;
  OCM_ASSERT(!call.done.load(std::memory_order_relaxed));
  call.status = why;
  call.done.store(true, std::memory_order_release);
}

std::shared_ptr<wire::Envelope> ControlConnection::return_late(const wire::Envelope& reply) {
  const auto given_up = given_up_ids_.extract(reply.id());
  if (given_up.empty()) return nullptr;
  late_.store(given_up_ids_.size(), std::memory_order_release);
  if (wire::status_of(reply).code() == Code::kQueueFull) return given_up.mapped().again;
  // A join's parts are still the program's handles; and what became of a part is told of one that it has.
  if (!given_up.mapped().gives_memory || reply.code() != 0 || !reply.has_allocation()) return nullptr;
  const auto request = std::make_shared<wire::Envelope>();
  request->set_id(next_id_++);
  request->mutable_free()->set_allocation_id(reply.allocation().allocation_id());
  request->mutable_free()->set_hold_id(reply.allocation().hold_id());
  if (!wire::append_control(*request, returns_).is_ok()) return nullptr;  // it is short
  given_up_ids_.emplace(request->id(), GivenUp{false, request});
  late_.store(given_up_ids_.size(), std::memory_order_release);
  return nullptr;
}

void ControlConnection::take_late() {
  if (std::unique_lock reader(reading_, std::try_to_lock); reader.owns_lock()) {
    while (read_some()) {
    }
  }
}

void ControlConnection::fail(const Status& why) {
  std::lock_guard lock(mutex_);
  if (failed()) return;
  why_ = why;
  failed_.store(true, std::memory_order_release);
  // Wakes a reader that sleeps in poll; the descriptor itself stays open until nobody can use it.
  ::shutdown(socket_.get(), SHUT_RDWR);
  for (auto& [id, call] : calls_) {
    call->status = why;
    call->done.store(true, std::memory_order_release);
  }
  calls_.clear();
  given_up_ids_.clear();
  late_.store(0, std::memory_order_release);
  changed_.notify_all();
}

}  // namespace ocm::client
