#include "client/allocation.h"

#include <algorithm>

#include "base/text.h"
#include "client/session.h"
#include "client/transfer.h"
#include "control.pb.h"
#include "memory/registry/registry.h"
#include "os/interrupt.h"

namespace ocm::client {
namespace {

/// A part of one extent whose home was silent is looked for so often.
constexpr uint64_t kResolveAgainNs = 1'000'000'000;

constexpr uint64_t kChunkAlignment = 64;

/// What a slab serves: small, single, placed by the cluster, nothing special asked for. Such options are good.
bool fits_slab(uint64_t bytes, const AllocationOptions& options) {
  return bytes <= kPieceBytesMax && options.kind == kDefaultKind && options.layout == Layout::kSingle &&
         options.nodes.empty() && options.fabric == Fabric::kAny && options.extents <= 1 &&
         (options.flags & ~(kZero | kChecksum)) == 0 && options.chunk_bytes % kChunkAlignment == 0;
}

Status bad_option(const char* option, uint64_t value, const std::string& what_to_do) {
  return Status(Code::kInvalidArgument, std::string(option) + " is " + std::to_string(value) + what_to_do)
      .with_subject(Subject::kOption, option);
}

Status check_options(const AllocationOptions& options) {
  const auto kind = static_cast<uint64_t>(options.kind);
  const auto layout = static_cast<uint64_t>(options.layout);
  const auto fabric = static_cast<uint64_t>(options.fabric);
  if (!is_kind(kind)) return bad_option("kind", kind, ", which is no kind of memory");
  if (options.layout > Layout::kReplicated)
    return bad_option("layout", layout, ", which is no layout to ask for");
  if (!is_fabric(fabric)) return bad_option("fabric", fabric, ", which is no fabric");
  if ((options.flags & ~kAllocationFlags) != 0)
    return bad_option("flags", options.flags, ", and one of its bits is no flag of an allocation");
  const auto nodes = static_cast<uint64_t>(options.nodes.size());
  if (options.layout == Layout::kSingle && options.extents > 1) {
    return bad_option("extents", options.extents,
                      ", but layout is single: leave extents at 0 or 1, or use layout striped");
  }
  if (options.layout == Layout::kSingle && nodes > 1) {
    return Status(Code::kInvalidArgument, std::to_string(nodes) +
                                              " nodes are named, but layout is single: name one node, or use "
                                              "layout striped")
        .with_subject(Subject::kOption, "nodes");
  }
  if (options.layout == Layout::kReplicated && std::max<uint64_t>(options.extents, nodes) > kReplicasMax) {
    return Status(Code::kInvalidArgument, std::to_string(std::max<uint64_t>(options.extents, nodes)) +
                                              " replicas are asked for; at most " +
                                              std::to_string(kReplicasMax) + " are possible");
  }
  if (options.chunk_bytes % kChunkAlignment != 0)
    return bad_option("chunk_bytes", options.chunk_bytes, "; it must be a multiple of 64");
  if ((options.flags & kLocal) != 0 && (options.flags & kRemote) != 0) {
    return Status(Code::kInvalidArgument, "flags has LOCAL and REMOTE: give one of them, or none")
        .with_subject(Subject::kOption, "flags");
  }
  if (!std::all_of(options.nodes.begin(), options.nodes.end(), is_utf8)) {
    return Status(Code::kInvalidArgument, "a name in `nodes` is not UTF-8")
        .with_subject(Subject::kOption, "nodes");
  }
  return {};
}

}  // namespace

Status Allocation::create(Session& session, uint64_t bytes, const AllocationOptions& options) {
  OCM_ASSERT(session_ == nullptr);
  if (bytes == 0) {
    return Status(Code::kInvalidArgument, "bytes is 0; it must be at least 1")
        .with_subject(Subject::kOption, "bytes");
  }
  const bool fits = fits_slab(bytes, options);
  if (!fits) OCM_TRY(check_options(options));
  if (fits) {
    Result<SlabPiece> piece = session.slabs().take(bytes);
    if (piece.is_ok()) {
      take_piece(session, bytes, *piece, options.flags);
      if ((options.flags & kZero) == 0) return {};
      const Status zeroed = fill_zeros();
      if (!zeroed.is_ok()) (void)free();
      return zeroed;
    }
    // No room for a whole slab, or none are lent: the cluster may still have room for so few bytes.
    if (piece.status().code() != Code::kPoolFull && piece.status().code() != Code::kUnsupported &&
        piece.status().code() != Code::kQuota) {
      return piece.status();
    }
  }
  OCM_TRY_ASSIGN(std::unique_ptr<Grant> grant, request_grant(session, bytes, options));
  if (grant->shape.bytes != bytes) {
    (void)return_grant(session, ReturnedGrant(*grant));
    return Status(Code::kProtocol, "the daemon granted another length");
  }
  if ((options.flags & kCoherent) != 0 && !grant->coherent && memory::traits_of(options.kind).mapped) {
    (void)return_grant(session, ReturnedGrant(*grant));
    return Status(Code::kUnsupported,
                  "the daemon does not know COHERENT: its version is older than that; upgrade it, or leave "
                  "COHERENT out");
  }
  take_grant(session, std::move(grant), options.flags);
  return {};
}

bool Allocation::is_valid() const {
  const std::byte* const direct = direct_.load(std::memory_order_acquire);
  if (session_ == nullptr) {
    return slab_ == nullptr && grant_ == nullptr && binding() == nullptr && direct == nullptr &&
           order() == &own_order_;
  }
  if ((slab_ != nullptr) == (grant_ != nullptr) || binding() == nullptr || shape_.bytes == 0) return false;
  if (binding()->places().size() != shape_.extents) return false;
  if (grant_ != nullptr && shape_.layout == Layout::kSequence && !grant_->sequence.is_valid()) return false;
  return direct == nullptr || (shape_.extents == 1 && !replicated());  // A1
}

Status Allocation::attach(Session& session, const std::string& name, Access access, bool hold) {
  OCM_ASSERT(session_ == nullptr);
  OCM_TRY_ASSIGN(std::unique_ptr<Grant> grant, attach_grant(session, name, access, hold));
  take_grant(session, std::move(grant), 0);
  return {};
}

void Allocation::take_piece(Session& session, uint64_t bytes, const SlabPiece& piece, uint32_t flags) {
  OCM_ASSERT(piece.slab != nullptr && slab_ == nullptr && grant_ == nullptr);
  const Binding* const bound = piece.slab->binding.load(std::memory_order_acquire);
  const Extent& extent = (*bound)[0];
  OCM_DASSERT(piece.offset + bytes <= extent.descriptor().bytes);
  shape_ = Shape{bytes, 0, 1, Layout::kSingle};
  kind_ = kDefaultKind;
  durable_ = coherent_ = false;
  access_ = Access::kReadWrite;
  checksum_ = (flags & kChecksum) != 0;
  base_ = piece.offset;
  slab_ = piece.slab;
  piece_ = piece.index;
  binding_.store(bound, std::memory_order_release);
  session_ = &session;
  if (extent.on_this_host()) {
    if (std::byte* data = extent.data_now()) use_directly(extent, data);
  }
}

void Allocation::take_grant(Session& session, std::unique_ptr<Grant> grant, uint32_t flags) {
  OCM_ASSERT(grant != nullptr && !grant->bindings.empty() && slab_ == nullptr);
  shape_ = grant->shape;
  kind_ = grant->kind;
  durable_ = grant->durable;
  coherent_ = grant->coherent;
  access_ = grant->access;
  checksum_ = (flags & kChecksum) != 0;
  base_ = 0;
  session_ = &session;
  grant_ = std::move(grant);
  shared_order_ = session.orders().of(grant_->id);
  order_.store(shared_order_.get(), std::memory_order_relaxed);
  binding_.store(grant_->bindings.back().get(), std::memory_order_release);
  // Replicas are never used directly: every put must reach all of them.
  if (shape_.extents == 1 && !replicated()) {
    Extent& only = extent(0);
    if (only.on_this_host()) {
      if (std::byte* data = only.data_now()) use_directly(only, data);
    }
  }
  OCM_DASSERT(is_valid());
}

Result<bool> Allocation::rebind(const std::shared_ptr<Daemon>& daemon, Reply reply) {
  Grant& grant = granted();
  std::lock_guard lock(grant.rebinding);
  OCM_TRY_ASSIGN(const bool changed, rebind_grant(*session_, daemon, std::move(reply), grant));
  const Binding* const now = grant.bindings.back().get();
  if (slab_ != nullptr) slab_->binding.store(now, std::memory_order_release);
  // Another piece of the slab may have had the answer before.
  const bool moved = binding_.exchange(now, std::memory_order_acq_rel) != now;
  if (moved && !replicated()) {
    std::lock_guard opening(opening_);
    grant.moved.store(true, std::memory_order_relaxed);
    direct_.store(nullptr, std::memory_order_release);
  }
  return changed || moved;
}

Code Allocation::follow(ExtentId tried, bool silent) {
  const Result<std::shared_ptr<Daemon>> daemon = session_->daemon();
  if (!daemon.is_ok()) return daemon.status().code();
  wire::Envelope request = resolve_request(grant_id(), tried, silent);
  Result<Reply> reply = session_->call(request);
  if (!reply.is_ok()) return reply.status().code();
  const Result<bool> changed = rebind(daemon.value(), std::move(*reply));
  if (!changed.is_ok()) return changed.status().code();
  return changed.value() || !silent ? Code::kOk : Code::kPeerLost;
}

void Allocation::was_not_resolved(ExtentId tried, Code known, bool silent, uint64_t now_ns) {
  if (replicated()) {
    const std::lock_guard lock(grant_->rebinding);
    grant_->not_resolved[tried] = {known, now_ns};
  } else if (silent)
    granted().resolves_from_ns.store(now_ns + kResolveAgainNs, std::memory_order_relaxed);
  else if (ends_part(known))
    granted().over.store(true, std::memory_order_relaxed);
}

std::optional<Code> Allocation::not_resolved_since(ExtentId tried, uint64_t failed_ns) {
  if (!replicated()) return std::nullopt;
  const std::lock_guard lock(grant_->rebinding);
  const auto known = grant_->not_resolved.find(tried);
  if (known == grant_->not_resolved.end() || known->second.second < failed_ns) return std::nullopt;
  return known->second.first;
}

void Allocation::use_directly(const Extent& extent, std::byte* data) {
  OCM_DASSERT(data != nullptr && shape_.extents == 1 && !replicated());  // A1
  life_ = extent.local().life();
  direct_.store(data + base_, std::memory_order_release);
}

std::byte* Allocation::open_directly() {
  if (shape_.extents != 1 || replicated()) return nullptr;
  Extent& only = extent(0);
  if (!only.on_this_host()) return nullptr;
  const Result<std::byte*> data = only.open();
  if (!data.is_ok()) return nullptr;
  std::lock_guard lock(opening_);
  if (granted().moved.load(std::memory_order_relaxed)) return nullptr;
  if (direct_.load(std::memory_order_relaxed) == nullptr) use_directly(only, data.value());
  return direct_.load(std::memory_order_relaxed);
}

bool Allocation::is_ready(uint64_t offset, uint64_t length) {
  if (busy().load(std::memory_order_acquire) != 0 || gets().load(std::memory_order_acquire) != 0)
    return false;
  const Binding& now = *binding();
  if (replicated()) {  // a put goes to all of them, and a get to any
    return std::all_of(now.places().begin(), now.places().end(),
                       [](const auto& one) { return one.extent->lost() || one.extent->is_reached(); });
  }
  for (uint32_t looks = 0; length > 0 && looks < shape_.extents; ++looks) {  // stripes come again
    const Piece piece = piece_at(offset, length);
    if (!now[piece.extent].is_reached()) return false;
    offset += piece.bytes;
    length -= piece.bytes;
  }
  return true;
}

Status Allocation::fill_zeros() {
  static const std::byte zeros[kPieceBytesMax] = {};
  const Run run{End{this, 0, nullptr}, End{nullptr, 0, const_cast<std::byte*>(zeros)}, shape_.bytes};
  return transfer(*session_, Runs::one(run), shape_.bytes);
}

Status Allocation::free() {
  OCM_ASSERT(session_ != nullptr);
  session_->under_way().detach(this);
  Session& session = *session_;
  if (slab_ != nullptr) {
    session.slabs().give(slab_, piece_);
    clear();
    return {};
  }
  const ReturnedGrant granted(*grant_);
  clear();
  return return_grant(session, granted);
}

void Allocation::clear() {
  direct_.store(nullptr, std::memory_order_relaxed);
  binding_.store(nullptr, std::memory_order_relaxed);
  grant_.reset();
  order_.store(&own_order_, std::memory_order_relaxed);
  shared_order_.reset();
  slab_ = nullptr;
  base_ = 0;
  deferred_error_.store(0, std::memory_order_relaxed);
  pointer_taken_.store(false, std::memory_order_relaxed);
  session_ = nullptr;
  OCM_DASSERT(is_valid());
}

Result<std::byte*> Allocation::pointer(uint64_t offset, uint64_t bytes) {
  if (const Code code = check_range(offset, bytes); code != Code::kOk) {
    return Status(code, "the range leaves the allocation");
  }
  const Piece piece = bytes == 0 ? piece_at(offset < shape_.bytes ? offset : 0, 1) : piece_at(offset, bytes);
  if (bytes != 0 && piece.bytes < bytes)
    return Status(Code::kUnsupported, "the range crosses the end of a stripe or a part");
  if (replicated() && piece.replicas > 1 && access_ != Access::kRead) {
    return Status(Code::kUnsupported, "stores through a pointer would miss the other replicas");
  }
  ExtentId tried;
  Result<std::byte*> data = open_here(piece, tried);
  Code known = Code::kOk;
  for (uint32_t i = 0; i < kRebindsMax && data.status().code() == Code::kRevoked; ++i) {
    // It may be frozen, or its part may go on elsewhere: as operations do (operation_resolve.cpp).
    known = follow(tried, false);
    if (known != Code::kOk) break;
    data = open_here(piece, tried);
  }
  if (!data.is_ok()) return after_resolve(data.status(), known);
  pointer_taken_.store(true, std::memory_order_relaxed);
  return data.value() + base_ + piece.offset;
}

Result<std::byte*> Allocation::open_here(const Piece& piece, ExtentId& tried) {
  const Binding& bound = *binding();
  for (uint32_t i = piece.extent; i < piece.extent + piece.replicas; ++i) {
    if (!bound[i].on_this_host() || bound[i].lost()) continue;
    tried = bound[i].descriptor().id;
    return bound[i].open();
  }
  const bool has_pages = coherent_ || !memory::traits_of(kind_).mapped;
  for (uint32_t i = piece.extent; has_pages && i < piece.extent + piece.replicas; ++i) {
    if (!bound[i].is_cached() || bound[i].lost()) continue;
    tried = bound[i].descriptor().id;
    return bound[i].map_cached();
  }
  const ExtentDescriptor& where = bound[piece.extent].descriptor();
  const char* const why = where.unmapped ? ", in a file that extents share, or coherent: copy them" : "";
  return Status(Code::kUnsupported, "the bytes are on node " + where.node + why).with_node(where.node);
}

std::pair<uint64_t, uint64_t> Allocation::range_of(uint32_t index) const {
  if (slab_ != nullptr) return {0, shape_.bytes};
  if (shape_.layout == Layout::kSequence) return grant_->sequence.range_of(index);
  return {0, extent(index).descriptor().bytes};
}

namespace {
/// What was asked may have been done.
bool is_unanswered(Code code) {
  return code == Code::kNoCoordinator || code == Code::kDeadline || code == Code::kNoDaemon ||
         code == Code::kPeerLost;
}
}  // namespace

Status Allocation::publish(const std::string& name, uint32_t mode) {
  OCM_ASSERT(session_ != nullptr);
  if (access_ != Access::kReadWrite) return Status(Code::kPermission, "attached for reading only");
  if (published()) return Status(Code::kExists, "the allocation has the name " + this->name()->name);
  if (slab_ != nullptr) OCM_TRY(move_to_own_extent());
  wire::Envelope request;
  wire::PublishRequest& publish = *request.mutable_publish();
  publish.set_name(name);
  publish.set_mode(mode);
  publish.set_allocation_id(grant_->id.bytes.data(), grant_->id.bytes.size());
  // Shown to the daemon's next run if this one ends before it answers.
  const bool in_doubt = std::exchange(grant_->may_be_named, true);
  session_->doubt_name(grant_->id, true);
  const Result<Reply> reply = session_->call(request);
  const Status done = reply.status();
  grant_->may_be_named = !done.is_ok() && (in_doubt || is_unanswered(done.code()));
  session_->doubt_name(grant_->id, grant_->may_be_named);
  if (!done.is_ok()) return done;
  const wire::Envelope& told = *reply.value().message;
  if (told.has_published()) {
    grant_->set_published({name, told.published().owner_uid(), told.published().mode()});
  } else {  // a daemon of the version before
    grant_->set_published({name, session_->daemon_now()->uid(), mode == 0 ? kModeDefault : mode});
  }
  return done;
}

Status Allocation::move_to_own_extent() {
  if (pointer_taken_.load(std::memory_order_relaxed)) {
    return Status(Code::kUnsupported, "a pointer into this piece of a slab was taken: allocate it DEDICATED");
  }
  if (!session_->under_way().drain(this)) return os::interrupted();
  Allocation fresh;
  AllocationOptions options;
  options.flags = kDedicated | (checksum_ ? kChecksum : 0);
  OCM_TRY(fresh.create(*session_, shape_.bytes, options));
  const Status moved = transfer(*session_, Runs::one({End{&fresh}, End{this}, shape_.bytes}), shape_.bytes);
  if (!moved.is_ok()) {
    (void)fresh.free();
    return moved;
  }
  const auto held = session_->under_way().words().hold(this);
  direct_.store(nullptr, std::memory_order_release);
  session_->slabs().give(slab_, piece_);
  slab_ = nullptr;
  take_grant(*session_, std::move(fresh.grant_), options.flags);
  fresh.clear();
  return {};
}

}  // namespace ocm::client
