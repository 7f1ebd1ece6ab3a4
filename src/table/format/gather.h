// A column's rows gathered from several batches: where they are, how long each buffer becomes, what has to be
// converted. Nothing is copied yet: encode.h does that, once.
//
// Invariants
//   G1 pieces[i] of every field of a column comes from batch i (dictionaries aside).
//   G2 after a good gather every buffer that encode reads was checked as far as O(1) for each array goes; what is
//      read by an index of the data (dictionaries, views) is checked when it is read.
#pragma once

#include <array>
#include <memory>

#include "table/format/bits.h"
#include "table/format/bounds.h"
#include "table/format/chunk.h"
#include "table/format/schema.h"

namespace ocm::table {

/// Rows [offset, offset + length) of an array's buffers (its own offset is in it).
struct Piece {
  const ArrowArray* array = nullptr;
  int64_t offset = 0;
  int64_t length = 0;
};

/// The validity bits of the array, or null: all are valid. Its null type has none either.
inline const void* validity_of(const ArrowArray& array) {
  return array.null_count == 0 || array.n_buffers == 0 ? nullptr : array.buffers[0];
}
inline const void* validity_of(const Piece& piece) { return validity_of(*piece.array); }
inline bool valid_at(const void* validity, int64_t row) {
  return validity == nullptr || bit_at(validity, static_cast<uint64_t>(row));
}

/// Rows [row, row + count) of decimals of width_bytes as 64 bits, 0 where null. False if a valid one does not
/// fit.
bool narrow_decimals(const Piece& piece, uint64_t row, uint64_t count, uint64_t width_bytes, int64_t* out);

/// A dictionary, encoded. Its chunk's offset is 0.
struct Image {
  Chunk chunk;
  std::vector<std::byte> bytes;
};

/// Remembers dictionaries that are in the segment already, and numbers new ones.
class DictionaryBook {
 public:
  virtual ~DictionaryBook() = default;
  /// The number of an image equal to this one for the same field; a new one is to be stored.
  virtual uint32_t enter(const Field& field, std::shared_ptr<const Image> image) = 0;
};

/// One field of a column.
struct Part {
  const Field* given = nullptr;
  const Field* stored = nullptr;
  bool pack = false;  // if that saves something
  std::vector<Piece> pieces;
  uint64_t length = 0;
  uint64_t nulls = 0;
  std::array<uint64_t, 3> buffer_bytes{};
  std::vector<Part> children;
  std::optional<Packing> packing;  // what was chosen
  Bounds bounds;                   // known only where packing is
  // With a dictionary
  uint64_t values = 0;                        // in it
  uint32_t dictionary = 0;                    // its number
  std::vector<std::vector<int32_t>> renames;  // by piece: old index -> new one; empty: none changes
  std::unique_ptr<int32_t[]> indices;         // of strings that became a dictionary; nulls have 0

  /// The index was made narrower: an 8-bit one then numbers 127 values, the last one stays free for engines
  /// that mark null with it.
  bool narrows_index() const {
    return given->has_dictionary() && index_max(given->type.number) > index_max(stored->type.number);
  }
  uint64_t dictionary_max() const {
    OCM_DASSERT(stored->has_dictionary());
    return index_max(stored->type.number) + (narrows_index() ? 0 : 1);
  }
  bool indexes_strings() const { return stored->has_dictionary() && !given->has_dictionary(); }
};

/// Why a gather failed though nothing is malformed: only the first rows fit together.
struct Cut {
  bool needed = false;
  uint64_t rows = 0;        // that fit, of all the batches; 0: unknown, try half
  bool index_full = false;  // a dictionary has more values than its narrow index can number
};

/// Gathers one column. `part.pieces` are its batches' pieces of the column, given and stored are set.
/// Errors: kInvalidArgument (malformed), kTooLarge (with `cut.needed`: fewer rows would do).
Status gather(Part& part, DictionaryBook& book, Cut& cut);

/// About how many bytes the rows take when stored. Cost: O(1) for each field, a sample for views.
uint64_t estimate_bytes(const Field& field, const Piece& piece);

/// Checks what can be checked of an array of the field in O(1), children aside.
Status check_array(const ArrowArray& array, const Field& field);

/// How many distinct strings the rows have, or values their dictionaries; more than `limit`: limit + 1. What
/// is malformed or nested counts as more.
uint64_t count_distinct(const Part& part, uint64_t limit);

/// What a catalogue says of it. The offset is 0.
Chunk chunk_of(const Part& part);

}  // namespace ocm::table
