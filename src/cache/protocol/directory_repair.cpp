// What a page directory does when a node's term ends, when one comes back, and when bytes do not come.
#include <algorithm>

#include "base/mutation.h"
#include "cache/protocol/directory_work.h"

namespace ocm::cache {

using Probing = Transaction::Probing;
using Storing = Transaction::Storing;

// ---- a term ends

void DirectoryWork::term_ended(NodeNumber node, Presence presence) {
  page().queue.erase_if([&](const Asked& asked) { return asked.node == node; });
  if (is_known_gone(node, presence)) return;
  switch (page().busy) {
    case Busy::kIdle: page().gone.push_back({node, presence}); return;
    case Busy::kRead:
      if (node == requester()) transaction().asked.node = kNobody;
      return note(node, presence);
    case Busy::kWrite:
      if (transaction().storing == Storing::kRescued) {
        if (node == requester()) transaction().asked.node = kNobody;
        return remove_from_ring(node);
      }
      if (node == requester()) transaction().requester_is = presence;
      return note(node, presence);
    case Busy::kInvalidate: return gone_while_invalidating(node, presence);
    case Busy::kFetch: return gone_while_fetching(node, presence);
    case Busy::kGrant: return gone_while_granting(node, presence);
    case Busy::kProbe: return gone_while_probing(node, presence);
    case Busy::kRecall: return gone_while_recalling(node, presence);
  }
}

/// It was said before that `node` is gone; if it may not come back after all, that is learned.
bool DirectoryWork::is_known_gone(NodeNumber node, Presence presence) {
  bool known = false;
  const auto learn = [&](Presence& is) {
    if (is == Presence::kHere) return;
    known = true;
    if (presence == Presence::kDead) is = Presence::kDead;
  };
  for (Gone& gone : page().gone) {
    if (gone.node == node) learn(gone.presence);
  }
  if (page().busy != Busy::kIdle && node == requester()) learn(transaction().requester_is);
  if (page().busy != Busy::kIdle && node == transaction().supplier) learn(transaction().supplier_is);
  return known;
}

/// `node` is here, and what it had of the page when it was away it has no more: as if it were dead.
void DirectoryWork::remember_dead(NodeNumber node) {
  if (is_known_gone(node, Presence::kDead)) return;
  if (page().state == PageState::kA) page().gone.push_back({node, Presence::kDead});
}

void DirectoryWork::gone_while_invalidating(NodeNumber node, Presence presence) {
  if (node == requester()) {
    transaction().requester_is = presence;
    return note(node, presence);
  }
  const bool counted = transaction().unacked.erase_if([&](NodeNumber other) { return other == node; });
  if (counted) reached(Rule::kAckOfGone);
  if (node == transaction().supplier) {
    transaction().supplier_is = presence;
    note(node, presence);
  } else {
    remove_from_ring(node);
  }
  if (counted && transaction().unacked.empty()) acks_are_in();
}

void DirectoryWork::gone_while_fetching(NodeNumber node, Presence presence) {
  if (node == requester()) {
    transaction().requester_is = presence;
    probe(transaction().supplier, Probing::kSupplier, is_exclusive() && !is_storage_current());
  } else if (node == transaction().supplier) {
    transaction().supplier_is = presence;
    note(node, presence);
    probe(requester(), Probing::kRequester, false);
  } else {
    note(node, presence);
  }
}

void DirectoryWork::gone_while_granting(NodeNumber node, Presence presence) {
  if (node != requester()) return note(node, presence);
  switch (transaction().sent) {
    case MessageKind::kDataE:
    case MessageKind::kDataS:
      reached(Rule::kBytesLostOnTheWay);
      return transaction().shares ? end_shared(kNobody) : end();
    case MessageKind::kStillYours:
      reached(Rule::kYoursInterrupted);
      note(node, presence);
      return end();
    default: {
      reached(Rule::kGrantMayBeUsed);
      if (OCM_MUTATION("a-lost-grant-was-not-used")) {
        remove_from_ring(node);
        page().state = page().ring.empty() ? PageState::kU : PageState::kS;
        return end();
      }
      const Gone gone{node, presence};
      become_away(&gone, 1);
      return end();
    }
  }
}

void DirectoryWork::gone_while_probing(NodeNumber node, Presence presence) {
  switch (transaction().probing) {
    case Probing::kRescue:
      remove_from_ring(node);
      if (node == requester()) transaction().asked.node = kNobody;
      if (node == transaction().probed) reached(Rule::kRescueNext), rescue_next();
      return;
    case Probing::kSupplier:
      if (node != transaction().probed) return note(node, presence);
      transaction().supplier_is = presence;
      note(node, presence);
      return both_gone();
    case Probing::kRequester:
      if (node == requester()) {
        transaction().requester_is = presence;
        if (transaction().supplier_is != Presence::kHere) return both_gone();
        return probe(transaction().supplier, Probing::kSupplier, is_exclusive() && !is_storage_current());
      }
      if (node == transaction().supplier) transaction().supplier_is = presence;
      return note(node, presence);
    case Probing::kNone: return;
  }
}

void DirectoryWork::gone_while_recalling(NodeNumber node, Presence presence) {
  if (node == requester()) {
    transaction().requester_is = presence;
    return;
  }
  note(node, presence);
  if (node != transaction().supplier) return;
  reached(Rule::kRecallSupplierGone);
  transaction().requester_is == Presence::kHere ? ask_again() : end();
}

void DirectoryWork::note(NodeNumber node, Presence presence) {
  if (page().holds(node)) page().gone.push_back({node, presence});
}

void DirectoryWork::leave(const Gone& gone) {
  if (!page().holds(gone.node)) return;
  switch (page().state) {
    case PageState::kA:
      if (gone.node == page().returned.node)
        page().returned = Asked();  // its term ended: it returns it again
      if (gone.presence != Presence::kDead) return;
      reached(Rule::kCandidateGone);
      return drop_candidate(gone.node, true);
    case PageState::kS:
      reached(Rule::kSharerGone);
      remove_from_ring(gone.node);
      if (page().ring.empty()) page().state = PageState::kU;
      return;
    case PageState::kE:
      reached(Rule::kOwnerGoneClean);
      remove_from_ring(gone.node);
      page().state = PageState::kU;
      return;
    case PageState::kO: {
      const bool was_owner = page().owner == gone.node;
      reached(was_owner ? Rule::kOwnerGoneDirty : Rule::kSharerGone);
      remove_from_ring(gone.node);
      if (page().ring.empty()) return become_away(&gone, 1);
      if (!was_owner) return;
      if (OCM_MUTATION("sharers-are-current-without-rescue")) {
        page().state = PageState::kS;
        page().storage_version = page().version;
        return;
      }
      transaction() = Transaction();
      return rescue(gone);
    }
    case PageState::kM:
      reached(Rule::kOwnerGoneDirty);
      if (OCM_MUTATION("a-dead-owner-had-written-nothing")) {
        remove_from_ring(gone.node);
        page().state = PageState::kU;
        page().storage_version = page().version;
        return;
      }
      return become_away(&gone, 1);
    default: return;
  }
}

/// `candidates`: who may have the newest bytes.
void DirectoryWork::become_away(const Gone* candidates, size_t count) {
  OCM_DASSERT(count == 1 || candidates[0].node != candidates[1].node);
  held_by_nobody();
  page().doubt = false;
  for (size_t i = 0; i < count; ++i) {
    OCM_DASSERT(candidates[i].presence != Presence::kHere);
    if (candidates[i].presence == Presence::kAway) {
      page().ring.push_back(candidates[i].node);
    } else {
      page().doubt = true;
    }
  }
  page().state = PageState::kA;
  if (page().ring.empty()) lose();
}

/// Whatever anybody has of it, also by a grant that was under way, is of an older version from now on.
void DirectoryWork::lose() {
  if (!OCM_MUTATION("lost-without-version")) page().version += 2;
  refuse_returned();
  held_by_nobody();
  page().doubt = false;
  page().storage_version = 0;
  page().state = PageState::kL;
}

void DirectoryWork::drop_candidate(NodeNumber node, bool in_doubt) {
  OCM_DASSERT(page().state == PageState::kA && page().holds(node));
  remove_from_ring(node);
  page().doubt = page().doubt || in_doubt;
  if (page().returned.node == node) page().returned = Asked();
  if (!page().ring.empty()) {
    reached(Rule::kReturnedEmptyOthers);
    const Asked returned = page().returned;
    page().returned = Asked();
    if (returned.node != kNobody) begin_return(returned);
    return;
  }
  // None of them has newer bytes than the storage, or they would have said so.
  const bool current = is_storage_current() && !page().doubt;
  reached(current ? Rule::kReturnedEmptyCurrent : Rule::kReturnedEmptyLost);
  if (!current) return lose();
  page().doubt = false;
  page().state = PageState::kU;
}

// ---- a dirty owner is gone: its bytes are with the sharers

void DirectoryWork::rescue(const Gone& owner) {
  OCM_DASSERT(page().state == PageState::kO && page().owner == kNobody && !page().ring.empty());
  reached(Rule::kRescue);
  transaction().supplier = owner.node;
  transaction().supplier_is = owner.presence;
  ++page().epoch;
  rescue_next();
}

void DirectoryWork::rescue_next() {
  if (!page().ring.empty()) {
    transaction().probing = Probing::kRescue;
    transaction().probed = page().ring.front();
    page().busy = Busy::kProbe;
    Message probe = about(MessageKind::kProbe, transaction().probed);
    probe.data = true;
    return send(probe);
  }
  reached(Rule::kRescueNobody);
  const Gone owner{transaction().supplier, transaction().supplier_is};
  become_away(&owner, 1);
  end();
}

void DirectoryWork::rescue_answered() {
  OCM_DASSERT(page().holds(transaction().probed));
  if (message_.copy && message_.payload == Message::Payload::kPage && message_.version == page().version) {
    page().busy = Busy::kWrite;
    transaction().storing = Storing::kRescued;
    return add(Act::kWrite);
  }
  reached(Rule::kRescueNext);
  remove_from_ring(transaction().probed);
  rescue_next();
}

/// What nobody waits for was written.
void DirectoryWork::stored(bool good) {
  const Asked asked = transaction().asked;
  const Storing which = transaction().storing;
  if (good) page().storage_version = page().version;
  if (which == Storing::kKept) return supplier_gave();
  if (which == Storing::kRecalled) {
    reached(Rule::kRecalledStored);
    held_by_nobody();
    page().state = PageState::kU;
    if (!good) lose();
    return end();
  }
  reached(good ? Rule::kRescued : Rule::kRescueNotStored);
  if (good) page().state = page().ring.empty() ? PageState::kU : PageState::kS;
  end();
  if (!good && page().ring.empty()) return lose();
  if (asked.node == kNobody) return;
  if (good) return page().queue.push_front(asked);
  reached(Rule::kLastPutLost);
  remove_from_ring(asked.node);
  answer(asked, MessageKind::kPutAck);
  if (page().ring.empty()) lose();
}

// ---- an open Fetch is cleared up

void DirectoryWork::probe(NodeNumber node, Probing which, bool data) {
  OCM_DASSERT(node == (which == Probing::kSupplier ? transaction().supplier : requester()));
  if (!OCM_MUTATION("repair-without-epoch")) ++page().epoch;
  page().busy = Busy::kProbe;
  transaction().probing = which;
  transaction().probed = node;
  Message out = about(MessageKind::kProbe, node);
  out.data = data;
  send(out);
}

void DirectoryWork::overdue() {
  switch (page().busy) {
    case Busy::kIdle:
    case Busy::kRead:
    case Busy::kWrite: return;
    case Busy::kFetch: transaction().overdue = true; return probe(requester(), Probing::kRequester, false);
    case Busy::kInvalidate:
      for (const NodeNumber node : transaction().unacked) blame(node);
      return;
    case Busy::kGrant: return blame(requester());
    case Busy::kProbe: return blame(transaction().probed);
    case Busy::kRecall: return blame(transaction().supplier);
  }
}

void DirectoryWork::receive_probe_reply() {
  if (page().busy != Busy::kProbe || message_.from != transaction().probed || message_.epoch != page().epoch)
    return fault();
  switch (transaction().probing) {
    case Probing::kRescue: return rescue_answered();
    case Probing::kSupplier: return supplier_answered(message_.copy, message_.exclusive, message_.kept);
    case Probing::kRequester: return requester_answered(message_.copy, message_.waiting);
    case Probing::kNone: return fault();
  }
}

/// R is gone; T has answered.
void DirectoryWork::supplier_answered(bool copy, bool exclusive, bool kept) {
  OCM_DASSERT(transaction().requester_is != Presence::kHere);
  const bool was_alone = page().state == PageState::kE || page().state == PageState::kM;
  if (copy && (is_exclusive() || !was_alone || exclusive || OCM_MUTATION("supplier-is-always-alone"))) {
    reached(Rule::kSupplierAlone);
    return end();
  }
  if (copy) {
    reached(Rule::kSupplierShares);
    return end_shared(kNobody);
  }
  if (!is_exclusive()) {
    note(transaction().supplier, Presence::kDead);  // no correct node: a sharer that has nothing
    return end();
  }
  if (!kept || message_.payload != Message::Payload::kPage || is_storage_current()) return supplier_gave();
  reached(Rule::kSupplierKept);
  page().busy = Busy::kWrite;
  transaction().storing = Storing::kKept;
  add(Act::kWrite);
}

/// T gave its copy to R, which is gone and may have written.
void DirectoryWork::supplier_gave() {
  reached(Rule::kSupplierGave);
  const Gone gone{requester(), transaction().requester_is};
  if (OCM_MUTATION("what-the-supplier-kept-is-newest") && is_storage_current()) {
    held_by_nobody();
    page().state = PageState::kU;
    return end();
  }
  become_away(&gone, 1);
  end();
}

/// T is gone, or the bytes do not come; R has answered.
void DirectoryWork::requester_answered(bool copy, bool waiting) {
  const bool overdue = transaction().supplier_is == Presence::kHere;
  if (copy || OCM_MUTATION("who-waits-has-it")) {
    reached(overdue ? Rule::kOverdueHas : Rule::kRequesterHas);
    return is_exclusive() ? end_exclusive() : end_shared(requester());
  }
  if (!waiting) {  // no correct node: who asked has neither the bytes nor the wish for them
    transaction().requester_is = Presence::kDead;
    if (!overdue) return both_gone();
    return probe(transaction().supplier, Probing::kSupplier, is_exclusive() && !is_storage_current());
  }
  if (overdue && OCM_MUTATION("ask-again-without-recall")) return ask_again();
  if (overdue) return recall();
  reached(Rule::kRequesterWaits);
  ask_again();
}

void DirectoryWork::both_gone() {
  OCM_DASSERT(transaction().requester_is != Presence::kHere);
  OCM_DASSERT(transaction().supplier_is != Presence::kHere);
  reached(Rule::kBothGone);
  const Gone both[] = {{requester(), transaction().requester_is},
                       {transaction().supplier, transaction().supplier_is}};
  if (is_exclusive()) become_away(both, is_storage_current() ? 1 : 2);
  end();
}

/// Once who is gone has left, as if it had just come.
void DirectoryWork::ask_again() {
  const Asked asked = transaction().asked;
  end();
  page().queue.push_front(asked);
}

void DirectoryWork::recall() {
  OCM_DASSERT(transaction().requester_is == Presence::kHere);
  OCM_DASSERT(transaction().supplier_is == Presence::kHere);
  reached(Rule::kOverdueWaits);
  page().busy = Busy::kRecall;
  Message out = about(MessageKind::kRecall, transaction().supplier);
  out.exclusive = is_exclusive();
  send(out);
}

void DirectoryWork::receive_recalled() {
  if (page().busy != Busy::kRecall || message_.from != transaction().supplier ||
      message_.epoch != page().epoch)
    return fault();
  const bool here = transaction().requester_is == Presence::kHere;
  if (message_.payload != Message::Payload::kPage) {  // no correct node: neither of them has it
    note(transaction().supplier, Presence::kDead);
    return here ? ask_again() : end();
  }
  if (here) {
    reached(Rule::kRecalled);
    transaction().shares = !is_exclusive();
    return grant(is_exclusive() ? MessageKind::kDataM : MessageKind::kDataS, true);
  }
  reached(Rule::kRecalledNobodyWaits);
  if (!is_exclusive()) return end_shared(kNobody);
  if (is_storage_current()) {
    held_by_nobody();
    page().state = PageState::kU;
    return end();
  }
  page().busy = Busy::kWrite;
  transaction().storing = Storing::kRecalled;
  add(Act::kWrite);
}

// ---- one comes back

void DirectoryWork::begin_return(const Asked& asked) {
  if (page().state != PageState::kA || !page().holds(asked.node)) {
    if (!asked.copy) return;
    reached(Rule::kReturnedLate);
    return answer(asked, MessageKind::kNoMore);
  }
  if (!asked.copy) return drop_candidate(asked.node, false);
  const bool is_newest = asked.version == page().version || asked.version == page().version + 1 ||
                         OCM_MUTATION("whatever-returns-is-newest");
  if (is_newest && asked.kept && page().ring.size() > 1 && !page().doubt &&
      !OCM_MUTATION("what-was-sent-is-newest") && !OCM_MUTATION("who-returns-first-is-believed")) {
    reached(Rule::kReturnedWaits);
    page().returned = asked;
    return;
  }
  // Who returns something older has nothing newer.
  const bool in_doubt = (is_newest || OCM_MUTATION("an-older-return-leaves-doubt")) && asked.kept &&
                        (page().ring.size() > 1 || page().doubt) && !OCM_MUTATION("what-was-sent-is-newest");
  if (!is_newest || in_doubt || asked.version == page().storage_version) {
    if (in_doubt) reached(Rule::kReturnedInDoubt);
    answer(asked, MessageKind::kNoMore);
    return drop_candidate(asked.node, in_doubt);
  }
  reached(asked.kept ? Rule::kReturnedKept : Rule::kReturned);
  refuse_returned();
  open(asked);
  grant(MessageKind::kStillYours, false);
  out_.actions[out_.actions.size() - 1].message.version = asked.version;
}

void DirectoryWork::refuse_returned() {
  if (page().returned.node != kNobody) answer(page().returned, MessageKind::kNoMore);
  page().returned = Asked();
}

void DirectoryWork::grace_over() {
  if (page().state != PageState::kA || page().busy != Busy::kIdle) return;
  reached(Rule::kGraceOver);
  lose();
}

}  // namespace ocm::cache
