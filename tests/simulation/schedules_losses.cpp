// Of losses that nobody is left to tell of, or that meet one another.
#include <map>

#include "script.h"

namespace ocm::simulation {
namespace {

/// A program with replicas on other nodes than the coordinator's.
struct Replicas : Script {
  Replicas(uint64_t seed, const std::set<fault::Point>& broken, size_t nodes, size_t program,
           std::vector<size_t> homes)
      : Script(seed, broken, nodes), count(homes.size()) {
    x = world.add_program(program);
    run(x, [&]() -> Task<void> {
      auto made = co_await x->allocate(Layout::kReplicated, homes);
      must(made.status(), "allocate");
      handle = made.value();
      const Status put = co_await x->put(handle, 1);
      must(put, "put");
    });
  }
  void check_whole() {
    run(x, [this]() -> Task<void> {
      const Status put = co_await x->put(handle, 1);
      must(put, "put to what is whole again");
    });
    world.check_made_again(*handle->memory);
    if (handle->memory->newest.size() != count) world.violate("there are not as many again");
  }
  const size_t count;
  std::shared_ptr<Program> x;
  std::shared_ptr<Handle> handle;
};

/// The coordinator votes alone, decides that a replica is lost and is gone before the home of the other one hears of it. Who
/// asked knows; the next run does not, and two replicas are there again.
std::string decided_alone_and_gone(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Replicas script(seed, broken, 3, 2, on(1, 2));
  World& world = script.world;
  const auto x = script.x;
  const auto handle = script.handle;
  const bool is_published = seed % 2 == 1;
  script.run(x, [&]() -> Task<void> {
    if (!is_published) co_return;
    const Status published = co_await x->publish(*handle, "r");
    script.must(published, "publish");
  });
  world.kill(1, false);
  bool decided = false;
  world.on_state = [&](fault::State state) {
    if (state != fault::State::kLossAccepted || std::exchange(decided, true)) return;
    world.clock().in((1 + 9 * seed % 100) * kMs, [&] { world.kill(0, false); });
  };
  script.run_for_ms(4000);  // 0 votes alone
  if (!is_published) script.start(x, [&]() -> Task<void> { (void)co_await x->put(handle, 1); });
  for (int i = 0; i < 600 && !decided; ++i) script.run_for_ms(100);
  script.run_for_ms(500);
  world.on_state = nullptr;
  if (!decided) world.violate("nobody gave the replica up");
  if (seed / 2 % 2 == 0) world.empty_run_dir(0);  // else its next run promises what it knew
  for (const size_t node : {0, 1}) world.restart(node);
  script.run_for_ms(60'000);
  script.check_whole();
  return script.end(outcome);
}

/// One of three replicas is lost and, while or after the part is made again, another: the home that leads, or not.
std::string another_is_lost_meanwhile(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Replicas script(seed, broken, 6, 0, on(1, 2, 3));
  World& world = script.world;
  const auto x = script.x;
  const auto handle = script.handle;
  const size_t first = 1 + seed % 3, second = 1 + (seed + 1 + seed / 3 % 2) % 3;
  world.kill(first, false);
  script.start(x, [&]() -> Task<void> { (void)co_await x->put(handle, 1); });
  script.run_for_ms(1500);
  world.run_for(seed * 107 * kMs % (2500 * kMs));
  world.kill(second, false);
  script.run_for_ms(40'000);
  script.check_whole();
  return script.end(outcome);
}

/// A part of three is made again, and the home of another replica dies just when it need not agree any more and has not heard:
/// who leads does not wait for it with what else is to be made again.
std::string dies_before_it_is_given(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Replicas script(seed, broken, 6, 0, on(1, 2, 3));
  World& world = script.world;
  const auto x = script.x;
  const auto handle = script.handle;
  const size_t first = 1 + seed % 3;
  std::map<ExtentId, size_t> left;  // the home of the first of them leads
  for (const Memory::Piece& piece : handle->memory->pieces) {
    if (piece.node != first) left[piece.id] = piece.node;
  }
  const size_t peer = left.rbegin()->second;
  bool is_planned = false;  // the new home hears of it last
  bool is_put = false;
  world.on_state = [&](fault::State state) {
    if (state != fault::State::kPartPlanned || std::exchange(is_planned, true)) return;
    world.clock().in(1 + seed / 6 * kMs / 8, [&] { world.kill(peer, seed % 2 == 0); });
  };
  world.kill(first, false);
  script.start(x, [&]() -> Task<void> {
    (void)co_await x->put(handle, 1);
    is_put = true;
  });
  for (int i = 0; i < 200 && !(is_planned && is_put); ++i) script.run_for_ms(100);
  if (!is_planned || !is_put) world.violate("nothing is made again");
  world.on_state = nullptr;
  script.run(x, [&]() -> Task<void> { (void)co_await x->put(handle, 1); });
  script.run_for_ms(50'000);  // also what nobody writes is given up
  script.check_whole();
  return script.end(outcome);
}

/// The home that leads does not hear whether the spare home has the replica that it made; then its own one is given up. That of
/// the spare home is the last, and it stays.
std::string leader_is_given_up(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 6, 0, false);
  World& world = script.world;
  // While that home is away the writer publishes it, or ends.
  const bool publishes = seed % 3 == 1, ends = seed % 3 == 2;
  const auto writer = world.add_program(0);
  std::shared_ptr<Handle> handle;
  bool is_named = false;
  const auto publish = [&]() -> Task<void> {
    const Status named = co_await writer->publish(*handle, "r");
    is_named = named.is_ok();
  };
  script.run(writer, [&]() -> Task<void> {
    auto made = co_await writer->allocate(Layout::kReplicated, on(1, 2));
    script.must(made.status(), "allocate");
    handle = made.value();
    if (!publishes && !ends) co_await publish();
  });
  bool frozen = false;
  world.on_state = [&](fault::State state) { frozen = frozen || state == fault::State::kReplicaFrozen; };
  script.run_for_ms(2000);
  world.kill(1, true);
  script.must_put(writer, handle, 1, 8);
  for (int i = 0; i < 100'000 && !frozen; ++i) world.run_for(50'000);
  world.run_for(50'000 * (seed / 3));
  for (const size_t node : {3, 4, 5}) world.ways().cut(node, 2);  // it is asked, and no answer comes
  script.run_for_ms(100 * (seed % 8));
  world.cut_link(0, 2);
  const auto put = [&]() -> Task<void> {
    // As long as the home that leads has the only replica that somebody was told of, none can be reached.
    for (int i = 0; i < 8; ++i) (void)co_await writer->put(handle, 1);
  };
  script.run(writer, put);
  if (publishes) script.run(writer, publish);
  if (ends) world.end_program(*writer);
  world.restore_link(0, 2);
  script.run_for_ms(3000);
  for (const size_t node : {3, 4, 5}) world.ways().restore(node, 2);
  script.run_for_ms(8000);
  if (!ends) script.must_put(writer, handle, 1, 8);
  if (publishes) world.end_program(*writer);
  script.run_for_ms(3000);
  const auto reader = world.add_program(0);
  if (is_named) {
    script.must_read(0, "r", 1);
    script.run(reader, [&]() -> Task<void> {
      const Status removed = co_await reader->remove("r");
      script.must(removed, "remove");
    });
  }
  if (!publishes && !ends) world.end_program(*writer);
  world.end_program(*reader);
  world.restart(1);
  script.run_for_ms(6000);
  world.check_unused();
  return script.end(outcome);
}

/// The home that leads stands still as the end of its part is decided: another one follows, both are given up one after the
/// other, and it goes on. The spare home has the last copy.
std::string leader_goes_on_too_late(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 7, 0, false);
  World& world = script.world;
  const auto writer = world.add_program(0);
  const std::shared_ptr<Handle> handle = script.make_named(writer, on(1, 2, 3), "r");
  const auto id_at = [&](size_t node) {
    ExtentId found;
    for (const auto& piece : handle->memory->pieces) found = piece.node == node ? piece.id : found;
    return found;
  };
  const size_t leads = id_at(1) < id_at(2) ? 1 : 2, follows = 3 - leads;
  bool planned = false;
  world.on_state = [&](fault::State state) { planned = planned || state == fault::State::kPartPlanned; };
  script.run_for_ms(2000);
  world.kill(3, true);
  script.must_put(writer, handle, 1, 12);
  for (int ms = 0; ms < 20'000 && !planned; ++ms) script.run_for_ms(1);
  if (!planned && broken.empty()) world.violate("the part was not planned");
  world.run_for(100'000 * (seed % 20));
  world.stop(leads);
  script.must_put(writer, handle, 1, 12);
  script.run_for_ms(500 * (seed % 3));
  const Memory& memory = *handle->memory;
  const bool decided = std::any_of(memory.newest.begin(), memory.newest.end(),
                                   [&](size_t place) { return memory.pieces[place].node > 3; });
  if (decided) {  // else that one has the last copy
    world.stop(follows);
    script.must_put(writer, handle, 1, 12);
  }
  world.resume(leads);
  script.run_for_ms(4000);
  const auto look = [&]() -> Task<void> {
    const Status got = co_await writer->get(handle, 1);
    script.must(got, "get of what the spare home has");
  };
  script.run(writer, look);
  if (decided) world.resume(follows);
  script.run_for_ms(8000);
  script.run(writer, look);
  script.run(writer, [&]() -> Task<void> {
    const Status removed = co_await writer->remove("r");
    script.must(removed, "remove");
  });
  world.end_program(*writer);
  world.restart(3);
  script.run_for_ms(6000);
  world.check_unused();
  return script.end(outcome);
}

/// The spare home does not hear that it has the replica, and the home that leads dies: what was acknowledged since is there, or
/// the programs knew that one replica was left.
std::string spare_did_not_hear(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 4, 0, false);
  World& world = script.world;
  const auto writer = world.add_program(0);
  const std::shared_ptr<Handle> handle = script.make_on(writer, on(1, 2));
  script.run(writer, [&]() -> Task<void> {
    Status published;
    if (seed % 2 == 0) published = co_await writer->publish(*handle, "r");
    script.must(published, "publish");
  });
  bool frozen = false;
  world.on_state = [&](fault::State state) { frozen = frozen || state == fault::State::kReplicaFrozen; };
  script.run_for_ms(2000);
  world.kill(1, true);
  script.must_put(writer, handle, 1, 8);
  for (int i = 0; i < 100'000 && !frozen; ++i) world.run_for(50'000);
  if (!frozen && broken.empty()) world.violate("the replica was never frozen");
  world.run_for(50'000 * (seed / 2 % 16));
  world.ways().cut(2, 3);
  script.must_put(writer, handle, 1, 12);
  script.must_put(writer, handle, 1, 1);
  const bool has_two = std::find(handle->lost.begin(), handle->lost.end(), true) == handle->lost.end();
  const bool restored = seed % 3 == 0;  // and the part is made again once more
  if (restored) world.ways().restore(2, 3);
  if (restored) script.run_for_ms(8000);
  if (!restored) world.ways().reset(2, 3);  // nor does what it sent arrive later
  world.kill(2, true);
  if (!restored) world.ways().restore(2, 3);
  script.run_for_ms(60'000);
  script.run(writer, [&]() -> Task<void> {
    const Status got = co_await writer->get(handle, 1);
    if (restored || has_two) script.must(got, "get of what was made again");
  });
  return script.end(outcome);
}

/// Two parts of one name: a replica of the one is frozen at the home that is given a new replica of the other.
std::string given_while_another_is_frozen(uint64_t seed, const std::set<fault::Point>& broken,
                                          Outcome* outcome) {
  Script script(seed, broken, 5, 0, false);
  World& world = script.world;
  const auto writer = world.add_program(0);
  const std::shared_ptr<Handle> first = script.make_on(writer, on(1, 2));
  const std::shared_ptr<Handle> second = script.make_on(writer, on(1, 3, 4));
  const auto id_at = [](const Handle& handle, size_t node) {
    ExtentId found;
    for (const auto& piece : handle.memory->pieces) found = piece.node == node ? piece.id : found;
    return found;
  };
  const ExtentId frozen = id_at(*first, 2);
  const size_t leads = id_at(*second, 3) < id_at(*second, 4) ? 3 : 4, spare = 7 - leads;
  for (int i = 0; i < 3; ++i) {  // the other one has more room, for the first part
    script.run(writer, [&]() -> Task<void> {
      const auto made = co_await writer->allocate(Layout::kSingle, on(leads));
      script.must(made.status(), "allocate");
    });
  }
  const std::shared_ptr<Handle> both = script.join(writer, first, second);
  script.run(writer, [&]() -> Task<void> {
    const Status published = co_await writer->publish(*both, "t");
    script.must(published, "publish");
  });
  script.run_for_ms(2000);
  world.kill(1, true);
  const size_t cells = kPieceBytes / 8;
  for (const size_t part : {0, 1})
    script.start(writer, [&, part]() -> Task<void> { (void)co_await writer->put(both, part * cells + 1); });
  const auto is_frozen = [&] {
    const auto daemon = world.daemon(2);
    return daemon && daemon->home->is_here(frozen) && !daemon->home->has(frozen);
  };
  for (int i = 0; i < 200'000 && !is_frozen(); ++i) world.run_for(50'000);
  if (!is_frozen() && broken.empty()) world.violate("the replica was never frozen");
  world.run_for(50'000 * (seed % 16));
  world.ways().cut(spare, 2);  // the home that leads does not hear whether it was given
  script.run_for_ms(1500);
  world.ways().restore(spare, 2);
  script.run_for_ms(20'000);
  for (const size_t part : {0, 1}) script.must_put(writer, both, part * cells + 1, 8);
  world.check_made_again(*both->memory);
  world.kill(2 + seed % 3, true);
  script.run_for_ms(20'000);
  for (const size_t part : {0, 1}) script.must_read(0, "t", part * cells + 1);
  script.run(writer, [&]() -> Task<void> {
    const Status removed = co_await writer->remove("t");
    script.must(removed, "remove");
  });
  world.end_program(*writer);
  for (const size_t node : {size_t{1}, 2 + static_cast<size_t>(seed % 3)}) world.restart(node);
  script.run_for_ms(6000);
  world.check_unused();
  return script.end(outcome);
}

/// A name is removed while a majority decides that its part is over: who holds it reads it.
std::string removed_as_it_is_decided(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 6, 0, false);
  World& world = script.world;
  const auto writer = world.add_program(0), holder = world.add_program(0), remover = world.add_program(5);
  (void)script.make_named(writer, on(1, 2, 3), "r");
  std::shared_ptr<Handle> held;
  script.run(holder, [&]() -> Task<void> {
    auto found = co_await holder->attach("r", true);
    script.must(found.status(), "attach");
    held = found.value();
  });
  bool planned = false;
  world.on_state = [&](fault::State state) { planned = planned || state == fault::State::kPartPlanned; };
  script.run_for_ms(2000);
  world.kill(3, true);
  script.start(writer, [&]() -> Task<void> {
    for (const auto& handle : std::vector(writer->handles)) (void)co_await writer->put(handle, 1);
  });
  for (int i = 0; i < 200'000 && !planned; ++i) world.run_for(50'000);
  if (!planned && broken.empty()) world.violate("the part was not planned");
  world.run_for(100'000 * (seed % 24));
  bool removed = false;
  script.start(remover, [&]() -> Task<void> {
    (void)co_await remover->remove("r");
    removed = true;
  });
  for (int ms = 0; ms < 10'000 && !removed; ++ms) script.run_for_ms(1);
  for (int i = 0; i < 8; ++i) {
    script.run_for_ms(1000);
    script.run(holder, [&]() -> Task<void> {
      const Status got = co_await holder->get(held, 1);
      script.must(got, "get of what is held");
    });
  }
  for (const auto& program : {writer, holder, remover}) world.end_program(*program);
  world.restart(3);
  script.run_for_ms(6000);
  world.check_unused();
  return script.end(outcome);
}

/// A node comes back just when another one begins to give up its many replicas: only the first ones are lost.
std::string is_back_in_time(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  constexpr size_t kNames = 24;
  Script script(seed, broken, 4);
  World& world = script.world;
  const auto program = world.add_program(1);
  for (size_t i = 0; i < kNames; ++i)
    (void)script.make_named(program, on(2, 3), ("r" + std::to_string(i)).c_str());
  script.run_for_ms(2000);
  const auto given_up = [&] {
    size_t out = 0;
    for (const auto& handle : program->handles) {
      for (const auto& extent : handle->memory->allocation.extents()) {
        if (extent.node() == name_of(2)) out += world.daemon(2)->home->lost_of(node::id_of(extent)).size();
      }
    }
    return out;
  };
  if (seed % 2 == 0)
    world.stop(3);
  else
    world.cut_node(3);
  script.run_for_ms(31'200 + 40 * (seed / 2));
  if (seed % 2 == 0)
    world.resume(3);
  else
    world.restore_node(3);
  script.run_for_ms(700);
  const size_t at_first = given_up();
  script.run_for_ms(4000);
  if (given_up() > at_first + 1) {
    world.violate("replicas of a node that is back are given up: " + std::to_string(at_first) + ", then " +
                  std::to_string(given_up()));
  }
  world.end_program(*program);
  return script.end(outcome);
}

/// A home frees as an orphan's what a program has there whose daemon neither it nor the coordinator hears. The program goes
/// on with its other replica, and its daemon, or the next run of it, is heard again: it must learn that there is one less.
std::string orphan_is_missed(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome,
                             bool restarts) {
  Script script(seed, broken, 5);
  World& world = script.world;
  const auto program = world.add_program(4);
  size_t home = seed % 2 == 0 ? 2 : 0;  // the coordinator's, too
  const auto idle = script.make_on(program, on(1, home)), named = script.make_on(program, on(1, home));
  if (restarts && home == 2 && seed % 4 == 0) {  // first it moves, of which its program does not hear
    script.take_room(world.add_program(1), on(0, 0, 4, 4));
    world.kill(2, false);
    script.run_for_ms(40'000);
    world.restart(2);
    script.run_for_ms(3000);
    home = 3;
  }
  world.cut_link(4, 0);
  if (home != 0) world.cut_link(4, home);
  script.run_for_ms(7000 + 300 * seed);  // the failure deadline, the grace, and it is asked
  if (restarts) world.kill(4, false);
  world.restore_link(4, 0);
  if (home != 0) world.restore_link(4, home);
  if (restarts) {
    world.restart(4);
    script.run_for_ms(2000);                   // its daemon has asked for what it counts on: nothing yet
    script.run(program, [&]() -> Task<void> {  // takes its session up again
      Result<std::shared_ptr<Handle>> made = Code::kDeadline;
      for (int i = 0; i < 20 && !made.is_ok(); ++i) made = co_await program->allocate(Layout::kSingle, on(3));
      script.must(made.status(), "allocate");
    });
  }
  script.run_for_ms(2 * 1500);
  script.run(program, [&]() -> Task<void> {
    const Status published = co_await program->publish(*named, "x");
    script.must(published, "publish what misses a replica");
  });
  script.run_for_ms(6000);
  world.kill(1, false);
  script.run_for_ms(3000);
  script.run(program, [&]() -> Task<void> {
    const Status got = co_await program->get(idle, 1);
    script.must(got, "get what was to be made again");
  });
  script.must_read(3, "x", 1);
  return script.end(outcome);
}

std::string orphans_daemon_is_back(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  return orphan_is_missed(seed, broken, outcome, false);
}
std::string orphans_daemon_restarts(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  return orphan_is_missed(seed, broken, outcome, true);
}

/// One of three is lost. The home that leads has frozen its replica when the other living one is cut off, but for the daemon
/// of a program that writes: it waits for the thaw, and does not have the healthy replica given up for the one that is cut
/// off, which is lost next.
std::string peer_is_cut_off(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 8, 0, false);
  World& world = script.world;
  const auto writer = world.add_program(6);
  const auto handle = script.make_named(writer, on(1, 2, 3), "r");
  std::map<ExtentId, size_t> left;
  for (const Memory::Piece& piece : handle->memory->pieces) {
    if (piece.node != 3) left[piece.id] = piece.node;
  }
  const size_t leads = left.begin()->second, peer = left.rbegin()->second;
  bool is_cut = false, is_over = false;
  world.on_state = [&](fault::State state) {
    if (state != fault::State::kReplicaFrozen || std::exchange(is_cut, true)) return;
    for (size_t node = 0; node < world.nodes(); ++node) {
      if (node != peer && node != 6) world.cut_link(peer, node);
    }
  };
  script.run_for_ms(2000);
  world.kill(3, true);
  script.start(writer, [&]() -> Task<void> {
    while (!is_over) {
      (void)co_await writer->put(handle, 1);
      co_await writer->env->sleep_ns(5'000'000);
    }
  });
  for (int i = 0; i < 30'000 && !is_cut; ++i) script.run_for_ms(1);
  if (!is_cut && broken.empty()) world.violate("the replica was never frozen");
  script.run_for_ms(1500 + 100 * seed);
  const bool is_led = world.daemon(leads)->home->owned().extents != 0;
  if (!is_led) world.violate("the healthy replica was given up");
  world.kill(peer, true);
  script.run_for_ms(5000);
  is_over = true;
  script.run_for_ms(15'000);
  script.must_put(writer, handle, 1, 8);
  script.must_read(0, "r", 1);
  return script.end(outcome);
}

}  // namespace

const std::vector<Schedule>& schedules_of_losses() {
  static const std::vector<Schedule> all{
      {"who decided alone is gone", decided_alone_and_gone, 16},
      {"another is lost meanwhile", another_is_lost_meanwhile, 24},
      {"a peer dies before it is given", dies_before_it_is_given, 24},
      {"the home that leads is given up", leader_is_given_up, 60},
      {"the home that led goes on too late", leader_goes_on_too_late, 20},
      {"the spare home did not hear", spare_did_not_hear, 24},
      {"given while another is frozen", given_while_another_is_frozen, 24},
      {"removed as it is decided", removed_as_it_is_decided, 24},
      {"a node is back in time", is_back_in_time, 40},
      {"the peer of a frozen replica is cut off", peer_is_cut_off, 16},
      {"an orphan's daemon is back", orphans_daemon_is_back, 12},
      {"an orphan's daemon restarts", orphans_daemon_restarts, 12},
  };
  return all;
}

}  // namespace ocm::simulation
