// What other daemons ask of a home about replicas and parts that were made again.
#include <algorithm>
#include <utility>

#include "control/allocation_wire.h"
#include "control/parts.h"
#include "node/remaker.h"

namespace ocm::node {

using control::Reply;
using control::Task;

void Remaker::enter(PeerHandlers& handlers) {
  using Body = PeerHandlers::Body;
  handlers.on(Body::kResolve, [this](const std::string&, wire::Envelope request) {
    return what_became_of(wire::ids_in(request.resolve().part()));
  });
  handlers.on_now(Body::kPartMoved, [this](const std::string&, const wire::Envelope& request) {
    return moved(control::from_wire(request.part_moved()));
  });
  handlers.on(Body::kGiveReplica, [this](const std::string&, const wire::Envelope& request) {
    return take(control::from_wire(request.give_replica()));
  });
  handlers.on_now(Body::kShareReplica, [this](const std::string&, const wire::Envelope& request) {
    return share(request.share_replica());
  });
  handlers.on_now(Body::kPlanPart, [this](const std::string&, const wire::Envelope& request) -> Reply {
    auto read = control::from_wire(request.plan_part());
    if (!read.is_ok()) return read.status();
    return plan(std::move(read).value());
  });
  handlers.on_now(Body::kSessionAt, [this](const std::string&, const wire::Envelope& request) {
    return note_home(request.session_at());
  });
  handlers.on(Body::kDigest, [this](const std::string&, wire::Envelope request) {
    return digest(std::move(*request.mutable_digest()));
  });
}

Status Remaker::moved(const control::PartMoved& part) {
  if (part.now.empty()) return Code::kInvalidArgument;
  if (has_moved_away(part)) OCM_TRY(home_.leave(part));
  remade(part);
  return {};
}

Task<Reply> Remaker::take(Result<control::GivenReplica> read) {
  if (!read.is_ok()) co_return read.status();
  const control::GivenReplica give = std::move(read).value();
  const std::optional<ExtentId> planned = home_.planned_as(give.replica);
  if (planned) co_return co_await follow_plan(*planned);
  const bool planned_here = spare_plans_.contains(give.replica);
  const auto& now = give.part.now;
  bool is_peer = false;
  for (size_t i = 1; i < std::min(1 + give.part.peers.size(), now.size()); ++i)
    is_peer = is_peer || now[i].id == give.replica;
  const bool followed = !planned_here && is_peer && home_.has(give.replica);
  if (followed) co_return Status();
  const Status taken = given(give);
  if (taken.is_ok()) spare_plans_.erase(give.replica);
  co_return taken;
}

Reply Remaker::share(const wire::ShareReplica& request) {
  const ExtentId id = id_of(request.replica());
  if (request.has_end()) {
    home_.unshare(id, id_of(request.end()));
    thawed_.notify();
    return Status();
  }
  if (job_of(id) != nullptr) return Status(Code::kExists, "this home makes the part again");
  // Who makes its part again knows that it follows.
  if (const auto plan = spare_plans_.find(id); plan != spare_plans_.end())
    follow_as_spare(control::PlannedPart(plan->second));
  auto second = home_.share_closed(id);
  thawed_.notify();
  if (!second.is_ok()) return second.status();
  wire::Envelope out;
  wire::descriptor_to(second.value(), *out.mutable_reserved()->mutable_extent());
  return out;
}

Status Remaker::note_home(const wire::SessionAt& told) {
  SessionId id;
  if (!read_id(told.session_id(), id) || !control::check_node_name(told.node()).is_ok())
    return Code::kInvalidArgument;
  const std::string& run = told.owner_incarnation();
  if (!run.empty() && run != id_field(core_.incarnation))
    return Status(Code::kPeerLost, "another run of node " + core_.name + " was asked").with_node(core_.name);
  const auto session = sessions_.all().find(id);
  if (session == sessions_.all().end()) return Status(Code::kNotFound, "no such session");
  if (!told.hold_id().empty()) return note_hold(*session->second, told.hold_id(), told.node());
  if (told.node() != core_.name) session->second->homes.insert(told.node());
  return {};
}

Task<Reply> Remaker::digest(wire::DigestRequest request) {
  const auto found = home_.find(wire::descriptor_from(request.extent()), Access::kRead);
  if (!found.is_ok()) co_return found.status();
  if (request.bytes_total() > kDigestBytesMax) co_return Status(Code::kTooLarge);
  auto made =
      co_await digests_here(found.value()->id, request.offset(), request.bytes_total(), request.seed());
  if (!made.is_ok()) co_return made.status();
  wire::Envelope out;
  out.mutable_digests()->set_digests(std::move(made).value());
  co_return out;
}

}  // namespace ocm::node
