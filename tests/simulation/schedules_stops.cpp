// Schedules of nodes that stop: one after it was asked whether it may, or most voters at once.
#include <optional>

#include "daemon.h"
#include "script.h"

namespace ocm::simulation {
namespace {

/// One of three homes is lost, and another one while the replica of the home that leads is frozen: when the last one calls
/// its stop safe, it may be killed, and the bytes are there.
std::string frozen_is_the_last(uint64_t seed, const std::set<fault::Point>& broken,
                               std::set<fault::State>* reached) {
  bool frozen = false, is_safe = false;
  std::optional<wire::StopCheck> answer;
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
  const auto ask = [](node::Stopper& stopper, std::optional<wire::StopCheck>& out) -> Task<void> {
    out = co_await stopper.check(0);
  };
  for (int i = 0; i < 400 && !is_safe; ++i) {
    last->env->start(ask(*last->stopper, answer));
    for (int ms = 0; ms < 8000 && !answer; ++ms) script.run_for_ms(1);
    if (!answer) return "it does not say whether it may stop\n";
    if (answer->single_extents() != 0) world.violate("a replica is taken for something that has none");
    is_safe = answer->last_parts() + answer->unknown_parts() == 0;
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
  return script.end(reached);
}

/// A majority of the voters restarts at once, and the coordinator goes on: nobody knows any more which
/// replicas are old. Those that are left are given up (CAVEATS.md), their names are listed as lost, and new ones are as good
/// as ever.
std::string majority_restarts(uint64_t seed, const std::set<fault::Point>& broken,
                              std::set<fault::State>* reached) {
  Script script(seed, broken, 4);
  const auto x = script.world.add_program(3);
  std::shared_ptr<Handle> before;
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
  script.run_for_ms(25'000);
  script.run(x, [&]() -> Task<void> {
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
    if (lost == served)
      script.world.violate("a name is listed as lost that is there, or not as lost that is not");
  });
  script.world.check_settled();
  return script.end(reached);
}

/// The same where nobody has replicas: nothing is lost, so new ones need not wait.
std::string majority_restarts_without_replicas(uint64_t seed, const std::set<fault::Point>& broken,
                                               std::set<fault::State>* reached) {
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
  return script.end(reached);
}

}  // namespace

const std::vector<Schedule>& schedules_of_stops() {
  static const std::vector<Schedule> all = {
      {"a frozen replica is the last", frozen_is_the_last, 12},
      {"a majority restarts", majority_restarts, 12},
      {"a majority restarts, no replicas", majority_restarts_without_replicas, 6},
  };
  return all;
}

}  // namespace ocm::simulation
