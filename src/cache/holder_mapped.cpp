// Pages that programs map: into a shadow when they are touched, and withdrawn before anything changes that must not find
// them used (H6).
#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "cache/holder.h"

namespace ocm::cache {

namespace {

bool is_local(NodeInput input) { return input == NodeInput::kEvict || input == NodeInput::kClean; }

}  // namespace

void Holder::show(const ExtentId& extent, std::shared_ptr<Shadow> shadow) {
  const auto it = extents_.find(extent);
  OCM_ASSERT(it != extents_.end() && it->second.shadow == nullptr && shadow != nullptr);
  it->second.shadow = std::move(shadow);
}

void Holder::viewer_ended(const ExtentId& extent, const Viewer* viewer, uint64_t now_ns) {
  now_ns_ = now_ns;
  for (const PageName& name : pages_of(extent)) {
    const auto it = pages_.find(name);
    if (it == pages_.end() || it->second.mapped == nullptr) continue;
    Mapped& mapped = *it->second.mapped;
    std::erase_if(mapped.writers, [&](const auto& one) { return one.get() == viewer; });
    if (std::erase(mapped.unanswered, viewer) != 0 && mapped.unanswered.empty()) protection_ended(*it);
  }
  settle();
}

void Holder::enter_shadow(Entry& entry, const std::byte* bytes) {
  const auto extent = extents_.find(entry.first.extent);
  OCM_ASSERT(extent != extents_.end() && extent->second.shadow != nullptr);
  std::memcpy(extent->second.shadow->page(entry.first.page), bytes, page_bytes());  // U1
  entry.second.mapped = std::make_unique<Mapped>();
  entry.second.mapped->shadow = extent->second.shadow;
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
    map_page(*it, access);
    used(*it, false);
  }
}

/// The access hits: its page is where its program may use it from now on.
void Holder::map_page(Entry& entry, const PageAccess& access) {
  Page& page = entry.second;
  if (page.mapped == nullptr) {
    enter_shadow(entry, frames_.bytes(page.frame));
    frames_.strip(page.frame);
  }
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
  const bool is_moving = mapped.stage == Mapped::Stage::kMoving;
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
  if (mapped.stage != Stage::kUsed) return;
  mapped.stage = Stage::kStays;
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
  ++moving_;
  mapped.shadow->move_out(entry.first.page, frames_.bytes(entry.second.frame));
}

void Holder::moved_out(const PageName& name, uint64_t now_ns) {
  now_ns_ = now_ns;
  const auto it = pages_.find(name);
  OCM_ASSERT(it != pages_.end() && it->second.mapped != nullptr &&
             it->second.mapped->stage == Mapped::Stage::kMoving);
  --moving_;
  end_withdrawing(*it);
  settle();
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
  if (is_out) page.mapped.reset();
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
