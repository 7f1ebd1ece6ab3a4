// Assertions for our own mistakes. What a peer or a user sent is never asserted: it gets a Status.
#pragma once

#ifdef OCM_MODEL
#include "base/mutation.h"
#endif

namespace ocm {
[[noreturn]] void assert_failed(const char* expression, const char* file, int line);
}  // namespace ocm

/// Always on; cheap conditions only.
#define OCM_ASSERT(expression) \
  ((expression) ? (void)0 : ::ocm::assert_failed(#expression, __FILE__, __LINE__))

/// For all others, costly ones too (is_valid() of a structure): on in debug and sanitizer builds.
#ifdef NDEBUG
#define OCM_DASSERT(expression) ((void)0)
#elif defined(OCM_MODEL)
// While a model checker breaks a rule on purpose, it is to find that by itself.
#define OCM_DASSERT(expression) OCM_ASSERT((expression) || !::ocm::is_mutated({}))
#else
#define OCM_DASSERT(expression) OCM_ASSERT(expression)
#endif
