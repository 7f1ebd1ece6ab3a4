#include "cache/protocol/directory_page.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/mutation.h"
#include "cache/protocol/directory_table.h"
#include "cache/protocol/directory_work.h"

namespace ocm::cache {

DirectoryStep DirectoryWork::run() {
  switch (event_.kind) {
    case DirectoryEvent::Kind::kMessage: receive(); break;
    case DirectoryEvent::Kind::kRead: read_ended(); break;
    case DirectoryEvent::Kind::kWritten: write_ended(); break;
    case DirectoryEvent::Kind::kTermEnded:
      term_ended(event_.node, event_.good ? Presence::kAway : Presence::kDead);
      break;
    case DirectoryEvent::Kind::kGraceOver: grace_over(); break;
    case DirectoryEvent::Kind::kOverdue: overdue(); break;
  }
  if (!out_.fault) run_queue();
  OCM_DASSERT(page().is_valid());  // I5
  return std::move(out_);
}

void DirectoryWork::receive() {
  if (message_.from >= kHome) return fault();
  switch (message_.kind) {
    case MessageKind::kGetS:
    case MessageKind::kGetM:
    case MessageKind::kPutS:
    case MessageKind::kPutD:
    case MessageKind::kClean:
    case MessageKind::kReturn: return receive_request();
    case MessageKind::kInvAck: return receive_ack();
    case MessageKind::kDone: return receive_done();
    case MessageKind::kProbeReply: return receive_probe_reply();
    case MessageKind::kRecalled: return receive_recalled();
    default: return fault();
  }
}

void DirectoryWork::receive_request() {
  Asked asked;
  asked.node = message_.from;
  asked.kind = message_.kind;
  asked.whole = message_.whole;
  asked.copy = message_.copy;
  asked.kept = message_.kept;
  asked.request = message_.request;
  asked.version = message_.version;
  const bool is_return = asked.kind == MessageKind::kReturn;
  const bool has_bytes = message_.payload == Message::Payload::kPage;
  const bool needs_bytes = asked.kind == MessageKind::kPutD || asked.kind == MessageKind::kClean;
  if (has_bytes != needs_bytes || (asked.request == 0 && (!is_return || asked.copy))) return fault();
  const auto same = [&](const Asked& other) {
    return other.node == asked.node && (other.kind == MessageKind::kReturn) == is_return;
  };
  if (std::any_of(page().queue.begin(), page().queue.end(), same)) return fault();
  // Where the answer may be there already, the node may go on before the home knows.
  const bool unanswered = page().busy == Busy::kRead || page().busy == Busy::kWrite ||
                          page().busy == Busy::kInvalidate || page().busy == Busy::kRecall;
  if (unanswered && same(transaction().asked) && transaction().requester_is == Presence::kHere)
    return fault();
  if (is_return && !asked.copy && message_.forgot && !OCM_MUTATION("who-forgot-had-written-nothing"))
    return remember_dead(asked.node);
  if (asked.kind == MessageKind::kGetM && event_.refuse != Code::kOk) {
    reached(Rule::kRefused);
    return answer(asked, MessageKind::kNack, event_.refuse);
  }
  page().queue.push_back(asked);
}

void DirectoryWork::receive_ack() {
  if (page().busy != Busy::kInvalidate) return fault();
  const auto is_sender = [&](NodeNumber node) { return node == message_.from; };
  if (!transaction().unacked.erase_if(is_sender)) return fault();
  remove_from_ring(message_.from);
  if (transaction().unacked.empty() || OCM_MUTATION("go-on-before-all-acks")) acks_are_in();
}

void DirectoryWork::receive_done() {
  if (message_.epoch < page().epoch && !OCM_MUTATION("count-an-older-done")) {
    reached(Rule::kOlderDone);
    return;
  }
  const bool waits = page().busy == Busy::kFetch || page().busy == Busy::kGrant;
  if (!waits || message_.from != requester() || message_.request != transaction().asked.request)
    return fault();
  // Else the supplier has not obeyed yet, or R was given bytes or an epoch by somebody who was not asked: it may be R that
  // is deceived.
  if (message_.ticket != transaction().ticket || message_.epoch != page().epoch) return;
  page().busy == Busy::kFetch ? (is_exclusive() ? end_exclusive() : end_shared(requester())) : end_grant();
}

// ---- the requests

/// What is to be done when the page is idle: who is gone leaves, and then the next request begins.
void DirectoryWork::run_queue() {
  while (page().busy == Busy::kIdle) {
    if (!page().gone.empty()) {
      Gone gone = page().gone.front();
      for (const Gone& other : page().gone) {  // an owner last: those with the same bytes are asked for them
        if (gone.node == page().owner && !OCM_MUTATION("owner-leaves-first")) gone = other;
      }
      page().gone.erase_if([&](const Gone& other) { return other.node == gone.node; });
      leave(gone);
    } else if (!page().queue.empty()) {
      const Asked asked = page().queue.front();
      page().queue.pop_front();
      begin(asked);
    } else {
      return;
    }
  }
}

void DirectoryWork::begin(const Asked& asked) {
  static_assert(kPageStates * kDirectoryColumns <= 64, "a step has a bit for each cell");
  OCM_DASSERT(page().busy == Busy::kIdle && asked.node < kHome);
  if (asked.kind == MessageKind::kReturn) return begin_return(asked);
  Column column = Column::kGetS;
  switch (asked.kind) {
    case MessageKind::kGetM: column = page().holds(asked.node) ? Column::kGetMHeld : Column::kGetMNot; break;
    case MessageKind::kPutS: column = Column::kPutS; break;
    case MessageKind::kPutD: column = Column::kPutD; break;
    case MessageKind::kClean: column = Column::kClean; break;
    default: break;
  }
  out_.cells |=
      uint64_t{1} << (static_cast<size_t>(page().state) * kDirectoryColumns + static_cast<size_t>(column));
  open(asked);
  Plan plan = directory_plan(page().state, column);
  if (plan == Plan::kFetchS && page().holds(asked.node)) plan = Plan::kFault;
  switch (plan) {
    case Plan::kFault: blame(asked.node); break;
    case Plan::kRead: return read_or_give();
    case Plan::kFetchS: return fetch_shared();
    case Plan::kGrant:
    case Plan::kFetchM: return invalidate();
    case Plan::kRemove: return remove_put();
    case Plan::kWrite: return begin_write();
    case Plan::kStale: answer(asked, MessageKind::kPutStale); break;
    case Plan::kWhole:
      if (asked.whole) return read_or_give();
      [[fallthrough]];
    case Plan::kNack:
      answer(asked, MessageKind::kNack, page().state == PageState::kA ? Code::kPeerLost : Code::kLost);
      break;
  }
  transaction() = Transaction();
}

void DirectoryWork::read_or_give() {
  if (is_exclusive() && transaction().asked.whole) return grant(MessageKind::kDataM, false);
  page().busy = Busy::kRead;
  add(Act::kRead);
}

void DirectoryWork::read_ended() {
  if (page().busy != Busy::kRead) return fault();
  const Asked asked = transaction().asked;
  if (asked.node == kNobody) reached(Rule::kForgetRequest);
  if (!event_.good &&
      !OCM_MUTATION("ask-a-sharer-that-is-gone")) {  // U or S: nobody who is gone is asked for the bytes
    for (const Gone& gone : page().gone) leave(gone);
    page().gone.clear();
  }
  if (!event_.good && event_.bad_slot) return slot_is_bad();
  if (asked.node == kNobody) return end();
  if (event_.good) {
    if (is_exclusive()) return grant(MessageKind::kDataM, true);
    const bool alone = page().ring.empty() && !policy_.storage_supplies;
    return grant(alone ? MessageKind::kDataE : MessageKind::kDataS, true);
  }
  if (!page().ring.empty()) {  // a holder has the same bytes
    reached(Rule::kReadNowFetch);
    transaction().supplier = page().ring.front();
    return begin_fetch(false);
  }
  reached(Rule::kReadFailed);
  answer(asked, MessageKind::kNack, Code::kIo);
  end();
}

/// The storage has the bytes no more. Where somebody holds the page they are stored anew, and then it is asked again.
void DirectoryWork::slot_is_bad() {
  const Asked asked = transaction().asked;
  end();
  if (page().ring.empty()) {
    reached(Rule::kReadBad);
    lose();
    if (asked.node != kNobody) answer(asked, MessageKind::kNack, Code::kLost);
    return;
  }
  page().storage_version = 0;
  page().state = PageState::kO;
  if (asked.node != kNobody) page().queue.push_front(asked);
  reached(Rule::kReadBadRescue);
  rescue({kNobody, Presence::kDead});
}

void DirectoryWork::fetch_shared() {
  OCM_DASSERT(!page().ring.empty() && !page().holds(requester()));
  const bool by_home = policy_.storage_supplies && page().state == PageState::kS;
  if (by_home && !page().holds(policy_.supplier)) return read_or_give();
  transaction().supplier = by_home ? policy_.supplier : page().ring.front();
  begin_fetch(false);
}

/// All holders but who asks or supplies drop their copies. Of those with the newest bytes the owner supplies, for it would
/// freeze them if its term ended.
void DirectoryWork::invalidate() {
  OCM_DASSERT(is_exclusive() && !page().ring.empty());
  if (!page().holds(requester())) {
    const bool owned = page().owner != kNobody && !OCM_MUTATION("top-supplies-not-the-owner");
    transaction().supplier = owned ? page().owner : page().ring.front();
  }
  page().busy = Busy::kInvalidate;
  for (const NodeNumber node : page().ring) {
    if (node == requester() || node == transaction().supplier) continue;
    transaction().unacked.push_back(node);
    send(about(MessageKind::kInv, node));
  }
  if (transaction().unacked.empty()) acks_are_in();
}

void DirectoryWork::acks_are_in() {
  OCM_DASSERT(page().busy == Busy::kInvalidate && transaction().unacked.empty());
  if (transaction().requester_is != Presence::kHere) {
    reached(Rule::kGrantCancelled);
    return end();
  }
  if (transaction().supplier_is != Presence::kHere) {
    reached(Rule::kAskAgainNoSupplier);
    return ask_again();
  }
  if (transaction().supplier == kNobody) return grant(MessageKind::kGrantM, false);
  begin_fetch(true);
}

void DirectoryWork::begin_fetch(bool exclusive) {
  OCM_DASSERT(page().holds(transaction().supplier) && transaction().supplier != requester());
  page().busy = Busy::kFetch;
  Message fetch = about(exclusive ? MessageKind::kFetchM : MessageKind::kFetchS, transaction().supplier);
  fetch.peer = requester();
  if (exclusive) fetch.version = page().version + 1;
  send(fetch);
}

void DirectoryWork::grant(MessageKind kind, bool with_bytes) {
  OCM_DASSERT(requester() < kHome && transaction().requester_is == Presence::kHere);
  page().busy = Busy::kGrant;
  transaction().sent = kind;
  Message out = about(kind, requester());
  if (kind == MessageKind::kDataM || kind == MessageKind::kGrantM) ++out.version;
  if (with_bytes) out.payload = Message::Payload::kPage;
  send(out);
}

void DirectoryWork::remove_put() {
  const Asked asked = transaction().asked;
  const bool is_owner = page().state != PageState::kE && asked.node == page().owner;
  if (!page().holds(asked.node) || is_owner) {
    answer(asked, MessageKind::kPutStale);
    return end();
  }
  if (page().state == PageState::kO && page().ring.size() == 1 && !OCM_MUTATION("last-copy-may-go")) {
    reached(Rule::kRescueLastPut);  // its owner died, and the bytes could not be stored: once more
    return rescue({kNobody, Presence::kDead});
  }
  if (!OCM_MUTATION("put-stays-in-the-ring")) remove_from_ring(asked.node);
  if (page().ring.empty()) page().state = PageState::kU;
  answer(asked, MessageKind::kPutAck);
  end();
}

void DirectoryWork::begin_write() {
  if (requester() != page().owner) {
    answer(transaction().asked, MessageKind::kPutStale);
    return end();
  }
  page().busy = Busy::kWrite;
  add(Act::kWrite);
}

// ---- their ends

void DirectoryWork::write_ended() {
  if (page().busy != Busy::kWrite) return fault();
  const Asked asked = transaction().asked;
  if (transaction().storing != Transaction::Storing::kPut) return stored(event_.good);
  OCM_DASSERT(page().owner == asked.node);
  const bool clean = asked.kind == MessageKind::kClean;
  const bool here = transaction().requester_is == Presence::kHere;
  if (!here) reached(Rule::kWriterGone);
  if (event_.good || OCM_MUTATION("acknowledge-a-failed-write")) {
    page().storage_version = page().version;
    page().owner = kNobody;
    if (!clean || !here) remove_from_ring(asked.node);
    const bool alone = page().state == PageState::kM;
    page().state = page().ring.empty() ? PageState::kU : PageState::kS;
    if (clean && here && alone) page().state = PageState::kE, page().owner = asked.node;
    if (here) answer(asked, clean ? MessageKind::kCleanAck : MessageKind::kPutAck);
  } else {
    reached(Rule::kWriteFailed);
    if (here) answer(asked, MessageKind::kNack, Code::kIo);
  }
  end();
}

/// T, where there is one, goes to the bottom of the ring; the new sharer is the next to be asked.
void DirectoryWork::end_shared(NodeNumber new_sharer) {
  const NodeNumber supplier = transaction().supplier;
  if (page().holds(supplier)) {
    page().ring.erase_if([&](NodeNumber node) { return node == supplier; });
    page().ring.push_back(supplier);
  }
  OCM_DASSERT(new_sharer == kNobody || !page().holds(new_sharer));
  if (new_sharer != kNobody && !OCM_MUTATION("sharer-not-in-the-ring")) page().ring.push_front(new_sharer);
  if (page().state == PageState::kE || page().state == PageState::kU) {
    page().state = page().ring.empty() ? PageState::kU : PageState::kS;
    page().owner = kNobody;
  }
  if (page().state == PageState::kM && !OCM_MUTATION("stays-m-when-shared")) page().state = PageState::kO;
  end();
}

void DirectoryWork::end_exclusive() {
  owned_by_requester();
  page().state = PageState::kM;
  if (!OCM_MUTATION("grant-without-version")) ++page().version;
  end();
}

void DirectoryWork::end_grant() {
  switch (transaction().sent) {
    case MessageKind::kDataE:
      owned_by_requester();
      page().state = PageState::kE;
      return end();
    case MessageKind::kDataS: return end_shared(requester());
    case MessageKind::kStillYours:
      owned_by_requester();
      page().version = transaction().asked.version;
      page().state = PageState::kO;
      page().doubt = false;
      return end();
    default: return end_exclusive();
  }
}

// ---- parts

void DirectoryWork::open(const Asked& asked) {
  transaction() = Transaction();
  transaction().asked = asked;
  transaction().ticket = event_.ticket;
}

void DirectoryWork::remove_from_ring(NodeNumber node) {
  page().ring.erase_if([&](NodeNumber other) { return other == node; });
  if (page().owner == node) page().owner = kNobody;
}

void DirectoryWork::held_by_nobody() {
  page().ring.clear();
  page().owner = kNobody;
}

void DirectoryWork::owned_by_requester() {
  OCM_DASSERT(requester() < kHome);
  page().ring.clear();
  page().ring.push_back(requester());
  page().owner = requester();
}

void DirectoryWork::fault() {
  out_.fault = true;
  if (event_.kind == DirectoryEvent::Kind::kMessage) add(Act::kFault, message_);
}

void DirectoryWork::blame(NodeNumber node) {
  Message culprit;
  culprit.from = node;
  add(Act::kFault, culprit);
}

Message DirectoryWork::about(MessageKind kind, NodeNumber to) {
  Message out;
  out.kind = kind;
  out.from = kHome;
  out.to = to;
  out.request = transaction().asked.request;
  out.ticket = transaction().ticket;
  out.epoch = page().epoch;
  out.version = page().version;
  return out;
}

void DirectoryWork::answer(const Asked& asked, MessageKind kind, Code code) {
  OCM_DASSERT(asked.node < kHome);
  Message out;
  out.kind = kind;
  out.from = kHome;
  out.to = asked.node;
  out.request = asked.request;
  out.code = code;
  send(out);
}

bool DirectoryPage::holds(NodeNumber node) const {
  return std::find(ring.begin(), ring.end(), node) != ring.end();
}

bool DirectoryPage::is_valid() const {
  if (busy == Busy::kIdle && (!queue.empty() || !gone.empty())) return false;
  if (returned.node != kNobody && (state != PageState::kA || !holds(returned.node))) return false;
  if (owner != kNobody && !holds(owner)) return false;
  if (busy != Busy::kIdle) return true;
  switch (state) {
    case PageState::kU: return ring.empty() && owner == kNobody && storage_version == version;
    case PageState::kS: return !ring.empty() && owner == kNobody && storage_version == version;
    case PageState::kE: return ring.size() == 1 && owner == ring.front() && storage_version == version;
    case PageState::kO: return !ring.empty() && storage_version < version;
    case PageState::kM: return ring.size() == 1 && owner == ring.front() && storage_version < version;
    case PageState::kL: return ring.empty() && owner == kNobody;
    case PageState::kA: return !ring.empty() && owner == kNobody;
  }
  return false;
}

std::string_view state_name(PageState state) {
  static constexpr std::array<std::string_view, kPageStates> kNames = {"U", "S", "E", "O", "M", "L", "A"};
  static_assert(!kNames.back().empty());
  return kNames[static_cast<size_t>(state)];
}
std::string_view busy_name(Busy busy) {
  static constexpr std::array<std::string_view, 8> kNames = {"idle", "B_R", "B_W", "B_I",
                                                             "B_F",  "B_G", "B_P", "B_C"};
  static_assert(kNames.size() == static_cast<size_t>(Busy::kRecall) + 1);
  return kNames[static_cast<size_t>(busy)];
}
std::string_view rule_name(Rule rule) {
#define X(name) #name,
  static constexpr std::array<std::string_view, kRules> kNames = {OCM_CACHE_RULES(X)};
#undef X
  return kNames[static_cast<size_t>(rule)];
}

DirectoryStep step(DirectoryPage page, const DirectoryEvent& event, const DirectoryPolicy& policy) {
  return DirectoryWork(std::move(page), event, policy).run();
}

}  // namespace ocm::cache
