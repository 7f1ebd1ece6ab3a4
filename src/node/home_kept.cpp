// What a home's pools keep beyond its run: the extents of published allocations that were made durable.
//
//   published -> kept, with the record of the name -> promised -> the answer
//   start: what was kept -> an extent with a new id: its part goes on in it, one epoch later -> kept anew, promised -> told
//
// A daemon's table gives ids of one run, and so do others: what a home finds as it starts is a part that went on
// elsewhere (control/parts.h), as if another home had it now. Names, and who asks for a former id, follow by the rules of
// those. The record of an allocation is kept once, with the first of its extents here.
//
// Invariants
//   K1 What is kept has a name here. What has one and is durable is kept, or its publish failed.
//   K2 Who asked for a name, or for its end, is answered when that is so after a crash.
//   K3 No two runs tell different extents of a part under one epoch: what a run begins with is promised before it is told.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "control/allocation_wire.h"
#include "control/parts.h"
#include "node/home.h"

namespace ocm::node {
namespace {

constexpr size_t kFormerKept = 4;  // who slept through more runs of the home asks in vain

}  // namespace

Status Home::keep(const AllocationId& allocation) {
  const auto record = published_.find(allocation);
  if (record == published_.end()) return {};
  std::vector<std::pair<ExtentId, std::shared_ptr<memory::Lasting>>> durable;
  for (const auto& place : record->second.extents) {
    const auto named = published_extents_.find(place.id);
    if (named == published_extents_.end() || named->second != allocation) continue;
    const auto extent = find_frozen_too(place.id);
    auto lasting = extent.is_ok() ? extent.value()->backing->lasting() : nullptr;
    if (lasting != nullptr) durable.emplace_back(place.id, std::move(lasting));
  }
  std::vector<ExtentId> fresh;  // that were not kept before
  for (const auto& [id, lasting] : durable) {
    const control::Title* title = ownership_.find(id);
    control::GivenReplica give;
    give.replica = give.part.was = id;
    give.part.former = formerly(id);
    if (give.part.former.size() > kFormerKept)
      give.part.former.erase(give.part.former.begin(), give.part.former.end() - kFormerKept);
    give.part.epoch = epoch_of(id);
    give.part.allocation = title == nullptr ? allocation : title->allocation;
    give.attempt = title == nullptr ? 0 : title->attempt;
    if (id == durable.front().first) {
      give.published = record->second;
      // What a start tells anew: a record is never longer than when it was published, but for what a pool has room for.
      for (auto& place : give.published->extents) {
        if (place.node == core_.name) place.addresses.clear();
      }
      std::erase_if(give.published->homes, [this](const auto& home) { return home.node == core_.name; });
    } else {
      give.published.emplace();
      give.published->id = allocation;  // the rest is with the first
    }
    ++kept_changes_;
    const Status status = lasting->keep(control::to_bytes(give));
    if (!status.is_ok()) {
      for (const ExtentId& one : fresh) (void)forget(one);  // of the others the pool has what it had
      return Status(status.code(),
                    "keeping it beyond the run of node " + core_.name + ": " + std::string(status.message()))
          .with_node(core_.name);
    }
    if (kept_.insert_or_assign(id, lasting).second) fresh.push_back(id);
  }
  return {};
}

bool Home::forget(ExtentId id) {
  const auto kept = kept_.find(id);
  if (kept == kept_.end()) return false;
  ++kept_changes_;
  if (const Status status = kept->second->forget(); !status.is_ok())
    log::error("extent_stays_in_pool", {{"extent", id.address.to_string()}, {"why", status.message()}});
  kept_.erase(kept);
  return true;
}

control::Task<Status> Home::kept() {
  if (kept_promised_ == kept_changes_) co_return Status();
  const uint64_t changes = kept_changes_;
  struct Waiting {
    explicit Waiting(control::Env& env) : told(env) {}
    control::Signal told;
    std::optional<Status> status;
  };
  for (const Kind kind : table_->kinds()) {
    if (!table_->lasts(kind)) continue;
    const auto waiting = std::make_shared<Waiting>(core_.env);
    table_->promise(kind, [&env = core_.env, waiting](const Status& status) {
      env.post([waiting, status] {
        waiting->status = status;
        waiting->told.notify();
      });
    });
    while (!waiting->status) co_await waiting->told.wait();
    if (!waiting->status->is_ok()) co_return *waiting->status;
  }
  kept_promised_ = std::max(kept_promised_, changes);
  co_return Status();
}

Status Home::revive() {
  std::map<AllocationId, control::Allocation> records;
  for (const Kind kind : table_->kinds()) {
    if (!table_->lasts(kind)) continue;
    OCM_TRY_ASSIGN(auto survivors, table_->survivors(kind));
    std::vector<std::pair<control::GivenReplica, std::unique_ptr<memory::Backing>>> found;
    for (auto& survivor : survivors) {
      OCM_TRY_ASSIGN(auto give, control::given_from(survivor.description));
      found.emplace_back(std::move(give), std::move(survivor.backing));
      const auto& published = found.back().first.published;
      if (published && !published->extents.empty()) records[published->id] = *published;
    }
    for (auto& [give, backing] : found) OCM_TRY(revive(kind, std::move(give), std::move(backing), records));
  }
  for (const auto& [id, record] : records) {
    add_published(record);
    OCM_TRY(keep(id));
  }
  for (const Kind kind : table_->kinds()) {
    if (records.empty() || !table_->lasts(kind)) continue;
    OCM_TRY(
        wait_for_device([&](std::function<void(Status)> done) { table_->promise(kind, std::move(done)); }));
  }
  kept_promised_ = kept_changes_;  // K3
  if (!records.empty()) log::info("durable_names", {{"names", records.size()}, {"extents", kept_.size()}});
  return {};
}

Status Home::revive(Kind kind, control::GivenReplica give, std::unique_ptr<memory::Backing> backing,
                    std::map<AllocationId, control::Allocation>& records) {
  const auto contradicts = [kind](const std::string& what) {
    return Status(Code::kProtocol, std::string("a pool of kind ") + kind_name(kind) + " keeps an extent " +
                                       what + ": `ocm pool check` says more");
  };
  const auto record = give.published ? records.find(give.published->id) : records.end();
  if (record == records.end()) return contradicts("without the record of its allocation");
  control::Allocation& published = record->second;
  const auto place = std::find_if(published.extents.begin(), published.extents.end(),
                                  [&](const auto& one) { return one.id == give.replica; });
  if (place == published.extents.end()) return contradicts("that its allocation does not have");
  OCM_TRY(check_name(published.name));
  OCM_TRY(control::check_parts(published));
  std::shared_ptr<memory::Lasting> lasting = backing->lasting();
  auto made = table_->adopt(place->bytes, kind, std::move(backing));
  if (!made.is_ok()) {
    return Status(made.status().code(), "the pool keeps more than node " + core_.name + " offers of kind " +
                                            kind_name(kind) + ": " + std::string(made.status().message()));
  }
  const std::shared_ptr<memory::Extent> extent = std::move(made).value();
  kept_[extent->id] = std::move(lasting);
  control::PartMoved part = give.part;
  part.was = give.replica;
  ++part.epoch;
  control::PlacedExtent& now = part.now.emplace_back(describe(*extent));
  now.part = place->part;
  now.epoch = part.epoch;
  ownership_.add_named(extent->id, part.allocation, give.attempt,
                       {.uid = published.owner_uid, .bytes = place->bytes, .file = file_of(*extent)});
  if (!control::relocate(published, part)) return contradicts("at no place of its allocation");
  remember(part, extent->id);
  return {};
}

}  // namespace ocm::node
