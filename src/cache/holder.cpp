#include "cache/holder.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

namespace ocm::cache {

namespace {

using Act = NodeAction::Kind;
using State = NodeState;

/// No request or put is under way, and nothing is frozen: a local event may come.
bool is_settled(State state) {
  return state == State::kI || state == State::kS || state == State::kE || state == State::kO ||
         state == State::kM;
}
bool is_leaving(State state) {
  return state == State::kSiA || state == State::kEiA || state == State::kOiA || state == State::kMiA ||
         state == State::kIiA;
}
bool is_cleaning(State state) { return state == State::kMcA || state == State::kOcA; }
bool becomes_dirty(State state) {
  return state == State::kImAd || state == State::kSmA || state == State::kEmA;
}

uint32_t rounded(uint32_t frames, uint32_t to) { return (frames + to - 1) / to * to; }

}  // namespace

Holder::Holder(Out& out, uint64_t page_bytes, uint32_t frames)
    : out_(out), frames_(page_bytes), budget_(frames), queue_(0) {
  resize(frames, 0);
}

void Holder::resize(uint32_t frames, uint64_t now_ns) {
  budget_.resize(frames, now_ns);
  const uint32_t now = std::max(frames, Budget::kFewest);
  queue_.resize(std::max(rounded(now, frames_.in_chunk()), frames_.count()));
  queue_.resize(now);
  now_ns_ = now_ns;
  settle();
}

// ---- extents

void Holder::attach(const ExtentId& extent, uint32_t pages) {
  OCM_ASSERT(pages != 0);
  const auto [at, is_new] = extents_.try_emplace(extent);
  Extent& it = at->second;
  if (is_new) ++of_home_[extent.address.partition()];
  OCM_ASSERT(it.pages == 0 || it.pages == pages);
  it.pages = pages;
  it.detaching = false;
  if (it.streams == nullptr) it.streams = std::make_unique<Streams>(page_bytes(), pages);
}

void Holder::detach(const ExtentId& extent, uint64_t now_ns) {
  now_ns_ = now_ns;
  const auto it = extents_.find(extent);
  if (it == extents_.end()) return;
  it->second.detaching = true;
  if (it->second.cached == 0) return forget_extent(extent);
  for (const PageName& name : pages_of(extent)) ready_.push_back(name);
  settle();
}

void Holder::access(const PageName& name, PageAccess access, uint64_t now_ns) {
  OCM_ASSERT(uint64_t{access.offset} + std::max(access.into.size(), access.from.size()) <= page_bytes());
  now_ns_ = now_ns;
  Entry& entry = entry_of(name);
  entry.second.waiting.push_back(std::move(access));
  if (entry.second.waiting.size() > 1) return;  // H1: it waits, as the one before does
  ready_.push_back(name);
  settle();
}

void Holder::revoke(const ExtentId& extent, uint64_t now_ns) {
  now_ns_ = now_ns;
  const std::vector<PageName> pages = pages_of(extent);
  if (!pages.empty() && revoked_.emplace(extent, now_ns + late_ns_).second)
    revoked_in_order_.push_back(extent);
  for (const PageName& name : pages) {
    Entry& entry = entry_of(name);
    NodeEvent event;
    event.input = NodeInput::kRevoke;
    Code code = Code::kOk;
    (void)apply(entry, event, nullptr, code);
    forget_if_empty(entry);
  }
  settle();
}

// ---- messages and terms

void Holder::receive(const PageName& name, const Message& message, const PageBytes& bytes, uint64_t now_ns) {
  now_ns_ = now_ns;
  NodeEvent event;
  if (!to_event(message, out_.probed(home_of(name)), event)) return out_.fault(message.from, name);
  OCM_ASSERT((message.payload == Message::Payload::kPage) == (bytes != nullptr));
  Entry& entry = entry_of(name);
  take(entry, event, bytes);
  forget_if_empty(entry);
  settle();
}

void Holder::take(Entry& entry, const NodeEvent& event, const PageBytes& bytes) {
  const Message& message = event.message;
  const State before = entry.second.protocol.state;
  Code code = Code::kOk;
  const Outcome outcome = apply(entry, event, bytes, code);
  if (outcome == Outcome::kDone && bytes != nullptr)
    ++(message.from == kHome ? statistics_.from_home : statistics_.from_peers);
  if (event.input == NodeInput::kInv && outcome == Outcome::kDone) ++statistics_.invalidations;
  // The device failed: the bytes stay here, for now.
  const bool failed = event.input == NodeInput::kNack && (is_leaving(before) || is_cleaning(before));
  if (failed && outcome == Outcome::kDone) {
    failed_ns_ = now_ns_;
    entry.second.not_before_ns = now_ns_ + kAgainNs;
    stuck_.push_back(entry.first);
    bookkeep(entry);
  }
}

void Holder::taken(const PageName& name, NodeNumber peer, uint64_t request, uint64_t now_ns) {
  now_ns_ = now_ns;
  const auto it = pages_.find(name);
  if (it == pages_.end()) return;
  NodeEvent event;
  event.input = NodeInput::kTaken;
  event.message.peer = peer;
  event.message.request = request;
  Code code = Code::kOk;
  (void)apply(*it, event, nullptr, code);
  forget_if_empty(*it);
  settle();
}

template <class Do>
void Holder::each_page(NodeNumber home, Do act) {
  std::vector<PageName> names;
  for (const auto& [name, page] : pages_) {
    if (home_of(name) == home) names.push_back(name);
  }
  for (const PageName& name : names) {
    const auto it = pages_.find(name);
    if (it == pages_.end()) continue;
    act(*it);
    forget_if_empty(*it);
  }
}

void Holder::term_ended(NodeNumber home, uint64_t now_ns) {
  now_ns_ = now_ns;
  each_page(home, [&](Entry& entry) {
    NodeEvent event;
    event.input = NodeInput::kTermEnd;
    Code code = Code::kOk;
    (void)apply(entry, event, nullptr, code);
  });
  settle();
}

uint64_t Holder::term_began(NodeNumber home, uint64_t now_ns) {
  now_ns_ = now_ns;
  uint64_t returns = 0;
  each_page(home, [&](Entry& entry) {
    if (entry.second.protocol.state != State::kX) return;
    Code code = Code::kOk;
    (void)local(entry, NodeInput::kTermBegin, false, code);
    ++returns;
  });
  return returns;
}

void Holder::term_ready(NodeNumber home, uint64_t now_ns) {
  now_ns_ = now_ns;
  each_page(home, [&](Entry& entry) { ready_.push_back(entry.first); });
  settle();
}

bool Holder::has_frozen(NodeNumber home) const {
  return std::any_of(pages_.begin(), pages_.end(), [&](const auto& entry) {
    return home_of(entry.first) == home &&
           (entry.second.protocol.state == State::kX || entry.second.is_ending());
  });
}

bool Holder::is_ending(NodeNumber home) const {
  return std::any_of(pages_.begin(), pages_.end(), [&](const auto& entry) {
    return home_of(entry.first) == home && entry.second.is_ending();
  });
}

bool Holder::grace_over(NodeNumber home, uint64_t now_ns) {
  now_ns_ = now_ns;
  bool any = false;
  each_page(home, [&](Entry& entry) {
    if (entry.second.protocol.state != State::kX && !entry.second.is_ending()) return;
    NodeEvent event;
    event.input = NodeInput::kGraceOver;
    Code code = Code::kOk;
    (void)apply(entry, event, nullptr, code);
    any = true;
  });
  settle();
  return any;
}

// ---- one page

std::vector<PageName> Holder::pages_of(const ExtentId& extent) const {
  const auto it = extents_.find(extent);
  return names_of(pages_, extent, it == extents_.end() ? ~0u : it->second.cached == 0 ? 0 : it->second.pages);
}

Holder::Entry& Holder::entry_of(const PageName& name) {
  const auto [it, is_new] = pages_.try_emplace(name);
  if (is_new) {
    const auto extent = extents_.find(name.extent);
    if (extent != extents_.end()) ++extent->second.cached;
  }
  return *it;
}

void Holder::forget_if_empty(Entry& entry) {
  const Page& page = entry.second;
  if (page.protocol != NodePage() || page.frame != kNoFrame || !page.waiting.empty()) return;
  OCM_DASSERT(!page.is_dirty && !page.pinned);  // H5
  const PageName name = entry.first;
  pages_.erase(name);
  const auto extent = extents_.find(name.extent);
  if (extent == extents_.end()) return;
  OCM_DASSERT(extent->second.cached > 0);
  if (--extent->second.cached == 0 && extent->second.detaching) forget_extent(name.extent);
}

void Holder::forget_extent(const ExtentId& extent) {
  auto it = extents_.extract(extent);
  OCM_ASSERT(!it.empty());
  if (it.mapped().shadow != nullptr) out_.let_go(std::move(it.mapped().shadow));
  const auto home = of_home_.find(extent.address.partition());
  OCM_ASSERT(home != of_home_.end());
  if (--home->second == 0) of_home_.erase(home);
}

Holder::Outcome Holder::local(Entry& entry, NodeInput input, bool whole, Code& code) {
  NodeEvent event;
  event.input = input;
  event.whole = whole;
  event.fresh = out_.fresh();
  return apply(entry, event, nullptr, code);
}

Holder::Outcome Holder::apply(Entry& entry, const NodeEvent& event, const PageBytes& bytes, Code& code) {
  const State before = entry.second.protocol.state;
  const NodeStep result = step(entry.second.protocol, event);
  if (entry.second.mapped != nullptr && must_wait(entry, event, result, bytes)) return Outcome::kWait;
  entry.second.protocol = result.page;
  for (const NodeAction& action : result) act(entry, event, action, bytes);
  count(before, result.page.state);
  bookkeep(entry);
  code = result.code;
  return result.outcome;
}

void Holder::act(Entry& entry, const NodeEvent& event, const NodeAction& action, const PageBytes& bytes) {
  const PageName& name = entry.first;
  Page& page = entry.second;
  switch (action.kind) {
    case Act::kUnmap: OCM_ASSERT(page.mapped == nullptr); break;                              // H6
    case Act::kProtect: OCM_ASSERT(page.mapped == nullptr || !page.mapped->writable); break;  // H6
    case Act::kFill:
      OCM_ASSERT(page.frame != kNoFrame && bytes != nullptr && page.mapped == nullptr);
      std::memcpy(frames_.bytes(page.frame), bytes.get(), page_bytes());
      break;
    case Act::kOverwrite: {  // W1
      OCM_ASSERT(!page.waiting.empty() && page.waiting.front().kind == PageAccess::Kind::kWrite &&
                 page.waiting.front().from.size() == page_bytes());
      ++statistics_.served;
      perform(entry, page.waiting.front());
      page.waiting.pop_front();
      break;
    }
    case Act::kRestore: break;  // it is where it was
    case Act::kSend: {
      PageBytes out;
      if (action.message.payload == Message::Payload::kPage) {
        OCM_ASSERT(page.frame != kNoFrame);
        const auto copy = std::make_shared_for_overwrite<std::byte[]>(page_bytes());
        copy_out(entry, 0, {copy.get(), page_bytes()});
        out = copy;
        if (action.message.to != kHome) {
          ++statistics_.supplied;
          queue_.supply(page.frame);
        }
      }
      out_.post(name, action.message, std::move(out));
      break;
    }
    case Act::kAcknowledge: out_.taken(event.message.from, name, event.message.request); break;
    case Act::kWake:
      if (event.input == NodeInput::kTermEnd) {
        outlive_term(entry);
      } else if (action.code != Code::kOk) {
        fail_waiting(entry, action.code);
      }
      ready_.push_back(name);
      break;
    case Act::kFree: free_frame(entry); break;
    case Act::kFault:
      if (!revoked_.contains(name.extent)) out_.fault(event.message.from, name);  // H8
      break;
  }
}

void Holder::count(State before, State after) {
  const auto change = [&](uint32_t& counter, bool was, bool is) {
    OCM_DASSERT(!was || counter > 0);
    counter = counter - (was ? 1 : 0) + (is ? 1 : 0);
  };
  change(leaving_, is_leaving(before), is_leaving(after));
  change(cleaning_, is_cleaning(before), is_cleaning(after));
  change(becoming_dirty_, becomes_dirty(before), becomes_dirty(after));
  const bool left = is_leaving(before) && after == State::kI;
  if (left) ++statistics_.evicted;
  if (is_cleaning(before) && is_settled(after) && !ocm::cache::is_dirty(after)) ++statistics_.cleaned;
}

/// Brings in line what follows from the state: who is dirty, and who may be a victim.
void Holder::bookkeep(Entry& entry) {
  Page& page = entry.second;
  const State state = page.protocol.state;
  const bool dirty = ocm::cache::is_dirty(state);
  if (dirty != page.is_dirty) {
    page.is_dirty = dirty;
    if (dirty) {
      page.dirty_ns = now_ns_;
      page.dirty_at = dirty_.insert(dirty_.end(), &entry);
    } else {
      dirty_.erase(page.dirty_at);
    }
  }
  const bool pin = page.frame != kNoFrame &&
                   (!is_settled(state) || state == State::kI || page.protocol.is_kept() ||
                    !page.waiting.empty() || page.not_before_ns > now_ns_ || page.is_on_its_way());
  if (pin != page.pinned && page.frame != kNoFrame) {
    pin ? queue_.pin(page.frame) : queue_.unpin(page.frame);
    page.pinned = pin;
  }
  if (page.frame != kNoFrame) queue_.set_sole(page.frame, is_exclusive(state));
}

void Holder::perform(Entry& entry, PageAccess& access) {
  OCM_ASSERT(entry.second.mapped == nullptr || !access.writes() || access.maps());  // H6
  std::byte* at = frames_.bytes(entry.second.frame) + access.offset;
  switch (access.kind) {
    case PageAccess::Kind::kRead: copy_out(entry, access.offset, access.into); break;
    case PageAccess::Kind::kWrite: std::memcpy(at, access.from.data(), access.from.size()); break;
    case PageAccess::Kind::kModify: access.change(at); break;
    case PageAccess::Kind::kLoad:
    case PageAccess::Kind::kStore: map_page(entry, access); break;
  }
  out_.finish(std::move(access.done), Code::kOk);
}

/// Those that the page's state allows go on; and reads, where only writing is not allowed.
void Holder::fail_waiting(Entry& entry, Code code) {
  Page& page = entry.second;
  const State state = page.protocol.state;
  for (auto it = page.waiting.begin(); it != page.waiting.end();) {
    const bool goes_on = it->writes() ? can_store(state) : can_load(state) || code == Code::kPermission;
    if (goes_on) {
      ++it;
      continue;
    }
    ++statistics_.failed;
    out_.finish(std::move(it->done), code);
    it = page.waiting.erase(it);
  }
}

/// H9: nothing was done for them yet.
void Holder::outlive_term(Entry& entry) {
  if (out_.term(home_of(entry.first)) == Out::Term::kNone) return fail_waiting(entry, Code::kPeerLost);
  std::erase_if(entry.second.waiting, [&](PageAccess& access) {
    if (!std::exchange(access.outlived_term, true)) return false;
    ++statistics_.failed;
    out_.finish(std::move(access.done), Code::kPeerLost);
    return true;
  });
}

// ---- accesses

bool Holder::is_dirty_enough() const {
  return budget_.writers_wait(static_cast<uint32_t>(dirty_.size()) + becoming_dirty_, now_ns_);
}

/// H2, H4, and the home's term.
bool Holder::may_begin(Entry& entry, const PageAccess& access) {
  Page& page = entry.second;
  switch (out_.term(home_of(entry.first))) {
    case Out::Term::kNone: fail_waiting(entry, Code::kPeerLost); return false;
    case Out::Term::kBegins: return false;
    case Out::Term::kRuns: break;
  }
  if (access.writes() && !page.is_dirty && !becomes_dirty(page.protocol.state) && is_dirty_enough()) {
    ++statistics_.writers_waited;
    wait_in(dirty_waiters_, entry);
    return false;
  }
  if (page.frame == kNoFrame && !give_frame(entry)) {
    wait_in(frame_waiters_, entry);
    return false;
  }
  return true;
}

void Holder::wait_in(Queue& queue, Entry& entry) {
  OCM_DASSERT(!entry.second.waits);
  entry.second.waits = true;
  entry.second.waits_since_ns = now_ns_;
  queue.pages.push_back(entry.first);
}

/// The first of them asks again.
void Holder::go_on(Queue& queue) {
  const PageName name = queue.pages.front();
  queue.pages.pop_front();
  const auto it = pages_.find(name);
  if (it == pages_.end()) return;
  queue.moved_ns = now_ns_;
  it->second.waits = false;
  run(*it);
}

void Holder::give_up(Queue& queue) {
  if (failed_ns_ == 0 || failed_ns_ + give_up_ns_ <= now_ns_) return;
  while (!queue.pages.empty()) {
    const auto it = pages_.find(queue.pages.front());
    if (it != pages_.end() && it->second.waits) {
      if (std::max(it->second.waits_since_ns, queue.moved_ns) + give_up_ns_ > now_ns_) return;
      it->second.waits = false;
      fail_waiting(*it, Code::kIo);
      bookkeep(*it);
      ready_.push_back(it->first);
      forget_if_empty(*it);
    }
    queue.pages.pop_front();
  }
}

void Holder::run(Entry& entry) {
  Page& page = entry.second;
  while (!page.waiting.empty() && !page.waits) {
    PageAccess& access = page.waiting.front();
    if (page.mapped != nullptr && page.mapped->bars(access)) break;  // H6
    if (page.mapped != nullptr && access.writes() && !access.maps()) {
      withdraw(entry, Mapped::Level::kOut);
      break;
    }
    if (!may_begin(entry, access)) break;
    const State before = page.protocol.state;
    const bool whole = access.kind == PageAccess::Kind::kWrite && access.from.size() == page_bytes();
    Code code = Code::kOk;
    const Outcome outcome = local(entry, access.writes() ? NodeInput::kStore : NodeInput::kLoad, whole, code);
    if (outcome == Outcome::kWait) break;
    if (outcome == Outcome::kDone) {
      ++(before == State::kI ? statistics_.misses : statistics_.upgrades);
      if (before == State::kI) used(entry, true);
      break;
    }
    if (outcome == Outcome::kHit && access.maps() && page.mapped == nullptr) {
      begin_entering(entry, access.viewer);
      break;
    }
    if (outcome == Outcome::kHit) {
      ++statistics_.served;
      perform(entry, access);
      used(entry, false);
      if (access.maps()) map_ahead(entry.first, access);
    } else {
      OCM_ASSERT(outcome == Outcome::kFails);
      ++statistics_.failed;
      out_.finish(std::move(access.done), code);
    }
    page.waiting.pop_front();
  }
  const auto extent = extents_.find(entry.first.extent);
  const bool goes = extent == extents_.end() || extent->second.detaching;
  if (goes && page.waiting.empty() && is_settled(page.protocol.state) && has_copy(page.protocol.state))
    (void)leave(entry, NodeInput::kEvict);
  bookkeep(entry);
  forget_if_empty(entry);
}

void Holder::used(Entry& entry, bool missed) {
  Page& page = entry.second;
  queue_.touch(page.frame);
  if (!missed && !page.ahead) return;
  page.ahead = false;
  bring_ahead(entry.first, missed);
}

bool Holder::may_give_frame() const {
  return frames_.used() < budget_.frames(now_ns_) && no_memory_until_ns_ <= now_ns_;
}

bool Holder::give_frame(Entry& entry) {
  if (!may_give_frame()) return false;
  const Frame frame = frames_.take();
  if (frame == kNoFrame) {
    no_memory_until_ns_ = now_ns_ + kAgainNs;
    return false;
  }
  if (of_frame_.size() < frames_.count()) of_frame_.resize(frames_.count());
  of_frame_[frame] = &entry;
  entry.second.frame = frame;
  queue_.add(frame);
  queue_.pin(frame);
  entry.second.pinned = true;
  return true;
}

void Holder::free_frame(Entry& entry) {
  Page& page = entry.second;
  OCM_ASSERT(page.frame != kNoFrame && page.protocol.state == State::kI && !page.protocol.is_kept());  // I8
  OCM_ASSERT(page.mapped == nullptr);
  queue_.remove(page.frame);
  of_frame_[page.frame] = nullptr;
  frames_.give(page.frame);
  page.frame = kNoFrame;
  page.pinned = false;
  if (!page.ahead) return;
  page.ahead = false;
  ++statistics_.ahead_unused;
  const auto extent = extents_.find(entry.first.extent);
  if (extent != extents_.end()) extent->second.streams->dropped_unused(entry.first.page);
}

/// To read, also for who writes: a page that this node alone may write is lost with it, though nobody wrote it.
void Holder::bring_ahead(const PageName& from, bool missed) {
  const auto extent = extents_.find(from.extent);
  if (extent == extents_.end() || extent->second.detaching) return;
  const uint32_t busy = frames_.used() + static_cast<uint32_t>(frame_waiters_.pages.size());
  const uint32_t room = budget_.room(busy, now_ns_);
  const Streams::Run wanted = extent->second.streams->used(from.page, missed, room);
  if (wanted.count == 0) return;
  reads_ahead_until_ns_ = now_ns_ + 1'000'000'000;
  for (uint64_t at = wanted.first; at < wanted.first + wanted.count; ++at) {
    Entry& entry = entry_of({from.extent, static_cast<uint32_t>(at)});
    Page& page = entry.second;
    if (page.protocol.state == State::kI && page.frame == kNoFrame && page.waiting.empty() &&
        give_frame(entry)) {
      page.ahead = true;
      ++statistics_.ahead;
      Code code = Code::kOk;
      (void)local(entry, NodeInput::kLoad, false, code);
    }
    forget_if_empty(entry);
  }
}

// ---- frames

/// How many frames are to be free before somebody asks: what is brought in ahead takes no others.
uint32_t Holder::reserve(uint32_t frames) const {
  return now_ns_ < reads_ahead_until_ns_ ? frames / 8 : frames / 32;
}

void Holder::run_list(std::list<PageName>& list) {
  std::list<PageName> now;
  now.swap(list);
  for (const PageName& name : now) {
    const auto it = pages_.find(name);
    if (it == pages_.end()) continue;
    run(*it);
  }
}

void Holder::settle() {
  do {
    for (;;) {
      while (!ready_.empty()) run_list(ready_);
      if (!frame_waiters_.pages.empty() && may_give_frame()) {
        go_on(frame_waiters_);
      } else if (!dirty_waiters_.pages.empty() && !is_dirty_enough()) {
        go_on(dirty_waiters_);
      } else {
        break;
      }
    }
    clean();
    make_room();
  } while (!ready_.empty());
}

/// The page goes, or is cleaned, perhaps once it is withdrawn; false: not now.
bool Holder::leave(Entry& entry, NodeInput input) {
  Page& page = entry.second;
  if (!is_settled(page.protocol.state) || page.not_before_ns > now_ns_ || page.is_on_its_way() ||
      out_.term(home_of(entry.first)) != Out::Term::kRuns)
    return false;
  Code code = Code::kOk;
  const Outcome outcome = local(entry, input, false, code);
  OCM_ASSERT(outcome == Outcome::kDone || outcome == Outcome::kWait);
  bookkeep(entry);
  return true;
}

void Holder::make_room() {
  const uint32_t limit = budget_.frames(now_ns_);
  for (;;) {
    const uint64_t wanted = frame_waiters_.pages.size() + reserve(limit);
    if (frames_.used() - leaving_ - held_evicts_ + wanted <= limit) return;
    const TwoQueue::Victim victim = queue_.next(aged_);
    for (const Frame frame : std::exchange(aged_, {})) {  // R5
      Entry& aged = *of_frame_[frame];
      if (aged.second.mapped == nullptr) continue;
      withdraw(aged, Mapped::Level::kOut);
      bookkeep(aged);
    }
    if (victim.frame == kNoFrame || !leave(*of_frame_[victim.frame], NodeInput::kEvict)) return;
  }
}

void Holder::clean() {
  for (auto it = dirty_.begin(); it != dirty_.end() && cleaning_ + held_cleans_ < kCleansMost;) {
    Entry& entry = **it++;
    const bool idle = entry.second.dirty_ns + kIdleCleanNs <= now_ns_;
    const uint32_t under_way = std::min(dirty(), cleaning_ + held_cleans_);
    if (!budget_.cleans(dirty() - under_way, now_ns_) && !idle) return;
    const State state = entry.second.protocol.state;
    if (state == State::kO || state == State::kM) (void)leave(entry, NodeInput::kClean);
  }
}

void Holder::tick(uint64_t now_ns) {
  now_ns_ = ticked_ns_ = now_ns;
  std::list<PageName> stuck;
  stuck.swap(stuck_);
  for (const PageName& name : stuck) {
    const auto it = pages_.find(name);
    if (it == pages_.end()) continue;
    it->second.not_before_ns > now_ns ? stuck_.push_back(name) : bookkeep(*it);
  }
  std::list<PageName> staying;
  staying.swap(staying_);
  for (const PageName& name : staying) {
    const auto it = pages_.find(name);
    if (it == pages_.end() || it->second.mapped == nullptr ||
        it->second.mapped->stage != Mapped::Stage::kStays)
      continue;
    it->second.mapped->granted_ns + kStaysNs > now_ns ? staying_.push_back(name) : begin_withdrawing(*it);
  }
  while (!revoked_in_order_.empty() && revoked_.at(revoked_in_order_.front()) <= now_ns) {
    revoked_.erase(revoked_in_order_.front());
    revoked_in_order_.pop_front();
  }
  give_up_overdue();
  give_up(frame_waiters_);
  give_up(dirty_waiters_);
  settle();
  frames_.shrink(budget_.frames(now_ns));
}

/// From the last tick on, or what else happens would put it off.
uint64_t Holder::due_ns(uint64_t now_ns) const {
  uint64_t due = ~uint64_t{0};
  const uint64_t again_ns = ticked_ns_ + kAgainNs;
  if (!stuck_.empty() || !frame_waiters_.pages.empty() || !dirty_waiters_.pages.empty())
    due = std::min(due, again_ns);
  if (!revoked_in_order_.empty()) due = std::min(due, revoked_.at(revoked_in_order_.front()));
  due = std::min(due, overdue_due_ns());
  if (!staying_.empty()) due = std::min(due, std::max(now_ns, ticked_ns_ + kStaysNs));
  if (!dirty_.empty())
    due = std::min(due, std::max(dirty_.front()->second.dirty_ns + kIdleCleanNs, again_ns));
  if (frames_.used() > budget_.frames(now_ns)) due = std::min(due, ticked_ns_ + Budget::kShrinkStepNs);
  return due;
}

bool Holder::is_valid() const {
  uint32_t frames = 0, dirty = 0, leaving = 0, cleaning = 0, becoming = 0;
  for (const auto& entry : pages_) {
    const Page& page = entry.second;
    const State state = page.protocol.state;
    frames += page.frame != kNoFrame ? 1 : 0;
    dirty += page.is_dirty ? 1 : 0;
    leaving += is_leaving(state) ? 1 : 0;
    cleaning += is_cleaning(state) ? 1 : 0;
    becoming += becomes_dirty(state) ? 1 : 0;
    if (page.frame != kNoFrame && of_frame_[page.frame] != &entry) return false;
    if (page.mapped != nullptr) {  // H6
      const Mapped& mapped = *page.mapped;
      const bool is_used = mapped.stage == Mapped::Stage::kUsed;
      if (page.frame == kNoFrame || !can_load(state) || (mapped.writable && !can_store(state))) return false;
      if (is_used && !(mapped.held.empty() && mapped.unanswered.empty())) return false;
      if (!is_used && !page.pinned) return false;
    }
    if (page.is_dirty != ocm::cache::is_dirty(state)) return false;
    const bool needs_frame = has_copy(state) || page.protocol.is_kept() || state == State::kX;
    if (needs_frame && page.frame == kNoFrame) return false;
    if (page.frame != kNoFrame && !page.waiting.empty() && !page.pinned) return false;                // H3
    if (page.protocol == NodePage() && page.frame == kNoFrame && page.waiting.empty()) return false;  // H5
  }
  return frames == frames_.used() && dirty == dirty_.size() && leaving == leaving_ && cleaning == cleaning_ &&
         becoming == becoming_dirty_ && queue_.is_valid() && frames_.is_valid() && budget_.is_valid();
}

}  // namespace ocm::cache
