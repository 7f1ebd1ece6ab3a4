#include "node/cached_extents.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "cache/batch.h"
#include "memory/registry/registry.h"
#include "node/as_daemon.h"

namespace ocm::node {

using control::Reply;
using control::Task;

namespace {

/// Of one message.
constexpr size_t kAtOnce = 1024;

}  // namespace

/// An extent that is served here.
class CachedExtents::Open {
 public:
  Open(Directory& directory, std::shared_ptr<OpenMap> all, ExtentId id)
      : directory_(directory), all_(std::move(all)), id_(id) {}
  ~Open() {
    (void)directory_.revoke(id_);
    all_->erase(id_);
  }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;

 private:
  Directory& directory_;
  const std::shared_ptr<OpenMap> all_;
  const ExtentId id_;
};

bool CachedExtents::may_be_cached(const control::Allocation& allocation) const {
  return home_.caches() != nullptr && !core_.config.embedded && !allocation.durable &&
         (allocation.coherent || !memory::traits_of(allocation.kind).mapped) &&
         checked_address(core_.addresses).fabric != Fabric::kAny;
}

std::shared_ptr<CachedExtents::Open> CachedExtents::opened(ExtentId id) const {
  const auto known = open_->find(id);
  return known == open_->end() ? nullptr : known->second.lock();
}

Task<void> CachedExtents::open(std::shared_ptr<Session> session, const control::Allocation& allocation) {
  if (!may_be_cached(allocation) || session->ended) co_return;
  std::map<std::string, wire::Envelope> requests;
  for (const control::PlacedExtent& extent : allocation.extents) {
    const bool is_mapped = memory::traits_of(allocation.kind).mapped && !extent.unmapped;  // at its home
    if (homes_.is_here(extent.node) || extent.lost || is_mapped || session->cached.contains(extent.id))
      continue;
    if (homes_.is_dead(extent.node)) continue;  // an attach need not wait for it
    if (std::shared_ptr<Open> one = opened(extent.id)) {
      session->cached.emplace(extent.id, std::move(one));
      continue;
    }
    wire::CacheRequest& request = *requests[extent.node].mutable_cache();
    if (static_cast<size_t>(request.extents_size()) >= kAtOnce) continue;
    wire::CacheRequest::Asked& asked = *request.add_extents();
    wire::set_ref(extent.id, asked);
    asked.set_capability(id_field(extent.capability));
  }
  std::vector<Task<void>> tasks;
  for (auto& [node, request] : requests) {
    request.mutable_cache()->set_partition(core_.partition);
    tasks.push_back(ask(session, node, std::move(request)));
  }
  if (!tasks.empty()) co_await core_.env.join(std::move(tasks));
}

Task<void> CachedExtents::ask(std::shared_ptr<Session> session, std::string node, wire::Envelope request) {
  const wire::CacheRequest asked = request.cache();
  const uint64_t until_ns = core_.now_ns() + core_.config.heartbeat_ns();
  const auto reply = co_await homes_.ask(std::move(node), std::move(request), until_ns);
  // Who does not answer, or not so, has it all the same: programs go there.
  if (reply.is_ok() && reply.value().has_cacheable() && !session->ended)
    take(*session, asked, reply.value().cacheable());
}

void CachedExtents::take(Session& session, const wire::CacheRequest& asked, const wire::Cacheable& answer) {
  const int count = std::min(asked.extents_size(), answer.extents_size());
  for (int i = 0; i < count; ++i) {
    const ExtentId id = id_of(asked.extents(i));
    const wire::Cacheable::Extent& told = answer.extents(i);
    Capability capability;
    if (!cache::Caches::is_page_length(told.page_bytes()) || !cache::Batch::pages_fit(told.page_bytes()) ||
        !read_id(told.capability(), capability) || id.address.partition() == core_.partition ||
        told.bytes() == 0 || told.bytes() > control::kAllocationBytesMax)
      continue;
    std::shared_ptr<Open> one = opened(id);
    if (one == nullptr) {
      cache::PageCache& pages = home_.caches()->of(told.page_bytes());
      if (!pages.may_attach(id, told.bytes())) continue;
      auto extent = std::make_shared<cache::CachedExtent>(pages, id, told.bytes());
      if (!home_.directory().serve(id, told.bytes(), capability, std::move(extent))) continue;
      one = std::make_shared<Open>(home_.directory(), open_, id);
      (*open_)[id] = one;
    }
    session.cached.emplace(id, std::move(one));
  }
}

void CachedExtents::tell(const Session& session, wire::Allocation& told) const {
  if (session.cached.empty()) return;
  const FabricAddress here = checked_address(core_.addresses);
  for (wire::ExtentDescriptor& extent : *told.mutable_extents()) {
    if (!session.cached.contains(id_of(extent))) continue;
    extent.mutable_cached()->set_fabric(static_cast<uint32_t>(here.fabric));
    extent.mutable_cached()->set_address(here.address);
  }
}

void CachedExtents::ended(Session& session, const std::vector<ExtentId>& ids) {
  for (const ExtentId& id : ids) {
    if (session.allocations.with(id).empty()) session.cached.erase(id);
  }
}

Task<void> CachedExtents::leave() {
  if (home_.caches() == nullptr) co_return;
  constexpr uint64_t kLookNs = 20'000'000;
  const auto left = [this] {
    size_t pages = 0;
    for (cache::PageCache* one : home_.caches()->all()) pages += one->pages_of_others();
    return pages;
  };
  size_t fewest = left();
  uint64_t until_ns = core_.deadline_ns();
  for (size_t now = fewest; now != 0 && core_.now_ns() < until_ns; now = left()) {
    if (now < fewest) until_ns = core_.deadline_ns();  // they go on
    fewest = std::min(fewest, now);
    co_await core_.env.sleep_ns(kLookNs);
  }
  if (const size_t pages = left(); pages != 0) {
    log::error(
        "cache_not_written",
        {{"pages", pages},
         {"why", "nodes whose pages are cached here took none of them for a failure deadline"},
         {"do", "what was written to these pages last is lost: it is told as LOST to who reads them"}});
  }
}

void CachedExtents::enter(PeerHandlers& handlers) {
  handlers.on_now(PeerHandlers::Body::kCache, [this](const std::string& from, const wire::Envelope& request) {
    return answer(from, request.cache());
  });
  handlers.on_now(PeerHandlers::Body::kResizeCache,
                  [this](const std::string&, const wire::Envelope& request) -> Reply {
                    const uint64_t bytes = request.resize_cache().bytes();
                    if (home_.caches() == nullptr)
                      return Status::of_node(Code::kUnsupported, core_.name,
                                             " was started without a cache ([cache] bytes = 0)");
                    if (bytes == 0)
                      return Status(Code::kInvalidArgument,
                                    "a cache has some memory; one without is a setting: [cache] bytes = 0");
                    home_.caches()->resize(bytes);
                    log::info("cache_resized", {{"bytes", bytes}});
                    return Status();
                  });
}

Reply CachedExtents::answer(const std::string& from, const wire::CacheRequest& request) const {
  const uint32_t asker = homes_.run_of(from);
  // E2: of the view of before its last start it gets what it asks for the next time.
  const bool is_known = asker != Homes::kAnyRun && asker == request.partition() && asker != core_.partition;
  wire::Envelope out;
  wire::Cacheable& told = *out.mutable_cacheable();
  for (const wire::CacheRequest::Asked& asked : request.extents()) {
    wire::Cacheable::Extent& one = *told.add_extents();
    if (!is_known || home_.caches() == nullptr) continue;
    ExtentDescriptor extent;
    extent.id = id_of(asked);
    if (!read_id(asked.capability(), extent.capability)) continue;
    const auto found = home_.find(extent, Access::kRead);
    if (!found.is_ok()) continue;
    one.set_page_bytes(home_.caches()->allow(extent.id, asker, true));
    one.set_bytes(found.value()->bytes);
    one.set_capability(id_field(found.value()->capability));
  }
  return out;
}

}  // namespace ocm::node
