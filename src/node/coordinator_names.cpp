// The coordinator's names and their homes: a name is given, changed and removed at all homes of its allocation, or
// nowhere; who does not hear now is told with its next heartbeat.
#include <unistd.h>

#include "base/assert.h"
#include "base/fault.h"
#include "control/allocation_wire.h"
#include "control/home_requests_wire.h"
#include "node/cluster.h"
#include "node/coordinator.h"

namespace ocm::node {

using control::NodeState;
using control::Reply;
using control::Task;

namespace {

constexpr size_t kWaitingBytes = 512;  // of what waits, beside its message

}  // namespace

control::NameChange Coordinator::removal(const control::Allocation& allocation) {
  return {.allocation = allocation, .remove = true};
}

std::vector<std::string> Coordinator::homes_of(const control::Allocation& allocation) {
  std::vector<std::string> out;
  for (const auto& extent : allocation.extents) {
    const bool known = std::find(out.begin(), out.end(), extent.node) != out.end();
    if (!known && !extent.lost) out.push_back(extent.node);
  }
  return out;
}

Task<Reply> Coordinator::publish(Result<control::PublishRequest> read) {
  if (!read.is_ok()) co_return read.status();
  control::PublishRequest request = std::move(read).value();
  const AllocationId id = request.allocation.id;
  while (telling_.contains(id)) co_await told_.wait();  // asked before, without an answer
  if (!is_newest(request)) {
    fault::reached(fault::State::kPublishOvertaken);
    co_return Status(Code::kCancelled, "a later request to publish it was taken");
  }
  telling_.insert(id);
  Reply reply = Status(Code::kInternal);
  try {
    reply = co_await publish_once(std::move(request));
  } catch (...) {
    publishing_.erase(id);
    end_telling(id);
    throw;
  }
  publishing_.erase(id);
  end_telling(id);
  co_return reply;
}

void Coordinator::end_telling(const AllocationId& allocation) {
  telling_.erase(telling_.find(allocation));
  told_.notify();
}

bool Coordinator::is_newest(const control::PublishRequest& request) {
  PublishOrder& known = publish_order_[request.allocation.id];
  const bool same_run = known.incarnation == request.owner_incarnation;
  if (same_run && request.order < known.order) return false;
  known = {request.owner_incarnation, request.order};
  if (publish_order_.size() > 1024 + 2 * names_.size())
    std::erase_if(publish_order_, [this](const auto& one) { return names_.find_id(one.first) == nullptr; });
  return true;
}

/// What a program is told of a name that it has given; it may have been removed since.
Reply Coordinator::is_published(const control::Allocation& allocation) const {
  wire::Envelope out;
  wire::Published& published = *out.mutable_published();
  const control::Allocation* known = names_.find_id(allocation.id);
  published.set_owner_uid((known == nullptr ? allocation : *known).owner_uid);
  published.set_mode((known == nullptr ? allocation : *known).mode);
  return out;
}

Task<Reply> Coordinator::publish_once(control::PublishRequest request) {
  control::Allocation allocation = std::move(request.allocation);
  allocation.name = request.name;
  allocation.mode = request.mode == 0 ? kModeDefault : request.mode;
  allocation.access.reset();
  const uint64_t patience_ns = core_.config.failure_deadline_ns() / 4 * 3;  // who asks waits for a whole one
  const uint64_t undone_by_ns = core_.now_ns() + patience_ns;
  for (std::string node; !(node = awaits_undo(allocation)).empty();) {  // C5
    const control::NodeInfo* home = membership_.find(node);
    const bool may_hear = home != nullptr && membership_.may_live(node, home->partition);
    if (retired_) co_return Status(Code::kNoCoordinator, "another node leads");
    if (!may_hear || core_.now_ns() >= undone_by_ns) {
      fault::reached(fault::State::kUndoAwaited);
      co_return Status::of_node(Code::kPeerLost, node,
                                " has a part of it and has not heard yet that publishing it before failed");
    }
    co_await told_.wait_until(undone_by_ns);
  }
  const control::Allocation* known = names_.find_id(allocation.id);
  const uint32_t mode = known == nullptr ? 0 : known->mode;
  const auto noted_before = names_.noted(allocation.id);
  const Status taken = names_.publish(allocation);  // first: the name is ours while the homes are told
  if (!taken.is_ok()) co_return taken;
  // Asked again, or late: what was answered stands, whoever does not hear of its mode now.
  if (known != nullptr) {
    fault::reached(fault::State::kPublishedAgain);
    std::vector<Task<void>> tasks;
    bool later = awaits_news(*known);
    const bool is_other = known->mode != mode || unnoted_.contains(known->id);
    if (known->mode != mode) heard_by_all_.erase(known->id);
    const bool is_new = !heard_by_all_.contains(known->id);
    if (known->mode != mode || (is_new && !later && !fault::at(fault::Point::kHalfANameTaken))) {
      const control::NameChange as_now{.allocation = *known, .attempt = core_.env.random_number()};
      for (const std::string& node : homes_of(*known))
        tasks.push_back(tell_until_heard(node, as_now, &later));
    }
    co_await core_.env.join(std::move(tasks));
    // Until then that home frees what it has with the session, or another run of the coordinator has the former mode from it.
    if (later)
      co_return Status(Code::kPeerLost, "a node with a part of it has not heard of its name or mode yet");
    note_heard_by_all(allocation.id);
    if (is_other) {
      const Status noted = co_await note(allocation.id);
      if (!noted.is_ok()) co_return noted;
    }
    co_return is_published(allocation);
  }
  OCM_DASSERT(names_.find(request.name) != nullptr);
  publishing_.insert(allocation.id);
  allocation.owner_uid = names_.find(request.name)->owner_uid;
  Status first;
  std::set<std::string> silent;
  const auto tell = [&](std::string node, wire::Envelope message) -> Task<void> {
    const Status status = co_await tell_home(node, std::move(message), core_.now_ns() + patience_ns);
    const bool is_silent = status.code() == Code::kPeerLost || status.code() == Code::kDeadline;
    if (is_silent) silent.insert(node);
    if (!first.is_ok()) co_return;
    first = is_silent
                ? Status::of_node(Code::kPeerLost, node,
                                  " has a part of it and does not answer: " + std::string(status.message()))
                : status;
  };
  control::NameChange change{.allocation = allocation, .attempt = core_.env.random_number()};
  wire::Envelope message;
  control::to_wire(change, *message.mutable_publish_extents());
  std::vector<Task<void>> tasks;
  for (const std::string& node : homes_of(allocation)) tasks.push_back(tell(node, message));
  co_await core_.env.join(std::move(tasks));
  if (first.is_ok() && allocation.layout == Layout::kSequence)
    fault::reached(fault::State::kSequencePublished);
  if (first.is_ok()) {
    note_heard_by_all(allocation.id);
    const Status noted = co_await note(allocation.id);
    if (!noted.is_ok()) co_return noted;
    co_return is_published(allocation);
  }
  fault::reached(fault::State::kPublishUndone);
  const auto now = names_.forget(request.name, allocation.id, noted_before);
  undone_.insert(allocation.id);
  if (!now) co_return first;  // the removal frees it
  OCM_DASSERT(names_.find_id(allocation.id) == nullptr);
  change.undo = true;
  change.session = request.session;
  change.owner_node = request.owner_node;
  change.owner_incarnation = request.owner_incarnation;
  std::vector<Task<void>> back;
  std::set<std::string> homes;
  for (std::string& node : homes_of(allocation)) homes.insert(std::move(node));
  // Parts may have been made again meanwhile.
  for (std::string& node : homes_of(*now)) homes.insert(std::move(node));
  for (const std::string& node : homes) {
    if (silent.contains(node))
      (void)tell_later(node, change);
    else
      back.push_back(tell_until_heard(node, change));
  }
  co_await core_.env.join(std::move(back));
  co_return first;
}

void Coordinator::note_heard_by_all(const AllocationId& allocation) {
  heard_by_all_.insert(allocation);
  if (heard_by_all_.size() > 1024 + 2 * names_.size())
    std::erase_if(heard_by_all_, [this](const auto& id) { return names_.find_id(id) == nullptr; });
}

bool Coordinator::awaits_news(const control::Allocation& named) const {
  if (being_told_.contains(named.id)) return true;
  const std::vector<std::string> homes = homes_of(named);
  return std::any_of(homes.begin(), homes.end(), [&](const std::string& node) {
    const auto waiting = unheard_.find(node);
    if (waiting == unheard_.end()) return false;
    const auto first = waiting->second.lower_bound(Untold{named.id});
    return first != waiting->second.end() && first->first.allocation == named.id;
  });
}

std::string Coordinator::awaits_undo(const control::Allocation& allocation) const {
  const AllocationId& id = allocation.id;
  for (std::string& node : homes_of(allocation)) {
    if (being_undone_.contains({node, id})) return std::move(node);
    const auto waiting = unheard_.find(node);
    if (waiting == unheard_.end()) continue;
    for (auto at = waiting->second.lower_bound(Untold{id});
         at != waiting->second.end() && at->first.allocation == id; ++at) {
      if (at->first.undone_attempt != 0) return std::move(node);
    }
  }
  return {};
}

Task<Reply> Coordinator::remove_name(wire::NameRemoveRequest request) {
  Reply reply;
  const auto id = wire::id_from<AllocationId>(request.allocation_id());
  std::string name = request.name();
  const auto tell = [&reply](const AllocationId& of) {
    reply.message.mutable_allocation()->set_allocation_id(id_field(of));
  };
  if (request.again()) {
    while (telling_.contains(id)) co_await told_.wait();
    const control::Allocation* named = names_.find_id(id);
    if (named == nullptr) {
      if (!names_.was_removed(id) || unnoted_.contains(id)) {
        const Status noted = co_await remove_unknown(id);
        if (!noted.is_ok()) co_return noted;
      }
      tell(id);
      co_return reply;
    }
    name = named->name;
  }
  OCM_DASSERT(!request.again() || names_.find(name) != nullptr);
  const auto found = names_.removable(name, request.uid());
  if (!found.is_ok()) co_return found.status();
  tell(found.value());
  if (request.allocation_id().empty()) co_return reply;
  auto removed = names_.remove(name, id, request.uid());
  if (!removed.is_ok()) {
    fault::reached(fault::State::kLateRemoval);
    co_return removed.status();
  }
  const control::Allocation& gone = removed.value();
  tell(gone.id);
  telling_.insert(id);
  std::vector<Task<void>> tasks;
  // The home of a lost replica may have the name still, and report it to a coordinator that has not heard of this.
  bool later = std::any_of(gone.extents.begin(), gone.extents.end(),
                           [](const auto& one) { return one.lost || one.vacant || one.epoch != 0; });
  // A home that cannot be told now reports the name when it is back, and is told then.
  for (const std::string& node : homes_of(gone))
    tasks.push_back(tell_until_heard(node, removal(gone), &later));
  Status noted;
  const auto note_it = [&]() -> Task<void> { noted = co_await note(id); };
  tasks.push_back(note_it());
  co_await core_.env.join(std::move(tasks));
  if (later && !notes_names()) co_await tell_witnesses(gone.id);
  end_telling(id);
  if (!noted.is_ok()) co_return noted;
  co_return reply;
}

Task<Status> Coordinator::remove_unknown(AllocationId allocation) {
  fault::reached(fault::State::kUnknownRemoved);
  (void)names_.remember_removed(allocation);
  // Its homes report it when they are back, maybe to another run of the coordinator.
  telling_.insert(allocation);
  if (!notes_names()) co_await tell_witnesses(allocation);
  const Status noted = co_await note(allocation);
  end_telling(allocation);
  co_return noted;
}

Task<void> Coordinator::tell_witnesses(AllocationId allocation) {
  control::NameChange change{.allocation = {}, .remove = true};
  change.allocation.id = allocation;
  wire::Envelope message;
  control::to_wire(change, *message.mutable_publish_extents());
  const uint64_t deadline_ns = core_.now_ns() + core_.config.failure_deadline_ns() / 2;
  const auto tell = [](Coordinator& self, std::string node, wire::Envelope what,
                       uint64_t at_ns) -> Task<void> {
    (void)co_await self.tell_home(std::move(node), std::move(what), at_ns);
  };
  std::vector<Task<void>> tasks;
  for (const control::NodeInfo& node : member_.view().nodes) {
    if (node.name != core_.name && node.state != NodeState::kDead)
      tasks.push_back(tell(*this, node.name, message, deadline_ns));
  }
  co_await core_.env.join(std::move(tasks));
}

Task<void> Coordinator::tell_until_heard(std::string node, control::NameChange what, bool* later,
                                         bool again) {
  const control::NodeInfo* known = membership_.find(node);
  if (known == nullptr || membership_.may_live(node, known->partition)) {
    wire::Envelope message;
    control::to_wire(what, *message.mutable_publish_extents());
    const Status status = co_await tell_home(node, std::move(message));
    if (status.is_ok()) co_return;
    log::warn(what.undo     ? "undo_not_told"
              : what.remove ? "remove_not_told"
                            : "name_not_told",
              {{"node", node}, {"why", status.message()}});
    if (status.code() != Code::kPeerLost && status.code() != Code::kDeadline) {
      // It is frozen, or what it had is gone: who asks again has it asked again.
      if (later != nullptr && !what.remove && !what.undo) *later = true;
      co_return;
    }
  }
  (void)tell_later(std::move(node), std::move(what), again);
  if (later != nullptr) *later = true;
}

Task<void> Coordinator::tell_what_waited(std::string node, Waiting waited) {
  const AllocationId id = waited.what.allocation.id;
  const auto told = being_told_.insert(id);
  const bool undo = waited.what.undo;
  if (undo) being_undone_.insert({node, id});
  co_await tell_until_heard(node, std::move(waited.what), nullptr, true);
  if (undo) being_undone_.erase(being_undone_.find({node, id}));
  being_told_.erase(told);
  told_.notify();
}

void Coordinator::tell_of_former(const AllocationId& allocation,
                                 const std::vector<control::PlacedExtent>& former) {
  std::map<std::string, control::NameChange> by_node;
  for (const auto& extent : former) by_node[extent.node].allocation.extents.push_back(extent);
  for (auto& [node, what] : by_node) {
    if (membership_.find(node) == nullptr) continue;  // it reports all when it joins
    what.allocation.id = allocation;
    what.former = true;
    spawn(tell_until_heard(node, std::move(what)));
  }
}

bool Coordinator::tell_later(std::string node, control::NameChange what, bool again) {
  if (what.undo && fault::at(fault::Point::kUndoNotRepeated)) return false;
  fault::reached(fault::State::kToldLater);
  if (what.undo || what.remove) {  // a home looks at its own extents only
    std::vector<control::PlacedExtent> here;
    for (const auto& extent : what.allocation.extents) {
      if (extent.node == node) here.push_back(extent);
    }
    if (!here.empty()) what.allocation.extents = std::move(here);
  }
  const Untold key{what.allocation.id, what.remove, what.undo ? what.attempt : 0, what.former};
  const uint32_t uid = what.allocation.owner_uid;
  control::Charge charge =
      uid == 0 || uid == ::geteuid() ? control::Charge() : control::Charge(waiting_.of(uid));
  wire::PublishExtents message;
  control::to_wire(what, message);
  if (!charge.resize(kWaitingBytes + control::kKeptBytesPerWireByte * message.ByteSizeLong())) {
    log::warn("not_told_later", {{"node", node}, {"uid", uid}, {"why", "too much of this user waits"}});
    return false;
  }
  auto& waiting = unheard_[std::move(node)];
  if (again) {
    (void)waiting.try_emplace(key, Waiting{std::move(what), std::move(charge)});
  } else {
    waiting.insert_or_assign(key, Waiting{std::move(what), std::move(charge)});
  }
  return true;
}

}  // namespace ocm::node
