// Which node takes the next extent: the wanted ones in turn, one that is full is passed over.
#pragma once

#include <oncilla/table.h>

#include <string>
#include <vector>

#include "table/call.h"

namespace ocm::table {

class Placer {
 public:
  /// `options.kind` is one. `inherited`: the nodes to use, as far as they are alive, where the options name none; empty: all.
  /// Errors: kUnknownNode, kPoolFull (no node, or fewer than replicas), those of ocm_node_list.
  static Result<Placer> make(ocm_session* session, const ocm_table_options& options,
                             const std::vector<std::string>& inherited = {});

  /// An unpublished allocation of `bytes` on node `turn` of the ring (modulo its length) or, unless it has to
  /// be that one, the next with room; with replicas on that and the next ones. Errors: kPoolFull, kQuota,
  /// kNoMemory, ...
  Result<Allocation> allocate(uint64_t bytes, uint64_t turn) const;
  /// On `wanted` first, as many of them as there are replicas; where they have no room, as allocate() of turn 0.
  Result<Allocation> allocate_on_or_near(const std::vector<std::string>& wanted, uint64_t bytes) const;

  ocm_kind kind() const { return kind_; }
  bool durable() const { return durable_; }
  size_t nodes() const { return ring_.size(); }
  const std::vector<std::string>& ring() const { return ring_; }
  uint32_t replicas() const { return replicas_; }
  /// "n1 has 12 MiB free of 400 MiB, n2 ...": for those who have to make room.
  std::string room() const;

 private:
  bool try_another(Code code) const;
  Result<Allocation> allocate_on(const std::vector<const char*>& nodes, uint64_t bytes) const;

  ocm_session* session_ = nullptr;
  ocm_kind kind_ = OCM_KIND_DRAM;
  std::vector<std::string> ring_;
  uint32_t replicas_ = 1;
  bool fixed_ = false;
  bool durable_ = false;
};

}  // namespace ocm::table
