#include "control/voting_wire.h"

#include <string>
#include <utility>

#include "base/assert.h"
#include "base/text.h"
#include "control/council_wire.h"
#include "control/membership.h"
#include "wire/convert.h"

namespace ocm::control {
namespace {

using wire::add_refs;
using wire::id_field;
using wire::id_of;
using wire::ids_in;
using wire::set_ref;

Ballot ballot_from(const wire::Ballot& message) { return {message.round(), message.by()}; }

void ballot_to(const Ballot& ballot, wire::Ballot& out) {
  out.set_round(ballot.round);
  out.set_by(ballot.by);
}

std::optional<Incarnation> run_from(const std::string& field) {
  Incarnation out;
  if (!wire::read_id(field, out)) return std::nullopt;
  return out;
}

std::vector<Council> councils_from(const google::protobuf::RepeatedPtrField<wire::Council>& messages) {
  std::vector<Council> out;
  out.reserve(static_cast<size_t>(messages.size()));
  for (const wire::Council& one : messages) out.push_back(from_wire(one));
  return out;
}

void councils_to(const std::vector<Council>& councils,
                 google::protobuf::RepeatedPtrField<wire::Council>& out) {
  out.Reserve(static_cast<int>(councils.size()));
  for (const Council& one : councils) to_wire(one, *out.Add());
}

void losses_to(const LossState& losses, wire::VoterState& out) {
  OCM_DASSERT(out.votes().empty() && out.parts().empty());
  for (const auto& [partition, left_ns] : losses.votes_ns) {
    auto& vote = *out.add_votes();
    vote.set_partition(partition);
    vote.set_left_ns(left_ns);
    const auto node = losses.nodes.find(partition);
    if (node != losses.nodes.end()) vote.set_node(node->second);
    const auto over = losses.over.find(partition);
    if (over != losses.over.end()) vote.set_over(over->second);
    const auto end = losses.ends.find(partition);
    if (end == losses.ends.end()) continue;
    vote.set_leaving(end->second.leaving);
    vote.set_stays(end->second.stays);
  }
  out.mutable_parts()->Reserve(static_cast<int>(losses.parts.size()));
  for (const auto& [first, part] : losses.parts) {
    auto& added = *out.add_parts();
    add_refs(part.replicas, *added.mutable_replicas());
    for (const LossState::Lost& lost : part.lost) {
      set_ref(lost.id, *added.add_lost());
      added.add_freed(lost.freed);
    }
    if (part.ended) set_ref(*part.ended, *added.mutable_ended());
    add_refs(part.gone, *added.mutable_gone());
    ballot_to(part.accepted_at, *added.mutable_accepted_at());
    set_ref(part.accepted, *added.mutable_accepted());
    added.set_uid(part.uid);
  }
}

LossState losses_from(const wire::VoterState& message) {
  LossState out;
  for (const auto& vote : message.votes()) {
    out.votes_ns[vote.partition()] = vote.left_ns();
    if (check_node_name(vote.node()).is_ok()) out.nodes[vote.partition()] = vote.node();
    if (vote.over() != 0) out.over[vote.partition()] = vote.over();
    if (vote.leaving() != 0) out.ends[vote.partition()] = {vote.leaving(), vote.stays()};
  }
  for (const auto& part : message.parts()) {
    if (part.replicas_size() < 2 || part.lost_size() >= part.replicas_size() ||
        part.freed_size() != part.lost_size())
      continue;
    // As they were told, they stand in order.
    LossState::Part& added = out.parts.try_emplace(out.parts.end(), id_of(part.replicas(0)))->second;
    added.replicas = ids_in(part.replicas());
    for (int i = 0; i < part.lost_size(); ++i) added.lost.push_back({id_of(part.lost(i)), part.freed(i)});
    if (part.has_ended()) added.ended = id_of(part.ended());
    added.gone = ids_in(part.gone());
    added.accepted_at = ballot_from(part.accepted_at());
    added.accepted = id_of(part.accepted());
    added.uid = part.uid();
    OCM_DASSERT(added.lost.size() < added.replicas.size());  // R2 of loss.h
  }
  return out;
}

void note_to(const NameNote& note, wire::NameNote& out) {
  out.set_allocation_id(id_field(note.id));
  out.set_sequence(note.sequence);
  if (note.is_removal()) return;
  out.set_name(note.name);
  out.set_owner_uid(note.owner_uid);
  out.set_mode(note.mode);
  for (const std::string& home : note.homes) out.add_homes(home);
}

/// Nothing: it is of no allocation, or has no name that one could have.
std::optional<NameNote> note_from(const wire::NameNote& message) {
  constexpr int kHomesMax = 8192;  // as many as an allocation has extents
  NameNote out;
  if (!wire::read_id(message.allocation_id(), out.id) || out.id == AllocationId()) return std::nullopt;
  out.sequence = message.sequence();
  out.name = message.name();
  if (out.is_removal()) return out;
  if (!check_name(out.name).is_ok() || message.homes_size() > kHomesMax) return std::nullopt;
  out.owner_uid = message.owner_uid();
  out.mode = message.mode() & 0777u;
  for (const std::string& home : message.homes()) {
    if (check_node_name(home).is_ok()) out.homes.push_back(home);
  }
  return out;
}

void notes_to(const NameNotes& notes, wire::VoterState& out) {
  for (const AllocationId& id : notes.removed()) out.add_removed(id_field(id));
  for (const auto& [id, note] : notes.names()) note_to(note, *out.add_notes());
  out.set_notes_sequence(notes.sequence());
}

NameNotes notes_from(const wire::VoterState& message) {
  NameNotes out;
  for (const std::string& field : message.removed()) {
    NameNote removed{.id = {}, .sequence = message.notes_sequence()};
    if (wire::read_id(field, removed.id)) (void)out.take(std::move(removed));
  }
  for (const wire::NameNote& one : message.notes()) {
    if (auto note = note_from(one)) (void)out.take(std::move(*note));
  }
  return out;
}

SeatsLeft seats_from(const wire::VoterState& message) {
  constexpr size_t kHoldersMax = 16;
  SeatsLeft out;
  for (const auto& vote : message.seats()) {
    const auto holder = run_from(vote.holder());
    if (holder && out.size() < kHoldersMax) out[*holder] = vote.left_ns();
  }
  OCM_DASSERT(out.size() <= kHoldersMax);
  return out;
}

}  // namespace

void to_wire(const LossRequest& request, uint64_t council, wire::LoseReplica& out) {
  OCM_DASSERT(out.part().empty() && out.lost().empty() && out.over().empty());
  out.set_council_id(council);
  out.set_phase(static_cast<uint32_t>(request.phase));
  add_refs(request.part, *out.mutable_part());
  set_ref(request.replica, *out.mutable_replica());
  add_refs(request.lost, *out.mutable_lost());
  if (request.ended) set_ref(*request.ended, *out.mutable_ended());
  add_refs(request.over, *out.mutable_over());
  out.set_remembered(request.remembered);
  out.set_uid(request.uid);
  ballot_to(request.ballot, *out.mutable_ballot());
  out.set_promised_at_ns(request.promised_at_ns);
}

Result<LossRequest> from_wire(const wire::LoseReplica& message) {
  constexpr auto kFirst = static_cast<uint32_t>(LossRequest::Phase::kPrepare),
                 kLast = static_cast<uint32_t>(LossRequest::Phase::kLearn);
  if (message.phase() < kFirst || message.phase() > kLast)
    return Status(Code::kInvalidArgument, "unknown phase");
  LossRequest out;
  out.phase = static_cast<LossRequest::Phase>(message.phase());
  out.part = ids_in(message.part());
  out.replica = id_of(message.replica());
  out.lost = ids_in(message.lost());
  if (message.has_ended()) out.ended = id_of(message.ended());
  out.over = ids_in(message.over());
  out.remembered = message.remembered();
  out.uid = message.uid();
  out.ballot = ballot_from(message.ballot());
  out.promised_at_ns = message.promised_at_ns();
  return out;
}

void to_wire(const LossAnswer& answer, wire::ReplicaLosing& out) {
  out.set_agreed(answer.agreed);
  ballot_to(answer.promised, *out.mutable_promised());
  ballot_to(answer.accepted_at, *out.mutable_accepted_at());
  set_ref(answer.accepted, *out.mutable_accepted());
  add_refs(answer.lost, *out.mutable_lost());
  if (answer.ended) set_ref(*answer.ended, *out.mutable_ended());
  out.set_at_ns(answer.at_ns);
  out.set_wait_ns(answer.wait_ns);
}

LossAnswer from_wire(const wire::ReplicaLosing& message) {
  LossAnswer out;
  out.agreed = message.agreed();
  out.promised = ballot_from(message.promised());
  out.accepted_at = ballot_from(message.accepted_at());
  out.accepted = id_of(message.accepted());
  out.lost = ids_in(message.lost());
  if (message.has_ended()) out.ended = id_of(message.ended());
  out.at_ns = message.at_ns();
  out.wait_ns = message.wait_ns();
  return out;
}

void to_wire(const LeaseVote& vote, wire::LeaseVote& out) {
  out.set_council_id(vote.council);
  out.set_partition(vote.partition);
  out.set_node(vote.node);
  add_refs(vote.freed, *out.mutable_freed());
  add_refs(vote.gone, *out.mutable_gone());
  if (vote.seat) out.set_seat(id_field(*vote.seat));
  if (vote.seat_given_up) out.set_seat_given_up(id_field(*vote.seat_given_up));
  out.set_leaving(vote.end.leaving);
  out.set_stays(vote.end.stays);
  out.set_tell_all(vote.tell_all);
  out.set_freed_before(vote.freed_before);
}

LeaseVote from_wire(const wire::LeaseVote& message) {
  LeaseVote out;
  out.council = message.council_id();
  out.partition = message.partition();
  if (check_node_name(message.node()).is_ok()) out.node = message.node();
  out.freed = ids_in(message.freed());
  out.gone = ids_in(message.gone());
  out.seat = run_from(message.seat());
  out.seat_given_up = run_from(message.seat_given_up());
  out.end = {message.leaving(), message.stays()};
  out.tell_all = message.tell_all();
  out.freed_before = message.freed_before();
  return out;
}

void to_wire(const LeaseGrant& grant, wire::LeaseGranted& out) {
  out.set_granted(grant.granted);
  out.set_seat(grant.seat);
  out.set_over(grant.over);
  add_refs(grant.dropped, *out.mutable_dropped());
  for (const auto& [replica, part, lost, ended, in_doubt] : grant.watched) {
    auto& watched = *out.add_watched();
    add_refs(part, *watched.mutable_part());
    set_ref(replica, *watched.mutable_replica());
    add_refs(lost, *watched.mutable_lost());
    if (ended) set_ref(*ended, *watched.mutable_ended());
    if (in_doubt) set_ref(*in_doubt, *watched.mutable_in_doubt());
  }
  if (grant.council) to_wire(*grant.council, *out.mutable_council());
  if (!grant.run) return;
  out.set_run(id_field(grant.run->incarnation));
  for (const RememberedRun& run : grant.run->remembered) to_wire(run, *out.add_remembered());
}

LeaseGrant from_wire(const wire::LeaseGranted& message) {
  LeaseGrant out;
  out.granted = message.granted();
  out.seat = message.seat();
  out.over = message.over();
  out.dropped = ids_in(message.dropped());
  out.watched.reserve(static_cast<size_t>(message.watched_size()));
  for (const auto& watched : message.watched()) {
    auto& added = out.watched.emplace_back();
    added.replica = id_of(watched.replica());
    added.part = ids_in(watched.part());
    added.lost = ids_in(watched.lost());
    if (watched.has_ended()) added.ended = id_of(watched.ended());
    if (watched.has_in_doubt()) added.in_doubt = id_of(watched.in_doubt());
  }
  if (message.has_council()) out.council = from_wire(message.council());
  if (!message.run().empty()) out.run = voter_run_from(message.run(), message.remembered());
  return out;
}

void to_wire(const VoterState& state, wire::VoterState& out) {
  losses_to(state.losses, out);
  for (const auto& [holder, left_ns] : state.seats_ns) {
    auto& vote = *out.add_seats();
    vote.set_holder(id_field(holder));
    vote.set_left_ns(left_ns);
  }
  notes_to(state.notes, out);
}

VoterState from_wire(const wire::VoterState& message) {
  return {losses_from(message), seats_from(message), notes_from(message)};
}

void to_wire(const NoteRequest& request, wire::NoteNames& out) {
  out.set_council_id(request.council);
  out.set_by(id_field(request.by));
  for (const NameNote& note : request.notes) note_to(note, *out.add_notes());
}

NoteRequest from_wire(const wire::NoteNames& message) {
  NoteRequest out;
  out.council = message.council_id();
  out.by = wire::id_from<Incarnation>(message.by());
  for (const wire::NameNote& one : message.notes()) {
    if (auto note = note_from(one)) out.notes.push_back(std::move(*note));
  }
  return out;
}

void to_wire(const MadeCouncil& made, wire::InstallCouncil& out) {
  to_wire(made.council, *out.mutable_council());
  to_wire(made.state, *out.mutable_state());
  councils_to(made.follows, *out.mutable_bases());
}

MadeCouncil from_wire(const wire::InstallCouncil& message) {
  return {from_wire(message.council()), from_wire(message.state()), councils_from(message.bases())};
}

void to_wire(const SealRequest& request, wire::SealCouncil& out) {
  out.set_council_id(request.council);
  ballot_to(request.ballot, *out.mutable_ballot());
  out.set_tell(request.tell);
  out.set_candidate(id_field(request.candidate));
}

SealRequest from_wire(const wire::SealCouncil& message) {
  return {message.council_id(), ballot_from(message.ballot()), message.tell(),
          wire::id_from<Incarnation>(message.candidate())};
}

void to_wire(const CouncilPromise& promise, wire::CouncilPromise& out) {
  out.set_agreed(promise.agreed);
  out.set_remembered(promise.remembered);
  ballot_to(promise.promised, *out.mutable_promised());
  if (!promise.agreed) return;
  to_wire(promise.state, *out.mutable_state());
  ballot_to(promise.accepted_at, *out.mutable_accepted_at());
  if (promise.accepted) to_wire(*promise.accepted, *out.mutable_accepted());
  if (promise.made_of) to_wire(*promise.made_of, *out.mutable_made_of());
}

CouncilPromise from_wire(const wire::CouncilPromise& message) {
  CouncilPromise out;
  out.agreed = message.agreed();
  out.remembered = message.remembered();
  out.promised = ballot_from(message.promised());
  if (!out.agreed) return out;
  out.accepted_at = ballot_from(message.accepted_at());
  out.state = from_wire(message.state());
  if (message.has_accepted()) out.accepted = from_wire(message.accepted());
  if (message.has_made_of()) out.made_of = from_wire(message.made_of());
  return out;
}

void to_wire(const Proposal& proposal, wire::ProposeCouncil& out) {
  out.set_council_id(proposal.council);
  ballot_to(proposal.ballot, *out.mutable_ballot());
  to_wire(proposal.next, *out.mutable_next());
}

Proposal from_wire(const wire::ProposeCouncil& message) {
  return {message.council_id(), ballot_from(message.ballot()), from_wire(message.next())};
}

void to_wire(const VoterMemory& memory, wire::VoterMemory& out) {
  out.set_name(memory.name);
  out.set_incarnation(id_field(memory.incarnation));
  councils_to(memory.home_in, *out.mutable_home_in());
  if (!memory.made_of) return;
  to_wire(*memory.made_of, *out.mutable_made_of());
  ballot_to(memory.promised, *out.mutable_promised());
  ballot_to(memory.accepted_at, *out.mutable_accepted_at());
  if (memory.accepted) to_wire(*memory.accepted, *out.mutable_accepted());
  losses_to(memory.losses, *out.mutable_state());
  notes_to(memory.notes, *out.mutable_state());
}

Result<VoterMemory> from_wire(const wire::VoterMemory& message) {
  VoterMemory out;
  out.name = message.name();
  if (!wire::read_id(message.incarnation(), out.incarnation))
    return Status(Code::kProtocol, "what a voter knew is of no run of a daemon");
  if (message.has_made_of()) out.made_of = from_wire(message.made_of());
  out.promised = ballot_from(message.promised());
  out.accepted_at = ballot_from(message.accepted_at());
  if (message.has_accepted()) out.accepted = from_wire(message.accepted());
  out.losses = losses_from(message.state());
  out.notes = notes_from(message.state());
  out.home_in = councils_from(message.home_in());
  return out;
}

void to_wire(const VoterChange& change, wire::VoterChange& out) {
  ballot_to(change.promised, *out.mutable_promised());
  ballot_to(change.accepted_at, *out.mutable_accepted_at());
  if (change.accepted) to_wire(*change.accepted, *out.mutable_accepted());
  losses_to(change.losses.state, *out.mutable_state());
  add_refs(change.losses.forgotten, *out.mutable_forgotten());
  for (const NameNote& note : change.notes) note_to(note, *out.add_notes());
  councils_to(change.home_in, *out.mutable_home_in());
}

VoterChange from_wire(const wire::VoterChange& message) {
  VoterChange out;
  out.promised = ballot_from(message.promised());
  out.accepted_at = ballot_from(message.accepted_at());
  if (message.has_accepted()) out.accepted = from_wire(message.accepted());
  out.losses = {losses_from(message.state()), ids_in(message.forgotten())};
  for (const wire::NameNote& one : message.notes()) {
    if (auto note = note_from(one)) out.notes.push_back(std::move(*note));
  }
  out.home_in = councils_from(message.home_in());
  return out;
}

}  // namespace ocm::control
