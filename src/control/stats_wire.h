// Figures in messages: those of another daemon are only shown, so nothing is wrong with any of them.
//
// Threads: any. Pure.
#pragma once

#include "control.pb.h"
#include "control/stats.h"

namespace ocm::control {

Stats from_wire(const wire::Stats& message);
/// `out` is empty.
void to_wire(const Stats& stats, wire::Stats& out);

StopCheck from_wire(const wire::StopCheck& message);
/// `out` is empty.
void to_wire(const StopCheck& found, wire::StopCheck& out);

}  // namespace ocm::control
