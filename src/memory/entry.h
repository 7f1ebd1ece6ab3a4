// What the folder of a kind of memory says of it, and all that others know: they decide by its traits, never by its name.
//
// Each folder src/memory/NAME defines `constinit const Entry kEntry` in its namespace; memory/registry finds it by the
// kind's line in include/oncilla/kinds.h.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/kinds.h"
#include "base/settings.h"
#include "memory/pool.h"

namespace ocm::memory {

using Settings = SettingsOf<Kind>;

/// The key of every kind: how much of it the node offers, 0: none. Its flag is the kind's name alone.
inline constexpr std::string_view kBytes = "bytes";

struct Traits {
  /// Programs of its node map it: backings share a descriptor. Else they reach it over the network, as others do.
  bool mapped;
  /// Replicas of it may be made, also again.
  bool replicas;
  /// Its extents may be `coherent`: any node caches pages of them. Where it is not mapped all are, but for durable ones.
  bool coherent = false;
};

/// What the daemon that offers it says beside its settings.
struct OfferOptions {
  bool core_dump = false;  // a core dump of the daemon contains the extents that it maps
  bool threads = true;     // a kind may have threads of its own
  std::string cluster;     // whose daemon it is: what it keeps beyond its run no other cluster gets
};

struct Entry {
  Kind kind;
  Traits traits;
  std::span<const Setting> settings;  // kBytes is the first

  /// What makes its extents. Errors: they end the daemon's start.
  Result<std::unique_ptr<KindBackend>> (*make)(const Settings& settings, const OfferOptions& options);
  /// What this machine cannot give. `warnings` gets what works, but not as it is meant to. Errors: kInvalidArgument
  /// (names the key).
  Status (*check_machine)(const Settings& settings, std::vector<std::string>& warnings);

  const char* name() const { return kind_name(kind); }
  uint64_t bytes(const Settings& values) const {
    OCM_DASSERT(!settings.empty() && settings.front().key == kBytes);
    return values.get(kind, settings.front());
  }
};

}  // namespace ocm::memory
