// A pool: what one node offers of one kind, a budget in bytes that is never exceeded.
//
// The interface leaves room for nvme and gpu: a kind is how bytes are made, mapped and taken back; the
// accounting and the address space are the same for all (memory/extent_table.h).
//
// Accounting
//   budget_bytes >= used_bytes + reclaiming_bytes      at every moment
//   used_bytes       = sum of the page-rounded lengths of live extents
//   reclaiming_bytes = the same of freed extents whose pages the kernel has not got back yet
// What a kind keeps ready for extents to come is beside them, within what is free, or soon again.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/staged.h"
#include "os/memory.h"

namespace ocm::memory {

/// A longer one always has a file of its own.
inline constexpr uint64_t kSharedFileBytesMax = uint64_t{1} << 20;

struct ExtentOptions {
  /// False: a mapped kind has it in a file that extents share, which takes no descriptor; it is at most
  /// kSharedFileBytesMax long, and share() is not supported.
  bool own_file = true;
  bool hugepages = false;
  bool populate = false;
  /// It can be kept beyond the daemon's run, and a write is done when it is there after a crash. Only of a kind that lasts.
  bool durable = false;
  /// Any node may cache pages of it, so no program maps it. Of a mapped kind, for who puts a cache before it
  /// (cache/cached_kind.h); its backend does the same either way.
  bool coherent = false;
};

/// Says of one extent whether its pool keeps it beyond the daemon's run. May outlive the extent's Backing.
/// Threads: any.
class Lasting {
 public:
  virtual ~Lasting() = default;
  /// From the pool's next promise on it is there after a crash, with `description`, not empty, in place of the one before.
  /// Errors: kLimit (the pool has no room for it), kIo (it takes no more writes).
  virtual Status keep(std::string description) = 0;
  /// No more. Errors: kIo.
  virtual Status forget() = 0;
};

/// The bytes of one extent. Destroying it gives the memory back to the system, unless the pool keeps it.
class Backing {
 public:
  virtual ~Backing() = default;
  /// Not null: this is how to reach them, and data() and share() are not supported.
  virtual Staged* staged() { return nullptr; }
  /// It takes a descriptor of this process, and share() works unless it is staged().
  virtual bool has_file() { return staged() == nullptr; }
  /// Not null: it was made `durable`.
  virtual std::shared_ptr<Lasting> lasting() { return nullptr; }
  /// What the table calls the extent that these bytes are of: once, before anybody uses them.
  virtual void named([[maybe_unused]] const ExtentId& id) {}
  /// Of what is staged(): no access begins any more. `idle` is called once, when none is under way, by any thread or before
  /// this returns; discard() and its end come after that.
  virtual void stop(std::function<void()> idle) { idle(); }
  /// discard() gives nothing back; its end does.
  virtual bool ends_whole() { return false; }
  virtual uint64_t bytes() const = 0;
  /// The bytes in this process; mapped at the first call, for good. Errors: kNoMemory, kUnsupported.
  virtual Result<std::byte*> data() = 0;
  /// A descriptor to map on this host, or kUnsupported. Read-only ones cannot be mapped writable.
  virtual Result<os::Fd> share(Access access) = 0;
  /// Gives pages back although others may still map them, who read zeros from then on: `bytes` at `offset`, whole pages.
  /// Nothing here may be in the middle of them. What a mapping stores afterwards takes pages again until it is unmapped.
  virtual void discard(uint64_t offset, uint64_t bytes) = 0;
};

/// Makes the bytes of one kind.
class KindBackend {
 public:
  virtual ~KindBackend() = default;
  virtual Kind kind() const = 0;
  /// With what the pool's settings want of every extent.
  virtual ExtentOptions completed(ExtentOptions options) const { return options; }
  /// What a length is rounded up to.
  virtual uint64_t page_bytes(const ExtentOptions& options) const = 0;
  /// Of the pages in which caches have its extents: a power of two.
  virtual uint64_t cached_page_bytes() const { return page_bytes({}); }
  /// `bytes` zeros. Errors: kNoMemory, kNoFds, kUnsupported.
  virtual Result<std::unique_ptr<Backing>> make(uint64_t bytes, const ExtentOptions& options) = 0;
  /// The bytes that it holds for extents to come.
  virtual uint64_t ready_bytes() const { return 0; }
  /// So many bytes of the pool are free: from here on it holds no more, or soon.
  virtual void keep_ready_within([[maybe_unused]] uint64_t free_bytes) {}

  /// Extents may be `durable`.
  virtual bool lasts() const { return false; }
  struct Survivor {
    std::string description;
    std::unique_ptr<Backing> backing;
  };
  /// What was kept as the last run ended; called once, before make(). Errors: kNoMemory.
  virtual Result<std::vector<Survivor>> survivors() { return std::vector<Survivor>(); }
  /// `done` gets kOk when all that was written, kept and forgotten before is so after a crash; kIo: it may not be. Called
  /// once, by a thread of the pool's, or before the call returns; it must not wait.
  virtual void promise(std::function<void(Status)> done) { done({}); }
};

/// Thread-safe budget of one pool.
class Budget {
 public:
  explicit Budget(uint64_t bytes) : budget_bytes_(bytes) {}
  /// False if it does not fit; nothing is taken then.
  bool take(uint64_t bytes);
  void give(uint64_t bytes);
  uint64_t budget_bytes() const { return budget_bytes_; }
  uint64_t used_bytes() const;
  /// No more is used than there is.
  bool is_valid() const { return used_bytes() <= budget_bytes_; }

 private:
  const uint64_t budget_bytes_;
  std::atomic<uint64_t> used_bytes_{0};
};

}  // namespace ocm::memory
