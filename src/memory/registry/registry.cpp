#include "memory/registry/registry.h"

namespace ocm::memory {

#define OCM_DECLARE_1(name)  \
  namespace name {           \
  extern const Entry kEntry; \
  }
#define OCM_DECLARE_0(name)
#define OCM_LINE(CONSTANT, Name, name, number, offered, built, lasts) OCM_DECLARE_##built(name)
OCM_KINDS(OCM_LINE)
#undef OCM_LINE

Entries entries() {
#define OCM_POINTER_1(name) &name::kEntry,
#define OCM_POINTER_0(name)
#define OCM_LINE(CONSTANT, Name, name, number, offered, built, lasts) OCM_POINTER_##built(name)
  static constexpr const Entry* kAll[] = {OCM_KINDS(OCM_LINE)};
#undef OCM_LINE
  static_assert(std::size(kAll) > 0 && std::size(kAll) <= std::size(kKinds));
  return kAll;
}

const Entry* find_entry(Kind kind, Entries kinds) {
  for (const Entry* entry : kinds) {
    if (entry->kind == kind) return entry;
  }
  return nullptr;
}

Traits traits_of(Kind kind) {
  const Entry* entry = find_entry(kind);
  return entry == nullptr ? Traits{} : entry->traits;
}

}  // namespace ocm::memory
