#include "os/cpu.h"

#include <sched.h>

namespace ocm::os {

int current_cpu() { return ::sched_getcpu(); }

bool leave_cpu(int cpu) {
  cpu_set_t mask;
  if (cpu < 0 || cpu >= CPU_SETSIZE || ::sched_getaffinity(0, sizeof(mask), &mask) != 0) return false;
  cpu_set_t others = mask;
  CPU_CLR(cpu, &others);
  if (CPU_COUNT(&others) == 0 || ::sched_setaffinity(0, sizeof(others), &others) != 0) return false;
  ::sched_setaffinity(0, sizeof(mask), &mask);
  return true;
}

}  // namespace ocm::os
