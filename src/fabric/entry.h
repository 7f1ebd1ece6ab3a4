// What a fabric's folder says of it, and all that others know: they decide by its traits, never by its name.
//
// Each folder src/fabric/NAME defines `constinit const Entry kEntry` in its namespace; fabric/registry finds it by the
// fabric's line in include/oncilla/fabrics.h.
#pragma once

#include <memory>
#include <span>

#include "fabric/server.h"

namespace ocm::fabric {

struct Traits {
  /// The lower is taken first where several lead to an extent; each its own.
  uint32_t rank;
  /// Reaches extents of the program's own node only, by loads and stores: there is nothing to connect to.
  bool own_node;
  /// The home sees each operation and checks it: access, bounds, generation, lease. So replicas are served, daemons
  /// copy over it, and operations are counted and timed. Else the home checks at attach, and its network later.
  bool home_checks;
};

struct Entry {
  Fabric fabric;
  Traits traits;
  std::span<const Setting> settings;

  /// Null: no daemon serves it. Errors: kUnsupported: not here (the message says why), and the daemon goes on without;
  /// others end its start.
  Result<std::unique_ptr<Server>> (*serve)(const ServeOptions& options, ExtentDirectory& directory,
                                           ServerStats& stats);
  /// This process's connector, for good: channels may outlive the session that made them. Null where it is not
  /// available here; the function is null where there is nothing to connect to. Any thread.
  Connector* (*connector)(const Settings& settings);

  const char* name() const { return fabric_name(fabric); }
  const Setting* setting(std::string_view key) const {
    for (const Setting& one : settings) {
      if (key == one.key) return &one;
    }
    return nullptr;
  }
};

}  // namespace ocm::fabric
