// One request of a connection for bytes that are on a device, while the device has it.
//
//   made --get(), put(), atomic()--> the device's --> is_done() --> its reply is queued, in the order of the requests
//
// Invariants
//   G1 What the device uses lives until it is done with it, whatever becomes of the connection.
//   G2 The worker's bell rings for the connection after is_done().
// Threads: the connection's worker; the device sets what is_done() publishes.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#include "base/assert.h"
#include "fabric/served.h"
#include "fabric/tcp/bell.h"
#include "fabric/tcp/buffers.h"
#include "wire/frame.h"

namespace ocm::fabric::tcp {

class StagedOp : public std::enable_shared_from_this<StagedOp> {
 public:
  /// Null: no memory for `bytes`.
  static std::shared_ptr<StagedOp> make(const wire::FrameHeader& header, std::shared_ptr<ServedExtent> extent,
                                        uint64_t bytes) {
    std::unique_ptr<std::byte[]> buffer(new (std::nothrow) std::byte[bytes]);
    if (buffer == nullptr) return nullptr;
    return std::shared_ptr<StagedOp>(new StagedOp(header, std::move(extent), std::move(buffer), bytes));
  }

  const wire::FrameHeader& header() const { return header_; }
  const std::shared_ptr<ServedExtent>& extent() const { return extent_; }
  std::byte* buffer() const { return buffer_.get(); }
  uint64_t bytes() const { return bytes_; }

  /// `who` is who the bell rings for.
  void get(const std::shared_ptr<Bell>& bell, const void* who) {
    OCM_ASSERT(extent_ != nullptr && !is_done());  // G1
    bell->begin();
    extent_->staged->read(header_.offset, {buffer_.get(), bytes_}, done(bell, who));
  }
  void put(const std::shared_ptr<Bell>& bell, const void* who) {
    OCM_ASSERT(extent_ != nullptr && !is_done());  // G1
    bell->begin();
    extent_->staged->write(header_.offset, {buffer_.get(), bytes_}, done(bell, who));
  }
  void atomic(const std::shared_ptr<Bell>& bell, const void* who, OpCode opcode, uint64_t expected) {
    OCM_ASSERT(extent_ != nullptr && !is_done());  // G1
    bell->begin();
    extent_->staged->modify(
        header_.offset,
        [op = shared_from_this(), opcode, expected](std::byte* word) {
          if (opcode == OpCode::kNotify) {
            apply_notify(word, op->header_.operand);
          } else {
            op->old_ = apply_atomic(opcode, word, op->header_.operand, expected);
          }
        },
        done(bell, who));
  }
  /// Of an extent that was removed before the device got it: refuse() follows.
  void let_go() { extent_.reset(); }
  /// It is not for the device.
  void refuse(Code code) {
    OCM_ASSERT(code != Code::kOk && !is_done());
    code_ = code;
    done_.store(true, std::memory_order_release);
  }

  bool is_done() const { return done_.load(std::memory_order_acquire); }
  // Once it is.
  Code code() const { return code_; }
  uint64_t old() const { return old_; }

  uint64_t timed_since_ns = 0;  // not 0: it is timed
  Buffers::Taken taken;         // for its buffer

 private:
  StagedOp(const wire::FrameHeader& header, std::shared_ptr<ServedExtent> extent,
           std::unique_ptr<std::byte[]> buffer, uint64_t bytes)
      : header_(header), extent_(std::move(extent)), buffer_(std::move(buffer)), bytes_(bytes) {}

  Staged::Done done(const std::shared_ptr<Bell>& bell, const void* who) {
    return [op = shared_from_this(), bell, who](const Status& status) mutable {
      op->code_ = status.code();
      op->done_.store(true, std::memory_order_release);
      op.reset();  // the extent may end here, before the bell says that nothing is under way
      bell->end(who);
    };
  }

  const wire::FrameHeader header_;
  std::shared_ptr<ServedExtent> extent_;
  const std::unique_ptr<std::byte[]> buffer_;
  const uint64_t bytes_;
  Code code_ = Code::kOk;
  uint64_t old_ = 0;
  std::atomic<bool> done_{false};
};

}  // namespace ocm::fabric::tcp
