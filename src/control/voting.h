// What those who vote in councils are asked and answer, and what they remember of it (control/quorum.h). Values only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "control/council.h"
#include "control/loss.h"
#include "control/notes.h"
#include "control/seat.h"

namespace ocm::control {

/// What one sealed voter knew, or several of them together.
struct VoterState {
  LossState losses;
  SeatsLeft seats_ns;  // votes for the seat that still run
  NameNotes notes;
};
/// Adds what one sealed voter knew.
inline void merge(VoterState& into, const VoterState& from) {
  merge(into.losses, from.losses);
  merge(into.seats_ns, from.seats_ns);
  into.notes.merge(from.notes);
}

/// A council and what it was made of: what a succession decides (control/succession.h).
struct MadeCouncil {
  Council council;
  VoterState state;
  std::vector<Council> follows;

  std::vector<uint64_t> bases() const {
    std::vector<uint64_t> out;
    out.reserve(follows.size());
    for (const Council& base : follows) out.push_back(base.id);
    return out;
  }
};

// ---- to a voter, of a home

struct LeaseVote {
  uint64_t council = 0;
  uint32_t partition = 0;
  std::string node;                          // whose home it is; empty: it did not say
  std::vector<ExtentId> freed;               // of what this voter told to free
  std::vector<ExtentId> gone;                // of what this voter watches: not here any more
  std::optional<Incarnation> seat;           // this run of the council's coordinator asks for the seat too
  std::optional<Incarnation> seat_given_up;  // this run of it acts no more
  HomeEnd end;                               // R11 of control/loss.h
  bool tell_all = false;                     // that the home must know before it ends
  uint32_t freed_before = 0;  // it has freed all replicas of earlier generations of this run; 0: none
};
struct LeaseGrant {
  bool granted = false;
  bool seat = false;  // granted, too
  bool over = false;  // not granted: this run of the daemon is taken for over, R8 of control/loss.h
  std::vector<ExtentId> dropped;  // to be freed before the vote counts
  std::vector<LossLedger::Vote::Watched> watched;
  std::optional<Council> council;  // the voter's, where the asker's is another
  std::optional<VoterRun> run;     // of the voter's daemon
};

// ---- to a voter, of the coordinator

struct NoteRequest {
  uint64_t council = 0;
  Incarnation by;  // the coordinator's run; zeros: of none
  std::vector<NameNote> notes;
};

// ---- to a voter, of who makes the next council

struct SealRequest {
  uint64_t council = 0;
  Ballot ballot;
  bool tell = false;      // what the council was made of
  Incarnation candidate;  // the run of the daemon that asks; zeros: of none
};
struct CouncilPromise {
  bool agreed = false;
  bool remembered = false;  // by a later run of the voter's daemon (Q9)
  Ballot promised;
  Ballot accepted_at;  // round 0: nothing accepted
  VoterState state;
  std::optional<MadeCouncil> accepted;
  std::optional<MadeCouncil> made_of;
};
struct Proposal {
  uint64_t council = 0;
  Ballot ballot;
  MadeCouncil next;
};

// ---- what a voter must not forget (Q9)

struct VoterMemory {
  std::string name;
  Incarnation incarnation;
  std::optional<MadeCouncil> made_of;  // its council; none: it votes in none, and home_in is all that counts
  Ballot promised;                     // round 0: it votes
  Ballot accepted_at;                  // round 0: nothing accepted
  std::optional<MadeCouncil> accepted;
  LossState losses;  // its votes are over
  NameNotes notes;
  std::vector<Council> home_in;  // that its home, or the next run's, came to: of each chain the newest
};
/// What became different of a VoterMemory, in the same council.
struct VoterChange {
  Ballot promised, accepted_at;
  std::optional<MadeCouncil> accepted;  // none: as before
  LossChange losses;
  std::vector<NameNote> notes;
  std::vector<Council> home_in;  // all, or none if they are as before
};

}  // namespace ocm::control
