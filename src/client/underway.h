// The asynchronous operations of a session whose handles exist: what a fence waits for.
//
// Threads: any. An operation enters when it was started and leaves before its handle is destroyed.
#pragma once

#include <atomic>
#include <mutex>

#include "client/operation.h"

namespace ocm::client {

class UnderWay {
 public:
  void enter(Operation& operation);
  void leave(Operation& operation);
  /// Moves everything that touches `allocation` (null: everything); true when all of it is done.
  bool step(const Allocation* allocation);
  /// Until step() is true. Ends by itself: operations without progress fail.
  void drain(const Allocation* allocation);
  /// Everything that is_before() the operation is done. It stays so.
  bool is_first(const Operation& operation);
  /// drain(), and then nothing refers to the allocation any more: it is about to end.
  void detach(const Allocation* allocation);

 private:
  bool is_first_locked(const Operation& operation) const;

  std::mutex mutex_;
  std::atomic<uint32_t> count_{0};
  Operation* first_ = nullptr;
};

}  // namespace ocm::client
