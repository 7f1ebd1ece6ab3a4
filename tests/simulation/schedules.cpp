// Of sessions, names and single allocations.
#include "script.h"

namespace ocm::simulation {
namespace {

/// Finding 5a: a home stands while its extents are published, and the program ends meanwhile.
std::string failed_publish_leaks(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const auto program = world.add_program(1);
  std::shared_ptr<Handle> handle;
  script.run(program, [&]() -> Task<void> {
    auto made = co_await program->allocate(Layout::kStriped, on(1, 2));
    script.must(made.status(), "allocate");
    handle = made.value();
  });
  world.stop(2);
  script.start(program, [&]() -> Task<void> { (void)co_await program->publish(*handle, "x"); });
  script.run_for_ms(500);
  world.end_program(*program);
  script.run_for_ms(1000 + 700 * seed);
  world.resume(2);
  script.run_for_ms(15'000);
  world.check_unused();
  return script.end(outcome);
}

/// Finding 5b: the name of a publish that fails is removed and taken by another meanwhile.
std::string failed_publish_takes_a_name(uint64_t seed, const std::set<fault::Point>& broken,
                                        Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const auto first = world.add_program(1), second = world.add_program(0);
  std::shared_ptr<Handle> of_first, of_second;
  script.run(first, [&]() -> Task<void> {
    auto made = co_await first->allocate(Layout::kStriped, on(1, 2));
    script.must(made.status(), "allocate");
    of_first = made.value();
  });
  world.stop(2);
  script.start(first, [&]() -> Task<void> { (void)co_await first->publish(*of_first, "x"); });
  script.run_for_ms(300);
  script.start(second, [&]() -> Task<void> { (void)co_await second->remove("x"); });
  script.run_for_ms(100);
  script.run(second, [&]() -> Task<void> {
    auto made = co_await second->allocate(Layout::kSingle, on(0));
    script.must(made.status(), "allocate");
    of_second = made.value();
    const Status published = co_await second->publish(*of_second, "x");
    script.must(published, "publish");
  });
  script.run_for_ms(4000);
  world.resume(2);
  script.run_for_ms(4000);
  script.run(second, [&]() -> Task<void> {
    const auto attached = co_await second->attach("x", false);
    script.must(attached.status(), "attach");
  });
  return script.end(outcome);
}

/// Finding 14: a session resumes under a new run of its daemon, and its program ends before the homes'
/// answers came.
std::string resuming_session_ends(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const auto program = world.add_program(1);
  script.run(program, [&]() -> Task<void> {
    const auto made = co_await program->allocate(Layout::kSingle, on(2));
    script.must(made.status(), "allocate");
  });
  world.kill(1, false);
  script.run_for_ms(300);
  world.restart(1);
  script.start(program, [&]() -> Task<void> { (void)co_await program->attach("nothing", false); });
  while (!world.reached().contains(fault::State::kSessionResumed) && world.clock().now_ns() < 1020'000 * kMs)
    world.run_for(10'000);
  world.ways().cut(2, 1);  // the home was asked, and its answer lies in the stream
  script.run_for_ms(200);
  world.end_program(*program);
  script.run_for_ms(600);
  world.ways().restore(2, 1);
  script.run_for_ms(15'000);
  world.check_unused();
  return script.end(outcome);
}

/// A daemon stands still as soon as it is back; its program gives up its hello, comes again, and has what it had.
std::string hello_is_given_up(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const auto program = world.add_program(1);
  std::shared_ptr<Handle> handle;
  script.run(program, [&]() -> Task<void> {
    auto made = co_await program->allocate(Layout::kSingle, on(2));
    script.must(made.status(), "allocate");
    handle = made.value();
    const Status put = co_await program->put(handle, 0);
    script.must(put, "put");
  });
  world.kill(1, false);
  script.run_for_ms(300);
  world.restart(1);
  world.stop(1);
  script.start(program, [&]() -> Task<void> { (void)co_await program->attach("nothing", false); });
  script.run_for_ms(2500 + 100 * seed);
  world.resume(1);
  const bool comes_again = seed % 3 != 0;
  if (comes_again) {
    script.run_for_ms(300 * (seed % 3));
    script.run(program, [&]() -> Task<void> {
      (void)co_await program->attach("nothing", false);
      const Status put = co_await program->put(handle, 0);
      script.must(put, "put after a hello in vain");
    });
    script.run_for_ms(8000);
    script.run(program, [&]() -> Task<void> {
      const Status put = co_await program->put(handle, 0);
      script.must(put, "put later");
    });
  }
  world.end_program(*program);
  script.run_for_ms(15'000);
  world.check_unused();
  return script.end(outcome);
}

/// A program that has shown its receipts, and what it freed meanwhile, to the next run of its daemon closes that connection, comes
/// again, and has what it had.
std::string resumption_is_given_up(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const auto program = world.add_program(1);
  auto handle = script.make_named(program, on(2, 0), "x");
  const auto other = handle;
  script.run(program, [&]() -> Task<void> {
    const auto found = co_await program->attach("x", false);
    script.must(found.status(), "attach");
    handle = found.value();
  });
  world.kill(1, false);
  script.run(program, [&]() -> Task<void> { (void)co_await program->free(other); });
  script.run_for_ms(300);
  world.restart(1);
  program->resumptions_given_up = 1 + seed % 2;
  for (uint64_t i = 0; i <= 1 + seed % 2; ++i) {
    script.run(program, [&]() -> Task<void> { (void)co_await program->attach("nothing", false); });
    script.run_for_ms(300 * (seed % 3));
  }
  script.must_put(program, handle, 1, 1);
  script.run_for_ms(8000);
  world.kill(2, true);  // which of the other handle it knows
  script.must_put(program, handle, 1, 4);
  script.run(program, [&]() -> Task<void> { (void)co_await program->remove("x"); });
  world.end_program(*program);
  world.restart(2);
  script.run_for_ms(15'000);
  world.check_unused();
  return script.end(outcome);
}

/// The program's daemon ends before a home has heard of a free (0), before the answer to an allocation (1), or in its next
/// run after the program has shown what was freed meanwhile (2): nothing stays while the program goes on.
std::string daemon_ends_with_news(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const auto program = world.add_program(1);
  std::shared_ptr<Handle> handle, kept;
  script.run(program, [&]() -> Task<void> {
    auto made = co_await program->allocate(Layout::kSingle, on(2));
    script.must(made.status(), "allocate");
    handle = made.value();
    made = co_await program->allocate(Layout::kReplicated, on(0, 2));
    script.must(made.status(), "allocate");
    kept = made.value();
    const Status put = co_await program->put(kept, 0);
    script.must(put, "put");
  });
  if (seed % 3 == 1) {
    world.ways().cut(2, 1);
    script.start(program, [&]() -> Task<void> { (void)co_await program->allocate(Layout::kSingle, on(2)); });
  } else {
    world.stop(2);
    script.start(program, [&]() -> Task<void> { (void)co_await program->free(handle); });
  }
  script.run_for_ms(100);
  for (uint64_t times = 0; times < (seed % 3 == 2 ? 2 : 1); ++times) {
    world.kill(1, false);
    script.run_for_ms(200);
    world.restart(1);
    script.start(program, [&]() -> Task<void> { (void)co_await program->attach("nothing", false); });
    script.run_for_ms(700 + 100 * seed);
  }
  if (seed % 3 == 1)
    world.ways().restore(2, 1);
  else
    world.resume(2);
  script.run_for_ms(3000);
  script.run(program, [&]() -> Task<void> {
    if (seed % 3 == 1) {
      const Status freed = co_await program->free(handle);
      script.must(freed, "free");
    }
    const Status put = co_await program->put(kept, 0);
    script.must(put, "put to what is kept");
    const Status freed = co_await program->free(kept);
    script.must(freed, "free");
  });
  script.run_for_ms(3000);
  world.check_unused();
  return script.end(outcome);
}

/// A session's resumption lies in a stream until the session has ended, and another connection told that.
std::string resumption_comes_late(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const auto program = world.add_program(1);
  std::shared_ptr<Handle> handle;
  script.run(program, [&]() -> Task<void> {
    auto made = co_await program->allocate(Layout::kStriped, on(0, 2));
    script.must(made.status(), "allocate");
    handle = made.value();
  });
  world.kill(1, false);
  script.run_for_ms(300);
  world.restart(1);
  script.run_for_ms(1500);
  const auto other = world.add_program(1);
  script.run(other, [&]() -> Task<void> {  // so that there is a connection
    auto made = co_await other->allocate(Layout::kSingle, on(2));
    script.must(made.status(), "allocate");
    const Status freed = co_await other->free(made.value());
    script.must(freed, "free");
  });
  world.ways().cut(1, 2);
  script.start(program, [&]() -> Task<void> { (void)co_await program->attach("nothing", false); });
  script.run_for_ms(500);
  world.cut_link(0, 2);
  script.run_for_ms(2600);
  world.end_program(*program);
  world.restore_link(0, 2);  // it has returned: told over a new connection
  script.run_for_ms(1300 + 200 * seed);
  world.ways().restore(1, 2);
  script.run_for_ms(15'000);
  world.check_unused();
  return script.end(outcome);
}

/// A session resumes, and a home that it cannot reach hears of that late, or is asked for it before.
std::string resumption_is_not_heard(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const auto program = world.add_program(1);
  std::vector<std::shared_ptr<Handle>> handles;
  script.run(program, [&]() -> Task<void> {
    for (int i = 0; i < 2; ++i) {
      auto made = co_await program->allocate(Layout::kSingle, on(2));
      script.must(made.status(), "allocate");
      handles.push_back(made.value());
      const Status put = co_await program->put(handles.back(), 0);
      script.must(put, "put");
    }
  });
  world.cut_link(1, 2);  // the coordinator hears both
  world.kill(1, false);
  script.run_for_ms(300);
  world.restart(1);
  script.start(program, [&]() -> Task<void> { (void)co_await program->attach("nothing", false); });
  script.run_for_ms(seed % 2 == 0 ? 2500 : 9000);  // less, and more than the grace
  const bool freed = seed % 4 > 1;
  if (freed) {
    script.run(program, [&]() -> Task<void> {
      for (const auto& handle : handles) {
        const Status done = co_await program->free(handle);
        script.must(done, "free what its home has not reported");
      }
    });
  }
  world.restore_link(1, 2);
  script.run_for_ms(4500);
  if (freed) {
    world.check_unused();
    return script.end(outcome);
  }
  script.run(program, [&]() -> Task<void> {
    const Status put = co_await program->put(handles[0], 0);
    script.must(put, "put when the link is back");
    const auto joined = co_await program->join(handles);
    script.must(joined.status(), "join when the link is back");
  });
  script.run_for_ms(9000);
  world.end_program(*program);
  script.run_for_ms(9000);
  world.check_unused();
  return script.end(outcome);
}

/// One node cannot reach the coordinator, or a new run of it that does not know the node, for longer than the grace, and
/// works with the others as before.
std::string only_the_coordinator_is_out_of_reach(uint64_t seed, const std::set<fault::Point>& broken,
                                                 Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const auto program = world.add_program(1);
  std::shared_ptr<Handle> handle;
  const auto put = [&]() -> Task<void> {
    const Status done = co_await program->put(handle, 0);
    script.must(done, "put");
  };
  script.run(program, [&]() -> Task<void> {
    auto made = co_await program->allocate(Layout::kSingle, on(2));
    script.must(made.status(), "allocate");
    handle = made.value();
  });
  world.cut_link(0, 1);
  if (seed > 2) {
    world.kill(0, false);
    script.run_for_ms(300);
    world.restart(0);
  }
  for (uint64_t second = 0; second < 12 + seed; ++second) {
    script.run(program, put);
    script.run_for_ms(1000);
  }
  world.restore_link(0, 1);
  script.run_for_ms(9000);
  script.run(program, put);
  world.end_program(*program);
  script.run_for_ms(9000);
  world.check_unused();
  return script.end(outcome);
}

/// A home is cut off from all others, and a new run of the coordinator does not know it: what is given up meanwhile on
/// it is freed when it is back, for it lives.
std::string home_is_unknown(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const auto program = world.add_program(1);
  const auto owner = world.add_program(0);  // of a name, of which the other one has a hold
  std::shared_ptr<Handle> handle, held;
  const bool is_hold = seed % 3 == 0;
  script.run(owner, [&]() -> Task<void> {
    if (!is_hold) co_return;
    auto made = co_await owner->allocate(Layout::kSingle, on(2));
    script.must(made.status(), "allocate what gets a name");
    const Status published = co_await owner->publish(*made.value(), "x");
    script.must(published, "publish");
  });
  script.run(program, [&]() -> Task<void> {
    auto made = co_await program->allocate(Layout::kSingle, on(2));
    script.must(made.status(), "allocate");
    handle = made.value();
    if (!is_hold) co_return;
    auto attached = co_await program->attach("x", true);
    script.must(attached.status(), "attach");
    held = attached.value();
  });
  const auto give_up = [&] {
    if (seed % 4 > 1) {
      world.end_program(*program);
      return;
    }
    script.start(program, [&]() -> Task<void> {
      (void)co_await program->free(handle);
      if (held) (void)co_await program->free(held);
    });
  };
  world.cut_node(2);
  if (seed % 3 == 1) {
    script.start(program, [&]() -> Task<void> { (void)co_await program->allocate(Layout::kSingle, on(2)); });
    script.run_for_ms(100);
  }
  world.kill(0, false);
  const bool is_known = seed % 2 == 0;  // when it is given up
  if (is_known) give_up();
  script.run_for_ms(300);
  world.restart(0);
  script.run_for_ms(2500);
  if (!is_known) give_up();
  script.run_for_ms(2500);
  if (seed > 6) world.ways().reset(1, 2);  // what lies in the stream is lost
  world.restore_node(2);
  script.run_for_ms(6000);
  if (is_hold) {
    script.run(owner, [&]() -> Task<void> {
      const Status removed = co_await owner->remove("x");
      script.must(removed, "remove");
    });
    script.run_for_ms(2000);
  }
  world.check_unused();
  return script.end(outcome);
}

/// P1: a daemon is told to stop and started again. Its programs have what they had on other nodes, and no more than that.
std::string daemon_shuts_down(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const size_t at = seed % 3, other = (at + 1) % 3, third = (at + 2) % 3;
  const auto program = world.add_program(at), owner = world.add_program(other);
  std::shared_ptr<Handle> kept, copies, held;
  std::vector<std::shared_ptr<Handle>> given_up;
  script.run(owner, [&]() -> Task<void> {
    auto made = co_await owner->allocate(Layout::kSingle, on(third));
    script.must(made.status(), "allocate what gets a name");
    const Status published = co_await owner->publish(*made.value(), "x");
    script.must(published, "publish");
  });
  script.run(program, [&]() -> Task<void> {
    auto made = co_await program->allocate(Layout::kSingle, on(other));
    script.must(made.status(), "allocate");
    kept = made.value();
    made = co_await program->allocate(Layout::kReplicated, on(other, third));
    script.must(made.status(), "allocate replicas");
    copies = made.value();
    for (const Layout layout : {Layout::kStriped, Layout::kReplicated}) {
      made = co_await program->allocate(layout, on(other, third));
      script.must(made.status(), "allocate what is given up");
      given_up.push_back(made.value());
    }
    made = co_await program->attach("x", true);
    script.must(made.status(), "attach");
    held = made.value();
    for (const auto& handle : {kept, copies}) {
      const Status put = co_await program->put(handle, 1);
      script.must(put, "put");
    }
  });
  if (seed % 2 == 0) world.cut_link(at, other);
  world.shut_down(at);
  script.run_for_ms(seed % 5 * 30);
  for (const auto& handle : given_up)
    script.start(program, [&, handle]() -> Task<void> { (void)co_await program->free(handle); });
  script.run_for_ms(20 + 300 * (seed % 4));
  if (seed % 2 == 0) world.restore_link(at, other);
  world.restart(at);
  script.run_for_ms(1000);
  script.run(program, [&]() -> Task<void> { (void)co_await program->open(); });
  script.run_for_ms(8000);
  script.run(program, [&]() -> Task<void> {
    for (const auto& handle : {kept, copies, held}) {
      const Status got = co_await program->get(handle, 1);
      script.must(got, "get");
    }
    const Status put = co_await program->put(copies, 1);
    script.must(put, "put again");
  });
  world.end_program(*program);
  script.run(owner, [&]() -> Task<void> {
    const Status removed = co_await owner->remove("x");
    script.must(removed, "remove");
  });
  world.end_program(*owner);
  script.run_for_ms(8000);
  world.check_unused();
  return script.end(outcome);
}

/// N2: a new run of the coordinator hears of a name after it was removed.
std::string removed_name_is_reported(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const auto program = world.add_program(1);
  std::shared_ptr<Handle> handle;
  script.run(program, [&]() -> Task<void> {
    auto made = co_await program->allocate(Layout::kStriped, on(1, 2));
    script.must(made.status(), "allocate");
    handle = made.value();
    const Status published = co_await program->publish(*handle, "x");
    script.must(published, "publish");
  });
  world.kill(0, false);
  world.cut_link(0, 2);
  script.run_for_ms(300);
  world.restart(0);
  script.run_for_ms(3000);  // node 1 brought the name
  script.run(program, [&]() -> Task<void> {
    const Status removed = co_await program->remove("x");
    script.must(removed, "remove");
  });
  world.restore_link(0, 2);
  script.run_for_ms(4000);
  script.run(program, [&]() -> Task<void> { (void)co_await program->attach("x", false); });
  world.end_program(*program);
  script.run_for_ms(8000);
  world.check_unused();
  return script.end(outcome);
}

/// A reservation lies in a stream until its session has ended.
std::string reservation_comes_late(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const auto program = world.add_program(1);
  script.run(program, [&]() -> Task<void> {
    const auto made = co_await program->allocate(Layout::kSingle, on(2));  // the daemons are connected
    script.must(made.status(), "allocate");
  });
  world.ways().cut(1, 2);
  script.start(program, [&]() -> Task<void> { (void)co_await program->allocate(Layout::kSingle, on(2)); });
  script.run_for_ms(300 * seed);
  world.end_program(*program);
  script.run_for_ms(3000);
  world.ways().restore(1, 2);
  script.run_for_ms(15'000);
  world.check_unused();
  return script.end(outcome);
}

/// An extent was made, and the answer came too late: its maker lives on.
std::string answer_comes_late(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const auto program = world.add_program(1);
  std::shared_ptr<Handle> handle;
  script.run(program, [&]() -> Task<void> {
    auto made = co_await program->allocate(Layout::kSingle, on(2));  // the daemons are connected
    script.must(made.status(), "allocate");
    handle = made.value();
  });
  world.ways().cut(2, 1);
  script.start(program, [&]() -> Task<void> { (void)co_await program->allocate(Layout::kSingle, on(2)); });
  script.run_for_ms(1000 + 500 * seed);
  world.ways().restore(2, 1);
  script.run_for_ms(4000);
  script.run(program, [&]() -> Task<void> {
    const auto all = program->handles;
    for (size_t i = 0; i < all.size(); ++i) (void)co_await program->free(all[i]);
  });
  script.run_for_ms(8000);
  world.check_unused();
  return script.end(outcome);
}

/// A publish lies in a stream that is given up, and its undoing comes over another.
std::string publish_comes_late(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const auto program = world.add_program(1);
  std::shared_ptr<Handle> handle;
  script.run(program, [&]() -> Task<void> {
    // The coordinator is connected to the home.
    auto made = co_await program->allocate(Layout::kStriped, on(1, 2));
    const Status published = co_await program->publish(*made.value(), "first");
    script.must(published, "publish");
    made = co_await program->allocate(Layout::kStriped, on(1, 2));
    script.must(made.status(), "allocate");
    handle = made.value();
  });
  world.cut_link(0, 2);
  script.start(program, [&]() -> Task<void> { (void)co_await program->publish(*handle, "x"); });
  script.run_for_ms(4500);
  world.restore_link(0, 2);
  script.run_for_ms(3000);
  script.run(program, [&]() -> Task<void> {
    const auto attached = co_await program->attach("x", false);
    if (attached.is_ok()) script.must(Code::kInternal, "a name whose publishing failed is there");
    const Status removed = co_await program->remove("first");
    script.must(removed, "remove");
  });
  world.end_program(*program);
  script.run_for_ms(8000);
  world.check_unused();
  return script.end(outcome);
}

/// The coordinator stands still while a request to publish is repeated, until its caller was told that it failed. When it
/// goes on they all wait for one another there, and so does the request that is answered.
std::string publish_is_overtaken(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const auto program = world.add_program(1);
  std::shared_ptr<Handle> handle;
  script.run(program, [&]() -> Task<void> {
    auto made = co_await program->allocate(Layout::kStriped, on(1, 2));
    script.must(made.status(), "allocate");
    handle = made.value();
  });
  world.stop(0);
  script.run(program, [&]() -> Task<void> { (void)co_await program->publish(*handle, "x"); });
  world.resume(0);
  script.run(program, [&]() -> Task<void> {
    Status published = Code::kNoCoordinator;
    for (int i = 0; i < 100 && !published.is_ok(); ++i) {
      published = co_await program->publish(*handle, "x");
      co_await program->env->sleep_ns(5 * kMs);
    }
    script.must(published, "publish");
  });
  script.run_for_ms(2000);
  return script.end(outcome);
}

/// A removal lies in a stream until its caller was told that it failed, and the name is another's by then.
std::string removal_comes_late(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const auto first = world.add_program(1), second = world.add_program(2);
  const auto publish = [&]() -> Task<void> {
    auto made = co_await second->allocate(Layout::kSingle, on(2));
    script.must(made.status(), "allocate");
    const Status published = co_await second->publish(*made.value(), "x");
    script.must(published, "publish");
  };
  script.run(second, publish);
  script.run(first, [&]() -> Task<void> {
    const auto attached = co_await first->attach("x", false);
    script.must(attached.status(), "attach");
  });
  script.start(first, [&]() -> Task<void> { (void)co_await first->remove("x"); });
  world.run_for(150'000 * (seed - 1));
  world.ways().cut(1, 0);
  script.run_for_ms(3500);
  script.run(second, [&]() -> Task<void> { (void)co_await second->remove("x"); });
  script.run(second, publish);
  world.ways().restore(1, 0);
  script.run_for_ms(4000);
  script.run(second, [&]() -> Task<void> {
    const auto attached = co_await second->attach("x", false);
    script.must(attached.status(), "attach what was published after the removal had failed");
  });
  return script.end(outcome);
}

/// P2: a home is told of a session's end on a connection that breaks.
std::string end_is_not_heard(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const auto program = world.add_program(1);
  script.run(program, [&]() -> Task<void> {
    const auto made = co_await program->allocate(Layout::kSingle, on(2));
    script.must(made.status(), "allocate");
  });
  world.cut_link(1, 2);
  world.end_program(*program);
  script.run_for_ms(100 + 400 * seed);
  world.ways().drop_parked();
  world.ways().reset(1, 2);
  world.restore_link(1, 2);
  script.run_for_ms(8000);
  world.check_unused();
  return script.end(outcome);
}

/// G2: a put that was given up arrives after the next one, which took another connection.
std::string put_comes_late(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const auto program = world.add_program(1);
  std::shared_ptr<Handle> handle;
  const auto put = [&]() -> Task<void> {
    const Status written = co_await program->put(handle, 1);
    script.must(written, "put");
  };
  script.run(program, [&]() -> Task<void> {
    const auto made = co_await program->allocate(Layout::kSingle, on(2));
    script.must(made.status(), "allocate");
    handle = made.value();
  });
  script.run(program, put);
  world.cut_link(1, 2);
  script.start(program, [&]() -> Task<void> { (void)co_await program->put(handle, 1); });
  script.run_for_ms(4000);
  world.restore_link(1, 2);
  script.run(program, put);
  script.run_for_ms(1000);
  script.run(program, [&]() -> Task<void> {
    const Status read = co_await program->get(handle, 1);  // W1
    script.must(read, "get");
  });
  return script.end(outcome);
}

/// A daemon has no descriptor for the connection on which it would tell a home what ended.
std::string no_descriptor_to_tell(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken);
  World& world = script.world;
  const auto program = world.add_program(1);
  std::shared_ptr<Handle> owned, held;
  script.run(program, [&]() -> Task<void> {
    auto made = co_await program->allocate(Layout::kSingle, on(2));
    script.must(made.status(), "allocate");
    const Status published = co_await program->publish(*made.value(), "x");
    script.must(published, "publish");
    auto found = co_await program->attach("x", true);
    script.must(found.status(), "attach");
    held = found.value();
    const Status removed = co_await program->remove("x");
    script.must(removed, "remove");
    made = co_await program->allocate(Layout::kSingle, on(2));
    script.must(made.status(), "allocate");
    owned = made.value();
  });
  world.ways().reset(1, 2);
  world.refuse(fault::Point::kPeerNoFds, 2000 + 500 * seed);
  script.run(program, [&]() -> Task<void> {
    (void)co_await program->free(owned);
    (void)co_await program->free(held);
  });
  script.run_for_ms(8000);
  world.check_unused();
  return script.end(outcome);
}

/// Both homes of an idle program's part end, one after the other, and then its daemon, which knows the part from a receipt
/// only. The part is whole all the same, and is freed whole.
std::string receipt_is_older_than_its_part(uint64_t seed, const std::set<fault::Point>& broken,
                                           Outcome* outcome) {
  Script script(seed, broken, 5);
  World& world = script.world;
  const auto program = world.add_program(3);
  std::shared_ptr<Handle> handle;
  script.run(program, [&]() -> Task<void> {
    auto made = co_await program->allocate(Layout::kReplicated, on(1, 2));
    script.must(made.status(), "allocate");
    handle = made.value();
    const Status put = co_await program->put(handle, 1);
    script.must(put, "put");
  });
  const auto restart = [&](size_t node) {
    world.kill(node, false);
    script.run_for_ms(300);
    world.restart(node);
  };
  for (const size_t home : {1, 2}) {
    restart(home);
    script.run_for_ms(8000);
  }
  restart(3);
  script.run_for_ms(100 * (seed % 4));
  script.run(program, [&]() -> Task<void> { (void)co_await program->open(); });
  if (seed % 2 == 0) {
    script.run_for_ms(5000);
    for (const size_t home : {0, 4, 1, 2}) {
      restart(home);
      script.run_for_ms(8000);
    }
    script.run(program, [&]() -> Task<void> {
      const auto got = co_await program->get(handle, 1);
      script.must(got, "get");
    });
  }
  script.run(program, [&]() -> Task<void> { (void)co_await program->free(handle); });
  script.run_for_ms(6000);
  world.check_unused();
  return script.end(outcome);
}

}  // namespace

const std::vector<Schedule>& schedules_of_sessions() {
  static const std::vector<Schedule> all{
      {"a failed publish leaks", failed_publish_leaks, 4},
      {"a failed publish takes a name", failed_publish_takes_a_name, 2},
      {"a resuming session ends", resuming_session_ends, 4},
      {"a hello is given up", hello_is_given_up, 9},
      {"a resumption is given up", resumption_is_given_up, 6},
      {"the daemon ends with news", daemon_ends_with_news, 12},
      {"a resumption comes late", resumption_comes_late, 24},
      {"a resumption is not heard", resumption_is_not_heard, 8},
      {"the coordinator is out of reach", only_the_coordinator_is_out_of_reach, 4},
      {"a daemon shuts down", daemon_shuts_down, 24},
      {"a receipt is older than its part", receipt_is_older_than_its_part, 8},
      {"a home is unknown", home_is_unknown, 12},
      {"a removed name is reported", removed_name_is_reported, 3},
      {"a reservation comes late", reservation_comes_late, 4},
      {"an answer comes late", answer_comes_late, 4},
      {"a publish comes late", publish_comes_late, 6},
      {"a publish is overtaken", publish_is_overtaken, 12},
      {"a removal comes late", removal_comes_late, 8},
      {"an end is not heard", end_is_not_heard, 6},
      {"a put comes late", put_comes_late, 6},
      {"no descriptor to tell it", no_descriptor_to_tell, 4},
  };
  return all;
}

const std::vector<Schedule>& schedules() {
  static const std::vector<Schedule> all = [] {
    std::vector<Schedule> out = schedules_of_replicas();
    for (const auto* more :
         {&schedules_of_sessions(), &schedules_of_names(), &schedules_of_holds(), &schedules_of_reports(),
          &schedules_of_losses(), &schedules_of_spares(), &schedules_of_stops(), &schedules_of_succession(),
          &schedules_of_events(), &schedules_of_notes()})
      out.insert(out.end(), more->begin(), more->end());
    return out;
  }();
  return all;
}

}  // namespace ocm::simulation
