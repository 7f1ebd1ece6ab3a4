#include "test_home.h"

#include <fcntl.h>

#include <cerrno>

namespace ocm::fabric {

TestHome::TestHome(uint32_t partition) : partition_(partition) {
  const uint64_t bytes = shm::GenerationTable::bytes(kSlots);
  auto fd = os::make_memfd("test-generations", bytes, {});
  OCM_ASSERT(fd.is_ok());
  table_fd_ = std::move(*fd);
  auto mapping = os::Mapping::map(table_fd_.get(), bytes, true);
  OCM_ASSERT(mapping.is_ok());
  table_ = std::move(*mapping);
}

ExtentDescriptor TestHome::make(uint64_t bytes) {
  auto extent = std::make_shared<HomeExtent>();
  auto fd = os::make_memfd("test-extent", bytes, {});
  OCM_ASSERT(fd.is_ok());
  extent->fd = std::move(*fd);
  auto mapping = os::Mapping::map(extent->fd.get(), bytes, true);
  OCM_ASSERT(mapping.is_ok());
  extent->mapping = std::move(*mapping);
  if (on_device_) {
    extent->device = std::make_unique<TestDevice>(extent->mapping.data());
    extent->staged = extent->device.get();
  } else {
    extent->data = extent->mapping.data();
  }
  extent->bytes = bytes;
  extent->capability = os::random_id<Capability>();

  const std::lock_guard lock(mutex_);
  extent->id = {GlobalAddress(partition_, next_offset_), next_generation_++};
  next_offset_ += (bytes + 4095) / 4096 * 4096;
  extent->slot = next_slot_++ % kSlots;
  const_cast<shm::GenerationTable*>(generations())
      ->generation[extent->slot]
      .store(extent->id.generation, std::memory_order_release);
  extents_[extent->id.address] = extent;

  ExtentDescriptor descriptor;
  descriptor.id = extent->id;
  descriptor.bytes = bytes;
  descriptor.capability = extent->capability;
  descriptor.node = "home";
  descriptor.slot = extent->slot;
  return descriptor;
}

void TestHome::revoke(const ExtentDescriptor& extent) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = extents_.find(extent.id.address);
    OCM_ASSERT(found != extents_.end());
    const_cast<shm::GenerationTable*>(generations())
        ->generation[found->second->slot]
        .store(0, std::memory_order_release);
    found->second->revoked.store(true, std::memory_order_release);
  }
  if (on_revoke) on_revoke(extent.id);
}

std::byte* TestHome::data(const ExtentDescriptor& extent) {
  const std::lock_guard lock(mutex_);
  return extents_.at(extent.id.address)->mapping.data();
}

Result<std::shared_ptr<HomeExtent>> TestHome::find(ExtentId id) {
  const std::lock_guard lock(mutex_);
  const auto found = extents_.find(id.address);
  if (found == extents_.end()) return Status(Code::kNotFound, "no such extent");
  if (found->second->id != id || found->second->revoked.load()) return Status(Code::kRevoked, "another life");
  return found->second;
}

Result<std::shared_ptr<ServedExtent>> TestHome::open(ExtentId id) {
  {
    std::unique_lock lock(mutex_);
    ++hanging_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !frozen_; });
    --hanging_;
  }
  OCM_TRY_ASSIGN(std::shared_ptr<ServedExtent> extent, find(id));
  return extent;
}

void TestHome::set_frozen(bool frozen) {
  const std::lock_guard lock(mutex_);
  frozen_ = frozen;
  changed_.notify_all();
}

void TestHome::wait_frozen() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return frozen_ && hanging_ > 0; });
}

Result<os::Fd> TestHome::share(const ExtentDescriptor& extent, Access access) {
  OCM_TRY_ASSIGN(const std::shared_ptr<HomeExtent> found, find(extent.id));
  const bool is_owner = os::equal_secrets(extent.capability.bytes, found->capability.bytes);
  const bool may_read =
      is_owner || os::equal_secrets(extent.capability.bytes, os::read_capability(found->capability).bytes);
  if (access == Access::kRead ? !may_read : !is_owner) return Status(Code::kPermission, "wrong capability");
  if (access == Access::kRead) return os::reopen_read_only(found->fd.get());
  os::Fd copy(::fcntl(found->fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.is_open()) return Status::from_errno(errno, "fcntl");
  return copy;
}

Credentials TestHome::credentials() {
  Credentials who;
  who.session = os::random_id<SessionId>();
  who.session_key = session_key(who.session);
  return who;
}

std::array<std::byte, 32> TestHome::session_key(const SessionId& session) {
  return os::hmac_sha256(token_.bytes, {os::bytes_of("oncilla session key"), session.bytes});
}

}  // namespace ocm::fabric
