// A kind of memory that lives in the tests, to show that one joins by its folder and its line: ordinary memory of the
// daemon, in units of 16 KiB, which no other process can map.
#pragma once

#include "memory/entry.h"

namespace ocm::memory::test {

extern const Entry kEntry;

}  // namespace ocm::memory::test
