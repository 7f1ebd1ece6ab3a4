// Between messages and the values of control/council.h. Of a field of a wrong length zeros are made: such a run is no run, and
// equals none. Whether what came is a council is asked by who goes by it: one that is not still tells that there is one.
//
// Threads: any. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "control.pb.h"
#include "control/council.h"

namespace ocm::control {

void to_wire(const Council& council, wire::Council& out);
Council from_wire(const wire::Council& message);

void to_wire(const RememberedRun& run, wire::RememberedRun& out);
/// The first `most` of them, without those whose incarnation has another length than 16 bytes: they are no voter's.
using RememberedRuns = google::protobuf::RepeatedPtrField<wire::RememberedRun>;
std::vector<RememberedRun> remembered_from(const RememberedRuns& messages, size_t most = SIZE_MAX);
/// Of the runs that it remembers the first kRememberedRunsMax.
VoterRun voter_run_from(const std::string& incarnation, const RememberedRuns& remembered);

void to_wire(const Leader& leader, wire::Leader& out);
Leader from_wire(const wire::Leader& message);

/// Of the councils that it remembers the first kRememberedRunsMax.
VoterReport voter_report_from(const wire::Heartbeat& beat);

}  // namespace ocm::control
