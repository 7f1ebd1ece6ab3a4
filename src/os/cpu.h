// Which processor a thread runs on, and leaving it.
#pragma once

namespace ocm::os {

/// The processor this thread runs on now.
int current_cpu();

/// Moves this thread to another processor of its affinity mask; the mask stays as it was, so the scheduler
/// may move it back later. False if the mask has no other.
bool leave_cpu(int cpu);

}  // namespace ocm::os
