#include "control/council_wire.h"

#include <algorithm>

#include "wire/convert.h"

namespace ocm::control {

void to_wire(const Council& council, wire::Council& out) {
  out.set_id(council.id);
  out.set_number(council.number);
  out.mutable_chains()->Assign(council.chains.begin(), council.chains.end());
  out.clear_voters();
  for (const VoterInfo& voter : council.voters) {
    wire::Voter& added = *out.add_voters();
    added.set_name(voter.name);
    added.set_incarnation(wire::id_field(voter.incarnation));
    added.set_address(voter.address);
  }
  out.mutable_after()->Assign(council.after.begin(), council.after.end());
  out.mutable_instead_of()->Assign(council.instead_of.begin(), council.instead_of.end());
}

Council from_wire(const wire::Council& message) {
  Council out;
  out.id = message.id();
  out.number = message.number();
  out.chains.assign(message.chains().begin(), message.chains().end());
  out.voters.reserve(static_cast<size_t>(message.voters_size()));
  for (const wire::Voter& voter : message.voters())
    out.voters.push_back({voter.name(), wire::id_from<Incarnation>(voter.incarnation()), voter.address()});
  out.after.assign(message.after().begin(), message.after().end());
  out.instead_of.assign(message.instead_of().begin(), message.instead_of().end());
  return out;
}

void to_wire(const RememberedRun& run, wire::RememberedRun& out) {
  out.set_incarnation(wire::id_field(run.incarnation));
  out.set_council(run.council);
}

std::vector<RememberedRun> remembered_from(const RememberedRuns& messages, size_t most) {
  std::vector<RememberedRun> out;
  const size_t count = std::min(static_cast<size_t>(messages.size()), most);
  out.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const wire::RememberedRun& one = messages.Get(static_cast<int>(i));
    RememberedRun run{{}, one.council()};
    if (wire::read_id(one.incarnation(), run.incarnation)) out.push_back(run);
  }
  return out;
}

VoterRun voter_run_from(const std::string& incarnation, const RememberedRuns& remembered) {
  return {wire::id_from<Incarnation>(incarnation), remembered_from(remembered, kRememberedRunsMax)};
}

void to_wire(const Leader& leader, wire::Leader& out) {
  to_wire(leader.council, *out.mutable_council());
  out.clear_remembered();
  for (const Council& council : leader.remembered) to_wire(council, *out.add_remembered());
  out.set_founds(leader.founds);
  out.set_node(leader.node);
}

Leader from_wire(const wire::Leader& message) {
  Leader out;
  out.council = from_wire(message.council());
  out.remembered.reserve(static_cast<size_t>(message.remembered_size()));
  for (const wire::Council& council : message.remembered()) out.remembered.push_back(from_wire(council));
  out.founds = message.founds();
  out.node = message.node();
  return out;
}

VoterReport voter_report_from(const wire::Heartbeat& beat) {
  VoterReport out;
  out.node = beat.self().name();
  out.run = voter_run_from(beat.self().incarnation(), beat.self().remembered());
  out.council = from_wire(beat.council());
  const int count = std::min(beat.remembered_size(), static_cast<int>(kRememberedRunsMax));
  out.remembered.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) out.remembered.push_back(from_wire(beat.remembered(i)));
  return out;
}

}  // namespace ocm::control
