// The extents that a home has registered with UCX, and the table of generation words.
//
// UCX asks nobody at the home when a put or get arrives, so the generation is checked by the client: each
// registration has a word here that holds its number while the extent lives and 0 afterwards, and the
// client reads it with every round of operations. Numbers are never used again.
//
// Invariants
//   R1 close() clears the word before anything else; a client that reads its number after it read bytes
//      has bytes of a living extent.
//   R2 word 0 is the home's own number: it tells a home from another one at the same address.
//   R3 a registration holds its ServedExtent until it is closed.
//
// Threads: any.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "fabric/served.h"
#include "fabric/ucx/ucp_table.h"
#include "fabric/ucx/window.h"

namespace ocm::fabric::ucx {

/// What a client needs to reach one extent.
struct Registration {
  uint64_t base = 0;
  uint64_t bytes = 0;
  uint64_t word_address = 0;
  uint64_t word = 0;
  std::string rkey;
};

class Registry {
 public:
  static Result<std::unique_ptr<Registry>> make(std::shared_ptr<Context> context, uint32_t extents_max,
                                                bool hardware_checked);
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  /// Registers the extent, or finds its registration.
  /// Errors: kRevoked, kLimit (extents_max), kNoMemory, kUnsupported (not shared memory).
  Result<Registration> open(const std::shared_ptr<ServedExtent>& extent);
  /// Ends the registration if there is one.
  void close(const ExtentId& id);
  /// The extent if it is registered and lives.
  std::shared_ptr<ServedExtent> find(const ExtentId& id) const;
  /// Closes registrations of extents that were revoked without close(), and empties the sinks.
  void sweep();
  size_t size() const;
  /// R1 and R3, and that a slot is of one extent or free. Cost: all of them.
  bool is_valid() const;
  /// The word table: base = word 0, word = the home's number.
  Registration words() const;

 private:
  struct Entry {
    std::shared_ptr<ServedExtent> extent;
    ucp_mem_h memory = nullptr;
    std::byte* alias = nullptr;  // null: registered where it lies
    uint32_t slot = 0;
    Registration registration;
  };
  struct Mapped {
    ucp_mem_h memory = nullptr;
    std::string rkey;
  };
  Registry(std::shared_ptr<Context> context, uint32_t extents_max, bool hardware_checked)
      : context_(std::move(context)), extents_max_(extents_max), hardware_checked_(hardware_checked) {}
  Status start();
  Result<Mapped> map(std::byte* data, uint64_t bytes);
  void end(Entry& entry);
  bool holds() const;  // is_valid(), with mutex_ held

  const std::shared_ptr<Context> context_;
  const uint32_t extents_max_;
  const bool hardware_checked_;

  mutable std::mutex mutex_;
  AddressWindow window_;
  uint64_t* words_ = nullptr;  // 1 + extents_max_; read by the network, stored with release
  uint64_t words_bytes_ = 0;
  Mapped words_mapped_;
  uint64_t next_word_ = 0;
  uint32_t slots_used_ = 1;
  std::vector<uint32_t> slots_free_;
  std::unordered_map<GlobalAddress, Entry> entries_;  // one life of an address at a time
};

}  // namespace ocm::fabric::ucx
