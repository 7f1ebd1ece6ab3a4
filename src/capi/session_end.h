// A session as what stands above it knows it: whether it is open, and when it ends.
#pragma once

#include <oncilla/oncilla.h>

#include <cstdint>

#include "base/status.h"

namespace ocm::capi {

/// Errors: kRevoked (it was closed), kInvalidArgument (it never was one of this process).
Status check_session(const ocm_session* session);
/// `hook` is called with the handle of each session that is being closed, before anything of it ends. One
/// hook.
void at_session_close(void (*hook)(uint64_t session));

}  // namespace ocm::capi
