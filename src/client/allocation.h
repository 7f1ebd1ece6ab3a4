// What a program holds: extents with a layout, or a piece of a slab.
//
// The first cache line is all that a small put or get on this host reads, with the allocation's Order.
//
// Invariants
//   A1 direct_ != null  =>  the whole allocation is the contiguous [direct_, direct_ + bytes_) here.
//   A2 an allocation follows its parts (rebind), which go on elsewhere when a lost replica was made again or an extent
//      moved: what needs several extents takes them from one binding. direct_ does not follow: it stays null then.
//   A3 busy() counts operations under way that touch the bytes from outside post order (copies between
//      nodes, gets that land in an extent of this host), by whichever handle; a thread's next operation waits for them first.
// Threads: any; free() only when no other call on the allocation is running.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/grant.h"
#include "client/order.h"
#include "client/slab.h"

namespace ocm::client {

class Session;

class Allocation {
 public:
  Allocation() = default;
  ~Allocation() { clear(); }
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  /// Fills an empty allocation. On an error it stays empty.
  Status create(Session& session, uint64_t bytes, const AllocationOptions& options);
  Status attach(Session& session, const std::string& name, Access access, bool hold);
  /// Fills an empty allocation with those of `parts`, which become empty. On an error all stay as they are.
  Status join(Session& session, std::span<Allocation* const> parts);
  /// Waits for what is under way on it, gives the memory back (published: detaches), becomes empty.
  Status free();
  /// Becomes empty without telling the daemon: the session is ending, and everything of it with it.
  void clear();

  /// Gives it a name; a piece of a slab moves to an extent of its own first.
  Status publish(const std::string& name, uint32_t mode);
  /// The bytes where they are contiguous on this host. Errors: kUnsupported, kOutOfRange.
  Result<std::byte*> pointer(uint64_t offset, uint64_t bytes);

  /// A1, and that it is a piece of a slab, or has a grant, or is empty. Cost: one look.
  bool is_valid() const;

  Session* session() const { return session_; }
  uint64_t bytes() const { return shape_.bytes; }
  const Shape& shape() const { return shape_; }
  Kind kind() const { return kind_; }
  bool durable() const { return durable_; }
  bool coherent() const { return coherent_; }
  Access access() const { return access_; }
  bool published() const { return name() != nullptr; }
  /// Null while it is not published.
  const PublishedName* name() const { return grant_ == nullptr ? nullptr : grant_->published(); }
  bool slab() const { return slab_ != nullptr; }
  /// A get may read any replica of a piece, and a put must reach all of them.
  bool replicated() const { return grant_ != nullptr && grant_->replicated; }
  /// Replicated sequences are written before they are joined.
  bool read_only_layout() const { return shape_.layout == Layout::kSequence && replicated(); }
  /// As client::first_piece(), of any layout.
  Piece piece_at(uint64_t offset, uint64_t length) const {
    return shape_.layout == Layout::kSequence ? grant_->sequence.first_piece(offset, length)
                                              : first_piece(shape_, offset, length);
  }
  /// Where the bytes of an extent begin in the allocation, and how many they are. Striped: 0.
  std::pair<uint64_t, uint64_t> range_of(uint32_t index) const;
  bool checksum() const { return checksum_; }
  /// Extent `index` (< shape().extents) and where the allocation starts in it.
  Extent& extent(uint32_t index) const { return (*binding())[index]; }
  /// The extents as they are now. It lives as long as the allocation. Cost: one load.
  const Binding* binding() const { return binding_.load(std::memory_order_acquire); }
  /// `reply` is the daemon's to ResolveRequest. True if the binding changed, or an extent is known as lost
  /// now. Errors: as rebind_grant().
  Result<bool> rebind(const std::shared_ptr<Daemon>& daemon, Reply reply);
  /// Extent `tried` did not answer (`silent`), or it answered kRevoked. Asks the daemon, and waits for its answer. kOk:
  /// what was not done there may be tried again. Else what the daemon knows, for after_resolve().
  Code follow(ExtentId tried, bool silent);
  /// By which the daemon knows it.
  const AllocationId& grant_id() const { return granted().id; }
  /// Of parts of one extent, whose home was silent, or which the daemon knows as freed: not worth asking again now.
  bool resolves(bool silent, uint64_t now_ns) const {
    const Grant& grant = granted();
    return !grant.over.load(std::memory_order_relaxed) &&
           (!silent || now_ns >= grant.resolves_from_ns.load(std::memory_order_relaxed));
  }
  void was_not_resolved(ExtentId tried, Code known, bool silent, uint64_t now_ns);
  /// What the daemon said of a part with replicas, if it knew nothing new of it after `failed_ns`: of many operations that
  /// failed together the first one asks for all.
  std::optional<Code> not_resolved_since(ExtentId tried, uint64_t failed_ns);
  /// So often an operation starts over, with what the daemon answers.
  static constexpr uint32_t kRebindsMax = 8;
  uint64_t base() const { return base_; }
  const AllocationId& id() const { return grant_->id; }

  /// kOutOfRange unless [offset, offset + length) lies inside; overflow-safe.
  Code check_range(uint64_t offset, uint64_t length) const {
    return length <= shape_.bytes && offset <= shape_.bytes - length ? Code::kOk : Code::kOutOfRange;
  }
  /// The bytes at `offset` if loads and stores may be used right now; else null: take the long way, which
  /// says why. Cost: five loads.
  std::byte* direct_now(uint64_t offset, uint64_t length, bool write) const {
    std::byte* direct = direct_.load(std::memory_order_acquire);
    if (direct == nullptr || check_range(offset, length) != Code::kOk || !extent_usable()) return nullptr;
    if (write && access_ != Access::kReadWrite) return nullptr;
    return direct + offset;
  }

  /// After a copy out of direct_now(): the bytes are the allocation's. Cost: one load.
  bool direct_good() const { return life_.alive_after_loads(); }

  /// Maps a single extent of this host so that direct_now() works from now on; null if it cannot be.
  std::byte* open_directly();

  /// Who starts to move these bytes waits for nothing: neither for a node or the daemon nor for earlier operations.
  bool is_ready(uint64_t offset, uint64_t length);

  std::atomic<uint32_t>& busy() { return under_way().busy; }
  /// Gets of replicas under way: one that fails is made again at another, and must not read there what was put since.
  std::atomic<uint32_t>& gets() { return under_way().gets; }
  /// Equal for handles of one allocation, whose operations keep an order among themselves.
  const Order* order() const { return &under_way(); }
  /// The first error of operations whose handles were freed before anyone asked; fence() reports it.
  std::atomic<int>& deferred_error() { return deferred_error_; }

 private:
  Order& under_way() const { return *order_.load(std::memory_order_relaxed); }
  bool extent_usable() const {
    return life_.alive() && !life_.daemon_lost() && under_way().busy.load(std::memory_order_acquire) == 0;
  }
  void take_grant(Session& session, std::unique_ptr<Grant> grant, uint32_t flags);
  void take_piece(Session& session, uint64_t bytes, const SlabPiece& piece, uint32_t flags);
  Result<std::byte*> open_here(const Piece& piece, ExtentId& tried);
  Status move_to_own_extent();
  Grant& granted() const { return slab_ != nullptr ? *slab_->grant : *grant_; }
  Status fill_zeros();
  void use_directly(const Extent& extent, std::byte* data);

  // ---- one cache line: the fast path
  std::atomic<std::byte*> direct_{nullptr};
  Shape shape_;             // bytes first
  fabric::shm::Life life_;  // written before direct_
  std::atomic<Order*> order_{&own_order_};
  Access access_ = Access::kReadWrite;
  Kind kind_ = kDefaultKind;
  bool durable_ = false;
  bool coherent_ = false;
  bool checksum_ = false;
  std::atomic<bool> pointer_taken_{false};
  // ----
  Session* session_ = nullptr;
  std::atomic<const Binding*> binding_{nullptr};  // of the grant or the slab's
  uint64_t base_ = 0;
  Slab* slab_ = nullptr;
  uint32_t piece_ = 0;
  Order own_order_;                      // of a piece of a slab, which no other handle has
  std::shared_ptr<Order> shared_order_;  // by all of the session's handles of one allocation
  std::atomic<int> deferred_error_{0};
  std::mutex opening_;            // one thread sets direct_ and what it needs
  std::unique_ptr<Grant> grant_;  // null for a piece of a slab
};

/// Null: memory of this program.
inline bool replicated(const Allocation* allocation) {
  return allocation != nullptr && allocation->replicated();
}

}  // namespace ocm::client
