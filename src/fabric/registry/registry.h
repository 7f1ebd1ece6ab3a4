// The fabrics of this build: those of include/oncilla/fabrics.h, by what their folders say (fabric/entry.h).
#pragma once

#include <array>

#include "fabric/entry.h"

namespace ocm::fabric {

using Entries = std::array<const Entry*, kFabricsCount>;

/// In the order of their lines.
const Entries& entries();
/// The preferred one first.
const Entries& entries_by_rank();
/// Null: it is none, or kAny.
const Entry* find_entry(Fabric fabric);
/// `visit(entry, setting)` for every setting of every fabric.
template <class Visit>
void each_setting(Visit visit) {
  for (const Entry* entry : entries()) {
    for (const Setting& setting : entry->settings) visit(*entry, setting);
  }
}
/// Null if it cannot be used in this process.
inline Connector* connector_of(const Entry& entry, const Settings& settings) {
  return entry.connector == nullptr ? nullptr : entry.connector(settings);
}

}  // namespace ocm::fabric
