// Schedules of nodes that stop: one after it was asked whether it may, or most voters at once.
#include <algorithm>
#include <optional>
#include <utility>

#include "daemon.h"
#include "script.h"

namespace ocm::simulation {
namespace {

/// One of three homes is lost, and another one while the replica of the home that leads is frozen: when the last one calls
/// its stop safe, it may be killed, and the bytes are there.
std::string frozen_is_the_last(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  bool frozen = false, is_safe = false;
  std::optional<control::StopCheck> answer;
  Script script(seed, broken, 6);
  World& world = script.world;
  world.on_state = [&](fault::State state) { frozen = frozen || state == fault::State::kReplicaFrozen; };
  const std::shared_ptr<Program> writer = world.add_program(3), reader = world.add_program(4);
  std::shared_ptr<Handle> read;
  script.run(writer, [&]() -> Task<void> {
    auto made = co_await writer->allocate(Layout::kReplicated, on(1, 2, 5));
    script.must(made.status(), "allocate");
    if (!made.is_ok()) co_return;
    const Status put = co_await writer->put(made.value(), 1);
    script.must(put, "put");
    const Status published = co_await writer->publish(*made.value(), "r");
    script.must(published, "publish");
  });
  script.run(reader, [&]() -> Task<void> {
    auto found = co_await reader->attach("r", false);
    script.must(found.status(), "attach");
    if (found.is_ok()) read = found.value();
  });
  world.kill(1, true);
  for (int i = 0; i < 60'000 && !frozen; ++i) script.run_for_ms(1);
  if (!frozen && broken.empty()) world.violate("no replica was ever frozen");
  script.run_for_ms(seed % 3);
  const size_t dies = seed % 2 == 0 ? 5 : 2, stays = dies == 5 ? 2 : 5;
  world.kill(dies, true);
  const std::shared_ptr<Daemon> last = world.daemon(stays);
  const auto ask = [](node::Stopper& stopper, std::optional<control::StopCheck>& out) -> Task<void> {
    out = co_await stopper.check(0);
  };
  for (int i = 0; i < 400 && !is_safe; ++i) {
    last->env->start(ask(*last->stopper, answer));
    for (int ms = 0; ms < 8000 && !answer; ++ms) script.run_for_ms(1);
    if (!answer) return "it does not say whether it may stop\n";
    if (answer->single_extents != 0) world.violate("a replica is taken for something that has none");
    is_safe = answer->takes_nothing();
    answer.reset();
    if (!is_safe) script.run_for_ms(10);
  }
  if (is_safe) world.kill(stays, true);
  world.restart(1);
  world.restart(dies);
  if (is_safe) world.restart(stays);
  script.run_for_ms(15'000);
  script.run(reader, [&]() -> Task<void> {
    const Status got = co_await reader->get(read, 1);
    script.must(got, "a get of what one home had left");
  });
  return script.end(outcome);
}

/// A majority of the voters restarts at once, and the coordinator goes on. With their memory (Q9) the replicas that are left
/// go on. Where their machines lost power nobody knows any more which are old: they are given up (CAVEATS.md), their names
/// are listed as lost, and new ones are as good as ever.
std::string majority_restarts(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 4);
  const auto x = script.world.add_program(3), elsewhere = script.world.add_program(0);
  std::shared_ptr<Handle> before;
  script.run(elsewhere, [&]() -> Task<void> {
    auto made = co_await elsewhere->allocate(Layout::kReplicated, on(0, 3));
    script.must(made.status(), "allocate elsewhere");
  });
  script.run(x, [&]() -> Task<void> {
    auto made = co_await x->allocate(Layout::kReplicated, on(1, 3));
    script.must(made.status(), "allocate");
    before = made.value();
    const Status put = co_await x->put(before, 1);
    script.must(put, "put");
    auto named = co_await x->allocate(Layout::kReplicated, on(1, 3));
    script.must(named.status(), "allocate for a name");
    if (!named.is_ok()) co_return;
    const Status named_now = co_await x->publish(*named.value(), "x");
    script.must(named_now, "publish");
  });
  script.world.kill(1, seed % 2 == 0);
  script.world.kill(2, seed % 2 == 0);
  script.run_for_ms(seed % 3 * 1000);
  script.world.restart(1);
  script.run_for_ms(seed % 4 * 500);
  script.world.restart(2);
  const bool remembered = seed % 2 != 0;
  script.run_for_ms(remembered ? 6000 : 25'000);
  script.run(x, [&]() -> Task<void> {
    if (remembered) {
      const Status kept = co_await x->get(before, 1);
      script.must(kept, "get of what one home still has");
      const Status put = co_await x->put(before, 1);
      script.must(put, "put to what one home still has");
    }
    auto made = co_await x->allocate(Layout::kReplicated, on(1, 3));
    script.must(made.status(), "allocate afterwards");
    if (!made.is_ok()) co_return;
    const Status put = co_await x->put(made.value(), 1);
    script.must(put, "put afterwards");
    const Status got = co_await x->get(made.value(), 1);
    script.must(got, "get afterwards");
    const bool lost = co_await x->is_lost("x");
    const bool served =
        script.world.daemon(3)->home->directory().replicas().size() > 1;  // not only the new one
    if (lost == served || (lost && remembered))
      script.world.violate("a name is listed as lost that is there, or not as lost that is not");
  });
  script.world.check_settled();
  return script.end(outcome);
}

std::shared_ptr<Handle> attached_to_x(Script& script, const std::shared_ptr<Program>& program) {
  std::shared_ptr<Handle> out;
  script.run(program, [&]() -> Task<void> {
    auto attached = co_await program->attach("x", false);
    script.must(attached.status(), "attach");
    out = attached.value();
  });
  return out;
}

/// Again and again, until one is acknowledged.
void put_within(Script& script, const std::shared_ptr<Program>& program,
                const std::shared_ptr<Handle>& handle, const char* what, uint64_t for_ms) {
  World& world = script.world;
  const uint64_t until_ns = world.clock().now_ns() + for_ms * kMs;
  script.run(program, [&]() -> Task<void> {
    Status put = Code::kDeadline;
    while (!put.is_ok() && world.clock().now_ns() < until_ns) {
      put = co_await program->put(handle, 1);
      if (!put.is_ok()) co_await program->env->sleep_ns(10 * kMs);
    }
    script.must(put, what);
  });
}

/// A replica is decided lost while its home is cut off, a majority of the voters or all of them restart, and the home is back:
/// what the other one has is kept, and what is old is not read.
std::string majority_restarts_after_a_loss(uint64_t seed, const std::set<fault::Point>& broken,
                                           Outcome* outcome) {
  const size_t nodes = 4 + seed % 2;  // three vote, or all
  Script script(seed, broken, nodes, seed % 3 == 0 ? nodes : 0);
  World& world = script.world;
  const size_t cut = nodes - 1, left = nodes - 2;
  const auto x = world.add_program(left), y = world.add_program(cut);
  const std::shared_ptr<Handle> of_x = script.make_named(x, on(left, cut), "x");
  const std::shared_ptr<Handle> of_y = attached_to_x(script, y);
  world.cut_node(cut);
  const auto write = [&](const char* what, uint64_t for_ms) { put_within(script, x, of_x, what, for_ms); };
  write("put while a home is cut off", 8000);
  if (seed % 2 == 0) script.run_for_ms(700 * (seed % 5));  // else before the part is made again
  std::vector<size_t> restarted;
  bool another_knows = false;  // the council, and not of the loss
  for (size_t node = 0; node < left; ++node) {
    if (script.votes(node))
      restarted.push_back(node);
    else
      another_knows = true;
  }
  if (restarted.size() > 2 && seed % 4 < 2) restarted.erase(restarted.begin());  // the coordinator goes on
  for (const size_t node : restarted) world.kill(node, false);
  script.run_for_ms(300 * (seed % 3));
  // Who has the newest record of the name is cut off then, too: the older one is all that the others hear.
  const bool both = another_knows && seed % 2 == 1;
  if (both) world.cut_node(left);
  if (seed % 4 < 2) world.restore_node(cut);
  for (const size_t node : restarted) world.restart(node);
  if (seed % 4 >= 2) world.restore_node(cut);
  script.start(y, [&]() -> Task<void> {
    for (int i = 0; i < 400; ++i) {
      (void)co_await y->get(of_y, 1);
      auto again = co_await y->attach("x", false);
      if (again.is_ok()) (void)co_await y->get(again.value(), 1);
      co_await y->env->sleep_ns(20 * kMs);
    }
  });
  if (both) {
    script.run_for_ms(8000);
    world.restore_node(left);
  }
  write("put after the restarts", 12'000);
  script.run_for_ms(8000);
  for (const auto& program : {x, y}) {
    script.run(program, [&, program]() -> Task<void> {
      const Status got = co_await program->get(program == x ? of_x : of_y, 1);
      script.must(got, "get of what one home kept");
    });
  }
  return script.end(outcome);
}

/// Q8: five vote, one of them is cut off and given up. Others die and come back, most of them more than once, before the one
/// that was cut off comes back with its council, which ended long ago, while the home of the other replica is cut off.
std::string former_council_is_heard_of(uint64_t seed, const std::set<fault::Point>& broken,
                                       Outcome* outcome) {
  constexpr size_t kLeft = 3, kCut = 4;
  Script script(seed, broken, 5, 5);
  World& world = script.world;
  const auto x = world.add_program(kLeft), y = world.add_program(kCut);
  const std::shared_ptr<Handle> of_x = script.make_named(x, on(kLeft, kCut), "x");
  const std::shared_ptr<Handle> of_y = attached_to_x(script, y);
  world.cut_node(kCut);
  put_within(script, x, of_x, "put while a home is cut off", 8000);
  script.run_for_ms(800 + seed % 4 * 400);
  script.restart({1, 2}, seed % 3 * 10);
  script.run_for_ms(850 + 331 * seed % 3000);  // the one that is left is a council of its own, or not yet
  script.restart({0, 1, 2}, seed / 2 % 3 * 300);
  if (seed % 2 == 0) {
    script.run_for_ms(seed * 53 % 500);
    script.restart({0, 1}, 0);
  }
  const bool cut_left = seed % 3 != 0;
  if (cut_left) world.cut_node(kLeft);
  world.restore_node(kCut);
  script.start(y, [&]() -> Task<void> {
    for (int i = 0; i < 400; ++i) {
      (void)co_await y->get(of_y, 1);
      co_await y->env->sleep_ns(20 * kMs);
    }
  });
  script.run_for_ms(8000);
  if (cut_left) world.restore_node(kLeft);
  script.run_for_ms(20'000);
  return script.end(outcome);
}

/// What one home kept, published as "x", is as before.
void is_kept(Script& script, const std::shared_ptr<Program>& program, const std::shared_ptr<Handle>& handle) {
  script.run(program, [&]() -> Task<void> {
    const Status got = co_await program->get(handle, 1);
    script.must(got, "get of what one home kept");
    const Status put = co_await program->put(handle, 1);
    script.must(put, "put to what one home kept");
    const Status again = co_await program->get(handle, 1);
    script.must(again, "get of what was put to it");
    const bool lost = co_await program->is_lost("x");
    if (lost) script.world.violate("the name of what one home kept is listed as lost");
  });
}

/// All nodes but one restart, and again while what they remember is just being gone on with, or before.
std::string all_but_one_restart_again(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  const size_t nodes = 3 + seed % 2, left = seed / 2 % nodes,
               other = (left + 1 + seed / 8 % (nodes - 1)) % nodes;
  Script script(seed, broken, nodes, seed % 3 == 0 ? 0 : nodes);
  World& world = script.world;
  const auto x = world.add_program(left);
  const std::shared_ptr<Handle> handle = script.make_named(x, on(left, other), "x");
  for (uint64_t again = 0; again < 2 + seed % 3; ++again) {
    if (again > 0) script.run_for_ms(700 + (151 * seed + 397 * again) % 1200);
    for (size_t node = 0; node < nodes; ++node) {
      if (node != left) world.kill(node, false);
    }
    script.run_for_ms(seed / 3 % 4 * 1250);
    for (size_t node = 0; node < nodes; ++node) {
      if (node != left) world.restart(node);
    }
  }
  script.run_for_ms(20'000);
  is_kept(script, x, handle);
  world.check_settled();
  return script.end(outcome);
}

/// All voters die, and one of them for good: the others go on with the home that does not vote.
std::string one_voter_stays_dead(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 4, seed % 2 == 0 ? 4 : 0);
  World& world = script.world;
  script.run_for_ms(1000);
  std::vector<size_t> voters;
  size_t left = 0;
  for (const size_t node : {0, 1, 2, 3}) {
    if (script.votes(node))
      voters.push_back(node);
    else
      left = node;
  }
  if (voters.size() != 3 || voters[0] != 0) return "the council has other voters than this is about";
  const size_t dead = voters[1 + seed / 2 % 2];
  const auto x = world.add_program(left);
  const std::shared_ptr<Handle> handle = script.make_named(x, on(left, dead), "x");
  for (const size_t node : voters) world.kill(node, false);
  script.run_for_ms(seed % 5 * 700);
  for (const size_t node : voters) {
    if (node != dead) world.restart(node);
  }
  script.run_for_ms(15'000);
  is_kept(script, x, handle);
  world.restart(dead);
  script.run_for_ms(12'000);
  world.check_settled();
  return script.end(outcome);
}

/// The same where nobody has replicas: nothing is lost, so new ones need not wait.
std::string majority_restarts_without_replicas(uint64_t seed, const std::set<fault::Point>& broken,
                                               Outcome* outcome) {
  Script script(seed, broken, 4);
  const auto x = script.world.add_program(3);
  script.run_for_ms(3000);
  for (const size_t node : {1, 2}) script.world.kill(node, seed % 2 == 0);
  script.run_for_ms(500 * (seed % 3));
  for (const size_t node : {1, 2}) script.world.restart(node);
  script.run_for_ms(4500);
  script.run(x, [&]() -> Task<void> {
    auto made = co_await x->allocate(Layout::kReplicated, on(1, 3));
    script.must(made.status(), "allocate");
    if (!made.is_ok()) co_return;
    const Status put = co_await x->put(made.value(), 1);
    script.must(put, "put");
  });
  return script.end(outcome);
}

/// A writer does not reach one home and has its replica given up; just then the home of the other one ends for good: it is
/// told to stop and does so where it may (S3 of node/stopper.h), or dies (R12 of control/loss.h). The bytes are on one of them.
std::string ends_as_another_is_given_up(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome,
                                        bool stops) {
  Script script(seed, broken, 5, seed % 3 == 0 ? 3 : 0);
  World& world = script.world;
  const auto writer = world.add_program(4), reader = world.add_program(0);
  const size_t ends = 1, other = 3;
  const std::shared_ptr<Handle> handle = script.make_named(writer, on(ends, other), "r");
  const auto may_be_lost = [&] {  // a voter accepted it, or knows it
    for (size_t voter = 0; voter < 5; ++voter) {
      const auto state =
          world.daemon(voter)->cluster->quorum().voter().ledger().state(world.clock().now_ns());
      for (const auto& [first, part] : state.parts) {
        if (part.accepted_at.round != 0 || !part.lost.empty()) return true;
      }
    }
    return world.daemon(other)->home->directory().replicas().empty();
  };
  bool accepted = false, is_cut = true;
  world.on_state = [&](fault::State state) { accepted = accepted || state == fault::State::kLossAccepted; };
  const auto restore = [&] {
    if (!std::exchange(is_cut, false)) return;
    seed % 2 == 0 ? world.restore_link(other, 4) : world.ways().restore(other, 4);
  };
  script.run_for_ms(3000);
  seed % 2 == 0 ? world.cut_link(other, 4) : world.ways().cut(other, 4);
  script.start(writer, [&]() -> Task<void> { (void)co_await writer->put(handle, 1); });
  if (stops && seed % 5 == 0) {  // neither home has heard of it
    for (int ms = 0; ms < 5000 && !accepted; ++ms) script.run_for_ms(1);
    script.run_for_ms(seed % 3);
  } else {
    script.run_for_ms(60 * seed);
  }
  bool ended = !stops;
  if (stops) {
    const std::shared_ptr<Daemon> daemon = world.daemon(ends);
    daemon->env->start(daemon->stopper->wait([&] { ended = true; }));
  }
  for (uint64_t ms = 0; ms < 20'000 && !ended; ++ms) {
    if (ms == 200 && seed % 4 == 0) restore();
    script.run_for_ms(1);
  }
  const bool was_last = !stops && may_be_lost();
  if (ended) world.kill(ends, true);
  script.run_for_ms(3000);
  restore();
  script.run_for_ms(8000);
  script.run(reader, [&]() -> Task<void> {
    auto found = co_await reader->attach("r", false);
    if (was_last) co_return;
    script.must(found.status(), "attach what one home has");
    if (!found.is_ok()) co_return;
    const Status got = co_await reader->get(found.value(), 1);
    script.must(got, "get what one home has");
    if (!stops) co_return;
    const Status put = co_await reader->put(found.value(), 2);
    script.must(put, "put to what one home has");
  });
  return script.end(outcome);
}

std::string stops_as_another_is_given_up(uint64_t seed, const std::set<fault::Point>& broken,
                                         Outcome* outcome) {
  return ends_as_another_is_given_up(seed, broken, outcome, true);
}
std::string dies_as_another_is_given_up(uint64_t seed, const std::set<fault::Point>& broken,
                                        Outcome* outcome) {
  return ends_as_another_is_given_up(seed, broken, outcome, false);
}

/// The same for what only a hold keeps, for its name was removed, and for the first of three replicas, one of whose homes is
/// dead: the voters have given up the one that the writer does not reach, and its home may not have heard of it when the other
/// one is told to stop. No record but that home's tells it.
std::string stops_with_what_is_not_short(uint64_t seed, const std::set<fault::Point>& broken,
                                         Outcome* outcome) {
  Script script(seed, broken, 6);
  World& world = script.world;
  const auto writer = world.add_program(4), owner = world.add_program(0);
  const size_t ends = 1, other = 3, dead = 2;
  const bool held = seed % 2 == 0;
  std::shared_ptr<Handle> handle;
  script.run(owner, [&]() -> Task<void> {
    const std::vector<size_t> homes = held ? on(ends, other) : on(ends, other, dead);
    auto made = co_await owner->allocate(Layout::kReplicated, homes, homes.size());
    script.must(made.status(), "allocate");
    if (!made.is_ok()) co_return;
    const Status published = co_await owner->publish(*made.value(), "r");
    script.must(published, "publish");
  });
  script.run(writer, [&]() -> Task<void> {
    auto found = co_await writer->attach("r", held);
    script.must(found.status(), "attach");
    handle = found.value();
    const Status put = co_await writer->put(handle, 1);
    script.must(put, "put");
  });
  if (held) script.run(owner, [&]() -> Task<void> { (void)co_await owner->remove("r"); });
  script.run_for_ms(3000);
  if (!held) world.kill(dead, true);
  world.cut_link(other, 4);
  const auto decided = [&] {
    const auto state = world.daemon(ends)->cluster->quorum().voter().ledger().state(world.clock().now_ns());
    return std::any_of(state.parts.begin(), state.parts.end(),
                       [](const auto& part) { return !part.second.lost.empty(); });
  };
  script.start(writer, [&]() -> Task<void> { (void)co_await writer->put(handle, 1); });
  for (int tenths = 0; tenths < 50'000 && !decided(); ++tenths) world.run_for(kMs / 10);
  world.run_for(seed / 2 * kMs / 2);
  bool ended = false;
  const std::shared_ptr<Daemon> daemon = world.daemon(ends);
  daemon->env->start(daemon->stopper->wait([&] { ended = true; }));
  for (int ms = 0; ms < 20'000 && !ended; ++ms) script.run_for_ms(1);
  if (ended) world.kill(ends, true);
  script.run_for_ms(3000);
  world.restore_link(other, 4);
  script.run_for_ms(8000);
  script.run(writer, [&]() -> Task<void> {
    const Status got = co_await writer->get(handle, 1);
    script.must(got, "get what one home has");
  });
  return script.end(outcome);
}

/// Few voters accepted that a replica is lost, and the home of the other one ends by itself. The next council hears of what they
/// accepted: it gives up the replica that ended all the same, and writers go on.
std::string stops_with_a_loss_in_doubt(uint64_t seed, const std::set<fault::Point>& broken,
                                       Outcome* outcome) {
  Script script(seed, broken, 5, seed % 3 == 0 ? 3 : 0);
  World& world = script.world;
  const auto writer = world.add_program(4), other = world.add_program(0);
  const size_t ends = 1, stays = 3;
  const std::shared_ptr<Handle> handle = script.make_named(writer, on(ends, stays), "r");
  bool accepted = false;
  world.on_state = [&](fault::State state) {
    if (state != fault::State::kLossAccepted || std::exchange(accepted, true)) return;
    for (const size_t node : {0, 1, 2, 3}) world.cut_link(node, 4);
  };
  script.run_for_ms(3000);
  world.cut_link(stays, 4);
  script.start(writer, [&]() -> Task<void> { (void)co_await writer->put(handle, 1); });
  for (int tenths = 0; tenths < 50'000 && !accepted; ++tenths) world.run_for(kMs / 10);
  script.run_for_ms(seed % 5);
  world.end_program(*writer);
  script.run_for_ms(100 * (seed % 4));
  for (const size_t node : {0, 1, 2, 3}) world.restore_link(node, 4);
  world.restore_link(stays, 4);
  script.run_for_ms(100 * (seed % 3));
  bool ended = false, drained = false;
  const std::shared_ptr<Daemon> daemon = world.daemon(ends);
  daemon->env->start(daemon->stopper->wait([&] { ended = true; }));
  for (int ms = 0; ms < 30'000 && !ended; ++ms) script.run_for_ms(1);
  if (!ended) world.violate("a stop waits though another copy is there");
  daemon->drain([&] { drained = true; });
  for (int ms = 0; ms < 3000 && !drained; ++ms) script.run_for_ms(1);
  world.kill(ends, false);
  script.run_for_ms(6000);
  script.run(other, [&]() -> Task<void> {
    auto found = co_await other->attach("r", false);
    script.must(found.status(), "attach what one home has");
    if (!found.is_ok()) co_return;
    const Status put = co_await other->put(found.value(), 2);
    script.must(put, "put to what one home has");
  });
  return script.end(outcome);
}

/// A voter waits in its stop, for there is no room for a copy of what it has, and all others restart: nobody but that one can
/// have a council made with them. When there is room it ends, and the others go on.
std::string voters_restart_as_one_stops(uint64_t seed, const std::set<fault::Point>& broken,
                                        Outcome* outcome) {
  // Where there are four, the other copy is there all the time, on one that does not vote.
  const size_t nodes = 3 + seed % 3, stays = seed % 2, other = nodes - 1;
  const bool has_copy = nodes == 4;
  Script script(seed, broken, nodes, nodes);
  World& world = script.world;
  script.run_for_ms(3000);
  const auto x = world.add_program(stays);
  (void)script.make_named(x, on(stays, other), "x");
  world.refuse(fault::Point::kHomeNoMemory, 40'000);
  if (!has_copy) world.kill(other, true);
  script.run_for_ms(300 + 900 * (seed % 4));
  bool ended = false;
  const std::shared_ptr<Daemon> daemon = world.daemon(stays);
  const auto stop = [&] { daemon->env->start(daemon->stopper->wait([&] { ended = true; })); };
  if (!has_copy) stop();
  script.run_for_ms(500 * (seed % 5));
  for (size_t node = 0; node < nodes; ++node) {
    if (node != stays && node != other) world.kill(node, false);
  }
  if (has_copy) stop();
  script.run_for_ms(700 * (seed % 4));
  for (size_t node = 0; node < nodes; ++node) {
    if (node != stays && (node != other || !has_copy)) world.restart(node);
  }
  for (int ms = 0; ms < 10'000 && !ended; ++ms) script.run_for_ms(1);
  if (ended && !has_copy) world.violate("the last copy ended");
  if (!world.coordinator() && !has_copy) world.violate("W6: no node acts as coordinator");
  for (int ms = 0; ms < 60'000 && !ended; ++ms) script.run_for_ms(1);
  if (!ended) world.violate("a stop waits though there is room");
  script.end_daemon(daemon, stays);
  script.run_for_ms(6'000);
  if (!world.coordinator()) world.violate("W6: no node acts as coordinator");
  script.must_read(other, "x", 1);
  return script.end(outcome);
}

/// Of three nodes one waits in its stop, for there is no room for a copy of what it has; the coordinator, which votes alone
/// by then and has nothing to lose, is told to stop, too: that one could neither make its copy nor end without it.
std::string only_voter_stops(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 3, 3);
  World& world = script.world;
  script.run_for_ms(3000);
  const size_t leads = script.leader();
  const size_t waits = (leads + 1 + seed % 2) % 3, other = 3 - leads - waits;
  const auto x = world.add_program(waits);
  (void)script.make_named(x, on(waits, other), "x");
  world.refuse(fault::Point::kHomeNoMemory, 30'000);
  world.kill(other, false);
  world.restart(other);
  script.run_for_ms(3000);
  bool one_ended = false, ended = false;
  const std::shared_ptr<Daemon> one = world.daemon(waits), last = world.daemon(leads);
  one->env->start(one->stopper->wait([&] { one_ended = true; }));
  const auto votes_alone = [&] { return last->cluster->quorum().voter().council().voters.size() == 1; };
  for (int ms = 0; ms < 8000 && !votes_alone(); ++ms) script.run_for_ms(1);
  script.run_for_ms(400 * (seed % 8));
  last->env->start(last->stopper->wait([&] { ended = true; }));
  for (int ms = 0; ms < 80'000 && !one_ended && !ended; ++ms) script.run_for_ms(1);
  if (ended && !one_ended) world.violate("the only voter ended while another waits");
  if (!one_ended) world.violate("a stop waits though there is room");
  script.end_daemon(one, waits);
  for (int ms = 0; ms < 20'000 && !ended; ++ms) script.run_for_ms(1);
  if (!ended) world.violate("the only voter waits for nobody");
  script.must_read(other, "x", 1);
  return script.end(outcome);
}

}  // namespace

const std::vector<Schedule>& schedules_of_stops() {
  static const std::vector<Schedule> all = {
      {"a frozen replica is the last", frozen_is_the_last, 12},
      {"a home stops as another is given up", stops_as_another_is_given_up, 80},
      {"a home dies as another is given up", dies_as_another_is_given_up, 40},
      {"a home stops with what is not short", stops_with_what_is_not_short, 24},
      {"a home stops with a loss in doubt", stops_with_a_loss_in_doubt, 24},
      {"all others restart as one stops", voters_restart_as_one_stops, 36},
      {"the only voter stops", only_voter_stops, 16},
      {"a majority restarts", majority_restarts, 12},
      {"a majority restarts after a loss", majority_restarts_after_a_loss, 24},
      {"all but one restart again", all_but_one_restart_again, 24},
      {"a former council is heard of", former_council_is_heard_of, 40},
      {"one voter stays dead", one_voter_stays_dead, 20},
      {"a majority restarts, no replicas", majority_restarts_without_replicas, 6},
  };
  return all;
}

}  // namespace ocm::simulation
