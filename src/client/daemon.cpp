#include "client/daemon.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>

#include "client/fork.h"
#include "control.pb.h"

namespace ocm::client {

Result<std::shared_ptr<Daemon>> Daemon::greet(os::Fd socket, const std::string& program, const Daemon* resume,
                                              os::Deadline deadline) {
  std::shared_ptr<Daemon> daemon(new Daemon);
  daemon->control_ = std::make_unique<ControlConnection>(std::move(socket));

  wire::Envelope request;
  wire::SessionHello& hello = *request.mutable_session_hello();
  hello.set_version(wire::kControlVersion);
  hello.set_program(program);
  if (resume != nullptr) {
    hello.set_resume_session(resume->who_.session.bytes.data(), 16);
    hello.set_resume_key(resume->resume_key_);
  }
  OCM_TRY_ASSIGN(std::shared_ptr<Call> call, daemon->control_->start(request, deadline));
  OCM_TRY(daemon->control_->wait(*call, deadline));

  if (!call->reply.message->has_session_welcome() || call->reply.fds.size() != 2) {
    return Status(Code::kProtocol, "the daemon did not welcome the session");
  }
  const wire::SessionWelcome& welcome = call->reply.message->session_welcome();
  if (welcome.session_id().size() != 16 || welcome.session_key().size() != 32 || welcome.node().empty()) {
    return Status(Code::kProtocol, "the daemon's welcome is malformed");
  }
  std::memcpy(daemon->who_.session.bytes.data(), welcome.session_id().data(), 16);
  std::memcpy(daemon->who_.session_key.data(), welcome.session_key().data(), 32);
  daemon->who_.tls = {welcome.tls_ca_file(), welcome.tls_cert_file(), welcome.tls_key_file()};
  daemon->resume_key_ = welcome.resume_key();
  daemon->node_ = welcome.node();
  daemon->failure_deadline_ns_ = welcome.failure_deadline_ns();
  daemon->slab_bytes_ = welcome.slab_bytes();
  daemon->window_bytes_ = welcome.tcp_window_bytes();
  daemon->lanes_ = std::clamp<uint32_t>(welcome.tcp_lanes(), 1, 64);
  daemon->slots_ = welcome.slots();

  if (daemon->slots_ > 0) {
    OCM_TRY_ASSIGN(daemon->generations_,
                   os::Mapping::map(call->reply.fds[0].get(),
                                    fabric::shm::GenerationTable::bytes(daemon->slots_), false));
  }
  OCM_TRY_ASSIGN(daemon->page_,
                 os::Mapping::map(call->reply.fds[1].get(), fabric::shm::kSessionPageBytes, true));

  remember_socket(daemon->control_->fd());
  return daemon;
}

Daemon::~Daemon() {
  stop_watching();
  forget_socket(control_->fd());
}

Status Daemon::watch(std::function<bool()> resume) {
  resume_ = std::move(resume);
  stop_ = os::Fd(::eventfd(0, EFD_CLOEXEC));
  if (!stop_.is_open()) return Status::from_errno(errno, "eventfd");
  // Signals are the program's: none is delivered to this thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  watcher_ = std::thread([this] { run_watcher(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return {};
}

void Daemon::stop_watching() {
  if (!watcher_.joinable()) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(stop_.get(), &one, sizeof(one));
  watcher_.join();
}

void Daemon::run_watcher() {
  pollfd both[2] = {{control_->fd(), POLLRDHUP, 0}, {stop_.get(), POLLIN, 0}};
  for (;;) {
    if (::poll(both, 2, -1) < 0) continue;
    if (both[1].revents != 0) return;
    if (both[0].revents != 0) break;
  }
  lost_.store(true, std::memory_order_release);
  // A reply may still be in the socket: whoever reads meets the end of the stream by itself, and whoever
  // comes later is told here.
  if (both[0].revents & (POLLHUP | POLLERR)) control_->fail(Status(Code::kNoDaemon, "the daemon hung up"));
  constexpr int kResumeMsFirst = 50, kResumeMsMax = 1000;
  for (int pause_ms = kResumeMsFirst;; pause_ms = std::min(2 * pause_ms, kResumeMsMax)) {
    if (::poll(&both[1], 1, pause_ms) > 0) return;
    if (resume_()) {
      watched_.store(true, std::memory_order_release);
      return;
    }
  }
}

Result<const std::atomic<uint32_t>*> Daemon::slot(uint32_t index) const {
  if (index >= slots_) return Status(Code::kProtocol, "the daemon named a slot that its table does not have");
  return &generations()->generation[index];
}

}  // namespace ocm::client
