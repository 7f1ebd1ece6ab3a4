// Of new replicas whose homes do not hear, in time or at all, that they have them, or whose they are.
#include <functional>
#include <map>

#include "script.h"

namespace ocm::simulation {
namespace {

/// A part of three replicas that is made again while its home that leads cannot tell the spare home.
struct Unheard : Script {
  Unheard(uint64_t seed, const std::set<fault::Point>& broken)
      : Script(seed, broken, 8, 0, false), writer(world.add_program(0)) {
    take_room(writer, on(3, 4, 5, 6));
    handle = make_named(writer, on(1, 2, 3), "r");
    std::map<ExtentId, size_t> left;
    for (const Memory::Piece& piece : handle->memory->pieces) {
      if (piece.node != 3) left[piece.id] = piece.node;
    }
    leads = left.begin()->second;
    follows = left.rbegin()->second;
    bool planned = false, remade = false, followed = false;
    world.on_state = [&, this](fault::State state) {
      if (state == fault::State::kPartPlanned && !std::exchange(planned, true))
        world.ways().cut(leads, kSpare);
      remade = remade || state == fault::State::kReplicaRemade;
      followed = followed || state == fault::State::kPlanFollowed;
    };
    run_for_ms(2000);
    world.cut_link(0, 3);
    must_put(writer, handle, 1, 8);
    for (int i = 0; i < 200'000 && !(remade && followed); ++i) world.run_for(50'000);
    if (!(remade && followed) && broken.empty()) world.violate("the part was not made again");
    world.on_state = nullptr;
    world.restore_link(0, 3);
    must_put(writer, handle, 1, 8);
    run_for_ms(500 + 100 * seed);  // the voters hear what is gone
    world.ways().reset(leads, kSpare);
  }
  static constexpr size_t kSpare = 7;
  size_t leads = 0, follows = 0;
  std::shared_ptr<Program> writer;
  std::shared_ptr<Handle> handle;
};

/// The home that leads dies, and then the other one: the spare home has its replica yet, though the voters may have forgotten
/// the part that it follows.
std::string plan_is_forgotten(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Unheard script(seed, broken);
  World& world = script.world;
  world.kill(script.leads, true);
  world.ways().restore(script.leads, Unheard::kSpare);
  script.run_for_ms(20'000);
  world.kill(script.follows, true);
  script.run_for_ms(5000);
  script.must_read(0, "r", 1);
  return script.end(outcome);
}

/// Both homes restart at once: the spare home has the last replica.
std::string all_others_restart(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Unheard script(seed, broken);
  World& world = script.world;
  if (seed % 2 == 0) world.kill(3, true);
  for (const size_t node : {script.leads, script.follows}) world.kill(node, true);
  world.ways().restore(script.leads, Unheard::kSpare);
  script.run_for_ms(300);
  for (const size_t node : {script.leads, script.follows}) world.restart(node);
  script.run_for_ms(60'000);
  script.must_read(0, "r", 1);
  return script.end(outcome);
}

/// Two of three are lost at once; one of the two spare homes hears that it has a replica, and the home that leads dies.
std::string one_of_two_hears(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 8, 0, false);
  World& world = script.world;
  const auto writer = world.add_program(6);
  script.take_room(writer, on(6, 7));
  const auto handle = script.make_named(writer, on(1, 2, 3), "r");
  bool frozen = false;
  world.on_state = [&](fault::State state) { frozen = frozen || state == fault::State::kReplicaFrozen; };
  script.run_for_ms(2000);
  for (const size_t node : {2, 3}) world.kill(node, true);
  script.must_put(writer, handle, 1, 8);
  for (int i = 0; i < 600'000 && !frozen; ++i) world.run_for(50'000);
  if (!frozen && broken.empty()) world.violate("the replica was never frozen");
  world.run_for(50'000 * seed);
  world.ways().cut(1, 5);
  const auto heard = [&](size_t node) { return !world.daemon(node)->home->published().empty(); };
  for (int i = 0; i < 100'000 && !heard(4); ++i) world.run_for(50'000);
  const bool is_one = heard(4) && !heard(5);
  script.run_for_ms(300);
  world.ways().reset(1, 5);
  if (is_one) world.kill(1, true);
  world.ways().restore(1, 5);
  script.must_put(writer, handle, 1, 12);
  if (is_one && seed % 2 == 1) {
    world.cut_link(6, 4);
    script.must_put(writer, handle, 1, 12);
    world.restore_link(6, 4);
  }
  script.run_for_ms(30'000);
  script.must_read(0, "r", 1);
  world.kill(4, true);
  script.run_for_ms(5000);
  script.must_read(0, "r", 1);
  return script.end(outcome);
}

/// The home that leads stands still for so long that the spare home frees what it had reserved, and goes on.
std::string leader_stands_still(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 6, 0, false);
  World& world = script.world;
  const auto writer = world.add_program(0);
  script.take_room(writer, on(4, 5));
  const auto handle = script.make_named(writer, on(1, 2), "r");
  bool frozen = false;
  world.on_state = [&](fault::State state) { frozen = frozen || state == fault::State::kReplicaFrozen; };
  script.run_for_ms(2000);
  world.kill(1, true);
  script.must_put(writer, handle, 1, 8);
  for (int i = 0; i < 600'000 && !frozen; ++i) world.run_for(50'000);
  if (!frozen && broken.empty()) world.violate("the replica was never frozen");
  world.run_for(50'000 * seed);
  world.stop(2);
  script.run_for_ms(30'000);
  world.resume(2);
  script.run_for_ms(40'000);
  script.must_read(0, "r", 1);
  world.kill(2, true);
  script.run_for_ms(5000);
  script.must_read(0, "r", 1);
  return script.end(outcome);
}

/// A part of two replicas, of which the home of one dies; node 2 leads, node 3 has room.
struct LastReplica : Script {
  LastReplica(uint64_t seed, const std::set<fault::Point>& broken, size_t writes_on)
      : Script(seed, broken, 6, 0, false), may_miss(!broken.empty()), writer(world.add_program(writes_on)) {
    take_room(writer, on(4, 5));
    handle = make_named(writer, on(1, 2), "r");
    run_for_ms(2000);
  }
  /// `at_plan` runs when the spare home has the plan, `when_lost` when the other home is dead.
  void lose(
      std::function<void()> at_plan, const std::function<void()>& when_lost = [] {}) {
    world.on_state = [this, at_plan = std::move(at_plan)](fault::State state) {
      if (state == fault::State::kPartPlanned && !std::exchange(planned, true)) at_plan();
      settled = settled || state == fault::State::kPlanSettled;
      remade = remade || state == fault::State::kReplicaRemade;
    };
    world.kill(1, true);
    when_lost();
    run(writer, [&]() -> Task<void> {
      Status put = Code::kDeadline;
      for (int i = 0; i < 8 && !put.is_ok(); ++i) put = co_await writer->put(handle, 1);
      if (!planned) must(put, "put");  // what is done at the plan may take the last home from it
    });
    for (int i = 0; i < 600'000 && !planned; ++i) world.run_for(50'000);
    if (!planned && !may_miss) world.violate("the part was not planned");
  }
  void wait_until_remade() {
    for (int ms = 0; ms < 20'000 && !remade; ++ms) run_for_ms(1);
    if (!remade && !may_miss) world.violate("the part was not made again");
  }
  const bool may_miss;
  std::shared_ptr<Program> writer;
  std::shared_ptr<Handle> handle;
  bool planned = false, settled = false, remade = false;
};

/// The home that leads does not reach the coordinator, or stands still for a moment longer than the failure deadline (even
/// seeds), while the council decides: nobody throws its copy away for that.
std::string leader_seems_dead(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  LastReplica script(seed, broken, 5);
  World& world = script.world;
  const bool stands_still = seed % 2 == 0;
  script.lose(
      [&] {
        if (stands_still) world.stop(2);
      },
      [&] {
        if (!stands_still) world.ways().cut(2, 0);
      });
  if (stands_still) {
    script.run_for_ms(1600 + 100 * seed);
    world.resume(2);
  }
  script.wait_until_remade();
  script.run_for_ms(100 * (seed / 2));
  world.kill(2, true);
  if (!stands_still) world.ways().restore(2, 0);
  script.run_for_ms(5000);
  script.must_read(0, "r", 1);
  return script.end(outcome);
}

/// The home of a lost replica and the one that leads restart, one after the other, before the council is asked: the voters
/// forget the part soon, and the spare home hears in time that nothing follows.
std::string leader_restarts(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  LastReplica script(seed, broken, 0);
  World& world = script.world;
  script.lose([&] { world.kill(2, true); }, [&] { world.restart(1); });
  script.run_for_ms(100 * seed);
  world.restart(2);
  script.run_for_ms(20'000);
  script.run(script.writer, [&]() -> Task<void> { (void)co_await script.writer->remove("r"); });
  world.end_program(*script.writer);
  script.run_for_ms(30'000);
  world.check_unused();
  return script.end(outcome);
}

/// The home that leads stands still, and goes on while its spare home, which has freed its replica, does not hear it: that one is
/// missed all the same.
std::string spare_is_missed(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  LastReplica script(seed, broken, 0);
  World& world = script.world;
  script.lose([&] { world.stop(2); });
  for (int ms = 0; ms < 60'000 && !script.settled; ++ms) script.run_for_ms(1);
  world.cut_link(2, 3);
  world.resume(2);
  script.wait_until_remade();
  script.run_for_ms(100 * seed);
  world.restore_link(2, 3);
  script.run_for_ms(40'000);
  world.kill(2, true);
  script.run_for_ms(5000);
  script.must_read(0, "r", 1);
  return script.end(outcome);
}

/// A name is removed while the home that leads is dead and nothing is decided about what it made again: the spare home frees
/// what it has for it.
std::string removed_with_a_plan(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 8, 0, false);
  World& world = script.world;
  const auto writer = world.add_program(0);
  script.take_room(writer, on(4, 5, 6));
  const auto handle = script.make_named(writer, on(1, 2, 3), "r");
  size_t plans = 0;
  std::map<ExtentId, size_t> left;
  for (const Memory::Piece& piece : handle->memory->pieces) {
    if (piece.node != 3) left[piece.id] = piece.node;
  }
  const size_t leads = left.begin()->second;
  world.on_state = [&](fault::State state) {
    if (state == fault::State::kPartPlanned && ++plans == 1) world.kill(leads, true);
  };
  script.run_for_ms(2000);
  world.kill(3, true);
  script.must_put(writer, handle, 1, 8);
  for (int i = 0; i < 600'000 && plans == 0; ++i) world.run_for(50'000);
  if (plans == 0 && broken.empty()) world.violate("the part was not planned");
  script.run_for_ms(100 * seed);
  script.run(writer, [&]() -> Task<void> {
    const Status removed = co_await writer->remove("r");
    script.must(removed, "remove");
  });
  world.end_program(*writer);
  script.run_for_ms(30'000);
  world.restart(leads);
  world.restart(3);
  script.run_for_ms(60'000);
  world.check_unused();
  return script.end(outcome);
}

/// A part is made again without one of its homes, published, and the session ends: that home hears of the end alone, and has
/// the plan yet. What the name has is not the session's any more.
std::string end_with_a_plan(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 8, 0, false);
  World& world = script.world;
  const auto writer = world.add_program(6);
  script.take_room(writer, on(4, 5, 6));
  const auto handle = script.make_on(writer, on(1, 2, 3));
  std::map<ExtentId, size_t> left;
  for (const Memory::Piece& piece : handle->memory->pieces) {
    if (piece.node != 3) left[piece.id] = piece.node;
  }
  const size_t follows = left.rbegin()->second;
  bool planned = false, remade = false;
  const auto leave_out = [&] {
    for (size_t other = 0; other < world.nodes(); ++other) {
      if (other != follows && other != 6) world.cut_link(follows, other);
    }
  };
  world.on_state = [&](fault::State state) {
    if (state == fault::State::kPartPlanned && !std::exchange(planned, true)) leave_out();
    remade = remade || state == fault::State::kReplicaRemade;
  };
  script.run_for_ms(2000);
  world.kill(3, true);
  script.must_put(writer, handle, 1, 8);
  for (int i = 0; i < 400'000 && !remade; ++i) world.run_for(50'000);
  if (!(planned && remade) && broken.empty()) world.violate("the part was not made again");
  script.must_put(writer, handle, 1, 12);
  Status published(Code::kDeadline);
  for (int i = 0; i < 8 && !published.is_ok(); ++i) {
    script.run(writer, [&]() -> Task<void> { published = co_await writer->publish(*handle, "r"); });
  }
  script.must(published, "publish");
  if (seed % 2 == 0) script.run_for_ms(100 * seed);
  world.end_program(*writer);
  script.run_for_ms(3000);
  for (size_t other = 0; other < world.nodes(); ++other) {
    if (other != follows && other != 6) world.restore_link(follows, other);
  }
  script.run_for_ms(10'000);
  script.must_read(0, "r", 1);
  return script.end(outcome);
}

/// A sequence of two parts: the first is made again, and the home of the second is silent while it is published, so that this
/// attempt is undone and made once more. The home that leads corrects its spare home, or asks the session, and is late.
struct Corrected : Script {
  Corrected(uint64_t seed, const std::set<fault::Point>& broken, size_t late_at)
      : Script(seed, broken, 7, 0, false), writer(world.add_program(5)) {
    take_room(writer, on(5, 6));
    const auto first = make_on(writer, on(1, 2)), second = make_on(writer, on(4, 6));
    const std::shared_ptr<Handle> both = join(writer, first, second);
    bool corrected = false;
    world.on_state = [&, this](fault::State state) {
      if (state == fault::State::kOwnerCorrected && !std::exchange(corrected, true))
        world.ways().cut(2, late_at);
    };
    run_for_ms(2000);
    world.kill(1, true);
    must_put(writer, both, 1, 8);
    run_for_ms(seed * 10);
    world.cut_link(0, 4);
    bool done = false;
    const auto publish = [&, this]() -> Task<void> {
      const Status status = co_await writer->publish(*both, "r");
      is_named = status.is_ok();
      done = true;
    };
    start(writer, publish);
    for (int i = 0; i < 100'000 && !done && !corrected; ++i) world.run_for(50'000);
    world.restore_link(0, 4);
    for (int i = 0; i < 40'000 && !done; ++i) world.run_for(50'000);
    if (done && !is_named) {
      done = false;
      start(writer, publish);
      for (int i = 0; i < 100'000 && !done; ++i) world.run_for(50'000);
    }
    world.on_state = nullptr;
    if (!corrected) world.ways().cut(2, late_at);
  }
  /// What is published is there without the home that leads.
  void check() {
    if (!is_named) return;
    must_read(0, "r", 1);
    world.kill(2, true);
    run_for_ms(5000);
    must_read(0, "r", 1);
  }
  std::shared_ptr<Program> writer;
  bool is_named = false;
};

std::string correction_is_late(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Corrected script(seed, broken, 3);
  script.world.ways().restore(2, 3);
  script.run_for_ms(3000);
  script.world.end_program(*script.writer);
  script.run_for_ms(6000);
  script.check();
  return script.end(outcome);
}

/// The session ends before it is asked whether it has what was published since.
std::string end_is_late(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Corrected script(seed, broken, 5);
  script.world.end_program(*script.writer);
  script.run_for_ms(20);
  script.world.ways().restore(2, 5);
  script.run_for_ms(9000);
  script.check();
  return script.end(outcome);
}

/// A spare home has a plan of which the home that leads does not hear, so that the part is made again with another one: the
/// first must not take the end for its own, whose bytes are older.
std::string another_plan_is_decided(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 6, 0, false);
  World& world = script.world;
  const auto writer = world.add_program(0);
  script.take_room(writer, on(4, 5));
  const auto handle = script.make_named(writer, on(1, 2), "r");
  bool planned = false, remade = false;
  world.on_state = [&](fault::State state) {
    if (state == fault::State::kPartPlanned && !std::exchange(planned, true)) world.cut_link(2, 3);
    remade = remade || state == fault::State::kReplicaRemade;
  };
  script.run_for_ms(2000);
  world.kill(1, true);
  script.must_put(writer, handle, 1, 8);
  bool ended = false;
  script.start(writer, [&]() -> Task<void> {
    while (!remade) {
      if (planned) (void)co_await writer->put(handle, 1);
      co_await writer->env->sleep_ns(100 * kMs);
    }
    ended = true;
  });
  for (int ms = 0; ms < 20'000 && !ended; ++ms) script.run_for_ms(1);
  if (!(planned && remade) && broken.empty()) world.violate("the part was not made again");
  script.must_put(writer, handle, 1, 8);
  const auto id = wire::id_from<AllocationId>(handle->memory->allocation.allocation_id());
  world.ways().reset(2, 3);
  world.kill(2, true);
  world.restore_link(2, 3);
  if (seed % 2 == 0) script.run_for_ms(300);
  if (seed % 2 == 0) world.restart(2);
  script.run_for_ms(20'000);
  if (world.daemon(3)->home->published().contains(id) &&
      handle->memory->pieces[handle->memory->newest[1]].node != 3 &&
      handle->memory->pieces[handle->memory->newest[0]].node != 3)
    world.violate("a spare home follows a plan that was not decided");
  script.must_put(writer, handle, 1, 8);
  script.must_read(0, "r", 1);
  script.must_read(4, "r", 1);
  return script.end(outcome);
}

/// A program frees what is made again, and one of its homes has not heard yet that it follows.
std::string freed_before_it_follows(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 8, 0, false);
  World& world = script.world;
  const auto writer = world.add_program(0);
  const auto handle = script.make_on(writer, on(1, 2, 3));
  std::map<ExtentId, size_t> left;
  for (const Memory::Piece& piece : handle->memory->pieces) {
    if (piece.node != 3) left[piece.id] = piece.node;
  }
  const size_t follows = left.rbegin()->second;
  bool planned = false, remade = false;
  world.on_state = [&](fault::State state) {
    planned = planned || state == fault::State::kPartPlanned;
    remade = remade || state == fault::State::kReplicaRemade;
  };
  script.run_for_ms(2000);
  world.kill(3, true);
  script.must_put(writer, handle, 1, 8);
  for (int i = 0; i < 200'000 && !planned; ++i) world.run_for(50'000);
  if (!planned && broken.empty()) world.violate("the part was not planned");
  world.cut_node(follows);
  for (int i = 0; i < 200'000 && !remade; ++i) world.run_for(50'000);
  script.run_for_ms(20 + seed * 10);
  script.start(writer, [&]() -> Task<void> { (void)co_await writer->free(handle); });
  script.run_for_ms(100);
  world.restore_node(follows);
  script.run_for_ms(30'000);
  world.restart(3);
  script.run_for_ms(6000);
  world.check_unused();
  return script.end(outcome);
}

/// A home is given a part of a name, and then hears late of an attempt to publish it that was undone before.
std::string undo_after_a_give(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 7, 0, false);
  World& world = script.world;
  const auto writer = world.add_program(5);
  script.take_room(writer, on(4, 4, 5, 5, 6, 6));
  const auto first = script.make_on(writer, on(1, 2)), second = script.make_on(writer, on(3, 6));
  const std::shared_ptr<Handle> both = script.join(writer, first, second);
  script.run(writer, [&]() -> Task<void> {
    const Status published = co_await writer->publish(*both, "r");
    script.must(published, "publish");
  });
  bool remade = false;
  world.on_state = [&](fault::State state) { remade = remade || state == fault::State::kReplicaRemade; };
  script.run_for_ms(2000);
  world.kill(1, true);
  script.must_put(writer, both, 1, 8);
  for (int i = 0; i < 200'000 && !remade; ++i) world.run_for(50'000);
  script.run_for_ms(500);
  node::Home& home = *world.daemon(3)->home;
  control::NameChange undo{.allocation = {}, .undo = true, .owner_node = "n5", .attempt = 4711};
  if (!home.published().empty()) undo.allocation = home.published().begin()->second;
  script.must(home.publish(undo), "a late undo");
  if (home.published().empty()) world.violate("a late undo ended the name's present attempt");
  return script.end(outcome);
}

}  // namespace

const std::vector<Schedule>& schedules_of_spares() {
  static const std::vector<Schedule> all{
      {"a plan is forgotten", plan_is_forgotten, 12},
      {"all others restart", all_others_restart, 12},
      {"one of two spare homes hears", one_of_two_hears, 30},
      {"the home that leads stands still", leader_stands_still, 24},
      {"the home that leads seems dead", leader_seems_dead, 24},
      {"the home that leads restarts", leader_restarts, 24},
      {"a spare home is missed", spare_is_missed, 24},
      {"removed with a plan", removed_with_a_plan, 24},
      {"an end with a plan", end_with_a_plan, 12},
      {"a correction is late", correction_is_late, 30},
      {"the end of a session is late", end_is_late, 30},
      {"another plan is decided", another_plan_is_decided, 24},
      {"freed before it follows", freed_before_it_follows, 40},
      {"an undo after a give", undo_after_a_give, 3},
  };
  return all;
}

}  // namespace ocm::simulation
