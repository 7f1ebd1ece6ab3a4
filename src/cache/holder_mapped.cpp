// Pages that programs map: into a shadow when they are touched, and withdrawn before anything changes that must not find
// them used (H6).
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "cache/holder.h"

namespace ocm::cache {

namespace {

bool is_local(NodeInput input) { return input == NodeInput::kEvict || input == NodeInput::kClean; }

}  // namespace

void Holder::show(const ExtentId& extent, std::shared_ptr<Shadow> shadow, uint64_t number) {
  const auto it = extents_.find(extent);
  OCM_ASSERT(it != extents_.end() && it->second.shadow == nullptr && shadow != nullptr);
  it->second.shadow = std::move(shadow);
  it->second.shadow_number = number;
}

bool Holder::add_viewer(const ExtentId& extent, const Shadow* shadow, std::shared_ptr<Viewer> viewer) {
  if (shadow_of(extent).get() != shadow || shadow == nullptr) return false;
  extents_.find(extent)->second.viewers.push_back(std::move(viewer));
  return true;
}

bool Holder::is_viewer(const ExtentId& extent, const Viewer* viewer) const {
  const auto it = extents_.find(extent);
  if (it == extents_.end() || it->second.detaching) return false;
  const auto& all = it->second.viewers;
  return std::any_of(all.begin(), all.end(), [&](const auto& one) { return one.get() == viewer; });
}

bool Holder::is_waiting(const PageName& name, const Viewer* viewer, bool stores) const {
  const auto it = pages_.find(name);
  if (it == pages_.end()) return false;
  const std::list<PageAccess>& waiting = it->second.waiting;
  return std::any_of(waiting.begin(), waiting.end(), [&](const PageAccess& one) {
    return one.maps() && one.viewer.get() == viewer && one.writes() == stores;
  });
}

/// Those of one viewer, or of all (null).
void Holder::refuse_waiting(Entry& entry, const Viewer* viewer) {
  std::list<PageAccess>& waiting = entry.second.waiting;
  for (auto it = waiting.begin(); it != waiting.end();) {
    if (!it->maps() || (viewer != nullptr && it->viewer.get() != viewer)) {
      ++it;
      continue;
    }
    ++statistics_.failed;
    out_.finish(std::move(it->done), Code::kRevoked);
    it = waiting.erase(it);
  }
}

void Holder::viewer_ended(const ExtentId& extent, const Viewer* viewer, uint64_t now_ns) {
  now_ns_ = now_ns;
  const auto known = extents_.find(extent);
  if (known != extents_.end())
    std::erase_if(known->second.viewers, [&](const auto& one) { return one.get() == viewer; });
  for (const PageName& name : pages_of(extent)) {
    const auto it = pages_.find(name);
    if (it == pages_.end()) continue;
    refuse_waiting(*it, viewer);
    ready_.push_back(name);
    if (it->second.mapped == nullptr) continue;
    Mapped& mapped = *it->second.mapped;
    if (mapped.stage == Mapped::Stage::kEntering && mapped.entering_by == viewer) {
      mapped.stage = Mapped::Stage::kMoving;  // it is in its frame
      end_withdrawing(*it);
      continue;
    }
    std::erase_if(mapped.writers, [&](const auto& one) { return one.get() == viewer; });
    if (std::erase(mapped.unanswered, viewer) != 0 && mapped.unanswered.empty()) protection_ended(*it);
    if (known == extents_.end() || !known->second.viewers.empty() || it->second.mapped == nullptr) continue;
    withdraw(*it, Mapped::Level::kOut);
    bookkeep(*it);
  }
  drop_shadow_if_unused(extent);
  settle();
}

void Holder::leave_shadow(Entry& entry) {
  entry.second.mapped.reset();
  const auto extent = extents_.find(entry.first.extent);
  OCM_ASSERT(extent != extents_.end() && extent->second.mapped > 0);
  --extent->second.mapped;
  drop_shadow_if_unused(entry.first.extent);
}

void Holder::drop_shadow_if_unused(const ExtentId& extent) {
  const auto it = extents_.find(extent);
  if (it == extents_.end() || it->second.shadow == nullptr || it->second.mapped != 0 ||
      !it->second.viewers.empty())
    return;
  out_.let_go(std::exchange(it->second.shadow, nullptr));
}

void Holder::copy_out(const Entry& entry, uint64_t offset, std::span<std::byte> into) {
  const Page& page = entry.second;
  if (into.empty()) return;  // who only brings the page here
  if (page.mapped != nullptr && page.mapped->stage != Mapped::Stage::kEntering)
    return page.mapped->shadow->read(entry.first.page, offset, into);
  std::memcpy(into.data(), frames_.bytes(page.frame) + offset, into.size());
}

/// The viewer brings it there, from bytes of its own: the frame may be another page's before it has.
void Holder::begin_entering(Entry& entry, const std::shared_ptr<Viewer>& viewer) {
  Page& page = entry.second;
  const auto extent = extents_.find(entry.first.extent);
  OCM_ASSERT(extent != extents_.end() && extent->second.shadow != nullptr && page.mapped == nullptr);
  const auto copy = std::make_shared_for_overwrite<std::byte[]>(page_bytes());
  std::memcpy(copy.get(), frames_.bytes(page.frame), page_bytes());
  page.mapped = std::make_unique<Mapped>();
  page.mapped->shadow = extent->second.shadow;
  page.mapped->shadow_number = extent->second.shadow_number;
  page.mapped->entering_by = viewer.get();
  ++extent->second.mapped;
  viewer->enter(entry.first.page, extent->second.shadow, copy);
  bookkeep(entry);
}

/// Who waits for it gets it first, so that it goes on; what was held meanwhile comes then.
void Holder::entered(const PageName& name, const Viewer* viewer, uint64_t now_ns) {
  now_ns_ = now_ns;
  const auto it = pages_.find(name);
  if (it == pages_.end() || it->second.mapped == nullptr) return;
  Mapped& mapped = *it->second.mapped;
  if (mapped.stage != Mapped::Stage::kEntering || mapped.entering_by != viewer) return;
  mapped.stage = Mapped::Stage::kUsed;
  frames_.strip(it->second.frame);
  std::list<Held> held;
  held.swap(mapped.held);
  const Mapped::Level level = std::exchange(mapped.level, Mapped::Level::kNothing);
  run(*it);
  const auto still = pages_.find(name);
  OCM_ASSERT(still != pages_.end() && still->second.mapped != nullptr);
  Mapped& now = *still->second.mapped;
  now.held.splice(now.held.begin(), held);
  if (!now.held.empty() || level != Mapped::Level::kNothing) withdraw(*still, Mapped::Level::kOut);
  bookkeep(*still);
  settle();
}

/// A program that reads or writes one page after the other faults once for some.
void Holder::map_ahead(const PageName& from, const PageAccess& access) {
  for (uint32_t i = 1; i < kMapsAhead; ++i) {
    const auto it = pages_.find({from.extent, from.page + i});
    if (it == pages_.end()) return;
    Page& page = it->second;
    const NodeState state = page.protocol.state;
    if (!page.ahead || page.mapped != nullptr || !page.waiting.empty() ||
        !(access.writes() ? can_store(state) : can_load(state)))
      return;
    PageAccess next = access;
    next.done = [](Code) {};
    page.waiting.push_back(std::move(next));
    ready_.push_back(it->first);
  }
}

/// The access hits: its page is where its program may use it from now on.
void Holder::map_page(Entry& entry, const PageAccess& access) {
  Page& page = entry.second;
  Mapped& mapped = *page.mapped;
  OCM_ASSERT(mapped.stage == Mapped::Stage::kUsed);
  const bool writable = access.writes() || (access.may_store && can_store(page.protocol.state));
  if (writable) {
    OCM_ASSERT(can_store(page.protocol.state));  // I12
    mapped.writable = true;
    if (std::find(mapped.writers.begin(), mapped.writers.end(), access.viewer) == mapped.writers.end())
      mapped.writers.push_back(access.viewer);
  }
  mapped.granted_ns = now_ns_;
  ++(access.writes() ? statistics_.mapped_stores : statistics_.mapped_loads);
  access.viewer->grant(entry.first.page, writable);
}

/// H6: whether the page is to be withdrawn before the event has `result`, and is held until then.
bool Holder::must_wait(Entry& entry, const NodeEvent& event, const NodeStep& result, const PageBytes& bytes) {
  using Level = Mapped::Level;
  Mapped& mapped = *entry.second.mapped;
  Level level = Level::kNothing;
  for (const NodeAction& action : result) {
    if (action.kind == NodeAction::Kind::kUnmap || action.kind == NodeAction::Kind::kFree)
      level = Level::kOut;
    if (action.kind == NodeAction::Kind::kProtect && mapped.writable)
      level = std::max(level, Level::kProtected);
  }
  const bool is_moving = mapped.stage == Mapped::Stage::kMoving || mapped.stage == Mapped::Stage::kEntering;
  const bool in_order = (!mapped.held.empty() || is_moving) && event.input != NodeInput::kLoad &&
                        event.input != NodeInput::kStore && event.input != NodeInput::kTaken;
  if (level == Level::kNothing && !in_order) return false;
  mapped.held.push_back({event, bytes});
  held_evicts_ += event.input == NodeInput::kEvict ? 1 : 0;
  held_cleans_ += event.input == NodeInput::kClean ? 1 : 0;
  withdraw(entry, level);
  return true;
}

void Holder::withdraw(Entry& entry, Mapped::Level level) {
  using Stage = Mapped::Stage;
  Mapped& mapped = *entry.second.mapped;
  mapped.level = std::max(mapped.level, level);
  if (mapped.stage == Stage::kEntering && mapped.asked_ns == 0) {  // entered() goes on; or give_up_overdue()
    mapped.asked_ns = now_ns_;
    withdrawing_.emplace_back(entry.first, now_ns_);
  }
  if (mapped.stage != Stage::kUsed) return;
  mapped.stage = Stage::kStays;
  mapped.asked_ns = now_ns_;
  withdrawing_.emplace_back(entry.first, now_ns_);
  if (mapped.granted_ns + kStaysNs <= now_ns_)
    begin_withdrawing(entry);
  else
    staying_.push_back(entry.first);
}

void Holder::begin_withdrawing(Entry& entry) {
  Mapped& mapped = *entry.second.mapped;
  OCM_ASSERT(mapped.stage == Mapped::Stage::kStays);
  ++statistics_.withdrawn;
  mapped.stage = Mapped::Stage::kProtecting;
  if (!mapped.writable) return protection_ended(entry);
  for (const auto& writer : mapped.writers) {
    mapped.unanswered.push_back(writer.get());
    writer->protect(entry.first.page);
  }
  if (mapped.unanswered.empty()) protection_ended(entry);
}

void Holder::is_protected(const PageName& name, const Viewer* viewer, uint64_t now_ns) {
  now_ns_ = now_ns;
  const auto it = pages_.find(name);
  if (it == pages_.end() || it->second.mapped == nullptr) return;  // the viewer ended meanwhile
  Mapped& mapped = *it->second.mapped;
  if (std::erase(mapped.unanswered, viewer) != 0 && mapped.unanswered.empty()) protection_ended(*it);
  settle();
}

void Holder::protection_ended(Entry& entry) {
  Mapped& mapped = *entry.second.mapped;
  OCM_ASSERT(mapped.stage == Mapped::Stage::kProtecting);
  mapped.writable = false;
  mapped.writers.clear();
  if (mapped.level != Mapped::Level::kOut) return end_withdrawing(entry);
  mapped.stage = Mapped::Stage::kMoving;
  mapped.move = mapped.shadow->move_out(entry.first.page, frames_.bytes(entry.second.frame));
}

void Holder::moved_out(const PageName& name, uint64_t shadow_number, uint64_t now_ns) {
  now_ns_ = now_ns;
  const auto it = pages_.find(name);
  // It was given up a moment ago.
  if (it == pages_.end() || it->second.mapped == nullptr || it->second.mapped->shadow_number != shadow_number)
    return;
  OCM_ASSERT(it->second.mapped->stage == Mapped::Stage::kMoving);
  end_withdrawing(*it);
  settle();
}

/// What withdraws takes no longer than give_up_after(). A process that stood still for so long finds that everything is
/// overdue: what could not answer meanwhile gets a while for it.
void Holder::give_up_overdue() {
  while (!withdrawing_.empty()) {
    const auto [name, asked_ns] = withdrawing_.front();
    const auto it = pages_.find(name);
    const bool is =
        it != pages_.end() && it->second.is_on_its_way() && it->second.mapped->asked_ns == asked_ns;
    if (is && asked_ns + give_up_ns_ > now_ns_) break;
    if (is && overdue_since_ns_ == 0) overdue_since_ns_ = now_ns_;
    if (is && overdue_since_ns_ + give_up_ns_ / 8 > now_ns_) return;
    withdrawing_.pop_front();
    if (is) give_up_shadow(name.extent);
  }
  overdue_since_ns_ = 0;
}

uint64_t Holder::overdue_due_ns() const {
  if (withdrawing_.empty()) return ~uint64_t{0};
  return overdue_since_ns_ == 0 ? withdrawing_.front().second + give_up_ns_
                                : overdue_since_ns_ + give_up_ns_ / 8;
}

void Holder::give_up_shadows(uint64_t now_ns) {
  now_ns_ = now_ns;
  std::vector<ExtentId> all;
  for (const auto& [id, extent] : extents_) {
    if (extent.shadow != nullptr) all.push_back(id);
  }
  for (const ExtentId& id : all) give_up_shadow(id);
  settle();
}

/// The bytes come back into frames, whoever still looks at the shadow.
void Holder::give_up_shadow(const ExtentId& extent) {
  const auto it = extents_.find(extent);
  if (it == extents_.end() || it->second.shadow == nullptr) return;
  const std::shared_ptr<Shadow> shadow = std::exchange(it->second.shadow, nullptr);
  const auto viewers = std::exchange(it->second.viewers, {});
  const uint64_t copied = shadow->give_up();
  for (const auto& viewer : viewers) viewer->end();
  ++statistics_.given_up;
  for (const PageName& name : pages_of(extent)) {
    const auto known = pages_.find(name);
    if (known == pages_.end()) continue;
    refuse_waiting(*known, nullptr);
    ready_.push_back(name);
    Page& page = known->second;
    if (page.mapped == nullptr) continue;
    const bool is_moving = page.mapped->stage == Mapped::Stage::kMoving;
    const bool is_entering = page.mapped->stage == Mapped::Stage::kEntering;
    if (!is_entering && (!is_moving || page.mapped->move > copied))
      shadow->read(name.page, 0, {frames_.bytes(page.frame), page_bytes()});
    page.mapped->stage = Mapped::Stage::kMoving;
    page.mapped->writable = false;
    end_withdrawing(*known);
  }
  out_.let_go(shadow);
}

/// What was held goes on, in its order.
void Holder::end_withdrawing(Entry& entry) {
  Page& page = entry.second;
  Mapped& mapped = *page.mapped;
  std::list<Held> held;
  held.swap(mapped.held);
  const bool is_out = mapped.stage == Mapped::Stage::kMoving;
  mapped.stage = Mapped::Stage::kUsed;
  mapped.level = Mapped::Level::kNothing;
  if (is_out) leave_shadow(entry);
  for (const Held& one : held) {
    held_evicts_ -= one.event.input == NodeInput::kEvict ? 1 : 0;
    held_cleans_ -= one.event.input == NodeInput::kClean ? 1 : 0;
  }
  for (const Held& one : held) {
    const NodeState state = page.protocol.state;
    const NodeInput input = one.event.input;
    const bool dirty = state == NodeState::kO || state == NodeState::kM;
    if (is_local(input)) {
      if (input == NodeInput::kEvict ? has_copy(state) : dirty) (void)leave(entry, input);
    } else if (input != NodeInput::kGraceOver || state == NodeState::kX) {
      take(entry, one.event, one.bytes);
    }
  }
  bookkeep(entry);
  ready_.push_back(entry.first);  // which also forgets it if nothing is left
}

}  // namespace ocm::cache
