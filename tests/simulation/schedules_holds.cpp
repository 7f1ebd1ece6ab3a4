// Of holds that are taken while a home frees what they are for.
#include <algorithm>

#include "script.h"

namespace ocm::simulation {
namespace {

/// As pages do that were given back; a word of each was put.
bool reads_zeros(const os::Mapping& pages) {
  const std::byte* const begin = pages.data();
  return std::all_of(begin, begin + kPieceBytes, [](std::byte one) { return one == std::byte{0}; });
}

/// A majority of the voters loses power, so homes that have replicas start over some time later and free them: nobody knows
/// any more which are old. All the time programs take holds on one, also on the node that frees it. What they read through
/// pointers stays as it was, and with the holds the last of it goes.
std::string held_as_a_home_starts_over(uint64_t seed, const std::set<fault::Point>& broken,
                                       Outcome* outcome) {
  Script script(seed, broken, 4);
  World& world = script.world;
  std::vector<size_t> voters;  // but for the coordinator
  size_t home = 0;
  for (const size_t node : {1, 2, 3}) {
    if (script.votes(node))
      voters.push_back(node);
    else
      home = node;
  }
  if (voters.size() != 2) return "the council has other voters than this is about";
  const auto owner = world.add_program(home), near = world.add_program(home), far = world.add_program(0);
  std::vector<std::shared_ptr<Handle>> of_near, of_far;
  const auto take = [&](const std::shared_ptr<Program>& program) {
    script.start(program, [&, program]() -> Task<void> {
      auto attached = co_await program->attach("x", true);
      if (attached.is_ok()) (program == near ? of_near : of_far).push_back(attached.value());
    });
  };
  script.run(owner, [&]() -> Task<void> {
    auto made = co_await owner->allocate(Layout::kReplicated, on(voters[0], home));
    script.must(made.status(), "allocate");
    const Status put = co_await owner->put(made.value(), 0);
    script.must(put, "put");
    const Status published = co_await owner->publish(*made.value(), "x");
    script.must(published, "publish");
  });
  take(near);
  script.run_for_ms(200);
  for (const size_t node : voters) world.kill(node, true);
  for (uint64_t step = 0; step < 60; ++step) {
    if (step == seed % 3) world.restart(voters[0]);
    if (step == seed % 4) world.restart(voters[1]);
    take(near);
    take(far);
    script.run_for_ms(370 + 13 * seed);
    for (const auto& handle : of_near) {
      near->check_pointers(*handle, 0);
      for (const auto& [piece, pointer] : handle->pointers) {
        if (reads_zeros(pointer)) world.violate("what is held reads as zeros");
      }
    }
  }
  if (!world.reached().contains(fault::State::kReplicaDropped)) world.violate("no home started over");
  for (const auto& program : {near, far}) {
    script.run(program, [&, program]() -> Task<void> {
      for (const auto& handle : program == near ? of_near : of_far) (void)co_await program->free(handle);
    });
  }
  script.run(owner, [&]() -> Task<void> { (void)co_await owner->remove("x"); });
  world.end_program(*owner);
  script.run_for_ms(15'000);
  world.check_unused();  // the holders go on
  return script.end(outcome);
}

/// One home frees its part before it hears of a hold, and the other one seems dead, and is (odd seeds) or is not reached:
/// what is not held must not seem so.
std::string hold_on_nothing(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 4);
  World& world = script.world;
  const auto owner = world.add_program(0), reader = world.add_program(3);
  script.run(owner, [&]() -> Task<void> {
    auto made = co_await owner->allocate(Layout::kReplicated, on(1, 2));
    script.must(made.status(), "allocate");
    const Status put = co_await owner->put(made.value(), 0);
    script.must(put, "put");
    const Status published = co_await owner->publish(*made.value(), "x");
    script.must(published, "publish");
  });
  world.cut_link(0, 2);
  if (seed % 2 == 1) world.cut_link(3, 2);
  script.run_for_ms(5000);
  world.cut_link(3, 1);
  std::shared_ptr<Handle> held;
  script.start(reader, [&]() -> Task<void> {
    auto found = co_await reader->attach("x", true);
    if (found.is_ok()) held = found.value();
  });
  script.run_for_ms(100);
  script.run(owner, [&]() -> Task<void> {
    const Status removed = co_await owner->remove("x");
    script.must(removed, "remove");
  });
  world.restore_link(3, 1);
  script.run_for_ms(2000);
  world.restore_link(0, 2);
  script.run_for_ms(5000);
  world.restore_link(3, 2);
  script.run_for_ms(1000);
  script.run(reader, [&]() -> Task<void> {
    if (held == nullptr) co_return;
    const Status got = co_await reader->get(held, 0);
    script.must(got, "get what is held");
  });
  world.end_program(*reader);
  world.end_program(*owner);
  script.run_for_ms(8000);
  world.check_unused();
  return script.end(outcome);
}

}  // namespace

const std::vector<Schedule>& schedules_of_holds() {
  static const std::vector<Schedule> all{
      {"held as a home starts over", held_as_a_home_starts_over, 12},
      {"a hold on nothing", hold_on_nothing, 4},
  };
  return all;
}

}  // namespace ocm::simulation
