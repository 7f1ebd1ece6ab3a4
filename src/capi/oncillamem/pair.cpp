#include "capi/oncillamem/pair.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "capi/oncillamem/remote_buffer.h"

namespace ocm::oncillamem {
namespace {

constexpr uint64_t kOverlapChunkBytes = 4u << 20;

bool is_gpu(enum ocm_kind kind) { return kind == OCM_LOCAL_GPU || kind == OCM_REMOTE_GPU; }

// A program in C may store any number in the enum.
Result<enum ocm_kind> checked_kind(const ocm_alloc_params& params) {
  unsigned number = 0;
  static_assert(sizeof(number) == sizeof(params.kind));
  std::memcpy(&number, &params.kind, sizeof(number));
  if (number < OCM_LOCAL_HOST || number > OCM_REMOTE_GPU)
    return Status(Code::kInvalidArgument, std::to_string(number) + " is not a value of enum ocm_kind");
  return params.kind;
}

// No sum of two numbers of the caller's is formed: it may overflow.
Status check_range(const char* buffer, uint64_t offset, uint64_t bytes, uint64_t size_bytes) {
  if (offset <= size_bytes && bytes <= size_bytes - offset) return {};
  return Status(Code::kOutOfRange, std::to_string(bytes) + " bytes at offset " + std::to_string(offset) +
                                       " leave the " + buffer + " buffer of " + std::to_string(size_bytes) +
                                       " bytes");
}

}  // namespace

bool is_remote(enum ocm_kind kind) {
  return kind == OCM_REMOTE_RMA || kind == OCM_REMOTE_RDMA || kind == OCM_REMOTE_GPU;
}

Result<std::shared_ptr<Pair>> Pair::make(ocm_session* session, const ocm_alloc_params& params) {
  OCM_TRY_ASSIGN(const enum ocm_kind kind, checked_kind(params));
  if (is_gpu(kind))
    return Status(Code::kUnsupported,
                  "this build has no GPU memory; use OCM_LOCAL_HOST or OCM_REMOTE_RDMA instead");
  OCM_TRY_ASSIGN(LocalBuffer local, LocalBuffer::make(params.local_alloc_bytes));
  std::shared_ptr<Pair> pair(new Pair(kind, std::move(local)));
  if (oncillamem::is_remote(kind)) {
    OCM_TRY_ASSIGN(pair->remote_, make_remote_buffer(session, params.rem_alloc_bytes));
    pair->remote_bytes_ = params.rem_alloc_bytes;
  }
  return pair;
}

Pair::~Pair() {
  // What a lost node or session held is given back by its daemon: there is nobody to tell here.
  if (remote_ != nullptr) (void)ocm_allocation_free(remote_);
}

Status Pair::check_local(uint64_t offset, uint64_t bytes) const {
  return check_range("local", offset, bytes, local_.bytes());
}

Status Pair::check_remote(uint64_t offset, uint64_t bytes) const {
  if (!is_remote())
    return Status(Code::kInvalidArgument, "the allocation is of a local kind: it has no remote buffer");
  return check_range("remote", offset, bytes, remote_bytes_);
}

Status Pair::write(uint64_t local_offset, uint64_t remote_offset, uint64_t bytes) {
  OCM_TRY(check_remote(remote_offset, bytes));
  OCM_TRY(check_local(local_offset, bytes));
  if (bytes == 0) return {};
  return from_api(ocm_put(remote_, remote_offset, local_.data() + local_offset, bytes));
}

Status Pair::read(uint64_t local_offset, uint64_t remote_offset, uint64_t bytes) {
  OCM_TRY(check_remote(remote_offset, bytes));
  OCM_TRY(check_local(local_offset, bytes));
  if (bytes == 0) return {};
  return from_api(ocm_get(remote_, remote_offset, local_.data() + local_offset, bytes));
}

Status Pair::copy(Pair& target, Pair& source, const ocm_params& params) {
  const uint64_t bytes = params.bytes;
  if (target.is_remote() && source.is_remote()) return copy_remote(target, source, params);
  if (target.is_remote()) {
    OCM_TRY(source.check_local(params.src_offset, bytes));
    OCM_TRY(target.check_local(params.dest_offset, bytes));
    OCM_TRY(target.check_local(params.src_offset_2, bytes));
    OCM_TRY(target.check_remote(params.dest_offset_2, bytes));
    std::memmove(target.local_.data() + params.dest_offset, source.local_.data() + params.src_offset, bytes);
    return target.write(params.src_offset_2, params.dest_offset_2, bytes);
  }
  OCM_TRY(source.check_local(params.src_offset, bytes));
  OCM_TRY(target.check_local(params.dest_offset, bytes));
  if (source.is_remote()) OCM_TRY(source.read(params.src_offset, params.dest_offset, bytes));
  std::memmove(target.local_.data() + params.dest_offset, source.local_.data() + params.src_offset, bytes);
  return {};
}

Status Pair::copy_remote(Pair& target, Pair& source, const ocm_params& params) {
  const uint64_t bytes = params.bytes;
  OCM_TRY(source.check_remote(params.src_offset, bytes));
  OCM_TRY(target.check_remote(params.dest_offset, bytes));
  if (bytes == 0) return {};
  if (&target == &source) return target.move_within_remote(params.dest_offset, params.src_offset, bytes);
  return from_api(ocm_place_copy(ocm_place_in(target.remote_, params.dest_offset),
                                 ocm_place_in(source.remote_, params.src_offset), bytes));
}

// Overlapping ranges go through this program piece by piece, from the end that is not overwritten yet.
Status Pair::move_within_remote(uint64_t to, uint64_t from, uint64_t bytes) {
  const uint64_t distance = to > from ? to - from : from - to;
  if (distance == 0) return {};
  if (distance >= bytes)
    return from_api(ocm_place_copy(ocm_place_in(remote_, to), ocm_place_in(remote_, from), bytes));
  OCM_TRY_ASSIGN(LocalBuffer piece, LocalBuffer::make(std::min(bytes, kOverlapChunkBytes)));
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t length = std::min(piece.bytes(), bytes - done);
    const uint64_t offset = to < from ? done : bytes - done - length;
    OCM_TRY(from_api(ocm_get(remote_, from + offset, piece.data(), length)));
    OCM_TRY(from_api(ocm_put(remote_, to + offset, piece.data(), length)));
    done += length;
  }
  return {};
}

}  // namespace ocm::oncillamem
