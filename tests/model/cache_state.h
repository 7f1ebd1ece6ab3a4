// What Model.Cache walks: the states of one page at its home, at the nodes that cache it, and on the network, told apart
// by what matters: nodes may change places, and numbers that only are compared may be any others.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "cache/protocol/directory_page.h"
#include "cache/protocol/node_page.h"
#include "model.h"

namespace ocm::cache {

inline constexpr size_t kNodesMax = 3;
inline constexpr uint32_t kNewer = 1000;  // an epoch of another page

struct World {
  const char* name;
  size_t nodes = 2;
  bool evicts = false, cleans = false, wholes = false;
  bool refuses = false;     // GetM is not always allowed
  bool reads_fail = false;  // the storage; also for good
  bool writes_fail = false;
  bool storage_supplies = false;  // DirectoryPolicy
  bool home_supplies = false;     // the same: node 0 has the home's own cache
  bool restarts = false;          // of nodes that died
  bool other_pages = false;       // have repairs, too
  bool patient = false;           // who is away is waited for, and nobody gives up what is frozen
  bool acks = false;              // that bytes were taken is told by a message
  size_t ends = 0;                // terms that end though nobody dies
  size_t deaths = 0;
  size_t cuts = 0;      // messages between two holders that are lost
  size_t overdue = 0;   // how often the home takes for lost what only is slow
  size_t failures = 0;  // of the storage, where it fails at all; 0: any number
  size_t wishes = 0;    // requests of programs and puts; 0: any number
  bool liveness = true;
};

/// A message under way. Of what it carries it matters only whether that is the newest store.
struct Flying {
  Message message;
  bool is_fresh = false;
  bool is_ack = false;  // no message of the protocol: `from` has taken the bytes of `request`
};

struct NodeWorld {
  NodePage page;
  bool is_fresh = false, kept_is_fresh = false;
  bool put_is_fresh = false;  // what its put under way carries
  bool alive = true;
  bool in_term = true;      // as it knows
  bool home_term = true;    // as the home knows
  bool dead_known = false;  // the home knows that it does not come back
  bool forgot = false;      // it gave up a frozen copy
  uint32_t probed = 0;
};

struct State {
  DirectoryPage home;
  std::array<NodeWorld, kNodesMax> nodes;
  Few<Flying, 12> network;
  bool storage_is_fresh = true;
  bool buffer_is_fresh = false;
  uint8_t ends = 0, deaths = 0, cuts = 0, overdue = 0, failures = 0, wishes = 0;
};

/// A number that no request in this state has.
inline uint64_t fresh_request(const State& state) {
  uint64_t used = 1;
  const auto use = [&](uint64_t request) { used |= uint64_t{1} << (request & 63); };
  for (const NodeWorld& node : state.nodes) use(node.page.request), use(node.page.kept_request);
  for (const Flying& flying : state.network) use(flying.message.request);
  for (const Asked& asked : state.home.queue) use(asked.request);
  use(state.home.returned.request);
  use(state.home.transaction.asked.request);
  uint64_t free = 1;
  while ((used >> free & 1) != 0) ++free;
  return free;
}

/// The state's name. Two states with one name behave alike.
class Naming {
 public:
  model::Digest digest(const State& state, size_t nodes) {
    std::array<std::string, kNodesMax> kinds;
    std::vector<uint8_t> order;
    for (uint8_t n = 0; n < nodes; ++n) kinds[n] = kind_of(state, n), order.push_back(n);
    std::sort(order.begin(), order.end(), [&](uint8_t a, uint8_t b) { return kinds[a] < kinds[b]; });
    best_.clear();
    permute(state, kinds, order, 0);
    return model::digest_of(best_);
  }

 private:
  /// Every order in which those that look alike by themselves change places; the least name is the state's.
  void permute(const State& state, const std::array<std::string, kNodesMax>& kinds,
               std::vector<uint8_t>& order, size_t at) {
    if (at == order.size()) {
      text_.clear();
      write(state, order);
      if (best_.empty() || text_ < best_) best_.swap(text_);
      return;
    }
    for (size_t i = at; i < order.size() && kinds[order[i]] == kinds[order[at]]; ++i) {
      std::swap(order[at], order[i]);
      permute(state, kinds, order, at + 1);
      std::swap(order[at], order[i]);
    }
  }
  /// What of a node does not depend on the others' names.
  static std::string kind_of(const State& state, uint8_t n) {
    const NodeWorld& node = state.nodes[n];
    const auto place = [&](const auto& list, auto get) {
      char at = 0;
      for (size_t i = 0; i < list.size(); ++i) {
        if (get(list[i]) == n) at = static_cast<char>(i + 1);
      }
      return at;
    };
    size_t under_way = 0;
    for (const Flying& flying : state.network) {
      const size_t kind = static_cast<size_t>(flying.message.kind) + 1;
      if (flying.message.from == n) under_way += kind * kind * 7;
      if (flying.message.to == n) under_way += kind * kind * 7 * 1031;
    }
    const Transaction& open = state.home.transaction;
    return {
        static_cast<char>(node.page.state),
        static_cast<char>(node.is_fresh | node.kept_is_fresh << 1 | node.put_is_fresh << 2 | node.alive << 3 |
                          node.in_term << 4 | node.home_term << 5 | node.dead_known << 6),
        static_cast<char>(node.forgot | node.page.whole << 1 | node.page.is_kept() << 2),
        place(state.home.ring, [](NodeNumber x) { return x; }),
        place(state.home.queue, [](const Asked& x) { return x.node; }),
        place(state.home.gone, [](const Gone& x) { return x.node; }),
        static_cast<char>((state.home.owner == n) | (open.asked.node == n) << 1 | (open.supplier == n) << 2 |
                          (open.probed == n) << 3 | (state.home.returned.node == n) << 4),
        static_cast<char>(under_way),
        static_cast<char>(under_way >> 8),
        static_cast<char>(under_way >> 16)};
  }

  void write(const State& state, const std::vector<uint8_t>& order) {
    for (size_t i = 0; i < order.size(); ++i) name_[order[i]] = static_cast<uint8_t>(i);
    requests_.fill(0);
    next_request_ = 1;
    home_ = &state.home;
    for (const uint8_t n : order) add_node(state.nodes[n]);
    add_home(state.home);
    add(state.storage_is_fresh | state.buffer_is_fresh << 1);
    add(state.ends), add(state.deaths), add(state.cuts), add(state.overdue), add(state.failures),
        add(state.wishes);
    add_network(state);
  }
  void add_node(const NodeWorld& node) {
    const NodePage& page = node.page;
    add(static_cast<unsigned>(page.state));
    add(page.whole | node.is_fresh << 1 | node.kept_is_fresh << 2 | node.put_is_fresh << 3 | node.alive << 4 |
        node.in_term << 5 | node.home_term << 6 | node.dead_known << 7);
    add(node.forgot);
    add_request(page.request);
    add_epoch(page.epoch);
    add_version(page.version);
    add_version(page.kept_version);
    add_node_name(page.kept_peer);
    add_request(page.kept_request);
    node.probed == kNewer ? add(255) : add_epoch(node.probed);
  }
  void add_asked(const Asked& asked) {
    add_node_name(asked.node);
    add(static_cast<unsigned>(asked.kind));
    add(asked.whole | asked.copy << 1 | asked.kept << 2);
    add_request(asked.request);
    add_version(asked.kind == MessageKind::kReturn ? asked.version : 0);
  }
  void add_home(const DirectoryPage& home) {
    add(static_cast<unsigned>(home.state));
    add(static_cast<unsigned>(home.busy));
    add(home.doubt);
    add_node_name(home.owner);
    add_version(home.storage_version);
    const auto list = [&](const auto& nodes) {
      add(static_cast<unsigned>(nodes.size()));
      for (const NodeNumber node : nodes) add_node_name(node);
    };
    list(home.ring);
    add(static_cast<unsigned>(home.queue.size()));
    for (const Asked& asked : home.queue) add_asked(asked);
    add(static_cast<unsigned>(home.gone.size()));
    for (const Gone& gone : home.gone) add_node_name(gone.node), add(static_cast<unsigned>(gone.presence));
    add_asked(home.returned);
    if (home.busy == Busy::kIdle) return;
    const Transaction& open = home.transaction;
    add_asked(open.asked);
    add_node_name(open.supplier);
    add(static_cast<unsigned>(open.requester_is) | static_cast<unsigned>(open.supplier_is) << 2 |
        static_cast<unsigned>(open.probing) << 4 | static_cast<unsigned>(open.storing) << 6);
    add(open.shares);
    add(static_cast<unsigned>(open.sent));
    add_node_name(open.probed);
    list(open.unacked);
  }
  void add_network(const State& state) {
    flying_.clear();
    for (const Flying& flying : state.network) {
      const size_t begin = text_.size();
      const Message& message = flying.message;
      add(static_cast<unsigned>(message.kind) << 1 | flying.is_ack);
      add_node_name(message.from);
      add_node_name(message.to);
      add_node_name(message.peer);
      add(static_cast<unsigned>(-static_cast<int>(message.code)));
      add_request(message.request);
      add_epoch(message.epoch);
      add_version(message.version);
      add(flying.is_fresh | message.whole << 1 | message.copy << 2 | message.exclusive << 3 |
          message.waiting << 4 | message.kept << 5 | message.forgot << 6 | message.data << 7);
      add(message.payload == Message::Payload::kPage);
      flying_.push_back(text_.substr(begin));
      text_.resize(begin);
    }
    std::sort(flying_.begin(), flying_.end());
    for (const std::string& one : flying_) text_ += one;
  }

  void add(unsigned value) { text_ += static_cast<char>(value); }
  void add_node_name(NodeNumber node) { add(node < kNodesMax ? name_[node] : 0xF0 | (node & 15)); }
  void add_request(uint64_t request) {
    if (request == 0) return add(0);
    if (requests_[request & 63] == 0) requests_[request & 63] = static_cast<uint8_t>(next_request_++);
    add(requests_[request & 63]);
  }
  void add_epoch(uint32_t epoch) {
    add(epoch == 0 ? 0 : 1 + std::min<unsigned>(home_->epoch - std::min(epoch, home_->epoch), 6));
  }
  void add_version(uint64_t version) {
    if (version == 0) return add(0);
    add(version > home_->version ? 7 : 6 - std::min<uint64_t>(home_->version - version, 3));
  }

  const DirectoryPage* home_ = nullptr;
  std::array<uint8_t, kNodesMax> name_{};
  std::array<uint8_t, 64> requests_{};
  unsigned next_request_ = 1;
  std::string text_, best_;
  std::vector<std::string> flying_;
};

}  // namespace ocm::cache
