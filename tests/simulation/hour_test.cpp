// An hour of a cluster's life on virtual time, by seed: the client's own session, allocations and copy
// engine over the fake network, and whole daemons (world.h), with homes killed, stopped and cut off and
// messages of the data connections lost, late and doubled. Every byte that is read is compared with a shadow
// copy.
//
//   OCM_SIM_SEED=N    run this seed only (a failing test prints its own)
//   OCM_SIM_SEEDS=N   run seeds 1..N for a whole hour (default 10, with sanitizers 1, for twenty minutes)
//
// What must hold
//   Y1 what a write acknowledged is what later reads bring, until the node's end
//   Y2 a write that failed left, byte for byte, the old or the new contents
//   Y3 an op fails only if a fault touched one of its nodes (or messages are being dropped), and then says so
//   Y4 a replicated allocation answers as long as one of its nodes was spared, and no two homes have a fault
//      at once: more may leave a council without its majority
//      A copy into one may fail with DEADLINE while a fault touches a home of it: the daemon that asked does
//      not know whether that home is busy or gone
//   Y5 what lived on a node that died never answers again
//   Y6 every op ends with a status
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>

#include "base/units.h"
#include "client/allocation.h"
#include "client/atomics.h"
#include "client/route.h"
#include "client/session.h"
#include "client/transfer.h"
#include "fabric/fake/entry.h"
#include "fabric_world.h"
#include "shadow.h"

namespace ocm::simulation {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kHourNs = 3600 * kSecondNs;
/// What a fault changed is as before, if it can be: a lease runs again, or its home was given up.
constexpr uint64_t kSettledNs = 6 * kSecondNs;

struct Held {
  explicit Held(uint64_t bytes) : shadow(bytes) {}
  client::Allocation allocation;
  Shadow shadow;
  Layout layout = Layout::kSingle;
  std::vector<size_t> nodes;
  std::vector<uint64_t> lives, disturbances;  // of each node, when it was allocated
  uint64_t drops = 0;                         // of the network, when it was allocated
};

class Hour {
 public:
  explicit Hour(uint64_t seed)
      : random_(seed), network_(seed, options()), cluster_(network_, seed, 3 + seed % 3) {
    connector_ = network_.connector(FabricWorld::here());
    fabric::fake::install(connector_.get());
    client::SessionOptions session;
    session.dial = [this] { return cluster_.dial(); };
    session.program = "simulation";
    auto opened = client::Session::open(std::move(session));
    EXPECT_TRUE(opened.is_ok()) << opened.status().to_string();
    session_ = std::move(*opened);
  }
  ~Hour() {
    for (auto& held : held_) (void)held->allocation.free();
    held_.clear();
    session_.reset();
    fabric::fake::install(nullptr);
  }

  void live(uint64_t length_ns) {
    const uint64_t end_ns = network_.now_ns() + length_ns;
    while (network_.now_ns() < end_ns && !testing::Test::HasFailure()) {
      weather();
      for (uint64_t i = below(10); i > 0; --i) act();
      EXPECT_TRUE(session_->is_valid());
      EXPECT_TRUE(network_.is_valid());
      network_.advance(below(12 * kSecondNs));
    }
    heal();
    for (auto& held : held_) verify(*held, 0, held->shadow.bytes());
    EXPECT_EQ(cluster_.violations(), "");
  }

  struct Tally {
    uint64_t ops = 0, failed = 0, survived = 0, dead = 0;
  };
  Tally tally;
  /// Of what each op answered, and when.
  uint64_t digest() const { return digest_; }
  fabric::fake::NetworkCounts counts() const { return network_.counts(); }

 private:
  static fabric::fake::NetworkOptions options() {
    fabric::fake::NetworkOptions options;
    options.piece_bytes = 32 * kKiB;
    return options;
  }
  uint64_t below(uint64_t limit) { return random_() % limit; }
  bool one_in(uint64_t n) { return below(n) == 0; }

  // ---- faults

  void weather() {
    fabric::fake::Faults faults;
    faults.duplicate_ppm = 20'000;
    faults.delay_ppm = 50'000;
    // There and back within the failure deadline of 1.5 s: who is later than that is cut off.
    faults.delay_ns_max = one_in(4) ? 7 * kSecondNs / 10 : kSecondNs / 1000;
    if (one_in(6)) faults.drop_ppm = 10'000;
    dropping_ = faults.drop_ppm != 0;
    network_.set_faults(faults);
    if (one_in(3)) disturb(below(cluster_.homes()));
  }
  /// Some fault of `node`, now or in the middle of what follows, and its end.
  void disturb(size_t node) {
    struct Fault {
      const char* name;
      void (FabricWorld::*begin)(size_t);
      void (FabricWorld::*end)(size_t);
    };
    constexpr Fault kFaults[] = {{"kill", &FabricWorld::kill, &FabricWorld::restart},
                                 {"stop", &FabricWorld::stop, &FabricWorld::resume},
                                 {"cut", &FabricWorld::cut, &FabricWorld::restore}};
    const uint64_t begin_ns = one_in(2) ? 0 : below(200'000), length_ns = below(8 * kSecondNs);
    const Fault fault = kFaults[below(3)];
    network_.schedule(begin_ns, [this, node, fault] {
      note_fault(fault.name, node);
      (cluster_.*fault.begin)(node);
    });
    network_.schedule(begin_ns + length_ns, [this, node, fault] {
      note_fault(std::string("end of ") + fault.name, node);
      (cluster_.*fault.end)(node);
    });
  }
  void heal() {
    network_.set_faults({});
    dropping_ = false;
    network_.advance(30 * kSecondNs);
    for (size_t i = 0; i < cluster_.homes(); ++i) EXPECT_FALSE(cluster_.is_blocked(i));
  }

  // ---- what may fail (Y3, Y4, Y5)

  bool is_dead(const Held& held, size_t i) const { return cluster_.lives(held.nodes[i]) != held.lives[i]; }
  bool is_dead(const Held& held) const {
    for (size_t i = 0; i < held.nodes.size(); ++i) {
      if (is_dead(held, i)) return true;
    }
    return false;
  }
  bool may_fail(const Held& held, const std::vector<uint64_t>& before) const {
    if (held.layout == Layout::kReplicated) {
      if (dropping_ || network_.counts().dropped != held.drops) return true;
      if (cluster_.disturbed_within(kSettledNs) > 1) return true;
      for (size_t i = 0; i < held.nodes.size(); ++i) {
        if (cluster_.disturbances(held.nodes[i]) == held.disturbances[i]) return false;
      }
      return true;
    }
    return dropping_ || is_dead(held) || is_touched(held, before);
  }
  bool is_touched(const Held& held, const std::vector<uint64_t>& before) const {
    return std::any_of(held.nodes.begin(), held.nodes.end(), [&](size_t node) {
      return cluster_.is_blocked(node) || cluster_.disturbances(node) != before[node];
    });
  }
  std::vector<uint64_t> disturbances() const {
    std::vector<uint64_t> out;
    for (size_t i = 0; i < cluster_.homes(); ++i) {
      // A node that is blocked now counts as disturbed during the op, even if it is freed in the middle.
      out.push_back(cluster_.is_blocked(i) ? ~uint64_t{0} : cluster_.disturbances(i));
    }
    return out;
  }

  static std::string place(const std::string& what, uint64_t length, uint64_t offset) {
    return what + " of " + std::to_string(length) + " at " + std::to_string(offset);
  }
  static bool is_traced() {
    static const bool is = std::getenv("OCM_SIM_TRACE") != nullptr;
    return is;
  }
  void note_fault(const std::string& what, size_t node) {
    if (!is_traced()) return;
    std::fprintf(stderr, "%12.6f %s %s\n", static_cast<double>(network_.now_ns()) / 1e9, what.c_str(),
                 FabricWorld::name(node).c_str());
  }
  /// Into the digest; with OCM_SIM_TRACE=1 on the screen, too, for the study of a failing seed.
  void note(const std::string& what, const Held& held, const Status& status) {
    for (const uint64_t word : {network_.now_ns(), static_cast<uint64_t>(status.code())}) {
      digest_ = (digest_ ^ word) * 1099511628211ull;
    }
    if (!is_traced()) return;
    std::string nodes;
    for (size_t i = 0; i < held.nodes.size(); ++i) {
      nodes += " " + FabricWorld::name(held.nodes[i]) + (is_dead(held, i) ? "(dead)" : "");
    }
    for (uint32_t i = 0; i < held.allocation.shape().extents; ++i) {
      const client::Extent& extent = held.allocation.extent(i);
      nodes += (i == 0 ? ", now " : " ") + extent.descriptor().node + (extent.lost() ? "(lost)" : "");
    }
    std::fprintf(stderr, "%12.6f %s %s %p on%s: %s\n", static_cast<double>(network_.now_ns()) / 1e9,
                 what.c_str(), layout_name(held.layout), static_cast<const void*>(&held), nodes.c_str(),
                 status.to_string().c_str());
  }

  /// Judges the outcome of an op. True if it succeeded.
  bool judge(const Held& held, const Status& status, const std::vector<uint64_t>& before,
             const std::string& what) {
    ++tally.ops;
    note(what, held, status);
    if (status.is_ok()) {
      if (held.layout == Layout::kReplicated && is_dead(held)) ++tally.survived;
      if (held.layout == Layout::kSingle) {
        EXPECT_FALSE(is_dead(held)) << what << " answered from a node that died";
      }
      return true;
    }
    ++tally.failed;
    if (is_dead(held)) ++tally.dead;
    EXPECT_TRUE(may_fail(held, before))
        << layout_name(held.layout) << ": " << what << " failed without a fault: " << status.to_string();
    EXPECT_TRUE(status.code() == Code::kPeerLost || status.code() == Code::kRevoked ||
                status.code() == Code::kLost)
        << what << ": " << status.to_string();
    return false;
  }

  // ---- ops

  void act() {
    if (held_.size() < 4 || (held_.size() < 12 && one_in(8))) return allocate();
    Held& held = *held_[below(held_.size())];
    const uint64_t offset = below(held.shadow.bytes());
    const uint64_t room = held.shadow.bytes() - offset;
    const uint64_t length = 1 + below(one_in(3) ? room : std::min<uint64_t>(room, 300));
    switch (below(12)) {
      case 0: return free_one();
      case 1:
      case 2: return atomic(held, offset);
      case 3: return copy(held, offset, length);
      case 4: return many(held);
      case 5:
      case 6:
      case 7: return verify(held, offset, length);
      default: return put(held, offset, length);
    }
  }

  void allocate() {
    std::vector<size_t> nodes(cluster_.homes());
    for (size_t i = 0; i < nodes.size(); ++i) nodes[i] = i;
    for (size_t i = nodes.size(); i > 1; --i) std::swap(nodes[i - 1], nodes[below(i)]);
    auto held = std::make_unique<Held>(1 + below(one_in(4) ? 600 * kKiB : 40 * kKiB));
    client::AllocationOptions options;
    options.layout = static_cast<Layout>(below(3));
    options.flags = one_in(3) ? client::kChecksum : 0;
    if (options.layout == Layout::kSingle) nodes.resize(1);
    if (options.layout == Layout::kReplicated) nodes.resize(2 + below(nodes.size() - 1));
    if (options.layout == Layout::kStriped) {
      nodes.resize(1 + below(nodes.size()));
      options.chunk_bytes = 64 << below(11);
    }
    for (const size_t node : nodes) {
      options.nodes.push_back(FabricWorld::name(node));
      held->lives.push_back(cluster_.lives(node));
      held->disturbances.push_back(cluster_.disturbances(node));
    }
    held->drops = network_.counts().dropped;
    held->layout = options.layout;
    held->nodes = std::move(nodes);
    if (held->allocation.create(*session_, held->shadow.bytes(), options).is_ok()) {
      held_.push_back(std::move(held));
    }
  }

  void free_one() {
    std::swap(held_[below(held_.size())], held_.back());
    const Status status = held_.back()->allocation.free();
    EXPECT_TRUE(status.is_ok()) << status.to_string();
    held_.pop_back();
  }

  std::vector<std::byte> noise(uint64_t count) {
    std::vector<std::byte> out(count);
    for (uint64_t i = 0; i < count; i += 8) {
      const uint64_t word = random_();
      std::memcpy(out.data() + i, &word, std::min<uint64_t>(8, count - i));
    }
    return out;
  }

  void put(Held& held, uint64_t offset, uint64_t length) {
    auto data = noise(length);
    const auto before = disturbances();
    const Status status = client::transfer(
        *session_,
        client::Runs::one({{&held.allocation, offset, nullptr}, {nullptr, 0, data.data()}, length}), length);
    wrote(held, status, before, offset, data, "put");
  }
  void wrote(Held& held, const Status& status, const std::vector<uint64_t>& before, uint64_t offset,
             const std::vector<std::byte>& data, const std::string& what) {
    if (judge(held, status, before, place(what, data.size(), offset))) {
      held.shadow.wrote(offset, data.data(), data.size(), true);
    } else {
      held.shadow.may_have_written(offset, data.data(), data.size());
    }
  }

  void verify(Held& held, uint64_t offset, uint64_t length) {
    std::vector<std::byte> data(length, std::byte{0xA5});
    const auto before = disturbances();
    const Status status = client::transfer(
        *session_,
        client::Runs::one({{nullptr, 0, data.data()}, {&held.allocation, offset, nullptr}, length}), length);
    if (judge(held, status, before, place("get", length, offset))) compare(held, offset, data, "get");
  }
  void compare(const Held& held, uint64_t offset, const std::vector<std::byte>& data, const char* what) {
    const auto wrong = held.shadow.first_wrong(offset, data.data(), data.size());
    EXPECT_FALSE(wrong.has_value()) << what << ": byte " << wrong.value_or(0) << " of a "
                                    << layout_name(held.layout)
                                    << " allocation is neither what was acknowledged nor what may be there";
  }

  void atomic(Held& held, uint64_t offset) {
    offset = offset / 8 * 8;
    if (held.layout == Layout::kReplicated || offset + 8 > held.shadow.bytes()) return;
    using fabric::OpCode;
    const OpCode opcodes[] = {OpCode::kFetchAdd, OpCode::kSwap, OpCode::kCompareSwap,
                              OpCode::kAnd,      OpCode::kOr,   OpCode::kXor};
    const OpCode opcode = opcodes[below(6)];
    const bool certain = held.shadow.is_certain(offset, 8);
    uint64_t word = 0;
    std::memcpy(&word, held.shadow.certain(offset), 8);
    const uint64_t operand = random_(), expected = one_in(2) ? word : random_();
    const auto before = disturbances();
    const auto old = client::atomic(held.allocation, opcode, offset, operand, expected);
    std::vector<std::byte> after(8);
    const auto apply = [&](uint64_t value) {
      alignas(8) std::byte cell[8];
      std::memcpy(cell, &value, 8);
      fabric::apply_atomic(opcode, cell, operand, expected);
      std::memcpy(after.data(), cell, 8);
    };
    if (judge(held, old.status(), before, place("atomic", 8, offset))) {
      const uint64_t seen = Result<uint64_t>(old).value();
      if (certain) {
        EXPECT_EQ(seen, word) << "an atomic found another value";
      }
      apply(seen);
      held.shadow.wrote(offset, after.data(), 8, true);
    } else if (certain) {
      apply(word);
      held.shadow.may_have_written(offset, after.data(), 8);
    } else {
      // The old value is one of several, so the new one is too: what it is, the next put decides.
      unknown(held, offset, 8);
    }
  }
  /// Nothing is known of these bytes any more: the allocation is given up.
  void unknown(Held& held, uint64_t, uint64_t) {
    for (size_t i = 0; i < held_.size(); ++i) {
      if (held_[i].get() != &held) continue;
      (void)held.allocation.free();
      held_.erase(held_.begin() + static_cast<ptrdiff_t>(i));
      return;
    }
  }

  void copy(Held& held, uint64_t offset, uint64_t length) {
    Held& from = *held_[below(held_.size())];
    if (&from == &held || from.shadow.bytes() < length) return;
    const uint64_t source = below(from.shadow.bytes() - length + 1);
    if (!from.shadow.is_certain(source, length)) return;
    const std::vector<std::byte> data(from.shadow.certain(source), from.shadow.certain(source) + length);
    const auto before = disturbances();
    client::Operation op;
    if (!client::keep_order(*session_, &held.allocation, true).is_ok()) return;
    if (!client::keep_order(*session_, &from.allocation, false).is_ok()) return;
    client::start_transfer(
        op, *session_,
        client::Runs::one({{&held.allocation, offset, nullptr}, {&from.allocation, source, nullptr}, length}),
        true, length);
    const Status status = op.wait(false, os::Deadline::never());
    ++tally.ops;
    note("copy from " + std::to_string(source), from, status);
    note(place("copy", length, offset), held, status);
    if (status.is_ok()) {
      // A put that failed before may still land: it travels another way.
      held.shadow.wrote(offset, data.data(), length, false);
      return;
    }
    ++tally.failed;
    const bool unanswered = status.code() == Code::kDeadline && is_touched(held, before);
    EXPECT_TRUE(unanswered || may_fail(held, before) || may_fail(from, before))
        << "copy from " << layout_name(from.layout) << " to " << layout_name(held.layout) << ": "
        << status.to_string();
    // The home that makes it was asked and may go on.
    held.shadow.may_become_anything(offset, length);
  }

  /// Several at once: disjoint puts, and gets that come after them in order.
  void many(Held& held) {
    const uint64_t count = 2 + below(6), share = held.shadow.bytes() / count;
    if (share == 0) return;
    struct Part {
      client::Operation put, get;
      std::vector<std::byte> out, in;
      uint64_t offset = 0;
    };
    std::deque<Part> parts(count);
    const auto before = disturbances();
    for (uint64_t i = 0; i < count; ++i) {
      Part& part = parts[i];
      part.offset = i * share;
      part.out = noise(1 + below(share));
      part.in.resize(part.out.size());
      client::start_transfer(
          part.put, *session_,
          client::Runs::one(
              {{&held.allocation, part.offset, nullptr}, {nullptr, 0, part.out.data()}, part.out.size()}),
          false, part.out.size());
      client::start_transfer(
          part.get, *session_,
          client::Runs::one(
              {{nullptr, 0, part.in.data()}, {&held.allocation, part.offset, nullptr}, part.in.size()}),
          false, part.in.size());
    }
    for (Part& part : parts) {
      // A get sees what completed before it started. Where a replica failed in between, it may have asked
      // another one than the put reached last.
      const bool mixed = held.layout == Layout::kReplicated && disturbances() != before;
      wrote(held, part.put.wait(false, os::Deadline::never()), before, part.offset, part.out, "put of many");
      if (judge(held, part.get.wait(false, os::Deadline::never()), before, "get of many") && !mixed) {
        compare(held, part.offset, part.in, "get of many");
      }
    }
  }

  std::mt19937_64 random_;
  fabric::fake::FakeNetwork network_;
  FabricWorld cluster_;
  std::unique_ptr<fabric::Connector> connector_;
  std::unique_ptr<client::Session> session_;
  std::vector<std::unique_ptr<Held>> held_;
  bool dropping_ = false;
  uint64_t digest_ = 1469598103934665603ull;
};

std::vector<uint64_t> seeds() {
  if (const char* one = std::getenv("OCM_SIM_SEED")) return {std::strtoull(one, nullptr, 10)};
  const char* count = std::getenv("OCM_SIM_SEEDS");
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr uint64_t kHours = 1;  // twenty times slower
#else
  constexpr uint64_t kHours = 10;
#endif
  std::vector<uint64_t> out(count != nullptr ? std::strtoull(count, nullptr, 10) : kHours);
  for (size_t i = 0; i < out.size(); ++i) out[i] = i + 1;
  return out;
}

class Simulation : public testing::TestWithParam<uint64_t> {};

TEST_P(Simulation, AnHourLosesNoByte) {
  SCOPED_TRACE("OCM_SIM_SEED=" + std::to_string(GetParam()));
  Hour hour(GetParam());
  hour.live(std::getenv("OCM_SIM_SEEDS") ? kHourNs : kHourNs / 3);
  std::printf("seed %llu: digest %016llx\n", static_cast<unsigned long long>(GetParam()),
              static_cast<unsigned long long>(hour.digest()));
  // The rare states that this test is about were met.
  EXPECT_GT(hour.tally.ops, 500u);
  EXPECT_GT(hour.tally.failed, 0u);
  EXPECT_GT(hour.tally.survived, 0u);
  EXPECT_GT(hour.tally.dead, 0u);
  EXPECT_GT(hour.counts().ignored_duplicates, 0u);
  RecordProperty("ops", std::to_string(hour.tally.ops));
  RecordProperty("failed", std::to_string(hour.tally.failed));
  RecordProperty("survived", std::to_string(hour.tally.survived));
}

TEST(SimulationTwice, TheSameSeedBringsTheSameHour) {
  uint64_t digests[2];
  for (uint64_t& digest : digests) {
    Hour hour(1);
    hour.live(kHourNs / 30);
    digest = hour.digest();
  }
  EXPECT_EQ(digests[0], digests[1]);
}

INSTANTIATE_TEST_SUITE_P(Seed, Simulation, testing::ValuesIn(seeds()), testing::PrintToStringParamName());

}  // namespace
}  // namespace ocm::simulation
