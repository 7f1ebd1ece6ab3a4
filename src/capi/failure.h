// How a call of the C ABI fails: what this thread's ocm_last_error() and ocm_last_error_info() say from then on.
#pragma once

#include <oncilla/oncilla.h>

#include <string_view>

#include "base/status.h"

namespace ocm::capi {

/// Remembers why this thread's call failed; returns the number.
int fail(const Status& status);
int fail(Code code, std::string_view why);
/// For a handle that find() did not know: freed, or never one.
int fail_handle(Code why, const char* what);
inline int finish(const Status& status) { return status.is_ok() ? OCM_OK : fail(status); }
/// What this thread's last call, which returned `number`, left. Good if that is not negative. Without its subject: that
/// is a name which our own call has passed, not the user's.
Status last_failure(int number);

}  // namespace ocm::capi
