// What a home knows of parts that were made again, of theirs and of others', and what it frees for that.
#include <algorithm>

#include "base/fault.h"
#include "control/parts.h"
#include "node/home.h"

namespace ocm::node {

const control::PartMoved* Home::remade(ExtentId was) const {
  const auto known = remade_.find(was);
  return known == remade_.end() ? nullptr : &known->second;
}

const control::Allocation* Home::published_with(ExtentId id) const {
  const auto named = published_extents_.find(id);
  return named == published_extents_.end() ? nullptr : &published_.at(named->second);
}

std::vector<ExtentId> Home::nameless() const {
  std::vector<ExtentId> out = ownership_.of_names();
  std::erase_if(out, [this](ExtentId id) { return published_extents_.contains(id); });
  return out;
}

std::vector<ExtentId> Home::formerly(ExtentId id) const {
  const auto former = formerly_.find(id);
  return former == formerly_.end() ? std::vector<ExtentId>() : former->second;
}

const control::PartMoved* Home::made_as(ExtentId id) const {
  const auto former = formerly_.find(id);
  return former == formerly_.end() ? nullptr : remade(former->second.front());
}

bool Home::note_lost(ExtentId id, const std::vector<ExtentId>& part, const std::vector<ExtentId>& lost,
                     const std::optional<ExtentId>& ended) {
  // A second id that does not answer yet will, if its part follows: it is not gone.
  if (!is_here(id)) return is_second(id) || (on_needed_ && on_needed_(id));
  const bool is_of_part =
      is_in(part, id) && !is_in(lost, id) &&
      std::all_of(lost.begin(), lost.end(), [&](ExtentId one) { return is_in(part, one); });
  if (!is_of_part) return true;  // no voter says so
  if (ended && on_ended_) on_ended_(id, *ended);
  if (lost.empty() || !is_here(id)) return true;  // it may have followed
  Degraded& known = degraded_[id];
  if (known.lost.size() >= lost.size()) return true;  // a council that was founded anew may know less
  known = {part, lost, std::max(known.wanted, part.size())};
  log::warn("replica_missing", {{"extent", id.address.to_string()}, {"lost", lost.size()}});
  const control::PlannedPart* plan = plan_of(id);
  if (plan != nullptr && is_in(lost, plan->give.part.was)) unshare(id);  // its home leads no more
  const auto of = published_extents_.find(id);
  if (of == published_extents_.end()) return true;
  for (const ExtentId& gone : lost) (void)control::mark_lost(published_.at(of->second), gone);
  return true;
}

Status Home::plan(control::PlannedPart plan) {
  const ExtentId id = plan.replica;
  OCM_TRY(table_->find(id).status());
  const auto second = shared_.find(id);
  const auto& now = plan.give.part.now;
  const bool is_of_it = second != shared_.end() && std::any_of(now.begin(), now.end(), [&](const auto& one) {
                          return one.id == second->second;
                        });
  if (!is_of_it) return Status(Code::kNotFound, "the replica has no such second id");
  planned_[id] = std::move(plan);
  return {};
}

const control::PlannedPart* Home::plan_of(ExtentId id) const {
  const auto known = planned_.find(id);
  return known == planned_.end() ? nullptr : &known->second;
}

std::optional<ExtentId> Home::planned_as(ExtentId second) const {
  const ExtentId first = first_of(second);
  return first != second && planned_.contains(first) ? std::optional(first) : std::nullopt;
}

bool Home::is_known_lost(ExtentId id, ExtentId other) const {
  const auto known = degraded_.find(id);
  return known != degraded_.end() &&
         std::find(known->second.lost.begin(), known->second.lost.end(), other) != known->second.lost.end();
}

uint32_t Home::epoch_of(ExtentId id) const {
  const control::PartMoved* part = made_as(id);
  return part == nullptr ? 0 : part->epoch;
}

ExtentId Home::present(ExtentId id) const {
  const control::PartMoved* part = remade(id);
  if (part == nullptr) return id;
  for (const auto& now : part->now) {
    if (now.node == core_.name) return now.id;
  }
  return id;
}

void Home::lead_on(const std::vector<ExtentId>& former, const control::PartMoved& part) {
  for (const ExtentId& id : former) {
    control::PartMoved& known = remade_[id] = part;
    known.former.clear();
    known.was = id;
  }
}

Status Home::leave(const control::PartMoved& part) {
  constexpr size_t kLeftMax = 65536;  // the new home leads from older ones, too
  const ExtentId was = part.was;
  OCM_TRY(find_frozen_too(was).status());
  if (directory_->requires_lease(was))
    return Status(Code::kUnsupported, "a replica moves only by a decision of the council");
  const auto named = published_extents_.find(was);
  const AllocationId allocation = named == published_extents_.end() ? AllocationId() : named->second;
  std::vector<ExtentId> former = formerly(was);
  former.push_back(was);
  (void)remove(was);
  if (const auto known = published_.find(allocation); known != published_.end())
    (void)control::relocate(known->second, part);
  lead_on(former, part);
  left_.insert(left_.end(), former.begin(), former.end());
  for (; left_.size() > kLeftMax; left_.pop_front()) remade_.erase(left_.front());
  log::info("extent_left", {{"extent", was.address.to_string()},
                            {"node", part.now[0].node},
                            {"there", part.now[0].id.address.to_string()}});
  return {};
}

void Home::drop_former(const ExtentDescriptor& extent) {
  const ExtentId id = extent.id;
  // While its part is being made again it is needed, and ends with that.
  if (shared_.contains(id) || !find(extent, Access::kReadWrite).is_ok()) return;
  fault::reached(fault::State::kFormerDropped);
  drop(id);
}

}  // namespace ocm::node
