// The checked ways into Operation: every range is validated here, at the client, before anything is moved.
// (The home checks again: this is for a clear message, that is for safety.)
#pragma once

#include "client/operation.h"
#include "client/runs.h"

namespace ocm::client {

/// Errors: kOutOfRange, kPermission (a write to a read-only attachment), kInvalidArgument.
Status check_end(const End& end, uint64_t bytes, bool write);
/// check_end for both ends of `rows` runs with strides.
Status check_rows(const Run& first, uint64_t target_stride, uint64_t source_stride, uint64_t rows);
Status check_segments(const Allocation& allocation, bool put, const Segment* segments, size_t count,
                      uint64_t* bytes_total);

/// Waits for operations that later ones on this allocation must not overtake. Errors: kDeadline (interrupted).
Status keep_order(Session& session, Allocation* allocation, bool put);
/// Counts one operation on the session page.
void count_put(Session& session, uint64_t bytes);
void count_get(Session& session, uint64_t bytes);

/// Starts a transfer whose ranges were checked; `copies`: both ends are allocations.
void start_transfer(Operation& operation, Session& session, Runs runs, bool copies, uint64_t bytes);
/// The same, until complete remotely, or interrupted (kDeadline).
Status transfer(Session& session, Runs runs, uint64_t bytes);

/// Between any two of {pointer, allocation}. Errors: kInvalidArgument (overlap in one allocation).
Status check_copy(const End& target, const End& source, uint64_t bytes);

}  // namespace ocm::client
