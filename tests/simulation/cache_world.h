// Several page caches on virtual time, with a network that loses, repeats, delays and cuts, storage that takes its time and
// fails, and for each word what its newest store was: everything follows from one seed.
#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cache/page_cache.h"

namespace ocm::cache::test {

inline constexpr uint64_t kPageBytes = 4096, kMicrosecond = 1'000, kMillisecond = 1'000'000,
                          kSecond = 1'000'000'000;

struct WorldOptions {
  uint64_t seed = 1;
  size_t nodes = 3;
  uint32_t frames = 8;
  uint32_t pages = 12;                      // of each node's extent
  unsigned lost = 0, repeated = 0;          // of 1,000 packets
  unsigned slow = 0;                        // of 1,000: 30 ms and more
  unsigned failing = 0;                     // of 1,000 accesses to the storage
  uint64_t pause_ns = 300 * kMicrosecond;   // of a program between two accesses, at most
  uint64_t storage_ns = 50 * kMicrosecond;  // an access to the storage, at least
};

class World {
 public:
  explicit World(const WorldOptions& options) : options_(options), random_(options.seed) {
    for (size_t i = 0; i < options.nodes; ++i) start(i);
    for (size_t i = 0; i < options.nodes; ++i) add_extent(i);
  }

  ~World() { close(); }
  /// Nothing is sent any more, and what the storage has begun ends.
  void close() {
    closing_ = true;
    for (const auto& node : nodes_) node->attached.clear();
    while (!events_.empty()) {
      const std::function<void()> what = events_.top().what;
      events_.pop();
      what();
    }
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  bool is_closing() const { return closing_; }

  // ---- time
  uint64_t now_ns() const { return now_ns_; }
  void at(uint64_t delay_ns, std::function<void()> what) {
    events_.push({now_ns_ + delay_ns, ++event_, std::move(what)});
  }
  /// One event, or what is due at a node. False: nothing ever happens again.
  bool step() {
    uint64_t due = events_.empty() ? ~uint64_t{0} : events_.top().at_ns;
    Node* ticking = nullptr;
    for (const auto& node : nodes_) {
      if (node->cache == nullptr || node->stopped) continue;
      const uint64_t at_ns = std::max(node->cache->due_ns(), now_ns_);
      if (at_ns < due) due = at_ns, ticking = node.get();
    }
    if (due == ~uint64_t{0}) return false;
    now_ns_ = std::max(now_ns_, due);
    if (ticking != nullptr) {
      ticking->cache->tick();
      return true;
    }
    const std::function<void()> what = events_.top().what;
    events_.pop();
    what();
    return true;
  }
  void run(uint64_t for_ns) {
    bool over = false;
    at(for_ns, [&] { over = true; });
    while (!over && failure_.empty()) (void)step();
  }

  // ---- what goes wrong
  bool below(unsigned thousandths) { return random_() % 1000 < thousandths; }
  uint64_t random(uint64_t bound) { return random_() % bound; }
  void cut(size_t from, size_t to, bool is_cut) {
    is_cut ? cuts_.insert({from, to}), 0 : cuts_.erase({from, to});
  }
  bool is_healed() const { return healed_; }
  /// Of some run all others know that it is over.
  bool is_told_of_dead() const { return !told_dead_.empty(); }
  void heal() {
    healed_ = true, cuts_.clear(), options_.lost = options_.repeated = options_.slow = options_.failing = 0u;
  }
  void stop(size_t i, bool stopped) { nodes_[i]->stopped = stopped; }
  /// The run is over; the others learn it after a while.
  void kill(size_t i) {
    Node& node = *nodes_[i];
    if (node.cache == nullptr) return;
    graveyard_.push_back(std::move(node.cache));
    const NodeNumber number = node.number;
    ++node.life;
    dead_.insert(number);
    at(random(3 * kSecond), [this, number] {
      for (const auto& other : nodes_) {
        if (other->cache != nullptr) other->cache->run_is_over(number);
      }
      told_dead_.insert(number);
    });
  }

  // ---- nodes and their extents
  struct Node;
  PageCache* cache(size_t i) { return nodes_[i]->cache.get(); }
  size_t nodes() const { return nodes_.size(); }
  bool is_alive(size_t i) const { return nodes_[i]->cache != nullptr; }
  bool is_stopped(size_t i) const { return nodes_[i]->stopped; }
  ExtentId extent(size_t home) const { return nodes_[home]->extent; }
  uint64_t life(size_t i) const { return nodes_[i]->life; }
  uint32_t pages() const { return options_.pages; }
  uint64_t pause_ns() const { return options_.pause_ns; }
  uint64_t storage_ns() { return options_.storage_ns + random(100 * kMicrosecond); }
  void set_storage_ns(uint64_t ns) { options_.storage_ns = ns; }
  uint64_t extent_bytes() const { return uint64_t{options_.pages} * kPageBytes - 512; }
  bool may_lose() const { return may_lose_; }
  void allow_losses() { may_lose_ = true; }

  void fail(const std::string& what) {
    if (failure_.empty())
      failure_ = "seed " + std::to_string(options_.seed) + " at " + std::to_string(now_ns_) + ": " + what;
  }
  const std::string& failure() const { return failure_; }
  void check() {
    for (const auto& node : nodes_) {
      if (node->cache == nullptr) continue;
      if (!node->cache->is_valid()) fail("a cache is not valid");
    }
  }

  struct Storage final : public Staged {
    World& world;
    std::vector<std::byte> bytes;
    bool bad = false;  // every write fails
    Storage(World& w, uint64_t n) : world(w), bytes(n) {}
    void read(uint64_t offset, std::span<std::byte> into, Done done) override {
      world.at(world.storage_ns(), [=, this, done = std::move(done)] {
        if (world.below(world.options_.failing)) return done(Code::kIo);
        std::memcpy(into.data(), bytes.data() + offset, into.size());
        done({});
      });
    }
    void write(uint64_t offset, std::span<const std::byte> from, Done done) override {
      world.at(world.storage_ns(), [=, this, done = std::move(done)] {
        if (bad || world.below(world.options_.failing)) return done(Code::kIo);
        std::memcpy(bytes.data() + offset, from.data(), from.size());
        done({});
      });
    }
    void modify(uint64_t, std::function<void(std::byte*)>, Done) override {
      world.fail("modify of the storage");
    }
  };
  Storage& storage(size_t home) { return *nodes_[home]->storage; }

  struct Node final : public PageCache::Ports {
    World* world = nullptr;
    size_t index = 0;
    NodeNumber number = 0;
    uint64_t life = 0;
    bool stopped = false;
    ExtentId extent;
    std::shared_ptr<Storage> storage;
    std::unique_ptr<PageCache> cache;
    std::vector<std::unique_ptr<CachedExtent>> attached;

    uint64_t now_ns() override { return world->now_ns_; }
    uint64_t random() override { return world->random_(); }
    void due_changed() override {}
    void send(NodeNumber to, const PacketHeader& header, const PageBytes& bytes) override {
      world->send(*this, to, header, bytes);
    }
  };

  /// Node `user` may use the extent of `home`; the control plane, which is not what is tested here.
  Staged* open(size_t user, size_t home, bool writes = true) {
    Node& at_home = *nodes_[home];
    Node& node = *nodes_[user];
    if (at_home.cache == nullptr || !at_home.cache->allow(at_home.extent, node.number, writes).is_ok())
      return nullptr;
    node.attached.push_back(std::make_unique<CachedExtent>(*node.cache, at_home.extent, extent_bytes()));
    return node.attached.back().get();
  }
  void close_all(size_t user) { nodes_[user]->attached.clear(); }

 private:
  struct Event {
    uint64_t at_ns, number;
    std::function<void()> what;
    bool operator>(const Event& other) const {
      return std::pair(at_ns, number) > std::pair(other.at_ns, other.number);
    }
  };

  void start(size_t i) {
    nodes_.push_back(std::make_unique<Node>());
    Node& node = *nodes_.back();
    node.world = this;
    node.index = i;
    node.number = static_cast<NodeNumber>(100 + i);
    PageCacheOptions options;
    options.self = node.number;
    options.page_bytes = kPageBytes;
    options.frames = options_.frames;
    node.cache = std::make_unique<PageCache>(node, options);
  }
  void add_extent(size_t i) {
    Node& node = *nodes_[i];
    node.extent = {GlobalAddress(node.number, 4096 * (i + 1)), static_cast<uint32_t>(7 + i)};
    node.storage = std::make_shared<Storage>(*this, extent_bytes());
    node.cache->add(node.extent, extent_bytes(), node.storage, {});
  }
  Node* by_number(NodeNumber number) {
    for (const auto& node : nodes_) {
      if (node->number == number) return node.get();
    }
    return nullptr;
  }
  void send(Node& from, NodeNumber to, const PacketHeader& header, const PageBytes& bytes) {
    if (closing_) return;
    Node* target = by_number(to);
    if (target == nullptr) return fail("a packet to nobody");
    if (from.cache == nullptr || cuts_.contains({from.index, target->index}) || below(options_.lost)) return;
    const size_t copies = below(options_.repeated) ? 2 : 1;
    for (size_t i = 0; i < copies; ++i) {
      const uint64_t delay = below(options_.slow) ? 30 * kMillisecond + random(500 * kMillisecond)
                                                  : 10 * kMicrosecond + random(100 * kMicrosecond);
      at(delay, [this, header, bytes, from = from.number, target] { deliver(from, *target, header, bytes); });
    }
  }
  void deliver(NodeNumber from, Node& to, const PacketHeader& header, const PageBytes& bytes) {
    if (closing_ || to.cache == nullptr || told_dead_.contains(from)) return;
    if (to.stopped) {  // its socket keeps it
      at(10 * kMillisecond, [this, from, to = &to, header, bytes] { deliver(from, *to, header, bytes); });
      return;
    }
    if (!to.cache->receive(from, header, bytes)) fail("an honest node's packet was refused");
  }

  WorldOptions options_;
  std::mt19937_64 random_;
  uint64_t now_ns_ = kSecond;
  uint64_t event_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<PageCache>> graveyard_;  // what the storage may still call
  std::set<std::pair<size_t, size_t>> cuts_;
  std::set<NodeNumber> dead_, told_dead_;
  std::string failure_;
  bool closing_ = false, healed_ = false, may_lose_ = false;
};

}  // namespace ocm::cache::test
