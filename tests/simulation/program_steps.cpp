// What a program asks for, and in which order: its life.
#include <algorithm>

#include "control/event_queue.h"
#include "program.h"

namespace ocm::simulation {

namespace {

/// Of a request that may have been carried out.
bool is_lost_answer(Code code) {
  return code == Code::kDeadline || code == Code::kPeerLost || code == Code::kNoDaemon ||
         code == Code::kCancelled;
}

}  // namespace

// ---- allocations and names

Task<Result<std::shared_ptr<Handle>>> Program::allocate(Layout layout, std::vector<size_t> nodes,
                                                        size_t at_least) {
  wire::Envelope request;
  auto& ask = *request.mutable_allocate();
  const uint32_t extents =
      layout == Layout::kSingle ? 1 : static_cast<uint32_t>(std::max(at_least, nodes.size()));
  ask.set_layout(static_cast<uint32_t>(layout));
  ask.set_extents(extents);
  ask.set_bytes_total(layout == Layout::kStriped ? extents * kPieceBytes : kPieceBytes);
  if (layout == Layout::kStriped) ask.set_chunk_bytes(kPieceBytes);
  for (const size_t node : nodes) ask.add_nodes(name_of(node));
  auto reply = co_await call(std::move(request), call_bound_ns());
  if (!reply.is_ok()) co_return reply.status();
  auto handle = std::make_shared<Handle>();
  handle->memory = std::make_shared<Memory>();
  Memory& memory = *handle->memory;
  memory.allocation = reply.value().allocation();
  memory.layout = layout;
  memory.cells.resize(world_.writers() + 1);
  memory.owner = uid();
  bind(*handle, memory.allocation);
  handle->owned = true;
  handle->receipt = memory.allocation.receipt();
  handles.push_back(handle);
  world_.memories[memory.allocation.allocation_id()] = handle->memory;
  ++world_.counts["allocations"];
  co_return handle;
}

Task<Status> Program::publish(Handle& handle, std::string name) {
  const std::shared_ptr<Memory> memory = handle.memory;
  const bool again = memory->state == Memory::State::kPublishing && memory->name == name;
  if (memory->state != Memory::State::kHeld && !again) co_return Code::kExists;
  memory->name = name;
  if (!again) memory->is_private = world_.users() > 1 && below(3) == 0;
  const uint64_t life = world_.life(node_);
  memory->state = Memory::State::kPublishing;
  const auto noting = world_.noting();
  wire::Envelope request;
  request.mutable_publish()->set_name(name);
  request.mutable_publish()->set_mode(memory->is_private ? 0600 : 0606);
  request.mutable_publish()->set_allocation_id(memory->allocation.allocation_id());
  const auto reply = co_await call(std::move(request), call_bound_ns());
  if (!reply.is_ok()) {
    if (reply.status().code() == Code::kNoCoordinator || reply.status().code() == Code::kPeerLost)
      memory->asked_for = {node_, life};
    ++world_.counts["publishes failed"];
    co_return reply.status();  // it may be there all the same
  }
  if (memory->state == Memory::State::kPublishing) memory->state = Memory::State::kPublished;
  // Else it is removed already, and the answer came late: another may have the name since.
  if (memory->state == Memory::State::kPublished) displace_others(*memory);
  memory->published_ns = world_.clock().now_ns();
  if (noting && world_.noting()) memory->noted_in = noting;
  world_.published.push_back(memory);
  ++world_.counts["published"];
  co_return Status();
}

void Program::displace_others(const Memory& memory) {
  for (const auto& [id, other] : world_.memories) {
    const bool named =
        other->state == Memory::State::kPublishing || other->state == Memory::State::kPublished;
    if (other.get() == &memory || !named || other->name != memory.name || world_.may_be_removed(*other))
      continue;
    if (other->state == Memory::State::kPublished && !other->displaced) ++world_.counts["names displaced"];
    other->displaced = true;
    const bool is_known =
        other->published_ns > world_.coordinator_since_ns() || world_.is_handed_on(other->noted_in);
    if (other->state == Memory::State::kPublished && is_known)
      world_.violate("W4: two allocations got the name " + memory.name);
  }
}

std::shared_ptr<Memory> Program::published_as(const std::string& name) const {
  std::shared_ptr<Memory> out;
  for (const auto& memory : world_.published) {
    if (memory->name == name && memory->state == Memory::State::kPublished) out = memory;
  }
  return out;
}

void Program::check_not_there(const std::string& name, const std::shared_ptr<Memory>& expected,
                              uint64_t began_ns, bool other_removals) {
  if (!expected || expected->state != Memory::State::kPublished || other_removals || expected->displaced)
    return;
  if (world_.is_handed_on(expected->noted_in)) world_.violate("E4: the name " + name + " is not known");
  const uint64_t settled_ns = world_.coordinator_since_ns() + 6 * world_.deadline_ns();
  if (began_ns <= settled_ns || !world_.coordinator()) return;
  const bool spared = std::any_of(expected->newest.begin(), expected->newest.end(),
                                  [&](size_t i) { return world_.is_spared(expected->pieces[i]); });
  if (!spared) return;
  std::string where;  // its replicas
  for (const size_t i : expected->newest) {
    const Memory::Piece& piece = expected->pieces[i];
    const auto home = world_.daemon(piece.node);
    const bool here = home && world_.life(piece.node) == piece.life && home->home->is_here(piece.id);
    const bool named = here && home->home->published_with(piece.id) != nullptr;
    where += " " + name_of(piece.node) + (named ? ": named" : here ? ": without a name" : ": gone");
  }
  world_.violate("W4: the name " + name + " is not there;" + where);
}

Task<Result<std::shared_ptr<Handle>>> Program::attach(std::string name, bool hold) {
  const auto expected = published_as(name);
  wire::Envelope request;
  request.mutable_attach()->set_name(name);
  request.mutable_attach()->set_access(static_cast<uint32_t>(Access::kReadWrite));
  request.mutable_attach()->set_hold(hold);
  const uint64_t began_ns = world_.clock().now_ns();
  auto reply = co_await call(std::move(request), call_bound_ns());
  if (reply.status().code() == Code::kNotFound && !hold)
    check_not_there(name, expected, began_ns, world_.removals[name] > 0);
  if (!reply.is_ok()) co_return reply.status();
  const wire::Allocation& found = reply.value().allocation();
  for (const auto& memory : world_.published) {
    if (memory->allocation.allocation_id() != found.allocation_id()) continue;
    if (memory->state == Memory::State::kRemoved && memory->removed_ns < began_ns &&
        (memory->removed_ns > world_.coordinator_since_ns() ||
         world_.is_handed_on(memory->removal_noted_in))) {
      world_.violate("W4: the name " + name + " was removed and is there");
    }
    if (memory->is_private && memory->owner != uid())
      world_.violate("N3: uid " + std::to_string(uid()) + " opened another user's " + name);
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
  (void)co_await call(std::move(let_go), call_bound_ns());
  co_return Code::kNotFound;
}

Task<Status> Program::remove(std::string name) {
  const auto expected = published_as(name);
  const auto removal = std::make_shared<Removal>(world_, name);
  const uint64_t began_ns = world_.clock().now_ns();
  const auto noting = world_.noting();
  wire::Envelope request;
  request.mutable_name_remove()->set_name(name);
  const auto reply = co_await call(std::move(request), call_bound_ns(), removal);
  if (reply.is_ok()) {
    const auto removed = world_.memories.find(reply.value().allocation().allocation_id());
    if (removed == world_.memories.end()) co_return Code::kInternal;
    removal->concluded = true;
    if (removed->second->owner != uid())
      world_.violate("N4: uid " + std::to_string(uid()) + " removed another user's " + name);
    removed->second->state = Memory::State::kRemoved;
    removed->second->removed_ns = world_.clock().now_ns();
    if (noting && world_.noting()) removed->second->removal_noted_in = noting;
    ++world_.counts["removed"];
  } else if (reply.status().code() == Code::kPermission) {
    removal->concluded = true;
    ++world_.counts["refused to another user"];
  } else if (reply.status().code() == Code::kNotFound) {
    removal->concluded = true;
    check_not_there(name, expected, began_ns, world_.removals[name] > 1);
  }
  co_return reply.status();
}

Task<Status> Program::free(std::shared_ptr<Handle> handle) {
  handle->ends = true;
  wire::Envelope request;
  request.mutable_free()->set_allocation_id(handle->memory->allocation.allocation_id());
  request.mutable_free()->set_hold_id(handle->hold_id);
  request.mutable_free()->set_may_be_named(handle->memory->state == Memory::State::kPublishing);
  const auto reply = co_await call(std::move(request), call_bound_ns());
  if (reply.status().code() == Code::kNoDaemon) {
    freed_.push_back({handle->memory->allocation.allocation_id(), handle->receipt, handle->hold_id});
    ++world_.counts["freed without a daemon"];
  }
  // Last: a daemon that starts anew meanwhile has to know what is freed.
  handles.erase(std::remove(handles.begin(), handles.end(), handle), handles.end());
  co_return reply.status();
}

Task<Result<std::shared_ptr<Handle>>> Program::join(std::vector<std::shared_ptr<Handle>> parts) {
  wire::Envelope request;
  for (const auto& part : parts)
    request.mutable_join()->add_allocation_ids(part->memory->allocation.allocation_id());
  auto reply = co_await call(std::move(request), call_bound_ns());
  const Code code = reply.status().code();
  // A daemon that restarted calls nothing owned before a home has said so (P4 of node/sessions.h).
  // Nor may what was published without an answer be joined.
  const bool in_doubt = std::any_of(parts.begin(), parts.end(), [](const auto& part) {
    return part->memory->state == Memory::State::kPublishing;
  });
  const bool unsettled = code == Code::kInvalidArgument && (world_.life(node_) > 0 || in_doubt);
  if (unsettled || code == Code::kRevoked || code == Code::kUnsupported || is_lost_answer(code)) {
    // Joined all the same, perhaps: it ends with the session.
    for (const auto& part : parts)
      if (is_lost_answer(code))
        handles.erase(std::remove(handles.begin(), handles.end(), part), handles.end());
    co_return reply.status();
  }
  if (!reply.is_ok()) {
    world_.violate("W6: a join: " + std::string(reply.status().to_string()));
    co_return reply.status();
  }
  auto handle = std::make_shared<Handle>();
  handle->memory = std::make_shared<Memory>();
  Memory& memory = *handle->memory;
  memory.allocation = reply.value().allocation();
  memory.layout = Layout::kSequence;
  for (size_t number = 0; number < parts.size(); ++number) {
    const Handle& part = *parts[number];
    memory.remade.push_back(part.memory->remade.front());
    world_.memories.erase(part.memory->allocation.allocation_id());
    memory.cells.insert(memory.cells.end(), part.memory->cells.begin(), part.memory->cells.end());
    for (size_t i = 0; i < part.places.size(); ++i) {
      handle->places.push_back(memory.pieces.size());
      handle->lost.push_back(part.lost[i]);
      memory.pieces.push_back(piece_at(part, i));
      memory.pieces.back().part = number;
    }
    handles.erase(std::remove(handles.begin(), handles.end(), parts[number]), handles.end());
  }
  memory.newest = handle->places;
  memory.owner = uid();
  handle->owned = true;
  handle->receipt = memory.allocation.receipt();
  handles.push_back(handle);
  world_.memories[memory.allocation.allocation_id()] = handle->memory;
  ++world_.counts["joined"];
  co_return handle;
}

std::vector<std::shared_ptr<Handle>> Program::joinable() {
  constexpr size_t kPartsMax = 3;
  std::vector<std::shared_ptr<Handle>> out;
  for (const auto& handle : handles) {
    const Memory& memory = *handle->memory;
    const bool whole = memory.layout == Layout::kSingle || memory.layout == Layout::kReplicated;
    if (!handle->owned || memory.state != Memory::State::kHeld || !whole || out.size() == kPartsMax) continue;
    if (out.empty() || out.front()->memory->replicated() == memory.replicated()) out.push_back(handle);
  }
  return out;
}

Task<void> Program::step() {
  constexpr size_t kHandlesMax = 8;
  constexpr uint64_t kNames = 4;  // few: most memory is shared
  const uint64_t dice = below(100);
  const auto handle = handles.empty() ? nullptr : handles[below(handles.size())];
  const size_t part = handle ? below(handle->memory->parts()) * handle->memory->cells_per_part() : 0;
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
    const size_t extents = layout == Layout::kReplicated && nodes.empty() && below(2) == 0 ? 3 : 2;
    (void)co_await allocate(layout, std::move(nodes), extents);
  } else if (dice < 45) {
    (void)co_await put(handle, part + number_);
  } else if (dice < 70) {
    (void)co_await get(handle, part + 1 + below(world_.programs()));
  } else if (dice < 74) {
    if (!handle->memory->replicated()) (void)co_await add(handle);
  } else if (dice < 77) {
    std::shared_ptr<Handle> target;
    for (const auto& other : handles) {
      const Memory& memory = *other->memory;
      const bool fits = memory.layout != Layout::kSequence && !memory.copied_to;
      if (other->owned && other->memory != handle->memory && fits) target = other;
    }
    if (target) (void)co_await copy(handle, target, part + 1 + below(world_.programs()));
  } else if (dice < 80) {
    std::vector<std::shared_ptr<Handle>> parts = joinable();
    if (parts.size() > 1) (void)co_await join(std::move(parts));
  } else if (dice < 86) {
    if (handle->owned && handle->memory->state == Memory::State::kHeld)
      (void)co_await publish(*handle, "name" + std::to_string(below(kNames)));
    else if (handle->owned && handle->memory->state == Memory::State::kPublishing)
      (void)co_await publish(*handle, handle->memory->name);
  } else if (dice < 95) {
    if (handles.size() < kHandlesMax)
      (void)co_await attach("name" + std::to_string(below(kNames)), below(3) == 0);
  } else if (dice < 97) {
    if (!world_.published.empty()) {
      const auto memory = world_.published[below(world_.published.size())];
      if (memory->state == Memory::State::kPublished) (void)co_await remove(memory->name);
    }
  } else {
    (void)co_await free(handle);
  }
}

Task<void> Program::listen() {
  listens_ = true;
  uint64_t stream = 0, received = 0;
  while (!ended_) {
    wire::Envelope request;
    auto& asked = *request.mutable_events();
    asked.set_stream(stream);
    asked.set_after(received);
    asked.set_wait_ms(400);
    const uint64_t bound_ns = below(4) == 0 ? 1'000'000 + below(200'000'000) : call_bound_ns();
    const auto reply = co_await call(std::move(request), bound_ns);
    if (!reply.is_ok()) {
      co_await env->sleep_ns(20'000'000);
      continue;
    }
    const wire::Events& told = reply.value().events_reply();
    if (told.stream() != stream) {
      resyncs += stream != 0 ? 1 : 0;
      stream = told.stream();
      received = 0;
    }
    for (const wire::Events::Event& event : told.events()) {
      if (event.number() <= received) world_.violate("U1: an event came after one with a greater number");
      received = event.number();
      ++events_told;
      ++world_.counts["events"];
      if (event.kind() != static_cast<uint32_t>(control::EventKind::kRevoked)) continue;
      for (const auto& handle : handles) {
        const Memory& memory = *handle->memory;
        if (memory.allocation.allocation_id() != event.allocation_id() || handle->ends) continue;
        told_revoked_.insert(event.allocation_id());
        const bool striped = memory.layout == Layout::kStriped;  // a cell of each extent, or of each part
        const size_t cells = striped ? handle->places.size() : memory.parts();
        bool all = true;
        for (size_t i = 0; i < cells; ++i)
          all = all && must_be_there(*handle, striped ? i : i * memory.cells_per_part());
        if (!all) continue;
        std::string what = "W9: " + name_of(node_) + " is told that \"" + memory.name +
                           "\" is revoked, state " + std::to_string(static_cast<int>(memory.state)) +
                           (handle->owned ? ", owned" : "") + (handle->hold_id.empty() ? "" : ", held");
        for (const Memory::Piece& piece : memory.pieces)
          what += ", " + name_of(piece.node) + " " + piece.id.address.to_string() +
                  (lived(piece, true) ? "" : " lost");
        world_.violate(what);
      }
    }
  }
}

Task<void> Program::live() {
  if (number_ % 3 == 1) env->spawn(listen());
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
  probes_since_ns_ = env->now_ns();
  auto fresh = co_await allocate(Layout::kReplicated, {});
  must(fresh.status(), "an allocation");
  const std::shared_ptr<Handle> fresh_handle = fresh.is_ok() ? fresh.value() : nullptr;
  if (fresh.is_ok()) {
    must(co_await put(fresh.value(), number_), "a put");
    must(co_await get(fresh.value(), number_), "a get");
    const std::string name = "probe" + std::to_string(number_);
    must(co_await publish(*fresh.value(), name), "a publish");
    auto attached = co_await attach(name, true);
    must(attached.status(), "an attach");
    must(co_await remove(name), "a removal");
    if (attached.is_ok()) {
      must(co_await get(attached.value(), number_), "a get of what is held");
      must(co_await free(attached.value()), "a free");
    }
  }
  const auto mine = handles;
  for (const auto& handle : mine) {
    if (handle == fresh_handle) continue;
    const size_t cells = handle->memory->cells_per_part();
    for (size_t part = 0; part < handle->memory->parts(); ++part) {
      const bool there = must_be_there(*handle, part * cells + number_);
      const Status got = co_await get(handle, part * cells + number_);
      const Status put_now = co_await put(handle, part * cells + number_);
      if (listens_ && got.code() == Code::kRevoked && !handle->memory->replicated() && !was_told(*handle)) {
        co_await env->sleep_ns(world_.deadline_ns() / 2);  // it may have ended just now
        if (!was_told(*handle))
          world_.violate("W9: " + name_of(node_) + " is not told that \"" + handle->memory->name +
                         "\" is revoked");
      }
      if (!there || world_.may_be_removed(*handle->memory)) continue;
      ++world_.counts["probed"];
      must(got, "a get of what was there");
      must(put_now, "a put to what was there");
    }
  }
  // Each name once: by who comes first in the list of who may ask.
  const auto names = world_.published;
  for (const auto& memory : names) {
    if (memory->probed || memory->displaced || memory->state != Memory::State::kPublished ||
        world_.may_be_removed(*memory))
      continue;
    memory->probed = true;
    Handle as_published;
    as_published.memory = memory;
    as_published.places = memory->newest;
    as_published.lost.resize(memory->newest.size());
    if (!must_be_there(as_published, 0)) continue;
    const auto attached = co_await attach(memory->name, false);
    if (world_.may_be_removed(*memory)) continue;
    ++world_.counts["names probed"];
    if (memory->is_private && memory->owner != uid()) {
      if (attached.status().code() != Code::kPermission)
        world_.violate("N3: another user's " + memory->name + ": " +
                       std::string(attached.status().to_string()));
      continue;
    }
    must(attached.status(), "an attach of " + memory->name);
  }
}

bool Program::must_be_there(const Handle& handle, size_t cell) const {
  const Memory& memory = *handle.memory;
  const bool held = !handle.hold_id.empty() || (handle.owned && memory.state == Memory::State::kHeld);
  const bool named = memory.state == Memory::State::kPublished && !world_.may_be_removed(memory);
  if (!held && !named) return false;
  const Where at = where(handle, cell);
  if (!memory.replicated()) {
    for (size_t i = at.first; i < at.last; ++i)
      if (!lived(piece_at(handle, i), named)) return false;
    return true;
  }
  const size_t part = cell / memory.cells_per_part();
  bool all = true, spared = false;
  for (const Memory::Piece& piece : memory.pieces)
    if (piece.part == part) all = all && lived(piece, named);
  for (const size_t place : memory.newest) {
    const Memory::Piece& piece = memory.pieces[place];
    if (piece.part == part) spared = spared || (world_.is_spared(piece) && is_kept(piece, named));
  }
  return all || spared;
}

Task<void> Program::sweep(bool& clean) {
  wire::Envelope request;
  request.mutable_name_list();
  const auto listed = co_await call(std::move(request), call_bound_ns());
  clean = listed.is_ok() && listed.value().names().allocations_size() == 0;
  if (!listed.is_ok()) co_return;
  for (const auto& name : listed.value().names().allocations()) {
    wire::Envelope gone;
    gone.mutable_name_remove()->set_name(name.name());
    (void)co_await call(std::move(gone), call_bound_ns());
  }
}

Task<bool> Program::is_lost(std::string name) {
  wire::Envelope request;
  request.mutable_name_list()->set_prefix(name);
  const auto listed = co_await call(std::move(request), call_bound_ns());
  if (!listed.is_ok() || listed.value().names().allocations_size() == 0) co_return false;
  const wire::Allocation& first = listed.value().names().allocations(0);
  co_return first.name() == name&& first.lost();
}

}  // namespace ocm::simulation
