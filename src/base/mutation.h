// Named places where a model checker breaks a protocol on purpose, to show that it would notice. Always false in
// the product: only tests/model compiles the pure files again with OCM_MODEL, where one mutation at a time is on.
#pragma once

#include <string_view>

namespace ocm {
#ifdef OCM_MODEL
bool is_mutated(std::string_view name);
#define OCM_MUTATION(name) (::ocm::is_mutated(name))
#else
#define OCM_MUTATION(name) (false && sizeof(name) != 0)
#endif
}  // namespace ocm
