#include "fabric/ucx/registry.h"

#include <sys/mman.h>

#include <atomic>
#include <cstring>

#include "fabric/ucx/message.h"
#include "os/crypto.h"

namespace ocm::fabric::ucx {

Result<std::unique_ptr<Registry>> Registry::make(std::shared_ptr<Context> context, uint32_t extents_max,
                                                 bool hardware_checked) {
  std::unique_ptr<Registry> registry(new Registry(std::move(context), extents_max, hardware_checked));
  OCM_TRY(registry->start());
  return registry;
}

Status Registry::start() {
  OCM_TRY(window_.reserve());
  words_bytes_ = ((uint64_t{extents_max_} + 1) * sizeof(uint64_t) + 4095) & ~uint64_t{4095};
  void* words = ::mmap(nullptr, words_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (words == MAP_FAILED) return Status::from_errno(errno, "ucx: the table of generations");
  words_ = static_cast<uint64_t*>(words);
  // A random start below 2^63 makes numbers of two runs of a daemon differ, and leaves room to count.
  os::fill_random({reinterpret_cast<std::byte*>(&next_word_), sizeof next_word_});
  next_word_ = (next_word_ >> 1) | 1;
  words_[0] = next_word_++;
  OCM_TRY_ASSIGN(words_mapped_, map(reinterpret_cast<std::byte*>(words_), words_bytes_));
  return Status::ok();
}

Registry::~Registry() {
  for (auto& [address, entry] : entries_) end(entry);
  if (words_mapped_.memory != nullptr) ucp().ucp_mem_unmap(context_->get(), words_mapped_.memory);
  if (words_ != nullptr) ::munmap(words_, words_bytes_);
}

Result<Registry::Mapped> Registry::map(std::byte* data, uint64_t bytes) {
  ucp_mem_map_params_t params;
  std::memset(&params, 0, sizeof params);
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
  params.address = data;
  params.length = bytes;
  Mapped mapped;
  ucs_status_t status = ucp().ucp_mem_map(context_->get(), &params, &mapped.memory);
  if (status != UCS_OK) return from_ucs(status, "register");
  void* buffer = nullptr;
  size_t length = 0;
  status = ucp().ucp_rkey_pack(context_->get(), mapped.memory, &buffer, &length);
  if (status == UCS_OK) {
    mapped.rkey.assign(static_cast<const char*>(buffer), length);
    ucp().ucp_rkey_buffer_release(buffer);
    if (length <= kRkeyBytesMax) return mapped;
    status = UCS_ERR_EXCEEDS_LIMIT;
  }
  ucp().ucp_mem_unmap(context_->get(), mapped.memory);
  return from_ucs(status, "pack a key");
}

Result<Registration> Registry::open(const std::shared_ptr<ServedExtent>& extent) {
  std::lock_guard lock(mutex_);
  if (extent->revoked.load(std::memory_order_acquire)) return Code::kRevoked;
  if (extent->data == nullptr) return Status(Code::kUnsupported, "ucx: the extent is not in memory");
  if (auto found = entries_.find(extent->id.address); found != entries_.end()) {
    if (found->second.extent->id == extent->id) return found->second.registration;
    end(found->second);  // an earlier life of the address
    entries_.erase(found);
  }
  if (slots_free_.empty() && slots_used_ > extents_max_) {
    return Status(Code::kLimit, "ucx: no more extents can be registered ([ucx] extents_max)");
  }
  Entry entry;
  entry.extent = extent;
  Result<std::byte*> alias = window_.alias(extent->data, extent->bytes);
  // Where the card checks keys, an extent that cannot be mapped twice is registered where it lies.
  if (!alias.is_ok() && !hardware_checked_) return alias.status();
  entry.alias = alias.is_ok() ? *alias : nullptr;
  std::byte* base = entry.alias != nullptr ? entry.alias : extent->data;
  Result<Mapped> mapped = map(base, extent->bytes);
  if (!mapped.is_ok()) {
    if (entry.alias != nullptr) window_.retire(entry.alias, extent->bytes);
    return mapped.status();
  }
  entry.memory = mapped->memory;
  if (slots_free_.empty()) {
    entry.slot = slots_used_++;
  } else {
    entry.slot = slots_free_.back();
    slots_free_.pop_back();
  }
  Registration& out = entry.registration;
  out.base = reinterpret_cast<uintptr_t>(base);
  out.bytes = extent->bytes;
  out.word = next_word_++;
  out.word_address = reinterpret_cast<uintptr_t>(words_ + entry.slot);
  out.rkey = std::move(mapped->rkey);
  OCM_ASSERT(words_[entry.slot] == 0);  // R1: who had the slot before is closed
  std::atomic_ref(words_[entry.slot]).store(out.word, std::memory_order_release);
  const Registration registration = out;
  [[maybe_unused]] const bool is_new = entries_.emplace(extent->id.address, std::move(entry)).second;
  OCM_DASSERT(is_new);
  return registration;
}

bool Registry::is_valid() const {
  std::lock_guard lock(mutex_);
  return holds();
}

bool Registry::holds() const {
  if (entries_.size() + slots_free_.size() + 1 != slots_used_ || slots_used_ > extents_max_ + 1) return false;
  for (const uint32_t slot : slots_free_) {
    if (slot == 0 || slot >= slots_used_ || words_[slot] != 0) return false;  // R1
  }
  for (const auto& [address, entry] : entries_) {
    if (entry.extent == nullptr || entry.extent->id.address != address) return false;  // R3
    if (entry.slot == 0 || entry.slot >= slots_used_) return false;                    // R2
    if (entry.registration.word == 0 || words_[entry.slot] != entry.registration.word) return false;
  }
  return window_.is_valid();
}

void Registry::end(Entry& entry) {
  OCM_ASSERT(entry.extent != nullptr && entry.slot != 0);                   // R2, R3: once
  std::atomic_ref(words_[entry.slot]).store(0, std::memory_order_seq_cst);  // R1
  ucp().ucp_mem_unmap(context_->get(), entry.memory);
  if (entry.alias != nullptr) window_.retire(entry.alias, entry.registration.bytes);
  slots_free_.push_back(entry.slot);
  entry.extent.reset();
}

void Registry::close(const ExtentId& id) {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(id.address);
  if (found == entries_.end() || found->second.extent->id != id) return;
  end(found->second);
  entries_.erase(found);
}

std::shared_ptr<ServedExtent> Registry::find(const ExtentId& id) const {
  std::lock_guard lock(mutex_);
  auto found = entries_.find(id.address);
  if (found == entries_.end() || found->second.extent->id != id) return nullptr;
  if (found->second.extent->revoked.load(std::memory_order_acquire)) return nullptr;
  return found->second.extent;
}

void Registry::sweep() {
  std::lock_guard lock(mutex_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    if (at->second.extent->revoked.load(std::memory_order_acquire)) {
      end(at->second);
      at = entries_.erase(at);
    } else {
      ++at;
    }
  }
  window_.drain_sinks();
  OCM_DASSERT(holds());
}

size_t Registry::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

Registration Registry::words() const {
  Registration out;
  out.base = out.word_address = reinterpret_cast<uintptr_t>(words_);
  out.bytes = words_bytes_;
  out.word = words_[0];
  out.rkey = words_mapped_.rkey;
  return out;
}

}  // namespace ocm::fabric::ucx
