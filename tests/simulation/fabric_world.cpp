#include "fabric_world.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "wire/control.h"

extern "C" {
int __real_clock_gettime(clockid_t clock, timespec* out);
int __real_poll(pollfd* fds, nfds_t count, int timeout_ms);
int __real_ppoll(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask);
int __real_sched_yield();
}

namespace ocm::simulation {
namespace {

thread_local FabricWorld* lives_in = nullptr;

WorldOptions options_of(uint64_t seed, size_t homes) {
  WorldOptions options;
  options.seed = seed;
  options.nodes = homes + 1;
  options.random_faults = false;
  options.dram_bytes = uint64_t{64} << 20;
  options.coordinator_offers = false;
  options.invariants_ns = 100'000'000;
  return options;
}

/// The descriptors travel on the first byte.
bool send_all(int fd, const std::string& text, const std::vector<os::Fd>& fds) {
  iovec part{const_cast<char*>(text.data()), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(wire::kControlFdsMax * sizeof(int))] = {};
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    for (size_t i = 0; i < fds.size(); ++i) {
      const int one = fds[i].get();
      std::memcpy(CMSG_DATA(header) + i * sizeof(int), &one, sizeof(int));
    }
  }
  const ssize_t n = ::sendmsg(fd, &message, MSG_NOSIGNAL);
  if (n < 0) return false;
  size_t sent = static_cast<size_t>(n);
  while (sent < text.size()) {
    const ssize_t more = ::send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (more <= 0) return false;
    sent += static_cast<size_t>(more);
  }
  return true;
}

/// A whole message off the front of `in`. False if none is there yet.
bool take_message(std::string& in, wire::Envelope& out) {
  const auto* bytes = reinterpret_cast<const std::byte*>(in.data());
  if (in.size() < wire::kControlHeaderBytes) return false;
  const auto length = wire::control_length({bytes, wire::kControlHeaderBytes});
  OCM_ASSERT(length.is_ok());
  const size_t whole = wire::kControlHeaderBytes + length.value();
  if (in.size() < whole) return false;
  OCM_ASSERT(wire::parse_control({bytes + wire::kControlHeaderBytes, length.value()}, out).is_ok());
  in.erase(0, whole);
  return true;
}

}  // namespace

FabricWorld::FabricWorld(fabric::fake::FakeNetwork& network, uint64_t seed, size_t homes)
    : network_(network), world_(options_of(seed, homes)), caught_up_ns_(network.now_ns()), homes_(homes) {
  lives_in = this;
  world_.boot();
  network_.add_node(here(), nullptr);
  for (size_t node = 1; node <= homes; ++node) join_network(node);
  network_.schedule(kTickNs, [this] { tick(); });
}

FabricWorld::~FabricWorld() {
  serve();  // the session hung up
  lives_in = nullptr;
}

void FabricWorld::catch_up() {
  const uint64_t now_ns = network_.now_ns();
  world_.run_for(now_ns - caught_up_ns_);
  caught_up_ns_ = now_ns;
}

void FabricWorld::tick() {
  catch_up();
  serve();
  network_.schedule(kTickNs, [this] { tick(); });
}

void FabricWorld::join_network(size_t node) {
  network_.add_node(name_of(node), &world_.daemon(node)->home->directory(), [this, node] {
    return world_.daemon(node)->env->now_ns() + network_.now_ns() - caught_up_ns_;
  });
}

// ---- faults

FabricWorld::Home& FabricWorld::disturb(size_t home) {
  Home& out = homes_[home];
  ++out.disturbances;
  out.disturbed_ns = network_.now_ns();
  return out;
}

void FabricWorld::kill(size_t home) {
  catch_up();
  if (homes_[home].dead) return;
  Home& one = disturb(home);
  one.dead = true;
  ++one.lives;
  network_.kill(name(home));
  world_.kill(home + 1, false);
}

void FabricWorld::restart(size_t home) {
  catch_up();
  if (!homes_[home].dead) return;
  Home& one = disturb(home);
  one.dead = false;
  world_.restart(home + 1);
  join_network(home + 1);
  if (one.stops > 0) network_.stop(name(home));
}

void FabricWorld::stop(size_t home) {
  catch_up();
  if (++disturb(home).stops == 1) network_.stop(name(home));
  world_.stop(home + 1);
}

void FabricWorld::resume(size_t home) {
  catch_up();
  if (--disturb(home).stops == 0) network_.resume(name(home));
  world_.resume(home + 1);
}

void FabricWorld::cut(size_t home) {
  catch_up();
  if (++disturb(home).cuts == 1) network_.cut(here(), name(home));
  world_.cut_link(0, home + 1);
}

void FabricWorld::restore(size_t home) {
  catch_up();
  if (--disturb(home).cuts == 0) network_.restore(here(), name(home));
  world_.restore_link(0, home + 1);
}

bool FabricWorld::is_dead(size_t home) const { return homes_[home].dead; }
bool FabricWorld::is_blocked(size_t home) const { return is_blocked(homes_[home]); }
uint64_t FabricWorld::disturbances(size_t home) const { return homes_[home].disturbances; }
uint64_t FabricWorld::lives(size_t home) const { return homes_[home].lives; }
size_t FabricWorld::disturbed_within(uint64_t ns) const {
  const uint64_t now_ns = network_.now_ns();
  return static_cast<size_t>(std::count_if(homes_.begin(), homes_.end(), [&](const Home& home) {
    return is_blocked(home) || (home.disturbances > 0 && home.disturbed_ns + ns > now_ns);
  }));
}

std::string FabricWorld::violations() {
  std::string out;
  for (const std::string& what : world_.violations()) out += what + "\n";
  return out;
}

// ---- the daemon's socket

Result<os::Fd> FabricWorld::dial() {
  if (program_) return Status(Code::kNoDaemon, "one session only");
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Status::from_errno(errno, "socketpair");
  }
  door_ = os::Fd(ends[1]);
  program_ = std::make_shared<node::Program>();
  program_->uid = 1000;
  return os::Fd(ends[0]);
}

void FabricWorld::serve() {
  if (!door_.is_open()) return;
  ssize_t n = 0;
  do {
    char bytes[4096];
    n = ::recv(door_.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n > 0) in_.append(bytes, static_cast<size_t>(n));
  } while (n > 0);
  const bool hung_up = n == 0 || (errno != EAGAIN && errno != EINTR);
  wire::Envelope request;
  while (take_message(in_, request)) {
    ++under_way_;
    world_.daemon(0)->env->start(answer(std::move(request)));
  }
  if (hung_up) {
    door_ = os::Fd();
    world_.daemon(0)->service->program_ended(program_);
  }
  catch_up();
}

Task<void> FabricWorld::answer(wire::Envelope request) {
  const uint64_t id = request.id();
  control::Reply reply = co_await world_.daemon(0)->service->program_request(program_, std::move(request));
  --under_way_;
  reply.message.set_id(id);
  reply.message.set_reply(true);
  reply.message.set_fds(static_cast<uint32_t>(reply.fds.size()));
  std::string text;
  OCM_ASSERT(wire::append_control(reply.message, text).is_ok());
  if (door_.is_open()) (void)send_all(door_.get(), text, reply.fds);
}

// ---- the thread that lives here

int FabricWorld::poll(pollfd* fds, nfds_t count, uint64_t timeout_ns) {
  if (under_way_ > 0) timeout_ns = std::max(timeout_ns, kPumpNs);
  for (uint64_t waited_ns = 0;; waited_ns += kPumpNs) {
    serve();
    const int ready = __real_poll(fds, count, 0);
    if (ready != 0 || waited_ns >= timeout_ns) return ready;
    network_.advance(kPumpNs);
  }
}

}  // namespace ocm::simulation

// ---- in the place of the system's

extern "C" {

int __wrap_clock_gettime(clockid_t clock, timespec* out) {
  using ocm::simulation::lives_in;
  if (lives_in == nullptr) return __real_clock_gettime(clock, out);
  const uint64_t now_ns = lives_in->look_at_clock();
  out->tv_sec = static_cast<time_t>(now_ns / 1'000'000'000);
  out->tv_nsec = static_cast<long>(now_ns % 1'000'000'000);
  return 0;
}

int __wrap_poll(pollfd* fds, nfds_t count, int timeout_ms) {
  using ocm::simulation::lives_in;
  if (lives_in != nullptr) {
    return lives_in->poll(fds, count, timeout_ms < 0 ? ~uint64_t{0} : uint64_t(timeout_ms) * 1'000'000);
  }
  // The session's own thread leaves late replies to the one that lives in virtual time.
  for (pollfd& one : std::span(fds, count)) {
    if ((one.events & POLLRDHUP) != 0) one.events = POLLRDHUP;
  }
  return __real_poll(fds, count, timeout_ms);
}

int __wrap_ppoll(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  using ocm::simulation::lives_in;
  if (lives_in == nullptr) return __real_ppoll(fds, count, timeout, mask);
  const uint64_t timeout_ns =
      timeout == nullptr ? ~uint64_t{0} : uint64_t(timeout->tv_sec) * 1'000'000'000 + timeout->tv_nsec;
  return lives_in->poll(fds, count, timeout_ns);
}

int __wrap_sched_yield() { return ocm::simulation::lives_in == nullptr ? __real_sched_yield() : 0; }
}
