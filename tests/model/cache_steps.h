// What can happen in Model.Cache, what follows from it, and what must hold then.
#pragma once

#include <array>
#include <bitset>
#include <cstdlib>
#include <deque>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache_state.h"

namespace ocm::cache {

/// What was met in all worlds that hold: every cell and rule must be.
struct Coverage {
  std::bitset<kNodeStates * kNodeTableInputs> node_cells;
  uint64_t directory_cells = 0, rules = 0;
};
inline Coverage coverage;

/// One state and what follows from it by one event.
class Steps {
 public:
  explicit Steps(const World& world) : world_(world) {}

 protected:
  /// `progress`: it happens by itself, with no further fault and no further wish of a program.
  virtual void reach(State&& state, bool progress, const std::string& label) = 0;
  virtual void fail(const std::string& what) = 0;
  bool is_traced() const { return traced_; }

  static State first_state(const World& world) {
    State state;
    for (size_t n = world.nodes; n < kNodesMax; ++n) state.nodes[n].alive = state.nodes[n].in_term = false;
    state.ends = static_cast<uint8_t>(world.ends);
    state.deaths = static_cast<uint8_t>(world.deaths);
    state.cuts = static_cast<uint8_t>(world.cuts);
    state.overdue = static_cast<uint8_t>(world.overdue);
    state.failures = static_cast<uint8_t>(world.failures);
    state.wishes = static_cast<uint8_t>(world.wishes);
    return state;
  }

  void expand(const State& state) {
    for (uint8_t n = 0; n < world_.nodes; ++n) {
      const NodeWorld& node = state.nodes[n];
      if (node.alive && (node.in_term || node.page.state == NodeState::kX)) wishes(state, n);
      if (node.alive) terms(state, n);
      if (world_.other_pages && node.in_term && node.probed != kNewer) probed_elsewhere(state, n);
      if (world_.restarts && !node.alive && node.dead_known) restart(state, n);
      if (node.home_term && !node.in_term) notice(state, n);
      if (!node.alive && !node.home_term && !node.dead_known) node_is_dead(state, n);
      if (node.alive && state.deaths > 0) die(state, n);
    }
    for (size_t i = 0; i < state.network.size(); ++i) deliver(state, i);
    home_events(state);
  }
  /// Nothing is under way and nobody waits.
  bool is_quiet(const State& state) const {
    if (!state.network.empty() || state.home.busy != Busy::kIdle) return false;
    for (size_t n = 0; n < world_.nodes; ++n) {
      if (state.nodes[n].page.request != 0 || state.nodes[n].home_term != state.nodes[n].in_term)
        return false;
    }
    return true;
  }

  /// Where nobody died and nothing was cut off, whoever took bytes has said so.
  void check_quiet(const State& state) {
    if (world_.deaths > 0 || world_.cuts > 0) return;
    for (const NodeWorld& node : state.nodes) {
      if (node.page.is_kept() && node.page.state != NodeState::kX) fail("P3: kept for ever");
    }
  }

 private:
  using Act = NodeAction::Kind;
  using Outcome = NodeStep::Outcome;

  std::string label(const char* what, size_t n) const {
    return traced_ ? std::string(what) + " " + std::to_string(n) : std::string();
  }

  // ---- events of a node

  void wishes(const State& state, uint8_t n) {
    local(state, n, NodeInput::kLoad, false);
    local(state, n, NodeInput::kStore, false);
    if (world_.wholes) local(state, n, NodeInput::kStore, true);
    if (world_.evicts) local(state, n, NodeInput::kEvict, false);
    if (world_.cleans) local(state, n, NodeInput::kClean, false);
  }
  void local(const State& state, uint8_t n, NodeInput input, bool whole) {
    if (node_cell(state.nodes[n].page.state, input).what == NodeDo::kFault)
      return;  // the caller passes it over
    State next = state;
    NodeEvent event;
    event.input = input;
    event.whole = whole;
    event.fresh = fresh_request(state);
    const Outcome outcome = step_node(next, n, event, nullptr);
    if (outcome == Outcome::kWait || outcome == Outcome::kFails) return;
    if (outcome == Outcome::kHit && input == NodeInput::kLoad)
      return;  // what it returns is checked in every state
    if (outcome == Outcome::kHit) {
      store(next, n);
    } else if (world_.wishes > 0) {
      if (state.wishes == 0) return;
      --next.wishes;
    }
    go(std::move(next), false, label(input_name(input).data(), n));
  }
  void terms(const State& state, uint8_t n) {
    const NodeWorld& node = state.nodes[n];
    if (node.in_term && state.ends > 0) {
      State next = state;
      --next.ends;
      end_term(next, n);
      go(std::move(next), false, label("term ends at", n));
    }
    if (node.in_term) return;
    if (node.page.state == NodeState::kX && !world_.patient) {
      State next = state;
      NodeEvent event;
      event.input = NodeInput::kGraceOver;
      step_node(next, n, event, nullptr);
      next.nodes[n].forgot = true;
      go(std::move(next), false, label("gives up what is frozen:", n));
    }
    if (node.home_term) return;
    State next = state;
    NodeWorld& mine = next.nodes[n];
    mine.in_term = mine.home_term = true;
    mine.probed = 0;
    if (mine.page.state == NodeState::kX) {
      NodeEvent event;
      event.input = NodeInput::kTermBegin;
      event.fresh = fresh_request(state);
      step_node(next, n, event, nullptr);
    } else {  // it says so with what begins the term, which the home has before anything else
      DirectoryEvent event;
      event.message.kind = MessageKind::kReturn;
      event.message.from = n, event.message.to = kHome;
      event.message.forgot = mine.forgot;
      step_home(next, event, nullptr);
    }
    next.nodes[n].forgot = false;
    go(std::move(next), true, label("new term of", n));
  }
  void end_term(State& state, uint8_t n) {
    NodeEvent event;
    event.input = NodeInput::kTermEnd;
    step_node(state, n, event, nullptr);
    state.nodes[n].in_term = false;
    state.nodes[n].probed = 0;
    state.network.erase_if(
        [&](const Flying& flying) { return flying.message.to == n && flying.message.from == kHome; });
  }
  void die(const State& state, uint8_t n) {
    State next = state;
    --next.deaths;
    NodeWorld& node = next.nodes[n];
    node.page = NodePage();
    node.alive = node.in_term = false;
    node.is_fresh = node.kept_is_fresh = node.forgot = false;
    next.network.erase_if([&](const Flying& flying) { return flying.message.to == n; });
    go(std::move(next), false, label("dies:", n));
  }

  /// A Probe for another page came: pages have nothing else in common, so one of them stands for all.
  void probed_elsewhere(const State& state, uint8_t n) {
    State next = state;
    next.nodes[n].probed = kNewer;
    go(std::move(next), false, label("probed for another page:", n));
  }
  void restart(const State& state, uint8_t n) {
    State next = state;
    next.nodes[n] = NodeWorld();
    go(std::move(next), false, label("begins anew:", n));
  }

  // ---- events of the home

  void notice(const State& state, uint8_t n) {
    for (const bool may_return : {true, false}) {
      if (!may_return && state.nodes[n].alive) continue;
      State next = state;
      NodeWorld& node = next.nodes[n];
      node.home_term = false;
      node.dead_known = !may_return;
      node.put_is_fresh = false;
      next.network.erase_if(
          [&](const Flying& flying) { return flying.message.from == n && flying.message.to == kHome; });
      DirectoryEvent event;
      event.kind = DirectoryEvent::Kind::kTermEnded;
      event.node = n;
      event.good = may_return;
      step_home(next, event, nullptr);
      go(std::move(next), true, label(may_return ? "home misses" : "home knows dead", n));
    }
  }
  void node_is_dead(const State& state, uint8_t n) {
    State next = state;
    next.nodes[n].dead_known = true;
    DirectoryEvent event;
    event.kind = DirectoryEvent::Kind::kTermEnded;
    event.node = n;
    event.good = false;
    step_home(next, event, nullptr);
    go(std::move(next), false, label("home hears that it is dead:", n));
  }
  void home_events(const State& state) {
    DirectoryEvent event;
    const Busy busy = state.home.busy;
    if (busy == Busy::kRead || busy == Busy::kWrite) {
      const bool may_fail = (busy == Busy::kRead ? world_.reads_fail : world_.writes_fail) &&
                            (world_.failures == 0 || state.failures > 0);
      event.kind = busy == Busy::kRead ? DirectoryEvent::Kind::kRead : DirectoryEvent::Kind::kWritten;
      for (const int result : {0, 1, 2}) {
        event.good = result == 0;
        event.bad_slot = result == 2;
        if (result > 0 && !may_fail) continue;
        if (result == 2 && busy == Busy::kWrite) continue;
        State next = state;
        if (result > 0 && world_.failures > 0) --next.failures;
        if (result == 0 && busy == Busy::kRead) next.buffer_is_fresh = state.storage_is_fresh;
        if (result == 0 && busy == Busy::kWrite) next.storage_is_fresh = state.buffer_is_fresh;
        if (result == 2) next.storage_is_fresh = false;
        step_home(next, event, nullptr);
        go(std::move(next), result == 0,
           label(busy == Busy::kRead ? "read" : "written", static_cast<size_t>(result)));
      }
    }
    event = DirectoryEvent();
    if (busy == Busy::kFetch && (state.overdue > 0 || state.network.empty())) {
      State next = state;
      if (!state.network.empty()) --next.overdue;
      event.kind = DirectoryEvent::Kind::kOverdue;
      step_home(next, event, nullptr);
      go(std::move(next), state.network.empty(), label("overdue", 0));
    }
    if (state.home.state == PageState::kA && busy == Busy::kIdle && !world_.patient) {
      State next = state;
      event.kind = DirectoryEvent::Kind::kGraceOver;
      step_home(next, event, nullptr);
      // Who waits for another one's answer waits so long at most.
      go(std::move(next), state.home.returned.node != kNobody, label("grace over", 0));
    }
  }

  // ---- the network

  void deliver(const State& state, size_t i) {
    const Flying flying = state.network[i];
    const Message& message = flying.message;
    const bool between_holders = message.from < kHome && message.to < kHome;
    State next = state;
    size_t at = 0;
    next.network.erase_if([&](const Flying&) { return at++ == i; });
    if (between_holders && state.cuts > 0) {
      State cut = next;
      --cut.cuts;
      go(std::move(cut), false, label("lost", message.to));
    }
    if (message.to == kHome) {
      if (message.kind == MessageKind::kGetM && world_.refuses) {
        State refused = next;
        DirectoryEvent event;
        event.message = message;
        event.refuse = Code::kPermission;
        step_home(refused, event, &flying);
        go(std::move(refused), false, label("refused", message.from));
      }
      DirectoryEvent event;
      event.message = message;
      step_home(next, event, &flying);
    } else {
      NodeEvent event;
      NodeWorld& node = next.nodes[message.to];
      if (flying.is_ack) {
        event.input = NodeInput::kTaken;
        event.message.peer = message.from;
        event.message.request = message.request;
      } else if (!to_event(message, node.probed, event)) {
        return fail("a message that is none of a node's");
      }
      if (message.from == kHome &&
          (message.kind == MessageKind::kProbe || message.kind == MessageKind::kRecall))
        node.probed = std::max(node.probed, message.epoch);
      if (OCM_MUTATION("forget-the-newest-probe")) node.probed = 0;
      step_node(next, static_cast<uint8_t>(message.to), event, &flying);
    }
    go(std::move(next), true,
       traced_ ? std::string(message_name(message.kind)) + (flying.is_ack ? " (ack)" : "") + " " +
                     std::to_string(message.from) + "->" + std::to_string(message.to) + " v" +
                     std::to_string(message.version) + " e" + std::to_string(message.epoch) + " q" +
                     std::to_string(message.request)
               : std::string());
  }
  /// Only what its receiver looks at: the rest would tell states apart that behave alike.
  static void strip(Message& message) {
    switch (message.kind) {
      case MessageKind::kInvAck: message.request = 0, message.epoch = 0; break;
      case MessageKind::kInv: message.request = 0, message.version = 0; break;
      case MessageKind::kFetchS:
      case MessageKind::kProbe:
      case MessageKind::kRecall:
      case MessageKind::kDone: message.version = 0; break;
      case MessageKind::kGetS:
      case MessageKind::kGetM:
      case MessageKind::kPutS:
      case MessageKind::kPutD:
      case MessageKind::kClean: message.version = 0, message.epoch = 0; break;
      case MessageKind::kReturn: message.epoch = 0; break;
      default: break;
    }
  }
  void send(State& state, Message message, bool is_fresh) {
    if (message.from == kHome && !state.nodes[message.to].in_term) return;  // the courier knows, or will
    if (message.to < kHome && !state.nodes[message.to].alive) return;
    strip(message);
    if (state.network.size() == 40) fail("the network is full");
    state.network.push_back({message, is_fresh, false});
  }
  /// `taker` took the bytes of `request`.
  void acknowledge(State& state, NodeNumber taker, NodeNumber sender, uint64_t request) {
    if (sender >= kHome || !state.nodes[sender].alive) return;
    if (taker == kHome && !state.nodes[sender].in_term) return;
    if (world_.acks) {
      Flying ack;
      ack.is_ack = true;
      ack.message.kind = MessageKind::kDone;
      ack.message.from = taker, ack.message.to = sender;
      ack.message.request = request;
      state.network.push_back(ack);
      return;
    }
    NodeEvent event;
    event.input = NodeInput::kTaken;
    event.message.peer = taker;
    event.message.request = request;
    step_node(state, static_cast<uint8_t>(sender), event, nullptr);
  }

  /// A node writes: what everybody else has is older.
  void store(State& state, uint8_t n) {
    for (NodeWorld& node : state.nodes) node.is_fresh = node.kept_is_fresh = node.put_is_fresh = false;
    for (Flying& flying : state.network) flying.is_fresh = false;
    state.storage_is_fresh = state.buffer_is_fresh = false;
    state.nodes[n].is_fresh = true;
  }

  // ---- steps of the real code, and their actions

  Outcome step_node(State& state, uint8_t n, const NodeEvent& event, const Flying* flying) {
    NodeWorld& node = state.nodes[n];
    const NodePage before = node.page;
    const NodeStep result = step(before, event);
    if (event.input <= NodeInput::kNoMore && result.outcome != Outcome::kIgnored &&
        result.outcome != Outcome::kFault && model::mutation.empty())
      coverage.node_cells.set(static_cast<size_t>(before.state) * kNodeTableInputs +
                              static_cast<size_t>(event.input));
    if (result.outcome == Outcome::kFault)
      fail("a \"-\" was reached: " + std::string(input_name(event.input)) + " in " +
           std::string(state_name(before.state)));
    if (result.outcome == Outcome::kIgnored && (!(result.page == before) || result.count != 0))
      fail("I10: an old message did something");
    if (!result.page.is_valid()) fail("a node's page is not valid");
    const bool gave_up = result.page.is_kept() && !before.is_kept();
    if (gave_up) node.kept_is_fresh = node.is_fresh;
    const bool payload_is_fresh = has_copy(before.state) ? node.is_fresh : node.kept_is_fresh;
    node.page = result.page;
    bool loads = can_load(before.state), stores = can_store(before.state);
    for (const NodeAction& action : result) {
      switch (action.kind) {
        case Act::kUnmap: loads = stores = false; break;
        case Act::kProtect: stores = false; break;
        case Act::kSend: {
          Message message = action.message;
          message.from = n;
          if (loads && !can_load(result.page.state)) fail("P2: programs can still load");
          if (stores && !can_store(result.page.state)) fail("P2: programs can still store");
          if (message.kind == MessageKind::kPutD || message.kind == MessageKind::kClean)
            node.put_is_fresh = payload_is_fresh;
          send(state, message, message.payload == Message::Payload::kPage && payload_is_fresh);
          break;
        }
        case Act::kFill: node.is_fresh = flying->is_fresh; break;
        case Act::kAcknowledge: acknowledge(state, n, flying->message.from, flying->message.request); break;
        case Act::kOverwrite: store(state, n); break;
        case Act::kRestore: node.is_fresh = node.kept_is_fresh; break;
        case Act::kFree:
          if (result.page.state != NodeState::kI || result.page.is_kept())
            fail("I8: a frame is freed too early");
          break;
        case Act::kWake:
        case Act::kFault: break;
      }
    }
    if (!has_copy(node.page.state) && (node.page.state != NodeState::kX || node.page.is_kept()) &&
        (node.page.state != NodeState::kXA || node.page.is_kept()))
      node.is_fresh = false;
    if (!node.page.is_kept()) node.kept_is_fresh = false;
    return result.outcome;
  }

  void step_home(State& state, const DirectoryEvent& event, const Flying* flying) {
    const DirectoryPolicy policy{world_.storage_supplies, world_.home_supplies ? NodeNumber{0} : kNobody};
    if (flying != nullptr && flying->message.payload == Message::Payload::kPage &&
        flying->message.kind != MessageKind::kPutD && flying->message.kind != MessageKind::kClean) {
      state.buffer_is_fresh = flying->is_fresh;
    }
    DirectoryStep result = step(std::move(state.home), event, policy);
    state.home = std::move(result.page);
    if (result.fault) fail("a fault at the home");
    if (model::mutation.empty()) coverage.directory_cells |= result.cells, coverage.rules |= result.rules;
    for (const DirectoryAction& action : result.actions) {
      switch (action.kind) {
        case DirectoryAction::Kind::kSend:
          send(state, action.message,
               action.message.payload == Message::Payload::kPage && state.buffer_is_fresh);
          break;
        case DirectoryAction::Kind::kRead: break;
        case DirectoryAction::Kind::kWrite:
          if (state.home.transaction.storing == Transaction::Storing::kPut)
            state.buffer_is_fresh = state.nodes[state.home.transaction.asked.node].put_is_fresh;
          break;
        case DirectoryAction::Kind::kFault: fail("a \"-\" of the home's table was reached"); break;
      }
    }
    // What was asked for is at the home: a supplier need keep it no longer.
    if (flying != nullptr && flying->message.payload == Message::Payload::kPage &&
        (flying->message.kind == MessageKind::kProbeReply || flying->message.kind == MessageKind::kRecalled))
      acknowledge(state, kHome, flying->message.from, flying->message.request);
    if (state.home.busy == Busy::kIdle || state.home.busy == Busy::kFetch) state.buffer_is_fresh = false;
    if (state.home.busy == Busy::kIdle && state.home.state == PageState::kU) {  // the entry is forgotten
      const uint32_t epoch = OCM_MUTATION("forget-the-epoch-in-u") ? 1 : state.home.epoch;
      const uint64_t version = OCM_MUTATION("forget-the-version-in-u") ? 1 : state.home.version;
      state.home = DirectoryPage();
      state.home.epoch = epoch;
      state.home.version = state.home.storage_version = version;
    }
  }

  /// Bytes for a request that waits no more, and word that bytes were taken which are kept no more: no request ever has
  /// that number again, so they change nothing, whenever they come.
  static void forget_what_is_ignored(State& state) {
    if (OCM_MUTATION("take-what-another-request-asked-for")) return;
    state.network.erase_if([&](const Flying& flying) {
      const Message& message = flying.message;
      if (message.to == kHome) return false;
      const NodePage& page = state.nodes[message.to].page;
      if (flying.is_ack) return page.kept_request != message.request || page.kept_peer != message.from;
      return message.from != kHome && page.request != message.request;
    });
  }

  // ---- what must hold

  void go(State&& state, bool progress, const std::string& label) {
    forget_what_is_ignored(state);
    check(state);
    reach(std::move(state), progress, label);
  }
  void check(const State& state) {
    const DirectoryPage& home = state.home;
    if (!home.is_valid()) fail("I5: the entry is not valid");
    if (home.state == PageState::kL && is_lossless_) fail("I9: lost, though nobody died or gave up");
    size_t loaders = 0, dirty = 0, alone = 0;
    for (uint8_t n = 0; n < world_.nodes; ++n) {
      const NodeWorld& node = state.nodes[n];
      const NodeState is = node.page.state;
      if (can_load(is)) {
        ++loaders;
        if (is == NodeState::kM || is == NodeState::kE || is == NodeState::kEmA || is == NodeState::kMcA)
          ++alone;
        if (!node.is_fresh) fail("I2: a load returns old bytes");
        if (!home.holds(n) && (home.busy == Busy::kIdle || home.transaction.asked.node != n))
          fail("I3: a node that can load is not in the ring");
      }
      if (home.holds(n) && is_dirty(is)) ++dirty;
      check_member(state, n);
    }
    if (alone > 0 && loaders > 1) fail("I1: another can load beside an exclusive copy");
    if (dirty > 1) fail("I4: two dirty copies");
    const bool is_current =
        home.state == PageState::kU || home.state == PageState::kS || home.state == PageState::kE;
    if (home.busy == Busy::kIdle && is_current && !state.storage_is_fresh) fail("I5: the storage is old");
    for (size_t n = 0; n < world_.nodes; ++n) {
      size_t requests = 0;
      const auto is_request = [](MessageKind kind) { return kind <= MessageKind::kClean; };
      for (const Asked& asked : home.queue) requests += asked.node == n && is_request(asked.kind) ? 1 : 0;
      for (const Flying& flying : state.network) {
        requests += flying.message.from == n && !flying.is_ack && is_request(flying.message.kind) ? 1 : 0;
      }
      if (requests > 1) fail("I6: two requests of one node");
    }
  }
  void check_member(const State& state, uint8_t n) {
    const DirectoryPage& home = state.home;
    const NodeWorld& node = state.nodes[n];
    if (home.busy != Busy::kIdle || !home.holds(n) || !node.alive || !node.in_term) return;
    if (home.state == PageState::kA) return;
    if (!has_copy(node.page.state)) fail("a member of the ring has no copy");
    if (node.page.version != home.version) fail("I5: a copy of the ring has another version");
  }

 protected:
  const World world_;

 private:
  const bool is_lossless_ = world_.deaths == 0 && !world_.reads_fail && (world_.ends == 0 || world_.patient);
  const bool traced_ = std::getenv("OCM_MODEL_TRACE") != nullptr;
};

}  // namespace ocm::cache
