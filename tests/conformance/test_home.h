// A home for tests: extents in memfds, a generation table, keys; what a node is to the servers of the
// fabrics.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "fabric/channel.h"
#include "fabric/served.h"
#include "fabric/shm/tables.h"
#include "os/crypto.h"
#include "os/memory.h"
#include "test_device.h"

namespace ocm::fabric {

/// An extent with the memfd behind it.
struct HomeExtent final : ServedExtent {
  os::Fd fd;
  os::Mapping mapping;
  std::unique_ptr<TestDevice> device;
  uint32_t slot = 0;
};

class TestHome final : public ExtentDirectory {
 public:
  static constexpr uint32_t kSlots = 1024;

  explicit TestHome(uint32_t partition = 1);

  /// What is made from here on is on a device.
  void on_device() { on_device_ = true; }
  /// A new extent of `bytes` zeros; the descriptor has no addresses yet.
  ExtentDescriptor make(uint64_t bytes);
  /// Ends it: later ops get kRevoked.
  void revoke(const ExtentDescriptor& extent);
  /// Runs after revoke(), for a fabric that keeps something of its own for an extent.
  std::function<void(const ExtentId&)> on_revoke;
  /// Its bytes at the home.
  std::byte* data(const ExtentDescriptor& extent);
  /// The memfd for a program of this host that shows `extent.capability`, as a daemon gives it out.
  Result<os::Fd> share(const ExtentDescriptor& extent, Access access);
  const shm::GenerationTable* generations() const {
    return reinterpret_cast<const shm::GenerationTable*>(table_.data());
  }
  /// A new session with its right key.
  Credentials credentials();

  /// Until thaw() whoever asks for an extent waits: the server's thread, and with it every peer of it.
  void freeze() { set_frozen(true); }
  void thaw() { set_frozen(false); }
  /// Waits until somebody hangs in it.
  void wait_frozen();

  Result<std::shared_ptr<ServedExtent>> open(ExtentId id) override;
  std::array<std::byte, 32> session_key(const SessionId& session) override;

 private:
  Result<std::shared_ptr<HomeExtent>> find(ExtentId id);
  void set_frozen(bool frozen);

  const uint32_t partition_;
  bool on_device_ = false;
  const Capability token_ = os::random_id<Capability>();
  os::Fd table_fd_;
  os::Mapping table_;
  std::mutex mutex_;  // guards the rest
  std::map<GlobalAddress, std::shared_ptr<HomeExtent>> extents_;
  uint64_t next_offset_ = 1 << 20;
  uint32_t next_slot_ = 0;
  uint32_t next_generation_ = 100;
  bool frozen_ = false;
  int hanging_ = 0;
  std::condition_variable changed_;
};

/// The same extent with the capability for reading only.
inline ExtentDescriptor read_only(ExtentDescriptor extent) {
  extent.capability = os::read_capability(extent.capability);
  return extent;
}

}  // namespace ocm::fabric
