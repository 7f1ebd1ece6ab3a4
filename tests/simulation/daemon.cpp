#include "daemon.h"

#include <cstring>

#include "node/copy_piece.h"
#include "os/crypto.h"

namespace ocm::simulation {
namespace {

/// A request under way, on its caller's environment.
struct Call : Waiter {
  using Waiter::Waiter;
  Status status;
  wire::Envelope reply;
};

/// A sender that has no answer says it again; what takes something each time is asked for anew instead.
bool may_be_repeated(const wire::Envelope& request) {
  return !request.has_reserve() && !request.has_share_replica() && !request.has_copy();
}

/// A stream between two daemons, as its caller sees it. Closing it ends the calls, and not what was sent.
class SimLink final : public control::Link, public std::enable_shared_from_this<SimLink> {
 public:
  SimLink(Network& network, Daemon& from, size_t to, uint64_t to_run)
      : network_(network),
        env_(*from.env),
        from_(from.node()),
        to_(to),
        to_run_(to_run),
        there_(std::make_shared<Pipe>(network.ways(), from.node(), to)),
        back_(std::make_shared<Pipe>(network.ways(), to, from.node())) {}

  Task<Result<wire::Envelope>> call(wire::Envelope request, uint64_t deadline_ns) override {
    if (!open_) co_return Status(Code::kPeerLost, "the connection is closed");
    const auto call = std::make_shared<Call>(env_);
    const uint64_t id = next_++;
    calls_[id] = call;
    request.set_id(id);
    send(request);
    request.set_id(0);  // nobody waits for its answer
    if (may_be_repeated(request) && network_.ways().repeats()) send(std::move(request));
    (void)co_await env_.wait(call, deadline_ns);
    calls_.erase(id);
    if (!call->done) co_return Status(Code::kDeadline, "no answer within the deadline");
    if (!call->status.is_ok()) co_return call->status;
    co_return std::move(call->reply);
  }
  void send(wire::Envelope request) {
    there_->send([&network = network_, to = to_, to_run = to_run_, from = from_, back = back_,
                  link = weak_from_this(), env = env_.weak_from_this(),
                  message = std::make_shared<wire::Envelope>(std::move(request))] {
      arrive(network, to, to_run, from, back, link, env, std::move(*message));
    });
  }
  void close(const Status& why) override {
    open_ = false;
    auto calls = std::move(calls_);
    calls_.clear();
    for (auto& [id, weak] : calls) {
      const auto call = weak.lock();
      if (!call || call->done) continue;
      call->status = Status(Code::kPeerLost, std::string(why.message()));
      call->finish();
    }
    tell_closed();
  }
  bool is_open() const override { return open_; }
  uint64_t heard_ns() const override { return heard_ns_; }
  /// It may be reset though both ends live.
  void watch() {
    network_.ways().watch(there_, back_, [link = weak_from_this(), env = env_.weak_from_this()] {
      if (const auto alive = env.lock()) alive->deliver([link] { broke(link); });
    });
  }

 private:
  static void broke(const std::weak_ptr<SimLink>& link) {
    if (const auto here = link.lock()) here->close(Status(Code::kPeerLost, "connection reset"));
  }
  static void reply(const std::shared_ptr<Pipe>& back, const std::weak_ptr<SimLink>& link,
                    const std::weak_ptr<SimEnv>& env, wire::Envelope message) {
    back->send([link, env, message = std::make_shared<wire::Envelope>(std::move(message))] {
      const auto alive = env.lock();
      if (!alive) return;
      alive->deliver([link, message] {
        const auto here = link.lock();
        if (!here) return;
        here->heard_ns_ = here->env_.now_ns();
        const auto found = here->calls_.find(message->id());
        const auto call = found == here->calls_.end() ? nullptr : found->second.lock();
        if (!call || call->done) return;
        call->reply = std::move(*message);
        call->finish();
      });
    });
  }
  /// The receiver's kernel says that nobody has this connection.
  static void reset(const std::shared_ptr<Pipe>& back, const std::weak_ptr<SimLink>& link,
                    const std::weak_ptr<SimEnv>& env) {
    back->send([link, env] {
      const auto alive = env.lock();
      if (!alive) return;
      alive->deliver([link] { broke(link); });
    });
  }
  static void arrive(Network& network, size_t to, uint64_t to_run, size_t from,
                     const std::shared_ptr<Pipe>& back, const std::weak_ptr<SimLink>& link,
                     const std::weak_ptr<SimEnv>& env, wire::Envelope message) {
    const auto daemon = network.daemon(to);
    if (!daemon || daemon->run() != to_run || daemon->is_shut()) {
      if (network.has_power(to)) reset(back, link, env);
      return;
    }
    const auto serve = [](std::weak_ptr<Daemon> weak, std::string asker, std::shared_ptr<Pipe> way,
                          std::weak_ptr<SimLink> asked_on, std::weak_ptr<SimEnv> asker_env,
                          wire::Envelope request) -> Task<void> {
      const uint64_t id = request.id();
      control::Reply answer;
      node::Service& service = *weak.lock()->service;  // it lives as long as this coroutine
      if (!request.has_node_hello())
        answer = co_await service.peer_request(std::move(asker), std::move(request));
      answer.message.set_id(id);
      reply(way, asked_on, asker_env, std::move(answer.message));
    };
    daemon->env->start(serve(daemon, name_of(from), back, link, env, std::move(message)));
  }

  Network& network_;
  SimEnv& env_;
  uint64_t heard_ns_ = env_.now_ns();
  const size_t from_, to_;
  const uint64_t to_run_;
  const std::shared_ptr<Pipe> there_, back_;
  bool open_ = true;
  uint64_t next_ = 1;
  std::unordered_map<uint64_t, std::weak_ptr<Call>> calls_;
};

}  // namespace

std::string address_of(size_t node) { return std::to_string(node) + ":1"; }
size_t node_of(const std::string& address) { return std::stoul(address); }

namespace {

class Store final : public node::VoterStore {
 public:
  explicit Store(std::shared_ptr<Daemon::Memory> memory) : memory_(std::move(memory)) {}
  std::vector<std::string> load(Of of) override { return (*memory_)[of]; }
  bool save(Of of, const std::string& bytes) override {
    (*memory_)[of].clear();
    if (!bytes.empty()) (*memory_)[of].push_back(bytes);
    return !bytes.empty();
  }
  bool append(Of of, const std::string& bytes) override {
    (*memory_)[of].push_back(bytes);
    return true;
  }

 private:
  const std::shared_ptr<Daemon::Memory> memory_;
};

}  // namespace

Daemon::Daemon(Network& network, const Options& options) : network_(network), options_(options) {
  env = std::make_shared<SimEnv>(network.clock(), options.seed, options.drift_ppm);
  node::Config config;
  config.name = name_of(options.node);
  if (options.seeds == 0) config.coordinator = address_of(0);
  for (size_t seed = 0; seed < options.seeds; ++seed) config.seeds.push_back(address_of(seed));
  config.failure_deadline_ms = options.failure_deadline_ms;
  config.heartbeat_ms = options.heartbeat_ms;
  config.orphan_grace_ms = options.orphan_grace_ms;
  config.offer(Kind::kDram, options.dram_bytes);
  config.extents = 1024;
  config.sessions = 64;
  config.slab_bytes = 0;
  core = std::make_unique<node::Core>(std::move(config), *env);
  core->name = name_of(options.node);
  if (options.memory) core->voter_store = std::make_unique<Store>(options.memory);
  core->incarnation = env->random_id<control::Incarnation>();
  core->partition = static_cast<uint32_t>(env->random_number()) % GlobalAddress::kPartitionMax + 1;
  const std::vector<std::byte> token(32, std::byte{7});
  auto secret = os::Secret::copy(token);
  OCM_ASSERT(secret.is_ok());
  core->token = std::move(secret).value();
  core->control_address = address_of(options.node);
  if (options.is_older) core->versions.features = 0;
  core->coordinates = options.seeds == 0 && options.node == 0;
  core->founds = options.seeds != 0 && options.node == 0;
  for (size_t seed = 0; seed < options.seeds; ++seed) {
    if (seed != options.node) core->other_seeds.push_back(address_of(seed));
  }
  core->host_id = core->name;
  core->addresses.push_back({Fabric::kFake, core->name, {}});
}

Daemon::~Daemon() = default;

void Daemon::start() {
  auto made = node::Home::make(*core);
  OCM_ASSERT(made.is_ok());
  home = std::move(made).value();
  peers = std::make_unique<node::Peers>(*core, [this](std::string address, uint64_t deadline_ns) {
    return dial(std::move(address), deadline_ns);
  });
  cluster = std::make_unique<node::Cluster>(*core, *home, *peers);
  sessions = std::make_unique<node::Sessions>(*core);
  allocator = std::make_unique<node::Allocator>(*core, *home, *cluster, *sessions);
  holds = std::make_unique<node::Holds>(*core, *cluster);
  copier = std::make_unique<node::Copier>(*core, *home, *cluster,
                                          [this](node::CopyJob job) { env->spawn(copy(std::move(job))); });
  remaker = std::make_unique<node::Remaker>(*core, *home, *cluster, *sessions);
  stopper = std::make_unique<node::Stopper>(*core, *home, *cluster, *sessions);
  pages = std::make_unique<node::Pages>(*core, *home, *cluster, *sessions, *remaker, *stopper, servers_);
  service = std::make_unique<node::Service>(*core, *home, *cluster, *sessions, *allocator, *holds, *copier,
                                            *remaker, *stopper, *pages);
  cluster->on_node([this](const control::NodeInfo& node) { service->node_appeared(node); });
  cluster->start([this](control::NodeInfo& self) { self.sessions = sessions->count(); });
  remaker->start();
  env->touch();
}

void Daemon::drain(std::function<void()> drained) {
  closed_ = true;
  const auto stop = [](Daemon& self, std::function<void()> then) -> Task<void> {
    std::function<void()> close_doors = [&self] {
      self.shut_ = true;
      for (const auto& weak : self.programs_) {
        if (const auto program = weak.lock()) self.service->program_ended(program);
      }
    };
    co_await self.service->drain(std::move(close_doors));
    then();
  };
  env->start(stop(*this, std::move(drained)));
}

Task<Result<std::shared_ptr<control::Link>>> Daemon::dial(std::string address, uint64_t deadline_ns) {
  const size_t to = node_of(address);
  co_await env->sleep_ns(100'000 + env->random_number() % 400'000);
  const bool joined = !network_.ways().is_cut(node(), to) && !network_.ways().is_cut(to, node());
  auto other = network_.daemon(to);
  const bool refused = !other || other->is_closed(), reached = joined && other;
  const uint64_t run = other ? other->run() : 0;
  other.reset();  // it may end while this waits
  if (joined && refused && network_.has_power(to)) co_return Status(Code::kPeerLost, "connection refused");
  if (!reached) {
    const uint64_t now = env->now_ns();
    if (now < deadline_ns) co_await env->sleep_ns(deadline_ns - now);
    co_return Status(Code::kDeadline, "no connection to " + address + " in time");
  }
  const auto link = std::make_shared<SimLink>(network_, *this, to, run);
  link->watch();
  wire::Envelope hello;  // the proof of the token: as many round trips as there are
  hello.mutable_node_hello()->set_node(core->name);
  const auto proven = co_await link->call(std::move(hello), deadline_ns);
  if (!proven.is_ok()) {
    link->close(proven.status());
    co_return proven.status();
  }
  co_return std::shared_ptr<control::Link>(link);
}

bool Daemon::is_let_in(uint64_t program, uint64_t connection) {
  std::shared_ptr<fabric::tcp::Seat>& seat = seats_[connection];
  if (seat == nullptr) {  // its hello
    seat = std::make_shared<fabric::tcp::Seat>();
    fabric::tcp::RouteKey key;
    key.route = program;
    const std::lock_guard lock(seat->in_use);
    if (!fences_.enter(key, connection, seat)) seat->fenced.store(true);
  }
  if (seat->fenced.load()) return false;
  uint64_t& newest = newest_let_in_[program];
  let_in_older = let_in_older || connection < newest;
  newest = std::max(newest, connection);
  return true;
}

WordResult Daemon::serve(const WordOp& op) {
  WordResult out;
  const Access access = op.reads() ? Access::kRead : Access::kReadWrite;
  ExtentDescriptor extent;
  extent.id = op.id;
  extent.capability = wire::id_from<Capability>(op.capability);
  const auto found = home->find(extent, access);
  if (!found.is_ok()) return {found.status().code(), 0, {}};
  const auto opened = home->directory().open(op.id);
  if (!opened.is_ok()) return {opened.status().code(), 0, {}};
  const fabric::ServedExtent& served = *opened.value();
  const fabric::OpCode opcode = op.reads()                ? fabric::OpCode::kGet
                                : op.kind == WordOp::kAdd ? fabric::OpCode::kFetchAdd
                                                          : fabric::OpCode::kPut;
  const uint64_t bytes = op.kind == WordOp::kRead ? op.value : op.kind == WordOp::kWrite ? op.data.size() : 8;
  out.code =
      fabric::check_access_at(served, access, opcode, op.offset, bytes, [this] { return env->now_ns(); });
  if (out.code != Code::kOk) return out;
  std::byte* at = served.data + op.offset;
  if (op.kind == WordOp::kRead) {
    out.data.assign(reinterpret_cast<const char*>(at), bytes);
  } else if (op.kind == WordOp::kWrite) {
    std::memcpy(at, op.data.data(), bytes);
  } else {
    std::memcpy(&out.value, at, 8);
    const uint64_t next = op.kind == WordOp::kAdd ? out.value + op.value : op.value;
    if (op.kind != WordOp::kGet) std::memcpy(at, &next, 8);
  }
  if (served_op) served_op(op, out);
  return out;
}

Task<WordResult> Daemon::fetch(size_t from, WordOp get) {
  struct Fetch : Waiter {
    using Waiter::Waiter;
    WordResult result;
  };
  const auto fetch = std::make_shared<Fetch>(*env);
  const auto there = std::make_shared<Pipe>(network_.ways(), node(), from);
  const auto back = std::make_shared<Pipe>(network_.ways(), from, node());
  there->send(
      [&network = network_, from, get, back, weak = std::weak_ptr(fetch), mine = env->weak_from_this()] {
        const auto other = network.daemon(from);
        if (!other) return;
        other->env->deliver([other_weak = std::weak_ptr(other), get, back, weak, mine] {
          const auto served = other_weak.lock();
          if (!served) return;
          back->send([weak, mine, result = served->serve(get)] {
            if (!mine.lock()) return;
            if (const auto waiting = weak.lock()) {
              waiting->result = result;
              waiting->finish();
            }
          });
        });
      });
  const bool answered = co_await env->wait(fetch, core->deadline_ns());
  co_return answered ? fetch->result : WordResult{Code::kPeerLost, 0, {}};
}

/// As the threads of a copier do it, in more pieces.
Task<void> Daemon::copy(node::CopyJob job) {
  constexpr uint64_t kPieces = 32;
  const uint64_t piece_bytes = std::max<uint64_t>(8, job.bytes / kPieces);
  const auto now = [this] { return env->now_ns(); };
  co_await env->sleep_ns(200'000);
  Status status;
  while (status.is_ok() && job.moved < job.bytes) {
    const auto piece = node::CopyPiece::begin(home->directory(), job, piece_bytes, now);
    status = piece.status();
    if (!status.is_ok()) break;
    const uint64_t bytes = piece.value().bytes();
    if (piece.value().source_is_here()) {
      std::memcpy(piece.value().target(), piece.value().source(), bytes);
    } else {
      WordOp get;
      get.kind = WordOp::kRead;
      get.value = bytes;
      get.id = job.source;
      get.capability = node::id_field(job.source_capability);
      get.offset = piece.value().source_at();
      const WordResult got = co_await fetch(node_of_name(job.source_node), std::move(get));
      status = got.code;
      job.source_failed = !status.is_ok();
      if (!status.is_ok()) break;
      std::memcpy(piece.value().target(), got.data.data(), bytes);
    }
    status = piece.value().end(job, now);
  }
  job.done(status, job.source_failed);
}

}  // namespace ocm::simulation
