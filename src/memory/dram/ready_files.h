// Extents' files that are ready before anybody asks for them: once two of the same length were used within a while, the
// next is made in the background, with its pages, mapped, and another whenever one of them is used.
//
// A page that nobody touched before costs its first writer several times what the write itself costs: the kernel takes a
// fault, finds the page, fills it with zeros and maps it. Programs ask for the same lengths again and again: row groups of
// a table, slabs, the arrays of the next run. What was used once, or never (allocated and freed), causes nothing.
//
//   want(n) --> [wanted] --thread--> [populating] --> [ready] --take(n)--> an extent's
//                                                        \--not taken for long; pool or machine short of memory--> closed
//
// Invariants (is_valid())
//   R1 ready + populating <= most_bytes. They are no more than what keep_within() said last either, a second after it.
//   R2 a file that is ready was never anybody else's: its zeros are the kernel's.
//   R3 while the machine is short of memory nothing is made ready, and what is ready is closed within a second.
//
// Threads: any; take() and want() never wait. The one that makes them runs from the first want() on, and half of the time
// at most.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "base/status.h"
#include "os/fd.h"
#include "os/machine_memory.h"
#include "os/memory.h"

namespace ocm::memory {

class ReadyFiles {
 public:
  struct Options {
    uint64_t most_bytes = 0;            // 0: none is ever ready
    uint64_t keep_ns = 30'000'000'000;  // one that is not taken for so long is closed
    uint64_t look_ns = 1'000'000'000;   // R1, R3: how often it is looked whether what is ready may stay
    std::function<Result<os::Fd>(uint64_t)> make;  // a file of so many zeros, without its pages
    std::function<os::MachineMemory()> memory = os::machine_memory;
  };
  /// Smaller ones are not worth a descriptor and a thread that wakes.
  static constexpr uint64_t kLeastBytes = 256 * 1024;
  static constexpr size_t kFilesMax = 64;

  /// One of exactly so many bytes.
  struct File {
    os::Fd fd;            // closed: there is none
    os::Mapping mapping;  // of all of it, with every page in this process' page table
  };

  explicit ReadyFiles(Options options);
  /// Waits for the step that its thread is in.
  ~ReadyFiles();
  ReadyFiles(const ReadyFiles&) = delete;
  ReadyFiles& operator=(const ReadyFiles&) = delete;

  /// For who owns it from now on; closed if none of exactly so many bytes is ready.
  File take(uint64_t bytes);
  /// An extent of so many bytes is used, which it was not before.
  void want(uint64_t bytes);
  /// The pool has so many bytes free.
  void keep_within(uint64_t free_bytes);
  /// Closes all, for the descriptors and the memory. Returns whether there were any.
  bool give_back();
  /// What take() can find: what is populated at the moment is not among it.
  uint64_t ready_bytes() const { return ready_bytes_.load(std::memory_order_relaxed); }
  bool is_valid() const;

 private:
  struct Ready {
    File file;
    uint64_t since_ns;
    uint64_t bytes() const { return file.mapping.bytes(); }
  };

  void run();
  /// What is to be closed, moved out of ready_.
  std::deque<Ready> surplus_locked(bool is_short);
  /// R1
  uint64_t held_bytes() const { return ready_bytes() + populating_bytes_.load(std::memory_order_relaxed); }
  bool has_too_many() const { return held_bytes() > free_bytes_.load(std::memory_order_relaxed); }
  bool is_short_of(uint64_t bytes) const;
  bool may_hold(uint64_t bytes) const;
  /// With all its pages; closed if there is no room for them, or any more.
  File populated(uint64_t bytes);

  const Options options_;
  mutable std::mutex mutex_;  // guards all below but the atomics
  std::condition_variable work_;
  std::deque<Ready> ready_;  // oldest first
  std::deque<uint64_t> wanted_;
  std::deque<std::pair<uint64_t, uint64_t>> used_;  // lengths, and when; each once, oldest first
  std::thread thread_;
  std::atomic<bool> ends_{false};
  std::atomic<uint64_t> ready_bytes_{0};  // of ready_
  std::atomic<uint64_t> populating_bytes_{0};
  std::atomic<uint64_t> free_bytes_{~uint64_t{0}};
};

}  // namespace ocm::memory
