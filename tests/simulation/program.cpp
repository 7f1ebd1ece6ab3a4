#include "program.h"

#include <algorithm>
#include <map>

namespace ocm::simulation {
namespace {

constexpr uint64_t kPieceBytes = 256;
constexpr int kFollowedMax = 8;  // as the client library
constexpr uint64_t kCopiesAt = 248;  // beyond all cells: where copies come to

struct ControlCall : Waiter {
  using Waiter::Waiter;
  Status status;
  wire::Envelope reply;
};
struct WordCall : Waiter {
  using Waiter::Waiter;
  WordResult result;
};

bool is_gone(Code code) { return code == Code::kRevoked || code == Code::kNotFound || code == Code::kLost; }

}  // namespace

/// A data connection; it fails as a whole.
struct Program::Channel {
  Channel(Ways& ways, size_t from, size_t to, uint64_t number)
      : id(number),
        there(std::make_shared<Pipe>(ways, from, to)),
        back(std::make_shared<Pipe>(ways, to, from)) {}
  const uint64_t id;
  const std::shared_ptr<Pipe> there, back;
  bool broken = false;
};

Program::Program(World& world, size_t node, size_t number, uint64_t seed, int64_t drift_ppm)
    : env(std::make_shared<SimEnv>(world.clock(), seed, drift_ppm)),
      world_(world),
      node_(node),
      number_(number) {}

Program::~Program() { die(); }

void Program::die() {
  if (ended_) return;
  ended_ = true;
  const auto daemon = world_.daemon(node_);
  if (!daemon || daemon->run() != session_run_ || !session_) return;
  daemon->env->deliver([weak = std::weak_ptr(daemon), session = session_] {
    if (const auto alive = weak.lock()) alive->service->program_ended(session);
  });
}

// ---- control

Task<Status> Program::open() {
  while (opening_) co_await env->sleep_ns(1'000'000);
  opening_ = true;
  const Status opened = co_await greet();
  opening_ = false;
  co_return opened;
}

Task<Status> Program::greet() {
  const auto daemon = world_.daemon(node_);
  if (!daemon) co_return Code::kNoDaemon;
  if (session_ && daemon->run() == session_run_) co_return Status();
  session_run_ = daemon->run();
  session_ = std::make_shared<node::Program>();
  session_->uid = 1000;
  session_->pid = static_cast<uint32_t>(number_);
  wire::Envelope request;
  auto& hello = *request.mutable_session_hello();
  hello.set_version(wire::kControlVersion);
  hello.set_program("program");
  hello.set_resume_session(session_id_);
  hello.set_resume_key(resume_key_);
  const bool taken_up = !session_id_.empty();
  auto reply = co_await call(std::move(request), 4 * world_.deadline_ns());
  if (!reply.is_ok()) {
    // As when a connection that could not greet is closed.
    const auto now = world_.daemon(node_);
    if (now && session_ && now->run() == session_run_) {
      now->env->deliver([weak = std::weak_ptr(now), session = session_] {
        if (const auto alive = weak.lock()) alive->service->program_ended(session);
      });
    }
    session_.reset();
    co_return reply.status();
  }
  session_id_ = reply.value().session_welcome().session_id();
  resume_key_ = reply.value().session_welcome().resume_key();
  if (!taken_up) co_return Status();
  const Status shown = co_await show_receipts();
  co_return shown.code() == Code::kDeadline ? Status() : shown;  // it comes before any later request
}

Task<Status> Program::show_receipts() {
  wire::Envelope request;
  std::map<std::string, wire::SessionRestore::Shown> shown;  // one for all handles of an allocation
  for (const auto& handle : handles) {
    auto& one = shown[handle->memory->allocation.allocation_id()];
    one.set_receipt(handle->receipt);
    one.set_handles(one.handles() + 1);
  }
  if (shown.empty()) co_return Status();
  for (auto& [id, one] : shown) *request.mutable_session_restore()->add_shown() = std::move(one);
  const auto reply = co_await call(std::move(request), 4 * world_.deadline_ns());
  if (reply.is_ok()) ++world_.counts["receipts shown"];
  const Code code = reply.status().code();
  if (code == Code::kAuth || code == Code::kLimit || code == Code::kInvalidArgument)
    world_.violate("W6: a receipt on " + name_of(node_) + ": " + std::string(reply.status().to_string()));
  co_return reply.status();
}

Task<Result<wire::Envelope>> Program::call(wire::Envelope request, uint64_t bound_ns) {
  if (!request.has_session_hello() && !request.has_session_restore()) {
    const Status opened = co_await open();
    if (!opened.is_ok()) co_return opened;
  }
  const auto daemon = world_.daemon(node_);
  if (!daemon || daemon->run() != session_run_) co_return Status(Code::kPeerLost, "the daemon died");
  const auto call = std::make_shared<ControlCall>(*env);
  const uint64_t stops = world_.stops(node_);
  const auto kind = static_cast<uint64_t>(request.body_case());
  const auto serve = [](Daemon& served, std::shared_ptr<node::Program> session, wire::Envelope message,
                        std::weak_ptr<ControlCall> weak, std::weak_ptr<SimEnv> asker) -> Task<void> {
    control::Reply answer = co_await served.service->program_request(std::move(session), std::move(message));
    const auto alive = asker.lock();
    if (!alive) co_return;
    alive->deliver([weak, reply = std::make_shared<wire::Envelope>(std::move(answer.message))] {
      const auto waiting = weak.lock();
      if (!waiting || waiting->done) return;
      waiting->status = control::reply_status(*reply);
      waiting->reply = std::move(*reply);
      waiting->finish();
    });
  };
  daemon->env->start(serve(*daemon, session_, std::move(request), call, env->weak_from_this()));
  // In slices: a daemon that dies closes the connection.
  const uint64_t until_ns = env->now_ns() + bound_ns;
  while (!call->done && env->now_ns() < until_ns) {
    if (!world_.daemon(node_) || world_.daemon(node_)->run() != session_run_)
      co_return Status(Code::kPeerLost, "the daemon died");
    call->expired = false;
    co_await env->wait(call, std::min(until_ns, env->now_ns() + 100'000'000));
  }
  if (!call->done) {
    if (bound_ns > world_.deadline_ns() && world_.stops(node_) == stops)
      world_.violate("W5: call " + std::to_string(kind) + " of " + name_of(node_) + " did not end");
    co_return Status(Code::kDeadline, "no answer in time");
  }
  world_.note(kind, number_, static_cast<uint64_t>(-static_cast<int>(call->status.code())));
  if (!call->status.is_ok()) co_return call->status;
  co_return std::move(call->reply);
}

// ---- words

Task<WordResult> Program::word(size_t node, WordOp op) {
  if (node == node_) {
    co_await env->sleep_ns(2000);
    const auto daemon = world_.daemon(node);
    if (!daemon) co_return WordResult{Code::kPeerLost, 0};
    co_return daemon->serve(op);
  }
  auto& slot = channels_[node];
  if (!slot || slot->broken)
    slot = std::make_shared<Channel>(world_.ways(), node_, node, world_.next_number());
  const auto channel = slot;
  const auto call = std::make_shared<WordCall>(*env);
  channel->there->send([&world = world_, node, op, channel, weak = std::weak_ptr(call), program = number_,
                        asker = env->weak_from_this()] {
    const auto daemon = world.daemon(node);
    const auto answer = [channel, weak, asker](WordResult result) {
      channel->back->send([weak, asker, result] {
        if (!asker.lock()) return;
        const auto waiting = weak.lock();
        if (!waiting || waiting->done) return;
        waiting->result = result;
        waiting->finish();
      });
    };
    if (!daemon) {
      if (world.has_power(node)) answer({Code::kPeerLost, 0});
      return;
    }
    daemon->env->deliver([served = std::weak_ptr(daemon), op, channel, program, answer] {
      const auto alive = served.lock();
      if (alive && alive->fence(program, channel->id)) answer(alive->serve(op));
    });
  });
  const bool answered = co_await env->wait(call, env->now_ns() + world_.deadline_ns());
  if (answered && call->result.code != Code::kPeerLost) co_return call->result;
  channel->broken = true;
  co_return WordResult{Code::kPeerLost, 0};
}

Task<void> Program::word_to(size_t node, WordOp op, WordResult& out) {
  out = co_await word(node, std::move(op));
}

Program::Where Program::where(const Handle& handle, size_t cell, size_t place) const {
  if (handle.memory->layout == Layout::kReplicated) return {place, 8 * cell};
  return {cell % handle.places.size(), 8 * (cell / handle.places.size())};
}

void Program::bind(Handle& handle, const wire::Allocation& allocation) {
  Memory& memory = *handle.memory;
  handle.places.clear();
  handle.lost.clear();
  uint32_t remade = 0;
  for (const auto& extent : allocation.extents()) {
    const ExtentId id{GlobalAddress(extent.address()), extent.generation()};
    size_t place = 0;
    while (place < memory.pieces.size() && memory.pieces[place].id != id) ++place;
    if (place == memory.pieces.size()) {
      Memory::Piece& piece = memory.pieces.emplace_back();
      piece.id = id;
      piece.node = node_of_name(extent.node());
      piece.life = world_.life(piece.node);
      piece.extent = extent;
    }
    handle.places.push_back(place);
    handle.lost.push_back(extent.lost());
    remade = std::max(remade, extent.remade());
  }
  if (memory.newest.empty() || remade > memory.remade) {
    memory.newest = handle.places;
    memory.remade = remade;
  }
}

Task<Status> Program::resolve(std::shared_ptr<Handle> handle, ExtentId replica) {
  wire::Envelope request;
  request.mutable_resolve()->set_allocation_id(handle->memory->allocation.allocation_id());
  request.mutable_resolve()->mutable_extent()->set_address(replica.address.bits());
  request.mutable_resolve()->mutable_extent()->set_generation(replica.generation);
  const auto reply = co_await call(std::move(request), 8 * world_.deadline_ns());
  if (!reply.is_ok()) co_return reply.status();
  if (static_cast<size_t>(reply.value().allocation().extents_size()) == handle->places.size())
    bind(*handle, reply.value().allocation());
  handle->receipt = reply.value().allocation().receipt();
  ++world_.counts["resolved"];
  co_return Status();
}

void Program::check_value(const Memory& memory, size_t cell, uint64_t acked_before, uint64_t value,
                          const char* what) {
  if (value >= acked_before && value <= memory.cells[cell].issued) return;
  world_.violate("W1: " + std::string(what) + " of cell " + std::to_string(cell) + " on " + name_of(node_) +
                 " brought " + std::to_string(value) + "; acknowledged " + std::to_string(acked_before) +
                 ", issued " + std::to_string(memory.cells[cell].issued));
}

Task<void> Program::lose(Handle& handle, size_t place, Status& out) {
  wire::Envelope request;
  auto& lost = *request.mutable_lost_replica();
  const size_t number = handle.places[place];
  Memory::Piece& which = handle.memory->pieces[number];
  lost.set_allocation_id(handle.memory->allocation.allocation_id());
  lost.set_address(which.id.address.bits());
  lost.set_generation(which.id.generation);
  which.drop_asked = true;
  const auto memory = handle.memory;
  const auto reply =
      co_await call(std::move(request), below(2) == 0 ? world_.deadline_ns() : 6 * world_.deadline_ns());
  out = reply.status();
  if (!out.is_ok()) co_return;
  memory->pieces[number].drop_answered = true;
  if (handle.places[place] == number) handle.lost[place] = true;
  ++world_.counts["replicas lost"];
}

Task<Status> Program::follow(std::shared_ptr<Handle> handle, std::function<Task<Status>()> once) {
  Status status;
  for (int attempt = 0; attempt < kFollowedMax; ++attempt) {
    status = co_await once();
    if (status.is_ok() || handle->memory->layout != Layout::kReplicated) break;
    const auto last = std::find(handle->lost.begin(), handle->lost.end(), false);
    if (last == handle->lost.end()) break;
    const size_t place = static_cast<size_t>(last - handle->lost.begin());
    const Status followed = co_await resolve(handle, piece_at(*handle, place).id);
    if (!followed.is_ok()) {
      if (is_gone(status.code()) && followed.code() == Code::kRevoked) lost_all(*handle);
      break;
    }
  }
  co_return status;
}

Task<Status> Program::put(std::shared_ptr<Handle> handle, size_t cell) {
  const std::shared_ptr<Memory> memory = handle->memory;
  const uint64_t value = ++memory->cells[cell].issued;
  const Status status = co_await follow(handle, [&] { return put_once(handle, cell, value); });
  world_.note(100, number_ * 1000 + cell, static_cast<uint64_t>(-static_cast<int>(status.code())));
  if (status.is_ok()) {
    memory->cells[cell].acked = std::max(memory->cells[cell].acked, value);
    ++world_.counts["puts"];
  } else {
    ++world_.counts["puts failed"];
  }
  co_return status;
}

Task<Status> Program::put_once(std::shared_ptr<Handle> handle, size_t cell, uint64_t value) {
  WordOp op;
  op.kind = WordOp::kPut;
  op.value = value;
  const bool replicated = handle->memory->layout == Layout::kReplicated;
  const auto bound = handle->places;
  std::vector<size_t> places;
  if (!replicated) places.push_back(where(*handle, cell, 0).place);
  for (size_t i = 0; replicated && i < handle->places.size(); ++i) {
    if (!handle->lost[i]) places.push_back(i);
  }
  if (places.empty()) co_return Code::kLost;
  std::vector<WordResult> results(places.size());
  std::vector<Task<void>> tasks;
  for (size_t i = 0; i < places.size(); ++i) {
    const Memory::Piece& piece = piece_at(*handle, places[i]);
    op.id = piece.id;
    op.capability = piece.extent.capability();
    op.offset = where(*handle, cell, places[i]).offset;
    tasks.push_back(word_to(piece.node, op, results[i]));
  }
  co_await env->join(std::move(tasks));
  Status status;
  size_t good = 0;
  std::vector<size_t> failed;
  for (size_t i = 0; i < places.size(); ++i) {
    if (results[i].code == Code::kOk) {
      ++good;
    } else {
      if (status.is_ok() || !is_gone(results[i].code)) status = results[i].code;
      failed.push_back(places[i]);
    }
  }
  if (!replicated || good == 0 || failed.empty()) co_return status;
  if (handle->places != bound) co_return Code::kRevoked;  // another step of this program followed meanwhile
  std::vector<Status> answers(failed.size());
  std::vector<Task<void>> ask;
  for (size_t i = 0; i < failed.size(); ++i) ask.push_back(lose(*handle, failed[i], answers[i]));
  co_await env->join(std::move(ask));
  for (const Status& answer : answers) {
    if (!answer.is_ok()) co_return answer;
  }
  co_return Status();
}

Task<Status> Program::add(std::shared_ptr<Handle> handle) {
  const std::shared_ptr<Memory> memory = handle->memory;
  const size_t cell = memory->cells.size() - 1;
  const uint64_t before = memory->cells[cell].acked;
  ++memory->cells[cell].issued;
  const Where at = where(*handle, cell, 0);
  const Memory::Piece& piece = piece_at(*handle, at.place);
  WordOp op;
  op.kind = WordOp::kAdd;
  op.id = piece.id;
  op.capability = piece.extent.capability();
  op.offset = at.offset;
  op.value = 1;
  const WordResult result = co_await word(piece.node, op);
  if (result.code != Code::kOk) co_return result.code;
  if (result.value + 1 > memory->cells[cell].issued || result.value < before)
    world_.violate("W1: an atomic brought " + std::to_string(result.value));
  ++memory->cells[cell].acked;
  ++world_.counts["adds"];
  co_return Status();
}

void Program::lost_all(const Handle& handle) {
  const Memory& memory = *handle.memory;
  if (memory.state >= Memory::State::kRemoving && handle.hold_id.empty()) return;
  if (!handle.owned && handle.hold_id.empty() && memory.state != Memory::State::kPublished) return;
  if (memory.state != Memory::State::kPublished && world_.counts["orphans freed"] != 0)
    return;  // its owner was cut off for longer than the grace
  // A hold is one of the replicas' homes that answered; what no name has and no hold is freed.
  std::vector<Memory::Piece> pieces;  // what it is now, as far as a program knows
  for (const size_t place : memory.newest) pieces.push_back(memory.pieces[place]);
  const bool asked = std::any_of(memory.pieces.begin(), memory.pieces.end(),
                                 [](const Memory::Piece& piece) { return piece.drop_asked; });
  if (memory.state >= Memory::State::kRemoving && asked) return;
  const auto lived = [&](const Memory::Piece& piece) { return world_.life(piece.node) == piece.life; };
  const bool never_killed = std::all_of(memory.pieces.begin(), memory.pieces.end(), lived);
  const bool spared = std::any_of(pieces.begin(), pieces.end(),
                                  [&](const Memory::Piece& p) { return lived(p) && !p.drop_asked; });
  if (!never_killed && !spared) return;
  std::string what = "W2: every replica is gone, and a node was never lost: of \"" + memory.name +
                     "\", state " + std::to_string(static_cast<int>(memory.state)) +
                     (handle.owned ? ", owned" : "");
  for (const Memory::Piece& piece : memory.pieces)
    what += ", " + name_of(piece.node) +
            (piece.drop_answered ? " given up"
             : piece.drop_asked  ? " asked for"
                                 : "");
  world_.violate(what);
}

Task<Status> Program::get(std::shared_ptr<Handle> handle, size_t cell) {
  const uint64_t acked = handle->memory->cells[cell].acked;
  const Status status = co_await follow(handle, [&] { return get_once(handle, cell, acked); });
  if (!status.is_ok()) {
    world_.note(102, number_ * 1000 + cell, static_cast<uint64_t>(-static_cast<int>(status.code())));
    ++world_.counts["gets failed"];
  }
  co_return status;
}

Task<Status> Program::get_once(std::shared_ptr<Handle> handle, size_t cell, uint64_t acked) {
  const std::shared_ptr<Memory> memory = handle->memory;
  std::vector<size_t> order;  // of pieces
  if (memory->layout == Layout::kReplicated) {
    for (size_t i = 0; i < handle->places.size(); ++i) {
      if (!handle->lost[i]) order.push_back(handle->places[i]);
    }
    if (!order.empty()) std::rotate(order.begin(), order.begin() + below(order.size()), order.end());
    // As the client does: what is on this host first.
    std::stable_partition(order.begin(), order.end(),
                          [&](size_t i) { return memory->pieces[i].node == node_; });
  } else {
    order.push_back(handle->places[where(*handle, cell, 0).place]);
  }
  const uint64_t offset = where(*handle, cell, 0).offset;
  Status last = Code::kLost;
  for (const size_t i : order) {
    const Memory::Piece& piece = memory->pieces[i];
    WordOp op;
    op.id = piece.id;
    op.capability = piece.extent.capability();
    op.offset = offset;
    const WordResult result = co_await word(piece.node, op);
    if (result.code == Code::kOk) {
      check_value(*memory, cell, acked, result.value, "get");
      world_.note(101, number_ * 1000 + cell, result.value);
      ++world_.counts["gets"];
      co_return Status();
    }
    if (last.code() == Code::kLost || !is_gone(result.code)) last = result.code;
  }
  co_return last;
}

Task<Status> Program::copy(std::shared_ptr<Handle> from, std::shared_ptr<Handle> to, size_t cell) {
  const uint64_t acked = from->memory->cells[cell].acked;
  std::vector<size_t> sources;
  for (size_t i = 0; i < from->places.size(); ++i) {
    if (!from->lost[i]) sources.push_back(i);
  }
  if (from->memory->layout != Layout::kReplicated) sources = {where(*from, cell, 0).place};
  if (sources.empty()) co_return Code::kLost;
  const size_t source = sources[below(sources.size())];
  wire::Envelope request;
  auto& ask = *request.mutable_copy();
  *ask.mutable_source() = piece_at(*from, source).extent;
  ask.set_source_offset(where(*from, cell, source).offset);
  *ask.mutable_target() = piece_at(*to, 0).extent;
  ask.set_target_offset(kCopiesAt);
  ask.set_bytes_total(8);
  to->copied_to = true;
  const auto copied = co_await call(std::move(request), 8 * world_.deadline_ns());
  if (!copied.is_ok()) co_return copied.status();  // it may still come: never again to this target
  to->copied_to = false;
  ++world_.counts["copies"];
  const Memory::Piece& piece = piece_at(*to, 0);
  WordOp op;
  op.id = piece.id;
  op.capability = piece.extent.capability();
  op.offset = kCopiesAt;
  const WordResult result = co_await word(piece.node, op);
  if (result.code == Code::kOk) check_value(*from->memory, cell, acked, result.value, "copy");
  co_return result.code;
}

// ---- allocations and names

Task<Result<std::shared_ptr<Handle>>> Program::allocate(Layout layout, std::vector<size_t> nodes) {
  wire::Envelope request;
  auto& ask = *request.mutable_allocate();
  const uint32_t extents =
      layout == Layout::kSingle ? 1 : static_cast<uint32_t>(std::max<size_t>(2, nodes.size()));
  ask.set_layout(static_cast<uint32_t>(layout));
  ask.set_extents(extents);
  ask.set_bytes_total(layout == Layout::kStriped ? extents * kPieceBytes : kPieceBytes);
  if (layout == Layout::kStriped) ask.set_chunk_bytes(kPieceBytes);
  for (const size_t node : nodes) ask.add_nodes(name_of(node));
  auto reply = co_await call(std::move(request), 24 * world_.deadline_ns());
  if (!reply.is_ok()) co_return reply.status();
  auto handle = std::make_shared<Handle>();
  handle->memory = std::make_shared<Memory>();
  Memory& memory = *handle->memory;
  memory.allocation = reply.value().allocation();
  memory.layout = layout;
  memory.cells.resize(world_.writers() + 1);
  bind(*handle, memory.allocation);
  handle->owned = true;
  handle->receipt = memory.allocation.receipt();
  handles.push_back(handle);
  ++world_.counts["allocations"];
  co_return handle;
}

Task<Status> Program::publish(Handle& handle, std::string name) {
  const std::shared_ptr<Memory> memory = handle.memory;
  if (memory->state != Memory::State::kHeld) co_return Code::kExists;
  memory->name = name;
  memory->state = Memory::State::kPublishing;
  wire::Envelope request;
  request.mutable_publish()->set_name(name);
  request.mutable_publish()->set_allocation_id(memory->allocation.allocation_id());
  const auto reply = co_await call(std::move(request), 8 * world_.deadline_ns());
  if (!reply.is_ok()) {
    ++world_.counts["publishes failed"];
    co_return reply.status();  // it may be there all the same
  }
  if (memory->state == Memory::State::kPublishing) memory->state = Memory::State::kPublished;
  world_.published.push_back(memory);
  ++world_.counts["published"];
  co_return Status();
}

Task<Result<std::shared_ptr<Handle>>> Program::attach(std::string name, bool hold) {
  std::shared_ptr<Memory> expected;
  for (const auto& memory : world_.published) {
    if (memory->name == name && memory->state == Memory::State::kPublished) expected = memory;
  }
  wire::Envelope request;
  request.mutable_attach()->set_name(name);
  request.mutable_attach()->set_access(static_cast<uint32_t>(Access::kReadWrite));
  request.mutable_attach()->set_hold(hold);
  const uint64_t began_ns = world_.clock().now_ns();
  auto reply = co_await call(std::move(request), 8 * world_.deadline_ns());
  const uint64_t settled_ns = world_.coordinator_since_ns() + 6 * world_.deadline_ns();
  if (reply.status().code() == Code::kNotFound && expected && !hold &&
      expected->state == Memory::State::kPublished && began_ns > settled_ns && world_.daemon(0) &&
      std::any_of(expected->newest.begin(), expected->newest.end(), [&](size_t i) {
        const Memory::Piece& piece = expected->pieces[i];
        return world_.life(piece.node) == piece.life && !piece.drop_asked;
      })) {
    world_.violate("W4: the name " + name + " is not there");
  }
  if (!reply.is_ok()) co_return reply.status();
  const wire::Allocation& found = reply.value().allocation();
  for (const auto& memory : world_.published) {
    if (memory->allocation.allocation_id() != found.allocation_id()) continue;
    if (memory->state == Memory::State::kRemoved && memory->removed_ns < began_ns &&
        memory->removed_ns > world_.coordinator_since_ns()) {
      world_.violate("W4: the name " + name + " was removed and is there");
    }
    auto handle = std::make_shared<Handle>();
    handle->memory = memory;
    handle->hold_id = found.hold_id();
    handle->receipt = found.receipt();
    bind(*handle, found);
    handles.push_back(handle);
    ++world_.counts["attached"];
    co_return handle;
  }
  // A publish that nobody acknowledged.
  wire::Envelope let_go;
  let_go.mutable_free()->set_allocation_id(found.allocation_id());
  let_go.mutable_free()->set_hold_id(found.hold_id());
  (void)co_await call(std::move(let_go), 8 * world_.deadline_ns());
  co_return Code::kNotFound;
}

Task<Status> Program::remove(std::shared_ptr<Memory> memory) {
  memory->state = std::max(memory->state, Memory::State::kRemoving);
  wire::Envelope request;
  request.mutable_name_remove()->set_name(memory->name);
  const auto reply = co_await call(std::move(request), 8 * world_.deadline_ns());
  if (reply.is_ok()) {
    memory->state = Memory::State::kRemoved;
    memory->removed_ns = world_.clock().now_ns();
    ++world_.counts["removed"];
  }
  co_return reply.status();
}

Task<Status> Program::free(std::shared_ptr<Handle> handle) {
  handles.erase(std::remove(handles.begin(), handles.end(), handle), handles.end());
  wire::Envelope request;
  request.mutable_free()->set_allocation_id(handle->memory->allocation.allocation_id());
  request.mutable_free()->set_hold_id(handle->hold_id);
  const auto reply = co_await call(std::move(request), 8 * world_.deadline_ns());
  co_return reply.status();
}

Task<void> Program::step() {
  constexpr size_t kHandlesMax = 8;
  constexpr uint64_t kNames = 4;  // few: most memory is shared
  const uint64_t dice = below(100);
  const auto handle = handles.empty() ? nullptr : handles[below(handles.size())];
  if (dice < 8 || !handle) {
    if (handles.size() >= kHandlesMax) co_return;
    const uint64_t kind = below(6);
    const Layout layout = kind == 0 ? Layout::kSingle : kind == 1 ? Layout::kStriped : Layout::kReplicated;
    std::vector<size_t> nodes;
    if (below(2) == 0) {
      const size_t first = below(2) == 0 ? node_ : below(world_.nodes());
      nodes.push_back(first);
      if (layout != Layout::kSingle)
        nodes.push_back((first + 1 + below(world_.nodes() - 1)) % world_.nodes());
    }
    (void)co_await allocate(layout, std::move(nodes));
  } else if (dice < 45) {
    (void)co_await put(handle, number_);
  } else if (dice < 70) {
    (void)co_await get(handle, 1 + below(world_.programs()));
  } else if (dice < 74) {
    if (handle->memory->layout != Layout::kReplicated) (void)co_await add(handle);
  } else if (dice < 78) {
    std::shared_ptr<Handle> target;
    for (const auto& other : handles) {
      if (other->owned && other != handle && other->memory->layout == Layout::kSingle && !other->copied_to)
        target = other;
    }
    if (target) (void)co_await copy(handle, target, 1 + below(world_.programs()));
  } else if (dice < 86) {
    if (handle->owned && handle->memory->state == Memory::State::kHeld)
      (void)co_await publish(*handle, "name" + std::to_string(below(kNames)));
  } else if (dice < 95) {
    if (handles.size() < kHandlesMax)
      (void)co_await attach("name" + std::to_string(below(kNames)), below(3) == 0);
  } else if (dice < 97) {
    if (!world_.published.empty()) {
      const auto memory = world_.published[below(world_.published.size())];
      if (memory->state == Memory::State::kPublished) (void)co_await remove(memory);
    }
  } else {
    (void)co_await free(handle);
  }
}

Task<void> Program::live() {
  while (!world_.ending()) {
    co_await env->sleep_ns(1'000'000 + below(120'000'000));
    if (world_.ending()) break;
    co_await step();
  }
}

Task<void> Program::probe() {
  const auto must = [this](const Status& status, const std::string& what) {
    if (!status.is_ok())
      world_.violate("W6: " + what + " on " + name_of(node_) + ": " + std::string(status.to_string()));
  };
  auto fresh = co_await allocate(Layout::kReplicated, {});
  must(fresh.status(), "an allocation");
  if (fresh.is_ok()) {
    must(co_await put(fresh.value(), number_), "a put");
    must(co_await get(fresh.value(), number_), "a get");
    const std::string name = "probe" + std::to_string(number_);
    must(co_await publish(*fresh.value(), name), "a publish");
    auto attached = co_await attach(name, true);
    must(attached.status(), "an attach");
    must(co_await remove(fresh.value()->memory), "a removal");
    if (attached.is_ok()) {
      must(co_await get(attached.value(), number_), "a get of what is held");
      must(co_await free(attached.value()), "a free");
    }
  }
  const auto mine = handles;
  for (const auto& handle : mine) {
    if (handle->memory->layout != Layout::kReplicated) continue;
    (void)co_await get(handle, 0);  // W1 and W2
    const Status put_now = co_await put(handle, number_);
    const bool left =
        std::any_of(handle->memory->newest.begin(), handle->memory->newest.end(), [&](size_t i) {
          const Memory::Piece& p = handle->memory->pieces[i];
          return world_.life(p.node) == p.life && !p.drop_asked;
        });
    const bool freed = handle->memory->state >= Memory::State::kPublishing && handle->hold_id.empty();
    if (left && !freed && handle->hold_id.empty()) must(put_now, "a put to what was there");
  }
}

Task<void> Program::sweep(bool& clean) {
  wire::Envelope request;
  request.mutable_name_list();
  const auto listed = co_await call(std::move(request), 8 * world_.deadline_ns());
  clean = listed.is_ok() && listed.value().names().allocations_size() == 0;
  if (!listed.is_ok()) co_return;
  for (const auto& name : listed.value().names().allocations()) {
    wire::Envelope gone;
    gone.mutable_name_remove()->set_name(name.name());
    (void)co_await call(std::move(gone), 8 * world_.deadline_ns());
  }
}

}  // namespace ocm::simulation
