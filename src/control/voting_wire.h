// Between messages and the values of control/voting.h, and of those of control/loss.h that voters are asked and answer. What
// other voters knew is read part by part: one that cannot have been is left out, for the others count all the same.
//
// Threads: any. Pure. Whether it is a council that a message names is asked by who goes by it (is_council()).
#pragma once

#include <cstdint>

#include "base/status.h"
#include "control.pb.h"
#include "control/voting.h"

namespace ocm::control {

/// One step of a decision about a part, to be taken in that council.
void to_wire(const LossRequest& request, uint64_t council, wire::LoseReplica& out);
/// Errors: kInvalidArgument (an unknown phase).
Result<LossRequest> from_wire(const wire::LoseReplica& message);
void to_wire(const LossAnswer& answer, wire::ReplicaLosing& out);
LossAnswer from_wire(const wire::ReplicaLosing& message);

void to_wire(const LeaseVote& vote, wire::LeaseVote& out);
LeaseVote from_wire(const wire::LeaseVote& message);
void to_wire(const LeaseGrant& grant, wire::LeaseGranted& out);
LeaseGrant from_wire(const wire::LeaseGranted& message);

void to_wire(const VoterState& state, wire::VoterState& out);
VoterState from_wire(const wire::VoterState& message);
void to_wire(const MadeCouncil& made, wire::InstallCouncil& out);
MadeCouncil from_wire(const wire::InstallCouncil& message);

void to_wire(const NoteRequest& request, wire::NoteNames& out);
NoteRequest from_wire(const wire::NoteNames& message);

void to_wire(const SealRequest& request, wire::SealCouncil& out);
SealRequest from_wire(const wire::SealCouncil& message);
void to_wire(const CouncilPromise& promise, wire::CouncilPromise& out);
CouncilPromise from_wire(const wire::CouncilPromise& message);
void to_wire(const Proposal& proposal, wire::ProposeCouncil& out);
Proposal from_wire(const wire::ProposeCouncil& message);

void to_wire(const VoterMemory& memory, wire::VoterMemory& out);
/// Errors: kProtocol (it is of no run of a daemon).
Result<VoterMemory> from_wire(const wire::VoterMemory& message);
void to_wire(const VoterChange& change, wire::VoterChange& out);
VoterChange from_wire(const wire::VoterChange& message);

}  // namespace ocm::control
