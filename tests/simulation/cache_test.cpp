// Programs on several nodes that read, write and change words of each other's extents through their page caches: each sees
// the newest store, whatever the network, the storage and the nodes do, and every access ends.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <optional>

#include "cache_world.h"

namespace ocm::cache::test {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr uint64_t kOneOf = 5;  // ten times as slow
#else
constexpr uint64_t kOneOf = 1;
#endif

/// Of each test; OCM_SIM_SEEDS: more. OCM_SIM_SEED: that one alone.
std::vector<uint64_t> seeds(uint64_t count) {
  count = (count + kOneOf - 1) / kOneOf;
  if (const char* one = std::getenv("OCM_SIM_SEED")) return {std::strtoull(one, nullptr, 10)};
  if (const char* more = std::getenv("OCM_SIM_SEEDS")) count = std::strtoull(more, nullptr, 10);
  std::vector<uint64_t> all(count);
  for (uint64_t i = 0; i < count; ++i) all[i] = i + 1;
  return all;
}

/// Programs, and what they must see.
class Programs {
 public:
  Programs(World& world, size_t each) : world_(world) {
    for (size_t user = 0; user < world.nodes(); ++user) {
      for (size_t home = 0; home < world.nodes(); ++home) extents_[{user, home}] = world.open(user, home);
      for (size_t i = 0; i < each; ++i) next(user);
    }
  }
  ~Programs() { world_.close(); }
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;
  void end() { ending_ = true; }
  /// Of programs whose node is alive.
  size_t under_way() const {
    size_t all = 0;
    for (const auto& [user, count] : under_way_) all += world_.is_alive(user) ? count : 0;
    return all;
  }
  size_t done() const { return done_; }
  size_t failed() const { return failed_; }
  std::map<Code, size_t> codes;

  /// All that can be read has the newest bytes; what cannot is lost, if somebody died.
  void read_all(size_t user) {
    for (size_t home = 0; home < world_.nodes(); ++home) {
      if (!world_.is_alive(home)) continue;
      for (uint32_t page = 0; page < world_.pages(); ++page) read(user, home, page, true);
    }
  }

 private:
  struct Word {
    uint64_t newest = 0;
    uint64_t unknown = 0;  // may be there instead: a write that failed on its way
    bool has_unknown = false;
  };
  static constexpr uint32_t kWords = 3;
  uint64_t offset_of(uint32_t page, uint32_t word) const { return page * kPageBytes + word * 1024 + 8; }
  Word& word(size_t home, uint32_t page, uint32_t at) { return words_[{home, page, at}]; }
  /// Pages whose number divides by 4 are only written as a whole, by one program at a time.
  static bool is_whole(uint32_t page) { return page % 4 == 0; }

  void next(size_t user) {
    if (ending_ || world_.is_closing() || !world_.is_alive(user)) return;
    world_.at(world_.random(world_.pause_ns()), [this, user] {
      if (ending_ || world_.is_closing() || !world_.is_alive(user)) return;
      const size_t home = world_.random(world_.nodes());
      const auto page = static_cast<uint32_t>(world_.random(world_.pages()));
      if (world_.is_stopped(user)) return next(user);
      const uint64_t choice = world_.random(10);
      if (choice < 5) return read(user, home, page, false);
      if (!is_whole(page)) return modify(user, home, page);
      write(user, home, page);
    });
  }
  void finished(size_t user, Code code, bool again) {
    --under_way_[user], ++done_;
    if (!world_.is_alive(user)) return;
    if (code != Code::kOk) ++failed_;
    ++codes[code];
    const bool fits = code == Code::kOk || code == Code::kPeerLost || code == Code::kLost ||
                      code == Code::kIo || (code == Code::kRevoked && world_.is_told_of_dead());
    if (!fits) world_.fail("an access came to " + std::string(code_name(code)));
    if (code == Code::kLost && !world_.may_lose()) world_.fail("LOST, and nobody died");
    if (again) next(user);
  }

  void modify(size_t user, size_t home, uint32_t page) {
    ++under_way_[user];
    const auto at = static_cast<uint32_t>(world_.random(kWords));
    extents_[{user, home}]->modify(
        offset_of(page, at),
        [this, home, page, at, user, life = world_.life(user)](std::byte* bytes) {
          if (life != world_.life(user)) return;  // nobody sees it
          Word& it = word(home, page, at);
          uint64_t value = 0;
          std::memcpy(&value, bytes, 8);
          if (value != it.newest)
            world_.fail("a change of old bytes: " + std::to_string(value) + " for " +
                        std::to_string(it.newest));
          it.newest = ++value_;
          std::memcpy(bytes, &it.newest, 8);
        },
        [this, user](const Status& status) { finished(user, status.code(), true); });
  }

  void write(size_t user, size_t home, uint32_t page) {
    if (page == world_.pages() - 1 || !writing_.insert({home, page}).second) return next(user);
    ++under_way_[user];
    const uint64_t value = ++value_;
    auto buffer = std::make_shared<std::vector<std::byte>>(kPageBytes);
    for (uint32_t at = 0; at < kWords; ++at) {
      std::memcpy(buffer->data() + offset_of(0, at), &value, 8);
      Word& it = word(home, page, at);
      it.unknown = value;
      it.has_unknown = true;
    }
    const auto life = world_.life(user);
    extents_[{user, home}]->write(page * kPageBytes, *buffer, [=, this](const Status& status) {
      if (life != world_.life(user)) return finished(user, status.code(), false);
      if (status.is_ok()) {
        for (uint32_t at = 0; at < kWords; ++at) word(home, page, at) = {value, 0, false};
      } else {  // it was not begun
        for (uint32_t at = 0; at < kWords; ++at) word(home, page, at).has_unknown = false;
      }
      writing_.erase({home, page});
      (void)buffer;
      finished(user, status.code(), true);
    });
  }

  void read(size_t user, size_t home, uint32_t page, bool last) {
    ++under_way_[user];
    const auto at = static_cast<uint32_t>(world_.random(kWords));
    const uint64_t from = word(home, page, at).newest;
    auto value = std::make_shared<uint64_t>(0);
    const auto life = world_.life(user);
    extents_[{user, home}]->read(offset_of(page, at), std::as_writable_bytes(std::span(value.get(), 1)),
                                 [=, this](const Status& status) {
                                   const Word& it = word(home, page, at);
                                   if (life != world_.life(user)) return finished(user, status.code(), false);
                                   const bool is_newest = *value >= from && *value <= it.newest;
                                   const bool is_under_way = it.has_unknown && *value == it.unknown;
                                   if (status.is_ok() && !is_newest && !is_under_way)
                                     world_.fail("a read of old bytes: " + std::to_string(*value) + " for " +
                                                 std::to_string(from) + " to " + std::to_string(it.newest));
                                   finished(user, status.code(), !last);
                                 });
  }

  World& world_;
  std::map<std::pair<size_t, size_t>, Staged*> extents_;
  std::map<std::tuple<size_t, uint32_t, uint32_t>, Word> words_;
  std::set<std::pair<size_t, uint32_t>> writing_;
  uint64_t value_ = 0;
  std::map<size_t, size_t> under_way_;  // by program
  size_t done_ = 0, failed_ = 0;
  bool ending_ = false;
};

void end_and_read(World& world, Programs& programs) {
  world.heal();
  for (size_t i = 0; i < world.nodes(); ++i) world.stop(i, false);
  world.run(300 * kMillisecond);
  programs.end();
  world.run(15 * kSecond);  // the grace, too
  if (world.failure().empty() && programs.under_way() != 0)
    world.fail("an access did not end: " + std::to_string(programs.under_way()));
  world.check();
}

TEST(CacheWorld, EachSeesTheNewestStore) {
  for (const uint64_t seed : seeds(6)) {
    WorldOptions options;
    options.seed = seed;
    options.nodes = 2 + seed % 3;
    options.frames = seed % 2 == 0 ? 4 : 16;
    World world(options);
    Programs programs(world, 3);
    world.run(200 * kMillisecond);
    world.check();
    EXPECT_EQ(programs.failed(), 0u);
    EXPECT_GT(programs.done(), 500u);
    end_and_read(world, programs);
    const size_t before = programs.done();
    for (size_t i = 0; i < world.nodes(); ++i) programs.read_all(i);
    world.run(kSecond);
    EXPECT_EQ(programs.under_way(), 0u);
    EXPECT_EQ(programs.done() - before, world.nodes() * world.nodes() * world.pages());
    EXPECT_EQ(programs.failed(), 0u);
    ASSERT_EQ(world.failure(), "");
  }
}

TEST(CacheWorld, OverANetworkThatLosesRepeatsAndDelays) {
  for (const uint64_t seed : seeds(6)) {
    WorldOptions options;
    options.seed = seed;
    options.lost = 20, options.repeated = 20, options.slow = 10;
    options.frames = seed % 2 == 0 ? 4 : 16;
    World world(options);
    Programs programs(world, 3);
    world.run(500 * kMillisecond);
    world.check();
    end_and_read(world, programs);
    for (size_t i = 0; i < world.nodes(); ++i) programs.read_all(i);
    world.run(kSecond);
    EXPECT_EQ(programs.under_way(), 0u);
    ASSERT_EQ(world.failure(), "");
  }
}

/// What goes wrong from time to time, each for a moment that is shorter or longer than a term.
struct Trouble {
  bool cuts = false, stops = false, kills = false;
  bool at_once = false;  // several at the same time: then a page may be lost though nobody dies, but says so
};
void make_trouble(World& world, const Trouble& trouble) {
  world.at(50 * kMillisecond + world.random(400 * kMillisecond), [&world, trouble] {
    if (world.is_closing() || world.is_healed()) return;
    const size_t one = world.random(world.nodes()), other = world.random(world.nodes());
    const uint64_t for_ns = 100 * kMillisecond + world.random(world.random(2) == 0 ? kSecond : 4 * kSecond);
    if (trouble.cuts && one != other && world.random(2) == 0) {
      const bool both = world.random(2) == 0;
      world.cut(one, other, true);
      if (both) world.cut(other, one, true);
      world.at(for_ns, [&world, one, other] { world.cut(one, other, false), world.cut(other, one, false); });
    } else if (trouble.stops && world.random(3) == 0) {
      world.stop(one, true);
      world.at(for_ns, [&world, one] { world.stop(one, false); });
    } else if (trouble.kills && world.random(8) == 0) {
      world.kill(one);
    }
    const uint64_t calm_ns = trouble.at_once ? 0 : for_ns + 3 * kSecond;
    world.at(calm_ns, [&world, trouble] { make_trouble(world, trouble); });
  });
}

void expect_newest_through(const Trouble& trouble, WorldOptions options, uint64_t count, uint64_t for_ns,
                           std::map<Code, size_t>& codes) {
  for (const uint64_t seed : seeds(count)) {
    options.seed = seed;
    options.nodes = 2 + seed % 3;
    options.frames = seed % 2 == 0 ? 4 : 16;
    World world(options);
    Programs programs(world, 2);
    if (trouble.at_once) world.allow_losses();
    make_trouble(world, trouble);
    world.run(for_ns);
    world.check();
    end_and_read(world, programs);
    const size_t before = programs.under_way();
    for (size_t i = 0; i < world.nodes(); ++i) {
      if (world.is_alive(i)) programs.read_all(i);
    }
    world.run(kSecond);
    EXPECT_LE(programs.under_way(), before) << "a read did not end; seed " << seed;
    for (const auto& [code, times] : programs.codes) codes[code] += times;
    ASSERT_EQ(world.failure(), "");
  }
}

WorldOptions calm() {
  WorldOptions options;
  options.pause_ns = 3 * kMillisecond;
  return options;
}

TEST(CacheWorld, LinksThatAreCut) {
  std::map<Code, size_t> codes;
  expect_newest_through({true, false, false, false}, calm(), 6, 12 * kSecond, codes);
  if (kOneOf == 1) {
    EXPECT_GT(codes[Code::kPeerLost], 0u);
  }
}

TEST(CacheWorld, NodesThatStandStill) {
  std::map<Code, size_t> codes;
  expect_newest_through({false, true, false, false}, calm(), 6, 12 * kSecond, codes);
  if (kOneOf == 1) {
    EXPECT_GT(codes[Code::kPeerLost], 0u);
  }
}

TEST(CacheWorld, StorageThatFailsForAMoment) {
  WorldOptions options;
  options.failing = 100;
  std::map<Code, size_t> codes;
  expect_newest_through({}, options, 3, 300 * kMillisecond, codes);
  EXPECT_GT(codes[Code::kIo], 0u);
  EXPECT_EQ(codes[Code::kPeerLost], 0u);
}

WorldOptions of_800_pages(uint64_t storage_ns) {
  WorldOptions out;
  out.nodes = 1;
  out.pages = 800;
  out.storage_ns = storage_ns;
  return out;
}

/// One access of 800 pages, where 8 have room.
void read_all_pages(World& world) {
  Staged* const extent = world.open(0, 0);
  std::vector<std::byte> bytes(world.extent_bytes());
  std::optional<Code> code;
  extent->read(0, bytes, [&](const Status& status) { code = status.code(); });
  world.run(60 * kSecond);
  EXPECT_EQ(code, Code::kOk);
  world.check();
  world.close();
}

TEST(CacheWorld, WhoWaitsForAFrameIsServedHoweverManyCameBefore) {
  World world(of_800_pages(50 * kMillisecond));
  read_all_pages(world);
}

TEST(CacheWorld, WhoWaitsForAFrameOfADeviceThatStandsStillIsServedOnceItAnswers) {
  World world(of_800_pages(20 * kSecond));
  world.at(kSecond, [&] { world.set_storage_ns(50 * kMicrosecond); });
  read_all_pages(world);
}

TEST(CacheWorld, WhatHappensMeanwhilePutsNoCleaningOff) {
  WorldOptions options;
  options.nodes = 1;
  World world(options);
  Staged* const extent = world.open(0, 0);
  const std::vector<std::byte> bytes(512, std::byte{7});
  extent->write(0, bytes, [](const Status& status) { EXPECT_TRUE(status.is_ok()); });
  std::function<void()> look = [&] {
    (void)world.cache(0)->statistics();
    if (!world.is_closing()) world.at(20 * kMillisecond, look);
  };
  look();
  world.run(kSecond);
  EXPECT_EQ(world.cache(0)->statistics().dirty, 1u);
  world.run(5 * kSecond);
  EXPECT_EQ(world.cache(0)->statistics().dirty, 0u);
  world.close();
}

TEST(CacheWorld, NodesThatDie) {
  std::map<Code, size_t> codes;
  expect_newest_through({true, true, true, true}, calm(), 60, 5 * kSecond, codes);
  EXPECT_GT(codes[Code::kLost], 0u);
}

}  // namespace
}  // namespace ocm::cache::test
