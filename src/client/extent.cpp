#include "client/extent.h"

#include <algorithm>

#include "client/session.h"
#include "fabric/registry/registry.h"
#include "memory/registry/registry.h"
#include "os/interrupt.h"
#include "wire/convert.h"

namespace ocm::client {

Result<std::unique_ptr<Extent>> Extent::make(Session& session, std::shared_ptr<Daemon> daemon,
                                             ExtentDescriptor descriptor, Access access, Fabric wanted,
                                             Layout layout) {
  std::unique_ptr<Extent> extent(new Extent(session, std::move(daemon), std::move(descriptor), access, wanted,
                                            layout == Layout::kReplicated));
  OCM_TRY_ASSIGN(extent->fabric_, choose_fabric(extent->descriptor_, session.node(), wanted, layout));
  // What its own node's programs do not map may be cached.
  extent->is_cached_ = extent->descriptor_.unmapped || !memory::traits_of(extent->descriptor_.kind).mapped;
  const fabric::Entry* entry = fabric::find_entry(extent->fabric());
  OCM_ASSERT(entry != nullptr);  // choose_fabric() chose it among them
  extent->on_this_host_ = entry->traits.own_node;
  if (extent->on_this_host()) {
    const Daemon& home = *extent->daemon_;
    OCM_TRY_ASSIGN(const std::atomic<uint32_t>* slot, home.slot(extent->descriptor_.slot));
    extent->local_ =
        fabric::shm::LocalExtent({slot, &home.lost(), extent->descriptor_.id.generation, &home.replaced()},
                                 extent->replica_ ? &home.lease_until_ns() : nullptr);
  } else {
    OCM_TRY_ASSIGN(extent->route_, session.routes().choose(extent->descriptor_.node,
                                                           *extent->descriptor_.address_for(extent->fabric()),
                                                           extent->descriptor_.id));
    extent->first_route_ = extent->route_;
    if (extent->descriptor_.node != session.node() && extent->is_cached()) {
      extent->cached_way_ = session.routes().cached_way(extent->descriptor_.id, extent->descriptor_.cached);
      auto here =
          session.routes().choose(session.node(), extent->cached_way_->address, extent->descriptor_.id);
      if (here.is_ok())
        extent->cached_route_ = *here;
      else
        extent->cached_way_->is_past.store(true);
    }
  }
  return extent;
}

Extent::~Extent() {
  if (attachment_.channel != nullptr && attachment_.channel->health().is_ok()) {
    attachment_.channel->detach(attachment_.index);
  }
}

Result<std::byte*> Extent::open() {
  OCM_ASSERT(on_this_host());
  if (const Code code = check_local(); code != Code::kOk) return code;
  if (std::byte* data = data_.load(std::memory_order_acquire)) return data;
  const os::HoldsLocks held;  // perhaps an operation's
  wire::Envelope request;
  wire::open_to(descriptor_, access_, *request.mutable_open_extent());
  OCM_TRY_ASSIGN(Reply reply, session_.call(request));
  if (reply.fds.size() != 1)
    return Status(Code::kProtocol, "the daemon did not pass the extent's descriptor");
  OCM_TRY(adopt(std::move(reply.fds[0])));
  return data_.load(std::memory_order_acquire);
}

Status Extent::adopt(os::Fd fd) {
  OCM_ASSERT(on_this_host() && fd.is_open());
  std::lock_guard lock(mutex_);
  if (mapping_.is_mapped()) return {};
  OCM_TRY_ASSIGN(mapping_, os::Mapping::map(fd.get(), descriptor_.bytes, access_ == Access::kReadWrite));
  mapping_.prefer_huge_pages();
  data_.store(mapping_.data(), std::memory_order_release);
  return {};
}

Result<std::byte*> Extent::map_cached() {
  OCM_ASSERT(is_cached());
  const std::lock_guard lock(mutex_);
  if (!pages_.empty() && !pages_.back()->is_hurt()) return pages_.back()->data();
  const os::HoldsLocks held;
  OCM_TRY_ASSIGN(std::unique_ptr<MappedPages> made, MappedPages::open(session_, descriptor_, access_));
  pages_.push_back(std::move(made));
  return pages_.back()->data();
}

Result<Attachment> Extent::attach(os::Deadline deadline) {
  OCM_ASSERT(!on_this_host() && route_ != nullptr);
  std::unique_lock lock(mutex_, std::defer_lock);
  if (!os::lock_unless_interrupted(lock)) return os::interrupted();
  const bool is_left = via_cache_ && cached_way_->is_past.load();
  if (attachment_.channel != nullptr && !is_left && attachment_.channel->is_usable()) return attachment_;
  const os::HoldsLocks held;
  Result<Attachment> fresh = attach_by_route(deadline);
  while (wanted_ == Fabric::kAny &&
         (fresh.status().code() == Code::kUnsupported || fresh.status().code() == Code::kLimit)) {
    // Nobody asked for this one in particular: the next serves what it cannot.
    const Fabric next = next_fabric(descriptor_, fabric(), replica_ ? Layout::kReplicated : Layout::kSingle);
    if (next == Fabric::kAny) break;
    OCM_TRY_ASSIGN(
        route_, session_.routes().choose(descriptor_.node, *descriptor_.address_for(next), descriptor_.id));
    fabric_.store(next, std::memory_order_relaxed);
    fresh = attach_by_route(deadline);
  }
  return fresh;
}

Result<Attachment> Extent::attach_by_route(os::Deadline deadline) {
  attachment_.channel.reset();
  if (cached_way_ != nullptr && !cached_way_->is_past.load()) {
    const uint32_t interrupts = os::interrupts_of_thread();
    const uint64_t most_ns = daemon_->failure_deadline_ns() / 2;
    const os::Deadline soon = os::Deadline::after_ns(std::min(deadline.left_ns() / 2, most_ns));
    Result<Attachment> here = attach_by(*cached_route_, soon);
    via_cache_ = here.is_ok();
    if (here.is_ok() || os::interrupts_of_thread() != interrupts) return here;
    cached_way_->is_past.store(true);  // another run of the daemon, say: its home has the bytes all the same
  }
  via_cache_ = false;
  return attach_by(*route_, deadline);
}

Result<Attachment> Extent::attach_by(Route& route, os::Deadline deadline) {
  OCM_TRY_ASSIGN(std::shared_ptr<fabric::Channel> channel, route.channel(deadline));
  Result<uint32_t> index = channel->attach(descriptor_, access_, deadline);
  if (!index.is_ok() && !channel->health().is_ok() && !deadline.passed()) {
    // Its home may have ended while nothing of that was heard: the first to use it is told. Nothing was posted yet.
    OCM_TRY_ASSIGN(channel, route.channel(deadline));
    index = channel->attach(descriptor_, access_, deadline);
  }
  if (!index.is_ok()) {
    const Status status = index.status();
    // The node was started anew: what the descriptor names was there once.
    if (status.code() == Code::kNotFound) return status.with_code(Code::kRevoked);
    if (status.code() == Code::kDeadline) return Status(Code::kPeerLost, "no answer within the deadline");
    return status;
  }
  attachment_ = {std::move(channel), index.value()};
  return attachment_;
}

}  // namespace ocm::client
