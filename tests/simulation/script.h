// A few nodes of the simulated cluster without random faults, and steps of programs: what schedules are written in.
#pragma once

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "program.h"
#include "schedules.h"

namespace ocm::simulation {

inline constexpr uint64_t kMs = 1'000'000;

/// Not a list in braces: GCC 12 cannot have one in a co_await.
template <class... Nodes>
std::vector<size_t> on(Nodes... nodes) {
  return {static_cast<size_t>(nodes)...};
}

/// A few nodes without random faults, and steps of programs.
struct Script {
  /// `seeds`: the coordinator's role passes on.
  Script(uint64_t seed, const std::set<fault::Point>& broken, size_t nodes = 3, size_t seeds = 0,
         bool coordinator_offers = true)
      : Script(options(seed, broken, nodes, seeds, coordinator_offers)) {}
  explicit Script(const WorldOptions& options) : world(options) { world.boot(); }
  static WorldOptions options(uint64_t seed, const std::set<fault::Point>& broken, size_t nodes, size_t seeds,
                              bool coordinator_offers) {
    WorldOptions out;
    out.coordinator_offers = coordinator_offers;
    out.seed = seed;
    out.nodes = nodes;
    out.seeds = seeds;
    out.always = broken;
    return out;
  }
  /// Started and not waited for.
  template <class Step>
  void start(const std::shared_ptr<Program>& program, Step step) {
    const auto wrap = [](Step inner) -> Task<void> { co_await inner(); };
    program->env->start(wrap(std::move(step)));
  }
  template <class Step>
  void run(const std::shared_ptr<Program>& program, Step step) {
    const auto wrap = [](Step inner) -> Task<void> { co_await inner(); };
    world.run(program, wrap(std::move(step)));
  }
  void run_for_ms(uint64_t ms) { world.run_for(ms * kMs); }
  /// Their daemons die together, and start again together.
  void restart(const std::vector<size_t>& nodes, uint64_t down_ms) {
    for (const size_t node : nodes) world.kill(node, false);
    run_for_ms(down_ms);
    for (const size_t node : nodes) world.restart(node);
  }
  void must(const Status& status, const char* what) {
    if (!status.is_ok()) world.violate(std::string(what) + ": " + std::string(status.to_string()));
  }
  /// In the council that node 0 knows, which runs.
  bool votes(size_t node) {
    return world.daemon(0)->cluster->quorum().holder().council().has_node(name_of(node));
  }
  /// Replicated on `nodes`, its second cell written.
  std::shared_ptr<Handle> make_on(const std::shared_ptr<Program>& program, std::vector<size_t> nodes) {
    std::shared_ptr<Handle> out;
    run(program, [&]() -> Task<void> {
      auto made = co_await program->allocate(Layout::kReplicated, nodes);
      must(made.status(), "allocate");
      out = made.value();
      const Status put = co_await program->put(out, 1);
      must(put, "put");
    });
    return out;
  }
  /// Small ones, so that the others have more room.
  void take_room(const std::shared_ptr<Program>& program, std::vector<size_t> nodes) {
    run(program, [&]() -> Task<void> {
      for (const size_t node : nodes) {
        const auto made = co_await program->allocate(Layout::kSingle, on(node));
        must(made.status(), "allocate");
      }
    });
  }
  std::shared_ptr<Handle> join(const std::shared_ptr<Program>& program, std::shared_ptr<Handle> first,
                               std::shared_ptr<Handle> second) {
    std::shared_ptr<Handle> out;
    run(program, [&]() -> Task<void> {
      std::vector<std::shared_ptr<Handle>> parts;
      parts.push_back(first);
      parts.push_back(second);
      auto joined = co_await program->join(std::move(parts));
      must(joined.status(), "join");
      out = joined.value();
    });
    return out;
  }
  /// The same, published.
  std::shared_ptr<Handle> make_named(const std::shared_ptr<Program>& program, std::vector<size_t> nodes,
                                     const char* name) {
    std::shared_ptr<Handle> out = make_on(program, std::move(nodes));
    run(program, [&]() -> Task<void> {
      const Status published = co_await program->publish(*out, name);
      must(published, "publish");
    });
    return out;
  }
  /// The node that coordinates.
  size_t leader() {
    size_t out = 0;
    while (out + 1 < world.nodes() && !world.daemon(out)->cluster->is_coordinator()) ++out;
    return out;
  }
  /// Within so many tries: a program that waits for one deadline only may give up before a lost home's lease is over.
  void must_put(const std::shared_ptr<Program>& program, std::shared_ptr<Handle> handle, size_t cell,
                int tries) {
    run(program, [&]() -> Task<void> {
      Status put = Code::kDeadline;
      for (int i = 0; i < tries && !put.is_ok(); ++i) put = co_await program->put(handle, cell);
      must(put, "put");
    });
  }
  /// By a program of its own on `node`.
  void must_read(size_t node, const char* name, size_t cell) {
    const auto program = world.add_program(node);
    run(program, [&]() -> Task<void> {
      auto found = co_await program->attach(name, false);
      must(found.status(), "attach what is there");
      if (!found.is_ok()) co_return;
      const Status got = co_await program->get(found.value(), cell);
      must(got, "get what is there");
    });
  }
  void must_be_no_name(size_t node, const char* name) {
    const auto program = world.add_program(node);
    run(program, [&]() -> Task<void> {
      const auto found = co_await program->attach(name, false);
      must(found.status().code() == Code::kNotFound ? Code::kOk : Code::kInternal,
           "no name that was removed");
    });
  }
  /// Its stop says that it may.
  void end_daemon(const std::shared_ptr<Daemon>& daemon, size_t node) {
    bool drained = false;
    daemon->drain([&] { drained = true; });
    for (int ms = 0; ms < 3000 && !drained; ++ms) run_for_ms(1);
    world.kill(node, true);
  }
  std::string end(Outcome* outcome) {
    if (outcome != nullptr) {
      outcome->reached.insert(world.reached().begin(), world.reached().end());
      outcome->digest = world.digest();
    }
    std::string out;
    for (const std::string& what : world.violations()) out += what + "\n";
    return out;
  }

  World world;
};

}  // namespace ocm::simulation
