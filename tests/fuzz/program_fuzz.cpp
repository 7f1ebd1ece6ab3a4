// node/service, as programs reach it: four of them, of two users and root, send what they like to the daemons
// of two nodes, which are cut from each other, and of which one is killed and started again.
//
// Afterwards a program of another user must be served on both, and when all have ended and root has removed
// the names, no byte, extent, session or name is left, and what the daemons keep of them is valid.
#include "daemon.h"
#include "records.h"

using namespace ocm;
using fuzz::Env;

namespace {

// Bits of `who`; the lowest two say which program.
constexpr uint8_t kCut = 4;       // the nodes are cut from each other from now on, or joined again
constexpr uint8_t kEnd = 8;       // the program ends
constexpr uint8_t kWait = 16;     // a while passes,
constexpr uint8_t kLong = 32;     // or so long that parts are made again,
constexpr uint8_t kRestart = 64;  // or the daemon of the second node is killed and started again

struct Owner {
  const char* node;
  uint32_t uid;
};
constexpr Owner kPrograms[] = {{"b", 1000}, {"b", 1001}, {"b", 0}, {"a", 1000}};

/// Node a, the coordinator, and node b.
class Pair {
 public:
  Pair() {
    start("a");
    start("b");
    env_.run(3 * fuzz::kHeartbeatNs);
  }
  Env& env() { return env_; }
  fuzz::Known& known() { return known_; }
  fuzz::Daemon& daemon(const std::string& name) { return *daemons_.at(name); }
  bool joined(const fuzz::Daemon& one, const fuzz::Daemon& other) const {
    return !cut_ && !one.is_dead() && !other.is_dead();
  }
  void set_cut(bool cut) { cut_ = cut; }
  bool is_cut() const { return cut_; }
  void restart(const std::string& name) {
    daemon(name).die();
    start(name);
    env_.run(2 * fuzz::kHeartbeatNs);
  }

 private:
  void start(const std::string& name);

  Env env_;
  fuzz::Known known_;
  bool cut_ = false;
  std::vector<std::unique_ptr<fuzz::Daemon>> runs_;  // the dead ones too: their coroutines go on
  std::map<std::string, fuzz::Daemon*> daemons_;
};

/// From one run of a daemon to one of another.
class PairLink final : public control::Link {
 public:
  PairLink(Pair& pair, fuzz::Daemon& from, fuzz::Daemon& to) : pair_(pair), from_(from), to_(to) {}
  control::Task<Result<wire::Envelope>> call(wire::Envelope request, uint64_t deadline_ns) override {
    if (!is_open()) co_return Status(Code::kPeerLost, "the connection is closed");
    const auto call = std::make_shared<Call>(pair_.env());
    if (pair_.joined(from_, to_)) pair_.env().spawn(serve(pair_, from_, to_, std::move(request), call));
    const bool answered = co_await pair_.env().wait(call, deadline_ns);
    if (!answered) co_return Status(Code::kDeadline, "no answer within the deadline");
    co_return std::move(call->reply);
  }
  void close(const Status&) override { open_ = false; }
  bool is_open() const override { return open_ && !from_.is_dead() && !to_.is_dead(); }
  uint64_t heard_ns() const override { return pair_.env().now_ns(); }

 private:
  struct Call : Env::Waiter {
    using Waiter::Waiter;
    wire::Envelope reply;
  };
  static control::Task<void> serve(Pair& pair, fuzz::Daemon& from, fuzz::Daemon& to, wire::Envelope request,
                                   std::shared_ptr<Call> call) {
    control::Reply reply = co_await to.peer_request(from.name(), std::move(request));
    if (!pair.joined(from, to)) co_return;
    call->reply = std::move(reply.message);
    call->finish();
  }

  Pair& pair_;
  fuzz::Daemon& from_;
  fuzz::Daemon& to_;
  bool open_ = true;
};

void Pair::start(const std::string& name) {
  const size_t number = runs_.size();
  const auto dial = [this, number](
                        std::string address,
                        uint64_t deadline_ns) -> control::Task<Result<std::shared_ptr<control::Link>>> {
    fuzz::Daemon& from = *runs_[number];
    fuzz::Daemon& to = *daemons_.at(address.substr(0, 1));
    if (!joined(from, to)) {
      co_await env_.sleep_ns(deadline_ns - std::min(deadline_ns, env_.now_ns()));
      co_return Status(Code::kDeadline, "nobody answers");
    }
    co_return std::shared_ptr<control::Link>(std::make_shared<PairLink>(*this, from, to));
  };
  fuzz::Daemon::Options options;
  options.name = name;
  options.partition = static_cast<uint32_t>(7 + number);
  if (name != "a") options.coordinator = "a";
  runs_.push_back(std::make_unique<fuzz::Daemon>(env_, known_, options, dial));
  daemons_[name] = runs_.back().get();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto input = fuzz::bytes_of(data, size);
  Pair pair;
  std::shared_ptr<node::Program> programs[4];
  int long_waits = 0, restarts = 0;
  fuzz::Record next;
  for (int i = 0; i < 64 && fuzz::take(input, next); ++i) {
    const Owner& owner = kPrograms[next.who % 4];
    std::shared_ptr<node::Program>& program = programs[next.who % 4];
    fuzz::Daemon& daemon = pair.daemon(owner.node);
    if (!program) {
      program = std::make_shared<node::Program>();
      program->uid = owner.uid;
    }
    if ((next.who & kCut) != 0) pair.set_cut(!pair.is_cut());
    wire::Envelope message;
    if (wire::parse_control(next.bytes, message).is_ok()) {
      pair.known().resolve(message);
      daemon.ask(program, std::move(message));
    }
    pair.env().run((next.who & kLong) != 0 && ++long_waits <= 4 ? 4 * fuzz::kDeadlineNs
                   : (next.who & kWait) != 0                    ? fuzz::kHeartbeatNs / 5
                                                                : 0);
    if ((next.who & kEnd) != 0) {
      daemon.end(program);
      program.reset();
    }
    if ((next.who & kRestart) != 0 && ++restarts <= 3) {
      for (int each = 0; each < 3; ++each) programs[each].reset();
      pair.restart("b");
    }
  }
  pair.set_cut(false);
  for (const char* name : {"a", "b"}) {
    pair.daemon(name).check_served(1002);
    pair.daemon(name).check_valid();
  }
  for (int i = 0; i < 4; ++i) {
    if (programs[i]) pair.daemon(kPrograms[i].node).end(programs[i]);
  }
  pair.env().run(fuzz::kAllOverNs);
  fuzz::remove_names(pair.env(), pair.daemon("a"));
  pair.env().run(fuzz::kAllOverNs);
  for (const char* name : {"a", "b"}) {
    pair.daemon(name).check_valid();
    pair.daemon(name).check_unused();
  }
  return 0;
}

namespace {

const std::string kFirst(1, '\0'), kSecond(1, '\1');

wire::Envelope hello(const std::string& resume = "") {
  wire::Envelope out;
  out.mutable_session_hello()->set_version(wire::kControlVersions.max);
  out.mutable_session_hello()->set_resume_session(resume);
  return out;
}
wire::Envelope allocate(Layout layout = Layout::kSingle, const std::string& node = "") {
  wire::Envelope out;
  auto& request = *out.mutable_allocate();
  request.set_bytes_total(8192);
  request.set_layout(static_cast<uint32_t>(layout));
  if (layout == Layout::kStriped) request.set_chunk_bytes(64);
  if (layout == Layout::kReplicated) request.set_extents(2);
  if (!node.empty()) request.add_nodes(node);
  return out;
}
wire::Envelope free_it(const std::string& id, const std::string& hold = "") {
  wire::Envelope out;
  out.mutable_free()->set_allocation_id(id);
  out.mutable_free()->set_hold_id(hold);
  return out;
}
wire::Envelope publish(const std::string& id, const std::string& name = "x") {
  wire::Envelope out;
  out.mutable_publish()->set_allocation_id(id);
  out.mutable_publish()->set_name(name);
  out.mutable_publish()->set_mode(0666);
  return out;
}
wire::Envelope attach(bool hold, uint32_t access = 3) {
  wire::Envelope out;
  out.mutable_attach()->set_name("x");
  out.mutable_attach()->set_access(access);
  out.mutable_attach()->set_hold(hold);
  return out;
}
wire::Envelope remove_x() {
  wire::Envelope out;
  out.mutable_name_remove()->set_name("x");
  return out;
}
wire::Envelope join() {
  wire::Envelope out;
  out.mutable_join()->add_allocation_ids(kFirst);
  out.mutable_join()->add_allocation_ids(kSecond);
  return out;
}
wire::Envelope open_extent(uint64_t extent) {
  wire::Envelope out;
  out.mutable_open_extent()->set_address(extent);
  out.mutable_open_extent()->set_access(3);
  return out;
}
wire::Envelope map_pages(uint64_t extent) {
  wire::Envelope out;
  out.mutable_map_pages()->set_address(extent);
  out.mutable_map_pages()->set_access(3);
  return out;
}
wire::Envelope copy(uint64_t target, uint64_t source) {
  wire::Envelope out;
  out.mutable_copy()->set_bytes_total(64);
  out.mutable_copy()->mutable_target()->set_address(target);
  out.mutable_copy()->mutable_source()->set_address(source);
  return out;
}
wire::Envelope lost(const std::string& id, uint64_t extent, bool revoked = false) {
  wire::Envelope out;
  out.mutable_lost_replica()->set_allocation_id(id);
  out.mutable_lost_replica()->set_address(extent);
  out.mutable_lost_replica()->set_revoked(revoked);
  return out;
}
wire::Envelope resolve(const std::string& id, uint64_t extent) {
  wire::Envelope out;
  out.mutable_resolve()->set_allocation_id(id);
  out.mutable_resolve()->mutable_extent()->set_address(extent);
  return out;
}
wire::Envelope restore() {
  wire::Envelope out;
  for (const std::string& receipt : {kFirst, kSecond}) {
    auto& shown = *out.mutable_session_restore()->add_shown();
    shown.set_receipt(receipt);
    shown.set_handles(1);
  }
  return out;
}
wire::Envelope cluster() {
  wire::Envelope out;
  out.mutable_cluster();
  return out;
}
wire::Envelope list() {
  wire::Envelope out;
  out.mutable_name_list();
  return out;
}
wire::Envelope events() {
  wire::Envelope out;
  out.mutable_events();
  return out;
}
wire::Envelope stats(const std::string& node) {
  wire::Envelope out;
  out.mutable_stats()->set_node(node);
  return out;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  constexpr auto kReplicated = Layout::kReplicated;
  return {
      say({{0, hello()}, {0, allocate()}, {0, open_extent(0)}, {0, map_pages(0)}, {0, free_it(kFirst)}}),
      say({{0, hello()},
           {0, allocate()},
           {0, publish(kFirst)},
           {1, hello()},
           {1, attach(false)},
           {1, remove_x()},
           {1 + kEnd, list()}}),
      // What is attached ends while its program waits for events.
      say({{0, hello()},
           {0, allocate()},
           {0, publish(kFirst)},
           {1, hello()},
           {1, attach(false)},
           {1, events()},
           {0, remove_x()},
           {1, events()},
           {1 + kWait, events()}}),
      // A sequence, held by a reader while its name ends.
      say({{0, hello()},
           {0, allocate()},
           {0, allocate(Layout::kSingle, "a")},
           {0, join()},
           {0, publish(std::string(1, '\2'))},
           {1, hello()},
           {1, attach(true, 1)},
           {3, hello()},
           {3, attach(true)},
           {0, remove_x()},
           {1, free_it(std::string(1, '\3'), kFirst)},
           {1 + kWait, stats("a")}}),
      // Copies, also from one node to the other.
      say({{2, hello()},
           {2, allocate()},
           {2, allocate(Layout::kStriped)},
           {2, copy(0, 1)},
           {2, copy(1, 0)},
           {2, copy(2, 0)},
           {2, lost(kFirst, 0)},
           {2 + kWait, stats("a")}}),
      say({{0, allocate()},
           {0, hello()},
           {0, hello()},
           {0, free_it(kFirst)},
           {0, attach(false)},
           {1, remove_x()}}),
      // Replicas are given up and made again.
      say({{0, hello()},
           {0, allocate(kReplicated)},
           {0, resolve(kFirst, 0)},
           {0 + kWait, lost(kFirst, 1)},
           {0 + kWait, resolve(kFirst, 0)},
           {0 + kLong, cluster()},
           {0, resolve(kFirst, 0)},
           {0, lost(kFirst, 0, true)},
           {0, free_it(kFirst)}}),
      say({{3, hello()},
           {3, allocate(kReplicated)},
           {3, publish(kFirst)},
           {1, hello()},
           {1, attach(true)},
           {1 + kLong, lost(kFirst, 0)},
           {1, resolve(kFirst, 1)},
           {3, remove_x()},
           {1, copy(0, 1)},
           {1 + kEnd, free_it(kFirst, kFirst)}}),
      // A sequence of replicas.
      say({{0, hello()},
           {0, allocate(kReplicated)},
           {0, allocate(kReplicated)},
           {0, join()},
           {0, publish(std::string(1, '\2'))},
           {0 + kLong, lost(std::string(1, '\2'), 3)},
           {3, hello()},
           {3, attach(true)},
           {0, resolve(std::string(1, '\2'), 2)},
           {3 + kEnd, remove_x()}}),
      // The nodes are cut from each other; each side says that the other's replica is lost.
      say({{0, hello()},
           {3, hello()},
           {0, allocate(kReplicated)},
           {0, publish(kFirst)},
           {3, attach(true)},
           {0 + kCut, lost(kFirst, 0)},
           {3 + kLong, lost(kFirst, 1)},
           {0, resolve(kFirst, 1)},
           {3, remove_x()},
           {0 + kCut + kLong, stats("a")},
           {0, free_it(kFirst)}}),
      // The daemon is killed; the session goes on with what the program shows.
      say({{0, hello()},
           {0, allocate(kReplicated)},
           {0, allocate(Layout::kSingle, "a")},
           {0 + kRestart, cluster()},
           {0 + kWait, hello(kFirst)},
           {0 + kWait, restore()},
           {0 + kLong, resolve(kFirst, 0)},
           {0, lost(kFirst, 1)},
           {0, publish(kSecond)},
           {0, free_it(kFirst)}}),
      say({{0, hello()},
           {0, allocate(kReplicated)},
           {0 + kRestart, publish(kFirst)},
           {1 + kCut, hello()},
           {0 + kLong, hello(kFirst)},
           {0 + kCut, restore()},
           {0 + kRestart, stats("b")},
           {0 + kWait, hello(kFirst)},
           {0, restore()},
           {0, allocate()}}),
      // What was found: a session that goes on ends before its daemon knows the cluster.
      say({{0, hello()},
           {0, allocate(kReplicated)},
           {0 + kCut + kRestart, cluster()},
           {0 + kWait, hello(kFirst)}}),
  };
}
