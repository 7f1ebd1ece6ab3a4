// The shm fabric as a Channel: the extents of this host's daemon, mapped; an operation is loads and stores in
// the thread that posts it, complete when post() returns.
//
// A freed extent's pages stay mapped until detach, so the generation table is compared before every
// operation: that is the check that a home makes on other fabrics (served.h S1). Read-only is the mapping's.
//
// Threads: any; operations on one extent from several threads are ordered by nothing but the memory itself.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "fabric/channel.h"
#include "fabric/shm/local_extent.h"
#include "fabric/shm/tables.h"
#include "os/fd.h"
#include "os/memory.h"

namespace ocm::fabric::shm {

/// What the daemon of this host shares with the session. `lost` is set when its control connection ends.
struct ShmHome {
  std::shared_ptr<const void> owner;  // keeps the rest alive
  const GenerationTable* generations = nullptr;
  uint32_t slots = 0;
  const std::atomic<bool>* lost = nullptr;
  /// Asks the daemon for the extent's memfd. Errors: kPermission, kRevoked, kNotFound, kPeerLost.
  std::function<Result<os::Fd>(const ExtentDescriptor&, Access, os::Deadline)> open;
};

class ShmChannel final : public Channel {
 public:
  explicit ShmChannel(ShmHome home) : home_(std::move(home)) {
    OCM_ASSERT(home_.generations != nullptr && home_.open != nullptr);
  }

  Result<uint32_t> attach(const ExtentDescriptor& extent, Access access, os::Deadline deadline) override;
  void detach(uint32_t index) override;
  void post(Op& op) override;
  void withdraw([[maybe_unused]] Op& op) override { OCM_DASSERT(op.done()); }
  void flush() override {}
  void progress(uint64_t, uint64_t) override {}
  PollOn poll_on() override { return {}; }
  Status health() const override;
  uint32_t in_flight() const override { return 0; }

 private:
  struct Attached {
    os::Mapping mapping;
    uint64_t bytes = 0;
    Access access = Access::kRead;
    LocalExtent local;
  };
  /// Holds mutex_ shared.
  Code run(Op& op) const;
  Code run(const Attached& extent, Op& op) const;

  const ShmHome home_;
  std::shared_mutex mutex_;  // guards the rest; held shared while an operation runs
  std::unordered_map<uint32_t, Attached> attached_;
  uint32_t next_index_ = 0;
};

class ShmConnector final : public Connector {
 public:
  explicit ShmConnector(ShmHome home) : home_(std::move(home)) {}
  Fabric fabric() const override { return Fabric::kShm; }
  Result<std::unique_ptr<Channel>> connect(const FabricAddress& address, const Credentials& who,
                                           os::Deadline deadline) override;

 private:
  const ShmHome home_;
};

}  // namespace ocm::fabric::shm
