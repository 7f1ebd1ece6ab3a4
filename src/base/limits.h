// Limits that programs, daemons and tables must agree on.
#pragma once

namespace ocm {

/// Of an allocation that was joined from others, replicas included.
inline constexpr size_t kSequenceExtentsMax = 8192;

}  // namespace ocm
