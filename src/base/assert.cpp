#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace ocm {

void assert_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "oncilla: assertion failed: %s (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace ocm
