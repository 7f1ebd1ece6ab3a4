// Requests to a pool's device of which many are under way at once, so that nobody waits while the device works.
//
//   submit -> waiting, in order -> under way, kDepth at most -> done
//
// By io_uring; where the kernel does not let us (containers often do not), by threads with pread and pwrite.
//
// Invariants
//   Q1 `done` of each request is called once, without locks, never by submit(): by the queue's own thread, or one of them.
//   Q2 A transfer that the kernel made in part goes on where it ended: whoever hears kOk has all of it.
//   Q3 After a flush that failed each later one fails: the kernel may have dropped what it could not write.
//   Q4 The end of a queue waits for the requests that it has, those included that a `done` submits.
// Threads: any may submit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"
#include "memory/nvme/file_device.h"

namespace ocm::memory::nvme {

struct Request {
  enum class Op : uint8_t { kRead, kWrite, kFlush };
  /// kOk, or kIo. It may submit, and must not wait.
  using Done = std::function<void(Status)>;

  Op op = Op::kRead;
  uint64_t offset = 0;         // this and the two below: multiples of kBlockBytes; a flush has none
  std::byte* bytes = nullptr;  // until `done`; a write only reads them
  size_t length = 0;           // not 0
  Done done;
};

class Queue {
 public:
  static constexpr uint32_t kDepth = 128;
  static constexpr uint32_t kThreads = 8;

  enum class Way : uint8_t { kAny, kUring, kThreads };
  /// `device` outlives it. Errors: kUnsupported (kUring alone: the kernel refuses it), kNoMemory (no thread).
  static Result<std::unique_ptr<Queue>> open(FileDevice& device, Way way = Way::kAny);

  virtual ~Queue() = default;
  virtual void submit(Request request) = 0;
  /// "io_uring" or "threads".
  virtual const char* way() const = 0;
};

}  // namespace ocm::memory::nvme
