#include "fabric/registry/registry.h"

#include <algorithm>

namespace ocm::fabric {

#define OCM_LINE(CONSTANT, Name, name, number, offered) \
  namespace name {                                      \
  extern const Entry kEntry;                            \
  }
OCM_FABRICS(OCM_LINE)
#undef OCM_LINE

const Entries& entries() {
#define OCM_LINE(CONSTANT, Name, name, number, offered) &name::kEntry,
  static constexpr Entries kAll{OCM_FABRICS(OCM_LINE)};
#undef OCM_LINE
  return kAll;
}

const Entries& entries_by_rank() {
  static const Entries sorted = [] {
    Entries out = entries();
    std::sort(out.begin(), out.end(),
              [](const Entry* a, const Entry* b) { return a->traits.rank < b->traits.rank; });
    for (size_t i = 1; i < out.size(); ++i) OCM_ASSERT(out[i - 1]->traits.rank != out[i]->traits.rank);
    return out;
  }();
  return sorted;
}

const Entry* find_entry(Fabric fabric) {
  for (const Entry* entry : entries()) {
    if (entry->fabric != fabric) continue;
    OCM_DASSERT((entry->connector == nullptr) == entry->traits.own_node);
    return entry;
  }
  return nullptr;
}

}  // namespace ocm::fabric
