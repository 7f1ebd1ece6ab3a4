#include "node/directory.h"

#include "base/assert.h"
#include "base/fault.h"
#include "os/crypto.h"

namespace ocm::node {

struct Directory::Served final : fabric::ServedExtent {
  std::shared_ptr<memory::Extent> extent;  // keeps the mapping; null: not of the table
  std::shared_ptr<Staged> own;             // where it is not
};

bool Directory::is_of_table(ExtentId id) const {
  return id.address.partition() == table_.partition() && id.address.offset() != 0;
}

bool Directory::serve(ExtentId id, uint64_t bytes, const Capability& capability,
                      std::shared_ptr<Staged> staged) {
  OCM_ASSERT(!is_of_table(id) && staged != nullptr);  // D4
  auto served = std::make_shared<Served>();
  served->id = id;
  served->bytes = bytes;
  served->capability = capability;
  served->staged = staged.get();
  served->own = std::move(staged);
  const std::lock_guard lock(mutex_);
  return served_.emplace(id.address, std::move(served)).second;  // D1
}

Result<std::shared_ptr<fabric::ServedExtent>> Directory::open(ExtentId id) {
  if (!is_of_table(id)) {
    const std::lock_guard lock(mutex_);
    const auto known = served_.find(id.address);
    if (known != served_.end() && known->second->id == id)
      return std::shared_ptr<fabric::ServedExtent>(known->second);
    return Status(Code::kNotFound, "extent " + id.address.to_string() + " is not of this node");
  }
  OCM_TRY_ASSIGN(std::shared_ptr<memory::Extent> extent, table_.find(id));
  const std::lock_guard lock(mutex_);
  if (const auto known = served_.find(id.address); known != served_.end() && known->second->id == id)
    return std::shared_ptr<fabric::ServedExtent>(known->second);
  if (fault::at(fault::Point::kServeNoMemory)) return Status(Code::kNoMemory);
  std::byte* data = nullptr;
  Staged* const staged = extent->backing->staged();
  if (staged == nullptr) {
    OCM_TRY_ASSIGN(data, extent->backing->data());
  }
  auto served = std::make_shared<Served>();
  served->id = id;
  served->bytes = extent->bytes;
  served->capability = extent->capability;
  served->data = data;
  served->staged = staged;
  const auto leased = leased_.find(id.address);
  if (leased != leased_.end() && leased->second == id.generation) served->lease_until_ns = &lease_;
  OCM_DASSERT((data == nullptr) != (staged == nullptr));
  OCM_DASSERT(extent->id == id);
  served->extent = std::move(extent);
  // Removed or suspended between find() and here: revoke() may have come before the entry was there to be found.
  if (served->extent->revoked() || served->extent->suspended()) return Status(Code::kRevoked);
  served_[id.address] = served;
  return std::shared_ptr<fabric::ServedExtent>(served);
}

std::array<std::byte, 32> Directory::session_key(const SessionId& session) {
  return os::hmac_sha256(token_, {os::bytes_of("oncilla session key"), session.bytes});
}

void Directory::require_lease(ExtentId id) {
  const std::lock_guard lock(mutex_);
  leased_[id.address] = id.generation;
}

bool Directory::requires_lease(ExtentId id) {
  const std::lock_guard lock(mutex_);
  const auto leased = leased_.find(id.address);
  return leased != leased_.end() && leased->second == id.generation;
}

std::vector<ExtentId> Directory::replicas() {
  const std::lock_guard lock(mutex_);
  std::vector<ExtentId> out;
  for (const auto& [address, generation] : leased_) out.push_back({address, generation});
  return out;
}

std::weak_ptr<fabric::ServedExtent> Directory::revoke(ExtentId id) { return end(id, true); }
std::weak_ptr<fabric::ServedExtent> Directory::suspend(ExtentId id) { return end(id, false); }

std::weak_ptr<fabric::ServedExtent> Directory::end(ExtentId id, bool is_freed) {
  std::shared_ptr<Served> served;  // let go after the lock
  {
    const std::lock_guard lock(mutex_);
    // A dropped extent is revoked again when its last hold ends: its address may be another's by then.
    if (const auto leased = leased_.find(id.address);
        is_freed && leased != leased_.end() && leased->second == id.generation)
      leased_.erase(leased);
    const auto it = served_.find(id.address);
    if (it != served_.end() && it->second->id == id) {
      served = std::move(it->second);
      served->revoked.store(true, std::memory_order_release);
      served_.erase(it);
    }
  }
  OCM_DASSERT(served == nullptr || served->revoked.load(std::memory_order_relaxed));  // D2
  if (on_revoke_) on_revoke_(id);
  return served;
}

bool Directory::is_valid() const {
  const std::lock_guard lock(mutex_);
  for (const auto& [address, served] : served_) {
    if (served == nullptr || served->id.address != address) return false;      // D1
    if (served->revoked.load(std::memory_order_relaxed)) return false;         // D2
    if ((served->extent != nullptr) != is_of_table(served->id)) return false;  // D4
    if (served->extent != nullptr && served->extent->id != served->id) return false;
  }
  return true;
}

}  // namespace ocm::node
