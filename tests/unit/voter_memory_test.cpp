// What a voter knows, over the runs of its daemon: kept when, answered for whom, forgotten when.
#include "node/voter_memory.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "council_fixture.h"

namespace ocm::node {
namespace {

namespace council_of = control::test;
using control::Voter;

class GivenEnv final : public control::Env {
 public:
  uint64_t now_ns() const override { return at_ns; }
  control::Task<void> sleep_ns(uint64_t, std::function<void()>*) override { co_return; }
  void fill_random(std::span<std::byte> out) override {
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(i % 2 == 0 ? next_ : next_ >> 8);
    ++next_;
  }
  void post(std::function<void()> what) override { what(); }
  uint64_t at_ns = council_of::kWorldStart;

 private:
  uint16_t next_ = 1;
};

struct VoterMemoryTest : testing::Test {
  using Files = std::map<VoterStore::Of, std::vector<std::string>>;
  class Store final : public VoterStore {
   public:
    Store(Files& files, bool& full) : files_(files), full_(full) {}
    std::vector<std::string> load(Of of) override { return files_[of]; }
    bool save(Of of, const std::string& bytes) override {
      files_[of].clear();
      if (!full_ && !bytes.empty()) files_[of].push_back(bytes);
      return !files_[of].empty();
    }
    bool append(Of of, const std::string& bytes) override {
      if (!full_) files_[of].push_back(bytes);
      return !full_;
    }

   private:
    Files& files_;
    bool& full_;
  };
  /// A run of the daemon of node "a".
  struct Run {
    explicit Run(VoterMemoryTest& of) : core(config(), of.env), memory(core) {
      core.name = "a";
      core.incarnation = of.env.random_id<control::Incarnation>();
      core.voter_store = std::make_unique<Store>(of.files, of.full);
      voter.emplace("a", core.incarnation, core.config.failure_deadline_ns());
      memory.start(*voter);
    }
    control::VoterInfo self() const { return {"a", core.incarnation, {}}; }
    /// The voter has a council of this run, b and c.
    control::Council install(uint64_t now_ns, uint64_t number) {
      const auto next = council_of::council(number, {self(), council_of::voter("b"), council_of::voter("c")});
      EXPECT_TRUE(voter->install(now_ns, next).is_ok());
      memory.keep(*voter);
      return next.council;
    }
    Core core;
    VoterMemory memory;
    std::optional<Voter> voter;
  };
  static Config config() {
    Config out;
    out.failure_deadline_ms = kDeadlineNs / 1'000'000;
    return out;
  }
  /// kUnsupported: it is for the voter of this run.
  static Code code_of(const std::optional<Status>& answer) {
    return answer ? answer->code() : Code::kUnsupported;
  }
  static Code seal(Run& run, const control::Council& in, uint64_t number) {
    const auto promise = run.memory.seal(council_of::sealing(in, number));
    return promise ? promise->status().code() : Code::kUnsupported;
  }
  static control::CouncilPromise promise_of(Run& run, const control::Council& in, uint64_t number,
                                            uint64_t by = 1) {
    auto promise = run.memory.seal(council_of::sealing(in, number, by));
    EXPECT_TRUE(promise && promise->is_ok());
    return promise && promise->is_ok() ? std::move(*promise).value() : control::CouncilPromise();
  }
  /// Of a part of its own: the replica at kHome was decided lost.
  void lose(Run& run, const control::Council& in, uint64_t part) {
    control::LossRequest request;
    request.phase = control::LossRequest::Phase::kLearn;
    request.part = {council_of::replica(council_of::kHome, part << 12),
                    council_of::replica(council_of::kSibling, part << 12)};
    request.replica = request.part.front();
    request.lost = {request.replica};
    EXPECT_TRUE(run.voter->lose(env.at_ns, in.id, request).is_ok());
    run.memory.keep(*run.voter);
  }
  bool is_kept() const { return !files.at(VoterStore::Of::kThisRun).empty(); }

  static constexpr uint64_t kDeadlineNs = council_of::kLease;
  GivenEnv env;
  Files files;
  bool full = false;
};

TEST_F(VoterMemoryTest, TheNextRunPromisesOnceTheVotesAreOver) {
  Run first(*this);
  const auto in = first.install(env.at_ns, 2);
  Run second(*this);
  ASSERT_EQ(second.memory.runs().size(), 1u);
  EXPECT_EQ(second.memory.runs()[0].incarnation, first.core.incarnation);
  EXPECT_EQ(second.memory.runs()[0].council, 2u);
  EXPECT_EQ(second.memory.councils()[0].id, in.id);
  EXPECT_EQ(seal(second, in, 3), Code::kPeerLost) << "a vote may run";
  env.at_ns += kDeadlineNs;
  const auto promise = promise_of(second, in, 3);
  EXPECT_TRUE(promise.agreed);
  EXPECT_TRUE(promise.remembered);
  Run third(*this);  // which promised 3 at least
  env.at_ns += kDeadlineNs;
  EXPECT_NE(seal(third, in, 2), Code::kOk);
  EXPECT_FALSE(promise_of(third, in, 3, 0).agreed);
}

TEST_F(VoterMemoryTest, ACouncilThatWasChosenWithAFormerRunIsInstalledForIt) {
  Run first(*this);
  const auto in = first.install(env.at_ns, 2);
  Run second(*this);  // is chosen for the next council, and does not hear of it
  const auto chosen = council_of::council(3, {second.self(), council_of::voter("b"), council_of::voter("c")});
  EXPECT_EQ(code_of(second.memory.install(chosen)), Code::kUnsupported) << "for the voter of this run";
  Run third(*this);
  ASSERT_EQ(third.memory.runs().size(), 2u);
  env.at_ns += kDeadlineNs;
  EXPECT_EQ(code_of(third.memory.install(chosen)), Code::kOk);
  EXPECT_EQ(seal(third, chosen.council, 4), Code::kOk);
  third.memory.home_came_to(chosen.council);
  EXPECT_EQ(seal(third, in, 5), Code::kUnsupported) << "it ended";
}

TEST_F(VoterMemoryTest, AFormerRunThatLeftDoesNotComeBackThoughTheNextHomeHearsOfAnOlderCouncil) {
  Run first(*this);
  const auto in = council_of::council(2, {first.self(), council_of::voter("b"), council_of::voter("c")});
  (void)first.install(env.at_ns, 2);
  // It promised the end of its council, and its home came to the one that follows.
  ASSERT_TRUE(first.voter->seal(env.at_ns, council_of::sealing(in.council, 3)).value().agreed);
  const control::Council after = council_of::council(3, {council_of::voter("b")}).council;
  first.voter->home_came_to(after);
  first.memory.keep(*first.voter);
  const control::Council other = council_of::council(9, {council_of::voter("c")}, {7}).council;
  std::unique_ptr<Run> next;
  for (const auto& heard : {in.council, other, after}) {
    next = std::make_unique<Run>(*this);
    next->memory.home_came_to(heard);  // of who was cut off; of one that was founded anew; of the newest
    env.at_ns += kDeadlineNs;
    EXPECT_EQ(code_of(next->memory.install(in)), Code::kPeerLost) << "Q8, after it heard of " << heard.number;
    EXPECT_EQ(seal(*next, in.council, 4), Code::kUnsupported);
  }
}

TEST_F(VoterMemoryTest, FormerRunsAreForgottenWhenACouncilKnowsThisOne) {
  Run first(*this);
  (void)first.install(env.at_ns, 2);
  Run second(*this);
  second.memory.home_came_to(
      council_of::council(3, {council_of::voter("b"), council_of::voter("c"), council_of::voter("d")})
          .council);
  EXPECT_EQ(second.memory.runs().size(), 1u) << "who made it may not know this run";
  second.memory.home_came_to(
      council_of::council(4, {second.self(), council_of::voter("b"), council_of::voter("c")}).council);
  EXPECT_TRUE(second.memory.runs().empty());
  EXPECT_TRUE(second.memory.is_valid());
  EXPECT_TRUE(files[VoterStore::Of::kFormerRuns].empty());
}

TEST_F(VoterMemoryTest, OfManyRunsThoseThatVotedAreKept) {
  Run first(*this);
  (void)first.install(env.at_ns, 2);
  std::unique_ptr<Run> last;
  for (int i = 0; i < 2 * static_cast<int>(control::kRememberedRunsMax); ++i)
    last = std::make_unique<Run>(*this);
  ASSERT_EQ(last->memory.runs().size(), control::kRememberedRunsMax);
  EXPECT_TRUE(last->memory.is_valid());
  EXPECT_TRUE(last->memory.remembers(first.core.incarnation));
}

TEST_F(VoterMemoryTest, EachOfManyDecisionsAtOnceIsKept) {
  constexpr uint64_t kMany = 3'000;
  Run run(*this);
  const auto in = run.install(env.at_ns, 2);
  for (const uint32_t home : {council_of::kHome, council_of::kSibling})
    (void)run.voter->grant(env.at_ns, council_of::vote(in, home));
  size_t appended = 0, bytes = 0, all = 0;
  for (uint64_t part = 1; part <= kMany; ++part) {
    lose(run, in, part);
    ASSERT_TRUE(is_kept());
    const auto& kept = files.at(VoterStore::Of::kThisRun);
    appended += kept.size() > 1 ? 1 : 0;
    bytes += kept.back().size();
    all = kept.front().size();
  }
  EXPECT_GE(appended, kMany - 10);
  EXPECT_LE(bytes, 4 * all) << "all was saved again and again";
  Run next(*this);
  env.at_ns += kDeadlineNs;
  EXPECT_EQ(promise_of(next, in, 3).state.losses.parts.size(), kMany);
}

TEST_F(VoterMemoryTest, WhatCannotBeAppendedIsSavedWithAllElse) {
  Run run(*this);
  const auto in = run.install(env.at_ns, 2);
  for (const uint32_t home : {council_of::kHome, council_of::kSibling})
    (void)run.voter->grant(env.at_ns, council_of::vote(in, home));
  lose(run, in, 1);
  full = true;
  lose(run, in, 2);
  EXPECT_FALSE(is_kept()) << "an older one would be wrong";
  full = false;
  lose(run, in, 3);
  EXPECT_FALSE(is_kept()) << "not with every decision";
  env.at_ns += kDeadlineNs;
  run.memory.keep(*run.voter);
  EXPECT_EQ(files.at(VoterStore::Of::kThisRun).size(), 1u);
  lose(run, in, 4);
  EXPECT_EQ(files.at(VoterStore::Of::kThisRun).size(), 2u);
  Run next(*this);
  env.at_ns += kDeadlineNs;
  EXPECT_EQ(promise_of(next, in, 3).state.losses.parts.size(), 4u);
}

TEST_F(VoterMemoryTest, WhatCouldNotBeKeptIsTriedAgain) {
  full = true;
  Run run(*this);
  const auto in = run.install(env.at_ns, 2);
  EXPECT_FALSE(is_kept());
  full = false;
  run.memory.keep(*run.voter);
  EXPECT_FALSE(is_kept()) << "not with every answer";
  env.at_ns += kDeadlineNs;
  run.memory.keep(*run.voter);
  EXPECT_TRUE(is_kept());
  EXPECT_EQ(Run(*this).memory.councils()[0].id, in.id);
}

}  // namespace
}  // namespace ocm::node
