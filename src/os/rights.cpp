#include "os/rights.h"

#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace ocm::os {
namespace {

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

constexpr long kCallBackNs = 1'000'000;

/// The thread that closes what may wait. It is never destroyed: it may wait when the process ends, which then waits for
/// nothing.
class Closer {
 public:
  static Closer& get() {
    static Closer* const one = new Closer;
    return *one;
  }
  void close(Fd socket) {
    OCM_DASSERT(socket.is_open());
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(socket));
    if (!runs_) {
      try {
        std::thread([this] { run(); }).detach();
        runs_ = true;
      } catch (const std::system_error&) {  // the next one tries again
      }
    }
    wake_.notify_one();
  }

 private:
  void run() {
    sigset_t others;
    sigfillset(&others);
    sigdelset(&others, SIGURG);
    ::pthread_sigmask(SIG_SETMASK, &others, nullptr);
    struct sigaction now {};
    if (::sigaction(SIGURG, nullptr, &now) == 0 && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)) {
      // What is ignored calls nobody back.
      struct sigaction none {};
      none.sa_handler = [](int) {};
      none.sa_flags = SA_RESTART;
      ::sigaction(SIGURG, &none, nullptr);
    }
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGURG;
    event.sigev_notify_thread_id = ::gettid();
    timer_t timer{};
    const bool has_timer = ::timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
    const auto call_back = [&](long each_ns) {
      const itimerspec times{{0, each_ns}, {0, each_ns}};
      if (has_timer) ::timer_settime(timer, 0, &times, nullptr);
    };
    for (;;) {
      Fd one;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return !waiting_.empty(); });
        one = std::move(waiting_.front());
        waiting_.pop_front();
      }
      call_back(kCallBackNs);
      one = Fd();
      call_back(0);
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Fd> waiting_;
  bool runs_ = false;
};

}  // namespace

void refuse_rights(int listener) {
  const int off = 0;
  ::setsockopt(listener, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off));
}

bool passes_rights(int socket) {
  int value = 0;
  socklen_t length = sizeof(value);
  if (::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &value, &length) != 0 || value != AF_UNIX) return false;
  value = 1;
  length = sizeof(value);
  return ::getsockopt(socket, SOL_SOCKET, SO_PASSRIGHTS, &value, &length) != 0 || value != 0;
}

ssize_t receive_without_rights(int socket, void* to, size_t bytes) {
  // Urgent bytes stand among the others, or a read would drop theirs in passing.
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on));
  iovec part{to, bytes};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  const ssize_t seen = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_PEEK);
  if (seen <= 0) return seen;
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    errno = EBADMSG;
    return -1;
  }
  return ::recv(socket, to, static_cast<size_t>(seen), MSG_DONTWAIT);  // no more than was seen
}

void close_unread(Fd socket) {
  if (passes_rights(socket.get())) Closer::get().close(std::move(socket));
}

}  // namespace ocm::os
