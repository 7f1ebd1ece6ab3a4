#include "invariants.h"

#include <algorithm>
#include <cstring>

#include "world.h"

namespace ocm::simulation {
namespace {

/// Replicas are served there now.
bool has_lease(const Daemon& daemon) {
  return daemon.core->lease_until_ns->load(std::memory_order_relaxed) > daemon.env->now_ns();
}

bool is_in_newest(const Memory& memory, size_t piece) {
  return std::find(memory.newest.begin(), memory.newest.end(), piece) != memory.newest.end();
}

bool is_of(const control::Council& council, const node::Core& core) {
  return council.has(core.name, core.incarnation);
}

}  // namespace

void Invariants::check() {
  ++round_;
  lost_replicas_are_not_served();
  leases_stand_on_votes();
  voters_are_of_their_councils();
  councils_continue();
  former_replicas_are_silent();
  if (round_ % 5 == 0) {
    one_council_votes();
    replicas_have_what_was_acknowledged();
  }
  if (round_ % 25 == 0) {
    losses_agree();
    homes_are_valid();
    generations_are_new();
    names_are_valid();
    removed_names_stay_away();
  }
}

void Invariants::violate(const std::string& what) {
  if (told_.insert(what).second) world_.violate(what);
}

Daemon* Invariants::home_of(const Memory& memory, size_t piece) const {
  const Memory::Piece& one = memory.pieces[piece];
  return world_.life(one.node) == one.life ? world_.daemon(one.node).get() : nullptr;
}

void Invariants::lost_replicas_are_not_served() {
  if (world_.voters_forget) return;
  for (const auto& [id, memory] : world_.memories) {
    for (size_t i = 0; i < memory->pieces.size(); ++i) {
      const Memory::Piece& piece = memory->pieces[i];
      if (!piece.drop_answered) continue;
      const Daemon* home = home_of(*memory, i);
      if (home != nullptr && has_lease(*home) && home->home->has(piece.id))
        violate("Q1: " + name_of(piece.node) + " serves a replica whose loss was answered");
    }
  }
}

void Invariants::leases_stand_on_votes() {
  for (size_t node = 0; node < world_.nodes(); ++node) {
    const auto home = world_.daemon(node);
    if (!home || !has_lease(*home)) continue;
    const control::Council& council = home->cluster->quorum().holder().council();
    size_t votes = 0;
    for (const control::VoterInfo& voter : council.voters) {
      const auto daemon = world_.daemon(node_of_name(voter.name));
      // Of another run nobody knows any more; one that has not heard of the council may have voted in the
      // former.
      if (!daemon || daemon->core->incarnation != voter.incarnation ||
          daemon->cluster->quorum().voter().council().id != council.id) {
        ++votes;
        continue;
      }
      const control::LossLedger& ledger = daemon->cluster->quorum().voter().ledger();
      votes += ledger.vote_until_ns(home->core->partition) > daemon->env->now_ns() ? 1 : 0;
    }
    if (votes < control::majority(council))
      violate("Q2: " + name_of(node) + " has a lease without a majority");
  }
}

void Invariants::one_council_votes() {
  std::map<uint64_t, std::pair<control::Council, size_t>> voting;  // by id: how many vote in it
  for (size_t node = 0; node < world_.nodes(); ++node) {
    const auto daemon = world_.daemon(node);
    if (!daemon || !daemon->cluster->quorum().voter().votes()) continue;
    auto& [council, votes] = voting[daemon->cluster->quorum().voter().council().id];
    council = daemon->cluster->quorum().voter().council();
    ++votes;
  }
  for (auto one = voting.begin(); one != voting.end(); ++one) {
    for (auto other = std::next(one); other != voting.end(); ++other) {
      const auto& [a, votes_a] = one->second;
      const auto& [b, votes_b] = other->second;
      const bool both = votes_a >= control::majority(a) && votes_b >= control::majority(b);
      if (both && (control::continues(a, b) || control::continues(b, a)))
        violate("Q4: a council acts, and so does one that it continues");
    }
  }
}

void Invariants::voters_are_of_their_councils() {
  for (size_t node = 0; node < world_.nodes(); ++node) {
    const auto daemon = world_.daemon(node);
    if (!daemon) continue;
    const control::Voter& voter = daemon->cluster->quorum().voter();
    if (!voter.votes()) continue;
    if (!is_of(voter.council(), *daemon->core))
      violate("Q5: " + name_of(node) + " votes in a council of another run");
    const control::Council& home_in = daemon->cluster->quorum().holder().council();
    if (home_in.voters.size() == 1 && !is_of(home_in, *daemon->core) &&
        home_in.number > voter.council().number && control::continues(home_in, voter.council()))
      violate("Q7: " + name_of(node) + " votes in a council that its home has left for one of another voter");
    Followed& known = followed_[daemon->run()];
    const uint64_t id = voter.council().id;
    if (known.votes_in == id) continue;
    for (const control::Council& before : known.voted_in) {
      const bool is_later = before.number > voter.council().number;
      if (before.id == id || (is_later && control::continues(before, voter.council())))
        violate("Q3, Q8: " + name_of(node) + " votes in a council that it left, or in one before it");
    }
    known.voted_in.push_back(voter.council());
    known.votes_in = id;
  }
}

void Invariants::councils_continue() {
  for (size_t node = 0; node < world_.nodes(); ++node) {
    const auto daemon = world_.daemon(node);
    if (!daemon) continue;
    Followed& before = followed_[daemon->run()];
    const control::Council& council = daemon->cluster->quorum().holder().council();
    const std::vector<ExtentId> replicas = daemon->home->directory().replicas();
    const bool other = before.council.id != 0 && council.id != before.council.id &&
                       !control::continues(council, before.council);
    for (const ExtentId& id : replicas) {
      if (other && std::find(before.replicas.begin(), before.replicas.end(), id) != before.replicas.end())
        violate("Q6: " + name_of(node) +
                " kept a replica and went to a council that does not continue its own");
    }
    if (council.id != before.council.id) before.council = council;
    before.replicas = replicas;
  }
}

void Invariants::losses_agree() {
  struct Known {
    uint64_t council;
    control::LossState state;
  };
  std::vector<Known> all;
  for (size_t node = 0; node < world_.nodes(); ++node) {
    const auto daemon = world_.daemon(node);
    if (!daemon) continue;
    const control::Voter& voter = daemon->cluster->quorum().voter();
    if (!voter.ledger().is_valid()) violate("R2: the ledger of " + name_of(node) + " is not valid");
    if (voter.votes()) all.push_back({voter.council().id, voter.ledger().state(daemon->env->now_ns())});
  }
  // R8: a voter that heard so of all of them has forgotten the part, and who asks late decides anew, about nothing.
  const auto lives = [this](const ExtentId& replica) {
    for (size_t node = 0; node < world_.nodes(); ++node) {
      const auto daemon = world_.daemon(node);
      if (daemon && daemon->home->is_here(replica)) return true;
    }
    return false;
  };
  std::map<ExtentId, std::set<ExtentId>> lost;  // by the first replica of the part
  for (const Known& known : all) {
    for (const auto& [first, part] : known.state.parts) {
      for (const auto& one : part.lost) world_.decided_lost.insert(one.id);
      if (std::none_of(part.replicas.begin(), part.replicas.end(), lives)) continue;
      for (const auto& one : part.lost) lost[first].insert(one.id);
      if (lost[first].size() >= part.replicas.size()) violate("R2: every replica of a part was decided lost");
      for (const Known& other : all) {
        const auto theirs = other.state.parts.find(first);
        if (other.council != known.council || theirs == other.state.parts.end()) continue;
        const size_t both = std::min(part.lost.size(), theirs->second.lost.size());
        for (size_t i = 0; i < both; ++i) {
          if (part.lost[i].id != theirs->second.lost[i].id)
            violate("R1: two voters know different decisions of one instance");
        }
        if (!part.ended) continue;
        const bool other_end = theirs->second.ended && *theirs->second.ended != *part.ended;
        if (other_end || theirs->second.lost.size() > part.lost.size())
          violate("R9: a part ended, and something else was decided");
      }
    }
  }
}

void Invariants::homes_are_valid() {
  for (size_t node = 0; node < world_.nodes(); ++node) {
    const auto daemon = world_.daemon(node);
    if (daemon && !daemon->home->is_valid())
      violate("T1 to T3, T5, L1, L2 or L4: the home of " + name_of(node) + " is not valid");
    if (daemon && !daemon->remaker->is_valid())
      violate("L6: the home of " + name_of(node) + " has what no name here knows");
    if (daemon && !daemon->service->events().is_valid())
      violate("V1, V4, U1 or U2: what " + name_of(node) + " watches or tells its programs is not valid");
    if (daemon && !daemon->sessions->is_valid())
      violate("P3: the sessions of " + name_of(node) + " are not valid");
    if (daemon && daemon->let_in_older)
      violate("G2: " + name_of(node) + " let in an older connection of a program");
  }
}

void Invariants::generations_are_new() {
  for (const auto& [id, memory] : world_.memories) {
    for (const Memory::Piece& piece : memory->pieces) {
      std::string& made_for = made_for_[piece.id];
      if (!made_for.empty() && made_for != id && world_.memories.contains(made_for))
        violate("T4: an extent of " + name_of(piece.node) + " has the id of another");
      made_for = id;  // also of what was joined, whose parts are no allocations any more
    }
  }
}

void Invariants::names_are_valid() {
  const auto daemon = world_.coordinator();
  if (daemon && !daemon->cluster->registry().is_valid()) violate("N1: the registry is not valid");
}

void Invariants::removed_names_stay_away() {
  const auto daemon = world_.coordinator();
  if (!daemon) return;
  for (const auto& [id, memory] : world_.memories) {
    if (memory->state != Memory::State::kRemoved || memory->removed_ns < world_.coordinator_since_ns())
      continue;
    const control::Allocation* named = daemon->cluster->registry().find(memory->name);
    if (named != nullptr && named->id == wire::id_from<AllocationId>(id))
      violate("N2: the removed name " + memory->name + " is back");
  }
}

bool Invariants::may_be_read_yet(const Memory& memory, size_t piece) const {
  const Memory::Piece& one = memory.pieces[piece];
  const Daemon* home = home_of(memory, piece);
  if (home == nullptr || home->home->plan_of(one.id) == nullptr) return false;
  return std::any_of(memory.newest.begin(), memory.newest.end(), [&](size_t i) {
    const Memory::Piece& now = memory.pieces[i];
    const bool is_there = now.part == one.part && now.node == one.node && now.life == one.life;
    return is_there && !now.drop_answered && !home->home->has(now.id);
  });
}

void Invariants::replicas_have_what_was_acknowledged() {
  for (const auto& [id, memory] : world_.memories) {
    if (!memory->replicated()) continue;
    const size_t cells = memory->cells_per_part();
    for (size_t i = 0; i < memory->pieces.size(); ++i) {
      const Memory::Piece& piece = memory->pieces[i];
      Daemon* const home = piece.is_given_up() ? nullptr : home_of(*memory, i);
      if (home == nullptr || !home->home->has(piece.id)) continue;
      if (!is_in_newest(*memory, i) && !(has_lease(*home) && may_be_read_yet(*memory, i))) continue;
      const auto served = home->home->directory().open(piece.id);
      if (!served.is_ok()) continue;
      uint64_t copied = 0;
      std::memcpy(&copied, served.value()->data + kCopiesAt, 8);
      if (memory->layout == Layout::kReplicated && copied < memory->copied)
        violate("M1: a replica on " + name_of(piece.node) + " of \"" + memory->name + "\" has " +
                std::to_string(copied) + " where " + std::to_string(memory->copied) + " was copied to");
      for (size_t cell = 0; cell < cells; ++cell) {
        uint64_t value = 0;
        std::memcpy(&value, served.value()->data + 8 * cell, 8);
        const Cell& known = memory->cells[piece.part * cells + cell];
        if (value < known.acked || value > known.issued)
          violate("M1: a replica on " + name_of(piece.node) + " has " + std::to_string(value) + " in cell " +
                  std::to_string(cell) + " of \"" + memory->name + "\"; acknowledged " +
                  std::to_string(known.acked) + ", issued " + std::to_string(known.issued));
      }
    }
  }
}

void Invariants::former_replicas_are_silent() {
  for (const auto& [id, memory] : world_.memories) {
    if (memory->pieces.size() == memory->newest.size()) continue;
    for (size_t i = 0; i < memory->pieces.size(); ++i) {
      const Memory::Piece& piece = memory->pieces[i];
      const Daemon* home = piece.is_given_up() ? nullptr : home_of(*memory, i);
      if (home == nullptr || is_in_newest(*memory, i) || may_be_read_yet(*memory, i)) continue;
      if (has_lease(*home) && home->home->has(piece.id))
        violate("M3: " + name_of(piece.node) + " serves " + piece.id.address.to_string() +
                ", a replica of a part that was made again");
    }
  }
}

}  // namespace ocm::simulation
