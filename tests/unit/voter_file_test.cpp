// What a voter's next run finds: what was saved last, or nothing.
#include "node/voter_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "temporary_folder.h"

namespace ocm::node {
namespace {

constexpr auto kMine = VoterStore::Of::kThisRun, kFormer = VoterStore::Of::kFormerRuns;
using Saved = std::vector<std::string>;
const Saved kNothing;
const std::string kBoot = "01234567-89ab-cdef-0123-456789abcdef", kOtherBoot = "f" + kBoot.substr(1);

struct VoterFile : testing::Test {
  std::string path(const char* name) const { return folder.path() + "/" + name; }
  std::string bytes(const char* name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const char* name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary | std::ios::trunc) << bytes;
  }
  VoterFiles next(const std::string& boot = kBoot) const { return {folder.path(), boot}; }
  test::TemporaryFolder folder;
  const std::string memory = std::string("what\0a voter knows", 18);
};

TEST_F(VoterFile, TheNextRunFindsWhatWasSavedLast) {
  VoterFiles files = next();
  EXPECT_EQ(files.load(kMine), kNothing);
  files.save(kMine, "before");
  files.save(kMine, memory);
  files.save(kFormer, "of another");
  EXPECT_EQ(next().load(kMine), Saved{memory});
  EXPECT_EQ(next().load(kFormer), Saved{"of another"});
  struct stat about {};
  ASSERT_EQ(::stat(path("voter").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
}

TEST_F(VoterFile, NothingIsFoundOfWhatWasRemoved) {
  VoterFiles files = next();
  files.save(kMine, memory);
  files.save(kMine, "");
  EXPECT_EQ(next().load(kMine), kNothing);
  files.save(kFormer, "");  // of none
}

TEST_F(VoterFile, AnotherBootOfTheMachineFindsNothing) {
  next().save(kMine, memory);
  EXPECT_EQ(next(kOtherBoot).load(kMine), kNothing);
  next("").save(kMine, memory);
  EXPECT_EQ(next("").load(kMine), kNothing) << "a machine that tells no boot id";
}

TEST_F(VoterFile, WhatIsNotWholeIsNothing) {
  next().save(kMine, memory);
  const std::string good = bytes("voter");
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    write("voter", bad);
    EXPECT_EQ(next().load(kMine), kNothing) << "byte " << i;
    write("voter", good.substr(0, i));
    EXPECT_EQ(next().load(kMine), kNothing) << "its first " << i << " bytes";
  }
  write("voter", good);
  EXPECT_EQ(next().load(kMine), Saved{memory});
}

TEST_F(VoterFile, WhatWasAppendedIsFoundAfterWhatWasSaved) {
  VoterFiles files = next();
  EXPECT_FALSE(files.append(kMine, "to nothing"));
  files.save(kMine, "of a former council");
  files.append(kMine, "to that");
  files.save(kMine, memory);
  EXPECT_TRUE(files.append(kMine, "one"));
  EXPECT_TRUE(files.append(kMine, ""));
  EXPECT_TRUE(files.append(kMine, "two"));
  EXPECT_EQ(next().load(kMine), (Saved{memory, "one", "", "two"}));
  EXPECT_FALSE(next().append(kMine, "to what another run saved"));
}

TEST_F(VoterFile, AnEntryThatIsCutShortWasNeverAnswered) {
  VoterFiles files = next();
  files.save(kMine, memory);
  files.append(kMine, "one");
  const size_t before = bytes("voter").size();
  files.append(kMine, "two");
  const std::string all = bytes("voter");
  for (size_t size = before; size < all.size(); ++size) {
    write("voter", all.substr(0, size));
    EXPECT_EQ(next().load(kMine), (Saved{memory, "one"})) << size;
  }
  for (size_t i = before; i < all.size(); ++i) {
    std::string bad = all;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    write("voter", bad);
    EXPECT_EQ(next().load(kMine), kNothing) << "byte " << i;
  }
}

TEST_F(VoterFile, NothingIsAppendedToAFileOfOtherBytes) {
  VoterFiles files = next();
  files.save(kMine, memory);
  write("voter", bytes("voter") + "cut");
  EXPECT_FALSE(files.append(kMine, "one"));
  EXPECT_FALSE(files.append(kMine, "two")) << "until all was saved again";
  files.save(kMine, memory);
  EXPECT_TRUE(files.append(kMine, "three"));
  std::filesystem::remove(path("voter"));
  EXPECT_FALSE(files.append(kMine, "four"));
}

TEST_F(VoterFile, NeitherALinkNorAFolderIsRead) {
  next().save(kMine, memory);
  std::filesystem::rename(path("voter"), path("elsewhere"));
  std::filesystem::create_symlink(path("elsewhere"), path("voter"));
  EXPECT_EQ(next().load(kMine), kNothing);
  std::filesystem::remove(path("voter"));
  std::filesystem::create_directory(path("voter"));
  EXPECT_EQ(next().load(kMine), kNothing);
}

TEST_F(VoterFile, WhatCannotBeWrittenIsRemoved) {
  VoterFiles files = next();
  files.save(kMine, "before");
  std::filesystem::create_directory(path("voter.new"));  // in the way
  files.save(kMine, memory);
  EXPECT_EQ(next().load(kMine), kNothing);
  EXPECT_FALSE(std::filesystem::exists(path("voter")));
}

TEST_F(VoterFile, TheDaemonEndsWhereItCanBeNeitherWrittenNorRemoved) {
  VoterFiles files = next();
  std::filesystem::create_directory(path("voter.new"));
  std::filesystem::create_directories(path("voter") + "/in the way");
  EXPECT_EXIT(files.save(kMine, memory), testing::ExitedWithCode(1), "");
}

TEST_F(VoterFile, NothingIsLeftWhereTheFolderIsGone) {
  VoterFiles files = next();
  files.save(kMine, "before");
  std::filesystem::remove_all(folder.path());
  files.save(kMine, memory);  // the daemon goes on
}

}  // namespace
}  // namespace ocm::node
