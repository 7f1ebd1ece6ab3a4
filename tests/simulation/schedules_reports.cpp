// What homes tell a coordinator that has just started of the names that they have: parts of a whole, or page by page.
#include "script.h"

namespace ocm::simulation {
namespace {

/// N7: one home of two has heard of the name, then the coordinator and the program end.
std::string half_a_name(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 4);
  World& world = script.world;
  const auto program = world.add_program(1);
  std::shared_ptr<Handle> handle;
  script.run(program, [&]() -> Task<void> {
    auto made = co_await program->allocate(seed % 2 == 0 ? Layout::kStriped : Layout::kReplicated, on(2, 3));
    script.must(made.status(), "allocate");
    handle = made.value();
  });
  world.cut_link(0, 3);
  script.start(program, [&]() -> Task<void> { (void)co_await program->publish(*handle, "x"); });
  script.run_for_ms(200);
  world.kill(0, false);
  world.ways().drop_parked();
  world.end_program(*program);
  world.restart(0);
  script.run_for_ms(1000 * seed);
  world.restore_link(0, 3);
  script.run_for_ms(10'000);
  const auto last = world.add_program(2);
  script.run(last, [&]() -> Task<void> {
    const auto found = co_await last->attach("x", false);
    script.must(found.status().code() == Code::kNotFound ? Code::kOk : Code::kInternal, "no half of a name");
  });
  world.end_program(*last);
  script.run_for_ms(3000);
  world.check_unused();
  return script.end(outcome);
}

/// A home comes back to another coordinator, tells its names in many messages, and hears meanwhile that some of them were
/// removed: it tells all others.
std::string names_end_while_told(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 4);
  World& world = script.world;
  world.refuse(fault::Point::kSmallReports, 1'000'000);
  const auto program = world.add_program(1);
  constexpr size_t kNames = 16;
  const auto name = [](size_t i) { return "x" + std::to_string(i); };
  for (size_t i = 0; i < kNames; ++i) {
    script.run(program, [&]() -> Task<void> {
      auto made = co_await program->allocate(Layout::kSingle, on(3));
      script.must(made.status(), "allocate");
      const Status published = co_await program->publish(*made.value(), name(i));
      script.must(published, "publish");
    });
  }
  script.run_for_ms(1000);
  world.cut_node(3);
  script.run_for_ms(5000);
  const auto is_removed = [seed](size_t i) { return (i * 7 + seed) % 3 != 0; };
  for (size_t i = 0; i < kNames; ++i) {
    if (!is_removed(i)) continue;
    script.run(program, [&]() -> Task<void> {
      const Status removed = co_await program->remove(name(i));
      script.must(removed, "remove");
    });
  }
  world.kill(0, false);
  world.restart(0);
  script.run_for_ms(5000);
  world.restore_node(3);
  script.run_for_ms(10'000);
  for (size_t i = 0; i < kNames; ++i) {
    script.run(program, [&]() -> Task<void> {
      const auto found = co_await program->attach(name(i), false);
      const Code wanted = is_removed(i) ? Code::kNotFound : Code::kOk;
      if (found.status().code() != wanted)
        world.violate(name(i) + ": " + std::string(found.status().to_string()));
    });
  }
  return script.end(outcome);
}

/// One home heard of a publish when the coordinator died. The next one has the name from that home, and the program publishes
/// again: what is answered holds for the other home, too.
std::string half_a_name_again(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 4);
  World& world = script.world;
  const auto program = world.add_program(1);
  std::shared_ptr<Handle> handle;
  script.run(program, [&]() -> Task<void> {
    auto made = co_await program->allocate(seed % 2 == 0 ? Layout::kStriped : Layout::kReplicated, on(2, 3));
    script.must(made.status(), "allocate");
    handle = made.value();
    for (size_t cell = 0; cell < 2; ++cell) {
      const Status put = co_await program->put(handle, cell);
      script.must(put, "put");
    }
  });
  world.cut_link(0, 3);
  Status told(Code::kDeadline);
  script.start(program, [&]() -> Task<void> { told = co_await program->publish(*handle, "x"); });
  script.run_for_ms(200);
  world.kill(0, false);
  world.ways().drop_parked();
  world.restart(0);
  world.restore_link(0, 3);
  script.run_for_ms(500 * seed);
  for (int i = 0; i < 8 && !told.is_ok(); ++i) {
    script.run(program, [&]() -> Task<void> { told = co_await program->publish(*handle, "x"); });
  }
  script.must(told, "publish again");
  world.end_program(*program);
  script.run_for_ms(8000);
  for (size_t cell = 0; cell < 2; ++cell) script.must_read(1, "x", cell);
  if (seed % 2 == 1) {
    world.kill(2, true);
    script.run_for_ms(5000);
    script.must_read(1, "x", 1);
  }
  return script.end(outcome);
}

}  // namespace

const std::vector<Schedule>& schedules_of_reports() {
  static const std::vector<Schedule> all{
      {"half a name", half_a_name, 6},
      {"names end while a home tells them", names_end_while_told, 6},
      {"half a name, published again", half_a_name_again, 12},
  };
  return all;
}

}  // namespace ocm::simulation
