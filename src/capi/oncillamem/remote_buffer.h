// Where the remote half of a 2013 allocation goes, and what liboncilla's status codes become here.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "oncilla/oncillamem.h"
// The 2013 header first: see there.
#include "oncilla/oncilla.h"

namespace ocm::oncillamem {

/// A status of the C API with the sentence of the call that just failed in this thread.
Status from_api(int status);

/// `bytes` of DRAM on another node; on this one only if no other is alive.
Result<ocm_allocation*> make_remote_buffer(ocm_session* session, uint64_t bytes);

}  // namespace ocm::oncillamem
