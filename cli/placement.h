// The options that say where and how an allocation lies, shared by `ocm alloc` and `ocm put`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/kinds.h"
#include "base/status.h"
#include "cli/command.h"
#include "oncilla/oncilla.h"

namespace ocm::cli {

struct Placement {
  std::string layout = "single";
  std::string kind;  // empty: by default
  bool durable = false;
  bool coherent = false;
  std::string fabric = "any";
  std::string mode = "0600";
  std::vector<std::string> nodes;
  uint32_t extents = 0;
  uint64_t chunk_bytes = 0;

  void add_to(Command& command);
  Kind kind_asked() const;
  /// The mode's bits. Errors: kInvalidArgument.
  Result<uint32_t> mode_bits() const;
  /// Valid while this lives and `pointers` (filled with the nodes' names) does.
  ocm_allocation_options options(std::vector<const char*>& pointers) const;
};

/// "rw--", "rwr-", "rwrw": what the owner and what others may do.
std::string mode_text(uint32_t mode);
/// The number of a name as the options take it; the names are those of base/ids.h.
ocm_fabric fabric_of(const std::string& name);

}  // namespace ocm::cli
