// Two nodes that keep to the page protocol, a home, and a node that does not: whatever it sends, as itself, it alone is
// found at fault, the others go on, and none of them loads beside the other's exclusive copy.
//
// What it may not send here is bytes that it was not asked for to somebody whose request it was told: who waits for bytes
// takes them from whoever was sent for them, and cannot know that the home has asked another since. Whom that deceives
// ends its term with the home, or the home does.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "cache/protocol/directory_page.h"
#include "cache/protocol/node_page.h"
#include "cache/protocol/node_table.h"

namespace ocm::cache {
namespace {

constexpr NodeNumber kHonest = 2, kHostile = 2;

class Walk {
 public:
  explicit Walk(uint64_t seed) : random_(seed) {}

  /// Empty, or what went wrong.
  std::string run(size_t steps) {
    for (size_t i = 0; i < steps && failure_.empty(); ++i) {
      const uint64_t choice = below(100);
      if (choice < 40 && !network_.empty()) {
        deliver();
      } else if (choice < 60) {
        local(static_cast<NodeNumber>(below(kHonest)));
      } else if (choice < 85) {
        hostile();
      } else {
        home_event();
      }
      check();
    }
    return failure_;
  }
  size_t served() const { return served_; }
  size_t faults() const { return faults_; }

 private:
  uint64_t below(uint64_t bound) { return random_() % bound; }
  void fail(const std::string& what) {
    if (failure_.empty()) failure_ = what;
  }

  void deliver() {
    const size_t at = below(network_.size());
    const Message message = network_[at];
    network_.erase(network_.begin() + static_cast<std::ptrdiff_t>(at));
    if (message.to == kHome) return at_home(message);
    if (message.to == kHostile) {
      told_.push_back(message);
      if (message.kind == MessageKind::kFetchS || message.kind == MessageKind::kFetchM) fetched(message);
      return;
    }
    NodeEvent event;
    if (!to_event(message, probed_[message.to], event)) return fault(message.from, "a message that is none");
    if (message.kind == MessageKind::kProbe || message.kind == MessageKind::kRecall)
      probed_[message.to] = std::max(probed_[message.to], message.epoch);
    at_node(message.to, event);
  }
  /// It was asked for bytes: it gives them, once, or does not.
  void fetched(const Message& fetch) {
    if (below(4) == 0) return;
    Message data = fetch;
    data.kind = fetch.kind == MessageKind::kFetchM ? MessageKind::kDataM : MessageKind::kDataS;
    data.payload = below(4) == 0 ? Message::Payload::kNone : Message::Payload::kPage;
    data.version = below(2) == 0 ? fetch.version : below(1000);
    data.from = kHostile, data.to = fetch.peer;
    network_.push_back(data);
  }

  void local(NodeNumber n) {
    static constexpr NodeInput kInputs[] = {NodeInput::kLoad, NodeInput::kStore, NodeInput::kEvict,
                                            NodeInput::kClean};
    NodeEvent event;
    event.input = kInputs[below(4)];
    event.fresh = random_() | 1;
    event.whole = below(4) == 0;
    if (node_cell(nodes_[n].state, event.input).what != NodeDo::kFault) at_node(n, event);
  }

  /// Of what it was told, with this or that changed.
  void hostile() {
    Message message;
    if (!told_.empty() && below(4) != 0)
      message = told_[told_.size() - 1 - below(std::min<size_t>(told_.size(), 8))];
    message.kind = static_cast<MessageKind>(below(kMessageKinds));
    message.from = kHostile;
    message.to = below(3) == 0 ? static_cast<NodeNumber>(below(kHonest)) : kHome;
    if (below(8) == 0) message.request = below(3);
    if (below(8) == 0) message.ticket = random_();
    if (below(4) == 0)
      message.epoch = below(3) == 0 ? 0xFFFFFFFF : home_.epoch + static_cast<uint32_t>(below(2));
    if (below(4) == 0) message.version = below(3) == 0 ? ~uint64_t{0} : home_.version + below(2);
    message.payload = below(2) == 0 ? Message::Payload::kPage : Message::Payload::kNone;
    message.whole = below(2) == 0, message.copy = below(2) == 0, message.exclusive = below(2) == 0;
    message.waiting = below(2) == 0, message.kept = below(2) == 0, message.forgot = below(8) == 0;
    if (message.kind == MessageKind::kGetS || message.kind == MessageKind::kGetM) own_ = message.request;
    if (message.kind == MessageKind::kDone && below(2) == 0)  // as if it had been given what it asked for
      message.request = own_, message.epoch = home_.epoch, message.to = kHome;
    const bool gives = message.kind == MessageKind::kDataS || message.kind == MessageKind::kDataM;
    if (gives && message.to < kHonest && message.request == nodes_[message.to].request)
      return;  // see the file's top
    network_.push_back(message);
  }

  void home_event() {
    DirectoryEvent event;
    event.ticket = random_() | 1;
    switch (home_.busy) {
      case Busy::kRead: event.kind = DirectoryEvent::Kind::kRead; break;
      case Busy::kWrite: event.kind = DirectoryEvent::Kind::kWritten; break;
      default:
        if (home_.busy == Busy::kIdle || has_honest_traffic()) return;
        event.kind = DirectoryEvent::Kind::kOverdue;
        break;
    }
    step_home(event);
  }
  /// What honest nodes and the home have under way does not take as long as a deadline.
  bool has_honest_traffic() const {
    return std::any_of(network_.begin(), network_.end(), [](const Message& message) {
      return message.from != kHostile && message.to != kHostile;
    });
  }

  void at_home(const Message& message) {
    DirectoryEvent event;
    event.message = message;
    event.ticket = random_() | 1;
    step_home(event);
  }
  void step_home(const DirectoryEvent& event) {
    DirectoryStep result = step(std::move(home_), event, {});
    home_ = std::move(result.page);
    if (!home_.is_valid()) fail("the entry is not valid");
    for (const DirectoryAction& action : result.actions) {
      if (action.kind == DirectoryAction::Kind::kSend) {
        if (action.message.to > kHostile) fail("a message to nobody");
        network_.push_back(action.message);
      }
      if (action.kind != DirectoryAction::Kind::kFault) continue;
      fault(action.message.from, "the home: " + std::string(message_name(action.message.kind)));
      if (event.kind == DirectoryEvent::Kind::kOverdue) end_hostile();
    }
  }
  void end_hostile() {
    std::erase_if(network_, [](const Message& message) {
      return (message.from == kHostile && message.to == kHome) ||
             (message.from == kHome && message.to == kHostile);
    });
    DirectoryEvent ended;
    ended.kind = DirectoryEvent::Kind::kTermEnded;
    ended.node = kHostile;
    ended.good = false;
    ended.ticket = random_() | 1;
    step_home(ended);
  }

  void at_node(NodeNumber n, const NodeEvent& event) {
    const NodePage before = nodes_[n];
    const NodeStep result = step(before, event);
    nodes_[n] = result.page;
    if (!result.page.is_valid()) fail("a page is not valid");
    for (const NodeAction& action : result) {
      if (action.kind == NodeAction::Kind::kFault)
        fault(event.message.from, "node " + std::to_string(n) + " in " +
                                      std::string(state_name(before.state)) + ": " +
                                      std::string(input_name(event.input)));
      if (action.kind == NodeAction::Kind::kAcknowledge && event.message.from < kHonest) {
        NodeEvent taken;
        taken.input = NodeInput::kTaken;
        taken.message.peer = n, taken.message.request = event.message.request;
        at_node(event.message.from, taken);
      }
      if (action.kind == NodeAction::Kind::kWake && action.code == Code::kOk) ++served_;
      if (action.kind != NodeAction::Kind::kSend) continue;
      Message message = action.message;
      message.from = n;
      if (message.to > kHostile && message.to != kHome) fail("a message to nobody");
      network_.push_back(message);
    }
  }

  void fault(NodeNumber culprit, const std::string& who) {
    ++faults_;
    if (culprit != kHostile) fail("an honest one is at fault: " + std::to_string(culprit) + ", says " + who);
  }
  void check() {
    for (NodeNumber n = 0; n < kHonest; ++n) {
      if (is_exclusive(nodes_[n].state) && can_load(nodes_[n].state) && can_load(nodes_[1 - n].state))
        fail("I1: another can load beside an exclusive copy");
    }
  }

  std::mt19937_64 random_;
  DirectoryPage home_;
  NodePage nodes_[kHonest];
  uint32_t probed_[kHonest] = {};
  std::vector<Message> network_, told_;
  std::string failure_;
  uint64_t own_ = 0;  // what it asked for last
  size_t served_ = 0, faults_ = 0;
};

TEST(CacheHostile, ANodeThatSendsWhatItLikesIsAloneAtFault) {
  size_t served = 0, faults = 0;
  for (uint64_t seed = 0; seed < 2'000; ++seed) {
    Walk walk(seed);
    ASSERT_EQ(walk.run(400), "") << "seed " << seed;
    served += walk.served(), faults += walk.faults();
  }
  EXPECT_GT(served, 20'000u) << "the honest ones go on";
  EXPECT_GT(faults, 20'000u);
}

}  // namespace
}  // namespace ocm::cache
