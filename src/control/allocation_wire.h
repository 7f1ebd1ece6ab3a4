// Allocations in messages: read and checked once where one comes in, written where one goes out.
//
// Threads: any. Pure.
#pragma once

#include "control/allocation.h"
#include "control/names.h"
#include "wire/convert.h"

namespace ocm::control {

void to_wire(const PlacedExtent& extent, wire::ExtentDescriptor& out);
PlacedExtent from_wire(const wire::ExtentDescriptor& message);

void to_wire(const Allocation& allocation, wire::Allocation& out);
/// An id of another length than 16 bytes is read as none; what must hold of a sequence is check_parts()'s.
/// Errors: kInvalidArgument (an unknown kind or layout).
Result<Allocation> from_wire(const wire::Allocation& message);
/// The same of one that is only taken back, whatever its kind and layout are.
Allocation extents_of(const wire::Allocation& message);
void to_wire(const NameList& list, wire::NameList& out);

void to_wire(const PartMoved& part, wire::PartMoved& out);
PartMoved from_wire(const wire::PartMoved& message);
void to_wire(const GivenReplica& give, wire::GiveReplica& out);
/// Of its holds those that are none are left out; an owner that is none is nobody. Errors: those of its allocation.
Result<GivenReplica> from_wire(const wire::GiveReplica& message);
/// As a pool keeps it. Errors, of the second: kProtocol, those of its allocation.
std::string to_bytes(const GivenReplica& give);
Result<GivenReplica> given_from(std::string_view bytes);
void to_wire(const PlannedPart& plan, wire::PlanPart& out);
Result<PlannedPart> from_wire(const wire::PlanPart& message);

}  // namespace ocm::control
