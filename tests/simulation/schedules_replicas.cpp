// Of replicas: losses, councils, copies, parts that are made again.
#include "script.h"

namespace ocm::simulation {
namespace {

/// R on nodes 1 and 2, written by a program on each.
struct Pair : Script {
  Pair(uint64_t seed, const std::set<fault::Point>& broken, size_t nodes = 3) : Script(seed, broken, nodes) {
    x = world.add_program(1);
    y = world.add_program(2);
    run(x, [this]() -> Task<void> {
      auto made = co_await x->allocate(Layout::kReplicated, on(1, 2));
      must(made.status(), "allocate");
      of_x = made.value();
      const Status put = co_await x->put(of_x, 1);
      must(put, "put");
      const Status published = co_await x->publish(*of_x, "r");
      must(published, "publish");
    });
    run(y, [this]() -> Task<void> {
      auto found = co_await y->attach("r", false);
      must(found.status(), "attach");
      of_y = found.value();
      const Status put = co_await y->put(of_y, 2);
      must(put, "put");
    });
  }
  void both_put() {
    start(x, [this]() -> Task<void> { (void)co_await x->put(of_x, 1); });
    start(y, [this]() -> Task<void> { (void)co_await y->put(of_y, 2); });
  }
  void both_must_put() {
    run(x, [this]() -> Task<void> {
      const Status put = co_await x->put(of_x, 1);
      must(put, "put on node 1");
    });
    run(y, [this]() -> Task<void> {
      const Status put = co_await y->put(of_y, 2);
      must(put, "put on node 2");
    });
  }
  /// Whatever was acknowledged is there, for handles old and new.
  void look() {
    for (const auto& program : {x, y}) {
      const auto handle = program == x ? of_x : of_y;
      run(program, [program, handle]() -> Task<void> {
        for (int round = 0; round < 2; ++round) {
          (void)co_await program->get(handle, 1);
          (void)co_await program->get(handle, 2);
          auto again = co_await program->attach("r", false);
          if (again.is_ok()) (void)co_await program->get(again.value(), 2);
          co_await program->env->sleep_ns(2000 * kMs);
        }
      });
    }
  }
  /// The program on node 1 writes until it is acknowledged, while that on node 2 reads.
  void write_and_read(uint64_t for_ms) {
    const uint64_t until_ns = world.clock().now_ns() + for_ms * kMs;
    start(x, [this, until_ns]() -> Task<void> {
      Status put = Code::kDeadline;
      while (!put.is_ok() && world.clock().now_ns() < until_ns) put = co_await x->put(of_x, 1);
    });
    run(y, [this, until_ns]() -> Task<void> {
      while (world.clock().now_ns() < until_ns) {
        (void)co_await y->get(of_y, 1);
        co_await y->env->sleep_ns(10 * kMs);
      }
    });
  }
  std::shared_ptr<Program> x, y;
  std::shared_ptr<Handle> of_x, of_y;
};

/// Finding 1a: both write while one node is cut off, and is restored while requests lie in the streams.
std::string one_node_cut(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Pair pair(seed, broken);
  pair.world.cut_node(1);
  pair.both_put();
  pair.run_for_ms(seed % 2 == 0 ? 2600 : 3500);
  pair.world.restore_node(1);
  pair.run_for_ms(8000);
  pair.look();
  return pair.end(outcome);
}

/// Finding 1b: one link is cut, and both its ends write.
std::string one_link_cut(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Pair pair(seed, broken);
  pair.world.cut_link(1, 2);
  pair.both_put();
  pair.run_for_ms(9000);
  pair.world.restore_link(1, 2);
  pair.run_for_ms(5000);
  pair.look();
  return pair.end(outcome);
}

/// Finding 2: a copy on a home that is cut off from the voters, of a replica there that others overwrote.
std::string copy_without_a_lease(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 4);
  World& world = script.world;
  const auto writer = world.add_program(0), copier = world.add_program(3);
  std::shared_ptr<Handle> written, seen, target;
  const auto put = [&]() -> Task<void> {
    const Status done = co_await writer->put(written, 1);
    script.must(done, "put");
  };
  script.run(writer, [&]() -> Task<void> {
    auto made = co_await writer->allocate(Layout::kReplicated, on(1, 2));
    script.must(made.status(), "allocate");
    written = made.value();
    const Status published = co_await writer->publish(*written, "x");
    script.must(published, "publish");
  });
  script.run(writer, put);
  script.run(copier, [&]() -> Task<void> {
    auto attached = co_await copier->attach("x", false);
    script.must(attached.status(), "attach");
    seen = attached.value();
    auto made = co_await copier->allocate(Layout::kSingle, on(2));
    script.must(made.status(), "allocate");
    target = made.value();
  });
  script.run_for_ms(1000 * seed);
  world.cut_link(0, 2);
  world.cut_link(1, 2);
  script.run(writer, put);
  script.run(copier, [&]() -> Task<void> {
    for (int i = 0; i < 8; ++i) (void)co_await copier->copy(seen, target, 1);
  });
  return script.end(outcome);
}

/// Q1: one voter has not heard of a home for long; the others gave it votes that run.
std::string one_voter_is_no_majority(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Pair pair(seed, broken, 5);
  pair.world.cut_link(2, 3);
  pair.run_for_ms(4000);
  pair.world.cut_link(1, 2);
  // The put fails a deadline later; until shortly before, the home has had votes.
  pair.world.clock().in(1350 * kMs, [&pair] { pair.world.cut_node(2); });
  pair.write_and_read(6000);
  return pair.end(outcome);
}

/// A majority decides: of a voter that does not answer nothing is waited for, but where one refused.
std::string voter_is_not_waited_for(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 5);
  World& world = script.world;
  const auto writer = world.add_program(4);
  std::vector<std::shared_ptr<Handle>> parts;
  for (int i = 0; i < 6; ++i) parts.push_back(script.make_on(writer, on(1, 2)));
  script.run_for_ms(2000);  // all vote
  world.cut_link(4, 3);     // the coordinator hears both
  world.kill(2, true);
  script.must_put(writer, parts[0], 1, 4);  // its votes are over by then
  const uint64_t since_ns = world.clock().now_ns();
  for (const auto& part : parts)
    script.must_put(writer, part, 1, 4);  // each finds the home silent for a deadline
  if (world.clock().now_ns() - since_ns > 10'000 * kMs) world.violate("the losses waited for a voter");
  return script.end(outcome);
}

/// Q4: a replica is lost while its home is cut off, and then the council changes.
std::string council_remembers_losses(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Pair pair(seed, broken, 5);
  pair.world.cut_node(2);
  pair.write_and_read(6000);
  pair.world.kill(4, true);
  pair.run_for_ms(4000);
  pair.world.restore_node(2);
  pair.write_and_read(6000);
  return pair.end(outcome);
}

/// A3: the coordinator restarts at once, and what it held is made again, though nobody writes.
std::string coordinator_restarts_at_once(uint64_t seed, const std::set<fault::Point>& broken,
                                         Outcome* outcome) {
  Script script(seed, broken, 3 + seed % 2);
  const auto x = script.world.add_program(1);
  script.run(x, [&]() -> Task<void> {
    auto made = co_await x->allocate(Layout::kReplicated, on(0, 2));
    script.must(made.status(), "allocate");
    const Status put = co_await x->put(made.value(), 1);
    script.must(put, "put");
    if (seed % 3 != 0) co_return;
    const Status published = co_await x->publish(*made.value(), "x");
    script.must(published, "publish");
  });
  script.run_for_ms(100 * (seed % 5));
  script.world.kill(0, false);
  script.run_for_ms(20 + 60 * seed);
  script.world.restart(0);
  script.run_for_ms(20'000);
  script.world.check_settled();
  return script.end(outcome);
}

/// Two of three replicas are lost at once, and there is room for one only; then there is more.
std::string room_comes_later(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  constexpr size_t kFullAt = 255;  // pages of a node, but one
  Script script(seed, broken, 6);
  const auto x = script.world.add_program(0);
  std::shared_ptr<Handle> handle;
  script.run(x, [&]() -> Task<void> {
    for (size_t i = 0; i < 2 * kFullAt + 2; ++i) {
      auto made = co_await x->allocate(Layout::kSingle, on(4 + i % 2));
      script.must(made.status(), "fill a node");
    }
    auto made = co_await x->allocate(Layout::kReplicated, on(1, 2, 3));
    script.must(made.status(), "allocate");
    handle = made.value();
    const Status put = co_await x->put(handle, 1);
    script.must(put, "put");
    if (seed % 2 == 0) co_return;
    const Status published = co_await x->publish(*handle, "x");
    script.must(published, "publish");
  });
  script.world.kill(2, true);
  script.run_for_ms(seed * 50);
  script.world.kill(3, true);
  script.run_for_ms(3000);
  script.run(x, [&]() -> Task<void> {
    const Status put = co_await x->put(handle, 1);
    script.must(put, "put to one of three");
  });
  script.run_for_ms(9000);
  script.world.restart(2);
  if (seed % 3 != 0) script.world.restart(3);
  script.run_for_ms(15'000);
  if (seed % 3 == 0) script.world.restart(3);
  script.run_for_ms(1000);
  script.run(x, [&]() -> Task<void> {
    const Status got = co_await x->get(handle, 1);
    script.must(got, "get");
    const Status put = co_await x->put(handle, 1);
    script.must(put, "put");
  });
  script.world.check_settled();
  return script.end(outcome);
}

/// The coordinator is one of a majority that restarts: the former council is over, and nobody asks for it any more.
std::string coordinator_and_a_voter_restart(uint64_t seed, const std::set<fault::Point>& broken,
                                            Outcome* outcome) {
  Script script(seed, broken, 4);
  const auto x = script.world.add_program(3);
  script.run(x, [&]() -> Task<void> {
    auto made = co_await x->allocate(Layout::kReplicated, on(1, 3));
    script.must(made.status(), "allocate");
  });
  script.world.kill(0, false);
  script.world.kill(1 + seed % 2, false);
  script.run_for_ms(100 * seed);
  script.world.restart(0);
  script.world.restart(1 + seed % 2);
  script.run_for_ms(25'000);
  script.world.check_settled();
  return script.end(outcome);
}

/// Parts that nobody has room for keep no other one from being made again.
std::string no_room_for_others(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 3);
  const auto x = script.world.add_program(0);
  std::shared_ptr<Handle> waits;
  script.run(x, [&]() -> Task<void> {
    for (size_t i = 0; i < 40; ++i) {
      auto made = co_await x->allocate(Layout::kReplicated, on(0, 1, 2));
      script.must(made.status(), "allocate three replicas");
    }
    auto made = co_await x->allocate(Layout::kReplicated, on(1, 2));
    script.must(made.status(), "allocate");
    waits = made.value();
  });
  script.world.kill(2, true);
  script.run_for_ms(4000);
  script.run(x, [&]() -> Task<void> {
    const std::vector<std::shared_ptr<Handle>> all = x->handles;
    for (const auto& handle : all) {
      const Status put = co_await x->put(handle, 1);
      script.must(put, "put without a replica");
    }
  });
  script.run_for_ms(6000);
  script.run(x, [&]() -> Task<void> {
    const Status put = co_await x->put(waits, 1);
    script.must(put, "put to what is whole again");
  });
  script.world.check_made_again(*waits->memory);
  return script.end(outcome);
}

/// R10: whoever asks for a loss dies between its acceptance and its answer, and all is well again; later the home of the
/// other replica is started again.
std::string loss_is_not_learned(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 5);
  World& world = script.world;
  const auto y = world.add_program(0), x = world.add_program(4);
  const std::shared_ptr<Handle> of_y = script.make_named(y, on(1, 2), "r");
  std::shared_ptr<Handle> of_x;
  script.run(x, [&]() -> Task<void> {
    auto found = co_await x->attach("r", false);
    script.must(found.status(), "attach");
    of_x = found.value();
  });
  size_t accepted = 0;
  world.on_state = [&](fault::State state) {
    if (state != fault::State::kLossAccepted || ++accepted != 3 + seed % 2) return;
    world.clock().in(1, [&] { world.kill(4, true); });
  };
  world.cut_link(2, 4);
  script.start(x, [&]() -> Task<void> { (void)co_await x->put(of_x, 2); });
  script.run_for_ms(4000);
  world.on_state = nullptr;
  world.restore_link(2, 4);
  if (accepted < 3) world.violate("nobody gave the replica up");
  world.restart(4);
  script.run_for_ms(9000);
  world.kill(1, seed % 3 == 0);
  script.run_for_ms(100);
  world.restart(1);
  script.run_for_ms(8000);
  script.run(y, [&]() -> Task<void> {
    const Status got = co_await y->get(of_y, 1);
    script.must(got, "get");
    const Status put = co_await y->put(of_y, 1);
    script.must(put, "put");
  });
  script.run_for_ms(5000);
  world.check_settled();
  return script.end(outcome);
}

/// A program frees a part, or ends, while its daemon waits for what becomes of a replica of it.
std::string freed_while_its_loss_waits(uint64_t seed, const std::set<fault::Point>& broken,
                                       Outcome* outcome) {
  Script script(seed, broken, 4);
  const auto x = script.world.add_program(0);
  std::shared_ptr<Handle> handle;
  script.run(x, [&]() -> Task<void> {
    auto made = co_await x->allocate(Layout::kReplicated, on(1, 2));
    script.must(made.status(), "allocate");
    handle = made.value();
  });
  script.world.stop(2);
  script.start(x, [&]() -> Task<void> {
    wire::Envelope request;
    request.mutable_lost_replica()->set_allocation_id(handle->memory->allocation.allocation_id());
    request.mutable_lost_replica()->set_address(handle->memory->pieces[1].id.address.bits());
    request.mutable_lost_replica()->set_generation(handle->memory->pieces[1].id.generation);
    request.mutable_lost_replica()->set_revoked(seed % 2 == 0);
    (void)co_await x->call(std::move(request), 6 * script.world.deadline_ns());
  });
  script.run_for_ms(100 + seed * 250);
  if (seed % 3 != 0) {
    script.start(x, [&]() -> Task<void> { (void)co_await x->free(handle); });
  } else {
    script.world.end_program(*x);
  }
  script.run_for_ms(6000);
  script.world.resume(2);
  script.run_for_ms(12'000);
  script.world.check_unused();
  return script.end(outcome);
}

/// Q4: the coordinator is on the small side of a cut, the home and the majority on the other.
std::string small_side_decides_nothing(uint64_t seed, const std::set<fault::Point>& broken,
                                       Outcome* outcome) {
  Pair pair(seed, broken, 5);
  for (size_t small = 0; small < 2; ++small) {
    for (size_t large = 2; large < 5; ++large) pair.world.cut_link(small, large);
  }
  pair.write_and_read(10'000);
  return pair.end(outcome);
}

/// Q4, S1: the coordinator ends between the steps that change the council, because a voter died; the homes go
/// on.
std::string coordinator_ends_in_a_change(uint64_t seed, const std::set<fault::Point>& broken,
                                         Outcome* outcome) {
  Pair pair(seed, broken, 5);
  pair.run_for_ms(2000);  // all five vote
  const size_t when = 1 + seed % 4;
  size_t accepted = 0;
  pair.world.on_state = [&](fault::State state) {
    if (state == fault::State::kCouncilAccepted && ++accepted == when) pair.world.cut_node(0);
  };
  pair.world.kill(4, true);
  for (int i = 0; i < 15'000 && accepted < when; ++i) pair.run_for_ms(1);
  if (accepted < when && broken.empty()) pair.world.violate("the council never changed");
  pair.run_for_ms(seed % 3);
  pair.world.kill(0, true);
  pair.world.restore_node(0);
  pair.run_for_ms(100);
  pair.world.restart(0);
  pair.run_for_ms(12'000);
  pair.run(pair.x, [&]() -> Task<void> {
    const Status put = co_await pair.x->put(pair.of_x, 1);
    pair.must(put, "a put after the coordinator was restarted");
  });
  pair.look();
  return pair.end(outcome);
}

/// E1: the coordinator is cut off for some deadlines, and all the others live: it never decides alone.
std::string coordinator_is_cut_off(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Pair pair(seed, broken);
  pair.run_for_ms(1000);
  pair.world.cut_node(0);
  pair.run_for_ms(1500 + 400 * (seed % 8));
  pair.world.restore_node(0);
  for (int ms = 0; ms < 2000; ++ms) {
    pair.run_for_ms(1);
    if (pair.world.daemon(0)->cluster->quorum().newest().voters.size() == 1)
      pair.world.violate("E1: the coordinator decides alone, though all others live");
  }
  pair.both_put();
  pair.look();
  return pair.end(outcome);
}

/// E3: the coordinator starts anew and does not reach one of the two other voters, which go on.
std::string coordinator_restarts_out_of_reach(uint64_t seed, const std::set<fault::Point>& broken,
                                              Outcome* outcome) {
  Pair pair(seed, broken);
  pair.run_for_ms(1000);
  pair.world.cut_link(0, 1 + seed % 2);
  pair.world.kill(0, false);
  pair.run_for_ms(100 * (seed % 4));
  pair.world.restart(0);
  for (int second = 0; second < 8; ++second) {
    pair.run_for_ms(1000);
    pair.both_must_put();
  }
  pair.world.restore_link(0, 1 + seed % 2);
  pair.run_for_ms(6000);
  pair.world.check_settled();
  pair.both_must_put();
  pair.look();
  return pair.end(outcome);
}

/// A voter is cut off from the coordinator, or its node is down. The coordinator votes alone then, and starts anew; all is
/// well again; some time later it starts anew once more.
std::string lone_voter_restarts(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Pair pair(seed, broken);
  pair.run_for_ms(1000);
  const size_t lost = 1 + seed % 2;
  const bool is_cut = seed % 4 < 2;  // else its node is down
  if (is_cut)
    pair.world.cut_link(0, lost);
  else
    pair.world.kill(lost, false);
  pair.run_for_ms(2000 + 100 * (seed % 4));
  pair.world.kill(0, false);
  pair.run_for_ms(20 + 300 * (seed % 3));
  pair.world.restart(0);
  pair.run_for_ms(seed % 5 * 400);
  if (is_cut)
    pair.world.restore_link(0, lost);
  else
    pair.world.restart(lost);
  pair.run_for_ms(40'000);
  pair.world.check_settled();
  pair.both_must_put();
  pair.world.kill(0, false);
  pair.run_for_ms(100);
  pair.world.restart(0);
  pair.run_for_ms(3000);
  pair.both_must_put();
  pair.look();
  return pair.end(outcome);
}

/// The coordinator gives up a replica alone, the part is made again, and both forget that; then its node is back.
std::string former_replica_comes_back(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Pair pair(seed, broken);
  pair.world.voters_forget = true;
  pair.run_for_ms(1000);
  pair.world.cut_node(2);
  pair.run(pair.x, [&pair]() -> Task<void> { (void)co_await pair.x->put(pair.of_x, 1); });
  pair.run_for_ms(3000 + 500 * (seed % 4));
  pair.world.kill(0, false);
  pair.run_for_ms(20 + 200 * (seed % 3));
  pair.world.restart(0);
  pair.run_for_ms(seed % 5 * 200);
  pair.world.restore_node(2);
  pair.run_for_ms(8000);
  pair.look();
  pair.run(pair.x, [&pair]() -> Task<void> {
    const Status removed = co_await pair.x->remove("r");
    pair.must(removed, "remove");
  });
  for (const auto& program : {pair.x, pair.y}) pair.world.end_program(*program);
  pair.run_for_ms(10'000);
  pair.world.check_unused();
  return pair.end(outcome);
}

/// R on nodes 1 and 2, written from node 3 while the node of one replica is lost and the other one makes it
/// again.
struct Remaking : Script {
  Remaking(uint64_t seed, const std::set<fault::Point>& broken, std::vector<size_t> homes = {1, 2},
           bool coordinator_offers = true)
      : Script(seed, broken, 3 + homes.size(), 0, coordinator_offers) {
    writer = world.add_program(3);
    reader = world.add_program(4);
    run(writer, [this, homes]() -> Task<void> {
      auto made = co_await writer->allocate(Layout::kReplicated, homes);
      must(made.status(), "allocate");
      written = made.value();
      const Status put = co_await writer->put(written, 1);
      must(put, "put");
      const Status published = co_await writer->publish(*written, "r");
      must(published, "publish");
    });
    run(reader, [this]() -> Task<void> {
      auto found = co_await reader->attach("r", false);
      must(found.status(), "attach");
      read = found.value();
    });
  }
  void write_for(uint64_t ms) {
    const uint64_t until_ns = world.clock().now_ns() + ms * kMs;
    stopped = false;
    start(writer, [this, until_ns]() -> Task<void> {
      for (size_t i = 0; world.clock().now_ns() < until_ns && !stopped; ++i)
        (void)co_await writer->put(written, 1 + i % kCells);
    });
  }
  /// The node comes back without its bytes.
  void lose(size_t node) {
    world.kill(node, true);
    run_for_ms(300);
    world.restart(node);
  }
  /// The newest bytes are there, for handles old and new.
  void look(const std::shared_ptr<Program>& program, const std::shared_ptr<Handle>& handle) {
    run(program, [this, program, handle]() -> Task<void> {
      for (size_t cell = 1; cell <= kCells; ++cell) {
        const Status old = co_await program->get(handle, cell);
        must(old, "a get by an old handle");
      }
      auto fresh = co_await program->attach("r", false);
      must(fresh.status(), "an attach");
      if (!fresh.is_ok()) co_return;
      for (size_t cell = 1; cell <= kCells; ++cell) {
        const Status got = co_await program->get(fresh.value(), cell);
        must(got, "a get by a new handle");
      }
    });
  }
  /// The name is removed and the programs end: nothing is left.
  void remove_and_end() {
    run(reader, [this]() -> Task<void> {
      const Status removed = co_await reader->remove("r");
      must(removed, "a removal");
    });
    world.end_program(*writer);
    world.end_program(*reader);
    run_for_ms(12'000);
    world.check_unused();
  }
  std::shared_ptr<Program> writer, reader;
  std::shared_ptr<Handle> written, read;
  bool stopped = false;
  static constexpr size_t kCells = 20;  // in turn: what one put missed, the next one does not hide
};

/// Each node of a replica is lost once, one after the other, as in a restart of all.
std::string made_again(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Remaking part(seed, broken);
  part.world.on_state = [&](fault::State state) {  // no later put hides one that was missed
    part.stopped = part.stopped || (state == fault::State::kReplicaRemade && seed % 2 == 0);
  };
  for (const size_t node : {1, 2}) {
    // Programs know of the loss, and write, before there is room for the copy.
    part.world.refuse(fault::Point::kHomeNoMemory, 4000 + 100 * (seed % 10));
    part.write_for(11000);
    part.lose(node);
    part.run_for_ms(14000);
    part.look(part.reader, part.read);
    part.look(part.writer, part.written);
  }
  return part.end(outcome);
}

/// The home that leads is cut off while its replica is frozen: it answers again, and the copy is made later.
std::string cut_while_frozen(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Remaking part(seed, broken);
  bool was_cut = false;
  part.world.on_state = [&](fault::State state) {
    if (state != fault::State::kReplicaFrozen || was_cut) return;
    was_cut = true;
    for (const size_t node : {0, 1, 3, 4}) part.world.cut_link(2, node);
  };
  part.write_for(9000);
  part.lose(1);
  part.run_for_ms(3000 + 200 * (seed % 8));
  for (const size_t node : {0, 1, 3, 4}) part.world.restore_link(2, node);
  part.run_for_ms(16000);
  if (!was_cut && broken.empty()) part.world.violate("the replica was never frozen");
  part.look(part.reader, part.read);
  part.look(part.writer, part.written);
  part.lose(2);
  part.run_for_ms(12000);
  part.look(part.reader, part.read);
  return part.end(outcome);
}

/// One of three is lost, and the home that leads dies around the decision: whatever was decided, the other
/// one and the spare home find out.
std::string leader_dies_deciding(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Remaking part(seed, broken, {1, 2, 5});
  const auto id_at = [&](size_t node) {
    ExtentId found;
    for (const auto& piece : part.written->memory->pieces) found = piece.node == node ? piece.id : found;
    return found;
  };
  const size_t leader = id_at(2) < id_at(5) ? 2 : 5;
  const fault::State when = seed % 2 == 0 ? fault::State::kPartPlanned : fault::State::kReplicaFrozen;
  bool planned = false;
  part.world.on_state = [&](fault::State state) {
    if (planned || state != when) return;
    planned = true;
    if (seed % 4 == 0) part.world.cut_node(leader);
  };
  part.write_for(9000);
  part.lose(1);
  for (int i = 0; i < 15'000 && !planned; ++i) part.run_for_ms(1);
  if (!planned && broken.empty()) part.world.violate("the part was never planned");
  part.run_for_ms(seed % 8);
  part.world.kill(leader, true);
  part.world.restore_node(leader);
  part.run_for_ms(20'000);
  part.look(part.reader, part.read);
  part.look(part.writer, part.written);
  return part.end(outcome);
}

/// The home that leads is lost right after the switch, before it has told anybody: the coordinator hears of the part, also
/// where there is no room to make it again once more, and when the name is removed all of it is freed.
std::string lost_after_the_switch(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Remaking part(seed, broken, {1, 2}, seed % 3 == 0);
  bool remade = false;
  part.world.on_state = [&](fault::State state) {
    if (state != fault::State::kReplicaRemade || remade) return;
    remade = true;
    part.world.cut_node(2);
    if (seed % 2 != 0) return;
    part.world.refuse(fault::Point::kHomeNoMemory, 300'000);
    part.world.clock().in(1, [&] {
      for (const size_t node : {0, 1, 3, 4})
        part.world.ways().reset(2, node);  // what it sent is not heard later
      part.world.kill(2, true);
    });
  };
  part.write_for(3000);
  part.lose(1);
  part.run_for_ms(5000);
  if (seed % 2 != 0) part.world.restore_node(2);
  if (seed % 2 != 0) part.world.kill(2, true);
  part.run_for_ms(9000);
  if (remade) part.look(part.reader, part.read);
  if (seed % 2 == 0) part.world.restore_node(2);
  part.world.restart(2);
  part.run_for_ms(6000);
  part.run(part.reader, [&]() -> Task<void> {
    const bool lost = co_await part.reader->is_lost("r");
    if (lost) part.world.violate("a name is listed as lost whose part was made again");
  });
  part.remove_and_end();
  return part.end(outcome);
}

/// A put reaches one of three replicas, and waits for another beyond a cut link while the part is made again. When its
/// program gives that one up, the voters have forgotten the part, whose successor has that home's replica.
std::string put_outlasts_its_part(uint64_t seed, const std::set<fault::Point>& broken, Outcome* outcome) {
  Script script(seed, broken, 6);
  World& world = script.world;
  const auto writer = world.add_program(5), other = world.add_program(2);
  std::shared_ptr<Handle> mine, others;
  script.run(writer, [&]() -> Task<void> {
    auto made = co_await writer->allocate(Layout::kReplicated, on(2, 3, 4), 3);
    script.must(made.status(), "allocate");
    mine = made.value();
    for (int i = 0; i < 3; ++i) {
      const Status put = co_await writer->put(mine, 1);
      script.must(put, "put");
    }
    const Status published = co_await writer->publish(*mine, "r");
    script.must(published, "publish");
  });
  script.run(other, [&]() -> Task<void> {
    auto found = co_await other->attach("r", false);
    script.must(found.status(), "attach");
    others = found.value();
    const Status put = co_await other->put(others, 2);
    script.must(put, "put");
  });
  world.cut_node(4);
  script.start(other, [&]() -> Task<void> { (void)co_await other->put(others, 2); });
  script.run_for_ms(1500 + 12 * seed);
  world.cut_link(5, 3);
  script.start(writer, [&]() -> Task<void> { (void)co_await writer->put(mine, 1); });
  script.run_for_ms(500);
  world.restore_node(4);           // it drops its replica, so that all of the former part are gone
  writer->env->set_stopped(true);  // until the voters have heard that the former part is gone
  script.start(other, [&]() -> Task<void> {
    for (int i = 0; i < 70; ++i) {
      (void)co_await other->get(others, 1);
      co_await other->env->sleep_ns(100 * kMs);
    }
  });
  script.run_for_ms(5500);
  writer->env->set_stopped(false);
  script.run_for_ms(3000);
  world.restore_link(5, 3);
  script.run_for_ms(3000);
  for (const auto& program : {writer, other}) {
    const auto handle = program == writer ? mine : others;
    script.run(program, [&]() -> Task<void> {
      const Status put = co_await program->put(handle, program == writer ? 1 : 2);
      script.must(put, "put");
    });
  }
  script.run_for_ms(3000);
  return script.end(outcome);
}

}  // namespace

const std::vector<Schedule>& schedules_of_replicas() {
  static const std::vector<Schedule> all{
      {"one node is cut", one_node_cut, 6},
      {"one link is cut", one_link_cut, 8},
      {"a copy without a lease", copy_without_a_lease, 4},
      {"one voter is no majority", one_voter_is_no_majority, 4},
      {"a voter is not waited for", voter_is_not_waited_for, 2},
      {"a council remembers losses", council_remembers_losses, 4},
      {"the coordinator restarts at once", coordinator_restarts_at_once, 12},
      {"room comes later", room_comes_later, 6},
      {"no room for others", no_room_for_others, 6},
      {"coordinator and a voter restart", coordinator_and_a_voter_restart, 6},
      {"freed while its loss waits", freed_while_its_loss_waits, 12},
      {"a loss is not learned", loss_is_not_learned, 6},
      {"the small side decides nothing", small_side_decides_nothing, 4},
      {"the coordinator ends in a change", coordinator_ends_in_a_change, 8},
      {"the coordinator restarts out of reach", coordinator_restarts_out_of_reach, 8},
      {"a lone voter restarts", lone_voter_restarts, 12},
      {"a former replica comes back", former_replica_comes_back, 16},
      {"the coordinator is cut off", coordinator_is_cut_off, 8},
      {"a part is made again", made_again, 8},
      {"a frozen replica is cut off", cut_while_frozen, 8},
      {"the node that leads dies deciding", leader_dies_deciding, 8},
      {"the node that led is lost", lost_after_the_switch, 6},
      {"a put outlasts its part", put_outlasts_its_part, 24},
  };
  return all;
}

}  // namespace ocm::simulation
