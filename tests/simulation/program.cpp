#include "program.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace ocm::simulation {
namespace {

constexpr int kFollowedMax = 8;             // as the client library
constexpr uint64_t kSliceNs = 100'000'000;  // of a wait

struct ControlCall : Waiter {
  using Waiter::Waiter;
  Status status;
  wire::Envelope reply;
};
struct WordCall : Waiter {
  using Waiter::Waiter;
  WordResult result;
};

/// Of a node that lives and cannot just now.
bool is_refusal(Code code) { return code == Code::kNoMemory || code == Code::kNoFds; }
bool is_gone(Code code) { return code == Code::kRevoked || code == Code::kNotFound || code == Code::kLost; }

WordOp word_of(const Memory::Piece& piece, uint64_t offset) {
  WordOp out;
  out.id = piece.id;
  out.capability = piece.extent.capability();
  out.offset = offset;
  return out;
}

}  // namespace

/// A data connection; it fails as a whole.
struct Program::Channel {
  Channel(Ways& ways, size_t from, size_t to, uint64_t number)
      : id(number),
        there(std::make_shared<Pipe>(ways, from, to)),
        back(std::make_shared<Pipe>(ways, to, from)) {}
  const uint64_t id;
  const std::shared_ptr<Pipe> there, back;
  std::vector<std::weak_ptr<WordCall>> calls;
  bool broken = false;

  void reset() {
    broken = true;
    for (const auto& weak : calls) {
      const auto call = weak.lock();
      if (!call || call->done) continue;
      call->result.code = Code::kPeerLost;
      call->finish();
    }
  }
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
  if (!daemon || daemon->is_closed()) co_return Code::kNoDaemon;
  if (session_ && daemon->run() == session_run_) co_return Status();
  session_run_ = daemon->run();
  session_ = std::make_shared<node::Program>();
  session_->uid = uid();
  session_->pid = static_cast<uint32_t>(number_);
  daemon->connected(session_);
  wire::Envelope request;
  auto& hello = *request.mutable_session_hello();
  hello.set_version(wire::kControlVersions.max);
  hello.set_program("program");
  hello.set_resume_session(session_id_);
  hello.set_resume_key(resume_key_);
  const bool taken_up = !session_id_.empty();
  auto reply = co_await call(std::move(request), world_.deadline_ns());
  if (!reply.is_ok()) {
    if (reply.status().code() == Code::kAuth) world_.violate("P5: the session of a living program is over");
    close_connection();
    co_return reply.status();
  }
  session_id_ = reply.value().session_welcome().session_id();
  resume_key_ = reply.value().session_welcome().resume_key();
  if (!taken_up) co_return Status();
  const Status shown = co_await show_receipts();
  co_return shown.code() == Code::kDeadline ? Status() : shown;  // it comes before any later request
}

void Program::close_connection() {
  const auto now = world_.daemon(node_);
  if (now && session_ && now->run() == session_run_) {
    now->env->deliver([weak = std::weak_ptr(now), session = session_] {
      if (const auto alive = weak.lock()) alive->service->program_ended(session);
    });
  }
  session_.reset();
}

Task<Status> Program::show_receipts() {
  wire::Envelope request;
  std::map<std::string, wire::SessionRestore::Shown> shown;  // one for all handles of an allocation
  for (const auto& handle : handles) {
    auto& one = shown[handle->memory->allocation.allocation_id()];
    one.set_receipt(handle->receipt);
    one.set_may_be_named(handle->memory->state == Memory::State::kPublishing);
    one.set_handles(one.handles() + 1);
    if (!handle->hold_id.empty()) one.add_holds(handle->hold_id);
  }
  const size_t freed_before = freed_.size();
  for (const Freed& freed : freed_) {
    auto& one = shown[freed.id];
    one.set_receipt(freed.receipt);
    one.set_handles(one.handles() + 1);
    one.add_freed(freed.hold_id);
  }
  if (growing_ == 0 && resumptions_given_up == 0) request.mutable_session_restore()->set_complete(true);
  if (shown.empty() && growing_ != 0) co_return Status();
  for (auto& [id, one] : shown) *request.mutable_session_restore()->add_shown() = std::move(one);
  const auto reply = co_await call(std::move(request), 4 * world_.deadline_ns());
  if (resumptions_given_up > 0) {
    --resumptions_given_up;
    close_connection();
    co_return Code::kNoMemory;
  }
  if (reply.is_ok()) {
    ++world_.counts["receipts shown"];
    freed_.erase(freed_.begin(), freed_.begin() + static_cast<ptrdiff_t>(freed_before));
  }
  const Code code = reply.status().code();
  if (code == Code::kAuth || code == Code::kLimit || code == Code::kInvalidArgument)
    world_.violate("W6: a receipt on " + name_of(node_) + ": " + std::string(reply.status().to_string()));
  co_return reply.status();
}

bool Program::is_connected() const {
  const auto daemon = world_.daemon(node_);
  return daemon && !daemon->is_closed() && daemon->run() == session_run_;
}

Task<Result<wire::Envelope>> Program::call(wire::Envelope request, uint64_t bound_ns,
                                           std::shared_ptr<void> kept) {
  if (!request.has_session_hello() && !request.has_session_restore()) {
    const Status opened = co_await open();
    if (!opened.is_ok()) co_return opened;
  }
  const auto daemon = world_.daemon(node_);
  if (!is_connected()) co_return Status(Code::kPeerLost, "the daemon died");
  // An allocation may come of which there is no handle yet.
  const bool grows = request.has_allocate() || request.has_attach() || request.has_join();
  const Counted counted(grows ? &growing_ : nullptr);
  const auto call = std::make_shared<ControlCall>(*env);
  const Began began = begin();
  const auto kind = static_cast<uint64_t>(request.body_case());
  const bool waits = request.has_events();  // as long as there is nothing
  const auto serve = [](Daemon& served, std::shared_ptr<node::Program> session, wire::Envelope message,
                        std::weak_ptr<ControlCall> weak, std::weak_ptr<SimEnv> asker,
                        [[maybe_unused]] std::shared_ptr<void> kept_too) -> Task<void> {
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
  daemon->env->start(
      serve(*daemon, session_, std::move(request), call, env->weak_from_this(), std::move(kept)));
  // In slices: a daemon that dies closes the connection.
  const uint64_t until_ns = env->now_ns() + bound_ns;
  while (!call->done && env->now_ns() < until_ns) {
    if (!is_connected()) co_return Status(Code::kPeerLost, "the daemon died");
    call->expired = false;
    co_await env->wait(call, std::min(until_ns, env->now_ns() + kSliceNs));
  }
  const std::string what = "call " + std::to_string(kind);
  if (!call->done) {
    // Who gives up early, as the client does with a hello, leaves a request that ends all the same.
    const uint64_t given_up_ns = bound_ns > world_.deadline_ns() ? 0 : call_bound_ns() - bound_ns;
    const auto check = [weak = weak_from_this(), run = daemon->run(), call, stops = began.stops, what] {
      const auto alive = weak.lock();
      if (!alive || alive->ended_ || call->done || !alive->is_connected() || alive->session_run_ != run)
        return;
      if (alive->world_.stops(alive->node_) == stops)
        alive->world_.violate("W5: " + what + " of " + name_of(alive->node_) + " did not end");
    };
    if (given_up_ns == 0)
      check();
    else
      world_.clock().in(given_up_ns, check);
    co_return Status(Code::kDeadline, "no answer in time");
  }
  if (!waits) check_in_time(what, began, bound_ns);
  world_.note(kind, number_, static_cast<uint64_t>(-static_cast<int>(call->status.code())));
  if (!call->status.is_ok()) co_return call->status;
  co_return std::move(call->reply);
}

void Program::check_in_time(const std::string& what, const Began& began, uint64_t bound_ns) {
  if (world_.stops(node_) != began.stops) return;
  const uint64_t took_ns = env->now_ns() - began.at_ns;
  const bool probing = began.at_ns >= probes_since_ns_;
  uint64_t& longest_ns = world_.longest_ns[(probing ? "at the end, " : "") + what];
  longest_ns = std::max(longest_ns, took_ns);
  constexpr uint64_t kRoundedNs = 1000;  // a clock's speed is its own
  if (took_ns > bound_ns + kRoundedNs)
    world_.violate("W5: " + what + " of " + name_of(node_) + " took too long");
  if (probing && took_ns > works_within_ns())
    world_.violate("W6: " + what + " of " + name_of(node_) + " took " + std::to_string(took_ns / 1'000'000) +
                   " ms");
}

// ---- words

Task<WordResult> Program::word(size_t node, WordOp op) {
  if (node == node_) {
    co_await env->sleep_ns(2000);
    const auto daemon = world_.daemon(node);
    if (!daemon) co_return WordResult{Code::kPeerLost, 0, {}};
    co_return daemon->serve(op);
  }
  auto& slot = channels_[node];
  if (!slot || slot->broken) {
    slot = std::make_shared<Channel>(world_.ways(), node_, node, world_.next_number());
    world_.ways().watch(slot->there, slot->back, [weak = std::weak_ptr(slot), mine = env->weak_from_this()] {
      const auto channel = weak.lock();
      if (channel && mine.lock()) channel->reset();
    });
  }
  const auto channel = slot;
  const auto call = std::make_shared<WordCall>(*env);
  std::erase_if(channel->calls, [](const auto& old) { return old.expired(); });
  channel->calls.push_back(call);
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
      if (world.has_power(node)) answer({Code::kPeerLost, 0, {}});
      return;
    }
    daemon->env->deliver([served = std::weak_ptr(daemon), op, channel, program, answer] {
      const auto alive = served.lock();
      if (alive && alive->is_let_in(program, channel->id)) answer(alive->serve(op));
    });
  });
  const bool answered = co_await env->wait(call, env->now_ns() + world_.deadline_ns());
  if (answered && call->result.code != Code::kPeerLost) co_return call->result;
  channel->broken = true;
  co_return WordResult{Code::kPeerLost, 0, {}};
}

Task<void> Program::word_to(size_t node, WordOp op, WordResult& out) {
  out = co_await word(node, std::move(op));
}

Program::Where Program::where(const Handle& handle, size_t cell) const {
  const Memory& memory = *handle.memory;
  const size_t count = handle.places.size();
  if (memory.layout == Layout::kStriped) return {cell % count, cell % count + 1, 8 * (cell / count)};
  const size_t part = cell / memory.cells_per_part();
  Where out{count, 0, 8 * (cell % memory.cells_per_part())};
  for (size_t i = 0; i < count; ++i) {
    if (piece_at(handle, i).part != part) continue;
    out.first = std::min(out.first, i);
    out.last = i + 1;
  }
  return out;
}

std::vector<size_t> Program::living(const Handle& handle, const Where& where) {
  std::vector<size_t> out;
  for (size_t i = where.first; i < where.last; ++i) {
    if (!handle.memory->replicated() || !handle.lost[i]) out.push_back(i);
  }
  return out;
}

void Program::bind(Handle& handle, const wire::Allocation& allocation) {
  Memory& memory = *handle.memory;
  handle.places.clear();
  handle.lost.clear();
  std::vector<uint32_t> remade(memory.parts());
  for (const auto& extent : allocation.extents()) {
    const ExtentId id{GlobalAddress(extent.address()), extent.generation()};
    const size_t part = memory.layout == Layout::kSequence ? extent.part() : 0;
    size_t place = 0;
    while (place < memory.pieces.size() &&
           (memory.pieces[place].id != id || memory.pieces[place].part != part))
      ++place;
    if (place == memory.pieces.size()) {
      Memory::Piece& piece = memory.pieces.emplace_back();
      piece.id = id;
      piece.part = part;
      piece.node = node_of_name(extent.node());
      piece.life = world_.life(piece.node);
      piece.extent = extent;
      if (!world_.given.insert(id).second) world_.violate("T4: an extent's id was given twice");
    }
    handle.places.push_back(place);
    handle.lost.push_back(extent.lost());
    memory.pieces[place].known_lost |= extent.lost();
    remade[part] = std::max(remade[part], extent.epoch());
  }
  if (memory.newest.size() != handle.places.size()) memory.newest = handle.places;
  memory.remade.resize(memory.parts());
  for (size_t i = 0; i < handle.places.size(); ++i) {
    const size_t part = memory.pieces[handle.places[i]].part;
    if (remade[part] > memory.remade[part]) memory.newest[i] = handle.places[i];
  }
  for (size_t part = 0; part < remade.size(); ++part)
    memory.remade[part] = std::max(memory.remade[part], remade[part]);
}

Task<Status> Program::resolve(std::shared_ptr<Handle> handle, ExtentId replica) {
  wire::Envelope request;
  request.mutable_resolve()->set_allocation_id(handle->memory->allocation.allocation_id());
  request.mutable_resolve()->mutable_extent()->set_address(replica.address.bits());
  request.mutable_resolve()->mutable_extent()->set_generation(replica.generation);
  const auto reply = co_await call(std::move(request), call_bound_ns());
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

Task<void> Program::lose(Handle& handle, size_t place, bool revoked, Status& out) {
  wire::Envelope request;
  auto& lost = *request.mutable_lost_replica();
  const size_t number = handle.places[place];
  Memory::Piece& which = handle.memory->pieces[number];
  lost.set_allocation_id(handle.memory->allocation.allocation_id());
  lost.set_address(which.id.address.bits());
  lost.set_generation(which.id.generation);
  lost.set_revoked(revoked);
  which.drop_asked = true;
  const auto memory = handle.memory;
  const auto reply =
      co_await call(std::move(request), below(2) == 0 ? world_.deadline_ns() : call_bound_ns());
  out = reply.status();
  if (!out.is_ok()) co_return;
  memory->pieces[number].drop_answered = true;
  if (handle.places[place] == number) handle.lost[place] = true;
  ++world_.counts["replicas lost"];
}

Task<Status> Program::follow(std::shared_ptr<Handle> handle, size_t cell,
                             std::function<Task<Status>()> once) {
  Status status;
  for (int attempt = 0; attempt < kFollowedMax; ++attempt) {
    status = co_await once();
    if (status.is_ok() || is_refusal(status.code()) || !handle->memory->replicated()) break;
    const std::vector<size_t> left = living(*handle, where(*handle, cell));
    if (left.empty()) break;
    const std::vector<size_t> places = handle->places;
    const Status followed = co_await resolve(handle, piece_at(*handle, left.front()).id);
    // As the client: what was revoked may have been frozen; with another failure only a new place helps.
    if (followed.is_ok() && handle->places == places && !is_gone(status.code())) break;
    if (!followed.is_ok()) {
      if (is_gone(status.code()) && followed.code() == Code::kRevoked)
        lost_all(*handle, cell / handle->memory->cells_per_part());
      break;
    }
  }
  co_return status;
}

Task<Status> Program::put(std::shared_ptr<Handle> handle, size_t cell) {
  const std::shared_ptr<Memory> memory = handle->memory;
  const uint64_t value = ++memory->cells[cell].issued;
  const Began began = begin();
  const Status status = co_await follow(handle, cell, [&] { return put_once(handle, cell, value); });
  check_in_time("a put", began, move_bound_ns());
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
  const bool replicated = handle->memory->replicated();
  const auto bound = handle->places;
  const Where at = where(*handle, cell);
  const std::vector<size_t> places = living(*handle, at);
  if (places.empty()) co_return Code::kLost;
  std::vector<WordResult> results(places.size());
  std::vector<Task<void>> tasks;
  for (size_t i = 0; i < places.size(); ++i) {
    const Memory::Piece& piece = piece_at(*handle, places[i]);
    WordOp op = word_of(piece, at.offset);
    op.kind = WordOp::kPut;
    op.value = value;
    tasks.push_back(word_to(piece.node, op, results[i]));
  }
  co_await env->join(std::move(tasks));
  Status status;
  size_t good = 0;
  std::vector<size_t> failed;  // of `places`
  for (size_t i = 0; i < places.size(); ++i) {
    if (results[i].code == Code::kOk) {
      ++good;
    } else {
      if (status.is_ok() || !is_gone(results[i].code)) status = results[i].code;
      failed.push_back(i);
    }
  }
  // Only what speaks of a replica has it given up.
  const auto refused = std::find_if(results.begin(), results.end(),
                                    [](const WordResult& result) { return is_refusal(result.code); });
  if (refused != results.end()) co_return refused->code;
  if (!replicated || good == 0 || failed.empty()) co_return status;
  if (handle->places != bound) co_return Code::kRevoked;  // another step of this program followed meanwhile
  std::vector<Status> answers(failed.size());
  std::vector<Task<void>> ask;
  for (size_t i = 0; i < failed.size(); ++i) {
    const bool revoked = results[failed[i]].code == Code::kRevoked;
    ask.push_back(lose(*handle, places[failed[i]], revoked, answers[i]));
  }
  co_await env->join(std::move(ask));
  for (const Status& answer : answers) {
    if (!answer.is_ok()) co_return answer;
  }
  co_return Status();
}

Task<Status> Program::add(std::shared_ptr<Handle> handle) {
  const std::shared_ptr<Memory> memory = handle->memory;
  const size_t cell = (1 + below(memory->parts())) * memory->cells_per_part() - 1;
  const uint64_t before = memory->cells[cell].acked;
  ++memory->cells[cell].issued;
  const Where at = where(*handle, cell);
  const Memory::Piece& piece = piece_at(*handle, at.first);
  WordOp op = word_of(piece, at.offset);
  op.kind = WordOp::kAdd;
  op.value = 1;
  const Began began = begin();
  const WordResult result = co_await word(piece.node, op);
  check_in_time("an atomic", began, world_.deadline_ns() + kSliceNs);
  if (result.code != Code::kOk) co_return result.code;
  if (result.value + 1 > memory->cells[cell].issued || result.value < before)
    world_.violate("W1: an atomic brought " + std::to_string(result.value));
  ++memory->cells[cell].acked;
  ++world_.counts["adds"];
  co_return Status();
}

bool Program::is_kept(const Memory::Piece& piece, bool named) const {
  if (named) return true;
  if (world_.life(piece.node) == piece.life) return !world_.may_be_orphaned(node_, piece.node);
  for (size_t home = 0; home < world_.nodes(); ++home)  // another one has it
    if (world_.may_be_orphaned(node_, home)) return false;
  return true;
}

void Program::lost_all(const Handle& handle, size_t part) {
  const Memory& memory = *handle.memory;
  if (world_.may_be_removed(memory) && handle.hold_id.empty()) return;
  if (!handle.owned && handle.hold_id.empty() && memory.state != Memory::State::kPublished) return;
  // A hold is one of the replicas' homes that answered; what no name has and no hold is freed.
  std::vector<Memory::Piece> pieces, now;  // of the part; what it is now, as far as a program knows
  for (const Memory::Piece& piece : memory.pieces) {
    if (piece.part == part) pieces.push_back(piece);
  }
  for (const size_t place : memory.newest) {
    if (memory.pieces[place].part == part) now.push_back(memory.pieces[place]);
  }
  const bool asked =
      std::any_of(pieces.begin(), pieces.end(), [](const Memory::Piece& piece) { return piece.drop_asked; });
  if (world_.may_be_removed(memory) && asked) return;
  const bool named = memory.state == Memory::State::kPublished;
  const bool never_killed = std::all_of(pieces.begin(), pieces.end(),
                                        [&](const Memory::Piece& piece) { return lived(piece, named); });
  const bool spared = std::any_of(now.begin(), now.end(), [&](const Memory::Piece& piece) {
    return world_.is_spared(piece) && is_kept(piece, named);
  });
  if (!never_killed && !spared) return;
  std::string what = "W2: every replica is gone, and a node was never lost: of \"" + memory.name +
                     "\", state " + std::to_string(static_cast<int>(memory.state)) +
                     (handle.owned ? ", owned" : "");
  for (const Memory::Piece& piece : pieces)
    what += ", " + name_of(piece.node) + " " + piece.id.address.to_string() +
            (piece.drop_answered ? " given up"
             : piece.drop_asked  ? " asked for"
                                 : "");
  world_.violate(what);
}

Task<Status> Program::get(std::shared_ptr<Handle> handle, size_t cell) {
  const uint64_t acked = handle->memory->cells[cell].acked;
  check_pointers(*handle, cell);
  const Began began = begin();
  const Status status = co_await follow(handle, cell, [&] { return get_once(handle, cell, acked); });
  check_in_time("a get", began, move_bound_ns());
  if (!status.is_ok()) {
    world_.note(102, number_ * 1000 + cell, static_cast<uint64_t>(-static_cast<int>(status.code())));
    ++world_.counts["gets failed"];
  }
  co_return status;
}

void Program::check_pointers(Handle& handle, size_t cell) {
  const Memory& memory = *handle.memory;
  const Where at = where(handle, cell);
  const auto daemon = world_.daemon(node_);
  // Its slot and its lease are good just now.
  const auto answers = [&](const Memory::Piece& piece) {
    return daemon && world_.life(node_) == piece.life &&
           daemon->serve(word_of(piece, at.offset)).code == Code::kOk;
  };
  for (size_t place = at.first; place < at.last; ++place) {
    const size_t number = handle.places[place];
    const Memory::Piece& piece = memory.pieces[number];
    if (piece.node != node_ || handle.lost[place] || handle.pointers.contains(number) || !answers(piece))
      continue;
    ExtentDescriptor extent;
    extent.id = piece.id;
    extent.capability = wire::id_from<Capability>(piece.extent.capability());
    const auto fd = daemon->home->open(extent, Access::kRead);
    if (!fd.is_ok()) continue;
    auto pointer = os::Mapping::map(fd.value().get(), kPieceBytes, false);
    if (pointer.is_ok()) handle.pointers.emplace(number, std::move(pointer).value());
  }
  for (const auto& [number, pointer] : handle.pointers) {
    const Memory::Piece& piece = memory.pieces[number];
    const bool has_cell = memory.layout == Layout::kStriped ? handle.places[at.first] == number
                                                            : piece.part == cell / memory.cells_per_part();
    if (!has_cell) continue;
    uint64_t value = 0;
    std::memcpy(&value, pointer.data() + at.offset, 8);
    const bool is_current = answers(piece);
    ++world_.counts[is_current ? "read by pointers" : "read by pointers to what was"];
    check_value(memory, cell, is_current ? memory.cells[cell].acked : 0, value, "a pointer's read");
  }
}

Task<Status> Program::get_once(std::shared_ptr<Handle> handle, size_t cell, uint64_t acked) {
  const std::shared_ptr<Memory> memory = handle->memory;
  const Where at = where(*handle, cell);
  std::vector<size_t> order;  // of pieces
  for (const size_t place : living(*handle, at)) order.push_back(handle->places[place]);
  if (order.size() > 1) std::rotate(order.begin(), order.begin() + below(order.size()), order.end());
  // As the client does: what is on this host first.
  std::stable_partition(order.begin(), order.end(),
                        [&](size_t i) { return memory->pieces[i].node == node_; });
  Status last = Code::kLost;
  for (const size_t i : order) {
    const Memory::Piece& piece = memory->pieces[i];
    const WordResult result = co_await word(piece.node, word_of(piece, at.offset));
    if (is_refusal(result.code)) co_return result.code;
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

Task<void> Program::copy_to(size_t piece, std::shared_ptr<Handle> to, wire::CopyRequest ask, Status& out) {
  wire::Envelope request;
  *ask.mutable_target() = to->memory->pieces[piece].extent;
  ask.set_target_offset(kCopiesAt);
  ask.set_bytes_total(8);
  *request.mutable_copy() = std::move(ask);
  out = (co_await call(std::move(request), call_bound_ns())).status();
}

Task<Status> Program::copy(std::shared_ptr<Handle> from, std::shared_ptr<Handle> to, size_t cell) {
  const std::shared_ptr<Memory> memory = to->memory;
  const std::string source_id = from->memory->allocation.allocation_id() + std::to_string(cell);
  if (memory->copied_from.empty()) memory->copied_from = source_id;
  if (memory->copied_from != source_id) co_return Code::kExists;
  const uint64_t acked = from->memory->cells[cell].acked;
  const Where at = where(*from, cell);
  const std::vector<size_t> sources = living(*from, at);
  std::vector<size_t> targets;  // pieces: all replicas
  for (const size_t place : living(*to, where(*to, cell % memory->cells_per_part())))
    targets.push_back(to->places[place]);
  if (sources.empty() || targets.empty()) co_return Code::kLost;
  wire::CopyRequest ask;
  *ask.mutable_source() = piece_at(*from, sources[below(sources.size())]).extent;
  ask.set_source_offset(at.offset);
  memory->copied_to = true;
  std::vector<Status> answers(targets.size());
  std::vector<Task<void>> tasks;
  for (size_t i = 0; i < targets.size(); ++i) tasks.push_back(copy_to(targets[i], to, ask, answers[i]));
  co_await env->join(std::move(tasks));
  for (const Status& copied : answers)
    if (!copied.is_ok()) co_return copied;  // it may still come: never again to this target
  memory->copied_to = false;
  memory->copied = acked;
  ++world_.counts[memory->replicated() ? "copies to replicas" : "copies"];
  for (const size_t target : targets) {
    const Memory::Piece& piece = memory->pieces[target];
    const WordResult result = co_await word(piece.node, word_of(piece, kCopiesAt));
    if (result.code == Code::kOk) check_value(*from->memory, cell, acked, result.value, "copy");
  }
  co_return Status();
}

}  // namespace ocm::simulation
