#include "cache/page_home.h"

#include <algorithm>

#include "base/assert.h"

namespace ocm::cache {

void PageHome::add(const ExtentId& extent, uint32_t pages, const DirectoryPolicy& policy) {
  OCM_ASSERT(pages != 0 && !has(extent));
  Extent& it = extents_[extent];
  it.pages = pages;
  it.policy = policy;
}

void PageHome::remove(const ExtentId& extent) {
  const auto it = extents_.find(extent);
  if (it == extents_.end()) return;
  for (const auto& [node, writes] : it->second.attached) out_.revoke(node, extent);
  const uint32_t pages = it->second.pages;
  extents_.erase(it);
  for (const PageName& name : names_of(pages_, extent, pages)) pages_.erase(name);
  for (auto& [node, names] : returned_) {
    for (const PageName& name : names_of(names, extent, pages)) names.erase(name);
  }
}

Status PageHome::attach(const ExtentId& extent, NodeNumber node, bool writes) {
  OCM_ASSERT(node < kHome);
  const auto it = extents_.find(extent);
  if (it == extents_.end()) return Code::kRevoked;
  bool& may = it->second.attached[node];
  may = may || writes;
  return {};
}

void PageHome::detach(const ExtentId& extent, NodeNumber node) {
  const auto it = extents_.find(extent);
  if (it != extents_.end()) it->second.attached.erase(node);
}

// ---- messages

void PageHome::receive(const PageName& name, const Message& message, PageBytes bytes, uint64_t now_ns) {
  OCM_ASSERT(message.from < kHome && (message.payload == Message::Payload::kPage) == (bytes != nullptr));
  const auto extent = extents_.find(name.extent);
  if (extent == extents_.end()) return refuse(name, message);
  const auto attached = extent->second.attached.find(message.from);
  // It was taken for over meanwhile, and what it had is others'.
  if (attached == extent->second.attached.end()) return refuse(name, message);
  if (name.page >= extent->second.pages) {
    ++statistics_.faults;
    return out_.fault(message.from, name);
  }
  if (message.kind == MessageKind::kReturn) returned_[message.from].insert(name);
  ++statistics_.requests;
  Entry& entry = entry_of(name, extent->second);
  DirectoryEvent event;
  event.message = message;
  if (message.kind == MessageKind::kGetM && !attached->second) event.refuse = Code::kPermission;
  if (message.kind == MessageKind::kPutD || message.kind == MessageKind::kClean) {
    auto& puts = entry.second.puts;
    std::erase_if(puts, [&](const auto& put) { return put.first == message.from; });
    puts.emplace_back(message.from, std::move(bytes));
  } else if (bytes != nullptr) {
    entry.second.bytes = std::move(bytes);
    // What was asked for is here: its sender need keep it no longer.
    if (message.kind == MessageKind::kProbeReply || message.kind == MessageKind::kRecalled)
      out_.taken(message.from, name, message.request);
  }
  apply(entry, event, now_ns);
}

/// The extent is gone, and the node does not know yet.
void PageHome::refuse(const PageName& name, const Message& message) {
  Message out;
  out.to = message.from;
  out.from = kHome;
  out.request = message.request;
  switch (message.kind) {
    case MessageKind::kGetS:
    case MessageKind::kGetM:
      out.kind = MessageKind::kNack;
      out.code = Code::kRevoked;
      break;
    case MessageKind::kPutS:
    case MessageKind::kPutD:
    case MessageKind::kClean: out.kind = MessageKind::kPutStale; break;
    case MessageKind::kReturn: out.kind = MessageKind::kNoMore; break;
    default: return;
  }
  out_.post(message.from, name, out, nullptr);
}

void PageHome::was_read(const PageName& name, Code code, PageBytes bytes, uint64_t now_ns) {
  const auto it = pages_.find(name);
  if (it == pages_.end() || !it->second.uses_storage) return;
  it->second.uses_storage = false;
  it->second.bytes = std::move(bytes);
  if (code != Code::kOk) ++statistics_.failed_reads;
  DirectoryEvent event;
  event.kind = DirectoryEvent::Kind::kRead;
  event.good = code == Code::kOk;
  event.bad_slot = code == Code::kLost;
  apply(*it, event, now_ns);
}

void PageHome::was_written(const PageName& name, Code code, uint64_t now_ns) {
  const auto it = pages_.find(name);
  if (it == pages_.end() || !it->second.uses_storage) return;
  it->second.uses_storage = false;
  if (code != Code::kOk) ++statistics_.failed_writes;
  DirectoryEvent event;
  event.kind = DirectoryEvent::Kind::kWritten;
  event.good = code == Code::kOk;
  apply(*it, event, now_ns);
}

// ---- terms

template <class Do>
void PageHome::each_page(Do act) {
  std::vector<PageName> names;
  names.reserve(pages_.size());
  for (const auto& [name, page] : pages_) names.push_back(name);
  for (const PageName& name : names) {
    const auto it = pages_.find(name);
    if (it != pages_.end()) act(*it);
  }
}

void PageHome::term_ended(NodeNumber node, bool may_return, uint64_t now_ns) {
  returned_.erase(node);
  DirectoryEvent event;
  event.kind = DirectoryEvent::Kind::kTermEnded;
  event.node = node;
  event.good = may_return;
  each_page([&](Entry& entry) { apply(entry, event, now_ns); });
  if (may_return) return;
  for (auto& [id, extent] : extents_) extent.attached.erase(node);
}

void PageHome::returned(NodeNumber node, bool forgot, uint64_t now_ns) {
  const auto names = std::move(returned_[node]);
  returned_.erase(node);
  DirectoryEvent event;
  event.message.kind = MessageKind::kReturn;
  event.message.from = node;
  event.message.to = kHome;
  event.message.forgot = forgot;
  each_page([&](Entry& entry) {
    if (!names.contains(entry.first)) apply(entry, event, now_ns);
  });
}

uint64_t PageHome::returns(NodeNumber node) const {
  const auto it = returned_.find(node);
  return it == returned_.end() ? 0 : it->second.size();
}

void PageHome::tick(uint64_t now_ns) {
  while (!due_.empty() && due_.begin()->first <= now_ns) {
    const PageName name = due_.begin()->second;
    const uint64_t at = due_.begin()->first;
    due_.erase(due_.begin());
    const auto it = pages_.find(name);
    if (it == pages_.end() || it->second.due_ns != at) continue;
    it->second.due_ns = 0;
    DirectoryEvent event;
    const bool idle = it->second.page.busy == Busy::kIdle;
    event.kind = idle ? DirectoryEvent::Kind::kGraceOver : DirectoryEvent::Kind::kOverdue;
    if (!idle) ++statistics_.overdue;
    apply(*it, event, now_ns);
  }
}

// ---- one page

PageHome::Entry& PageHome::entry_of(const PageName& name, const Extent& extent) {
  const auto [it, is_new] = pages_.try_emplace(name);
  if (is_new) {  // G1
    it->second.page.epoch = extent.epoch;
    it->second.page.version = it->second.page.storage_version = extent.version;
  }
  return *it;
}

void PageHome::apply(Entry& entry, const DirectoryEvent& event, uint64_t now_ns) {
  const auto extent = extents_.find(entry.first.extent);
  OCM_ASSERT(extent != extents_.end());
  Page& page = entry.second;
  DirectoryEvent mine = event;
  mine.ticket = out_.fresh();
  const DirectoryPage before = page.page;
  DirectoryStep result = step(std::move(page.page), mine, extent->second.policy);
  page.page = std::move(result.page);
  if (page.page.state == PageState::kL && before.state != PageState::kL) ++statistics_.lost;
  if (page.page.epoch != before.epoch) ++statistics_.repairs;
  for (const DirectoryAction& action : result.actions) act(entry, action);
  if (page.page.busy == Busy::kIdle || page.page.busy == Busy::kFetch) page.bytes = nullptr;
  if (page.page.busy == Busy::kIdle) page.puts.clear();  // nobody's: they were refused
  watch(entry, before, now_ns);
  forget_if_empty(entry);
}

void PageHome::act(Entry& entry, const DirectoryAction& action) {
  const PageName& name = entry.first;
  Page& page = entry.second;
  switch (action.kind) {
    case DirectoryAction::Kind::kSend: {
      PageBytes bytes;
      if (action.message.payload == Message::Payload::kPage) {
        OCM_ASSERT(page.bytes != nullptr);
        bytes = page.bytes;
      }
      out_.post(action.message.to, name, action.message, std::move(bytes));
      break;
    }
    case DirectoryAction::Kind::kRead:
      OCM_ASSERT(!page.uses_storage);  // G3
      page.uses_storage = true;
      ++statistics_.reads;
      out_.read(name);
      break;
    case DirectoryAction::Kind::kWrite: {
      OCM_ASSERT(!page.uses_storage);  // G3
      page.uses_storage = true;
      ++statistics_.writes;
      PageBytes bytes = page.bytes;
      const Transaction& open = page.page.transaction;
      if (open.storing == Transaction::Storing::kPut) {
        const auto put = std::find_if(page.puts.begin(), page.puts.end(),
                                      [&](const auto& it) { return it.first == open.asked.node; });
        OCM_ASSERT(put != page.puts.end());  // G2
        bytes = std::move(put->second);
        page.puts.erase(put);
      }
      OCM_ASSERT(bytes != nullptr);
      out_.write(name, std::move(bytes));
      break;
    }
    case DirectoryAction::Kind::kFault:
      ++statistics_.faults;
      out_.fault(action.message.from, name);
      break;
  }
}

/// G4.
void PageHome::watch(Entry& entry, const DirectoryPage& before, uint64_t now_ns) {
  Page& page = entry.second;
  const DirectoryPage& now = page.page;
  const bool idle = now.busy == Busy::kIdle;
  if (idle && now.state != PageState::kA) {
    page.due_ns = 0;
    return;
  }
  const bool same = now.busy == before.busy && now.transaction.ticket == before.transaction.ticket &&
                    (!idle || before.state == PageState::kA);
  if (same && page.due_ns != 0) return;
  page.due_ns = now_ns + (idle ? limits_.grace_ns : limits_.overdue_ns);
  due_.emplace(page.due_ns, entry.first);
}

void PageHome::forget_if_empty(Entry& entry) {
  const DirectoryPage& page = entry.second.page;
  if (page.busy != Busy::kIdle || page.state != PageState::kU || !page.queue.empty()) return;
  OCM_DASSERT(!entry.second.uses_storage && page.ring.empty() && page.gone.empty());
  Extent& extent = extents_.find(entry.first.extent)->second;
  extent.epoch = std::max(extent.epoch, page.epoch);  // G1
  extent.version = std::max(extent.version, page.version);
  const PageName name = entry.first;
  pages_.erase(name);
}

bool PageHome::is_valid() const {
  return std::all_of(pages_.begin(), pages_.end(), [&](const auto& entry) {
    const Page& page = entry.second;
    const bool storing = page.page.busy == Busy::kRead || page.page.busy == Busy::kWrite;
    return extents_.contains(entry.first.extent) && page.page.is_valid() && page.uses_storage == storing &&
           (page.page.busy != Busy::kIdle || page.page.state != PageState::kU);
  });
}

}  // namespace ocm::cache
