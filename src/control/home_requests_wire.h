// Requests to homes in messages.
//
// Threads: any. Pure.
#pragma once

#include "control/home_requests.h"
#include "wire/convert.h"

namespace ocm::control {

void to_wire(const ReserveRequest& request, wire::ReserveRequest& out);
ReserveRequest from_wire(const wire::ReserveRequest& message);
/// The extent that `node` says it made. Errors: kProtocol (it is malformed, or another node's).
Result<ExtentDescriptor> made_extent(const wire::Reserved& reply, const std::string& node);
void to_wire(const ReleaseRequest& request, wire::ReleaseRequest& out);
/// Errors: kInvalidArgument (it names neither an extent nor a session's allocation).
Result<ReleaseRequest> from_wire(const wire::ReleaseRequest& message);
void to_wire(const HoldRequest& request, wire::HoldRequest& out);
/// Errors: kInvalidArgument, kTooLarge.
Result<HoldRequest> from_wire(const wire::HoldRequest& message);
/// The end of a hold.
void end_to_wire(const SessionId& session, const HoldId& hold, wire::HoldRequest& out);
void to_wire(const SessionExtents& held, wire::SessionExtents& out);
/// Without those whose ids are none, or whose capability is.
SessionExtents from_wire(const wire::SessionExtents& message);
void to_wire(const PublishRequest& request, wire::PublishRequest& out);
/// Errors: those of its allocation.
Result<PublishRequest> from_wire(const wire::PublishRequest& message);
void to_wire(const NameChange& change, wire::PublishExtents& out);
/// Errors: those of its allocation, where a name is given.
Result<NameChange> from_wire(const wire::PublishExtents& message);

}  // namespace ocm::control
