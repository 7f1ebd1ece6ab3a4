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

}  // namespace

const std::vector<Schedule>& schedules_of_losses() {
  static const std::vector<Schedule> all{
      {"who decided alone is gone", decided_alone_and_gone, 12},
      {"another is lost meanwhile", another_is_lost_meanwhile, 24},
      {"a peer dies before it is given", dies_before_it_is_given, 24},
  };
  return all;
}

}  // namespace ocm::simulation
