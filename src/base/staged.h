// Bytes that are not in memory but on a device: who wants some does not wait for it with a thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <utility>

#include "base/status.h"

namespace ocm {

/// The bytes of one extent. Calls that touch the same bytes are carried out in the order in which they were made.
class Staged {
 public:
  /// kOk; kLost (the device has not got the bytes any more), kIo. It must not wait. Called once, by a thread of the
  /// device's, or before the call returns.
  using Done = std::function<void(Status)>;

  virtual ~Staged() = default;
  /// Bytes inside the extent, at any offset, of any length. `into` and `from` stay as they are, and this lives, until
  /// `done`.
  virtual void read(uint64_t offset, std::span<std::byte> into, Done done) = 0;
  virtual void write(uint64_t offset, std::span<const std::byte> from, Done done) = 0;
  /// Changes the 8 bytes at `offset`, a multiple of 8, as nobody else can see half of it. `change` gets them aligned, once.
  virtual void modify(uint64_t offset, std::function<void(std::byte*)> change, Done done) = 0;
};

/// For threads that may wait: starts a call with a `done`, and waits for it.
template <class Start>
Status wait_for_device(Start start) {
  const auto told = std::make_shared<std::promise<Status>>();
  start([told](Status status) { told->set_value(std::move(status)); });
  return told->get_future().get();
}

}  // namespace ocm
