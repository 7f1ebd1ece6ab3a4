// Whose a part is while it is made again: its name or its session may change, and the new homes are told.
#include "base/fault.h"
#include "node/remaker.h"

namespace ocm::node {

using control::Reply;
using control::Task;

namespace {

constexpr int kHoldsMax = 16384;  // of one message

}  // namespace

void Remaker::set_extent(const wire::ExtentDescriptor& extent, wire::ReleaseRequest& out) {
  out.set_address(extent.address());
  out.set_generation(extent.generation());
  out.set_capability(extent.capability());
}

std::optional<wire::GiveReplica> Remaker::owner_of(ExtentId here) const {
  const control::Lease* lease = home_.lease(here);
  if (lease == nullptr) return std::nullopt;
  wire::GiveReplica out;
  if (!lease->session) {
    const wire::Allocation* published = home_.published_with(here);
    if (published == nullptr) return std::nullopt;
    *out.mutable_published() = *published;
    for (const control::Leases::HeldBy& by : home_.holds_on(here)) {
      if (out.holds_size() == kHoldsMax) break;
      auto& hold = *out.add_holds();
      hold.set_session_id(id_field(by.session));
      hold.set_owner_node(by.node);
      hold.set_owner_incarnation(id_field(by.incarnation));
      hold.set_hold_id(id_field(by.hold));
    }
    return out;
  }
  const auto owner = home_.vouching(*lease->session);
  if (!owner) return std::nullopt;
  out.set_session_id(id_field(*lease->session));
  out.set_owner_node(owner->node);
  out.set_owner_incarnation(id_field(owner->incarnation));
  return out;
}

Task<Status> Remaker::tell_owner(wire::GiveReplica owned, std::string node,
                                 std::optional<control::HoldId> hold) {
  wire::Envelope message;
  auto& note = *message.mutable_session_at();
  note.set_session_id(owned.session_id());
  note.set_owner_incarnation(owned.owner_incarnation());  // another run may not have taken the session up yet
  note.set_node(std::move(node));
  if (hold) note.set_hold_id(id_field(*hold));
  const auto reply = co_await homes_.ask(owned.owner_node(), std::move(message));
  co_return reply.status();
}

Status Remaker::given(const wire::GiveReplica& give) {
  const control::Lease* lease = home_.lease(id_of(give.replica()));
  if (lease != nullptr && !give.reserved_by().empty()) {  // M11
    const std::string session = lease->session ? id_field(*lease->session) : std::string();
    const bool is_same = give.has_published() ? session.empty() : session == give.session_id();
    if (!is_same && session != give.reserved_by()) return {};
  }
  OCM_TRY(home_.give(give));
  if (give.has_published() && !fault::at(fault::Point::kNewsOfOne)) tell_name(id_of(give.replica()));
  for (control::Leases::HeldBy& by : home_.take_holds(give)) core_.env.spawn(tell_holder(std::move(by)));
  return {};
}

Status Remaker::note_hold(Session& session, const std::string& id, const std::string& node) {
  control::HoldId hold;
  if (!read_id(id, hold)) return Code::kInvalidArgument;
  const bool known = session.holds.contains(hold) || session.holds_shown.contains(hold);
  if (!known && session.resumed && (session.resuming || !session.complete))
    return Status(Code::kPeerLost, "the program has not reported yet what it holds");
  if (!known) return Status(Code::kNotFound, "the session has no such hold");
  session.holds[hold].insert(node);
  if (node != core_.name) session.homes.insert(node);
  return {};
}

Task<void> Remaker::tell_holder(control::Leases::HeldBy by) {
  while (!core_.draining && home_.has_hold(by.session, by.hold)) {
    const auto owner = home_.vouching(by.session);
    if (!owner) co_return;
    wire::GiveReplica held;
    held.set_session_id(id_field(by.session));
    held.set_owner_node(owner->node);
    held.set_owner_incarnation(id_field(owner->incarnation));
    const Status told = co_await tell_owner(std::move(held), core_.name, by.hold);
    if (told.code() == Code::kNotFound) {
      wire::HoldRequest ended;
      ended.set_session_id(id_field(by.session));
      ended.set_hold_id(id_field(by.hold));
      ended.set_end(true);
      (void)home_.hold(ended);
    }
    if (!Homes::is_unheard(told)) co_return;
    co_await core_.env.sleep_ns(core_.config.heartbeat_ns());
  }
}

void Remaker::part_freed(const wire::PartMoved& part) {
  for (const auto& extent : part.now()) {
    if (extent.node() != core_.name) release_replica(extent);
  }
}

void Remaker::part_given(const wire::PartMoved& part, ExtentId here) {
  const auto owner = owner_of(here);
  if (!owner) return;
  fault::reached(fault::State::kOwnerCorrected);
  wire::GiveReplica give = *owner;
  *give.mutable_part() = part;
  // The new ones; the peers hear it themselves.
  for (int i = 1 + part.peers_size(); i < part.now_size(); ++i) {
    if (part.now(i).node() != core_.name) core_.env.spawn(correct_owner(part.now(i), give));
  }
}

bool Remaker::is_of_former_run(const wire::GiveReplica& give, const Status& told) const {
  const wire::NodeView* owner = cluster_.find(give.owner_node());
  const bool same = owner != nullptr && owner->incarnation() == give.owner_incarnation();
  return !same && told.code() != Code::kNotFound;
}

void Remaker::release_replica(const wire::ExtentDescriptor& replica) {
  wire::Envelope message;
  set_extent(replica, *message.mutable_release());
  homes_.tell(replica.node(), GlobalAddress(replica.address()).partition(), std::move(message));
}

Task<void> Remaker::correct_owner(wire::ExtentDescriptor replica, wire::GiveReplica give) {
  const uint32_t partition = GlobalAddress(replica.address()).partition();
  const uint32_t shown = homes_.run_of(replica.node());
  *give.mutable_replica() = ref_of(id_of(replica));
  while (!core_.draining && !homes_.is_over(replica.node(), partition, shown)) {
    Status done;
    if (!give.has_published()) done = co_await tell_owner(give, replica.node());
    if (done.is_ok() || is_of_former_run(give, done)) {
      wire::Envelope message;
      *message.mutable_give_replica() = give;
      const auto reply = co_await homes_.ask(replica.node(), std::move(message));
      done = reply.status();
      if (done.is_ok()) co_return;
    }
    if (done.code() == Code::kNotFound || done.code() == Code::kCancelled) {  // the session has ended
      release_replica(replica);
      co_return;
    }
    if (!Homes::is_unheard(done)) co_return;
    co_await core_.env.sleep_ns(core_.config.heartbeat_ns());
  }
}

}  // namespace ocm::node
