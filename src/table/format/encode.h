// Copies a gathered column into its place: once, while looking for its bounds.
#pragma once

#include "table/format/bounds.h"
#include "table/format/gather.h"

namespace ocm::table {

/// Writes the buffers of `part`, which was gathered, to [target, target + chunk_of(part).bytes()); what lies
/// between them becomes zero. `bounds` may be null. Errors: kInvalidArgument (offsets that fall, an index
/// outside of its dictionary, a decimal of too many digits).
Status encode(const Part& part, std::byte* target, Bounds* bounds);

}  // namespace ocm::table
