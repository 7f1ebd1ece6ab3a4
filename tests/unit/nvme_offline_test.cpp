// Pools that no daemon has: made in full or not at all, nothing of others overwritten, each damaged page found.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/crc32c.h"
#include "memory/nvme/offline.h"
#include "nvme_disk.h"
#include "temporary_folder.h"

namespace ocm::memory::nvme {
namespace {

class NvmeOffline : public ::testing::Test {
 protected:
  const ocm::test::TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path(), path_ = folder_ + "/pool";
};

TEST_F(NvmeOffline, AMadeFileHoldsWhatWasAskedForAndIsNobodys) {
  const auto made = make_pool({.path = path_, .bytes = kMiB + 1});
  ASSERT_TRUE(made.is_ok()) << made.status().to_string();
  EXPECT_NE(made.value().identity.pool, 0u);
  EXPECT_GE(made.value().geometry.pages() * kPageBytesDefault, kMiB + 1);
  EXPECT_EQ(made.value().offered_bytes, kMiB + 1);
  EXPECT_EQ(made.value().configuration,
            "[offer.nvme]\npath = \"" + path_ + "\"\nbytes = 1048577  # 1.00 MiB\n");
  struct stat file {};
  ASSERT_EQ(::stat(path_.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777u, 0600u);
  EXPECT_EQ(static_cast<uint64_t>(file.st_size), made.value().geometry.device_bytes);
  EXPECT_GE(file.st_blocks * 512, file.st_size) << "all of it is allocated";
  auto device = FileDevice::open(path_, FileDevice::Access::kRead);
  ASSERT_TRUE(device.is_ok());
  const auto found = Store::inspect(*device.value());
  ASSERT_TRUE(found.is_ok()) << found.status().to_string();
  EXPECT_EQ(found.value().identity.pool, made.value().identity.pool);
  EXPECT_EQ(found.value().identity.cluster, "");
  EXPECT_EQ(found.value().starts, 0u);
}

TEST_F(NvmeOffline, WhatIsThereOrCannotBeIsRefusedAndLeavesNothing) {
  const auto code = [](const MakeOptions& options) { return make_pool(options).status().code(); };
  EXPECT_EQ(code({.path = path_}), Code::kInvalidArgument) << "of no length";
  EXPECT_EQ(code({.path = path_, .bytes = 8 * kPageBytesDefault - 1}), Code::kInvalidArgument);
  EXPECT_EQ(code({.path = path_, .bytes = kMiB, .page_bytes = 5000}), Code::kInvalidArgument);
  EXPECT_EQ(code({.path = path_, .bytes = kGiB << 10}), Code::kInvalidArgument) << "addresses do not reach";
  EXPECT_EQ(code({.path = folder_, .bytes = kMiB, .force = true}), Code::kInvalidArgument);
  EXPECT_EQ(code({.path = folder_ + "/none/pool", .bytes = kMiB}), Code::kNotFound);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
  std::ofstream(path_) << "mine";
  EXPECT_EQ(code({.path = path_, .bytes = kMiB, .force = true}), Code::kExists);
  EXPECT_EQ(std::filesystem::file_size(path_), 4u);
  std::filesystem::remove(path_);
  std::filesystem::create_symlink(folder_ + "/elsewhere", path_);
  EXPECT_EQ(code({.path = path_, .bytes = kMiB}), Code::kExists) << "a link is not followed";
}

TEST_F(NvmeOffline, OtherPagesAndPathsAreConfiguredAsTheyAre) {
  const std::string odd = folder_ + "/a \"b\"\n\\c";
  const auto made = make_pool({.path = odd, .bytes = 64 * kKiB, .page_bytes = 4096});
  ASSERT_TRUE(made.is_ok()) << made.status().to_string();
  EXPECT_EQ(made.value().configuration, "[offer.nvme]\npath = \"" + folder_ +
                                            "/a \\\"b\\\"\\u000A\\\\c\"\nbytes = 65536  # 64.0 KiB\n"
                                            "page_bytes = 4096\n");
}

TEST(NvmeContents, OfADeviceAreNamed) {
  const auto found = [](uint64_t at, std::string_view bytes) {
    std::vector<std::byte> device(kMiB);
    std::memcpy(device.data() + at, bytes.data(), bytes.size());
    test::Disk disk(std::move(device));
    return contents_of(disk).value();
  };
  EXPECT_EQ(found(0, ""), "");
  EXPECT_EQ(found(1080, "\x53\xEF"), "an ext2, ext3 or ext4 file system");
  EXPECT_EQ(found(0, "XFSB"), "an XFS file system");
  EXPECT_EQ(found(65600, "_BHRfS_M"), "a Btrfs file system");
  EXPECT_EQ(found(510, "\x55\xAA"), "a partition table or a FAT file system");
  test::Disk pool(kMiB), tiny(4096), failing(kMiB);
  EXPECT_TRUE(Store::format(pool, {.pool = 1, .cluster = "", .partition = 0}, 4096).is_ok());
  EXPECT_EQ(contents_of(pool).value(), "a pool of Oncilla");
  for (const uint64_t which : {0, 1}) pool.damage(Geometry::superblock_at(which) + 9);
  EXPECT_EQ(contents_of(pool).value(), "a pool of Oncilla") << "damaged, it may be worth something";
  EXPECT_EQ(contents_of(tiny).value(), "");
  failing.fails = [](test::Disk::Op, uint64_t) { return true; };
  EXPECT_EQ(contents_of(failing).status().code(), Code::kIo);
}

TEST(NvmePages, ThatAreNotWhatWasWrittenAreFound) {
  test::Disk disk(kMiB);
  ASSERT_TRUE(Store::format(disk, {.pool = 1, .cluster = "", .partition = 9}, 4096).is_ok());
  const ExtentId with{GlobalAddress(9, 0), 1}, without{GlobalAddress(9, kGiB), 2};
  uint64_t damaged = 0, unreadable = 0;
  {
    const auto store = std::move(Store::open(disk, "c")).value();
    for (const ExtentId id : {with, without}) {
      ASSERT_TRUE(store->add(made(id, 8 * 4096)).is_ok());
      for (uint64_t page = 0; page < 8; page += 2) {
        const uint32_t slot = *store->take_slot();
        const std::vector<std::byte> bytes(4096, std::byte(page + 1));
        ASSERT_TRUE(disk.write(store->geometry().slot_at(slot), bytes).is_ok());
        ASSERT_TRUE(store->add(page_at(id, page, {slot, crc32c(0, bytes.data(), bytes.size()), 1})).is_ok());
        if (id == with && page == 4) damaged = store->geometry().slot_at(slot);
        if (id == without && page == 2) unreadable = store->geometry().slot_at(slot);
      }
    }
    ASSERT_TRUE(store->add(named(with, "n")).is_ok());
    ASSERT_TRUE(store->commit().is_ok());
  }
  const auto found = Store::inspect(disk);
  ASSERT_TRUE(found.is_ok());
  uint64_t done = 0;
  const auto progress = [&](uint64_t bytes) {
    EXPECT_EQ(bytes, done += 4096);
    return Status();
  };
  const auto sound = check_pages(disk, found.value(), progress);
  EXPECT_EQ(sound.value().pages, 8u);
  EXPECT_TRUE(sound.value().bad.empty());
  disk.damage(damaged + 4095);
  disk.fails = [&](test::Disk::Op, uint64_t offset) { return offset == unreadable; };
  done = 0;
  const auto checked = check_pages(disk, found.value(), progress);
  ASSERT_EQ(checked.value().bad.size(), 2u);
  EXPECT_EQ(checked.value().bad[0].extent, with);
  EXPECT_TRUE(checked.value().bad[0].has_name);
  EXPECT_EQ(checked.value().bad[0].page, 4u);
  EXPECT_EQ(checked.value().bad[0].why.code(), Code::kBadChecksum);
  EXPECT_EQ(checked.value().bad[1].extent, without);
  EXPECT_FALSE(checked.value().bad[1].has_name);
  EXPECT_EQ(checked.value().bad[1].why.code(), Code::kIo);
  const auto ended = check_pages(disk, found.value(), [](uint64_t) { return Status(Code::kCancelled); });
  EXPECT_EQ(ended.status().code(), Code::kCancelled);
}

}  // namespace
}  // namespace ocm::memory::nvme
