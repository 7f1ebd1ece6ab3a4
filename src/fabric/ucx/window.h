// The addresses under which extents are registered with UCX: each is used once, so that a put that comes
// after its extent was freed never lands in another one, and never in a hole that would end the daemon.
//
// A large range of addresses is reserved at start. An extent is mapped a second time into it (the pages are
// the same) and, when it is revoked, replaced there by a sink: private pages that take what stale senders
// still write, and are thrown away. With hardware-checked transports nobody can reach a sink.
//
// Invariants
//   W1 next_ only grows: no two extents ever have an address in common.
//   W2 every address below next_ is mapped, readable and writable, for as long as the window lives.
//
// Threads: any; serialised by its owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "base/status.h"

namespace ocm::fabric::ucx {

class AddressWindow {
 public:
  AddressWindow() = default;
  ~AddressWindow();
  AddressWindow(const AddressWindow&) = delete;
  AddressWindow& operator=(const AddressWindow&) = delete;

  /// Reserves addresses, no memory. Errors: kNoMemory.
  Status reserve();
  /// Maps the shared mapping that starts at `data` a second time.
  /// Errors: kUnsupported (not a shared mapping), kLimit (all addresses were used), kNoMemory.
  Result<std::byte*> alias(std::byte* data, uint64_t bytes);
  /// Puts the sink in place of the alias; the extent's pages are no longer held.
  void retire(std::byte* alias, uint64_t bytes);
  /// Gives back what stale senders wrote to sinks.
  void drain_sinks();
  /// W1: sinks are of addresses that were used, apart from each other. Cost: the sinks.
  bool is_valid() const;

 private:
  bool make_sink(std::byte* base, uint64_t bytes);

  std::byte* base_ = nullptr;
  uint64_t size_ = 0;
  uint64_t next_ = 0;
  std::map<uint64_t, uint64_t> sinks_;  // offset -> bytes; neighbours are merged
};

}  // namespace ocm::fabric::ucx
