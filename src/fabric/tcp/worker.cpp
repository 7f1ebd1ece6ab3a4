#include "fabric/tcp/worker.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <exception>

#include "base/log.h"
#include "fabric/tcp/socket.h"
#include "fabric/wait.h"
#include "os/clock.h"
#include "os/cpu.h"
#include "os/fd_reserve.h"

namespace ocm::fabric::tcp {
namespace {

constexpr int kEventsMax = 64;
// Where users share a worker, all that have something to do are to be told, and each runs for a moment (W5).
constexpr int kCrowdedEventsMax = 1024;
constexpr uint64_t kRunBytes = uint64_t{4} << 20, kCrowdedRunBytes = uint64_t{256} << 10;
// So many hot connections are tried directly and are not in the epoll set: for each packet the kernel would
// have to tell epoll too. With more, asking epoll is cheaper than trying each.
constexpr size_t kDirectMax = 4;
// Empty rounds between two looks at epoll while spinning.
constexpr uint32_t kRoundsPerPoll = 32;
// A yield to nobody takes half a microsecond.
constexpr uint64_t kSharedYieldNs = 3'000;
constexpr uint64_t kMoveEveryNs = 5'000'000;
constexpr uint64_t kAcceptPauseNs = 100'000'000;
constexpr int kAcceptsPerEvent = 64;

}  // namespace

Result<std::unique_ptr<Worker>> Worker::make(ServerShared& shared) {
  std::unique_ptr<Worker> worker(new Worker(shared));
  worker->epoll_ = os::Fd(::epoll_create1(EPOLL_CLOEXEC));
  os::Fd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  worker->reserve_ = os::Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!worker->epoll_.is_open() || !wake.is_open()) return Status::from_errno(errno, "epoll");
  worker->bell_ = std::make_shared<Bell>(std::move(wake));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &worker->bell_;
  if (::epoll_ctl(worker->epoll_.get(), EPOLL_CTL_ADD, worker->bell_->fd(), &event) != 0) {
    return Status::from_errno(errno, "epoll_ctl");
  }
  worker->resume_accepting();
  return worker;
}

void Worker::stop() {
  stopping_.store(true, std::memory_order_release);
  bell_->wake();
  if (thread_.joinable()) thread_.join();
  bell_->wait_for_all();
}

void Worker::adopt(os::Fd fd) {
  load_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard lock(adopted_mutex_);
    adopted_.push_back(std::move(fd));
    if (adopted_.size() > kUnprovedMax) {  // W4
      adopted_.pop_front();
      load_.fetch_sub(1, std::memory_order_relaxed);
      shared_.stats.refused.fetch_add(1, std::memory_order_relaxed);
    }
  }
  bell_->wake();
}

void Worker::loop() {
  uint64_t busy_ns = os::now_ns();
  uint32_t rounds = 0;
  while (!stopping_.load(std::memory_order_acquire)) {
    const uint64_t now = os::now_ns();
    moved_ = false;
    if (run_hot(now)) busy_ns = now;
    ++rounds;
    if (hot_.size() > direct_ || rounds % kRoundsPerPoll == 0 || now - polled_ns_ >= Shares::kPassNs)
      poll_events(0);
    const bool crowded = !moved_ && rounds % detail::kRoundsPerYield == 0 && !make_way();
    if (moved_) busy_ns = os::now_ns();
    sweep(now);
    const bool more = std::any_of(hot_.begin(), hot_.end(), [](Connection* c) { return c->has_more(); });
    if (!more && (crowded || (now > busy_ns && now - busy_ns > shared_.options.spin_ns))) {
      // This round may have taken the wake-up of stop().
      if (stopping_.load(std::memory_order_acquire)) break;
      cool_all();
      OCM_DASSERT(is_valid());
      poll_events(sleep_ms(now));
      sweep(os::now_ns());
      busy_ns = os::now_ns();
      if (accept_paused_ && busy_ns >= paused_until_ns_) resume_accepting();
    }
  }
  shared_.stats.connections.fetch_sub(connections_.size(), std::memory_order_relaxed);
  connections_.clear();
}

bool Worker::is_valid() const {
  const auto all_here = [this](const std::vector<Connection*>& list) {
    return std::all_of(list.begin(), list.end(), [this](Connection* c) { return connections_.contains(c); });
  };
  const auto direct = static_cast<size_t>(
      std::count_if(hot_.begin(), hot_.end(), [](const Connection* c) { return c->direct; }));
  return all_here(hot_) && all_here(unproved_) && all_here(watched_) && direct == direct_ &&
         direct_ <= kDirectMax &&
         std::all_of(hot_.begin(), hot_.end(), [](const Connection* c) { return c->hot; }) &&  // W3
         std::all_of(watched_.begin(), watched_.end(), [](const Connection* c) { return c->watched; }) &&
         load_.load(std::memory_order_relaxed) >= connections_.size() && shares_.is_valid();
}

bool Worker::make_way() {
  const uint64_t before = os::now_ns();
  ::sched_yield();
  const uint64_t after = os::now_ns();
  if (after - before >= detail::kCrowdedYieldNs) return false;
  if (after - before < kSharedYieldNs || after < move_after_ns_) return true;
  // Somebody ran here meanwhile. If it is a peer of this host, the two take turns on one processor, and the
  // scheduler can leave them so for seconds.
  const int cpu = os::current_cpu();
  for (const Connection* connection : hot_) {
    if (incoming_cpu(connection->fd()) != cpu) continue;
    os::leave_cpu(cpu);
    move_after_ns_ = after + kMoveEveryNs;
    break;
  }
  return true;
}

int Worker::sleep_ms(uint64_t now_ns) const {
  uint64_t until = ~uint64_t{0};
  if (accept_paused_) until = paused_until_ns_;
  if (!unproved_.empty())
    until = std::min(until, unproved_.front()->accepted_ns + shared_.options.authenticate_ns);
  if (!watched_.empty()) until = std::min(until, look_at_ns_);
  if (until == ~uint64_t{0}) return -1;
  return until <= now_ns ? 0 : static_cast<int>(std::min<uint64_t>((until - now_ns) / 1'000'000 + 1, 60'000));
}

void Worker::poll_events(int timeout_ms) {
  epoll_event events[kCrowdedEventsMax];
  const int count =
      ::epoll_wait(epoll_.get(), events, shares_.is_crowded() ? kCrowdedEventsMax : kEventsMax, timeout_ms);
  const uint64_t now = polled_ns_ = os::now_ns();
  shares_.begin_pass();
  for (Round round(static_cast<size_t>(std::max(count, 0)), events_from_); round.has_more();) {
    const size_t i = round.take();
    void* what = events[i].data.ptr;
    if (what == &bell_) {
      uint64_t drained = 0;
      [[maybe_unused]] const ssize_t n = ::read(bell_->fd(), &drained, sizeof(drained));
      take_adopted();
      run_rung(now);
    } else if (what == &shared_.listener) {
      accept_all();
      take_adopted();
    } else {
      auto& connection = *static_cast<Connection*>(what);
      if (connection.is_closed()) continue;
      if ((events[i].events & (EPOLLERR | EPOLLHUP)) != 0 && connection.is_silent()) {
        connection.abort();  // it would not notice, and epoll tells it again and again
        closed_.push_back(&connection);
      } else if (may_run(connection))
        run_one(connection, now);
      else
        round.left_out(i);  // epoll tells it again
    }
  }
}

void Worker::run_rung(uint64_t now_ns) {
  for (const void* who : bell_->take()) {
    // It may have ended, and its address be another's, who is asked in vain.
    const auto found = connections_.find(static_cast<Connection*>(const_cast<void*>(who)));
    if (found != connections_.end() && !found->second->is_closed()) run_one(*found->second, now_ns);
  }
}

bool Worker::run_hot(uint64_t now_ns) {
  bool moved = false;
  shares_.begin_pass();
  for (Round round(hot_.size(), hot_from_); round.has_more();) {
    const size_t i = round.take();
    Connection& connection = *hot_[i];
    if (!connection.direct && !connection.has_more()) continue;
    if (!may_run(connection))
      round.left_out(i);
    else if (run_one(connection, now_ns))
      moved = true;
  }
  return moved;
}

bool Worker::run_one(Connection& connection, uint64_t now_ns) {
  bool moved = false;
  const bool crowded = shares_.is_crowded();
  const uint64_t began_ns = crowded ? os::now_ns() : 0;
  try {
    moved = connection.run(scratch_, crowded ? kCrowdedRunBytes : kRunBytes);
  } catch (const std::exception& error) {  // out of memory: this peer's connection ends, nobody else's
    connection.abort();
    tell_failure(error, now_ns);
    moved = true;
  }
  if (crowded && connection.counted) shares_.spent(connection.uid(), os::now_ns() - began_ns);
  if (!connection.counted && connection.is_authenticated()) {
    connection.counted = true;
    shares_.joined(connection.uid());
  }
  if (connection.is_closed()) {
    if (connection.refusal()) tell_refusal(*connection.refusal(), now_ns);
    closed_.push_back(&connection);
  }
  if (moved) {
    moved_ = true;
    heat(connection, now_ns);
  }
  return moved;
}

void Worker::heat(Connection& connection, uint64_t now_ns) {
  connection.active_ns = now_ns;
  if (connection.hot || connection.is_closed()) return;
  connection.hot = true;
  if (!connection.watched) {
    connection.watched = true;
    watched_.push_back(&connection);
    look_at_ns_ = std::min(look_at_ns_, now_ns + shared_.options.release_ns / 4);
  }
  hot_.push_back(&connection);
  if (direct_ >= kDirectMax) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection.fd(), nullptr);
  connection.direct = true;
  ++direct_;
}

void Worker::cool(Connection& connection) {
  connection.hot = false;
  const bool was_direct = connection.direct;
  OCM_DASSERT(!was_direct || direct_ > 0);
  if (was_direct) --direct_;
  connection.direct = false;
  if (connection.is_closed()) return;
  const uint32_t wanted = (connection.wants_read() ? uint32_t{EPOLLIN} : 0u) |
                          (connection.wants_write() ? uint32_t{EPOLLOUT} : 0u);
  if (!was_direct && wanted == connection.armed_events) return;
  epoll_event event{};
  event.events = wanted;
  event.data.ptr = &connection;
  const int how = was_direct ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  if (::epoll_ctl(epoll_.get(), how, connection.fd(), &event) != 0) {  // no memory: it would never be heard
    connection.abort();
    closed_.push_back(&connection);
  }
  connection.armed_events = wanted;
}

void Worker::cool_all() {
  for (Connection* connection : hot_) cool(*connection);
  hot_.clear();
}

void Worker::look(uint64_t now_ns) {
  look_at_ns_ = ~uint64_t{0};
  std::erase_if(watched_, [&](Connection* c) {
    const TcpServerOptions& options = shared_.options;
    uint64_t again = c->look(now_ns, options.release_ns, options.vanished_ns);
    if (c->is_closed()) closed_.push_back(c);
    if (again == 0 && c->hot) again = now_ns + options.release_ns / 4;
    if (again == 0) {
      c->watched = false;
      return true;
    }
    look_at_ns_ = std::min(look_at_ns_, again);
    return false;
  });
}

void Worker::sweep(uint64_t now_ns) {
  if (now_ns >= look_at_ns_) look(now_ns);
  // The earliest accepted stand in front; most have proved themselves long before their time.
  std::erase_if(unproved_, [&](Connection* c) { return c->is_closed() || c->is_authenticated(); });
  for (Connection* c : unproved_) {
    if (now_ns < c->accepted_ns + shared_.options.authenticate_ns) break;
    closed_.push_back(c);
    c->abort();
    shared_.stats.refused.fetch_add(1, std::memory_order_relaxed);
  }
  if (!closed_.empty()) {
    std::erase_if(unproved_, [](Connection* c) { return c->is_closed(); });
    std::erase_if(watched_, [](Connection* c) { return c->is_closed(); });
    std::erase_if(hot_, [&](Connection* c) {
      if (!c->is_closed()) return false;
      cool(*c);
      return true;
    });
    for (Connection* closed : closed_) {
      const auto found = connections_.find(closed);
      if (found == connections_.end()) continue;
      if (closed->counted) shares_.left(closed->uid());
      connections_.erase(found);
      load_.fetch_sub(1, std::memory_order_relaxed);
      shared_.stats.connections.fetch_sub(1, std::memory_order_relaxed);
    }
    closed_.clear();
  }
  std::erase_if(hot_, [&](Connection* c) {
    if (c->has_more() || now_ns < c->active_ns + shared_.options.spin_ns) return false;
    cool(*c);
    return true;
  });
}

void Worker::accept_all() {
  for (int i = 0; i < kAcceptsPerEvent; ++i) {
    os::Fd fd(::accept4(shared_.listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.is_open()) {
      if (errno == EMFILE || errno == ENFILE) {
        reserve_.reset();
        refuse(os::Fd(::accept4(shared_.listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)));
        reserve_ = os::Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        pause_accepting();
      } else if (errno == ENOMEM || errno == ENOBUFS) {
        pause_accepting();
      }
      return;
    }
    if (!os::fd_is_for(fd.get(), os::FdUse::kConnection)) {
      refuse(std::move(fd));
      continue;
    }
    Worker* least = this;
    for (const auto& worker : shared_.workers) {
      if (worker->load() < least->load()) least = worker.get();
    }
    least->adopt(std::move(fd));
  }
}

void Worker::refuse(os::Fd fd) {
  shared_.stats.refused.fetch_add(1, std::memory_order_relaxed);
  if (!fd.is_open() || shared_.tls) return;
  wire::FrameHeader header;
  header.type = wire::FrameType::kError;
  header.operand = static_cast<uint64_t>(static_cast<int64_t>(Code::kLimit));
  std::byte bytes[wire::kFrameHeaderBytes];
  wire::encode_frame(header, bytes);
  ::send(fd.get(), bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL);
}

void Worker::tell_refusal(const Connection::Refusal& refusal, uint64_t now_ns) {
  shared_.stats.refused.fetch_add(1, std::memory_order_relaxed);
  if (const auto left_out = limiter_.admit("tcp.tls_refused", refusal.peer, now_ns, refusal.why))
    log::warn("tcp.tls_refused", {{"peer", refusal.peer}, {"why", refusal.why}, {"left_out", *left_out}});
}

void Worker::tell_failure(const std::exception& error, uint64_t now_ns) noexcept {
  try {
    if (const auto left_out = limiter_.admit("tcp.connection_failed", "", now_ns, error.what()))
      log::warn("tcp.connection_failed", {{"error", error.what()}, {"left_out", *left_out}});
  } catch (const std::exception&) {  // telling takes memory, too
  }
}

void Worker::pause_accepting() {
  if (accept_paused_) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, shared_.listener.get(), nullptr);
  accept_paused_ = true;
  paused_until_ns_ = os::now_ns() + kAcceptPauseNs;
  if (const auto left_out = limiter_.admit("tcp.accept_paused", "", os::now_ns())) {
    log::warn("tcp.accept_paused", {{"reason", "out of descriptors or memory"}, {"left_out", *left_out}});
  }
}

void Worker::resume_accepting() {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLEXCLUSIVE;
  event.data.ptr = &shared_.listener;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, shared_.listener.get(), &event);
  accept_paused_ = false;
}

void Worker::make_room() {
  std::erase_if(unproved_, [](Connection* c) { return c->is_closed() || c->is_authenticated(); });
  if (unproved_.size() < kUnprovedMax) return;
  auto out =
      std::find_if(unproved_.begin(), unproved_.end(), [](Connection* c) { return !c->has_said_hello(); });
  if (out == unproved_.end()) out = unproved_.begin();
  (*out)->abort();
  closed_.push_back(*out);
  unproved_.erase(out);
  shared_.stats.refused.fetch_add(1, std::memory_order_relaxed);
}

void Worker::take_adopted() {
  std::deque<os::Fd> fds;
  {
    const std::lock_guard lock(adopted_mutex_);
    fds.swap(adopted_);
  }
  const uint64_t now = os::now_ns();
  for (os::Fd& fd : fds) {
    const int number = fd.get();
    tune(number);
    std::unique_ptr<TlsConnection> tls;
    if (shared_.tls) {
      auto made = TlsConnection::make(shared_.tls, number);
      if (made.is_ok()) tls = std::move(made).value();
    }
    epoll_event event{};
    event.events = EPOLLIN;
    auto connection = std::make_unique<Connection>(Stream(std::move(fd), std::move(tls)), shared_.directory,
                                                   shared_.stats, shared_.fences, shared_.places,
                                                   shared_.attachments, shared_.buffers, bell_);
    event.data.ptr = connection.get();
    const bool usable = !shared_.tls || connection->is_encrypted();
    if (!usable || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, number, &event) != 0) {
      load_.fetch_sub(1, std::memory_order_relaxed);
      continue;
    }
    connection->armed_events = EPOLLIN;
    connection->accepted_ns = now;
    shared_.stats.connections.fetch_add(1, std::memory_order_relaxed);
    shared_.stats.connections_total.fetch_add(1, std::memory_order_relaxed);
    make_room();
    unproved_.push_back(connection.get());
    heat(*connection, now);
    moved_ = true;
    Connection* const key = connection.get();
    [[maybe_unused]] const bool is_new = connections_.emplace(key, std::move(connection)).second;
    OCM_DASSERT(is_new && unproved_.size() <= kUnprovedMax);  // W1, W4
  }
}

}  // namespace ocm::fabric::tcp
