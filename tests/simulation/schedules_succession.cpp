// Schedules of the coordinator's role: the node that has it dies, is cut off or stands still, and another one takes over.
#include <array>
#include <optional>

#include "script.h"

namespace ocm::simulation {
namespace {

constexpr uint64_t kDeadlineMs = 1500;
/// What the role takes to pass on: names work again.
constexpr uint64_t kSuccessionMs = kDeadlineMs + kDeadlineMs / 2 + 1000;

/// A replicated allocation of `program`'s on two nodes, or a single one, with its name.
std::shared_ptr<Handle> give_name(Script& script, const std::shared_ptr<Program>& program, const char* name,
                                  std::vector<size_t> nodes) {
  std::shared_ptr<Handle> handle;
  script.run(program, [&]() -> Task<void> {
    auto made = co_await program->allocate(nodes.size() == 1 ? Layout::kSingle : Layout::kReplicated, nodes);
    script.must(made.status(), "allocate");
    if (!made.is_ok()) co_return;
    handle = made.value();
    const Status put = co_await program->put(handle, 0);
    script.must(put, "put");
    const Status published = co_await program->publish(*handle, name);
    script.must(published, "publish");
  });
  return handle;
}

void take_name(Script& script, const std::shared_ptr<Program>& program, const char* name) {
  script.run(program, [&]() -> Task<void> {
    auto found = co_await program->attach(name, false);
    script.must(found.status(), "attach");
    if (!found.is_ok()) co_return;
    const Status got = co_await program->get(found.value(), 0);
    script.must(got, "get");
  });
}

void remove_name(Script& script, const std::shared_ptr<Program>& program, const char* name) {
  script.run(program, [&]() -> Task<void> {
    const Status removed = co_await program->remove(name);
    script.must(removed, "remove");
  });
}

/// One is given by `one`, and taken and removed by `other`.
void names_work(Script& script, const std::shared_ptr<Program>& one, const std::shared_ptr<Program>& other,
                std::vector<size_t> nodes) {
  const auto x = give_name(script, one, "x", std::move(nodes));
  take_name(script, other, "x");
  remove_name(script, other, "x");
}

std::string finish(Script& script, Outcome* outcome, const std::vector<std::shared_ptr<Program>>& programs) {
  script.run_for_ms(8000);
  script.world.check_settled();
  for (const auto& program : programs) script.world.end_program(*program);
  script.run_for_ms(8000);
  script.world.check_unused();
  return script.end(outcome);
}

/// It dies, with its machine or without, and comes back later as a member.
std::string coordinator_dies_of(WorldOptions options, Outcome* outcome) {
  const uint64_t seed = options.seed;
  Script script(options);
  World& world = script.world;
  const auto one = world.add_program(1), other = world.add_program(2);
  const auto x = give_name(script, one, "x", on(1, 2));
  const auto y = give_name(script, other, "y", on(1, 2));
  const auto w1 = give_name(script, one, "w1", on(1)), w2 = give_name(script, one, "w2", on(2));
  script.run_for_ms(3 * seed * 37 % 500);
  world.kill(0, seed % 3 == 0);
  // What homes that live have is found, or nobody is there who knows.
  script.run(other, [&]() -> Task<void> {
    const uint64_t end_ns = world.clock().now_ns() + kSuccessionMs * kMs;
    while (world.clock().now_ns() < end_ns) {
      for (const char* name : {"w1", "w2"}) {  // one is of the new coordinator, one is not
        auto found = co_await other->attach(name, false);
        if (found.status().code() == Code::kNotFound) script.must(found.status(), "attach meanwhile");
        if (found.is_ok()) (void)co_await other->free(found.value());
      }
      co_await other->env->sleep_ns(10 * kMs);
    }
  });
  take_name(script, other, "x");
  const auto z = give_name(script, one, "z", on(1, 2));
  remove_name(script, one, "y");
  world.restart(0);
  script.run_for_ms(3 * kDeadlineMs);
  const auto late = world.add_program(0);
  take_name(script, late, "x");
  take_name(script, late, "z");
  const auto v = give_name(script, late, "v", on(0, 1));
  for (const char* name : {"x", "z", "v", "w1", "w2"}) remove_name(script, other, name);
  return finish(script, outcome, {one, other, late});
}

WorldOptions with_voters(uint64_t seed, const std::set<fault::Point>& broken) {
  return Script::options(seed, broken, seed % 2 == 0 ? 3 : 5, 3, true);
}

std::string coordinator_dies(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  return coordinator_dies_of(with_voters(seed, broken), outcome);
}

/// The same where no voter notes names: what the next coordinator knows comes from homes.
std::string coordinator_of_older_dies(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  WorldOptions options = with_voters(seed, broken);
  options.older_daemons = true;
  return coordinator_dies_of(std::move(options), outcome);
}

/// It is cut off, for longer than the others wait; what its own node asks fails, and works again afterwards.
std::string coordinator_cut_off(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 3, 3);
  World& world = script.world;
  const auto near = world.add_program(0), far = world.add_program(1);
  const auto x = give_name(script, far, "x", on(1, 2));
  world.cut_node(0);
  script.run_for_ms(kSuccessionMs);
  take_name(script, far, "x");
  remove_name(script, far, "x");
  const auto y = give_name(script, far, "y", on(1, 2));
  script.run(near, [&]() -> Task<void> {
    const auto found = co_await near->attach("x", false);
    if (found.status().code() != Code::kNoCoordinator)
      world.violate("a coordinator that is cut off answers for names: " +
                    std::string(found.status().to_string()));
  });
  world.restore_node(0);
  script.run_for_ms(3 * kDeadlineMs);
  take_name(script, near, "y");
  remove_name(script, near, "y");
  return finish(script, outcome, {near, far});
}

/// It stands still in the middle of a publish or a removal, and goes on when another one has the role.
std::string coordinator_stands_still(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 4, 3);
  World& world = script.world;
  const auto one = world.add_program(1), other = world.add_program(2);
  const auto x = give_name(script, one, "x", on(1, 2));
  std::shared_ptr<Handle> handle;
  script.run(one, [&]() -> Task<void> {
    auto made = co_await one->allocate(Layout::kReplicated, on(2, 3));
    script.must(made.status(), "allocate");
    handle = made.value();
    const Status put = co_await one->put(handle, 0);
    script.must(put, "put");
  });
  script.start(one, [&]() -> Task<void> { (void)co_await one->publish(*handle, "y"); });
  script.start(other, [&]() -> Task<void> { (void)co_await other->remove("x"); });
  world.run_for((300 + 97 * seed) * 1000);
  world.stop(0);
  script.run_for_ms(kSuccessionMs + 100 * (seed % 5));
  world.resume(0);
  script.run_for_ms(3 * kDeadlineMs);
  const auto z = give_name(script, other, "z", on(0, 3));
  take_name(script, one, "z");
  for (const char* name : {"y", "x", "z"}) {
    script.run(other, [&]() -> Task<void> {
      const Status removed = co_await other->remove(name);
      if (!removed.is_ok() && removed.code() != Code::kNotFound) script.must(removed, "remove");
    });
  }
  return finish(script, outcome, {one, other});
}

/// One after the other dies; the last time the coordinator votes alone, and comes back as another run.
std::string each_dies_in_turn(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 3, 3);
  World& world = script.world;
  const auto one = world.add_program(1), other = world.add_program(2);
  for (size_t node = 0; node < 3; ++node) {
    world.kill(node, false);
    script.run_for_ms(kSuccessionMs);
    world.restart(node);
    script.run_for_ms(4 * kDeadlineMs);
    const auto x = give_name(script, one, "x", on(0, 2));
    take_name(script, other, "x");
    remove_name(script, other, "x");
  }
  world.kill(seed % 3, false);  // the coordinator, or not
  script.run_for_ms(kSuccessionMs);
  for (size_t node = 0; node < 3; ++node) {
    if (world.daemon(node) && world.coordinator() == world.daemon(node)) {
      world.kill(node, false);
      script.run_for_ms(200 * (seed % 7));
      world.restart(node);
      break;
    }
  }
  script.run_for_ms(3 * kDeadlineMs);
  world.restart(seed % 3);
  script.run_for_ms(6 * kDeadlineMs);
  names_work(script, one, other, on(0, 1));
  return finish(script, outcome, {one, other});
}

/// The seeds start one after the other, the one that founds the cluster last or in the middle; or a majority of the voters
/// restarts at once.
std::string cold_start(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 4, 3);
  World& world = script.world;
  const auto wait = [&] { script.run_for_ms(100 + 211 * seed % 1900); };
  std::vector<size_t> order{0, 1, 2, 3};
  std::rotate(order.begin(), order.begin() + static_cast<ptrdiff_t>(seed % 4), order.end());
  const bool all = seed % 2 == 0;
  for (size_t node : order) {
    if (all || node != 3) world.kill(node, false);
  }
  for (size_t node : order) {
    if (!all && node == 3) continue;
    wait();
    world.restart(node);
  }
  script.run_for_ms(16 * kDeadlineMs);  // who has replicas, and knows a council that is over, waits for ten
  const auto one = world.add_program(1), other = world.add_program(3);
  names_work(script, one, other, on(0, 2));
  return finish(script, outcome, {one, other});
}

/// It is told to stop: another one has the role long before the failure deadline.
std::string coordinator_stops(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, seed % 2 == 0 ? 3 : 5, 3);
  World& world = script.world;
  const auto one = world.add_program(1), other = world.add_program(2);
  const auto x = give_name(script, one, "x", on(1, 2));
  script.run_for_ms(3 * seed * 37 % 500);
  world.shut_down(0);
  script.run_for_ms(kDeadlineMs * 3 / 4);
  take_name(script, other, "x");
  const auto y = give_name(script, one, "y", on(1, 2));
  script.run_for_ms(2 * kDeadlineMs);
  world.restart(0);
  script.run_for_ms(3 * kDeadlineMs);
  for (const char* name : {"x", "y"}) remove_name(script, other, name);
  return finish(script, outcome, {one, other});
}

/// A coordinator tells a third voter of their council, is cut off, and is heard when the others have another: the voter,
/// which left that council, does not come back to it.
std::string told_of_a_past_council(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 3, 3);
  World& world = script.world;
  const auto one = world.add_program(1);
  world.stop(2);
  script.run_for_ms(3 * kDeadlineMs);  // 0 votes alone
  world.cut_link(0, 2);
  world.resume(2);
  script.run_for_ms(100 + 20 * (seed % 8));
  world.restore_link(0, 2);
  // Until all three vote again, and 2 may not have heard of it.
  const auto all_vote = [&] {
    return world.daemon(0)->cluster->quorum().voter().council().voters.size() == 3 ||
           world.daemon(1)->cluster->quorum().voter().council().voters.size() == 3;
  };
  for (int i = 0; i < 50000 && !all_vote(); ++i) world.run_for(kMs / 10);
  if (seed % 2 == 1) world.ways().cut(2, 0);  // it hears, and is not heard to have
  world.run_for(seed / 2 % 8 * kMs / 2);
  world.cut_node(0);
  script.run_for_ms(2500 + 61 * seed % 1500);
  world.restore_node(0);
  if (seed % 2 == 1) world.ways().restore(2, 0);
  script.run_for_ms(3 * kDeadlineMs);
  const auto x = give_name(script, one, "x", on(0, 2));
  remove_name(script, one, "x");
  return finish(script, outcome, {one});
}

/// What it told a home lies in a socket until another node has the role, and the home has said what it has.
std::string told_too_late(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 4, 3);
  World& world = script.world;
  const auto one = world.add_program(1), other = world.add_program(3);
  std::shared_ptr<Handle> handle;
  script.run(one, [&]() -> Task<void> {
    auto made = co_await one->allocate(Layout::kSingle, on(3));
    script.must(made.status(), "allocate");
    handle = made.value();
    const Status put = co_await one->put(handle, 0);
    script.must(put, "put");
  });
  world.cut_link(0, 3);
  Status published = Code::kDeadline;
  script.start(one, [&]() -> Task<void> { published = co_await one->publish(*handle, "x"); });
  script.run_for_ms(20 + seed % 7 * 30);
  world.stop(0);
  script.run_for_ms(kSuccessionMs);
  if (seed % 2 == 1) world.end_program(*one);  // and what is published nobody knows
  script.run_for_ms(500);
  world.restore_link(0, 3);
  script.run_for_ms(1000);
  world.resume(0);
  script.run_for_ms(3 * kDeadlineMs);
  if (published.is_ok()) take_name(script, other, "x");
  script.run(other, [&]() -> Task<void> { (void)co_await other->remove("x"); });
  return finish(script, outcome, {one, other});
}

/// Two voters of five do not hear the coordinator, which hears them: each promises the other, and that is no majority. When
/// they hear it again, they vote again.
std::string two_voters_hear_nothing(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 5, 3);
  World& world = script.world;
  const auto one = world.add_program(1);
  const auto x = give_name(script, one, "x", on(1, 3));
  script.run_for_ms(2 * kDeadlineMs);  // all five vote
  const size_t deaf[] = {1 + seed % 4, 1 + (seed + 1 + seed / 4 % 3) % 4};
  for (const size_t node : deaf) world.ways().cut(0, node);
  script.run_for_ms(4 * kDeadlineMs);
  for (const size_t node : deaf) world.ways().restore(0, node);
  script.run_for_ms(6 * kDeadlineMs);
  take_name(script, one, "x");
  remove_name(script, one, "x");
  for (size_t node = 0; node < 5; ++node) {
    const auto daemon = world.daemon(node);
    if (daemon->cluster->quorum().voter().council().id ==
            world.coordinator()->cluster->quorum().newest().id &&
        !daemon->cluster->quorum().voter().votes())
      world.violate("E5: " + name_of(node) + " votes no more in its council");
  }
  return finish(script, outcome, {one});
}

/// One node dies and another, which votes alone, dies as it takes that one and a third into the next council: some may
/// have it, or only have heard of it. Its next run, or they without it, go on.
std::string dies_as_it_makes_a_council(uint64_t seed, const std::set<fault::Point>& broken,
                                       Outcome* outcome) {
  Script script(seed, broken, 3, 3);
  World& world = script.world;
  const auto one = world.add_program(2);
  const auto x = give_name(script, one, "x", on(2));
  const auto voters_of = [&](size_t node) {
    const auto daemon = world.daemon(node);
    return daemon ? daemon->cluster->quorum().voter().council().voters.size() : size_t{0};
  };
  world.kill(0, false);
  const auto until = [&](auto what, uint64_t most_ms) {
    for (uint64_t us = 0; us < most_ms * 1000 && !what(); us += 100) world.run_for(100'000);
    return what();
  };
  const auto votes_alone = [&](size_t node) {
    return voters_of(node) == 1 && world.daemon(node)->cluster->is_coordinator();
  };
  const bool alone = until([&] { return votes_alone(1) || votes_alone(2); }, 8 * kDeadlineMs);
  const size_t maker = alone && votes_alone(2) ? 2 : 1;
  script.run_for_ms(kDeadlineMs);
  world.restart(0);
  const bool made =
      until([&] { return voters_of(0) == 3 || voters_of(1) == 3 || voters_of(2) == 3; }, 8 * kDeadlineMs);
  if (!alone || !made) world.violate("no council was made");
  world.run_for(seed % 8 * 100'000);
  world.kill(maker, false);
  if (seed % 2 == 0) world.empty_run_dir(maker);
  script.run_for_ms(seed % 3 * 1000);
  world.restart(maker);
  script.run_for_ms(5 * kDeadlineMs);
  const auto other = world.add_program(0);
  const auto y = give_name(script, other, "y", on(0));
  take_name(script, other, "y");
  remove_name(script, other, "y");
  if (maker != 2) remove_name(script, one, "x");
  return finish(script, outcome, {one, other});
}

/// Who voted alone made a council with two others, and dies; its next run, which remembers nothing, reaches nobody but a node
/// that knows no newer council than the one of it alone. The two others go on, and it must not found another cluster.
std::string lone_voter_is_told_of_itself(uint64_t seed, const std::set<fault::Point>& broken,
                                         Outcome* outcome) {
  Script script(seed, broken, 4, 4);
  World& world = script.world;
  size_t lags = 1;  // a voter; of the others one does not vote
  while (!script.votes(lags)) ++lags;
  std::vector<size_t> others;
  for (const size_t node : {1, 2, 3}) {
    if (node != lags) others.insert(script.votes(node) ? others.end() : others.begin(), node);
  }
  for (const size_t node : others) {
    world.kill(node, false);
    script.run_for_ms(3 * kDeadlineMs);
  }
  const auto voters_of = [&](size_t node) {
    const auto daemon = world.daemon(node);
    return daemon ? daemon->cluster->quorum().voter().council().voters.size() : size_t{0};
  };
  const auto until = [&](auto what) {
    for (uint64_t ms = 0; ms < 8 * kDeadlineMs && !what(); ++ms) script.run_for_ms(1);
    return what();
  };
  const bool alone = until([&] { return voters_of(0) == 1 && world.daemon(0)->cluster->is_coordinator(); });
  script.run_for_ms(kDeadlineMs);
  world.cut_node(lags);
  for (const size_t node : others) world.restart(node);
  const bool made = until([&] { return voters_of(others[0]) == 3 && voters_of(others[1]) == 3; });
  if (!alone || !made) world.violate("no council was made");
  world.kill(0, false);
  world.empty_run_dir(0);
  for (const size_t node : others) world.cut_link(0, node), world.cut_link(lags, node);
  world.restore_node(lags);
  script.run_for_ms(seed % 4 * 200);
  world.restart(0);
  script.run_for_ms(4 * kDeadlineMs);
  const auto here = world.add_program(others[0]), there = world.add_program(0);
  const auto x = give_name(script, here, "x", on(others[0]));
  script.run(there, [&]() -> Task<void> {
    auto made_too = co_await there->allocate(Layout::kSingle, on(0));
    if (!made_too.is_ok()) co_return;
    const Status published = co_await there->publish(*made_too.value(), "x");
    if (published.is_ok()) world.violate("one name was published twice");
  });
  for (const size_t node : others) world.restore_link(0, node), world.restore_link(lags, node);
  script.run_for_ms(6 * kDeadlineMs);
  take_name(script, there, "x");
  remove_name(script, here, "x");
  return finish(script, outcome, {here, there});
}

/// A majority of the voters restarts and a council of one node is founded, to which a home with replicas of the council
/// before does not come yet. That node dies once or twice more: what the home tells it of the council before keeps it from
/// nothing.
std::string founds_anew_and_dies(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 3 + seed % 2, 3);
  World& world = script.world;
  const auto keeper = world.add_program(2);
  script.run(keeper, [&]() -> Task<void> {
    auto made = co_await keeper->allocate(Layout::kReplicated, on(1, 2));
    script.must(made.status(), "allocate");
  });
  for (const size_t node : {0, 1}) world.kill(node, false);
  if (seed % 4 != 3) world.empty_run_dir(0), world.empty_run_dir(1);
  for (const size_t node : {0, 1}) world.restart(node);
  for (uint64_t dies = 0; dies < 1 + seed / 2 % 2; ++dies) {
    script.run_for_ms(4 * kDeadlineMs + 331 * seed % (6 * kDeadlineMs));
    world.kill(0, false);
    script.run_for_ms(7 * seed % 300);
    world.restart(0);
  }
  script.run_for_ms(6 * kDeadlineMs);
  if (!world.coordinator()) world.violate("no node is the coordinator, and all of them run");
  script.run_for_ms(12 * kDeadlineMs);
  const auto one = world.add_program(1), other = world.add_program(0);
  names_work(script, one, other, on(0, 2));
  return finish(script, outcome, {keeper, one, other});
}

/// The coordinator stands still, and another one, which has a council of itself alone chosen, dies before it told anybody.
/// When all of them run again, those who promised that council know that it is over, and the next run of its voter goes on.
std::string only_voter_dies(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 3, 3);
  World& world = script.world;
  const auto one = world.add_program(seed % 3), other = world.add_program((seed + 1) % 3);
  const auto x = give_name(script, one, "x", on(0, 1 + seed % 2));
  script.run_for_ms(2 * kDeadlineMs);
  world.stop(0);
  size_t maker = 0;
  for (uint64_t us = 0; us < 8 * kDeadlineMs * 1000 && maker == 0; us += 20) {
    world.run_for(20'000);
    for (const size_t node : {1, 2}) {
      if (world.daemon(node)->cluster->quorum().voter().council().voters.size() == 1) maker = node;
    }
  }
  if (maker == 0) world.violate("no council was made");
  world.run_for(seed % 4 * 100'000);
  world.kill(maker, false);
  if (seed % 2 == 0) world.empty_run_dir(maker);
  const uint64_t back_ms = seed % 5 * 200, on_ms = seed / 5 % 3 * 1000;
  script.run_for_ms(std::min(back_ms, on_ms));
  on_ms <= back_ms ? world.resume(0) : world.restart(maker);
  script.run_for_ms(std::max(back_ms, on_ms) - std::min(back_ms, on_ms));
  on_ms <= back_ms ? world.restart(maker) : world.resume(0);
  script.run_for_ms(5 * kDeadlineMs);
  if (!world.coordinator()) world.violate("no node is the coordinator, and all of them run");
  script.run_for_ms(3 * kDeadlineMs);
  take_name(script, other, "x");
  const auto y = give_name(script, other, "y", on(1, 2));
  take_name(script, one, "y");
  for (const char* name : {"x", "y"}) remove_name(script, other, name);
  return finish(script, outcome, {one, other});
}

/// Voters restart as they have installed a council, and its maker hears of none of them, or of few.
std::string installed_and_not_heard(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 5, 5);
  World& world = script.world;
  script.run_for_ms(2000);
  world.kill(4, false);
  script.run_for_ms(100);
  const std::vector<size_t> die{1, 2, 4};  // of the council before, too
  size_t installed = 0;
  world.on_state = [&](fault::State state) {
    if (state != fault::State::kCouncilInstalled || ++installed != 1 + seed % 2) return;
    world.clock().in(1 + seed / 2 % 8 * 40'000, [&] {
      for (const size_t node : die) world.kill(node, false);
    });
  };
  world.restart(4);
  script.run_for_ms(2 * kDeadlineMs + seed % 5 * 300);  // its seat is over
  world.on_state = nullptr;
  for (const size_t node : die) {
    if (!world.daemon(node)) world.restart(node);
  }
  script.run_for_ms(4 * kDeadlineMs);
  const auto one = world.add_program(0), other = world.add_program(3);
  names_work(script, one, other, on(0, 3));
  return finish(script, outcome, {one, other});
}

/// The coordinator is no seed, and all seeds restart at once: they do not found another cluster beside its own, nor where
/// they remember nothing of it and most of its voters are others (`forget`); else where it stands still and tells nobody (odd
/// seeds).
std::string seeds_restart(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome,
                          bool forget) {
  Script script(seed, broken, forget ? 8 : 5, 3);
  World& world = script.world;
  script.run_for_ms(2000);
  if (forget) {  // one after the other, so that none of them votes any more
    for (const size_t node : {2, 1}) {
      world.kill(node, false);
      script.run_for_ms(4000);
    }
    script.restart({0}, 4000);
    for (const size_t node : {1, 2}) world.restart(node);
    script.run_for_ms(6000);
  }
  for (int tries = 0; tries < 4 && script.leader() < 3; ++tries) {
    script.restart({0, 1, 2}, 4000);
    script.run_for_ms(6000);
  }
  const auto away = world.add_program(4), near = world.add_program(0);
  const auto x = give_name(script, away, "x", on(3, 4));
  script.run_for_ms(seed * 211 % 1000);
  const size_t leader = script.leader();
  const bool stands_still = !forget && seed % 2 == 1;
  for (const size_t node : {0, 1, 2}) {
    world.kill(node, false);
    if (forget) world.empty_run_dir(node);
  }
  if (stands_still) world.stop(leader);
  script.run_for_ms(seed % 3 * 15);
  for (const size_t node : {0, 1, 2}) world.restart(node);
  script.run_for_ms(1200);
  if (stands_still) world.resume(leader);
  script.run_for_ms(3 * kDeadlineMs);
  take_name(script, near, "x");
  const auto y = give_name(script, near, "y", on(4));
  take_name(script, away, "y");
  for (const char* name : {"x", "y"}) remove_name(script, near, name);
  return finish(script, outcome, {away, near});
}

std::string seeds_restart_at_once(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  return seeds_restart(seed, broken, outcome, false);
}

std::string seeds_forget_at_once(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  return seeds_restart(seed, broken, outcome, true);
}

Status found_at(Script& script, size_t node) {
  std::optional<Status> founded;
  const auto found = [](std::shared_ptr<Daemon> daemon, std::optional<Status>& out) -> Task<void> {
    out = co_await daemon->cluster->found_by_hand();
  };
  const auto daemon = script.world.daemon(node);
  daemon->env->start(found(daemon, founded));
  for (uint64_t ms = 0; ms < 4 * kDeadlineMs && !founded; ms += 10) script.run_for_ms(10);
  return founded.value_or(Status(Code::kDeadline, "founding had no answer"));
}

/// Three of five voters die, and the two that are left are told to found the cluster at the same moment: one does, which the
/// other follows.
std::string founded_at_two(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 5, 3);
  World& world = script.world;
  script.run_for_ms(2000);
  for (const size_t node : {0, 1, 2}) world.kill(node, seed % 2 == 0);
  script.run_for_ms(3 * kDeadlineMs);
  std::array<std::optional<Status>, 2> founded;
  const auto found = [](std::shared_ptr<Daemon> daemon, std::optional<Status>& out) -> Task<void> {
    out = co_await daemon->cluster->found_by_hand();
  };
  const size_t first = seed / 2 % 2;
  for (const size_t i : {first, 1 - first}) {
    const auto daemon = world.daemon(3 + i);
    daemon->env->start(found(daemon, founded[i]));
    world.run_for(seed * 7919 % 40'000'000 / (1 + seed % 5));  // also while the other asks
  }
  for (uint64_t ms = 0; ms < 8 * kDeadlineMs && !(founded[0] && founded[1]); ms += 10) script.run_for_ms(10);
  size_t coordinators = 0;
  for (const auto& status : founded) {
    if (!status) world.violate("founding had no answer");
    coordinators += status && status->is_ok() ? 1 : 0;
  }
  if (coordinators != 1) world.violate(std::to_string(coordinators) + " nodes founded a cluster");
  script.run_for_ms(2 * kDeadlineMs);
  const auto one = world.add_program(3), other = world.add_program(4);
  names_work(script, one, other, on(3, 4));
  for (const size_t node : {0, 1, 2}) world.restart(node);
  script.run_for_ms(6 * kDeadlineMs);
  return finish(script, outcome, {one, other});
}

/// Two of three voters die for good, and an operator founds the cluster at a node that did not vote: names work again, also
/// for the voter that is left. The dead come back later, without what they remember, or with it (odd seeds): then replicas
/// are kept. Or (4 of 8 seeds) the first seed is not there when the others start.
std::string founded_by_hand(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 5, 3);
  World& world = script.world;
  script.run_for_ms(2000);
  const auto refused = [&](size_t node) {
    if (found_at(script, node).code() != Code::kExists) world.violate("founded beside a coordinator");
  };
  std::vector<size_t> voters, others;
  for (size_t node = 0; node < 5; ++node) (script.votes(node) ? voters : others).push_back(node);
  const bool starts = seed % 8 >= 4;
  size_t at = starts || others.empty() ? 4 : others.front(), left = voters.back();
  std::shared_ptr<Program> owner;
  std::shared_ptr<Handle> kept;
  if (starts) {  // all end, and forget; the seed that founds is the last to come back
    for (size_t node = 0; node < 5; ++node) {
      world.kill(node, true);
      world.empty_run_dir(node);
    }
    for (const size_t node : {1, 2, 3, 4}) world.restart(node);
    script.run_for_ms(3 * kDeadlineMs);
    left = 2;
  } else {
    refused(at);
    // All five vote (choose_voters), or three: a majority dies.
    if (others.empty()) at = voters[voters.size() - 2];
    if (seed % 2 == 1) {
      owner = world.add_program(left);
      kept = script.make_on(owner, on(at, left));
    }
    for (size_t i = 0; i <= voters.size() / 2; ++i) world.kill(voters[i], seed % 2 == 0);
    script.run_for_ms(3 * kDeadlineMs);
  }
  const Status founded = found_at(script, at);
  script.must(founded, "found");
  script.run_for_ms(2 * kDeadlineMs);
  const auto one = world.add_program(at), other = world.add_program(left);
  names_work(script, one, other, on(at));
  refused(left);
  const auto x = give_name(script, one, "x", on(at));
  for (size_t node = 0; node < 5; ++node) {
    if (world.daemon(node)) continue;
    if (seed % 2 == 0) world.empty_run_dir(node);
    world.restart(node);
  }
  script.run_for_ms(6 * kDeadlineMs);
  take_name(script, other, "x");
  remove_name(script, other, "x");
  if (kept) {
    script.must_put(owner, kept, 0, 2);
    world.end_program(*owner);
  }
  const auto late = world.add_program(0);
  names_work(script, late, one, on(0, at));
  return finish(script, outcome, {one, other, late});
}

/// A node is cut off for much longer than the failure deadline, and what lies in its connections comes when they try again.
std::string long_cut(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  const size_t cut = seed % 3, other = (cut + 1) % 3;
  Script script(seed, broken, 3, seed / 3 % 2 * 3);
  const auto x = script.world.add_program(other), y = script.world.add_program(cut);
  const auto use = [&](const std::shared_ptr<Program>& program, size_t node) {
    script.run(program, [&]() -> Task<void> {
      auto made = co_await program->allocate(Layout::kSingle, on(node));
      script.must(made.status(), "allocate on a node that was cut off");
      if (!made.is_ok()) co_return;
      const Status freed = co_await program->free(made.value());
      script.must(freed, "free");
    });
  };
  use(x, cut);
  use(y, other);
  script.world.cut_node(cut);
  script.run_for_ms(10'000 + 7000 * seed);
  script.world.restore_node(cut);
  script.run_for_ms(3 * kDeadlineMs);
  use(x, cut);
  use(y, other);
  give_name(script, x, "x", on(cut));
  take_name(script, y, "x");
  remove_name(script, y, "x");
  return finish(script, outcome, {x, y});
}

}  // namespace

const std::vector<Schedule>& schedules_of_succession() {
  static const std::vector<Schedule> all{
      {"the coordinator dies", coordinator_dies, 24},
      {"the coordinator of older daemons dies", coordinator_of_older_dies, 24},
      {"another takes over from who is cut off", coordinator_cut_off, 12},
      {"the coordinator stands still", coordinator_stands_still, 24},
      {"each dies in turn", each_dies_in_turn, 12},
      {"cold start", cold_start, 16},
      {"the coordinator stops", coordinator_stops, 12},
      {"told of a past council", told_of_a_past_council, 48},
      {"told too late", told_too_late, 12},
      {"two voters hear nothing", two_voters_hear_nothing, 12},
      {"who voted alone is told of itself", lone_voter_is_told_of_itself, 8},
      {"who voted alone dies as it makes a council", dies_as_it_makes_a_council, 32},
      {"who founds anew dies", founds_anew_and_dies, 24},
      {"the only new voter dies", only_voter_dies, 24},
      {"installed and not heard", installed_and_not_heard, 60},
      {"all seeds restart at once", seeds_restart_at_once, 24},
      {"all seeds forget at once", seeds_forget_at_once, 12},
      {"a long cut", long_cut, 12},
      {"founded by hand", founded_by_hand, 16},
      {"founded at two nodes", founded_at_two, 24},
  };
  return all;
}

}  // namespace ocm::simulation
