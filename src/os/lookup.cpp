#include "os/lookup.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "os/interrupt.h"
#include "os/signals.h"

namespace ocm::os {

struct Lookup::State {
  std::string host, port;
  bool passive = false;
  Fd ended;  // an eventfd
  // Written before `done`.
  int error = 0;
  std::vector<Endpoint> found;
  std::atomic<bool> done{false};

  /// `flags` besides those of every lookup. True if there is a result.
  bool ask(int flags) {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0) | flags;
    addrinfo* list = nullptr;
    error = ::getaddrinfo(passive && host == "*" ? nullptr : host.c_str(), port.c_str(), &hints, &list);
    for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
      if (one->ai_addrlen > sizeof(sockaddr_storage)) continue;
      Endpoint& endpoint = found.emplace_back();
      std::memcpy(&endpoint.address, one->ai_addr, one->ai_addrlen);
      endpoint.length = one->ai_addrlen;
    }
    if (list != nullptr) ::freeaddrinfo(list);
    return error == 0 && !found.empty();
  }
};

namespace {

using Shared = std::shared_ptr<Lookup::State>;

/// What is under way, by what is asked. Never destroyed: threads may still run when the program ends.
struct Pending {
  std::mutex mutex;
  std::map<std::string, Shared> states;
};
Pending* pending = new Pending;

void begin_child() { pending = new Pending; }

void run(Shared state, const std::string& key) {
  (void)state->ask(0);
  {
    const std::lock_guard lock(pending->mutex);
    OCM_DASSERT(!state->done.load(std::memory_order_relaxed));
    pending->states.erase(key);
  }
  state->done.store(true, std::memory_order_release);
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(state->ended.get(), &one, sizeof(one));
}

Status launch(const Shared& state, const std::string& key) {
  static const bool watched = (::pthread_atfork(nullptr, nullptr, begin_child), true);
  (void)watched;
  OCM_DASSERT(!state->ended.is_open() && pending->states.size() < kLookupsMax);  // U2
  state->ended = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!state->ended.is_open()) return Status::from_errno(errno, "eventfd");
  const BlockedSignals none_for_it;
  try {
    std::thread(run, state, key).detach();
  } catch (const std::system_error& error) {
    return Status(Code::kNoMemory, std::string("no thread to look a name up: ") + error.what());
  }
  return {};
}

}  // namespace

Result<Lookup> Lookup::start(const std::string& host, const std::string& port, bool passive) {
  Lookup out;
  out.state_ = std::make_shared<State>();
  out.state_->host = host;
  out.state_->port = port;
  out.state_->passive = passive;
  if (out.state_->ask(AI_NUMERICHOST)) {
    out.state_->done.store(true, std::memory_order_relaxed);
    return out;
  }
  const std::string key = (passive ? "listen " : "connect ") + host + " " + port;
  const std::lock_guard lock(pending->mutex);
  const auto known = pending->states.find(key);
  if (known != pending->states.end()) {
    out.state_ = known->second;
  } else if (pending->states.size() >= kLookupsMax) {
    return Status(Code::kLimit, "the name server has not answered " + std::to_string(kLookupsMax) +
                                    " questions: " + host + " is not looked up");
  } else {
    OCM_TRY(launch(out.state_, key));
    pending->states.emplace(key, out.state_);  // the thread cannot have erased it: it needs the lock
  }
  OCM_DASSERT(pending->states.size() <= kLookupsMax);  // U2
  out.ended_ = Fd(::fcntl(out.state_->ended.get(), F_DUPFD_CLOEXEC, 0));
  if (!out.ended_.is_open()) return Status::from_errno(errno, "dup");
  return out;
}

bool Lookup::is_done() const { return state_->done.load(std::memory_order_acquire); }

Result<std::vector<Endpoint>> Lookup::result() const {
  OCM_ASSERT(is_done());  // who saw the descriptor readable is ordered after the thread by this, too
  if (!state_->found.empty()) return state_->found;
  return Status(Code::kInvalidArgument,
                "cannot resolve " + state_->host + ": " + ::gai_strerror(state_->error));
}

Result<std::vector<Endpoint>> lookup(const std::string& host, const std::string& port, bool passive,
                                     Deadline deadline) {
  OCM_TRY_ASSIGN(const Lookup asked, Lookup::start(host, port, passive));
  Interrupts interrupts;
  while (!asked.is_done()) {
    if (deadline.passed()) {
      return Status(Code::kDeadline, "cannot resolve " + host + ": the name server does not answer");
    }
    pollfd ended{asked.fd(), POLLIN, 0};
    ::poll(&ended, 1, deadline.poll_ms(interrupts.sleep_ms(60'000)));
    if (!asked.is_done() && interrupts.came()) return interrupted();
  }
  return asked.result();
}

}  // namespace ocm::os
