#include "fabric_world.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "wire/control.h"

namespace ocm::simulation {
namespace {

constexpr uint64_t kPumpNs = 200'000;

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
  world_.boot();
  network_.add_node(here(), nullptr);
  for (size_t node = 1; node <= homes; ++node) join_network(node);
  network_.schedule(kTickNs, [this] { tick(); });
}

FabricWorld::~FabricWorld() {
  if (door_.joinable()) door_.join();  // the session hung up
}

void FabricWorld::catch_up() {
  const uint64_t now_ns = network_.now_ns();
  world_.run_for(now_ns - caught_up_ns_);
  caught_up_ns_ = now_ns;
}

void FabricWorld::tick() {
  catch_up();
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
  const std::lock_guard lock(mutex_);
  Home& one = disturb(home);
  one.dead = true;
  ++one.lives;
  network_.kill(name(home));
  world_.kill(home + 1, false);
}

void FabricWorld::restart(size_t home) {
  catch_up();
  const std::lock_guard lock(mutex_);
  if (!homes_[home].dead) return;
  Home& one = disturb(home);
  one.dead = false;
  world_.restart(home + 1);
  join_network(home + 1);
  if (one.stops > 0) network_.stop(name(home));
}

void FabricWorld::stop(size_t home) {
  catch_up();
  const std::lock_guard lock(mutex_);
  if (++disturb(home).stops == 1) network_.stop(name(home));
  world_.stop(home + 1);
}

void FabricWorld::resume(size_t home) {
  catch_up();
  const std::lock_guard lock(mutex_);
  if (--disturb(home).stops == 0) network_.resume(name(home));
  world_.resume(home + 1);
}

void FabricWorld::cut(size_t home) {
  catch_up();
  const std::lock_guard lock(mutex_);
  if (++disturb(home).cuts == 1) network_.cut(here(), name(home));
  world_.cut_link(0, home + 1);
}

void FabricWorld::mend(size_t home) {
  catch_up();
  const std::lock_guard lock(mutex_);
  if (--disturb(home).cuts == 0) network_.mend(here(), name(home));
  world_.mend_link(0, home + 1);
}

bool FabricWorld::is_dead(size_t home) const {
  const std::lock_guard lock(mutex_);
  return homes_[home].dead;
}
bool FabricWorld::is_blocked(size_t home) const {
  const std::lock_guard lock(mutex_);
  return is_blocked_locked(homes_[home]);
}
uint64_t FabricWorld::disturbances(size_t home) const {
  const std::lock_guard lock(mutex_);
  return homes_[home].disturbances;
}
uint64_t FabricWorld::lives(size_t home) const {
  const std::lock_guard lock(mutex_);
  return homes_[home].lives;
}
size_t FabricWorld::disturbed_within(uint64_t ns) const {
  const uint64_t now_ns = network_.now_ns();
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(std::count_if(homes_.begin(), homes_.end(), [&](const Home& home) {
    return is_blocked_locked(home) || (home.disturbances > 0 && home.disturbed_ns + ns > now_ns);
  }));
}

std::string FabricWorld::violations() {
  std::string out;
  for (const std::string& what : world_.violations()) out += what + "\n";
  return out;
}

// ---- the daemon's socket

Result<os::Fd> FabricWorld::dial() {
  if (door_.joinable()) return Status(Code::kNoDaemon, "one session only");
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Status::from_errno(errno, "socketpair");
  }
  door_ = std::thread([this, socket = os::Fd(ends[1])]() mutable { serve(std::move(socket)); });
  return os::Fd(ends[0]);
}

Task<void> FabricWorld::answer(std::shared_ptr<node::Program> program, wire::Envelope request) {
  const uint64_t id = request.id();
  control::Reply reply = co_await world_.daemon(0)->service->program_request(program, std::move(request));
  reply.message.set_id(id);
  reply.message.set_reply(true);
  reply.message.set_fds(static_cast<uint32_t>(reply.fds.size()));
  const std::lock_guard lock(mutex_);
  answers_.push_back(std::move(reply));
}

void FabricWorld::serve(os::Fd socket) {
  const auto program = std::make_shared<node::Program>();
  program->uid = 1000;
  std::string in;
  size_t under_way = 0;
  for (bool open = true; open;) {
    pollfd readable{socket.get(), POLLIN, 0};
    const int timeout_ms = under_way > 0 ? 0 : -1;  // no time passes while nobody waits for the daemon
    if (::poll(&readable, 1, timeout_ms) > 0) {
      char bytes[4096];
      const ssize_t n = ::recv(socket.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
      if (n > 0) in.append(bytes, static_cast<size_t>(n));
      open = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
    }
    wire::Envelope request;
    while (take_message(in, request)) {
      ++under_way;
      network_.schedule(0, [this, program, message = std::make_shared<wire::Envelope>(std::move(request))] {
        catch_up();
        world_.daemon(0)->env->start(answer(program, std::move(*message)));
        catch_up();
      });
    }
    if (under_way > 0) {
      network_.schedule(kPumpNs, [this] { catch_up(); });
      network_.advance(kPumpNs);
    }
    std::deque<control::Reply> ready;
    {
      const std::lock_guard lock(mutex_);
      ready.swap(answers_);
    }
    for (const control::Reply& reply : ready) {
      --under_way;
      std::string text;
      OCM_ASSERT(wire::append_control(reply.message, text).is_ok());
      open = send_all(socket.get(), text, reply.fds) && open;
    }
  }
  network_.schedule(0, [this, program] { world_.daemon(0)->service->program_ended(program); });
  network_.advance(0);
}

}  // namespace ocm::simulation
