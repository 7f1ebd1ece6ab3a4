#include "memory/nvme/store.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/mutation.h"
#include "base/units.h"
#include "os/crypto.h"

namespace ocm::memory::nvme {
namespace {

constexpr uint64_t kPlaces = 2;  // of superblocks and checkpoints
constexpr uint64_t kClusterBytesMax = 255;

struct Super {
  uint64_t device_bytes = 0, slot_bytes = 0;
  uint32_t partition = 0, cluster_bytes = 0;
};
static_assert(std::has_unique_object_representations_v<Super>, "no byte of it is left to chance");
static_assert(sizeof(Super) + kClusterBytesMax <= kPayloadBytes);

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
uint32_t blocks_for(uint64_t bytes) {
  return static_cast<uint32_t>(std::max<uint64_t>(1, (bytes + kPayloadBytes - 1) / kPayloadBytes));
}
std::string_view part_of(std::string_view stream, uint32_t block) {
  return stream.substr(std::min<size_t>(block * kPayloadBytes, stream.size()), kPayloadBytes);
}

}  // namespace

// ---- what is written

Status Store::write_block(const Block& block, uint64_t offset) const {
  BlockBytes bytes;
  seal(block, bytes);
  return device_.write(offset, bytes);
}

Status Store::write_superblock(uint64_t which) const {
  const Super super{geometry_.device_bytes, geometry_.slot_bytes, identity_.partition,
                    static_cast<uint32_t>(identity_.cluster.size())};
  std::string payload(reinterpret_cast<const char*>(&super), sizeof(super));
  payload += identity_.cluster;
  Block block;
  block.pool = identity_.pool, block.sequence = starts_;
  block.payload = os::bytes_of(payload);
  return write_block(block, Geometry::superblock_at(which));
}

/// The one that does not count first (D6).
Status Store::write_superblocks() const {
  const uint64_t first =
      OCM_MUTATION("write-over-the-superblock-that-counts") ? superblock_ : 1 - superblock_;
  OCM_TRY(write_superblock(first));
  if (!OCM_MUTATION("both-superblocks-at-once")) OCM_TRY(device_.flush());
  OCM_TRY(write_superblock(1 - first));
  return device_.flush();
}

Status Store::format(Device& device, const Identity& identity, uint64_t slot_bytes) {
  if (identity.cluster.size() > kClusterBytesMax)
    return Status(Code::kInvalidArgument, "the cluster's name has more than 255 bytes");
  OCM_TRY_ASSIGN(const Geometry geometry, Geometry::of(device.bytes(), slot_bytes));
  Store store(device, identity, geometry);
  OCM_TRY(store.write_checkpoint(store.checkpoint().stream));
  for (uint64_t which = 0; which < kPlaces; ++which) OCM_TRY(store.write_superblock(which));
  return device.flush();
}

Store::Group Store::checkpoint() const {
  std::string stream(reinterpret_cast<const char*>(&next_), sizeof(next_));
  return {BlockKind::kCheckpoint, stream + contents_.encoded(), {}};
}

Status Store::write_checkpoint(const std::string& stream) const {
  // The place of the older one; the newer counts until this one is whole.
  const uint64_t which = OCM_MUTATION("write-over-the-newest-checkpoint") ? 0 : (checkpoint_ + 1) % kPlaces;
  Block block;
  block.kind = BlockKind::kCheckpoint, block.pool = identity_.pool, block.sequence = checkpoint_ + 1;
  block.blocks = blocks_for(stream.size());
  if (block.blocks > geometry_.checkpoint_blocks)
    return Status(Code::kLimit, "a checkpoint has no room for the pool");
  for (uint32_t i = 0; i < block.blocks; ++i) {
    block.first = i;
    block.payload = os::bytes_of(part_of(stream, i));
    OCM_TRY(write_block(block, geometry_.checkpoint_at(which, i)));
  }
  OCM_DASSERT(part_of(stream, block.blocks).empty());  // all of it is written
  return device_.flush();
}

Status Store::write_journal(const std::string& stream) const {
  Block block;
  block.kind = BlockKind::kJournal, block.pool = identity_.pool, block.first = next_;
  block.blocks = blocks_for(stream.size());
  OCM_DASSERT(block.blocks <= geometry_.journal_blocks - (next_ - tail_));  // D3
  for (uint32_t i = 0; i < block.blocks; ++i) {
    block.sequence = next_ + i;
    block.payload = os::bytes_of(part_of(stream, i));
    OCM_TRY(write_block(block, geometry_.journal_at(block.sequence)));
  }
  return OCM_MUTATION("promise-before-the-journal-is-flushed") ? Status() : device_.flush();
}

void Store::is_on_device(const Group& group) {
  if (group.kind == BlockKind::kCheckpoint) {
    ++checkpoint_;
    tail_ = next_;
  } else {
    next_ += blocks_for(group.stream.size());
  }
}

std::optional<uint32_t> Store::take_slot() {
  if (free_.empty()) return std::nullopt;
  const uint32_t slot = free_.front();
  OCM_DASSERT(!contents_.is_taken(slot));  // D2
  free_.pop_front();
  return slot;
}

uint64_t Store::description_room() const {
  return geometry_.checkpoint_blocks * kPayloadBytes - sizeof(next_) - geometry_.slots * kPageRecordBytes;
}

bool Store::has_room_for(const Record& record) const {
  const bool makes = record.type == Record::Type::kMade;
  if (!makes && record.type != Record::Type::kNamed) return true;
  const uint64_t room = description_room();
  const uint64_t now = contents_.described_bytes();
  if (makes) return now + kMadeRecordBytes + contents_.names() * kGrowthBytes <= room;
  const auto extent = contents_.extents().find(record.id);
  const bool had_name = extent != contents_.extents().end() && !extent->second.name.empty();
  const uint64_t before = had_name ? kNamedRecordBytes + extent->second.name.size() : 0;
  const uint64_t after = record.name.empty() ? 0 : kNamedRecordBytes + record.name.size();
  if (after <= before) return true;
  // One that has a name has room to grow, so that a start can always write what it finds anew (D7).
  const uint64_t reserved = had_name ? 0 : (contents_.names() + 1) * kGrowthBytes;
  return now - before + after + reserved <= room;
}

Status Store::add(const Record& record) {
  OCM_TRY(broken_);
  OCM_DASSERT(geometry_.slots * kPageRecordBytes + sizeof(next_) <=
              geometry_.checkpoint_blocks * kPayloadBytes);
  if (!has_room_for(record)) {
    return Status(Code::kLimit, "the pool has as many extents and names as a checkpoint of it holds, " +
                                    format_bytes(description_room()) + ": free some");
  }
  OCM_TRY(contents_.apply(record, freed_));
  if (OCM_MUTATION("a-slot-is-free-before-the-promise")) {
    free_.insert(free_.begin(), freed_.begin(), freed_.end());
    freed_.clear();
  }
  encode(record, group_);
  return {};
}

Status Store::commit() {
  Group group = begin_commit();
  const Status written = write(group);
  return end_commit(std::move(group), written);
}

Store::Group Store::begin_commit() {
  if (!broken_.is_ok() || group_.empty()) return {};
  const uint64_t used = next_ - tail_;
  OCM_DASSERT(used <= geometry_.journal_blocks);
  const bool has_room = blocks_for(group_.size()) <= geometry_.journal_blocks - used;
  Group out;
  if (has_room || OCM_MUTATION("go-round-over-what-is-needed")) {
    out.stream = std::move(group_);
  } else {
    out = checkpoint();
  }
  group_.clear();
  out.freed = std::exchange(freed_, {});
  return out;
}

Status Store::write(const Group& group) const {
  if (group.stream.empty()) return {};
  if (!OCM_MUTATION("journal-before-the-pages-are-flushed")) OCM_TRY(device_.flush());
  return group.kind == BlockKind::kJournal ? write_journal(group.stream) : write_checkpoint(group.stream);
}

Status Store::end_commit(Group group, const Status& written) {
  OCM_TRY(broken_);
  broken_ = written;
  OCM_TRY(broken_);
  if (group.stream.empty()) return {};
  is_on_device(group);
  OCM_DASSERT(std::none_of(group.freed.begin(), group.freed.end(),
                           [&](uint32_t slot) { return contents_.is_taken(slot); }));  // D2
  free_.insert(free_.end(), group.freed.begin(), group.freed.end());
  if (OCM_MUTATION("the-slots-of-the-next-group-are-free")) {
    free_.insert(free_.begin(), freed_.begin(), freed_.end());
    freed_.clear();
  }
  return {};
}

bool Store::is_valid() const {
  return contents_.is_valid() && next_ - tail_ <= geometry_.journal_blocks &&
         std::none_of(free_.begin(), free_.end(), [&](uint32_t slot) { return contents_.is_taken(slot); });
}

// ---- what is read

Result<std::unique_ptr<Store>> Store::read_superblocks(Device& device) {
  std::optional<Super> found;
  Identity identity;
  uint64_t starts = 0, superblock = 0;
  std::array<Part, kPlaces> parts{Part::kUnfinished, Part::kUnfinished};
  std::optional<uint8_t> version;  // that a block claims which is none
  BlockBytes bytes;
  for (uint64_t which = 0; which < kPlaces && (which + 1) * kBlockBytes <= device.bytes(); ++which) {
    OCM_TRY(device.read(Geometry::superblock_at(which), bytes));
    const auto block = open_block(bytes, BlockKind::kSuper);
    Super super;
    if (block && block->payload.size() >= sizeof(super))
      std::memcpy(&super, block->payload.data(), sizeof(super));
    if (!block || block->payload.size() != sizeof(super) + super.cluster_bytes) {
      const auto claimed = claimed_version(bytes);
      if (claimed) parts[which] = Part::kDamaged, version = claimed;
      continue;
    }
    parts[which] = Part::kWhole;
    if (found && block->sequence <= starts) continue;
    found = super;
    starts = block->sequence;
    superblock = which;
    identity = {block->pool, text_of(block->payload.subspan(sizeof(super))), super.partition};
  }
  if (!found) {
    // Where the first checkpoint of every pool begins.
    const bool has_checkpoint = device.bytes() >= (kPlaces + 1) * kBlockBytes &&
                                device.read(kPlaces * kBlockBytes, bytes).is_ok() && claimed_version(bytes);
    if (version && *version != kFormatVersion)
      return Status(Code::kUnsupported, "the pool has version " + std::to_string(*version) +
                                            " of the format; this program knows version " +
                                            std::to_string(kFormatVersion));
    if (version || has_checkpoint)
      return Status(Code::kBadChecksum, "both superblocks of the pool are damaged");
    return Status(Code::kNotFound, "there is no pool: neither superblock is one");
  }
  if (found->device_bytes != device.bytes()) {
    return Status(Code::kInvalidArgument, "the pool was made for " + std::to_string(found->device_bytes) +
                                              " bytes, and the device has " + std::to_string(device.bytes()));
  }
  OCM_TRY_ASSIGN(const Geometry geometry, Geometry::of(device.bytes(), found->slot_bytes));
  std::unique_ptr<Store> store(new Store(device, std::move(identity), geometry));
  store->starts_ = starts;
  store->superblock_ = superblock;
  store->superblocks_ = parts;
  OCM_DASSERT(parts[superblock] == Part::kWhole);  // D6
  return store;
}

Result<std::unique_ptr<Store>> Store::read(Device& device) {
  OCM_TRY_ASSIGN(auto store, read_superblocks(device));
  OCM_TRY(store->read_contents());
  return store;
}

Result<std::unique_ptr<Store>> Store::open(Device& device, std::string_view cluster) {
  if (cluster.size() > kClusterBytesMax)
    return Status(Code::kInvalidArgument, "the cluster's name has more than 255 bytes");
  OCM_TRY_ASSIGN(auto store, read_superblocks(device));
  std::string& owner = store->identity_.cluster;
  if (!owner.empty() && owner != cluster) {
    return Status(
        Code::kInvalidArgument,
        "the pool is of the cluster \"" + owner + "\", not of \"" + std::string(cluster) +
            "\": use another pool; if that cluster is gone for good, `ocm pool disown PATH` lets any "
            "cluster have this one");
  }
  OCM_TRY(store->read_contents());
  owner = cluster;
  OCM_TRY(store->begin_run());
  OCM_DASSERT(store->is_valid());
  return store;
}

Result<Inspection> Store::inspect(Device& device) {
  OCM_TRY_ASSIGN(const auto store, read(device));
  return Inspection{std::move(store->identity_), store->geometry_, store->starts_,
                    std::move(store->contents_), store->recovery_, store->superblocks_,
                    store->checkpoints_};
}

Result<Identity> Store::disown(Device& device) {
  OCM_TRY_ASSIGN(const auto store, read_superblocks(device));
  Identity before = store->identity_;
  store->identity_.cluster.clear();
  OCM_TRY(store->write_superblocks());
  return before;
}

Result<Part> Store::read_checkpoint(uint64_t which, uint64_t& sequence, std::string& stream) const {
  stream.clear();
  uint32_t blocks = 1;
  for (uint32_t i = 0; i < blocks; ++i) {
    BlockBytes bytes;
    OCM_TRY(device_.read(geometry_.checkpoint_at(which, i), bytes));
    const auto block = open_block(bytes, BlockKind::kCheckpoint);
    if (!block && claimed_version(bytes)) return Part::kDamaged;
    if (!block || block->pool != identity_.pool || block->first != i) return Part::kUnfinished;
    if (i == 0) blocks = block->blocks, sequence = block->sequence;
    if (block->blocks != blocks || blocks > geometry_.checkpoint_blocks) return Part::kUnfinished;
    if (block->sequence != sequence && !OCM_MUTATION("a-checkpoint-of-two")) return Part::kUnfinished;
    stream += text_of(block->payload);
  }
  return stream.size() < sizeof(next_) ? Part::kUnfinished : Part::kWhole;
}

Status Store::replay(std::string_view stream) {
  std::span<const std::byte> rest = os::bytes_of(stream);
  std::vector<uint32_t> freed;
  while (!rest.empty()) {
    const auto record = decode(rest);
    const Status fits = record ? contents_.apply(*record, freed) : Status(Code::kProtocol, "malformed");
    if (!fits.is_ok())
      return Status(Code::kBadChecksum, "the pool contradicts itself: " + std::string(fits.message()));
  }
  return {};
}

Result<std::optional<Block>> Store::journal_block(uint64_t at, BlockBytes& bytes) const {
  OCM_TRY(device_.read(geometry_.journal_at(at), bytes));
  auto block = open_block(bytes, BlockKind::kJournal);
  if (block && block->pool != identity_.pool) block.reset();
  return block;
}

std::optional<std::string> Store::read_group(uint64_t first, uint32_t& blocks) const {
  std::string stream;
  blocks = 1;
  for (uint32_t i = 0; i < blocks; ++i) {
    BlockBytes bytes;
    const auto read = journal_block(first + i, bytes);
    const std::optional<Block> block = read.is_ok() ? read.value() : std::nullopt;
    if (!block || block->sequence != first + i || block->first != first) {
      if (i > 0 && OCM_MUTATION("a-part-of-a-group-counts")) return stream;
      return std::nullopt;
    }
    if (i == 0) blocks = block->blocks;
    if (block->blocks != blocks || blocks == 0 || blocks > geometry_.journal_blocks) return std::nullopt;
    stream += text_of(block->payload);
  }
  return stream;
}

Status Store::replay_journal() {
  while (next_ - tail_ < geometry_.journal_blocks) {
    uint32_t blocks = 0;
    const auto group = read_group(next_, blocks);
    if (!group) break;
    OCM_TRY(replay(*group));
    next_ += blocks;
    ++recovery_.groups;
  }
  // What else is there of later numbers is of a group that was being written, which no later one can have followed (D4).
  const uint64_t end = next_;
  for (uint64_t i = 0; i < geometry_.journal_blocks; ++i) {
    BlockBytes bytes;
    const auto read = journal_block(i, bytes);
    if (!read.is_ok()) ++recovery_.unreadable_blocks;
    const std::optional<Block> block = read.is_ok() ? read.value() : std::nullopt;
    if (!block || block->sequence < end) continue;
    if (block->first > end && !OCM_MUTATION("damage-is-an-end")) {
      return Status(Code::kBadChecksum, "the journal has no whole group at " + std::to_string(end) +
                                            ", and one at " + std::to_string(block->first) +
                                            ": the device has lost or changed what was flushed");
    }
    ++recovery_.torn_blocks;
    if (!OCM_MUTATION("go-on-at-the-hole")) next_ = std::max(next_, block->sequence + 1);
  }
  return {};
}

Status Store::read_contents() {
  std::string newest;
  for (uint64_t which = 0; which < kPlaces; ++which) {
    uint64_t sequence = 0;
    std::string stream;
    OCM_TRY_ASSIGN(checkpoints_[which], read_checkpoint(which, sequence, stream));
    if (checkpoints_[which] != Part::kWhole || sequence <= checkpoint_) continue;
    checkpoint_ = sequence;
    newest = std::move(stream);
  }
  if (newest.empty()) return Status(Code::kBadChecksum, "neither checkpoint of the pool is whole");
  std::memcpy(&next_, newest.data(), sizeof(next_));
  tail_ = next_;
  OCM_TRY(replay(std::string_view(newest).substr(sizeof(next_))));
  OCM_TRY(replay_journal());
  const auto& extents = contents_.extents();
  recovery_.unnamed = static_cast<uint64_t>(
      std::count_if(extents.begin(), extents.end(), [](const auto& one) { return one.second.name.empty(); }));
  return {};
}

Status Store::begin_run() {
  contents_.drop_unnamed();
  for (uint64_t slot = 0; slot < geometry_.slots; ++slot) {
    if (!contents_.is_taken(slot)) free_.push_back(static_cast<uint32_t>(slot));
  }
  ++starts_;
  OCM_TRY(write_superblocks());
  if (OCM_MUTATION("no-checkpoint-after-recovery")) return {};
  const Group all = checkpoint();
  OCM_TRY(write_checkpoint(all.stream));  // D3
  is_on_device(all);
  return {};
}

}  // namespace ocm::memory::nvme
