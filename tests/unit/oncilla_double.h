// A cluster in memory behind the functions of oncilla.h that libocm calls: for tests of libocm's logic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ocm::testing {

/// What the test sets before the call, and what it reads after.
struct OncillaDouble {
  bool other_nodes = true;  // false: this node alone, and REMOTE finds no place
  int open_status = 0;      // what ocm_session_open gives
  int create_status = 0;    // what ocm_allocation_create gives
  int transfer_status = 0;  // what put, get and copy give
  bool moves_bytes = true;  // false: transfers are recorded only

  uint32_t open_flags = 0;    // of the last ocm_session_open
  int sessions = 0;           // open now
  int allocations = 0;        // alive now
  uint32_t create_flags = 0;  // of the last allocation
  /// Each transfer: "put 8 16" (offset, bytes), "get 8 16", "copy 0 8 16" (target, source, bytes).
  std::vector<std::string> transfers;
};
OncillaDouble& oncilla_double();

}  // namespace ocm::testing
