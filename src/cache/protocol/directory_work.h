// One step of a page directory's entry while it is made. directory_page.cpp: requests and how they end;
// directory_repair.cpp: what is done when somebody is gone, or bytes do not come.
#pragma once

#include "cache/protocol/directory_page.h"

namespace ocm::cache {

class DirectoryWork {
 public:
  DirectoryWork(DirectoryPage page, const DirectoryEvent& event, const DirectoryPolicy& policy)
      : event_(event), message_(event.message), policy_(policy) {
    out_.page = static_cast<DirectoryPage&&>(page);
  }
  DirectoryStep run();

 private:
  using Act = DirectoryAction::Kind;

  // ---- directory_page.cpp: what arrives
  void receive();
  void receive_request();
  void receive_ack();
  void receive_done();
  void read_ended();
  void slot_is_bad();
  void write_ended();
  void run_queue();

  // ---- the requests
  void begin(const Asked& asked);
  void open(const Asked& asked);
  void read_or_give();
  void fetch_shared();
  void invalidate();
  void acks_are_in();
  void begin_fetch(bool exclusive);
  void grant(MessageKind kind, bool with_bytes);
  void remove_put();
  void begin_write();

  // ---- their ends
  void end_shared(NodeNumber new_sharer);
  void end_exclusive();
  void end_grant();
  void end() {
    page().busy = Busy::kIdle;
    page().transaction = Transaction();
  }

  // ---- directory_repair.cpp
  void term_ended(NodeNumber node, Presence presence);
  bool is_known_gone(NodeNumber node, Presence presence);
  void remember_dead(NodeNumber node);
  void gone_while_invalidating(NodeNumber node, Presence presence);
  void gone_while_fetching(NodeNumber node, Presence presence);
  void gone_while_granting(NodeNumber node, Presence presence);
  void gone_while_probing(NodeNumber node, Presence presence);
  void gone_while_recalling(NodeNumber node, Presence presence);
  /// It leaves the ring when the transaction ends.
  void note(NodeNumber node, Presence presence);
  /// It leaves the ring of an idle page.
  void leave(const Gone& gone);
  void become_away(const Gone* candidates, size_t count);
  void drop_candidate(NodeNumber node, bool in_doubt);
  void rescue(const Gone& owner);
  void rescue_next();
  void overdue();
  void probe(NodeNumber node, Transaction::Probing which, bool data);
  void receive_probe_reply();
  void supplier_answered(bool copy, bool exclusive, bool kept);
  void requester_answered(bool copy, bool waiting);
  void rescue_answered();
  void supplier_gave();
  void both_gone();
  void ask_again();
  void recall();
  void receive_recalled();
  void begin_return(const Asked& asked);
  /// What waits for another one's answer is not wanted any more.
  void refuse_returned();
  void stored(bool good);
  void grace_over();

  // ---- parts
  DirectoryPage& page() { return out_.page; }
  Transaction& transaction() { return out_.page.transaction; }
  NodeNumber requester() { return transaction().asked.node; }
  bool is_exclusive() { return transaction().asked.kind == MessageKind::kGetM; }
  bool is_storage_current() { return page().storage_version == page().version; }
  void remove_from_ring(NodeNumber node);
  void held_by_nobody();
  /// And by nobody else.
  void owned_by_requester();
  void lose();
  void reached(Rule rule) { out_.rules |= uint64_t{1} << static_cast<unsigned>(rule); }
  void fault();
  /// Nothing that it sent is at fault, but it.
  void blame(NodeNumber node);
  /// A message about the open transaction.
  Message about(MessageKind kind, NodeNumber to);
  void send(const Message& message) { add(Act::kSend, message); }
  void answer(const Asked& asked, MessageKind kind, Code code = Code::kOk);
  void add(Act kind, const Message& message = {}) { out_.actions.push_back({kind, message}); }

  const DirectoryEvent& event_;
  const Message& message_;
  const DirectoryPolicy& policy_;
  DirectoryStep out_;
};

}  // namespace ocm::cache
