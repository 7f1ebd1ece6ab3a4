// The council: its voters, a home's lease, the loss of a replica, and all of them by chance, on given time.
#include "control/quorum.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>

#include "council_fixture.h"

namespace ocm::control {
namespace {

using namespace test;

TEST(LossAsker, PausesWhereAMinorityAnswersWhatItTells) {
  LossAsker asker({replica(kHome), replica(kSibling)}, replica(kHome), 7);
  LossAnswer answer;
  answer.agreed = true;
  answer.wait_ns = kLease;
  asker.answered(2, {{"a", answer}, {"b", answer}});
  asker.answered(2, {{"a", answer}, {"b", answer}});
  ASSERT_EQ(asker.request("a").phase, LossRequest::Phase::kLearn);
  asker.answered(2, {{"a", answer}, {"b", answer}});
  EXPECT_FALSE(asker.was_refused());
  EXPECT_EQ(asker.wait_ns(), kLease);
  asker.answered(2, {{"a", answer}});
  EXPECT_EQ(asker.outcome(), LossAsker::Outcome::kAsking);
  EXPECT_TRUE(asker.was_refused());
}

TEST(Councils, AreOfTwoClustersWhereNoneContinuesTheOther) {
  Council first, next, other;
  first.id = 1;
  first.chains = {11};
  next.id = 2;
  next.chains = {12};
  next.after = {1};
  other.id = 3;
  other.chains = {13};
  EXPECT_TRUE(are_of_one_cluster(first, first));
  EXPECT_TRUE(are_of_one_cluster(first, next));
  EXPECT_TRUE(are_of_one_cluster(next, first));
  EXPECT_FALSE(are_of_one_cluster(first, other));
  EXPECT_FALSE(are_of_one_cluster(other, next));
}

TEST(LeaseHolder, NeedsAMajorityAndCountsFromTheAsking) {
  LeaseHolder holder(kLease);
  const auto in = council(1, {voter("a"), voter("b"), voter("c")});
  ASSERT_TRUE(holder.adopt(in.council));
  holder.granted(in.council.id, "a", kWorldStart, kWorldStart);
  EXPECT_EQ(holder.until_ns(), 0u);
  holder.granted(in.council.id, "a", kWorldStart + 9, kWorldStart + 9);
  EXPECT_EQ(holder.until_ns(), 0u);
  holder.granted(in.council.id, "c", kWorldStart + 5, kWorldStart + 9);
  EXPECT_EQ(holder.until_ns(), kWorldStart + 5 + kLease - kLease / 20);
  holder.granted(in.council.id + 1, "b", kWorldStart + 9, kWorldStart + 9);
  EXPECT_EQ(holder.until_ns(), kWorldStart + 5 + kLease - kLease / 20);
}

TEST(LeaseHolder, IsCutOffUntilALeaseLengthAfterOneThatLapsed) {
  LeaseHolder holder(kLease);
  const auto in = council(1, {voter("a")});
  ASSERT_TRUE(holder.adopt(in.council));
  EXPECT_FALSE(holder.is_cut_off(kWorldStart)) << "it never had a lease";
  holder.granted(in.council.id, "a", kWorldStart, kWorldStart);
  EXPECT_FALSE(holder.is_cut_off(kWorldStart + 1));
  const uint64_t back = kWorldStart + 3 * kLease;
  EXPECT_TRUE(holder.is_cut_off(back));
  for (uint64_t now = back; now < back + kLease; now += kLease / 4) {
    holder.granted(in.council.id, "a", now, now);
    EXPECT_TRUE(holder.is_cut_off(now));
  }
  holder.granted(in.council.id, "a", back + kLease, back + kLease);
  EXPECT_FALSE(holder.is_cut_off(back + kLease));
}

TEST(LeaseHolder, ComesToAContinuedCouncilOnly) {
  LeaseHolder holder(kLease);
  ASSERT_TRUE(holder.adopt(council(5, {voter("a")}).council));
  EXPECT_FALSE(holder.adopt(council(4, {voter("b")}).council));
  EXPECT_FALSE(holder.adopt(council(9, {voter("b")}, {2}).council));
  EXPECT_TRUE(holder.is_stranger(council(9, {voter("b")}, {2}).council));
  EXPECT_TRUE(holder.adopt(council(9, {voter("b")}, {1, 2}).council));
}

TEST(Convener, ACouncilIsOddAndKeepsItsVoters) {
  const auto now = council(1, {voter("a"), voter("c"), voter("d")}).council;
  EXPECT_TRUE(same_voters(now, choose_voters(now, {voter("a"), voter("b"), voter("c"), voter("d")})));
  EXPECT_EQ(choose_voters(now, {voter("a"), voter("c")}).size(), 1u);
  EXPECT_EQ(choose_voters(now, {voter("a"), voter("b"), voter("c"), voter("d"), voter("e")}).size(), 5u);
  EXPECT_FALSE(same_voters(now, choose_voters(now, {voter("a"), voter("b"), voter("c", 'b'), voter("d")})));
}

TEST(Convener, AnEarlierRunThatIsRememberedPromisesItsEndWithWhatItKnew) {
  const Council alone = council(1, {voter("a", 'a')}).council;
  Convener convener(2, voter("a", 'z'), [](const Incarnation& run) { return run == run_of('a'); });
  convener.found(5);
  convener.reported(alone);
  convener.begin(true);
  EXPECT_FALSE(convener.is_sealed(alone)) << "it is asked";
  CouncilPromise promise;
  promise.agreed = true;
  promise.remembered = true;
  promise.state.losses.votes_ns[kHome] = 0;
  EXPECT_TRUE(convener.promised(alone, "a", promise));
  EXPECT_TRUE(convener.is_sealed(alone));
  promise.state = {};
  EXPECT_TRUE(convener.promised(convener.council(), "a", promise));
  ASSERT_TRUE(convener.propose(7, {voter("a", 'z')}));
  while (const auto base = convener.to_accept()) convener.accepted(*base, "a");
  ASSERT_TRUE(convener.end());
  EXPECT_TRUE(continues(convener.chosen().council, alone));
  EXPECT_EQ(convener.chosen().state.losses.votes_ns.size(), 1u) << "what it knew";
}

TEST(Convener, AnEarlierRunOfTheCoordinatorAloneIsOverWithIt) {
  Convener convener(2, voter("a", 'b'));
  convener.found(77);
  const Council alone = council(1, {voter("a", 'a')}).council;
  convener.reported(alone);
  convener.begin(false);
  EXPECT_FALSE(convener.is_sealed(alone)) << "it may not have been the last";
  convener.end();
  convener.begin(true);
  EXPECT_TRUE(convener.is_sealed(alone));
  EXPECT_TRUE(convener.has_found());
  convener.end();
  const Council three = council(2, {voter("a", 'a'), voter("b"), voter("c")}).council;
  convener.reported(three);
  convener.begin(true);
  CouncilPromise promise;
  promise.agreed = true;
  EXPECT_TRUE(convener.promised(three, "b", promise));
  EXPECT_FALSE(convener.is_sealed(three));
  EXPECT_TRUE(convener.promised(three, "c", promise));
  EXPECT_TRUE(convener.is_sealed(three));
  EXPECT_TRUE(convener.is_valid());
}

// ---- by chance: messages are lost and late, nodes are stopped and restarted, the coordinator with them.
// Parts of two and three replicas. Once the loss of one was answered, its home never serves it again; and
// homes that all went on never free all replicas of a part, unless the voters that knew of them are gone
// (start_over).
class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {
    for (size_t i = 0; i < kNodes; ++i) restart(i);
  }

  void run(size_t steps) {
    for (size_t i = 0; i < steps; ++i) step();
  }
  size_t losses = 0, served_checks = 0, councils = 0, parts_checks = 0, last_ones = 0;

 private:
  static constexpr size_t kNodes = 4;
  struct Node {
    std::string name;
    uint32_t partition = 0;
    std::unique_ptr<Voter> voter;
    std::unique_ptr<LeaseHolder> holder;
    std::map<std::string, std::vector<ExtentId>> freed;
    std::set<uint64_t> replicas;  // addresses that it would serve
    uint64_t stopped_until = 0, cut_until = 0, run = 0;
    bool started_over = false;
    VoterInfo self;
  };
  struct Late {
    uint64_t at;
    size_t to;
    uint64_t run;
    std::function<void(Node&)> act;
  };

  size_t pick(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(random_); }
  Node& node(const std::string& name) { return nodes_[static_cast<size_t>(name[0] - 'a')]; }

  void restart(size_t i) {
    Node& n = nodes_[i];
    const uint64_t run = n.run + 1;
    const uint64_t cut = n.cut_until;
    n = Node{};
    n.run = run;
    n.cut_until = cut;
    n.name = std::string(1, static_cast<char>('a' + i));
    n.partition = ++partitions_;
    n.self = voter(n.name, static_cast<char>('a' + run % 26));
    std::memcpy(n.self.incarnation.bytes.data() + 8, &run, sizeof(run));  // it comes once
    n.voter = std::make_unique<Voter>(n.name, n.self.incarnation, kLease);
    n.holder = std::make_unique<LeaseHolder>(kLease);
    if (i != 0) return;
    convener_ = std::make_unique<Convener>(++runs_, n.self);
    sealing_ = false;
    (void)n.voter->install(now_, convener_->found(++ids_));
    n.holder->adopt(convener_->council());
  }

  bool reaches(const Node& from, const Node& to) {
    if (from.stopped_until > now_ || to.stopped_until > now_) return false;
    if (from.name == to.name) return true;
    return from.cut_until <= now_ && to.cut_until <= now_ && !chance(0.1);
  }

  void send(size_t to, std::function<void(Node&)> act) {
    late_.push_back({now_ + pick(kLease / 2), to, nodes_[to].run, std::move(act)});
  }

  void step() {
    now_ += pick(kLease / 20);
    for (size_t i = 0; i < late_.size();) {
      if (late_[i].at > now_ || nodes_[late_[i].to].stopped_until > now_) {
        ++i;
        continue;
      }
      const Late due = std::move(late_[i]);
      late_.erase(late_.begin() + static_cast<long>(i));
      if (nodes_[due.to].run == due.run) due.act(nodes_[due.to]);
    }
    const size_t i = pick(kNodes);
    Node& n = nodes_[i];
    const size_t what = pick(1000);
    if (what < 6) n.stopped_until = now_ + pick(3 * kLease);
    if (what >= 6 && what < 12) n.cut_until = now_ + pick(3 * kLease);
    // A coordinator that votes alone takes what it knew with it: what follows is not promised.
    const bool alone =
        i == 0 && (convener_->council().voters.size() == 1 ||
                   (convener_->has_chosen() && convener_->chosen().council.voters.size() == 1));
    if (what >= 12 && what < 14 && !alone) restart(i);
    if (n.stopped_until > now_) return;
    if (what < 400) ask(n, i);
    if (what >= 400 && what < 600) heartbeat(n, i);
    if (what >= 600 && what < 700) convene();
    if (what >= 700 && what < 860) lose(n);
    if (what >= 860 && what < 890) make_part();
    for (Node& home : nodes_) check(home);
    check_parts();
  }

  void make_part() {
    std::vector<ExtentId> part;
    for (Node& home : nodes_) {
      if (home.stopped_until > now_ || now_ >= home.holder->until_ns() || part.size() == 3 || chance(0.3))
        continue;
      part.push_back(replica(home.partition, ++unique_ * 4096));
    }
    if (part.size() < 2) return;
    std::sort(part.begin(), part.end());
    for (const ExtentId& id : part) home_of(id)->replicas.insert(id.address.bits());
    parts_.push_back(std::move(part));
  }
  /// Null if that run is over.
  Node* home_of(const ExtentId& id) {
    for (Node& home : nodes_) {
      if (home.partition == id.address.partition()) return &home;
    }
    return nullptr;
  }
  void check_parts() {
    std::erase_if(parts_,
                  [&](const std::vector<ExtentId>& part) {  // one that lost a home by its end, or was freed
                    return std::any_of(part.begin(), part.end(), [&](const ExtentId& id) {
                      const Node* home = home_of(id);
                      return home == nullptr || home->started_over;
                    });
                  });
    for (const auto& part : parts_) {
      ++parts_checks;
      ASSERT_TRUE(std::any_of(part.begin(), part.end(), [&](const ExtentId& id) {
        return home_of(id)->replicas.contains(id.address.bits());
      })) << "every replica of a part was freed";
    }
  }

  void check(const Node& home) {
    if (home.stopped_until > now_ || now_ >= home.holder->until_ns()) return;
    for (const uint64_t address : home.replicas) {
      ++served_checks;
      ASSERT_FALSE(lost_.contains(address)) << home.name << " serves a replica that was answered as lost";
    }
  }

  void ask(Node& n, size_t i) {
    n.holder->adopt(n.voter->council());
    const Council in = n.holder->council();
    for (const auto& v : in.voters) {
      Node& to = node(v.name);
      if (!reaches(n, to)) continue;
      auto request = vote(in, n.partition);
      request.freed = n.freed[v.name];
      const uint64_t sent = now_;
      const auto answered = [this, i, in, name = v.name, sent, run = n.run](Node& voting,
                                                                            const LeaseVote& r) {
        const LeaseGrant out = voting.voter->grant(now_, r);
        const auto take = [this, in, name, sent, out](Node& home) {
          for (const ExtentId& id : out.dropped) home.replicas.erase(id.address.bits());
          home.freed[name] = out.dropped;
          if (out.granted)
            home.holder->granted(in.id, name, sent, now_);
          else if (out.council)
            home.holder->adopt(*out.council);
        };
        if (nodes_[i].run != run) return;  // its connections ended with it
        if (voting.name == nodes_[i].name)
          take(voting);
        else if (reaches(voting, nodes_[i]))
          send(i, take);
      };
      if (to.name == n.name)
        answered(to, request);
      else
        send(static_cast<size_t>(v.name[0] - 'a'),
             [answered, request](Node& voting) { answered(voting, request); });
    }
  }

  static const Council& newest(const Node& n) {
    const auto& mine = n.holder->council();
    const auto& voted = n.voter->council();
    return voted.number > mine.number && continues(voted, mine) ? voted : mine;
  }

  void heartbeat(Node& n, size_t i) {
    if (i == 0) {
      n.holder->adopt(convener_->council());
      return;
    }
    if (!reaches(n, nodes_[0])) return;
    convener_->reported(newest(n));
    heard_[i] = {now_, n.self, newest(n)};
    if (!reaches(nodes_[0], n)) return;
    const auto seen = newest(nodes_[0]);
    n.holder->adopt(seen);
    if (n.holder->is_stranger(seen) && now_ >= n.holder->until_ns() && chance(0.02)) {
      n.replicas.clear();
      n.started_over = true;
      n.voter->leave();
      n.holder->start_over(seen);
    }
  }

  void seal(const Council& base) {
    bool teach = false;
    for (const bool again : {false, true}) {
      for (const auto& v : base.voters) {
        Node& to = node(v.name);
        if (to.self.incarnation != v.incarnation || !reaches(nodes_[0], to)) continue;
        const auto answer = to.voter->seal(now_, convener_->seal_request(base, true));
        if (!answer.is_ok() || !reaches(to, nodes_[0]) || !convener_->promised(base, v.name, answer.value()))
          continue;
        if (!answer.value().made_of || answer.value().made_of->council.id != base.id) continue;
        teach = true;
        made_of_ = *answer.value().made_of;
      }
      if (again || !teach || convener_->is_sealed(base)) return;
      for (const auto& v : base.voters) {
        Node& to = node(v.name);
        if (to.self.incarnation == v.incarnation && reaches(nodes_[0], to))
          (void)to.voter->install(now_, made_of_);
      }
    }
  }

  void accept() {
    while (const auto base = convener_->to_accept()) {
      for (const auto& v : base->voters) {
        Node& to = node(v.name);
        if (to.self.incarnation != v.incarnation || !reaches(nodes_[0], to)) continue;
        const auto request = convener_->accept_request(*base);
        if (chance(0.1)) {  // it arrives when nobody waits for it
          send(static_cast<size_t>(v.name[0] - 'a'),
               [request](Node& late) { (void)late.voter->accept(request); });
          continue;
        }
        if (to.voter->accept(request).is_ok() && reaches(to, nodes_[0])) convener_->accepted(*base, v.name);
      }
      const auto next = convener_->to_accept();
      if (next && next->id == base->id) return;
    }
  }

  void install() {
    const MadeCouncil next = convener_->chosen();
    for (const auto& v : next.council.voters) {
      Node& to = node(v.name);
      if (!convener_->has_chosen() || !reaches(nodes_[0], to) || !to.voter->install(now_, next).is_ok())
        continue;
      if (!reaches(to, nodes_[0]) || !convener_->installed(v.name)) continue;
      ++councils;
      if (convener_->council().id == next.council.id) sealing_ = false;
    }
  }

  void convene() {
    if (nodes_[0].stopped_until > now_) return;
    if (convener_->has_chosen()) return install();
    const auto voters = [this] {
      const Council together = convener_->together();
      std::vector<VoterInfo> living{nodes_[0].self};
      for (const auto& [i, heard] : heard_) {
        if (heard.at + kLease > now_ && continues(together, heard.council)) living.push_back(heard.who);
      }
      return choose_voters(convener_->council(), living);
    };
    convener_->begin(false);
    const auto seal_others = [&] {
      for (const auto& base : convener_->to_seal()) seal(base);
    };
    seal_others();
    if (sealing_ || convener_->has_found() || !same_voters(convener_->council(), voters())) {
      sealing_ = true;
      seal(convener_->council());
      seal_others();
      // The coordinator may end between any two steps.
      if (chance(0.9) && convener_->propose(++ids_, voters())) accept();
    }
    if (convener_->end() && chance(0.9)) install();
  }

  /// One round of an attempt; others go on in between.
  void lose(Node& asker) {
    if (parts_.empty()) return;
    if (attempts_.size() < 3 || chance(0.05)) {
      const auto& part = parts_[parts_.size() - 1 - pick(std::min<size_t>(parts_.size(), 3))];
      attempts_.push_back({asker.name, asker.run, LossAsker(part, part[pick(part.size())], ++unique_), 0, 0});
      attempts_.back().replica = attempts_.back().asker.request("").replica.address.bits();
      if (attempts_.size() > 6) attempts_.erase(attempts_.begin());
    }
    Attempt& attempt = attempts_[pick(attempts_.size())];
    if (attempt.node != asker.name || attempt.run != asker.run) return;
    const Council in = newest(asker);
    if (in.id != attempt.council) attempt.asker.restart();
    attempt.council = in.id;
    LossAsker::Answers answers;
    for (const auto& v : in.voters) {
      Node& to = node(v.name);
      const LossRequest request = attempt.asker.request(v.name);
      if (chance(0.1)) {  // it arrives when nobody waits for it
        send(static_cast<size_t>(v.name[0] - 'a'),
             [this, request, in](Node& late) { (void)late.voter->lose(now_, in.id, request); });
        continue;
      }
      if (!reaches(asker, to)) continue;
      const auto answer = to.voter->lose(now_, in.id, request);
      if (answer.is_ok() && reaches(to, asker)) answers.emplace_back(v.name, answer.value());
    }
    if (in.id == 0) return;
    attempt.asker.answered(majority(in), answers);
    if (attempt.asker.outcome() == LossAsker::Outcome::kAsking) return;
    if (attempt.asker.outcome() == LossAsker::Outcome::kLost) {
      lost_.insert(attempt.replica);
      ++losses;
    } else {
      ++last_ones;
    }
    attempts_.erase(attempts_.begin() + (&attempt - &attempts_[0]));
  }

  struct Attempt {
    std::string node;
    uint64_t run;
    LossAsker asker;
    uint64_t council, replica;
  };
  struct Heard {
    uint64_t at;
    VoterInfo who;
    Council council;
  };
  std::mt19937_64 random_;
  uint64_t now_ = kWorldStart;
  uint32_t partitions_ = 0;
  uint64_t ids_ = 0, runs_ = 0, unique_ = 0;
  std::vector<std::vector<ExtentId>> parts_;
  std::vector<Attempt> attempts_;
  bool sealing_ = false;
  MadeCouncil made_of_;
  std::vector<Late> late_;
  std::map<size_t, Heard> heard_;
  std::unique_ptr<Convener> convener_;
  std::set<uint64_t> lost_;
  std::array<Node, kNodes> nodes_;
};

/// OCM_QUORUM_SEEDS=N runs seeds 1..N.
uint64_t seeds() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr uint64_t kSeeds = 25;  // thirty times slower
#else
  constexpr uint64_t kSeeds = 500;
#endif
  const char* count = std::getenv("OCM_QUORUM_SEEDS");
  return count != nullptr ? std::strtoull(count, nullptr, 10) : kSeeds;
}

TEST(Quorum, NoReplicaIsServedThatWasAnsweredAsLostAndNoPartIsFreedWhole) {
  size_t losses = 0, checks = 0, councils = 0, parts = 0, last_ones = 0;
  const uint64_t last = seeds();
  for (uint64_t seed = 1; seed <= last; ++seed) {
    World world(seed);
    world.run(4000);
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
    losses += world.losses, checks += world.served_checks, councils += world.councils;
    parts += world.parts_checks, last_ones += world.last_ones;
  }
  EXPECT_GT(losses, last * 3 / 5);
  EXPECT_GT(checks, last * 200);
  EXPECT_GT(councils, last * 3 / 5);
  EXPECT_GT(parts, last * 200);
  EXPECT_GT(last_ones, last / 50) << "two askers want to give up different replicas of one part";
  RecordProperty("losses", static_cast<int>(losses));
  RecordProperty("councils", static_cast<int>(councils));
}

}  // namespace
}  // namespace ocm::control
