// One piece of a copy, while its bytes are moved: what is here of its two ends, checked before and after.
//
//   begin() -- the bytes come to target(), from source() or from another home, which checks its end -- end()
//
// Threads: any, one at a time.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "base/assert.h"
#include "base/fault.h"
#include "fabric/served.h"
#include "node/copy_queue.h"

namespace ocm::node {

class CopyPiece {
 public:
  /// The next `bytes_max` of the job or what is left of it, at the time that `now` tells.
  /// Errors: kNotFound, kRevoked, kNoMemory, kOutOfRange, kPeerLost (a replica without its lease).
  template <class Now>
  static Result<CopyPiece> begin(fabric::ExtentDirectory& directory, const CopyJob& job, uint64_t bytes_max,
                                 Now now) {
    OCM_DASSERT(job.moved <= job.bytes);
    CopyPiece out;
    out.bytes_ = std::min(bytes_max, job.bytes - job.moved);
    out.target_at_ = job.target_offset + job.moved;
    out.source_at_ = job.source_offset + job.moved;
    OCM_TRY_ASSIGN(out.target_, directory.open(job.target));
    if (job.source_is_here) {
      OCM_TRY_ASSIGN(out.source_, directory.open(job.source));
    }
    OCM_TRY(out.check(now));
    OCM_DASSERT(out.bytes_ <= bytes_max && out.source_is_here() == job.source_is_here);
    return out;
  }
  uint64_t bytes() const { return bytes_; }
  uint64_t source_at() const { return source_at_; }
  bool source_is_here() const { return source_ != nullptr; }
  /// Where the target's bytes are, or the source's, which is here. Null: on a device.
  std::byte* target() const { return target_->data != nullptr ? target_->data + target_at_ : nullptr; }
  const std::byte* source() const {
    OCM_DASSERT(source_is_here());
    return source_->data != nullptr ? source_->data + source_at_ : nullptr;
  }
  /// From there, or to there; waits for it.
  Status read_source(std::byte* into) const {
    OCM_DASSERT(source_is_here() && source_->staged != nullptr);
    return wait_for_device([&](auto done) { source_->staged->read(source_at_, {into, bytes_}, done); });
  }
  Status write_target(const std::byte* from) const {
    OCM_DASSERT(target_->staged != nullptr);
    return wait_for_device([&](auto done) { target_->staged->write(target_at_, {from, bytes_}, done); });
  }

  /// Good: what was loaded was good to be read, and what was stored is there. Errors: those of begin().
  template <class Now>
  Status end(CopyJob& job, Now now) const {
    std::atomic_thread_fence(std::memory_order_acquire);  // the check is of what was loaded
    OCM_DASSERT(bytes_ <= job.bytes - job.moved);
    job.moved += bytes_;
    return check(now);
  }

 private:
  template <class Now>
  Status check(Now now) const {
    using fabric::OpCode;
    if (fault::at(fault::Point::kCopyNotChecked)) return {};
    Code code = fabric::check_access_at(*target_, Access::kReadWrite, OpCode::kPut, target_at_, bytes_, now);
    if (code == Code::kOk && source_)
      code = fabric::check_access_at(*source_, Access::kRead, OpCode::kGet, source_at_, bytes_, now);
    if (code == Code::kPeerLost) return Status(code, "the lease of a replica has ended");
    return code;
  }

  std::shared_ptr<fabric::ServedExtent> target_, source_;
  uint64_t bytes_ = 0, target_at_ = 0, source_at_ = 0;
};

}  // namespace ocm::node
