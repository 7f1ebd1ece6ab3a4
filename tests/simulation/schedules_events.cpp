// Of what programs are told unasked: what ends while those who are to be told are out of reach, or start again.
#include "script.h"

namespace ocm::simulation {
namespace {

constexpr size_t kOwner = 1, kHome = 2, kReader = 3;

/// A name on one node, and a program of another one that has attached it, or is about to, and waits for events.
struct Shared {
  Shared(uint64_t of, const std::set<fault::Point>& broken)
      : script(of, broken, 4),
        seed(of),
        owner(script.world.add_program(kOwner)),
        reader(script.world.add_program(kReader)) {
    script.run(owner, [&]() -> Task<void> {
      auto made = co_await owner->allocate(Layout::kSingle, on(kHome));
      script.must(made.status(), "allocate");
      const Status published = co_await owner->publish(*made.value(), "x");
      script.must(published, "publish");
    });
  }
  void attach() {
    script.run(reader, [&]() -> Task<void> {
      auto attached = co_await reader->attach("x", false);
      script.must(attached.status(), "attach");
      handle = attached.value();
    });
  }
  void listen() {
    script.start(reader, [&]() -> Task<void> { co_await reader->listen(); });
  }
  void remove() {
    script.run(owner, [&]() -> Task<void> {
      const Status removed = co_await owner->remove("x");
      script.must(removed, "remove");
    });
  }
  /// In time after everything works again.
  std::string end(Outcome* outcome) {
    script.run_for_ms(4500);
    if (!reader->was_told(*handle))
      script.world.violate("W9: who has attached it is not told that it is revoked");
    return script.end(outcome);
  }

  Script script;
  const uint64_t seed;
  const std::shared_ptr<Program> owner, reader;
  std::shared_ptr<Handle> handle;
};

/// The two do not reach each other while the name ends, and while who has attached it begins to watch it.
std::string ended_behind_a_cut(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Shared shared(seed, broken);
  World& world = shared.script.world;
  const bool watched = seed % 3 != 0;
  if (watched) {
    shared.attach();
    shared.listen();
    shared.script.run_for_ms(300);
    if (shared.reader->was_told(*shared.handle)) world.violate("W9: told before it ended");
  }
  const bool one_way = seed % 2 == 0;
  const size_t from = seed % 4 < 2 ? kHome : kReader, to = kHome + kReader - from;
  if (one_way)
    world.ways().cut(from, to);
  else
    world.cut_link(kHome, kReader);
  if (!watched) {
    shared.attach();
    shared.listen();
    shared.script.run_for_ms(100 * seed);
  }
  shared.remove();
  shared.script.run_for_ms(350 * seed);  // also longer than a failure deadline
  if (one_way)
    world.ways().restore(from, to);
  else
    world.restore_link(kHome, kReader);
  return shared.end(outcome);
}

/// The daemon of who is to be told starts again, before the name ends or after.
std::string reader_starts_again(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Shared shared(seed, broken);
  World& world = shared.script.world;
  shared.attach();
  shared.listen();
  shared.script.run_for_ms(300);
  world.kill(kReader, false);
  if (seed % 2 == 0) shared.remove();
  shared.script.run_for_ms(200 * seed);
  world.restart(kReader);
  shared.script.run_for_ms(100 * (seed % 5));
  if (seed % 2 == 1) shared.remove();
  const std::string out = shared.end(outcome);
  return out + (shared.reader->resyncs == 0 ? "it is not told that events may be missing\n" : "");
}

/// The home starts again: nothing of before is there.
std::string home_starts_again(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Shared shared(seed, broken);
  World& world = shared.script.world;
  shared.attach();
  shared.listen();
  shared.script.run_for_ms(300);
  world.kill(kHome, seed % 2 == 0);
  shared.script.run_for_ms(300 * seed);
  world.restart(kHome);
  return shared.end(outcome);
}

/// Messages are late and come twice; names end as they are attached.
std::string names_end_all_the_time(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 4);
  World& world = script.world;
  const auto owner = world.add_program(kOwner), reader = world.add_program(kReader);
  script.start(reader, [&]() -> Task<void> { co_await reader->listen(); });
  world.ways().set_late(8, 200 * kMs);
  std::vector<std::shared_ptr<Handle>> ended;
  for (size_t i = 0; i < 12; ++i) {
    const std::string name = "x" + std::to_string(i);
    script.run(owner, [&]() -> Task<void> {
      auto made = co_await owner->allocate(Layout::kSingle, on(kHome));
      script.must(made.status(), "allocate");
      const Status published = co_await owner->publish(*made.value(), name);
      script.must(published, "publish");
    });
    script.run(reader, [&]() -> Task<void> {
      auto attached = co_await reader->attach(name, false);
      if (attached.is_ok()) ended.push_back(attached.value());
    });
    if (i % 3 == seed % 3) script.run_for_ms(50);
    script.run(owner, [&]() -> Task<void> { (void)co_await owner->remove(name); });
    if (i % 4 == 0 && !ended.empty()) {
      script.run(reader, [&]() -> Task<void> { (void)co_await reader->free(ended.back()); });
      ended.pop_back();
    }
  }
  world.ways().set_late(0, 0);
  script.run_for_ms(4500);
  for (const auto& handle : ended) {
    if (!reader->was_told(*handle)) world.violate("W9: not told of the end of " + handle->memory->name);
  }
  return script.end(outcome);
}

}  // namespace

const std::vector<Schedule>& schedules_of_events() {
  static const std::vector<Schedule> all{
      {"ended behind a cut", ended_behind_a_cut, 12},
      {"who is told starts again", reader_starts_again, 8},
      {"the home of what is watched starts again", home_starts_again, 8},
      {"names end all the time", names_end_all_the_time, 12},
  };
  return all;
}

}  // namespace ocm::simulation
