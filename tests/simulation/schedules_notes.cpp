// Schedules of what voters note of names (control/notes.h): a home is away when a name is given, removed or asked for, and
// another node coordinates by then (E4).
#include <optional>

#include "script.h"

namespace ocm::simulation {
namespace {

constexpr uint64_t kLeaseMs = 1500;
constexpr uint64_t kPassesOnMs = kLeaseMs + kLeaseMs / 2 + 1000;
/// After the start: all nodes are known to note, and what was named before is noted.
constexpr uint64_t kNotingMs = 2 * kLeaseMs;

std::shared_ptr<Handle> single_on(Script& script, const std::shared_ptr<Program>& program, size_t node) {
  std::shared_ptr<Handle> handle;
  script.run(program, [&]() -> Task<void> {
    auto made = co_await program->allocate(Layout::kSingle, on(node));
    script.must(made.status(), "allocate");
    if (!made.is_ok()) co_return;
    handle = made.value();
    const Status put = co_await program->put(handle, 0);
    script.must(put, "put");
  });
  return handle;
}

Status name_it(Script& script, const std::shared_ptr<Program>& program, const std::shared_ptr<Handle>& handle,
               const char* name) {
  std::optional<Status> out;
  script.run(program, [&]() -> Task<void> { out = co_await program->publish(*handle, name); });
  return out.value_or(Status(Code::kDeadline));
}

Status take_away(Script& script, const std::shared_ptr<Program>& program, const char* name) {
  std::optional<Status> out;
  script.run(program, [&]() -> Task<void> { out = co_await program->remove(name); });
  return out.value_or(Status(Code::kDeadline));
}

Code opens(Script& script, const std::shared_ptr<Program>& program, const char* name) {
  Code out = Code::kDeadline;
  script.run(program, [&]() -> Task<void> {
    auto found = co_await program->attach(name, false);
    out = found.status().code();
    if (found.is_ok()) (void)co_await program->free(found.value());
  });
  return out;
}

void must_be(Script& script, Code is, Code wanted, const char* what) {
  if (is != wanted)
    script.world.violate(std::string("E4: ") + what + ": " + std::string(Status(is).to_string()));
}

std::string all_end(Script& script, Outcome* outcome, const std::vector<std::shared_ptr<Program>>& programs) {
  script.run_for_ms(8000);
  script.world.check_settled();
  for (const auto& program : programs) script.world.end_program(*program);
  script.run_for_ms(8000);
  script.world.check_unused();
  return script.end(outcome);
}

/// The only home of a name is cut off, and the coordinator dies. The next one knows the name: nobody else gets it, and it is
/// there when its home is back, or was removed meanwhile (odd seeds) and stays so.
std::string home_away(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 5, 3);
  World& world = script.world;
  const auto one = world.add_program(1), other = world.add_program(2), far = world.add_program(4);
  if (seed % 3 != 0) script.run_for_ms(kNotingMs);  // else it is noted later than it is given
  const auto x = single_on(script, far, 4);
  script.must(name_it(script, far, x, "x"), "publish");
  script.run_for_ms(seed % 3 != 0 ? 10 * seed : kNotingMs);
  world.cut_node(4);
  script.run_for_ms(seed % 4 < 2 ? 100 : 2 * kLeaseMs);
  world.kill(0, seed % 5 == 0);
  script.run_for_ms(kPassesOnMs);
  const auto y = single_on(script, one, 1);
  must_be(script, name_it(script, one, y, "x").code(), Code::kExists, "a name was given twice");
  must_be(script, opens(script, other, "x"), Code::kLost, "a name whose home is away");
  if (seed % 2 == 1) {
    script.must(take_away(script, other, "x"), "remove");
    must_be(script, opens(script, one, "x"), Code::kNotFound, "a removed name");
  }
  world.restore_node(4);
  world.restart(0);
  script.run_for_ms(4 * kLeaseMs);
  must_be(script, opens(script, one, "x"), seed % 2 == 1 ? Code::kNotFound : Code::kOk, "its home is back");
  if (seed % 2 == 0) script.must(take_away(script, other, "x"), "remove");
  return all_end(script, outcome, {one, other, far});
}

/// A removal is answered while the home is cut off. All others restart one after the other, so that what any of them heard
/// of it is forgotten, but for what voters handed on: the name stays away when the home is back.
std::string removed_through_restarts(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 5, 3);
  World& world = script.world;
  const auto far = world.add_program(4);
  auto one = world.add_program(1);
  const auto x = single_on(script, far, 4);
  script.must(name_it(script, far, x, "x"), "publish");
  script.run_for_ms(kNotingMs + 10 * seed);
  world.cut_node(4);
  script.run_for_ms(seed % 2 == 0 ? 100 : 2 * kLeaseMs);
  script.must(take_away(script, one, "x"), "remove");
  for (const size_t node : {0, 1, 2, 3}) {
    script.restart(on((node + seed) % 4), 200 * (seed % 3));
    script.run_for_ms(5 * kLeaseMs);
  }
  world.restore_node(4);
  script.run_for_ms(4 * kLeaseMs);
  for (const size_t node : {0, 4}) {
    const auto late = world.add_program(node);
    must_be(script, opens(script, late, "x"), Code::kNotFound, "a removed name came back with its home");
    world.end_program(*late);
  }
  return all_end(script, outcome, {one, far});
}

/// The coordinator loses its voters just before a publish: it is not answered by what it alone knows, or else the next one
/// knows it too.
std::string no_majority_notes(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 5, 3);
  World& world = script.world;
  const auto one = world.add_program(1), far = world.add_program(4);
  script.run_for_ms(kNotingMs);
  const auto x = single_on(script, far, 4);
  for (const size_t node : {1, 2, 3}) world.cut_link(0, node);
  script.run_for_ms(seed % 5 * 20);
  const Status told = name_it(script, far, x, "x");
  world.cut_node(4);
  script.run_for_ms(2 * kPassesOnMs);
  const auto y = single_on(script, one, 1);
  const Status taken = name_it(script, one, y, "x");
  if (told.is_ok() && taken.is_ok()) world.violate("E4: a name was given twice");
  for (const size_t node : {1, 2, 3}) world.restore_link(0, node);
  world.restore_node(4);
  script.run_for_ms(4 * kLeaseMs);
  if (told.is_ok() || taken.is_ok()) script.must(take_away(script, one, "x"), "remove");
  return all_end(script, outcome, {one, far});
}

/// A publish is noted, its answer is lost, and the coordinator dies, which is the only home: asked again, the next one undoes
/// it. The name is nobody else's until the program gave its allocation up (even seeds: it never does, and the name is
/// removed). Who gets it then keeps it, and what is removed stays so, through other coordinators.
std::string noted_and_undone(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 5, 3);
  World& world = script.world;
  const auto one = world.add_program(1), other = world.add_program(4);
  script.run_for_ms(kNotingMs + 10 * seed);
  const auto x = single_on(script, one, 0);
  const auto y = script.make_on(other, on(3, 4));
  world.cut_way(0, 1);
  std::optional<Status> told;
  script.start(one, [&]() -> Task<void> {
    Status last = Code::kNoCoordinator;
    for (int i = 0; i < 10 && last.code() == Code::kNoCoordinator; ++i) last = co_await one->publish(*x, "x");
    told = last;
  });
  script.run_for_ms(kLeaseMs / 4);
  world.kill(0, false);
  for (int i = 0; i < 2000 && !told; ++i) script.run_for_ms(10);
  world.restore_link(0, 1);
  must_be(script, told.value_or(Code::kDeadline).code(), Code::kPeerLost, "a name whose only home is gone");
  must_be(script, name_it(script, other, y, "x").code(), Code::kExists, "another's name that is in doubt");
  if (seed % 2 == 1)
    script.run(one, [&]() -> Task<void> { (void)co_await one->free(x); });
  else
    script.must(take_away(script, one, "x"), "remove");
  script.run_for_ms(kLeaseMs);
  script.must(name_it(script, other, y, "x"), "publish");
  world.restart(0);
  for (const Code wanted : {Code::kOk, Code::kNotFound}) {
    script.run_for_ms(5 * kLeaseMs);
    const size_t leader = script.leader();
    world.kill(leader, false);
    script.run_for_ms(kPassesOnMs + kLeaseMs);
    const auto& asker = leader == 1 ? other : one;
    must_be(script, opens(script, asker, "x"), wanted, "after the next change of coordinators");
    if (wanted == Code::kOk) script.must(take_away(script, asker, "x"), "remove");
    world.restart(leader);
  }
  return all_end(script, outcome, {one, other});
}

}  // namespace

const std::vector<Schedule>& schedules_of_notes() {
  static const std::vector<Schedule> all{
      {"the home of a name is away", home_away, 24},
      {"a removed name through restarts", removed_through_restarts, 12},
      {"no majority notes a name", no_majority_notes, 10},
      {"the publish of a noted name is undone", noted_and_undone, 8},
  };
  return all;
}

}  // namespace ocm::simulation
