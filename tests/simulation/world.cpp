#include "world.h"

#include <algorithm>
#include <cstdio>

#include "control/parts.h"
#include "program.h"

namespace ocm::simulation {
namespace {

constexpr size_t kWritersMax = 26;  // cells of 8 bytes
constexpr uint64_t kSecond = 1'000'000'000;

}  // namespace

Removal::Removal(World& in, std::string of) : world(in), name(std::move(of)) { ++world.removals[name]; }
Removal::~Removal() {
  --world.removals[name];
  if (concluded) return;
  for (const auto& [id, memory] : world.memories) {
    const bool had =
        memory->state == Memory::State::kPublishing || memory->state == Memory::State::kPublished;
    if (memory->name == name && had) memory->state = Memory::State::kRemoving;
  }
}

bool World::may_be_removed(const Memory& memory) const {
  if (memory.state >= Memory::State::kRemoving) return true;
  const auto under_way = removals.find(memory.name);
  return memory.state != Memory::State::kHeld && under_way != removals.end() && under_way->second > 0;
}

World::World(const WorldOptions& options)
    : options_(options),
      random_(options.seed),
      ways_(clock_, options.nodes, options.seed * 31 + 1),
      nodes_(options.nodes),
      writers_(kWritersMax),
      heard_ns_(options.nodes * options.nodes),
      silent_ns_(options.nodes * options.nodes) {
  for (Slot& slot : nodes_) slot.drift_ppm = drift_of_a_clock();
  fault::install(this);
}

World::~World() {
  over_ = true;
  clock_.drop_events();
  ways_.drop_all();
  programs_.clear();
  for (Slot& slot : nodes_) slot.daemon.reset();
  fault::install(nullptr);
}

void World::violate(const std::string& what) {
  if (over_) return;
  char when[48];
  std::snprintf(when, sizeof(when), "%.3f s: ", static_cast<double>(clock_.now_ns()) / 1e9 - 1000);
  violations_.push_back(when + what);
  if (trace) std::printf("VIOLATION %s\n", violations_.back().c_str());
}

void World::note(uint64_t what, uint64_t a, uint64_t b) {
  for (const uint64_t word : {clock_.now_ns(), what, a, b}) {
    digest_ = (digest_ ^ word) * 1099511628211ull;
    digest_ ^= digest_ >> 29;
  }
  if (trace) {
    std::printf("%.6f %llu %llu %llu\n", static_cast<double>(clock_.now_ns()) / 1e9 - 1000,
                static_cast<unsigned long long>(what), static_cast<unsigned long long>(a),
                static_cast<unsigned long long>(b));
  }
}

bool World::happens(fault::Point point) {
  if (options_.always.contains(point)) return true;
  const auto refused = refused_until_ns_.find(point);
  if (refused != refused_until_ns_.end() && clock_.now_ns() < refused->second) return true;
  const bool refusal = point <= fault::Point::kVoterDiskFull;
  return refusal && clock_.now_ns() < refuse_until_ns_ && below(3) == 0;
}

void World::reached(fault::State state) {
  reached_.insert(state);
  if (on_state) on_state(state);
  if (state == fault::State::kOrphanFreed) ++counts["orphans freed"];
}

// ---- faults

void World::disturb(const std::string& what) {
  ++counts["faults"];
  note(200, std::hash<std::string>{}(what));
  if (trace) std::printf("%.6f %s\n", static_cast<double>(clock_.now_ns()) / 1e9 - 1000, what.c_str());
}

void World::cut(size_t node, bool is_cut) {
  disturb((is_cut ? "cut " : "restore ") + name_of(node));
  for (size_t other = 0; other < nodes_.size(); ++other) {
    if (other == node) continue;
    for (const auto& [from, to] : {std::pair(node, other), std::pair(other, node)}) {
      if (is_cut)
        ways_.cut(from, to);
      else
        ways_.restore(from, to);
    }
  }
}

void World::cut_link(size_t a, size_t b) {
  disturb("cut " + name_of(a) + " " + name_of(b));
  ways_.cut(a, b);
  ways_.cut(b, a);
}
void World::cut_way(size_t from, size_t to) {
  disturb("cut one way " + name_of(from) + " " + name_of(to));
  ways_.cut(from, to);
}
void World::restore_link(size_t a, size_t b) {
  disturb("restore " + name_of(a) + " " + name_of(b));
  ways_.restore(a, b);
  ways_.restore(b, a);
}

void World::stop(size_t node) {
  disturb("stop " + name_of(node));
  ++nodes_[node].stops_ever;
  if (++nodes_[node].stops == 1 && nodes_[node].daemon) nodes_[node].daemon->env->set_stopped(true);
}
void World::resume(size_t node) {
  disturb("resume " + name_of(node));
  if (--nodes_[node].stops == 0 && nodes_[node].daemon) nodes_[node].daemon->env->set_stopped(false);
}

void World::kill(size_t node, bool power_too) {
  disturb("kill " + name_of(node) + (power_too ? " and its power" : ""));
  end_daemon(node);
  lost_ns_ = clock_.now_ns();
  nodes_[node].power = !power_too;
  if (!power_too) return;
  *nodes_[node].memory = {};
  for (const auto& program : programs_) {
    if (program->node() == node) end_program(*program);
  }
}

void World::end_daemon(size_t node) {
  ++nodes_[node].life;
  nodes_[node].daemon.reset();
  killed_ns_ = clock_.now_ns();
}

void World::stop_when_safe(size_t node) {
  disturb("stop when safe " + name_of(node));
  killed_ns_ = clock_.now_ns();
  const std::shared_ptr<Daemon> daemon = nodes_[node].daemon;
  const uint64_t stopping = life(node);
  const auto end = [this, node, stopping] {
    if (!nodes_[node].daemon || life(node) != stopping) return;
    disturb("end " + name_of(node));
    end_daemon(node);
  };
  const auto is_safe = [this, node, stopping, end] {
    if (!nodes_[node].daemon || life(node) != stopping) return;
    for (const auto& [id, memory] : memories) {
      for (const size_t place : memory->newest) {
        Memory::Piece& piece = memory->pieces[place];
        const bool is_there = piece.node == node && piece.life == stopping && !given_up(piece) &&
                              nodes_[node].daemon->home->is_here(piece.id);
        if (memory->replicated() && is_there) piece.ended_ns = clock_.now_ns();
      }
    }
    nodes_[node].daemon->drain([this, end] { clock_.in(1, end); });
  };
  daemon->env->start(daemon->stopper->wait([this, is_safe] { clock_.in(1, is_safe); }));
}

void World::shut_down(size_t node) {
  constexpr uint64_t kPatienceNs = 3 * kSecond;
  disturb("shut down " + name_of(node));
  killed_ns_ = clock_.now_ns();
  const uint64_t life = nodes_[node].life;
  const auto end = [this, node, life] {
    if (nodes_[node].daemon && nodes_[node].life == life) kill(node, false);
  };
  nodes_[node].daemon->drain([this, end] { clock_.in(1, end); });
  clock_.in(kPatienceNs, end);
}

void World::end_program(Program& program) {
  program.die();
  program.env.reset();  // and its coroutines
  program.handles.clear();
}

void World::restart(size_t node) {
  if (nodes_[node].daemon) kill(node, false);  // told to stop, and not ready yet
  disturb("restart " + name_of(node));
  nodes_[node].power = true;
  start_daemon(node);
}

void World::start_daemon(size_t node) {
  Daemon::Options options;
  options.node = node;
  options.memory = nodes_[node].memory;
  options.run = ++runs_;
  options.seed = random_();
  options.drift_ppm = nodes_[node].drift_ppm;
  options.seeds = options_.seeds;
  options.is_older = options_.older_daemons;
  options.dram_bytes = node == 0 && !options_.coordinator_offers ? 0 : options_.dram_bytes;
  nodes_[node].since_ns = clock_.now_ns();
  const auto daemon = std::make_shared<Daemon>(*this, options);
  daemon->served_op = [this](const WordOp& op, const WordResult&) {
    for (const auto& program : programs_) {
      for (const auto& handle : program->handles) {
        for (const Memory::Piece& piece : handle->memory->pieces) {
          if (piece.id == op.id && piece.drop_answered && op.reads())
            violate("W3: a replica is served after its loss was answered");
        }
      }
    }
  };
  daemon->start();
  if (nodes_[node].stops > 0) daemon->env->set_stopped(true);
  nodes_[node].daemon = daemon;
}

std::shared_ptr<Program> World::add_program(size_t node) {
  programs_.push_back(
      std::make_shared<Program>(*this, node, programs_.size() + 1, random_(), nodes_[node].drift_ppm));
  return programs_.back();
}

void World::change_clock(size_t node) {
  nodes_[node].drift_ppm = drift_of_a_clock();
  disturb("another speed of the clock of " + name_of(node));
  if (nodes_[node].daemon) nodes_[node].daemon->env->set_drift(nodes_[node].drift_ppm);
  for (const auto& program : programs_) {
    if (program->node() == node && !program->ended()) program->env->set_drift(nodes_[node].drift_ppm);
  }
}

void World::random_fault() {
  if (ending_ || clock_.now_ns() > 1000 * kSecond + options_.fault_seconds * kSecond) return;
  const uint64_t lasts_ns = 100'000'000 + below(below(4) == 0 ? 4'500'000'000 : 2'500'000'000);
  const auto later = [this](uint64_t in_ns, std::function<void()> what) {
    ++faults_;
    clock_.in(in_ns, [this, what = std::move(what)] {
      --faults_;
      what();
    });
  };
  const size_t node = below(nodes_.size());
  if (below(6) == 0) change_clock(node);
  const size_t other = (node + 1 + below(nodes_.size() - 1)) % nodes_.size();
  const uint64_t dice = below(100);
  const auto may_end = [this](size_t one) {
    return clock_.now_ns() > killed_ns_ + 8 * deadline_ns() && (one != 0 || options_.kill_coordinator);
  };
  const auto ends = [this, &later](size_t one) {
    const uint64_t how = below(4);
    if (options_.stops_wait && how != 1)
      stop_when_safe(one);
    else if (how == 0)
      shut_down(one);
    else
      kill(one, how == 1);
    const uint64_t most_ns = options_.stops_wait ? 9'000'000'000 : 2'500'000'000;  // copies take a while
    later(500'000'000 + below(most_ns), [this, one] { restart(one); });
  };
  if (options_.stops_wait && may_end(node) && below(2) == 0) {
    ends(node);
  } else if (dice < 20) {
    cut(node, true);
    later(lasts_ns, [this, node] { cut(node, false); });
  } else if (dice < 38) {
    cut_link(node, other);
    later(lasts_ns, [this, node, other] { restore_link(node, other); });
  } else if (dice < 48) {
    cut_way(node, other);
    later(lasts_ns, [this, node, other] {
      disturb("restore one way");
      ways_.restore(node, other);
    });
  } else if (dice < 62) {
    stop(node);
    later(lasts_ns, [this, node] { resume(node); });
  } else if (dice < 69) {
    disturb("reset " + name_of(node) + " " + name_of(other));
    ways_.reset(node, other);
  } else if (dice < 78) {
    disturb("late messages");
    ways_.set_late(10, 400'000'000);
    later(lasts_ns, [this] {
      disturb("no late messages");
      ways_.set_late(0, 0);
    });
  } else if (dice < 85) {
    disturb("refusals");
    refuse_until_ns_ = clock_.now_ns() + lasts_ns;
  } else if (dice < 91) {
    std::vector<std::shared_ptr<Program>> living;
    for (const auto& program : programs_) {
      if (!program->ended()) living.push_back(program);
    }
    if (!living.empty()) {
      const auto& victim = living[below(living.size())];
      if (options_.programs_stand_still && below(2) == 0) {
        disturb("a program stands still");
        ++nodes_[victim->node()].stops_ever;
        victim->env->set_stopped(true);
        later(lasts_ns, [weak = victim->env->weak_from_this()] {
          if (const auto env = weak.lock()) env->set_stopped(false);
        });
        clock_.in(200'000'000 + below(3'000'000'000), [this] { random_fault(); });
        return;
      }
      disturb("a program dies");
      end_program(*victim);
      if (programs_.size() + 3 < kWritersMax) {  // the janitor comes too
        const auto fresh = add_program(below(nodes_.size()));
        fresh->env->start(fresh->live());
      }
    }
  } else if ((faults_ == 0 || options_.kill_among_faults) && may_end(node)) {
    ends(node);
  }
  clock_.in(200'000'000 + below(3'000'000'000), [this] { random_fault(); });
}

// ---- a life

void World::boot() {
  for (size_t node = 0; node < nodes_.size(); ++node) start_daemon(node);
  check_state();
  run_for(3 * kSecond);
}

void World::run(const std::shared_ptr<Program>& program, Task<void> task) {
  bool done = false;
  const auto wrap = [](Task<void> inner, bool& flag) -> Task<void> {
    co_await std::move(inner);
    flag = true;
  };
  program->env->start(wrap(std::move(task), done));
  const uint64_t give_up_ns = clock_.now_ns() + 120 * kSecond;
  (void)clock_.run_until(give_up_ns, [&] { return done; });
  if (!done) violate("W5: a step of the schedule did not end");
}

void World::measure_silence() {
  const uint64_t now_ns = clock_.now_ns();
  const auto up = [this](size_t node) { return nodes_[node].daemon && nodes_[node].stops == 0; };
  for (size_t a = 0; a < nodes_.size(); ++a) {
    for (size_t b = 0; b < nodes_.size(); ++b) {
      const size_t pair = a * nodes_.size() + b;
      const bool hear =
          up(a) && up(b) && !ways_.is_cut(a, b) && !ways_.is_cut(b, a) && now_ns >= refuse_until_ns_;
      if (hear || heard_ns_[pair] == 0) heard_ns_[pair] = now_ns;
      silent_ns_[pair] = std::max(silent_ns_[pair], now_ns - heard_ns_[pair]);
    }
  }
}

bool World::may_be_orphaned(size_t node, size_t home) const {
  const auto silent = [&](size_t other) { return silent_ns_[node * nodes_.size() + other]; };
  bool unheard = silent(0) > 2 * kSecond;  // by the coordinator
  for (size_t other = 0; options_.seeds != 0 && other < nodes_.size(); ++other)
    unheard = unheard || silent(other) > 2 * kSecond;
  return unheard && silent(home) > kSecond / 2;
}

std::optional<control::Council> World::noting() const {
  const auto leader = coordinator();
  if (options_.seeds == 0 || !leader || !leader->cluster->all_have(wire::kNotesNames)) return std::nullopt;
  return leader->cluster->quorum().newest();
}

bool World::is_handed_on(const std::optional<control::Council>& noted_in) const {
  const auto leader = coordinator();
  return noted_in && leader && leader->cluster->is_coordinator() &&
         control::continues(leader->cluster->quorum().newest(), *noted_in);
}

std::shared_ptr<Daemon> World::coordinator() const {
  for (const Slot& slot : nodes_) {
    if (slot.daemon && slot.daemon->cluster->is_coordinator() && slot.daemon->cluster->quorum().acts())
      return slot.daemon;
  }
  return nullptr;
}

void World::follow_coordinator() {
  size_t acting = 0;
  for (const Slot& slot : nodes_) acting += slot.daemon && slot.daemon->cluster->quorum().acts() ? 1 : 0;
  if (acting > 1) violate("E2: two coordinators act");
  const auto now = coordinator();
  if (!now) return;
  const uint64_t run = now->cluster->coordinator_run();
  if (std::exchange(acting_run_, run) != run) acts_since_ns_ = clock_.now_ns();
}

void World::check_state() {
  if (options_.seeds != 0) follow_coordinator();
  invariants_.check();
  measure_silence();
  if (!over_) clock_.in(options_.invariants_ns, [this] { check_state(); });
}

void World::live() {
  if (options_.seed % 2 == 1) refuse(fault::Point::kSmallReports, uint64_t{1} << 40);
  boot();
  for (size_t node = 0; node < nodes_.size(); ++node) {
    for (size_t i = 0; i < options_.programs_per_node; ++i) {
      const auto program = add_program(node);
      program->env->start(program->live());
    }
  }
  if (options_.random_faults) clock_.in(2 * kSecond, [this] { random_fault(); });
  run_for(options_.fault_seconds * kSecond);
  while (faults_ > 0) run_for(kSecond / 10);
  refuse_until_ns_ = 0;
  run_for(3 * deadline_ns());
  ending_ = true;
  finish();
}

void World::finish() {
  const auto programs = programs_;
  size_t probing = 0;
  const auto probe = [](std::shared_ptr<Program> program, size_t& left) -> Task<void> {
    co_await program->probe();
    --left;
  };
  for (const auto& program : programs) {
    if (program->ended()) continue;
    ++probing;
    program->env->start(probe(program, probing));
  }
  (void)clock_.run_until(clock_.now_ns() + 120 * kSecond, [&] { return probing == 0; });
  if (probing != 0) violate("W5: " + std::to_string(probing) + " programs wait for ever");
  run_for(30 * kSecond);  // what is under way ends, and copies are made again
  check_settled();
  for (const auto& program : programs) {
    program->die();
    program->handles.clear();
  }
  run_for(3 * deadline_ns());
  for (const auto& [id, memory] : memories) {
    if (memory->state != Memory::State::kPublishing || !memory->asked_for) continue;
    const auto [node, asked_in] = *memory->asked_for;
    if (life(node) == asked_in && coordinator() &&
        coordinator()->cluster->registry().find_id(wire::id_from<AllocationId>(id)) != nullptr)
      violate("W7: nobody was told of the name " + memory->name + ", and it is there");
  }
  const auto janitor = add_program(1 % nodes_.size());
  janitor->be_root();
  bool clean = false;
  for (int round = 0; round < 5 && !clean; ++round) {
    run(janitor, janitor->sweep(clean));
    run_for(2 * deadline_ns());
  }
  if (!clean) violate("W7: names are left");
  janitor->die();
  run_for(12 * kSecond);
  check_unused();
}

void World::tell_of_what_is_left(size_t node) const {
  const node::Home& home = *nodes_[node].daemon->home;
  for (const auto& [id, memory] : memories) {
    for (const Memory::Piece& piece : memory->pieces) {
      if (piece.node != node || !home.is_here(piece.id)) continue;
      const control::Title* title = home.title(piece.id);
      const auto owner = title != nullptr && title->session ? home.vouching(*title->session) : std::nullopt;
      const control::Allocation* named = home.published_with(piece.id);
      const auto allocation = wire::id_from<AllocationId>(id);
      const auto& registry = (coordinator() ? coordinator() : nodes_[node].daemon)->cluster->registry();
      std::printf("left: layout %d, state %d, name \"%s\"; of %s; here \"%s\"; coordinator: %s; %zu holds\n",
                  static_cast<int>(memory->layout), static_cast<int>(memory->state), memory->name.c_str(),
                  owner ? owner->node.c_str() : "no session", named != nullptr ? named->name.c_str() : "",
                  registry.find_id(allocation) != nullptr ? "named"
                  : registry.was_removed(allocation)      ? "removed"
                                                          : "unknown",
                  home.holds_on(piece.id).size());
    }
  }
}

void World::check_settled() {
  const auto attempts = [this] {
    uint64_t out = 0;
    for (const Slot& slot : nodes_) out += slot.daemon ? slot.daemon->core->metrics.council_attempts : 0;
    return out;
  };
  const uint64_t before = attempts();
  run_for(3 * deadline_ns());
  if (!coordinator()) return violate("W6: no node acts as coordinator");
  if (attempts() != before)
    violate("W6: nothing changes, and the coordinator attempted " + std::to_string(attempts() - before) +
            " councils");
  const auto& registry = coordinator()->cluster->registry();
  for (const auto& [id, memory] : memories) {
    if (const auto* named = registry.find_id(wire::id_from<AllocationId>(id))) check_replicas(*named);
  }
  for (const Slot& slot : nodes_) {
    for (const auto& [session_id, session] : slot.daemon->sessions->all()) {
      for (const auto& [id, held] : session->allocations) {
        if (held.owned && held.is_whole()) check_replicas(held.allocation);
      }
    }
  }
}

void World::check_made_again(const Memory& memory) {
  for (const size_t i : memory.newest) {
    const Memory::Piece& piece = memory.pieces[i];
    const auto home = nodes_[piece.node].daemon;
    if (piece.known_lost || !home || !home->home->is_here(piece.id))
      violate("W6: the replica on " + name_of(piece.node) + " was not made again");
  }
}

void World::check_replicas(const control::Allocation& allocation) {
  const auto is_here = [this](const ExtentDescriptor& extent) {
    const auto home = nodes_[node_of_name(extent.node)].daemon;
    return home && home->home->is_here(extent.id);
  };
  if (!control::has_replicas(allocation)) return;
  for (const auto& extent : allocation.extents) {
    if (!is_here(extent)) continue;
    for (const auto& other : allocation.extents) {
      if (other.part != extent.part || (!other.vacant && is_here(other))) continue;
      violate("W6: a replica on " + extent.node + " has no second one again: that on " + other.node +
              " is gone");
      return;
    }
  }
}

void World::check_unused() {
  for (size_t node = 0; node < nodes_.size(); ++node) {
    const uint64_t used = nodes_[node].daemon->home->pool(Kind::kDram).bytes_used;
    if (used != 0) violate("W7: " + std::to_string(used) + " bytes are used on " + name_of(node));
    if (used != 0 && trace) tell_of_what_is_left(node);
    const control::Voter& voter = nodes_[node].daemon->cluster->quorum().voter();
    const auto remembered = voter.ledger().state(nodes_[node].daemon->env->now_ns()).parts;
    const auto lost = std::count_if(remembered.begin(), remembered.end(),
                                    [](const auto& part) { return !part.second.lost.empty(); });
    const bool is_newest =
        coordinator() && voter.council().id == coordinator()->cluster->quorum().newest().id;
    if (is_newest && voter.votes() && lost != 0)
      violate("W7: the voter of " + name_of(node) + " remembers " + std::to_string(lost) +
              " parts, and every node runs again");
  }
}

}  // namespace ocm::simulation
