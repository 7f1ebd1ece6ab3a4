// Between messages and the values of control/council.h. Of a field of a wrong length zeros are made: such a run is no run, and
// equals none. Whether what came is a council is asked by who goes by it: one that is not still tells that there is one.
//
// Threads: any. Pure.
#pragma once

#include <string>
#include <vector>

#include "control.pb.h"
#include "control/council.h"

namespace ocm::control {

void to_wire(const Council& council, wire::Council& out);
Council from_wire(const wire::Council& message);

void to_wire(const RememberedRun& run, wire::RememberedRun& out);
/// Of the runs that it remembers the first kRememberedRunsMax, without those that are no run.
VoterRun voter_run_from(const std::string& incarnation,
                        const google::protobuf::RepeatedPtrField<wire::RememberedRun>& remembered);

void to_wire(const Leader& leader, wire::Leader& out);
Leader from_wire(const wire::Leader& message);

/// Of the councils that it remembers the first kRememberedRunsMax.
VoterReport voter_report_from(const wire::Heartbeat& beat);

}  // namespace ocm::control
