// What a home knows of parts that were made again, of theirs and of others', and what it frees for that.
#include <algorithm>

#include "base/fault.h"
#include "control/parts.h"
#include "node/home.h"

namespace ocm::node {

const wire::PartMoved* Home::remade(ExtentId was) const {
  const auto known = remade_.find(was);
  return known == remade_.end() ? nullptr : &known->second;
}

const wire::Allocation* Home::published_with(ExtentId id) const {
  const auto named = published_extents_.find(id);
  return named == published_extents_.end() ? nullptr : &published_.at(named->second);
}

std::vector<ExtentId> Home::formerly(ExtentId id) const {
  const auto former = formerly_.find(id);
  return former == formerly_.end() ? std::vector<ExtentId>() : former->second;
}

const wire::PartMoved* Home::made_as(ExtentId id) const {
  const auto former = formerly_.find(id);
  return former == formerly_.end() ? nullptr : remade(former->second.front());
}

bool Home::is_known_lost(ExtentId id, ExtentId other) const {
  const auto known = degraded_.find(id);
  return known != degraded_.end() &&
         std::find(known->second.lost.begin(), known->second.lost.end(), other) != known->second.lost.end();
}

uint32_t Home::epoch_of(ExtentId id) const {
  const wire::PartMoved* part = made_as(id);
  return part == nullptr ? 0 : part->epoch();
}

ExtentId Home::present(ExtentId id) const {
  const wire::PartMoved* part = remade(id);
  if (part == nullptr) return id;
  for (const auto& now : part->now()) {
    if (now.node() == core_.name) return id_of(now);
  }
  return id;
}

void Home::lead_on(const std::vector<ExtentId>& former, const wire::PartMoved& part) {
  for (const ExtentId& id : former) {
    wire::PartMoved& known = remade_[id] = part;
    known.clear_former();
    *known.mutable_was() = ref_of(id);
  }
}

Status Home::leave(const wire::PartMoved& part) {
  constexpr size_t kLeftMax = 65536;  // the new home leads from older ones, too
  const ExtentId was = id_of(part.was());
  OCM_TRY(find_frozen_too(was).status());
  if (directory_->requires_lease(was))
    return Status(Code::kUnsupported, "a replica moves only by a decision of the council");
  const auto named = published_extents_.find(was);
  const std::string allocation = named == published_extents_.end() ? std::string() : named->second;
  std::vector<ExtentId> former = formerly(was);
  former.push_back(was);
  (void)remove(was);
  if (const auto known = published_.find(allocation); known != published_.end())
    (void)control::relocate(known->second, part);
  lead_on(former, part);
  left_.insert(left_.end(), former.begin(), former.end());
  for (; left_.size() > kLeftMax; left_.pop_front()) remade_.erase(left_.front());
  log::info("extent_left", {{"extent", was.address.to_string()},
                            {"node", part.now(0).node()},
                            {"there", id_of(part.now(0)).address.to_string()}});
  return {};
}

void Home::drop_former(const wire::ExtentDescriptor& extent) {
  const ExtentId id = id_of(extent);
  // While its part is being made again it is needed, and ends with that.
  const auto here = table_->find(id);
  if (!here.is_ok() || shared_.contains(id) || !opens(*here.value(), extent.capability(), Access::kReadWrite))
    return;
  fault::reached(fault::State::kFormerDropped);
  drop(id);
}

}  // namespace ocm::node
