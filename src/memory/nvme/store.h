// A durable pool on its device: changes in groups, each of which is there after a crash as a whole or not at all.
//
//   take_slot, the page's bytes are written there, add(page) ... commit:
//     flush (the pages) -> the group's blocks to the journal -> flush -> promised; what the pages lay in before is free
//     no room in the journal: -> a checkpoint of everything, to the place of the older one -> flush -> promised
//   open: the newest whole checkpoint -> the groups behind it -> what has no name is dropped -> both superblocks, one after
//         the other -> a checkpoint
//
// Invariants, whatever the device loses of what was not flushed, or tears (tests/model/store_model.cpp)
//   D1 after a crash the contents are those of the last group that was promised, or of one after it, but for what has no
//      name.
//   D2 each page's slot has the bytes that were written for it: no slot is written while a crash could need it.
//   D3 a group of which a block is missing is none, also later, when its place in the journal is passed again: after
//      open() no block that was there before counts any more.
//   D4 damage that is no crash, a group that is missing before one that is there, is told and changes nothing.
//   D5 after a write or flush that failed nothing is promised any more.
//   D6 a superblock that counts is whole at every instant: a pool that gets a cluster, or loses it, is after a crash whose
//      it was before, or whose it was to be.
//   D7 an extent that has a name can get one that is kGrowthBytes longer than its first, however full the pool is.
//
// Threads: one at a time, and write() beside it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memory/nvme/device.h"
#include "memory/nvme/geometry.h"
#include "memory/nvme/records.h"

namespace ocm::memory::nvme {

/// Whose a pool is.
struct Identity {
  uint64_t pool = 0;       // at random, when it is made
  std::string cluster;     // empty: no cluster's yet; it becomes that of the first which opens it
  uint32_t partition = 0;  // of its addresses
};

/// Of what there are two of, one: a superblock or a checkpoint.
enum class Part : uint8_t {
  kWhole,
  kUnfinished,  // never written, or a crash came before its end
  kDamaged,  // a block of it is not as it was written; a crash may tear one, too, where a sector is less than a block
};

/// What the next open() would do, and has not done.
struct Recovery {
  uint64_t groups = 0;       // of the journal
  uint64_t torn_blocks = 0;  // of a group that was not promised
  uint64_t unreadable_blocks =
      0;                 // of the journal, where the device fails: if the last group lay there, it is lost
  uint64_t unnamed = 0;  // extents that ended with the daemon's run
};

/// What lies on a device, unchanged.
struct Inspection {
  Identity identity;
  Geometry geometry;
  uint64_t starts = 0;
  Contents contents;  // also what has no name
  Recovery recovery;
  std::array<Part, 2> superblocks, checkpoints;
};

class Store {
 public:
  /// Makes an empty pool; what was on the device is gone. Errors: kInvalidArgument (Geometry::of), kIo.
  static Status format(Device& device, const Identity& identity, uint64_t slot_bytes);
  /// A pool of no cluster becomes `cluster`'s. Errors: those of inspect(), and kInvalidArgument (of another cluster).
  static Result<std::unique_ptr<Store>> open(Device& device, std::string_view cluster);
  /// Reads what open() reads; writes nothing. Errors: kNotFound (no pool), kInvalidArgument (of another size), kUnsupported
  /// (of another version), kBadChecksum (damage, with what of it), kIo.
  static Result<Inspection> inspect(Device& device);
  /// It is no cluster's any more; all else stays. Gives whose it was. Errors: those of inspect() that superblocks have.
  static Result<Identity> disown(Device& device);

  const Identity& identity() const { return identity_; }
  const Geometry& geometry() const { return geometry_; }
  /// How often it was opened; generations begin anew with each.
  uint64_t starts() const { return starts_; }
  const Contents& contents() const { return contents_; }
  /// What open() did.
  const Recovery& recovery() const { return recovery_; }

  /// To be written to; nobody else's until it is given back, or a page is added in it. None: all are in use.
  std::optional<uint32_t> take_slot();
  void give_slot(uint32_t slot) {
    OCM_DASSERT(!contents_.is_taken(slot));  // D2
    free_.push_back(slot);
  }
  /// One more change of the group. Errors: kProtocol (N2), kLimit (more extents and names than a checkpoint holds), those
  /// of a commit that failed.
  Status add(const Record& record);
  /// Promises the group. Errors: kIo, for good (D5).
  Status commit();
  /// The same in three, one group at a time. What is added after begin_commit() is of the next; write() may run beside the
  /// other calls, and the slots that the group freed are free when it ended.
  struct Group {
    BlockKind kind = BlockKind::kJournal;  // or a checkpoint
    std::string stream;                    // empty: nothing to write
    std::vector<uint32_t> freed;
  };
  Group begin_commit();
  Status write(const Group& group) const;
  Status end_commit(Group group, const Status& written);
  /// So much longer a name may become that an extent has already, whatever else the pool has been given (D7).
  static constexpr uint64_t kGrowthBytes = 128;
  bool has_changes() const { return !group_.empty(); }
  uint64_t slots_free() const { return free_.size(); }
  /// Free when the next group ends.
  uint64_t slots_freed() const { return freed_.size(); }
  bool is_valid() const;

 private:
  Store(Device& device, Identity identity, const Geometry& geometry)
      : device_(device),
        identity_(std::move(identity)),
        geometry_(geometry),
        contents_(geometry.slots, geometry.slot_bytes) {}
  /// Of a checkpoint, for all but the pages' records.
  uint64_t description_room() const;
  bool has_room_for(const Record& record) const;
  Status write_block(const Block& block, uint64_t offset) const;
  Status write_superblock(uint64_t which) const;
  Status write_superblocks() const;
  /// With its superblocks, and with everything. Neither writes.
  static Result<std::unique_ptr<Store>> read_superblocks(Device& device);
  static Result<std::unique_ptr<Store>> read(Device& device);
  Group checkpoint() const;
  Status write_journal(const std::string& stream) const;
  Status write_checkpoint(const std::string& stream) const;
  void is_on_device(const Group& group);
  /// Reads those of one place. Errors: kIo.
  Result<Part> read_checkpoint(uint64_t which, uint64_t& sequence, std::string& stream) const;
  Status read_contents();
  Status begin_run();
  Status replay(std::string_view stream);
  Status replay_journal();
  std::optional<std::string> read_group(uint64_t first, uint32_t& blocks) const;
  /// What lies where the block with that sequence number would; none: no block of the journal. Errors: kIo.
  Result<std::optional<Block>> journal_block(uint64_t at, BlockBytes& bytes) const;

  Device& device_;
  Identity identity_;
  const Geometry geometry_;
  Contents contents_;
  Recovery recovery_;
  uint64_t starts_ = 0;      // and the superblocks' sequence
  uint64_t superblock_ = 0;  // which of the two counts
  std::array<Part, 2> superblocks_{}, checkpoints_{};
  uint64_t next_ = 1;            // sequence of the journal's next block
  uint64_t tail_ = 1;            // the first that the newest checkpoint does not contain
  uint64_t checkpoint_ = 0;      // sequence of the newest
  std::string group_;            // its records
  std::vector<uint32_t> freed_;  // by the group
  std::deque<uint32_t> free_;
  Status broken_;
};

}  // namespace ocm::memory::nvme
