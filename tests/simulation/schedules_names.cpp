// Of names whose requests get no answer.
#include "control/names.h"
#include "script.h"

namespace ocm::simulation {
namespace {

/// The coordinator stands still, is killed, or is cut off from the program's daemon while it publishes.
enum class Silence { kStands, kKilled, kCutOff };

void silence(World& world, Silence how) {
  if (how == Silence::kStands) world.stop(0);
  if (how == Silence::kKilled) world.kill(0, false);
  if (how == Silence::kCutOff) world.cut_link(0, 1);
}
void end_silence(World& world, Silence how) {
  if (how == Silence::kStands) world.resume(0);
  if (how == Silence::kKilled) world.restart(0);
  if (how == Silence::kCutOff) world.restore_link(0, 1);
}

/// A program that publishes and is told that no coordinator answers.
struct Unanswered {
  Unanswered(uint64_t seed, const std::set<fault::Point>& broken)
      : script(seed, broken), how(static_cast<Silence>(seed % 3)), program(script.world.add_program(1)) {
    script.run(program, [&]() -> Task<void> {
      auto made = co_await program->allocate(Layout::kStriped, on(1, 2));
      script.must(made.status(), "allocate");
      handle = made.value();
    });
    script.start(program, [&]() -> Task<void> { told = co_await program->publish(*handle, "x"); });
    script.world.run_for(60'000 * (seed / 3));
    silence(script.world, how);
    script.run_for_ms(6000);
  }
  Status attached() {
    Status out;
    const auto other = script.world.add_program(2);
    script.run(other, [&]() -> Task<void> {
      const auto found = co_await other->attach("x", false);
      out = found.status();
    });
    script.world.end_program(*other);
    return out;
  }

  Script script;
  const Silence how;
  const std::shared_ptr<Program> program;
  std::shared_ptr<Handle> handle;
  Status told = Code::kDeadline;
};

/// N7: the program ends, or frees what it published.
std::string nobody_knows_of_a_name(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Unanswered with(seed, broken);
  World& world = with.script.world;
  const bool well = with.told.is_ok();
  const bool frees = seed % 2 == 0 && !well;
  if (frees) {
    const auto free = [&]() -> Task<void> { (void)co_await with.program->free(with.handle); };
    with.script.start(with.program, free);
    with.script.run_for_ms(3000);
  } else {
    world.end_program(*with.program);
  }
  end_silence(world, with.how);
  with.script.run_for_ms(8000);
  if (well) {
    with.script.must(with.attached(), "attach what was published");
    return with.script.end(outcome);
  }
  with.script.must(with.attached().code() == Code::kNotFound ? Code::kOk : Code::kInternal,
                   "no name of which nobody was told");
  world.check_unused();
  return with.script.end(outcome);
}

/// N7: it publishes again, under the same name.
std::string published_again(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Unanswered with(seed, broken);
  Script& script = with.script;
  end_silence(script.world, with.how);
  script.run_for_ms(3000);
  if (!with.told.is_ok()) {
    script.run(with.program, [&]() -> Task<void> {
      const Status again = co_await with.program->publish(*with.handle, "x");
      script.must(again, "publish again");
    });
  }
  script.world.end_program(*with.program);
  script.run_for_ms(8000);
  script.must(with.attached(), "attach what was published");
  const auto last = script.world.add_program(1);
  script.run(last, [&]() -> Task<void> {
    const Status removed = co_await last->remove("x");
    script.must(removed, "remove");
  });
  script.run_for_ms(3000);
  script.world.check_unused();
  return script.end(outcome);
}

/// N7: it frees what it publishes before it has an answer, or its daemon is another run when it does, or it joins it.
std::string in_doubt_meanwhile(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const auto program = world.add_program(1);
  std::shared_ptr<Handle> handle, other;
  script.run(program, [&]() -> Task<void> {
    auto made = co_await program->allocate(Layout::kSingle, on(2));
    script.must(made.status(), "allocate");
    handle = made.value();
    made = co_await program->allocate(Layout::kSingle, on(2));
    script.must(made.status(), "allocate");
    other = made.value();
  });
  const auto publish = [&]() -> Task<void> { (void)co_await program->publish(*handle, "x"); };
  const auto free = [&]() -> Task<void> { (void)co_await program->free(handle); };
  world.stop(0);
  script.start(program, publish);
  switch (seed % 3) {
    case 0:
      script.run_for_ms(100);
      script.start(program, free);
      break;
    case 1:
      script.run_for_ms(8000);  // until it was told so
      world.kill(1, false);
      world.restart(1);
      script.run_for_ms(3000);
      script.start(program, free);
      break;
    default: {
      script.run_for_ms(8000);  // until it was told so
      std::vector<std::shared_ptr<Handle>> parts{handle, other};
      script.run(program, [&]() -> Task<void> {
        const auto joined = co_await program->join(parts);
        script.must(joined.status().code() == Code::kInvalidArgument ? Code::kOk : Code::kInternal,
                    "no join");
      });
      script.start(program, free);
    }
  }
  script.run_for_ms(1000);
  world.resume(0);
  script.run_for_ms(8000);
  const auto last = world.add_program(2);
  script.run(last, [&]() -> Task<void> {
    const auto found = co_await last->attach("x", false);
    script.must(found.status().code() == Code::kNotFound ? Code::kOk : Code::kInternal,
                "no name of what was freed");
  });
  world.end_program(*program);
  script.run_for_ms(8000);
  world.check_unused();
  return script.end(outcome);
}

/// A name is attached while it is published, which fails: the memory is its owner's again, and was nobody else's.
std::string attached_while_published(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 4);
  World& world = script.world;
  const bool fails = seed % 3 != 0;
  const auto owner = world.add_program(1), reader = world.add_program(0);
  std::shared_ptr<Handle> handle, held;
  script.run(owner, [&]() -> Task<void> {
    auto made = co_await owner->allocate(seed % 2 == 0 ? Layout::kStriped : Layout::kReplicated, on(2, 3));
    script.must(made.status(), "allocate");
    handle = made.value();
    const Status put = co_await owner->put(handle, 0);
    script.must(put, "put");
  });
  world.stop(3);
  Status published = Code::kDeadline;
  script.start(owner, [&]() -> Task<void> { published = co_await owner->publish(*handle, "x"); });
  script.run_for_ms(100);
  Status attached = Code::kDeadline;
  script.start(reader, [&]() -> Task<void> {
    for (int tries = 0; held == nullptr && tries < 2; ++tries) {  // it may be answered before the owner is
      if (tries > 0) co_await reader->env->sleep_ns(100 * kMs);
      auto found = co_await reader->attach("x", seed % 4 < 2);
      attached = found.status();
      if (found.is_ok()) held = found.value();
    }
  });
  script.run_for_ms(fails ? 4000 : 200);
  world.resume(3);
  script.run_for_ms(4000);
  if (!published.is_ok()) script.run(owner, [&]() -> Task<void> { (void)co_await owner->free(handle); });
  script.run(reader, [&]() -> Task<void> {
    if (!fails) script.must(attached, "attach what is published");
    if (held == nullptr) co_return;
    const Status got = co_await reader->get(held, 0);
    script.must(got, "get what was attached");
  });
  world.end_program(*reader);
  const auto last = world.add_program(2);
  script.run(last, [&]() -> Task<void> { (void)co_await last->remove("x"); });
  world.end_program(*owner);
  world.end_program(*last);
  script.run_for_ms(8000);
  world.check_unused();
  return script.end(outcome);
}

/// What has replicas is published although one of their homes died, or runs another daemon (odd seeds), or died just now (8
/// and more).
std::string published_without_a_home(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 4);
  World& world = script.world;
  const auto program = world.add_program(1), other = world.add_program(0);
  std::shared_ptr<Handle> handle;
  script.run(program, [&]() -> Task<void> {
    auto made = co_await program->allocate(Layout::kReplicated, on(2, 3));
    script.must(made.status(), "allocate");
    handle = made.value();
    const Status put = co_await program->put(handle, 0);
    script.must(put, "put");
  });
  world.kill(3, false);
  const bool restarts = seed % 2 == 1 && seed < 8, just_now = seed >= 8;
  if (restarts) world.restart(3);
  script.run_for_ms(just_now ? 100 * (seed - 8) : restarts ? 20 * (seed - 1) : 5000);
  script.run(program, [&]() -> Task<void> {
    const Status published = co_await program->publish(*handle, "x");
    script.must(published, "publish");
  });
  script.run(other, [&]() -> Task<void> {
    auto found = co_await other->attach("x", false);
    script.must(found.status(), "attach");
    if (!found.is_ok()) co_return;
    const Status got = co_await other->get(found.value(), 0);
    script.must(got, "get");
    const Status removed = co_await other->remove("x");
    script.must(removed, "remove");
  });
  world.end_program(*program);
  world.end_program(*other);
  if (!restarts) world.restart(3);
  script.run_for_ms(8000);
  world.check_unused();
  return script.end(outcome);
}

/// The coordinator is silent for most of a deadline, and a home restarts meanwhile, which asked it for a vote before.
std::string home_restarts_in_a_silence(uint64_t seed, const std::set<fault::Point>& broken,
                                       Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const auto program = world.add_program(2);
  const auto handle = script.make_on(program, on(2, 1));
  world.stop(0);
  Status published = Code::kDeadline;
  script.start(program, [&]() -> Task<void> { published = co_await program->publish(*handle, "x"); });
  script.run_for_ms(12 * (seed % 12));
  world.kill(1, false);
  world.restart(1);
  script.run_for_ms(1050 - 12 * (seed % 12));
  world.resume(0);
  script.run_for_ms(1950);  // in all two deadlines
  script.must(published, "publish");
  script.must_read(0, "x", 1);
  world.end_program(*program);
  return script.end(outcome);
}

/// N2: one home has freed its part, another one is away, the coordinator starts anew, and nobody asks again. Or the
/// only home is away (odd seeds), and the next run does not know the name when it is asked again.
std::string removed_at_a_restart(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 4);
  World& world = script.world;
  const bool one_home = seed % 2 == 1;
  const auto program = world.add_program(1);
  script.run(program, [&]() -> Task<void> {
    const auto homes = one_home ? on(3) : on(2, 3);
    auto made = co_await program->allocate(one_home ? Layout::kSingle : Layout::kStriped, homes);
    script.must(made.status(), "allocate");
    const Status published = co_await program->publish(*made.value(), "x");
    script.must(published, "publish");
  });
  world.cut_link(0, 3);
  Status told = Code::kDeadline;
  script.start(program, [&]() -> Task<void> { told = co_await program->remove("x"); });
  script.run_for_ms(200);
  if (!one_home) world.end_program(*program);
  world.kill(0, false);
  world.ways().drop_parked();
  world.restart(0);
  script.run_for_ms(6000);
  world.restore_link(0, 3);
  script.run_for_ms(8000);
  script.must_be_no_name(2, "x");
  if (one_home) script.must(told, "remove");
  script.run_for_ms(1000);
  world.check_unused();
  return script.end(outcome);
}

/// A part is made again while its allocation is published, which fails in the end.
std::string made_again_while_published(uint64_t seed, const std::set<fault::Point>& broken,
                                       Outcome* outcome) {
  Script script(seed, broken, 6);
  World& world = script.world;
  const auto program = world.add_program(1);
  std::shared_ptr<Handle> handle;
  script.run(program, [&]() -> Task<void> {
    std::vector<std::shared_ptr<Handle>> parts;
    for (const size_t second : {3, 4}) {
      auto made = co_await program->allocate(Layout::kReplicated, on(2, second));
      script.must(made.status(), "allocate");
      const Status put = co_await program->put(made.value(), 0);
      script.must(put, "put");
      parts.push_back(made.value());
    }
    auto joined = co_await program->join(parts);
    script.must(joined.status(), "join");
    handle = joined.value();
  });
  world.kill(3, false);
  script.run(program, [&]() -> Task<void> {
    Status put = co_await program->put(handle, 0);
    // A program that waits for one deadline only may give up just before the lease of the lost home is over.
    if (put.code() == Code::kDeadline) put = co_await program->put(handle, 0);
    script.must(put, "put without a replica");
  });
  script.run_for_ms(20 * seed);
  world.cut_link(0, 4);
  script.start(program, [&]() -> Task<void> { (void)co_await program->publish(*handle, "x"); });
  script.run_for_ms(3500);
  if (seed % 2 == 0) world.end_program(*program);
  script.run_for_ms(1500);
  world.restore_link(0, 4);
  script.run_for_ms(8000);
  if (seed % 2 != 0) world.end_program(*program);
  script.run_for_ms(8000);
  bool clean = false;
  const auto last = world.add_program(2);
  script.run(last, [&]() -> Task<void> {
    const auto removed = co_await last->remove("x");  // it may have been done in time
    clean = removed.is_ok() || removed.code() == Code::kNotFound;
  });
  if (!clean) world.violate("the name is neither there nor gone");
  world.end_program(*last);
  script.run_for_ms(3000);
  world.restart(3);
  script.run_for_ms(6000);
  world.check_unused();
  return script.end(outcome);
}

/// A program publishes while a part of it is frozen, for longer than its home waits for that.
std::string published_while_frozen(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 5, 0, false);
  World& world = script.world;
  const auto program = world.add_program(0), reader = world.add_program(1);
  bool frozen = false;
  world.on_state = [&](fault::State state) {
    if (state != fault::State::kReplicaFrozen || frozen) return;
    frozen = true;
    for (const size_t node : {1, 3, 4}) world.cut_link(2, node);
  };
  std::shared_ptr<Handle> handle;
  script.run(program, [&]() -> Task<void> {
    auto made = co_await program->allocate(Layout::kReplicated, on(2, 3));
    script.must(made.status(), "allocate");
    handle = made.value();
    const Status put = co_await program->put(handle, 0);
    script.must(put, "put");
  });
  world.kill(3, false);
  script.start(program, [&]() -> Task<void> {  // its replica is given up for it
    Status put = Code::kDeadline;
    for (int i = 0; i < 4 && !put.is_ok(); ++i) put = co_await program->put(handle, 0);
  });
  for (int i = 0; i < 30'000 && !frozen; ++i) script.run_for_ms(1);
  if (!frozen && broken.empty()) world.violate("no replica was ever frozen");
  script.start(program, [&]() -> Task<void> {
    const Status published = co_await program->publish(*handle, "x");
    script.must(published, "publish");
  });
  script.run_for_ms(900 + 50 * seed);
  for (const size_t node : {1, 3, 4}) world.restore_link(2, node);
  script.run_for_ms(8000);
  script.run(reader, [&]() -> Task<void> {
    auto found = co_await reader->attach("x", false);
    script.must(found.status(), "attach");
    if (!found.is_ok()) co_return;
    const Status got = co_await reader->get(found.value(), 0);
    script.must(got, "get");
    const Status removed = co_await reader->remove("x");
    script.must(removed, "remove");
  });
  world.restart(3);
  script.run_for_ms(6000);
  world.check_unused();
  return script.end(outcome);
}

/// A home is away while its replica is given up and the name is removed, which only the coordinator is told of as a home:
/// it dies, and the other one has the name still when it is back.
std::string removed_from_the_only_home_left(uint64_t seed, const std::set<fault::Point>& broken,
                                            Outcome* outcome) {
  Script script(seed, broken, 5, 5);
  World& world = script.world;
  script.run_for_ms(3000);
  const size_t leads = script.leader();
  const size_t away = (leads + 1 + seed % 3) % 5, asks = (leads + 4) % 5;
  const auto program = world.add_program(asks);
  const std::shared_ptr<Handle> handle = script.make_named(program, on(leads, away), "x");
  world.refuse(fault::Point::kHomeNoMemory, 60'000);
  world.cut_node(away);
  script.must_put(program, handle, 1, 8);
  script.run_for_ms(300 * (seed % 6));
  script.run(program, [&]() -> Task<void> {
    const Status removed = co_await program->remove("x");
    script.must(removed, "remove");
  });
  world.kill(leads, false);
  script.run_for_ms(6000);
  world.restore_node(away);
  script.run_for_ms(8000);
  script.must_be_no_name(asks, "x");
  world.restart(leads);
  script.run_for_ms(8000);  // until who is a voter since then has followed the new run for two deadlines
  world.check_unused();
  return script.end(outcome);
}

/// A home stands still while the coordinator starts anew and another allocation gets its name.
std::string two_of_one_name(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 4);
  World& world = script.world;
  const auto first = world.add_program(1), second = world.add_program(2);
  std::shared_ptr<Handle> handle;
  const auto publish = [&](const std::shared_ptr<Program>& program, size_t home) {
    script.run(program, [&]() -> Task<void> {
      auto made = co_await program->allocate(Layout::kSingle, on(home));
      script.must(made.status(), "allocate");
      if (!handle) handle = made.value();
      const Status published = co_await program->publish(*made.value(), "x");
      script.must(published, "publish");
    });
  };
  publish(first, 3);
  world.stop(3);
  world.kill(0, seed % 2 == 0);
  script.run_for_ms(500);
  world.restart(0);
  script.run_for_ms(6000);
  publish(second, 2);
  world.resume(3);
  script.run_for_ms(1000 + 500 * seed);
  control::Allocation other;
  other.id = wire::id_from<AllocationId>(handle->memory->allocation.allocation_id());
  other.name = "x";
  const std::string found_as = control::name_in_conflict(other);
  script.run(first, [&]() -> Task<void> {
    const auto attached = co_await first->attach(found_as, false);
    script.must(attached.status(), "attach by the other name");
    if (attached.is_ok()) {
      const Status put = co_await first->put(attached.value(), 0);
      script.must(put, "put");
    }
  });
  if (seed % 3 == 0) {  // its home knows the other name, too
    world.kill(0, false);
    world.restart(0);
    script.run_for_ms(6000);
  }
  script.run(first, [&]() -> Task<void> {
    for (const char* name : {"x", found_as.c_str()}) {
      const Status removed = co_await first->remove(name);
      script.must(removed, "remove");
    }
  });
  world.end_program(*first);
  world.end_program(*second);
  script.run_for_ms(3000);
  world.check_unused();
  return script.end(outcome);
}

/// L4: whoever coordinates is cut off, takes all homes for dead, and holds a name: it is held at a home, or refused.
/// Or one home is cut off: what it has is held from when it is back.
std::string held_while_cut_off(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const auto owner = world.add_program(1), holder = world.add_program(0);
  std::shared_ptr<Handle> held;
  const bool is_partial = seed % 3 == 0;
  script.run(owner, [&]() -> Task<void> {
    Layout layout = seed % 2 == 0 ? Layout::kSingle : Layout::kReplicated;
    if (is_partial) layout = Layout::kStriped;
    std::vector<size_t> nodes = on(2);
    if (layout != Layout::kSingle) nodes.push_back(1);
    auto made = co_await owner->allocate(layout, std::move(nodes), 1);
    script.must(made.status(), "allocate");
    const Status published = co_await owner->publish(*made.value(), "x");
    script.must(published, "publish");
  });
  world.cut_node(is_partial ? 2 : 0);
  script.run_for_ms(700 + 300 * seed);
  script.start(holder, [&]() -> Task<void> {
    auto attached = co_await holder->attach("x", true);
    if (attached.is_ok()) held = attached.value();
  });
  script.run_for_ms(2500);
  world.restore_node(is_partial ? 2 : 0);
  script.run_for_ms(3000);
  script.run(owner, [&]() -> Task<void> {
    const Status removed = co_await owner->remove("x");
    script.must(removed, "remove");
  });
  script.run(holder, [&]() -> Task<void> {
    if (!held) co_return;
    for (size_t cell = 0; cell < held->memory->cells.size(); ++cell) {
      const Status got = co_await holder->get(held, cell);
      script.must(got, "get of what is held");
    }
    (void)co_await holder->free(held);
  });
  world.end_program(*owner);
  script.run_for_ms(3000);
  world.check_unused();
  return script.end(outcome);
}

/// L4: a held handle is freed while its daemon is away, or when the next run of it has not heard all homes.
std::string hold_ends_unheard(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 4);
  World& world = script.world;
  const auto owner = world.add_program(1), holder = world.add_program(3);
  std::shared_ptr<Handle> held;
  script.run(owner, [&]() -> Task<void> {
    auto made = co_await owner->allocate(Layout::kStriped, on(1, 2));
    script.must(made.status(), "allocate");
    const Status published = co_await owner->publish(*made.value(), "x");
    script.must(published, "publish");
  });
  script.run(holder, [&]() -> Task<void> {
    auto attached = co_await holder->attach("x", true);
    script.must(attached.status(), "attach");
    held = attached.value();
  });
  script.run(owner, [&]() -> Task<void> {
    const Status removed = co_await owner->remove("x");
    script.must(removed, "remove");
  });
  const auto free = [&]() -> Task<void> { (void)co_await holder->free(held); };
  if (seed % 2 == 0)
    world.kill(3, false);
  else
    world.shut_down(3);
  script.run_for_ms(1000);
  if (seed % 3 != 0) script.run(holder, free);
  world.cut_link(2, 3);
  world.restart(3);
  script.run_for_ms(200);
  script.run(holder, [&]() -> Task<void> { (void)co_await holder->open(); });
  script.run_for_ms(300 * seed);
  if (seed % 3 == 0) script.run(holder, free);
  script.run_for_ms(300);
  world.ways().reset(2, 3);  // what lies in the stream is lost
  world.restore_link(2, 3);
  script.run_for_ms(8000);
  world.check_unused();  // the program goes on
  return script.end(outcome);
}

/// L4: every replica is made again on another node, one after another; then the name is removed.
std::string held_through_restarts(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 5);
  World& world = script.world;
  const auto owner = world.add_program(0), holder = world.add_program(4);
  std::shared_ptr<Handle> held, late;
  script.run(owner, [&]() -> Task<void> {
    std::vector<size_t> nodes = on(1, 2);
    if (seed % 2 == 0) nodes.push_back(3);
    auto made = co_await owner->allocate(Layout::kReplicated, std::move(nodes));
    script.must(made.status(), "allocate");
    const Status put = co_await owner->put(made.value(), 1);
    script.must(put, "put");
    const Status published = co_await owner->publish(*made.value(), "x");
    script.must(published, "publish");
  });
  const auto hold = [&](std::shared_ptr<Handle>& out) -> Task<void> {
    auto attached = co_await holder->attach("x", true);
    script.must(attached.status(), "attach");
    out = attached.value();
  };
  script.run(holder, [&]() -> Task<void> { co_await hold(held); });
  for (size_t node = 1; node <= 3; ++node) {
    world.kill(node, seed % 3 == 0);
    script.run_for_ms(300);
    world.restart(node);
    if (node == 2) {  // while it is made again
      script.run_for_ms(200 * seed);
      script.start(holder, [&]() -> Task<void> { co_await hold(late); });
    }
    if (node == 3 && seed % 4 == 1) {  // its end comes to all homes of today
      script.run(holder, [&]() -> Task<void> {
        const Status freed = co_await holder->free(late);
        script.must(freed, "free");
      });
      late.reset();
    }
    script.run_for_ms(9000);
  }
  script.run(owner, [&]() -> Task<void> {
    const Status removed = co_await owner->remove("x");
    script.must(removed, "remove");
  });
  script.run(holder, [&]() -> Task<void> {
    for (const auto& handle : {held, late}) {
      if (!handle) continue;
      const Status got = co_await holder->get(handle, 1);
      script.must(got, "get of what is held");
    }
  });
  world.kill(1 + seed % 3, false);  // each of them is held
  script.run_for_ms(6000);
  script.run(holder, [&]() -> Task<void> {
    const Status got = co_await holder->get(held, 1);
    script.must(got, "get without one home");
  });
  world.restart(1 + seed % 3);
  script.run_for_ms(3000);
  if (seed % 2 == 0)
    world.end_program(*holder);
  else
    script.run(holder, [&]() -> Task<void> {
      for (const auto& handle : {held, late}) {
        if (handle) (void)co_await holder->free(handle);
      }
    });
  world.end_program(*owner);
  script.run_for_ms(6000);
  world.check_unused();
  return script.end(outcome);
}

/// L4: one home is out of the holder's reach, and nobody else's.
std::string hold_is_not_heard(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 4);
  World& world = script.world;
  const auto owner = world.add_program(1), holder = world.add_program(3);
  std::shared_ptr<Handle> held;
  script.run(owner, [&]() -> Task<void> {
    auto made = co_await owner->allocate(Layout::kReplicated, on(1, 2));
    script.must(made.status(), "allocate");
    const Status put = co_await owner->put(made.value(), 1);
    script.must(put, "put");
    const Status published = co_await owner->publish(*made.value(), "x");
    script.must(published, "publish");
  });
  world.cut_link(2, 3);
  script.run_for_ms(100 * seed);
  script.run(holder, [&]() -> Task<void> {
    auto attached = co_await holder->attach("x", true);
    script.must(attached.status(), "attach");
    held = attached.value();
  });
  script.run_for_ms(500);
  if (seed % 2 == 0) {  // the next run of its daemon is told by its program
    world.kill(3, false);
    script.run_for_ms(100);
    world.restart(3);
    script.run_for_ms(500);
    script.run(holder, [&]() -> Task<void> { (void)co_await holder->open(); });
  }
  world.ways().reset(2, 3);  // what lies in the stream is lost
  world.restore_link(2, 3);
  script.run_for_ms(2500);
  script.run(owner, [&]() -> Task<void> {
    const Status removed = co_await owner->remove("x");
    script.must(removed, "remove");
  });
  world.kill(1, false);
  script.run_for_ms(5000);
  script.run(holder, [&]() -> Task<void> {
    const Status got = co_await holder->get(held, 1);
    script.must(got, "get of what is held");
    (void)co_await holder->free(held);
  });
  world.restart(1);
  script.run_for_ms(6000);
  world.end_program(*owner);
  script.run_for_ms(4000);
  world.check_unused();
  return script.end(outcome);
}

}  // namespace

const std::vector<Schedule>& schedules_of_names() {
  static const std::vector<Schedule> all{
      {"nobody knows of a name", nobody_knows_of_a_name, 24},
      {"published again", published_again, 24},
      {"in doubt meanwhile", in_doubt_meanwhile, 6},
      {"published without a home", published_without_a_home, 24},
      {"a home restarts in a silence", home_restarts_in_a_silence, 12},
      {"removed at a restart", removed_at_a_restart, 6},
      {"two of one name", two_of_one_name, 6},
      {"held while cut off", held_while_cut_off, 12},
      {"attached while it is published", attached_while_published, 12},
      {"a hold is not heard", hold_is_not_heard, 6},
      {"a hold ends unheard", hold_ends_unheard, 12},
      {"held through restarts", held_through_restarts, 12},
      {"made again while published", made_again_while_published, 24},
      {"published while frozen", published_while_frozen, 12},
      {"removed from the only home left", removed_from_the_only_home_left, 12},
  };
  return all;
}

}  // namespace ocm::simulation
