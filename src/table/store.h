// Creating, appending and dropping: a load, and the one step that makes it visible.
#pragma once

#include <oncilla/table.h>

#include "base/status.h"

namespace ocm::table {

/// Each takes the stream, whatever happens. Errors: those of ocm_table_create and ocm_table_append.
Status create_table(ocm_session* session, const char* name, ArrowArrayStream* stream,
                    const ocm_table_options& options);
Status append_table(ocm_session* session, const char* name, ArrowArrayStream* stream,
                    const ocm_table_options& options);

}  // namespace ocm::table
