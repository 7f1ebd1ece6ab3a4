// What a home knows of parts that were made again, of theirs and of others', and what it frees for that.
#include <algorithm>

#include "base/fault.h"
#include "node/home.h"

namespace ocm::node {

const wire::PartRemade* Home::remade(ExtentId was) const {
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

const wire::PartRemade* Home::made_as(ExtentId id) const {
  const auto former = formerly_.find(id);
  return former == formerly_.end() ? nullptr : remade(former->second.front());
}

bool Home::is_known_lost(ExtentId id, ExtentId other) const {
  const auto known = degraded_.find(id);
  return known != degraded_.end() &&
         std::find(known->second.lost.begin(), known->second.lost.end(), other) != known->second.lost.end();
}

uint32_t Home::times_remade(ExtentId id) const {
  const wire::PartRemade* part = made_as(id);
  return part == nullptr ? 0 : part->remade();
}

ExtentId Home::present(ExtentId id) const {
  const wire::PartRemade* part = remade(id);
  if (part == nullptr) return id;
  for (const auto& now : part->now()) {
    if (now.node() == core_.name) return id_of(now);
  }
  return id;
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
