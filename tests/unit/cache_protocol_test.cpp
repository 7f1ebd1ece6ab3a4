// The page protocol's steps at their edges: whatever arrives in whatever state, a step ends, leaves something valid, and
// what no correct sender sends is his fault and nothing else. What all of them do together is in tests/model.
#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "cache/protocol/directory_page.h"
#include "cache/protocol/directory_table.h"
#include "cache/protocol/node_page.h"
#include "cache/protocol/node_table.h"

namespace ocm::cache {
namespace {

using Outcome = NodeStep::Outcome;
using Kind = MessageKind;

constexpr uint64_t kRequest = 5, kFresh = 7, kTicket = 11, kVersion = 4;
constexpr uint32_t kEpoch = 3;

bool is_waiting(NodeState state) { return state >= NodeState::kIsD && state != NodeState::kX; }
NodePage node_in(NodeState state, bool kept = false) {
  NodePage page;
  page.state = state;
  page.request = is_waiting(state) ? kRequest : 0;
  page.epoch = kEpoch;
  page.version = has_copy(state) ? kVersion : 0;
  if (kept) page.kept_version = kVersion, page.kept_request = 9, page.kept_peer = 2;
  return page;
}
/// Every state, and with bytes kept where that is possible.
template <class Use>
void for_each_node_page(Use use) {
  for (size_t s = 0; s < kNodeStates; ++s) {
    const NodeState state = static_cast<NodeState>(s);
    for (const bool kept : {false, true}) {
      if (kept && has_copy(state)) continue;
      const NodePage page = node_in(state, kept);
      ASSERT_TRUE(page.is_valid()) << state_name(state);
      use(page);
    }
  }
}

/// What holds after every step of a node.
void check_step(const NodePage& before, const NodeEvent& event, const NodeStep& result) {
  const bool is_message = event.input >= NodeInput::kDataS;
  ASSERT_TRUE(result.page.is_valid());
  if (result.outcome == Outcome::kFault || result.outcome == Outcome::kIgnored) {
    ASSERT_EQ(result.page, before);
    const bool says_so = result.outcome == Outcome::kFault && is_message;
    ASSERT_EQ(result.count, says_so ? 1 : 0);
    if (says_so) {
      ASSERT_EQ(result.actions[0].kind, NodeAction::Kind::kFault);
    }
    return;
  }
  if (event.input <= NodeInput::kNoMore) {
    ASSERT_NE(node_cell(before.state, event.input).what, NodeDo::kFault);
  }
  bool loads = can_load(before.state), stores = can_store(before.state), freed = false;
  for (const NodeAction& action : result) {
    ASSERT_NE(action.kind, NodeAction::Kind::kFault);
    if (action.kind == NodeAction::Kind::kUnmap) loads = stores = false;
    if (action.kind == NodeAction::Kind::kProtect) stores = false;
    if (action.kind == NodeAction::Kind::kFree) freed = true;
    if (action.kind != NodeAction::Kind::kSend) continue;
    ASSERT_TRUE(!loads || can_load(result.page.state)) << "P2";
    ASSERT_TRUE(!stores || can_store(result.page.state)) << "P2";
  }
  if (freed) {
    ASSERT_TRUE(result.page.state == NodeState::kI && !result.page.is_kept()) << "P3";
  }
}

std::string told(const NodePage& page, const NodeEvent& event) {
  std::ostringstream out;
  out << input_name(event.input) << " in " << state_name(page.state) << ", request " << event.message.request
      << ", epoch " << event.message.epoch << ", peer " << event.message.peer << ", probed " << event.probed;
  return out.str();
}

TEST(NodePage, AnyMessageInAnyState) {
  size_t faults = 0, ignored = 0, done = 0;
  Message message;
  message.from = kHome;
  message.code = Code::kIo;
  const auto try_all = [&](const NodePage& page) {
    for (const uint32_t probed : {0u, kEpoch + 1}) {
      NodeEvent event;
      ASSERT_TRUE(to_event(message, probed, event));
      SCOPED_TRACE(told(page, event));
      const NodeStep result = step(page, event);
      check_step(page, event, result);
      if (testing::Test::HasFatalFailure()) return;
      faults += result.outcome == Outcome::kFault ? 1 : 0;
      ignored += result.outcome == Outcome::kIgnored ? 1 : 0;
      done += result.outcome == Outcome::kDone ? 1 : 0;
    }
  };
  for_each_node_page([&](const NodePage& page) {
    for (size_t k = 0; k < kMessageKinds; ++k) {
      message.kind = static_cast<Kind>(k);
      NodeEvent none;
      if (!to_event(message, 0, none)) continue;
      for (const uint64_t request : {uint64_t{0}, kRequest, kRequest + 1})
        for (const uint32_t epoch : {0u, kEpoch - 1, kEpoch, kEpoch + 1})
          for (const uint64_t version : {uint64_t{0}, kVersion + 1})
            for (const NodeNumber peer : {NodeNumber{1}, kHome, kNobody})
              for (unsigned bits = 0; bits < 8; ++bits) {
                message.request = request, message.epoch = epoch, message.version = version,
                message.peer = peer;
                message.payload = bits & 1 ? Message::Payload::kPage : Message::Payload::kNone;
                message.exclusive = bits & 2, message.data = bits & 4;
                try_all(page);
                if (testing::Test::HasFatalFailure()) return;
              }
    }
  });
  EXPECT_GT(faults, 1000u);
  EXPECT_GT(ignored, 1000u);
  EXPECT_GT(done, 1000u);
}

TEST(NodePage, AnyLocalEventInAnyState) {
  for_each_node_page([&](const NodePage& page) {
    for (const NodeInput input :
         {NodeInput::kLoad, NodeInput::kStore, NodeInput::kEvict, NodeInput::kClean, NodeInput::kTermEnd,
          NodeInput::kTermBegin, NodeInput::kGraceOver, NodeInput::kRevoke, NodeInput::kTaken}) {
      for (const uint64_t fresh : {uint64_t{0}, kFresh}) {
        for (const uint64_t request : {0u, 9u}) {
          for (const NodeNumber peer : {NodeNumber{2}, kHome, kNobody}) {
            NodeEvent event;
            event.input = input, event.fresh = fresh, event.whole = true;
            event.message.request = request, event.message.peer = peer;
            SCOPED_TRACE(told(page, event));
            check_step(page, event, step(page, event));
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  });
}

TEST(NodePage, AMessageForTheHomeIsNoNodesEvent) {
  size_t events = 0;
  for (size_t k = 0; k < kMessageKinds; ++k) {
    Message message;
    message.kind = static_cast<Kind>(k);
    EXPECT_NE(message_name(message.kind), "");
    NodeEvent event;
    for (const NodeNumber holder : {NodeNumber{1}, kNobody}) {
      message.from = holder;
      const bool gives = message.kind == Kind::kDataS || message.kind == Kind::kDataM;
      EXPECT_EQ(to_event(message, 0, event), gives && holder != kNobody) << message_name(message.kind);
    }
    message.from = kHome;
    if (to_event(message, 0, event)) ++events;
  }
  EXPECT_EQ(events, 15u);
  EXPECT_FALSE(is_kind(static_cast<uint8_t>(kMessageKinds)));
}

Message from_home(Kind kind, uint64_t request = kRequest) {
  Message out;
  out.kind = kind, out.from = kHome, out.to = 0, out.request = request, out.ticket = kTicket,
  out.epoch = kEpoch, out.version = kVersion;
  return out;
}
NodeStep feed(const NodePage& page, const Message& message, uint32_t probed = 0) {
  NodeEvent event;
  EXPECT_TRUE(to_event(message, probed, event));
  return step(page, event);
}

TEST(NodePage, BytesForAnotherRequestAreNotTakenAndNotAcknowledged) {
  Message data = from_home(Kind::kDataS, kRequest + 1);
  data.payload = Message::Payload::kPage;
  const NodeStep other = feed(node_in(NodeState::kIsD), data);
  EXPECT_EQ(other.outcome, Outcome::kIgnored);
  data.request = kRequest;
  const NodeStep own = feed(node_in(NodeState::kIsD), data);
  EXPECT_EQ(own.page.state, NodeState::kS);
  ASSERT_EQ(own.count, 4);
  EXPECT_EQ(own.actions[1].kind, NodeAction::Kind::kAcknowledge);
}

TEST(NodePage, NoBytesAreAGrantOnlyForWhoOverwritesAll) {
  NodePage page = node_in(NodeState::kImAd);
  EXPECT_EQ(feed(page, from_home(Kind::kDataM)).outcome, Outcome::kFault);
  page.whole = true;
  const NodeStep result = feed(page, from_home(Kind::kDataM));
  EXPECT_EQ(result.page.state, NodeState::kM);
  EXPECT_EQ(result.actions[0].kind, NodeAction::Kind::kOverwrite);
}

TEST(NodePage, TheHomesProbeEndsAFalseEpoch) {
  Message data = from_home(Kind::kDataS);
  data.payload = Message::Payload::kPage, data.from = 1, data.epoch = 0xFFFFFFFF;
  const NodePage deceived = feed(node_in(NodeState::kIsD), data).page;
  ASSERT_EQ(deceived.state, NodeState::kS);
  EXPECT_EQ(feed(deceived, from_home(Kind::kInv)).outcome, Outcome::kIgnored);
  const NodePage probed = feed(deceived, from_home(Kind::kProbe)).page;
  EXPECT_EQ(feed(probed, from_home(Kind::kInv)).outcome, Outcome::kDone) << "the home is heard again";
}

TEST(NodePage, ANackHasAReason) {
  EXPECT_EQ(feed(node_in(NodeState::kIsD), from_home(Kind::kNack)).outcome, Outcome::kFault);
}

TEST(NodePage, ARecallIsAboutARequest) {
  EXPECT_EQ(feed(node_in(NodeState::kM), from_home(Kind::kRecall, 0)).outcome, Outcome::kFault);
}

TEST(NodePage, WhoTakesBytesBringsTheTicketOfTheTransaction) {
  Message fetch = from_home(Kind::kFetchM);
  fetch.peer = 1;
  const NodeStep given = feed(node_in(NodeState::kM), fetch);
  ASSERT_EQ(given.actions[1].message.kind, Kind::kDataM);
  Message data = given.actions[1].message;
  data.from = 0;
  const NodeStep taken = feed(node_in(NodeState::kImAd), data);
  ASSERT_EQ(taken.actions[2].message.kind, Kind::kDone);
  EXPECT_EQ(taken.actions[2].message.ticket, kTicket);
}

TEST(NodePage, AFetchThatAProbeOvertookIsNoFault) {
  Message fetch = from_home(Kind::kFetchM);
  fetch.peer = 1;
  const NodePage empty;
  EXPECT_EQ(feed(empty, fetch, 0).outcome, Outcome::kFault);
  EXPECT_EQ(feed(empty, fetch, kEpoch).outcome, Outcome::kFault);
  EXPECT_EQ(feed(empty, fetch, kEpoch + 1).outcome, Outcome::kIgnored);
}

TEST(NodePage, WhatWasGivenUpIsKeptUntilItIsTaken) {
  Message fetch = from_home(Kind::kFetchM);
  fetch.peer = 1;
  const NodeStep given = feed(node_in(NodeState::kM), fetch);
  EXPECT_EQ(given.page.state, NodeState::kI);
  EXPECT_TRUE(given.page.is_kept());
  NodeEvent taken;
  taken.input = NodeInput::kTaken;
  taken.message.peer = 2, taken.message.request = kRequest;
  EXPECT_EQ(step(given.page, taken).outcome, Outcome::kIgnored) << "somebody else";
  taken.message.peer = 1;
  const NodeStep freed = step(given.page, taken);
  EXPECT_FALSE(freed.page.is_kept());
  ASSERT_EQ(freed.count, 1);
  EXPECT_EQ(freed.actions[0].kind, NodeAction::Kind::kFree);
}

// ---- the directory

std::string text_of(const DirectoryPage& page) {
  std::ostringstream out;
  const auto asked = [&](const Asked& one) {
    out << one.node << ' ' << static_cast<int>(one.kind) << ' ' << one.whole << one.copy << one.kept << ' '
        << one.request << ' ' << one.version << ';';
  };
  out << state_name(page.state) << ' ' << busy_name(page.busy) << ' ' << page.doubt << ' ' << page.owner
      << ' ' << page.epoch << ' ' << page.version << ' ' << page.storage_version << " ring";
  for (const NodeNumber node : page.ring) out << ' ' << node;
  out << " queue ";
  for (const Asked& one : page.queue) asked(one);
  out << " gone";
  for (const Gone& gone : page.gone) out << ' ' << gone.node << ':' << static_cast<int>(gone.presence);
  const Transaction& open = page.transaction;
  out << " open ";
  asked(open.asked);
  out << open.ticket << ' ' << open.supplier << ' ' << static_cast<int>(open.requester_is)
      << static_cast<int>(open.supplier_is) << ' ' << static_cast<int>(open.sent) << ' ' << open.shares
      << open.overdue << static_cast<int>(open.storing) << static_cast<int>(open.probing) << ' '
      << open.probed << " unacked";
  for (const NodeNumber node : open.unacked) out << ' ' << node;
  return out.str();
}

/// Of honest and hostile events, any; most are near what the page waits for, or nothing would ever happen.
DirectoryEvent any_event(std::mt19937& random, const DirectoryPage& page) {
  const auto below = [&](uint32_t bound) { return static_cast<uint32_t>(random() % bound); };
  DirectoryEvent event;
  event.node = static_cast<NodeNumber>(below(4));
  event.good = below(3) != 0;
  event.bad_slot = below(2) == 0;
  using Is = DirectoryEvent::Kind;
  event.kind = below(10) != 0   ? Is::kMessage
               : below(4) == 0  ? Is::kOverdue
               : below(20) == 0 ? static_cast<Is>(below(6))
                                : Is::kTermEnded;
  event.refuse = below(10) == 0 ? Code::kPermission : Code::kOk;
  Message& message = event.message;
  message.kind = static_cast<Kind>(below(kMessageKinds));
  message.from =
      below(20) == 0 ? static_cast<NodeNumber>(kHome + below(2)) : static_cast<NodeNumber>(below(4));
  message.to = kHome;
  message.request = below(4);
  message.ticket = below(8) == 0 ? 0 : page.transaction.ticket;
  event.ticket = 1 + below(100);
  message.epoch = below(4) == 0 ? below(4) : page.epoch;
  message.version = page.version + below(4) - std::min<uint64_t>(page.version, 1);
  message.payload = below(2) == 0 ? Message::Payload::kPage : Message::Payload::kNone;
  message.whole = below(2) == 0, message.copy = below(2) == 0, message.exclusive = below(2) == 0;
  message.waiting = below(2) == 0, message.kept = below(2) == 0, message.forgot = below(2) == 0;
  if (page.state == PageState::kA && page.busy == Busy::kIdle && below(4) == 0) {
    message.kind = Kind::kReturn, message.from = page.ring.front();
    message.payload = Message::Payload::kNone;
  }
  if (page.busy != Busy::kIdle && below(4) != 0) {
    const Transaction& open = page.transaction;
    message.request = open.asked.request;
    switch (page.busy) {
      case Busy::kRead: event.kind = DirectoryEvent::Kind::kRead; break;
      case Busy::kWrite: event.kind = DirectoryEvent::Kind::kWritten; break;
      case Busy::kInvalidate: message.kind = Kind::kInvAck, message.from = open.unacked.front(); break;
      case Busy::kProbe: message.kind = Kind::kProbeReply, message.from = open.probed; break;
      case Busy::kRecall: message.kind = Kind::kRecalled, message.from = open.supplier; break;
      case Busy::kFetch:
        if (below(3) == 0) event.kind = Is::kOverdue;
        [[fallthrough]];
      default: message.kind = Kind::kDone, message.from = open.asked.node; break;
    }
  }
  return event;
}

TEST(DirectoryPage, AnyEventInAnyState) {
  uint64_t rules = 0, cells = 0;
  size_t faults = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    DirectoryPolicy policy;
    policy.storage_supplies = seed % 4 == 0;
    policy.supplier = seed % 8 == 0 ? 0 : kNobody;
    DirectoryPage page;
    for (size_t i = 0; i < 500; ++i) {
      const std::string before = text_of(page);
      const DirectoryEvent event = any_event(random, page);
      DirectoryStep result = step(page, event, policy);
      SCOPED_TRACE("seed " + std::to_string(seed) + " step " + std::to_string(i) + ": event " +
                   std::to_string(static_cast<int>(event.kind)) + ' ' +
                   std::string(message_name(event.message.kind)) + " of " +
                   std::to_string(event.message.from) + "\n" + before + "\n" + text_of(result.page));
      ASSERT_TRUE(result.page.is_valid());
      ASSERT_LE(result.page.queue.size(), 8u) << "one request and one return of a node";
      ASSERT_LE(result.page.gone.size(), 4u);
      rules |= result.rules, cells |= result.cells, faults += result.fault ? 1 : 0;
      if (result.fault) {
        ASSERT_EQ(text_of(result.page), before);
        for (const DirectoryAction& action : result.actions)
          ASSERT_EQ(action.kind, DirectoryAction::Kind::kFault);
        ASSERT_EQ(result.actions.size(), event.kind == DirectoryEvent::Kind::kMessage ? 1u : 0u);
      }
      page = std::move(result.page);
    }
  }
  EXPECT_GT(faults, 1000u);
  std::string missing;
  for (size_t r = 0; r < kRules; ++r) {
    if ((rules >> r & 1) == 0) missing += " " + std::string(rule_name(static_cast<Rule>(r)));
  }
  EXPECT_GE(std::popcount(rules), static_cast<int>(kRules) - 8) << "the walk met too little:" << missing;
  EXPECT_GT(std::popcount(cells), 35);
}

Message request_of(NodeNumber node, Kind kind, uint64_t request = 1) {
  Message out;
  out.kind = kind, out.from = node, out.to = kHome, out.request = request, out.epoch = 1;
  if (kind == Kind::kPutD || kind == Kind::kClean) out.payload = Message::Payload::kPage;
  return out;
}
DirectoryStep give(const DirectoryPage& page, const Message& message) {
  DirectoryEvent event;
  event.message = message;
  return step(page, event, {});
}
/// S with so many sharers, the first of them at the bottom of the ring.
DirectoryPage shared_by(NodeNumber count) {
  DirectoryPage page;
  for (NodeNumber node = 0; node < count; ++node) page.ring.push_front(node);
  page.state = PageState::kS;
  EXPECT_TRUE(page.is_valid());
  return page;
}

TEST(DirectoryPage, MoreSharersThanAnEntryHoldsInside) {
  constexpr NodeNumber kSharers = 20;
  DirectoryStep at = give(shared_by(kSharers), request_of(kSharers, Kind::kGetM));
  EXPECT_EQ(at.page.busy, Busy::kInvalidate);
  ASSERT_EQ(at.actions.size(), kSharers - 1u);
  EXPECT_TRUE(at.page.ring.is_valid() && at.actions.is_valid());
  const NodeNumber supplier = at.page.transaction.supplier;
  EXPECT_EQ(supplier, kSharers - 1) << "the top of the ring";
  for (NodeNumber node = 0; node < kSharers; ++node) {
    if (node != supplier) at = give(at.page, request_of(node, Kind::kInvAck));
  }
  ASSERT_EQ(at.actions.size(), 1u);
  EXPECT_EQ(at.actions.front().message.kind, Kind::kFetchM);
  at = give(at.page, request_of(kSharers, Kind::kDone));
  EXPECT_EQ(at.page.state, PageState::kM);
  EXPECT_EQ(at.page.ring.size(), 1u);
  EXPECT_TRUE(at.page.ring.is_valid());
  EXPECT_EQ(at.page.version, 2u);
}

TEST(DirectoryPage, WhatASenderMayNotSend) {
  const DirectoryPage idle = shared_by(2);
  const auto is_fault = [](const DirectoryPage& page, const Message& message) {
    const DirectoryStep result = give(page, message);
    return result.fault && text_of(result.page) == text_of(page);
  };
  Message message = request_of(2, Kind::kGetS, 0);
  EXPECT_TRUE(is_fault(idle, message)) << "no number";
  message = request_of(0, Kind::kPutD);
  message.payload = Message::Payload::kNone;
  EXPECT_TRUE(is_fault(idle, message)) << "no bytes";
  message = request_of(0, Kind::kPutS);
  message.payload = Message::Payload::kPage;
  EXPECT_TRUE(is_fault(idle, message)) << "bytes that nobody wants";
  for (const NodeNumber stranger : {kHome, kNobody})
    EXPECT_TRUE(is_fault(idle, request_of(stranger, Kind::kGetS)));
  for (const Kind kind : {Kind::kDone, Kind::kInvAck, Kind::kProbeReply, Kind::kRecalled, Kind::kDataS})
    EXPECT_TRUE(is_fault(idle, request_of(0, kind))) << message_name(kind);

  const DirectoryPage busy = give(idle, request_of(2, Kind::kGetM)).page;
  EXPECT_TRUE(is_fault(busy, request_of(2, Kind::kGetS, 2))) << "before it was answered";
  EXPECT_TRUE(is_fault(busy, request_of(3, Kind::kInvAck))) << "not asked";
  const DirectoryPage queued = give(busy, request_of(3, Kind::kGetS)).page;
  EXPECT_TRUE(is_fault(queued, request_of(3, Kind::kGetS, 2))) << "one at a time";
}

TEST(DirectoryPage, AHolderThatAsksForACopyIsAtFaultAndWaitsForNothing) {
  const DirectoryStep result = give(shared_by(2), request_of(0, Kind::kGetS));
  ASSERT_EQ(result.actions.size(), 1u);
  EXPECT_EQ(result.actions.front().kind, DirectoryAction::Kind::kFault);
  EXPECT_EQ(result.actions.front().message.from, 0);
  EXPECT_EQ(result.page.busy, Busy::kIdle);
  EXPECT_EQ(result.page.state, PageState::kS);
}

/// GetM of 3 while 0 to 2 have copies, until the home waits for Done of a Fetch with this ticket.
DirectoryPage fetching() {
  DirectoryEvent event;
  event.message = request_of(3, Kind::kGetM);
  event.ticket = kTicket;
  DirectoryPage page = step(shared_by(3), event, {}).page;
  for (const NodeNumber node : {0, 1}) page = give(page, request_of(node, Kind::kInvAck)).page;
  EXPECT_EQ(page.busy, Busy::kFetch);
  return page;
}

TEST(DirectoryPage, ADoneWithoutTheTicketDoesNothing) {
  Message done = request_of(3, Kind::kDone);
  const DirectoryStep early = give(fetching(), done);
  EXPECT_FALSE(early.fault) << "it may have been deceived";
  EXPECT_EQ(text_of(early.page), text_of(fetching())) << "2 has not obeyed yet";
  done.ticket = kTicket;
  EXPECT_EQ(give(fetching(), done).page.state, PageState::kM);
  done.epoch = 2;
  EXPECT_EQ(text_of(give(fetching(), done).page), text_of(fetching())) << "the home is not there yet";
}

TEST(DirectoryPage, WhoeverDoesNotAnswerIsAtFault) {
  DirectoryEvent overdue;
  overdue.kind = DirectoryEvent::Kind::kOverdue;
  const auto blamed = [&](const DirectoryPage& page) {
    const DirectoryStep result = step(page, overdue, {});
    EXPECT_EQ(text_of(result.page), text_of(page));
    std::vector<NodeNumber> nodes;
    for (const DirectoryAction& action : result.actions) {
      EXPECT_EQ(action.kind, DirectoryAction::Kind::kFault);
      nodes.push_back(action.message.from);
    }
    return nodes;
  };
  using Nodes = std::vector<NodeNumber>;
  EXPECT_EQ(blamed(shared_by(2)), Nodes());
  const DirectoryPage invalidating = give(shared_by(3), request_of(3, Kind::kGetM)).page;
  EXPECT_EQ(blamed(invalidating), Nodes({1, 0}));
  EXPECT_EQ(blamed(give(shared_by(1), request_of(0, Kind::kGetM)).page), Nodes({0})) << "granted, no Done";
  const DirectoryPage probing = step(fetching(), overdue, {}).page;
  EXPECT_EQ(probing.busy, Busy::kProbe);
  EXPECT_EQ(blamed(probing), Nodes({3}));
  Message reply = request_of(3, Kind::kProbeReply);
  reply.epoch = probing.epoch, reply.waiting = true;
  const DirectoryPage recalling = give(probing, reply).page;
  EXPECT_EQ(recalling.busy, Busy::kRecall);
  EXPECT_EQ(blamed(recalling), Nodes({2}));
}

TEST(DirectoryPage, ALostPageIsNeverTakenForWhatWasBefore) {
  DirectoryPage page;
  page.state = PageState::kM;
  page.owner = 0, page.version = 2;
  page.ring.push_back(0);
  DirectoryEvent dies;
  dies.kind = DirectoryEvent::Kind::kTermEnded;
  dies.node = 0, dies.good = false;
  const DirectoryStep lost = step(page, dies, {});
  EXPECT_EQ(lost.page.state, PageState::kL);
  EXPECT_GT(lost.page.version, page.version + 1) << "nor for what a grant that was under way made of it";
  const DirectoryStep asked = give(lost.page, request_of(1, Kind::kGetS));
  ASSERT_EQ(asked.actions.size(), 1u);
  EXPECT_EQ(asked.actions.front().message.kind, Kind::kNack);
  EXPECT_EQ(asked.actions.front().message.code, Code::kLost);
}

// ---- the list of holders

TEST(Few, IsAListWhateverItsLength) {
  std::mt19937 random(1);
  Few<uint16_t, 4> few;
  std::vector<uint16_t> plain;
  for (size_t i = 0; i < 20'000; ++i) {
    const uint16_t value = static_cast<uint16_t>(random() % 10);
    switch (random() % 5) {
      case 0: few.push_back(value), plain.push_back(value); break;
      case 1: few.push_front(value), plain.insert(plain.begin(), value); break;
      case 2:
        if (!plain.empty()) few.pop_front(), plain.erase(plain.begin());
        break;
      case 3:
        EXPECT_EQ(few.erase_if([&](uint16_t one) { return one == value; }), std::erase(plain, value) > 0);
        break;
      default:
        if (random() % 20 == 0) few.clear(), plain.clear();
        break;
    }
    ASSERT_EQ(std::vector<uint16_t>(few.begin(), few.end()), plain);
    ASSERT_EQ(few.empty(), plain.empty());
  }
}

}  // namespace
}  // namespace ocm::cache
