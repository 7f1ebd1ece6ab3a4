#include "cache/protocol/node_page.h"

#include <algorithm>

#include "base/mutation.h"
#include "cache/protocol/node_table.h"

namespace ocm::cache {

namespace {

using Act = NodeAction::Kind;
using Outcome = NodeStep::Outcome;

struct StateTraits {
  std::string_view name;
  bool load, copy, exclusive, dirty;
};
constexpr std::array<StateTraits, kNodeStates> kStates = {{
    {"I", false, false, false, false},     {"S", true, true, false, false},
    {"E", true, true, true, false},        {"O", true, true, false, true},
    {"M", true, true, true, true},         {"IS_D", false, false, false, false},
    {"IM_AD", false, false, false, false}, {"SM_A", true, true, false, false},
    {"EM_A", true, true, true, false},     {"OM_A", true, true, false, true},
    {"SI_A", false, true, false, false},   {"EI_A", false, true, true, false},
    {"OI_A", false, true, false, true},    {"MI_A", false, true, true, true},
    {"MC_A", true, true, true, true},      {"OC_A", true, true, false, true},
    {"II_A", false, false, false, false},  {"X", false, false, false, false},
    {"X_A", false, false, false, false},
}};
static_assert(std::all_of(kStates.begin(), kStates.end(),
                          [](const StateTraits& is) {
                            return is.copy || !(is.load || is.exclusive || is.dirty);
                          }),
              "only a copy is loaded, alone or dirty");
const StateTraits& traits(NodeState state) { return kStates[static_cast<size_t>(state)]; }

bool is_stable(NodeState state) {
  return state == NodeState::kI || state == NodeState::kS || state == NodeState::kE ||
         state == NodeState::kO || state == NodeState::kM || state == NodeState::kX;
}
/// What a Return may be about: a dirty copy, and one whose node may have been promised the page (SM_A).
bool is_worth_freezing(const NodePage& page) {
  return is_dirty(page.state) || (page.state == NodeState::kSmA && !OCM_MUTATION("freeze-no-sharer")) ||
         page.state == NodeState::kX || page.state == NodeState::kXA || page.is_kept();
}

class Step {
 public:
  Step(const NodePage& page, const NodeEvent& event) : event_(event), message_(event.message) {
    out_.page = page;
  }

  NodeStep run() {
    switch (event_.input) {
      case NodeInput::kProbe: probe(); break;
      case NodeInput::kRecall: recall(); break;
      case NodeInput::kTermEnd: end_term(); break;
      case NodeInput::kTermBegin: begin_term(); break;
      case NodeInput::kGraceOver: grace_over(); break;
      case NodeInput::kRevoke: revoke(); break;
      case NodeInput::kTaken: taken(); break;
      default: by_table(); break;
    }
    return out_;
  }

 private:
  NodePage& page() { return out_.page; }

  // ---- the table

  void by_table() {
    const NodeState before = page().state;
    const NodeCell cell = node_cell(before, event_.input);
    if (is_ignored(cell)) {
      out_.outcome = Outcome::kIgnored;
      return;
    }
    if (cell.what == NodeDo::kFault || !is_well_formed()) return fault();
    page().state = cell.next;
    if (event_.input >= NodeInput::kDataS) page().epoch = std::max(page().epoch, message_.epoch);
    act(cell.what, before);
    if (is_stable(page().state)) forget_request();
    free_if_empty(before);
  }

  /// P4, P5.
  bool is_ignored(const NodeCell& cell) {
    switch (event_.input) {
      case NodeInput::kDataS:
      case NodeInput::kDataE:
      case NodeInput::kDataM:
        if (message_.request != page().request && !OCM_MUTATION("take-what-another-request-asked-for"))
          return true;
        return message_.epoch < page().epoch && !OCM_MUTATION("take-older-data");
      case NodeInput::kFetchS:
      case NodeInput::kFetchM:
        if (message_.epoch < page().epoch && !OCM_MUTATION("obey-an-older-fetch")) return true;
        return cell.what == NodeDo::kFault && message_.epoch < event_.probed;
      case NodeInput::kGrantM:
      case NodeInput::kInv: return message_.epoch < page().epoch;
      case NodeInput::kPutAck:
      case NodeInput::kPutStale:
      case NodeInput::kNack: return message_.epoch < page().epoch && OCM_MUTATION("answers-have-epochs");
      default: return false;
    }
  }

  /// What an honest sender's message has, beyond the table.
  bool is_well_formed() {
    switch (event_.input) {
      case NodeInput::kDataS:
      case NodeInput::kDataE: return message_.payload == Message::Payload::kPage;
      case NodeInput::kDataM: return message_.payload == Message::Payload::kPage || page().whole;
      case NodeInput::kFetchS:
      case NodeInput::kFetchM: return message_.request != 0 && message_.peer < kHome;
      case NodeInput::kGrantM:
      case NodeInput::kPutAck:
      case NodeInput::kCleanAck:
      case NodeInput::kPutStale:
      case NodeInput::kStillYours:
      case NodeInput::kNoMore: return message_.request == page().request;
      case NodeInput::kNack: return message_.request == page().request && message_.code != Code::kOk;
      case NodeInput::kInv: return true;
      default: return event_.fresh != 0;
    }
  }

  void act(NodeDo what, NodeState before) {
    switch (what) {
      case NodeDo::kFault: break;
      case NodeDo::kHit: out_.outcome = Outcome::kHit; break;
      case NodeDo::kWait: out_.outcome = Outcome::kWait; break;
      case NodeDo::kLost:
        out_.outcome = Outcome::kFails;
        out_.code = Code::kPeerLost;
        break;
      case NodeDo::kAskS: ask(MessageKind::kGetS); break;
      case NodeDo::kAskM: ask(MessageKind::kGetM); break;
      case NodeDo::kPutS:
        if (!OCM_MUTATION("put-while-it-is-mapped")) out_.add(Act::kUnmap);
        tell(MessageKind::kPutS);
        break;
      case NodeDo::kPutD:
        out_.add(Act::kUnmap);
        tell(MessageKind::kPutD);
        break;
      case NodeDo::kClean:
        if (can_store(before) && !OCM_MUTATION("clean-while-it-is-writable")) out_.add(Act::kProtect);
        tell(MessageKind::kClean);
        break;
      case NodeDo::kTake: take(); break;
      case NodeDo::kGranted:
        page().version = message_.version;
        end_request();
        break;
      case NodeDo::kSupply:
        if (can_store(before) && !OCM_MUTATION("supply-while-it-is-writable")) out_.add(Act::kProtect);
        supply(MessageKind::kDataS, message_.peer, page().version);
        break;
      case NodeDo::kGive:
        if (!OCM_MUTATION("give-while-it-is-mapped")) out_.add(Act::kUnmap);
        supply(MessageKind::kDataM, message_.peer, message_.version);
        keep();
        break;
      case NodeDo::kDropAck: drop_and_acknowledge(); break;
      case NodeDo::kSettle:
        if (event_.input == NodeInput::kNoMore && !OCM_MUTATION("keep-what-is-nothing")) forget_kept();
        [[fallthrough]];
      case NodeDo::kKeep: out_.add(Act::kWake); break;
      case NodeDo::kRefused: out_.add(Act::kWake, message_.code); break;
      case NodeDo::kYours:
        if (page().is_kept()) out_.add(Act::kRestore);
        forget_kept();
        page().version = message_.version;
        end_request();
        break;
    }
  }

  void drop_and_acknowledge() {
    if (OCM_MUTATION("acknowledge-before-it-is-unmapped")) {
      reply(MessageKind::kInvAck);
      out_.add(Act::kUnmap);
      return;
    }
    out_.add(Act::kUnmap);
    reply(MessageKind::kInvAck);
  }

  void take() {
    OCM_DASSERT(has_copy(page().state) && page().request != 0);
    page().version = message_.version;
    forget_kept();
    if (message_.payload == Message::Payload::kPage) {
      out_.add(Act::kFill);
      out_.add(Act::kAcknowledge);
    } else if (!OCM_MUTATION("overwrite-later")) {
      out_.add(Act::kOverwrite);
    }
    end_request();
  }

  // ---- in every state

  void probe() {
    take_epoch();
    Message out = answer(MessageKind::kProbeReply);
    out.copy = has_copy(page().state);
    out.exclusive = is_exclusive(page().state);
    out.kept = is_supplying_kept();
    out.waiting = (page().state == NodeState::kIsD || page().state == NodeState::kImAd) &&
                  page().request == message_.request;
    out.version = out.copy ? page().version : page().kept_version;
    if (message_.data && (out.copy || out.kept)) out.payload = Message::Payload::kPage;
    out_.send(out);
    if (out.kept) send_kept_to_home(message_.data);
    free_if_empty(page().state);
  }

  void recall() {
    if (message_.request == 0) return fault();
    take_epoch();
    const NodeState before = page().state;
    Message out = answer(MessageKind::kRecalled);
    const NodeCell cell = node_cell(before, message_.exclusive ? NodeInput::kFetchM : NodeInput::kFetchS);
    if (has_copy(before)) {
      out.version = page().version;
      out.payload = Message::Payload::kPage;
      if (!OCM_MUTATION("recall-drops-nothing")) page().state = cell.next;
      if (cell.what == NodeDo::kGive) {
        out_.add(Act::kUnmap);
        out_.send(out);
        keep();
      } else {
        if (can_store(before)) out_.add(Act::kProtect);
        out_.send(out);
      }
      if (is_stable(page().state)) forget_request();
      return free_if_empty(before);
    }
    const bool kept = is_supplying_kept();
    if (kept) {
      out.version = page().kept_version;
      out.payload = Message::Payload::kPage;
    }
    out_.send(out);
    if (kept) send_kept_to_home(true);
    free_if_empty(page().state);
  }

  void end_term() {
    const NodeState before = page().state;
    out_.add(Act::kUnmap);
    out_.add(Act::kWake, Code::kPeerLost);
    const bool freeze = is_worth_freezing(page()) && !OCM_MUTATION("freeze-nothing");
    forget_request();
    page().state = freeze ? NodeState::kX : NodeState::kI;
    if (!freeze) forget_kept();
    if (before != NodeState::kI || page().state != NodeState::kI) free_if_empty(before);
  }

  void begin_term() {
    if (page().state != NodeState::kX || event_.fresh == 0) return fault();
    page().state = NodeState::kXA;
    page().request = event_.fresh;
    page().epoch = 0;  // of the former term
    Message out = own(MessageKind::kReturn);
    out.copy = true;
    out.kept = page().is_kept();
    out.version = out.kept ? page().kept_version : page().version;
    out_.send(out);
  }

  void grace_over() {
    if (page().state == NodeState::kX) drop_all(Code::kPeerLost);
  }

  void revoke() { drop_all(Code::kRevoked); }

  void taken() {
    if (page().kept_peer != message_.peer || page().kept_request != message_.request || !page().is_kept()) {
      out_.outcome = Outcome::kIgnored;
      return;
    }
    if (page().state == NodeState::kX || page().state == NodeState::kXA) return;  // it is what was frozen
    forget_kept();
    if (page().state == NodeState::kI) out_.add(Act::kFree);
  }

  void drop_all(Code code) {
    out_.add(Act::kUnmap);
    out_.add(Act::kWake, code);
    const bool was_empty = page().state == NodeState::kI && !page().is_kept();
    page() = NodePage();
    if (!was_empty) out_.add(Act::kFree);
  }

  // ---- parts of them

  void fault() {
    out_.outcome = Outcome::kFault;
    if (event_.input >= NodeInput::kDataS) out_.add(Act::kFault);
  }
  /// The home sends one of a page at a time, so this is its newest word; somebody else's may have been false.
  void take_epoch() {
    if (!OCM_MUTATION("probe-without-epoch")) page().epoch = message_.epoch;
  }
  /// It is the home now that says when they are taken, or has no need of them.
  void send_kept_to_home(bool with_bytes) {
    if (with_bytes && message_.request != 0) {
      page().kept_peer = kHome;
      page().kept_request = message_.request;
      return;
    }
    forget_kept();
    if (page().state == NodeState::kI) out_.add(Act::kFree);
  }
  /// Not where they are what was frozen, which is the home's to ask for by kStillYours.
  bool is_supplying_kept() {
    return page().is_kept() && page().state != NodeState::kX && page().state != NodeState::kXA;
  }
  void keep() {
    if (message_.request == 0 || OCM_MUTATION("keep-nothing")) return;
    OCM_DASSERT(!page().is_kept() && !has_copy(page().state));  // P3
    page().kept_version = page().version;
    page().kept_peer = message_.peer;
    page().kept_request = message_.request;
    if (event_.input == NodeInput::kRecall) page().kept_peer = kHome;
  }
  /// P1.
  void forget_request() {
    page().request = 0;
    page().whole = false;
  }
  void forget_kept() {
    page().kept_version = 0;
    page().kept_request = 0;
    page().kept_peer = kNobody;
  }
  void end_request() {
    reply(MessageKind::kDone);
    out_.add(Act::kWake);
  }
  void free_if_empty(NodeState before) {
    if (page().state != NodeState::kI) return;
    page().version = 0;
    if (page().is_kept()) return;
    page().epoch = 0;
    if (before != NodeState::kI) out_.add(Act::kFree);
  }

  /// A message of this node to the home, about its own request.
  Message own(MessageKind kind) {
    Message out;
    out.kind = kind;
    out.to = kHome;
    out.request = page().request;
    out.epoch = page().epoch;
    out.version = page().version;
    out.whole = page().whole;
    return out;
  }
  void ask(MessageKind kind) {
    OCM_DASSERT(page().request == 0 && event_.fresh != 0);  // P1
    page().request = event_.fresh;
    page().whole = kind == MessageKind::kGetM && event_.whole;
    out_.send(own(kind));
  }
  void tell(MessageKind kind) {
    OCM_DASSERT(page().request == 0 && event_.fresh != 0);  // P1
    page().request = event_.fresh;
    Message out = own(kind);
    if (kind != MessageKind::kPutS) out.payload = Message::Payload::kPage;
    out_.send(out);
  }
  /// A message to the home that answers one of its.
  Message answer(MessageKind kind) {
    Message out;
    out.kind = kind;
    out.to = kHome;
    out.request = message_.request;
    out.ticket = message_.ticket;
    out.epoch = message_.epoch;
    return out;
  }
  void reply(MessageKind kind) { out_.send(answer(kind)); }
  void supply(MessageKind kind, NodeNumber to, uint64_t version) {
    OCM_DASSERT(to < kHome);
    Message out = answer(kind);
    out.to = to;
    out.version = version;
    out.payload = Message::Payload::kPage;
    out_.send(out);
  }

  const NodeEvent& event_;
  const Message& message_;
  NodeStep out_;
};

/// P2.
[[maybe_unused]] bool is_sent_in_time(NodeState before, const NodeStep& out) {
  bool loads = can_load(before), stores = can_store(before);
  for (const NodeAction& action : out) {
    if (action.kind == Act::kUnmap) loads = stores = false;
    if (action.kind == Act::kProtect) stores = false;
    const bool sends = action.kind == Act::kSend;
    if (sends && ((loads && !can_load(out.page.state)) || (stores && !can_store(out.page.state))))
      return false;
  }
  return true;
}

}  // namespace

std::string_view state_name(NodeState state) { return traits(state).name; }
bool can_load(NodeState state) { return traits(state).load; }
bool has_copy(NodeState state) { return traits(state).copy; }
bool is_exclusive(NodeState state) { return traits(state).exclusive; }
bool is_dirty(NodeState state) { return traits(state).dirty; }

std::string_view input_name(NodeInput input) {
  static constexpr std::array<std::string_view, static_cast<size_t>(NodeInput::kTaken) + 1> kNames = {
      "Load",   "Store",  "Evict",  "Clean",   "DataS",     "DataE",     "DataM",  "GrantM",
      "FetchS", "FetchM", "Inv",    "PutAck",  "CleanAck",  "PutStale",  "Nack",   "StillYours",
      "NoMore", "Probe",  "Recall", "TermEnd", "TermBegin", "GraceOver", "Revoke", "Taken"};
  static_assert(!kNames.back().empty());
  return kNames[static_cast<size_t>(input)];
}

bool NodePage::is_valid() const {
  const bool waits = !is_stable(state);
  return waits == (request != 0) && (waits || !whole) && is_kept() == (kept_peer != kNobody) &&
         !(is_kept() && has_copy(state));
}

bool to_event(const Message& message, uint32_t probed, NodeEvent& event) {
  event = NodeEvent();
  event.message = message;
  event.probed = probed;
  const bool from_holder = message.kind == MessageKind::kDataS || message.kind == MessageKind::kDataM;
  if (message.from != kHome && (!from_holder || message.from > kHome)) return false;
  switch (message.kind) {
    case MessageKind::kDataE: event.input = NodeInput::kDataE; return true;
    case MessageKind::kDataM: event.input = NodeInput::kDataM; return true;
    case MessageKind::kDataS: event.input = NodeInput::kDataS; return true;
    case MessageKind::kGrantM: event.input = NodeInput::kGrantM; return true;
    case MessageKind::kStillYours: event.input = NodeInput::kStillYours; return true;
    case MessageKind::kNoMore: event.input = NodeInput::kNoMore; return true;
    case MessageKind::kFetchS: event.input = NodeInput::kFetchS; return true;
    case MessageKind::kFetchM: event.input = NodeInput::kFetchM; return true;
    case MessageKind::kInv: event.input = NodeInput::kInv; return true;
    case MessageKind::kProbe: event.input = NodeInput::kProbe; return true;
    case MessageKind::kRecall: event.input = NodeInput::kRecall; return true;
    case MessageKind::kPutAck: event.input = NodeInput::kPutAck; return true;
    case MessageKind::kCleanAck: event.input = NodeInput::kCleanAck; return true;
    case MessageKind::kPutStale: event.input = NodeInput::kPutStale; return true;
    case MessageKind::kNack: event.input = NodeInput::kNack; return true;
    default: return false;
  }
}

NodeStep step(const NodePage& page, const NodeEvent& event) {
  NodeStep out = Step(page, event).run();
  OCM_DASSERT(out.page.is_valid());
  OCM_DASSERT(is_sent_in_time(page.state, out));
  OCM_DASSERT((out.outcome != Outcome::kIgnored && out.outcome != Outcome::kFault) ||
              out.page == page);  // P5
  return out;
}

}  // namespace ocm::cache
