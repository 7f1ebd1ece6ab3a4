#include "node/node.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <future>
#include <thread>

#include "base/assert.h"
#include "control/sockets.h"
#include "node/doors.h"
#include "node/page_mail.h"
#include "node/remaker.h"
#include "node/voter_file.h"
#include "os/address.h"
#include "os/crypto.h"
#include "os/fd_reserve.h"

namespace ocm::node {
namespace {

constexpr size_t kTokenBytes = 32;  // drawn; as hex digits in its file
static_assert(2 * kTokenBytes >= 16, "read_token() takes no shorter one");

/// Extents take a descriptor each: as many as the system gives.
void raise_nofile() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  uint64_t system_max = 0;
  std::ifstream("/proc/sys/fs/nr_open") >> system_max;
  rlimit more{system_max, system_max};
  if (system_max > limit.rlim_max && ::setrlimit(RLIMIT_NOFILE, &more) == 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

std::string boot_id() {
  std::string out;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> out;
  return out;
}

/// Equal for daemons that could share a socket directory: one boot, one network namespace.
std::string host_id() {
  std::string boot = boot_id();
  struct stat ns {};
  if (::stat("/proc/self/ns/net", &ns) == 0) boot += ":" + std::to_string(ns.st_ino);
  return boot;
}

Status make_run_dir(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) == 0 || errno == EEXIST) return {};
  return Status::from_errno(errno, "making " + path);
}

Result<os::Fd> take_lock(const std::string& run_dir) {
  const std::string path = run_dir + "/oncillad.lock";
  // Who can open it can lock it, and so keep every later run of the daemon out.
  os::Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd.is_open() && ::fchmod(fd.get(), 0600) != 0)
    return Status::from_errno(errno, "keeping others from " + path);
  if (!fd.is_open()) return Status::from_errno(errno, "opening " + path);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return Status(Code::kExists, "another daemon runs in " + run_dir + "; give this one another --run-dir");
  }
  return fd;
}

/// The token that an earlier run of this daemon drew: its sessions prove themselves by it when they come
/// back. Empty if there is none that nobody else can have read or written.
std::string kept_token(const std::string& path) {
  const os::Fd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat file {};
  if (!fd.is_open() || ::fstat(fd.get(), &file) != 0 || !S_ISREG(file.st_mode) ||
      file.st_uid != ::geteuid() || (file.st_mode & 07777) != 0600 || file.st_size != 2 * kTokenBytes) {
    return {};
  }
  std::string text(2 * kTokenBytes, '\0');
  if (::read(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) return {};
  return text.find_first_not_of("0123456789abcdef") == std::string::npos ? text : std::string();
}

/// The cluster token: from its file, or drawn once and written for the other daemons of this host.
Result<os::Secret> load_token(const Config& config) {
  if (!config.token_file.empty()) return read_token(config.token_file);
  std::vector<std::byte> token(kTokenBytes);
  os::fill_random(token);
  if (config.embedded) return os::Secret::copy(token);
  const std::string path = config.run_dir + "/token";
  std::string text = kept_token(path);
  if (text.empty()) {
    text = to_hex(token.data(), token.size());
    ::unlink(path.c_str());
    const os::Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd.is_open() || ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      return Status::from_errno(errno, "writing " + path);
    }
  }
  OCM_DASSERT(text.size() == 2 * kTokenBytes);
  auto secret = os::Secret::copy(os::bytes_of(text));
  ::explicit_bzero(text.data(), text.size());
  return secret;
}

/// A forgotten coordinator splits a cluster, and both halves work.
void warn_of_own_cluster(const Core& core) {
  if (core.config.embedded || !core.config.coordinator.empty() || core.passes_on()) return;
  const auto where = control::HostPort::parse(core.control_address);
  if (!where.is_ok() || os::is_loopback(where.value().host)) return;
  log::warn("own_cluster", {{"coordinator", core.control_address},
                            {"why",
                             "neither [cluster] seeds nor coordinator is configured: this node is the "
                             "coordinator of a cluster of its "
                             "own; set seeds as the cluster's other nodes have it, or coordinator to this "
                             "node's address if that is "
                             "meant"}});
}

}  // namespace

struct Node::Impl {
  explicit Impl(Config config) : loop(config.control_spin_us * 1000), core(std::move(config), loop) {}
  ~Impl() {
    if (home != nullptr) home->directory().on_revoke(nullptr);  // the servers go before it
  }

  control::Loop loop;
  Core core;
  std::string socket_path;
  os::Fd lock;
  std::unique_ptr<Home> home;
  std::unique_ptr<PageMail> mail;  // null: nothing is cached, or it is embedded
  std::unique_ptr<Peers> peers;
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<Sessions> sessions;
  std::unique_ptr<Allocator> allocator;
  std::unique_ptr<Holds> holds;
  std::unique_ptr<Copier> copier;
  std::unique_ptr<Remaker> remaker;
  std::unique_ptr<Stopper> stopper;
  std::unique_ptr<Pages> pages;
  std::unique_ptr<Service> service;
  std::unique_ptr<Doors> doors;
  std::unique_ptr<HttpServer> http, local_http;
  fabric::Servers servers;  // their threads end before what they serve
  std::shared_ptr<control::Acceptor> programs, daemons;
  std::thread thread;
  bool stopped = false;

  Status prepare();
  Status listen();
  Status serve();
  void run();
  /// Tells before it ends, and then once a day.
  control::Task<void> watch_certificate();
  control::Task<void> drain(std::promise<void>& drained);
};

Status Node::Impl::prepare() {
  const Config& config = core.config;
  OCM_TRY(config.check());
  OCM_TRY(config.check_files());
  core.name = config.node_name();
  core.incarnation = loop.random_id<control::Incarnation>();
  core.host_id = host_id();
  // Drawn anew by every run of the daemon, so that no address of an earlier run is ever answered.
  core.partition = static_cast<uint32_t>(loop.random_number()) % GlobalAddress::kPartitionMax + 1;
  OCM_DASSERT(core.partition >= 1 && core.partition <= GlobalAddress::kPartitionMax);
  raise_nofile();
  if (!config.embedded && os::fd_limit() < config.descriptors_wanted()) {
    log::warn("few_descriptors",
              {{"limit", os::fd_limit()},
               {"wanted", config.descriptors_wanted()},
               {"why", "extents above 1 MiB take one each; raise LimitNOFILE or lower [limits] extents"}});
  }
  if (!config.embedded) {
    OCM_TRY(make_run_dir(config.run_dir));
    OCM_TRY_ASSIGN(lock, take_lock(config.run_dir));
    core.voter_store = std::make_unique<VoterFiles>(config.run_dir, boot_id());
  }
  if (config.tls()) {
    OCM_TRY_ASSIGN(core.tls, control::TlsContext::load(config.tls_ca, config.tls_cert, config.tls_key));
    core.metrics.certificate_ends = core.tls->ends();
    loop.spawn(watch_certificate());
  }
  OCM_TRY_ASSIGN(core.token, load_token(config));
  return {};
}

Status Node::Impl::listen() {
  const Config& config = core.config;
  OCM_TRY_ASSIGN(home, Home::make(core));
  os::Fd control_socket, program_socket, http_socket, local_http_socket;
  if (!config.embedded) {
    OCM_TRY_ASSIGN(control_socket, control::listen_tcp(config.control_listen, core.control_address));
    if (!config.advertise.empty()) {
      OCM_TRY_ASSIGN(control::HostPort control_at, control::HostPort::parse(core.control_address));
      control_at.host = config.advertise;
      core.control_address = control_at.to_string();
    }
    OCM_TRY(serve());
    if (!config.http_listen.empty()) {
      OCM_TRY_ASSIGN(http_socket, control::listen_tcp(config.http_listen, core.http_address));
    }
    OCM_TRY(home->revive());
    socket_path = config.socket_path();
    OCM_TRY_ASSIGN(local_http_socket, control::listen_unix(config.http_socket_path()));
    OCM_TRY_ASSIGN(program_socket, control::listen_unix(socket_path));
  }
  const std::string& coordinator = config.coordinator;
  const auto is_this = [&](const std::string& address) {
    return address == config.control_listen ||
           control::same_place(address, core.control_address,
                               os::Deadline::after_ns(config.failure_deadline_ns()));
  };
  core.coordinates = !core.passes_on() && (coordinator.empty() || is_this(coordinator));
  for (const std::string& seed : config.seeds) {
    const bool mine = is_this(seed);
    core.founds = core.founds || (mine && seed == config.seeds.front());
    if (!mine) core.other_seeds.push_back(seed);
  }
  OCM_DASSERT(!core.coordinates || core.other_seeds.empty());
  OCM_DASSERT(core.other_seeds.size() <= config.seeds.size() && (!core.founds || core.passes_on()));
  peers = std::make_unique<Peers>(core, [this](std::string address, uint64_t deadline_ns) {
    return dial(core, loop, std::move(address), deadline_ns);
  });
  cluster = std::make_unique<Cluster>(core, *home, *peers);
  sessions = std::make_unique<Sessions>(core);
  allocator = std::make_unique<Allocator>(core, *home, *cluster, *sessions);
  holds = std::make_unique<Holds>(core, *cluster);
  copier = std::make_unique<Copier>(core, *home, *cluster);
  remaker = std::make_unique<Remaker>(core, *home, *cluster, *sessions);
  stopper = std::make_unique<Stopper>(core, *home, *cluster, *sessions);
  pages = std::make_unique<Pages>(core, *home, *cluster, *sessions, *remaker, *stopper, servers);
  service = std::make_unique<Service>(core, *home, *cluster, *sessions, *allocator, *holds, *copier, *remaker,
                                      *stopper, *pages);
  doors = std::make_unique<Doors>(core, loop, *service);
  if (control_socket.is_open()) {
    daemons = std::make_shared<control::Acceptor>(loop, std::move(control_socket));
    programs = std::make_shared<control::Acceptor>(loop, std::move(program_socket));
    daemons->start([this](os::Fd fd) { doors->accept_peer(std::move(fd)); });
    programs->start([this](os::Fd fd) { doors->accept_program(std::move(fd)); });
  }
  const auto serve_http = [this](os::Fd socket) {
    auto handler = [this](HttpServer::Request request) { return pages->http(std::move(request)); };
    auto server = std::make_unique<HttpServer>(loop, std::move(socket), std::move(handler));
    server->start();
    return server;
  };
  if (http_socket.is_open()) http = serve_http(std::move(http_socket));
  if (local_http_socket.is_open()) local_http = serve_http(std::move(local_http_socket));
  cluster->on_node([this](const control::NodeInfo& node) {
    service->node_appeared(node);
    if (mail != nullptr) mail->node_appeared(node);
  });
  cluster->start([this](control::NodeInfo& self) {
    self.sessions = sessions->count();
    self.copies = remaker->progress();
  });
  remaker->start();
  return {};
}

Status Node::Impl::serve() {
  const Config& config = core.config;
  fabric::ServeOptions options;
  options.listen = config.data_listen;
  options.advertise = config.advertise;
  options.connections_max = static_cast<uint32_t>(config.connections);
  options.tls = {config.tls_ca, config.tls_cert, config.tls_key};
  options.settings = config.fabrics;
  home->directory().on_revoke([this](ExtentId id) { servers.revoke(id); });
  if (home->caches() != nullptr) mail = std::make_unique<PageMail>(core, home->directory(), *home->caches());
  OCM_TRY(servers.start(options, home->directory()));
  for (const fabric::Servers::One& one : servers.all()) {
    if (one.server == nullptr) continue;
    core.addresses.push_back({one.entry.fabric, one.server->address(), {}});
  }
  return {};
}

control::Task<void> Node::Impl::watch_certificate() {
  constexpr int64_t kDayS = 86'400, kSoonS = 30 * kDayS;
  while (!core.draining) {
    const int64_t left_s = core.metrics.certificate_ends - ::time(nullptr);
    if (left_s <= 0) {
      log::error("certificate_expired",
                 {{"certificate", core.config.tls_cert},
                  {"why", "other nodes and programs refuse new connections"},
                  {"do", "put a new one there, and start this node again: it is read at the start"}});
    } else if (left_s <= kSoonS) {
      log::warn("certificate_expires", {{"certificate", core.config.tls_cert},
                                        {"hours", left_s / 3600},
                                        {"do",
                                         "put a new one there, and restart the nodes one after the other "
                                         "before: it is read at the start"}});
    }
    const int64_t pause_s = left_s <= 0 ? kDayS : std::min(left_s, kDayS);
    co_await core.env.sleep_ns(static_cast<uint64_t>(pause_s) * 1'000'000'000);
  }
}

control::Task<void> Node::Impl::drain(std::promise<void>& drained) {
  if (programs) programs->stop();
  if (daemons) daemons->stop();
  if (http) http->stop();
  if (local_http) local_http->stop();
  std::function<void()> close_doors = [this] { doors->close_all(); };
  co_await service->drain(std::move(close_doors));
  peers->close_all();
  drained.set_value();
}

Node::Node(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) { OCM_DASSERT(impl_ != nullptr); }

namespace {
/// "dram 1.0 GiB"
std::string offers_of(const Config& config) {
  std::string out;
  for (const memory::Entry* kind : config.kinds) {
    const uint64_t bytes = kind->bytes(config.offers);
    if (bytes != 0) out += (out.empty() ? "" : ", ") + std::string(kind->name()) + " " + format_bytes(bytes);
  }
  return out.empty() ? "nothing" : out;
}
}  // namespace

Result<std::unique_ptr<Node>> Node::start(Config config) {
  auto impl = std::make_unique<Impl>(std::move(config));
  OCM_TRY(impl->prepare());
  OCM_TRY(impl->listen());
  impl->thread = std::thread([raw = impl.get()] { raw->loop.run(); });
  log::info("started", {{"node", impl->core.name},
                        {"version", kVersion},
                        {"socket", impl->socket_path},
                        {"control", impl->core.control_address},
                        {"data", impl->core.addresses.empty() ? "" : impl->core.addresses.front().address},
                        {"coordinator", impl->core.coordinates   ? "this node"
                                        : impl->core.passes_on() ? "of the seeds' council"
                                                                 : impl->core.config.coordinator},
                        {"offers", offers_of(impl->core.config)}});
  warn_of_own_cluster(impl->core);
  return std::unique_ptr<Node>(new Node(std::move(impl)));
}

Node::~Node() { stop(); }

void Node::when_stop_is_safe(std::function<void()> then) {
  Impl& impl = *impl_;
  impl.loop.post([&impl, then = std::move(then)]() mutable {
    const bool waits = impl.core.config.replica_wait_at_stop;
    impl.loop.spawn(waits ? impl.stopper->wait(std::move(then)) : impl.stopper->tell(std::move(then)));
  });
}

void Node::stop() {
  if (impl_->stopped) return;
  impl_->stopped = true;
  std::promise<void> drained;
  Impl& impl = *impl_;
  impl.loop.post([&impl, &drained] { impl.loop.spawn(impl.drain(drained)); });
  OCM_DASSERT(impl.thread.joinable());
  drained.get_future().wait();
  if (!impl.socket_path.empty()) {
    ::unlink(impl.socket_path.c_str());
    ::unlink(impl.core.config.http_socket_path().c_str());
  }
  impl.copier->stop();
  impl.remaker->stop();
  if (impl.mail != nullptr) impl.mail->stop();
  impl.servers.stop();
  impl.loop.stop();
  impl.thread.join();
  impl.loop.drain();
  log::info("stopped", {{"node", impl.core.name}});
}

const char* Node::version() { return kVersion; }
const std::string& Node::socket_path() const { return impl_->socket_path; }
const std::string& Node::name() const { return impl_->core.name; }
const std::string& Node::control_address() const { return impl_->core.control_address; }
const std::string& Node::http_address() const { return impl_->core.http_address; }

Result<os::Fd> Node::connect_local() {
  int ends[2];
  if (impl_->stopped) return Code::kDraining;
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Status::from_errno(errno, "socketpair");
  os::Fd program(ends[0]);
  auto daemon = std::make_shared<os::Fd>(ends[1]);
  Impl& impl = *impl_;
  impl.loop.post([&impl, daemon] { impl.doors->accept_program(std::move(*daemon)); });
  return program;
}

}  // namespace ocm::node
