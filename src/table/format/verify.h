// What a catalogue cannot promise of a chunk's bytes: that offsets rise and stay inside, and that indices
// name a value of their dictionary.
#pragma once

#include "table/format/catalogue.h"

namespace ocm::table {

/// How much to look at: the first and last offset of each field, or every offset and index.
enum class Depth { kEnds, kAll };

/// Checks the chunk whose bytes begin at `data`. `catalogue` is the one that the chunk is of.
/// Errors: kProtocol.
Status verify_chunk(const Catalogue& catalogue, const Field& field, const Chunk& chunk, const std::byte* data,
                    Depth depth);

}  // namespace ocm::table
