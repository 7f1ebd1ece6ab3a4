#include "client/daemon.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>
#include <system_error>

#include "base/text.h"
#include "client/fork.h"
#include "control.pb.h"
#include "fabric/registry/registry.h"
#include "os/interrupt.h"
#include "os/signals.h"
#include "wire/version.h"

namespace ocm::client {
namespace {

std::atomic<uint64_t> runs{0};

/// What the daemon says of settings that this library has; another version may have others.
fabric::Settings settings_from(const wire::SessionWelcome& welcome) {
  fabric::Settings out;
  for (const wire::FabricSetting& told : welcome.fabric_settings()) {
    const fabric::Entry* entry =
        is_fabric(told.fabric()) ? fabric::find_entry(static_cast<Fabric>(told.fabric())) : nullptr;
    const Setting* setting = entry == nullptr ? nullptr : entry->setting(told.key());
    if (setting == nullptr || told.value() < setting->least || told.value() > setting->most) continue;
    out.set(entry->fabric, *setting, told.value());
  }
  return out;
}

/// The text with '?' for each byte that is not part of UTF-8: a message with such a byte is none.
std::string as_utf8(std::string_view text) {
  constexpr size_t kCharacterBytesMax = 4;
  std::string out;
  for (size_t i = 0; i < text.size();) {
    size_t bytes = 1;
    while (bytes <= kCharacterBytesMax && !is_utf8(text.substr(i, bytes))) ++bytes;
    const bool good = bytes <= kCharacterBytesMax;
    good ? out += text.substr(i, bytes) : out += '?';
    i += good ? bytes : 1;
  }
  return out;
}

}  // namespace

Daemon::Daemon() : run_(++runs) {}

Result<std::shared_ptr<Daemon>> Daemon::greet(os::Fd socket, const std::string& program, const Daemon* resume,
                                              os::Deadline deadline) {
  std::shared_ptr<Daemon> daemon(new Daemon);
  daemon->wake_ = os::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!daemon->wake_.is_open()) return Status::from_errno(errno, "eventfd");
  daemon->control_ = std::make_unique<ControlConnection>(std::move(socket));
  daemon->control_->on_given_up([raw = daemon.get()] { raw->wake_watcher(); });

  wire::Envelope request;
  wire::SessionHello& hello = *request.mutable_session_hello();
  wire::tell_versions(wire::kControlVersions, hello);
  hello.set_program(as_utf8(program));
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
  if (welcome.has_versions())
    OCM_TRY(wire::agree("control", wire::kControlVersions, wire::versions_from(welcome.versions())).status());
  std::memcpy(daemon->who_.session.bytes.data(), welcome.session_id().data(), 16);
  std::memcpy(daemon->who_.session_key.data(), welcome.session_key().data(), 32);
  daemon->who_.tls = {welcome.tls_ca_file(), welcome.tls_cert_file(), welcome.tls_key_file()};
  daemon->resume_key_ = welcome.resume_key();
  daemon->node_ = welcome.node();
  daemon->partition_ = welcome.partition();
  daemon->failure_deadline_ns_ = welcome.failure_deadline_ns();
  daemon->slab_bytes_ = welcome.slab_bytes();
  daemon->fabrics_ = settings_from(welcome);
  daemon->slots_ = welcome.slots();
  daemon->uid_ = welcome.uid();

  if (daemon->slots_ > 0) {
    OCM_TRY_ASSIGN(daemon->generations_,
                   os::Mapping::map(call->reply.fds[0].get(),
                                    fabric::shm::GenerationTable::bytes(daemon->slots_), false));
  }
  OCM_TRY_ASSIGN(daemon->page_,
                 os::Mapping::map(call->reply.fds[1].get(), fabric::shm::kSessionPageBytes, true));
  const uint32_t filled = daemon->page()->bytes.load(std::memory_order_acquire);
  if (filled != 0 && filled < sizeof(fabric::shm::SessionPage)) {
    return Status(Code::kProtocol, "the daemon fills " + std::to_string(filled) +
                                       " bytes of the session's page, and this library reads " +
                                       std::to_string(sizeof(fabric::shm::SessionPage)));
  }

  remember_socket(daemon->control_->fd());
  return daemon;
}

Daemon::~Daemon() {
  stop_watching();
  if (control_ != nullptr) forget_socket(control_->fd());  // null where greet() failed early
}

Status Daemon::watch(std::function<bool()> resume, std::function<bool()> due) {
  resume_ = std::move(resume);
  due_ = std::move(due);
  const os::BlockedSignals none_for_it;
  try {
    watcher_ = std::thread([this] { run_watcher(); });
  } catch (const std::system_error& error) {
    return Status(Code::kNoMemory, std::string("the session's thread cannot be started (") + error.what() +
                                       "); raise this process' limit on memory or on processes");
  }
  return {};
}

void Daemon::stop_watching() {
  if (!watcher_.joinable()) return;
  stopping_.store(true, std::memory_order_release);
  wake_watcher();
  watcher_.join();
}

void Daemon::wake_watcher() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof(one));
}

bool Daemon::is_stopped(int poll_ms) {
  pollfd wake{wake_.get(), POLLIN, 0};
  uint64_t count = 0;
  if (::poll(&wake, 1, poll_ms) > 0) {
    [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &count, sizeof(count));
  }
  return stopping_.load(std::memory_order_acquire);
}

void Daemon::run_watcher() {
  const os::Uninterrupted for_all;
  // A reply that its caller gave up may be the last one for long: it is read here.
  constexpr int kOtherReaderMs = 20;
  pollfd both[2] = {{control_->fd(), POLLRDHUP, 0}, {wake_.get(), POLLIN, 0}};
  for (;;) {
    constexpr int kDueAgainMs = 100;
    bool due = true;
    try {
      due = due_();
    } catch (const std::bad_alloc&) {  // later
    }
    both[0].events = control_->awaits_late() ? POLLRDHUP | POLLIN : POLLRDHUP;
    if (::poll(both, 2, due ? kDueAgainMs : -1) < 0) continue;
    if (both[1].revents != 0 && is_stopped(0)) return;
    if ((both[0].revents & ~POLLIN) != 0) break;
    if ((both[0].revents & POLLIN) != 0) {
      try {
        control_->take_late();
      } catch (const std::bad_alloc&) {
        control_->fail(Status(Code::kNoMemory));  // what it had read of the stream is lost
      }
      if (is_stopped(kOtherReaderMs)) return;
    }
  }
  lost_.store(true, std::memory_order_release);
  // A reply may still be in the socket: whoever reads meets the end of the stream by itself, and whoever
  // comes later is told here.
  if (both[0].revents & (POLLHUP | POLLERR)) control_->fail(Status(Code::kNoDaemon, "the daemon hung up"));
  constexpr int kResumeMsFirst = 50, kResumeMsMax = 1000;
  for (int pause_ms = kResumeMsFirst;; pause_ms = std::min(2 * pause_ms, kResumeMsMax)) {
    if (is_stopped(pause_ms)) return;
    bool resumed = false;
    try {
      resumed = resume_();
    } catch (const std::bad_alloc&) {
    }
    if (resumed) {
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
