// One 2013 allocation: a local buffer and, for the remote kinds, a buffer somewhere in the cluster.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "capi/oncillamem/local_buffer.h"
#include "oncilla/oncillamem.h"
// The 2013 header first: see there.
#include "oncilla/oncilla.h"

namespace ocm::oncillamem {

bool is_remote(enum ocm_kind kind);

/// Threads: any, at once; two calls that write the same bytes leave either's. Every range is checked
/// against its buffer before the first byte moves.
///
/// Invariants:
///   1. local() is mapped and not empty.
///   2. There is a remote buffer exactly if the kind is remote.
///   3. Neither buffer moves or changes its length before the destructor, which ends both.
class Pair {
 public:
  /// `session` outlives the pair. A remote buffer goes to another node; to this one if it is alone.
  /// Errors: kInvalidArgument (kind, 0 bytes), kUnsupported (GPU), kNoMemory, kPoolFull, ...
  static Result<std::shared_ptr<Pair>> make(ocm_session* session, const ocm_alloc_params& params);
  ~Pair();
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  enum ocm_kind kind() const { return kind_; }
  bool is_remote() const { return remote_ != nullptr; }
  const LocalBuffer& local() const { return local_; }
  uint64_t remote_bytes() const { return remote_bytes_; }
  /// Leaves the remote buffer to the end of its session, which frees all of them at once. No call on
  /// this pair may be under way or follow.
  void abandon_remote() { remote_ = nullptr; }

  /// remote[remote_offset, +bytes) <- local[local_offset, +bytes). kInvalidArgument without a remote.
  Status write(uint64_t local_offset, uint64_t remote_offset, uint64_t bytes);
  /// local[local_offset, +bytes) <- remote[remote_offset, +bytes).
  Status read(uint64_t local_offset, uint64_t remote_offset, uint64_t bytes);
  /// ocm_copy with op_flag 1; `params.op_flag` is not read. `target` may be `source`.
  static Status copy(Pair& target, Pair& source, const ocm_params& params);

 private:
  Pair(enum ocm_kind kind, LocalBuffer local) : kind_(kind), local_(std::move(local)) {}
  Status check_local(uint64_t offset, uint64_t bytes) const;
  Status check_remote(uint64_t offset, uint64_t bytes) const;
  static Status copy_remote(Pair& target, Pair& source, const ocm_params& params);
  Status move_within_remote(uint64_t to, uint64_t from, uint64_t bytes);

  const enum ocm_kind kind_;
  LocalBuffer local_;
  ocm_allocation* remote_ = nullptr;
  uint64_t remote_bytes_ = 0;
};

}  // namespace ocm::oncillamem
