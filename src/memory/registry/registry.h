// The kinds of memory of this build: those of include/oncilla/kinds.h that have a folder, by what it says (memory/entry.h).
#pragma once

#include <span>

#include "memory/entry.h"

namespace ocm::memory {

using Entries = std::span<const Entry* const>;

/// In the order of their lines.
Entries entries();
/// Null: it is none of `kinds`.
const Entry* find_entry(Kind kind, Entries kinds = entries());
/// Of a kind that this build does not have: none of them.
Traits traits_of(Kind kind);
/// `visit(entry, setting)` for every setting of each of `kinds`.
template <class Visit>
void each_setting(Entries kinds, Visit visit) {
  for (const Entry* entry : kinds) {
    for (const Setting& setting : entry->settings) visit(*entry, setting);
  }
}

}  // namespace ocm::memory
