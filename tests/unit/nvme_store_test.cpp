// What lies on a device: where, in which order it is refused, and that nothing on it makes a pool crash. What a crash may
// leave is in tests/model/store_model.cpp.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "base/crc32c.h"
#include "base/units.h"
#include "memory/nvme/file_device.h"
#include "memory/nvme/store.h"
#include "temporary_folder.h"

namespace ocm::memory::nvme {
namespace {

class MemoryDevice final : public Device {
 public:
  explicit MemoryDevice(uint64_t bytes) : held(bytes) {}
  static constexpr uint64_t kNowhere = ~uint64_t{0};
  uint64_t bytes() const override { return held.size(); }
  Status read(uint64_t offset, std::span<std::byte> to) override {
    if (fails || offset == unreadable) return Status(Code::kIo, "the test's device fails");
    EXPECT_LE(offset + to.size(), held.size());
    std::memcpy(to.data(), held.data() + offset, to.size());
    return {};
  }
  Status write(uint64_t offset, std::span<const std::byte> from) override {
    if (fails) return Status(Code::kIo, "the test's device fails");
    EXPECT_LE(offset + from.size(), held.size());
    EXPECT_EQ(offset % kBlockBytes, 0u);
    std::memcpy(held.data() + offset, from.data(), from.size());
    return {};
  }
  Status flush() override { return fails ? Status(Code::kIo, "the test's device fails") : Status(); }

  std::vector<std::byte> held;
  bool fails = false;
  uint64_t unreadable = kNowhere;
};

const Identity kOurs{.pool = 7, .cluster = "ours", .partition = 9};
ExtentId extent(uint32_t number) { return {GlobalAddress(9, uint64_t{number} << 30), number}; }

TEST(NvmeGeometry, PartsLieBehindEachOtherAndFit) {
  for (const uint64_t device_bytes : {300 * kKiB, kMiB, 100 * kMiB + 4096, 64 * kGiB}) {
    for (const uint64_t slot_bytes : {4 * kKiB, 64 * kKiB, 4 * kMiB}) {
      const auto made = Geometry::of(device_bytes, slot_bytes);
      if (!made.is_ok()) {
        EXPECT_EQ(made.status().code(), Code::kInvalidArgument);
        EXPECT_LT(device_bytes, 16 * slot_bytes);
        continue;
      }
      const Geometry& g = made.value();
      EXPECT_TRUE(g.is_valid());
      EXPECT_EQ(g.checkpoint_at(0, 0), 2 * kBlockBytes);
      EXPECT_EQ(g.checkpoint_at(1, 0), g.checkpoint_at(0, g.checkpoint_blocks));
      EXPECT_EQ(g.journal_at(0), g.checkpoint_at(1, g.checkpoint_blocks));
      EXPECT_EQ(g.journal_at(g.journal_blocks), g.journal_at(0)) << "it is a ring";
      EXPECT_GE(g.slot_at(0), g.journal_at(g.journal_blocks - 1) + kBlockBytes);
      EXPECT_EQ(g.slot_at(0) % slot_bytes, 0u);
      EXPECT_LE(g.slot_at(g.slots), device_bytes);
      EXPECT_LT(g.pages(), g.slots) << "some are spare";
      EXPECT_LT(g.metadata_bytes(), device_bytes / 8 + 32 * kBlockBytes + slot_bytes);
    }
  }
  for (const uint64_t wrong : {uint64_t{0}, uint64_t{4095}, uint64_t{12288}, 8 * kMiB})
    EXPECT_EQ(Geometry::of(kGiB, wrong).status().code(), Code::kInvalidArgument) << wrong;
  EXPECT_EQ(Geometry::of(0, 4096).status().code(), Code::kInvalidArgument);
}

TEST(NvmeGeometry, IsMadeForThePagesThatItIsToHold) {
  for (const uint64_t slot_bytes : {4 * kKiB, 64 * kKiB, 4 * kMiB}) {
    for (uint64_t pages = 9; pages < 3'000'000; pages = pages * 5 / 4 + 1) {
      const uint64_t bytes = pages * slot_bytes - pages % 3;
      const auto made = Geometry::for_pages(bytes, slot_bytes);
      ASSERT_TRUE(made.is_ok()) << made.status().to_string();
      const Geometry& g = made.value();
      EXPECT_GE(g.pages() * slot_bytes, bytes);
      EXPECT_LE(g.pages(), pages + pages / 100 + 2) << "and for no more";
      EXPECT_EQ(g, Geometry::of(g.device_bytes, slot_bytes).value());
    }
    EXPECT_EQ(Geometry::for_pages(8 * slot_bytes - 1, slot_bytes).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(Geometry::for_pages(~uint64_t{0}, slot_bytes).status().code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(Geometry::for_pages(kGiB, 5000).status().code(), Code::kInvalidArgument);
}

TEST(NvmeRecords, AreWhatWasEncoded) {
  std::string stream;
  const PageAt at{3, 4, 5};
  for (const Record& record :
       {made(extent(1), 9000), named(extent(1), "a name"), page_at(extent(1), 2, at), freed(extent(1))})
    encode(record, stream);
  std::span<const std::byte> rest(reinterpret_cast<const std::byte*>(stream.data()), stream.size());
  EXPECT_EQ(decode(rest)->bytes, 9000u);
  EXPECT_EQ(decode(rest)->name, "a name");
  EXPECT_EQ(decode(rest)->at, at);
  EXPECT_EQ(decode(rest)->id, extent(1));
  EXPECT_TRUE(rest.empty());
  for (size_t cut = 1; cut < stream.size(); ++cut) {
    std::span<const std::byte> some(reinterpret_cast<const std::byte*>(stream.data()), stream.size() - cut);
    while (decode(some)) {
    }
    EXPECT_LT(some.size(), kPageRecordBytes);
  }
}

TEST(NvmeRecords, WhatDoesNotFitChangesNothing) {
  Contents contents(8, 4096);
  std::vector<uint32_t> free;
  ASSERT_TRUE(contents.apply(made(extent(1), 9000), free).is_ok());
  ASSERT_TRUE(contents.apply(page_at(extent(1), 2, {7, 0, 1}), free).is_ok());
  const std::string before = contents.encoded();
  for (const Record& wrong : {made(extent(1), 9000), made(extent(2), 0), named(extent(2), "x"),
                              freed(extent(2)), page_at(extent(1), 3, {1, 0, 1}),
                              page_at(extent(1), 0, {8, 0, 1}), page_at(extent(1), 0, {7, 0, 1})}) {
    EXPECT_EQ(contents.apply(wrong, free).code(), Code::kProtocol);
    EXPECT_EQ(contents.encoded(), before);
  }
  EXPECT_TRUE(free.empty());
  ASSERT_TRUE(contents.apply(page_at(extent(1), 2, {3, 0, 2}), free).is_ok());
  EXPECT_EQ(free, std::vector<uint32_t>{7}) << "the page lies elsewhere now";
  EXPECT_TRUE(contents.is_valid());
}

class NvmeStore : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(Store::format(device_, kOurs, 4096).is_ok()); }
  std::unique_ptr<Store> opened() {
    auto store = Store::open(device_, kOurs.cluster);
    EXPECT_TRUE(store.is_ok()) << store.status().to_string();
    return store.is_ok() ? std::move(store).value() : nullptr;
  }
  Code code() { return Store::open(device_, kOurs.cluster).status().code(); }

  MemoryDevice device_{kMiB};
};

TEST_F(NvmeStore, IsOpenedAsItWasMade) {
  auto store = opened();
  EXPECT_EQ(store->identity().pool, kOurs.pool);
  EXPECT_EQ(store->identity().partition, kOurs.partition);
  EXPECT_EQ(store->geometry().slot_bytes, 4096u);
  EXPECT_EQ(store->starts(), 1u);
  EXPECT_EQ(opened()->starts(), 2u) << "generations of the one before are over";
}

TEST_F(NvmeStore, AnothersIsRefusedByName) {
  EXPECT_NE(Store::open(device_, "theirs").status().message().find("\"ours\""), std::string_view::npos);
  MemoryDevice grown(2 * kMiB);
  std::copy(device_.held.begin(), device_.held.end(), grown.held.begin());
  EXPECT_EQ(Store::open(grown, kOurs.cluster).status().code(), Code::kInvalidArgument);
  MemoryDevice empty(kMiB), tiny(4096);
  EXPECT_EQ(Store::open(empty, kOurs.cluster).status().code(), Code::kNotFound);
  EXPECT_EQ(Store::open(tiny, kOurs.cluster).status().code(), Code::kNotFound);
}

TEST_F(NvmeStore, OfNoClusterBecomesTheFirstOnes) {
  ASSERT_TRUE(Store::format(device_, {.pool = 7, .cluster = "", .partition = 9}, 4096).is_ok());
  EXPECT_EQ(Store::inspect(device_).value().identity.cluster, "");
  EXPECT_EQ(opened()->identity().cluster, "ours");
  EXPECT_EQ(Store::inspect(device_).value().identity.cluster, "ours");
  const Status refused = Store::open(device_, "theirs").status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.message().find("ocm pool disown"), std::string_view::npos) << "says what to do";
  EXPECT_EQ(Store::open(device_, std::string(256, 'c')).status().code(), Code::kInvalidArgument);
  for (const uint64_t which : {0, 1}) {
    MemoryDevice copy(kMiB);
    copy.held = device_.held;
    copy.held[Geometry::superblock_at(which) + 100] ^= std::byte{1};
    EXPECT_EQ(Store::inspect(copy).value().identity.cluster, "ours") << "both superblocks say so";
  }
}

TEST_F(NvmeStore, IsInspectedWithoutAChange) {
  {
    auto store = opened();
    for (const uint32_t number : {1, 2, 3}) {
      ASSERT_TRUE(store->add(made(extent(number), 4 * 4096)).is_ok());
      ASSERT_TRUE(store->add(page_at(extent(number), 1, {*store->take_slot(), number, 1})).is_ok());
      ASSERT_TRUE(store->commit().is_ok());
    }
    ASSERT_TRUE(store->add(named(extent(2), "kept")).is_ok());
    ASSERT_TRUE(store->commit().is_ok());
  }
  const std::vector<std::byte> before = device_.held;
  const auto found = Store::inspect(device_);
  ASSERT_TRUE(found.is_ok()) << found.status().to_string();
  EXPECT_EQ(device_.held, before);
  EXPECT_EQ(found.value().identity.pool, kOurs.pool);
  EXPECT_EQ(found.value().starts, 1u);
  EXPECT_EQ(found.value().contents.extents().size(), 3u) << "also what ends at the next start";
  EXPECT_EQ(found.value().contents.slots_taken(), 3u);
  EXPECT_EQ(found.value().recovery.groups, 4u);
  EXPECT_EQ(found.value().recovery.unnamed, 2u);
  EXPECT_EQ(found.value().superblocks, (std::array{Part::kWhole, Part::kWhole}));
  const auto store = opened();
  EXPECT_EQ(store->geometry(), found.value().geometry);
  EXPECT_EQ(store->recovery().groups, found.value().recovery.groups);
  EXPECT_EQ(store->recovery().unnamed, found.value().recovery.unnamed);
  EXPECT_EQ(store->contents().extents().size(), 1u);
}

TEST_F(NvmeStore, DamageIsSaidAndNothingElse) {
  (void)opened();
  const std::vector<std::byte> good = device_.held;
  const auto damage = [&](uint64_t offset) { device_.held[offset] ^= std::byte{1}; };
  damage(Geometry::superblock_at(1) + 100);
  EXPECT_EQ(Store::inspect(device_).value().superblocks, (std::array{Part::kWhole, Part::kDamaged}));
  damage(Geometry::superblock_at(0) + 100);
  EXPECT_EQ(Store::inspect(device_).status().code(), Code::kBadChecksum) << "not taken for an empty device";
  EXPECT_EQ(code(), Code::kBadChecksum);
  std::fill_n(device_.held.begin(), 2 * kBlockBytes, std::byte{0});
  EXPECT_EQ(code(), Code::kBadChecksum) << "nor where they are gone, and the rest is there";
  device_.held = good;
  const Geometry g = Geometry::of(kMiB, 4096).value();
  damage(g.checkpoint_at(0, 0) + 50);
  EXPECT_EQ(Store::inspect(device_).value().checkpoints, (std::array{Part::kDamaged, Part::kWhole}));
  device_.held = good;
  for (const uint64_t which : {0, 1}) device_.held[Geometry::superblock_at(which) + 4] = std::byte{9};
  EXPECT_EQ(code(), Code::kUnsupported) << "made by a later version";
}

TEST_F(NvmeStore, BlocksOfTheJournalThatCannotBeReadAreCounted) {
  {
    auto store = opened();
    for (const uint32_t number : {1, 2}) {
      ASSERT_TRUE(store->add(made(extent(number), 4096)).is_ok());
      ASSERT_TRUE(store->commit().is_ok());
    }
  }
  const Geometry g = Geometry::of(kMiB, 4096).value();
  EXPECT_EQ(Store::inspect(device_).value().recovery.unreadable_blocks, 0u);
  device_.unreadable = g.journal_at(2);
  const auto found = Store::inspect(device_);
  ASSERT_TRUE(found.is_ok()) << found.status().to_string();
  EXPECT_EQ(found.value().recovery.unreadable_blocks, 1u);
  EXPECT_EQ(found.value().recovery.groups, 1u);
  device_.unreadable = g.journal_at(1);
  EXPECT_EQ(Store::inspect(device_).status().code(), Code::kBadChecksum) << "a later group is there";
}

TEST_F(NvmeStore, DisownedItIsTheSameAndAnybodys) {
  {
    auto store = opened();
    ASSERT_TRUE(store->add(made(extent(1), 4096)).is_ok());
    ASSERT_TRUE(store->add(named(extent(1), "kept")).is_ok());
    ASSERT_TRUE(store->commit().is_ok());
  }
  const auto before = Store::disown(device_);
  ASSERT_TRUE(before.is_ok()) << before.status().to_string();
  EXPECT_EQ(before.value().cluster, "ours");
  const auto found = Store::inspect(device_);
  EXPECT_EQ(found.value().identity.cluster, "");
  EXPECT_EQ(found.value().identity.pool, kOurs.pool);
  EXPECT_EQ(found.value().identity.partition, kOurs.partition);
  EXPECT_EQ(found.value().starts, 1u);
  const auto store = Store::open(device_, "theirs");
  ASSERT_TRUE(store.is_ok()) << store.status().to_string();
  EXPECT_TRUE(store.value()->contents().extents().contains(extent(1)));
  EXPECT_EQ(store.value()->starts(), 2u);
  EXPECT_EQ(code(), Code::kInvalidArgument) << "theirs now";
  device_.fails = true;
  EXPECT_EQ(Store::disown(device_).status().code(), Code::kIo);
}

TEST_F(NvmeStore, OneSuperblockAndOneCheckpointAreEnough) {
  ASSERT_TRUE(opened()->add(made(extent(1), 4096)).is_ok());
  (void)opened();
  device_.held[100] ^= std::byte{1};
  const Geometry g = opened()->geometry();
  EXPECT_EQ(code(), Code::kOk);
  for (uint64_t which : {0, 1}) device_.held[g.checkpoint_at(which, 0) + 50] ^= std::byte{1};
  EXPECT_EQ(code(), Code::kBadChecksum);
}

TEST_F(NvmeStore, WhatFailedOncePromisesNothingAnyMore) {
  auto store = opened();
  ASSERT_TRUE(store->add(made(extent(1), 4096)).is_ok());
  device_.fails = true;
  EXPECT_EQ(store->commit().code(), Code::kIo);
  device_.fails = false;
  EXPECT_EQ(store->commit().code(), Code::kIo);
  EXPECT_EQ(store->add(freed(extent(1))).code(), Code::kIo);
}

TEST_F(NvmeStore, NamesThatACheckpointCannotHoldAreALimit) {
  auto store = opened();
  Status last;
  uint32_t number = 1;
  for (; last.is_ok() && number < 10'000; ++number) {
    last = store->add(made(extent(number), 4096));
    if (last.is_ok()) last = store->add(named(extent(number), std::string(200, 'n')));
    if (last.is_ok() && number % 50 == 0) last = store->commit();
  }
  EXPECT_EQ(last.code(), Code::kLimit) << last.to_string();
  EXPECT_TRUE(store->commit().is_ok());
  store.reset();
  EXPECT_GT(opened()->contents().extents().size(), 100u);
}

TEST_F(NvmeStore, ManyChangesAreThereAgain) {
  std::mt19937 random(1);
  for (int run = 0; run < 20; ++run) {
    auto store = opened();
    for (int i = 0; i < 300; ++i) {
      const ExtentId id = extent(1 + random() % 6);
      const bool known = store->contents().extents().contains(id);
      if (!known) {
        ASSERT_TRUE(store->add(made(id, 64 * 4096)).is_ok());
        ASSERT_TRUE(store->add(named(id, "n" + std::to_string(random() % 100))).is_ok());
      } else if (random() % 20 == 0) {
        ASSERT_TRUE(store->add(freed(id)).is_ok());
      } else if (const auto slot = store->take_slot()) {
        ASSERT_TRUE(store->add(page_at(id, random() % 64, {*slot, 1, 1 + random() % 9})).is_ok());
      } else {
        ASSERT_TRUE(store->commit().is_ok());
      }
      if (random() % 7 == 0) {
        ASSERT_TRUE(store->commit().is_ok());
      }
      ASSERT_TRUE(store->is_valid());
    }
    ASSERT_TRUE(store->commit().is_ok());
    const auto before = store->contents().extents();
    store.reset();
    ASSERT_EQ(opened()->contents().extents(), before);
  }
}

/// Bytes that anybody may have written there, checksums right or not.
TEST_F(NvmeStore, NothingOnADeviceMakesItCrash) {
  {
    auto store = opened();
    for (uint32_t i = 1; i < 30; ++i) {
      ASSERT_TRUE(store->add(made(extent(i), 4096 * 3)).is_ok());
      ASSERT_TRUE(store->add(named(extent(i), "name")).is_ok());
      ASSERT_TRUE(store->add(page_at(extent(i), i % 3, {*store->take_slot(), i, 1})).is_ok());
      ASSERT_TRUE(store->commit().is_ok());
    }
  }
  const std::vector<std::byte> good = device_.held;
  const Geometry g = Geometry::of(kMiB, 4096).value();
  const uint64_t blocks = g.metadata_bytes() / kBlockBytes;
  std::mt19937 random(1);
  size_t refused = 0;
  for (int i = 0; i < 3000; ++i) {
    device_.held = good;
    for (unsigned changes = 1 + random() % 3; changes > 0; --changes) {
      const uint64_t at = random() % blocks * kBlockBytes;
      BlockBytes bytes;
      std::memcpy(bytes.data(), device_.held.data() + at, kBlockBytes);
      std::optional<Block> block;
      for (const BlockKind kind : {BlockKind::kSuper, BlockKind::kCheckpoint, BlockKind::kJournal}) {
        if (!block) block = open_block(bytes, kind);
      }
      if (!block || random() % 3 == 0) {
        device_.held[at + random() % kBlockBytes] ^= static_cast<std::byte>(1 + random() % 255);
        continue;
      }
      std::string payload(reinterpret_cast<const char*>(block->payload.data()), block->payload.size());
      for (unsigned bits = random() % 4; bits > 0 && !payload.empty(); --bits)
        payload[random() % payload.size()] ^= static_cast<char>(1 + random() % 255);
      if (random() % 4 == 0) payload.resize(random() % (payload.size() + 1));
      if (random() % 4 == 0) block->sequence += random() % 5;
      if (random() % 4 == 0) block->first = random() % 8;
      if (random() % 4 == 0) block->blocks = random() % 2 == 0 ? random() % 9 : 0xFFFFFFFF;
      block->payload = std::span(reinterpret_cast<const std::byte*>(payload.data()), payload.size());
      BlockBytes sealed;
      seal(*block, sealed);
      std::memcpy(device_.held.data() + at, sealed.data(), kBlockBytes);
    }
    auto store = Store::open(device_, kOurs.cluster);
    if (store.is_ok()) {
      EXPECT_TRUE(store.value()->is_valid());
    } else {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100u);
  EXPECT_LT(refused, 2900u);
}

class NvmeFile : public ::testing::Test {
 protected:
  const ocm::test::TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path(), path_ = folder_ + "/pool";
};

TEST_F(NvmeFile, APoolIsThereInTheNextProcess) {
  ASSERT_TRUE(FileDevice::create(path_, kMiB).is_ok());
  struct stat file {};
  ASSERT_EQ(::stat(path_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777u, 0600u);
  EXPECT_GE(file.st_blocks * 512, static_cast<off_t>(kMiB)) << "all of it is allocated";
  std::vector<std::byte> page(4096, std::byte{7}), back(4096);
  PageAt at{0, crc32c(0, page.data(), page.size()), 1};
  {
    auto device = FileDevice::open(path_);
    ASSERT_TRUE(device.is_ok()) << device.status().to_string();
    EXPECT_EQ(device.value()->bytes(), kMiB);
    EXPECT_EQ(FileDevice::open(path_).status().code(), Code::kExists) << "one process at a time";
    ASSERT_TRUE(Store::format(*device.value(), kOurs, 4096).is_ok());
    auto store = Store::open(*device.value(), kOurs.cluster);
    ASSERT_TRUE(store.is_ok()) << store.status().to_string();
    at.slot = *store.value()->take_slot();
    ASSERT_TRUE(device.value()->write(store.value()->geometry().slot_at(at.slot), page).is_ok());
    ASSERT_TRUE(store.value()->add(made(extent(1), 8192)).is_ok());
    ASSERT_TRUE(store.value()->add(named(extent(1), "kept")).is_ok());
    ASSERT_TRUE(store.value()->add(page_at(extent(1), 1, at)).is_ok());
    ASSERT_TRUE(store.value()->commit().is_ok());
  }
  auto device = FileDevice::open(path_);
  ASSERT_TRUE(device.is_ok());
  auto store = Store::open(*device.value(), kOurs.cluster);
  ASSERT_TRUE(store.is_ok()) << store.status().to_string();
  ASSERT_NE(store.value()->contents().find(extent(1), 1), nullptr);
  EXPECT_EQ(*store.value()->contents().find(extent(1), 1), at);
  ASSERT_TRUE(device.value()->read(store.value()->geometry().slot_at(at.slot), back).is_ok());
  EXPECT_EQ(back, page);
}

TEST_F(NvmeFile, WhatIsNoPoolIsRefused) {
  EXPECT_EQ(FileDevice::open(path_).status().code(), Code::kNotFound);
  for (const auto access : {FileDevice::Access::kReadWrite, FileDevice::Access::kRead})
    EXPECT_EQ(FileDevice::open(folder_, access).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(FileDevice::open("/dev/null").status().code(), Code::kInvalidArgument);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(FileDevice::open(path_).status().code(), Code::kInvalidArgument) << "and nobody waits";
  EXPECT_EQ(FileDevice::create(path_, kMiB).code(), Code::kExists);
  EXPECT_EQ(FileDevice::create(folder_ + "/none/pool", kMiB).code(), Code::kNotFound);
  const std::string huge = folder_ + "/huge";
  EXPECT_FALSE(FileDevice::create(huge, uint64_t{1} << 60).is_ok());
  EXPECT_FALSE(std::filesystem::exists(huge)) << "what could not be made leaves nothing";
}

TEST_F(NvmeFile, IsReadByManyOrWrittenByOne) {
  ASSERT_TRUE(FileDevice::create(path_, 8192).is_ok());
  std::vector<std::byte> bytes(4096);
  {
    const auto one = FileDevice::open(path_, FileDevice::Access::kRead);
    const auto other = FileDevice::open(path_, FileDevice::Access::kRead);
    ASSERT_TRUE(one.is_ok() && other.is_ok());
    EXPECT_TRUE(one.value()->read(0, bytes).is_ok());
    EXPECT_EQ(one.value()->write(0, bytes).code(), Code::kIo);
    EXPECT_EQ(FileDevice::open(path_).status().code(), Code::kExists);
  }
  const auto writer = FileDevice::open(path_);
  ASSERT_TRUE(writer.is_ok());
  EXPECT_EQ(FileDevice::open(path_, FileDevice::Access::kRead).status().code(), Code::kExists);
}

TEST_F(NvmeFile, BeyondItsEndIsAnError) {
  ASSERT_TRUE(FileDevice::create(path_, 8192).is_ok());
  auto device = FileDevice::open(path_);
  ASSERT_TRUE(device.is_ok());
  std::vector<std::byte> bytes(3 * kMiB);
  EXPECT_EQ(device.value()->read(8192, std::span(bytes).first(4096)).code(), Code::kIo);
  EXPECT_EQ(device.value()->read(0, bytes).code(), Code::kIo);
  EXPECT_EQ(device.value()->write(8192, std::span(bytes).first(4096)).code(), Code::kIo);
  EXPECT_EQ(std::filesystem::file_size(path_), 8192u) << "it does not grow";
  EXPECT_TRUE(device.value()->read(0, std::span(bytes).first(8192)).is_ok());
}

}  // namespace
}  // namespace ocm::memory::nvme
