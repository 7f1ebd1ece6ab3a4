#include "fabric/shm/shm_channel.h"

#include <sys/stat.h>

#include <cerrno>

#include "fabric/served.h"
#include "fabric/shm/copy.h"

namespace ocm::fabric::shm {

Result<uint32_t> ShmChannel::attach(const ExtentDescriptor& extent, Access access, os::Deadline deadline) {
  OCM_TRY(health());
  if (extent.slot >= home_.slots) return Status(Code::kProtocol, "an extent beyond the generation table");
  OCM_TRY_ASSIGN(os::Fd fd, home_.open(extent, access, deadline));
  struct stat file {};
  if (::fstat(fd.get(), &file) != 0) return Status::from_errno(errno, "fstat of an extent");
  if (static_cast<uint64_t>(file.st_size) < extent.bytes) {
    return Status(Code::kProtocol, "an extent shorter than its descriptor says");
  }
  Attached attached;
  OCM_TRY_ASSIGN(attached.mapping, os::Mapping::map(fd.get(), extent.bytes, access == Access::kReadWrite));
  attached.mapping.prefer_huge_pages();
  attached.bytes = extent.bytes;
  attached.access = access;
  attached.local =
      LocalExtent({&home_.generations->generation[extent.slot], home_.lost, extent.id.generation}, nullptr);
  const std::unique_lock lock(mutex_);
  const uint32_t index = next_index_++;
  [[maybe_unused]] const bool is_new = attached_.emplace(index, std::move(attached)).second;
  OCM_DASSERT(is_new);  // after 2^32 attachments an index would name two extents
  return index;
}

void ShmChannel::detach(uint32_t index) {
  const std::unique_lock lock(mutex_);
  attached_.erase(index);
}

void ShmChannel::post(Op& op) {
  Op* const notify = op.notify;
  OCM_DASSERT(may_be_posted(op));
  const std::shared_lock lock(mutex_);
  const Code code = run(op);
  op.finish(code);
  if (notify != nullptr) notify->finish(code == Code::kOk ? run(*notify) : code);
}

Code ShmChannel::run(Op& op) const {
  if (home_.lost != nullptr && home_.lost->load(std::memory_order_acquire)) return Code::kPeerLost;
  const auto found = attached_.find(op.index);
  return found == attached_.end() ? Code::kNotFound : run(found->second, op);
}

Code ShmChannel::run(const Attached& extent, Op& op) const {
  if (const Code code = extent.local.check(); code != Code::kOk) return code;
  const Code allowed = check_bounds(extent.bytes, extent.access, op.opcode, op.offset, op.bytes);
  if (allowed != Code::kOk) return allowed;
  OCM_DASSERT(extent.mapping.bytes() >= extent.bytes);  // S1: what was checked is mapped
  std::byte* at = extent.mapping.data() + op.offset;
  Code code = Code::kOk;
  switch (op.opcode) {
    case OpCode::kPut:
      code = extent.local.put(at, op.local, op.bytes, copy_bytes);
      // A put that completed remotely is visible to every later get: of other programs too.
      std::atomic_thread_fence(std::memory_order_seq_cst);
      return code;
    case OpCode::kGet: return extent.local.get(at, op.local, op.bytes, copy_bytes);
    case OpCode::kFence: std::atomic_thread_fence(std::memory_order_seq_cst); return code;
    case OpCode::kNotify: return extent.local.notify(at, op.operand);
    default: {
      uint64_t before = 0;
      code = extent.local.atomic(op.opcode, at, op.operand, op.expected, before);
      op.old_value = before;
      return code;
    }
  }
}

Status ShmChannel::health() const {
  if (home_.lost != nullptr && home_.lost->load(std::memory_order_acquire)) {
    return Status(Code::kPeerLost, "the daemon of this host has gone");
  }
  return {};
}

Result<std::unique_ptr<Channel>> ShmConnector::connect(const FabricAddress&, const Credentials&,
                                                       os::Deadline) {
  if (home_.lost != nullptr && home_.lost->load(std::memory_order_acquire)) {
    return Status(Code::kPeerLost, "the daemon of this host has gone");
  }
  return std::unique_ptr<Channel>(std::make_unique<ShmChannel>(home_));
}

}  // namespace ocm::fabric::shm
