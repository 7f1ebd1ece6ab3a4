#include "table/format/gather.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "table/format/encode.h"
#include "table/format/values.h"

namespace ocm::table {
namespace {

constexpr int64_t kRowsMax = int64_t{1} << 48;

/// The offset of an array's row; the buffer is there.
int64_t offset_at(const ArrowArray& array, const Type& type, int64_t row) {
  return type.offset_bytes() == 8 ? static_cast<const int64_t*>(array.buffers[1])[row]
                                  : static_cast<const int32_t*>(array.buffers[1])[row];
}

/// First and last offset of the piece.
Status read_offsets(const Piece& piece, const Type& type, int64_t& first, int64_t& last) {
  first = last = 0;
  if (piece.length == 0) return {};
  first = offset_at(*piece.array, type, piece.offset);
  last = offset_at(*piece.array, type, piece.offset + piece.length);
  return first < 0 || last < first ? malformed("its offsets fall") : Status();
}

/// Rows [first, first + length) of a child, which nobody checked yet.
Piece piece_of(const ArrowArray* child, int64_t first, int64_t length) {
  const bool sane = child->offset >= 0 && child->offset <= kRowsMax;
  return {child, sane ? child->offset + first : 0, length};
}

/// The same memory, so the same values. Both were checked.
bool same_memory(const ArrowArray& a, const ArrowArray& b) {
  if (a.length != b.length || a.offset != b.offset || a.n_buffers != b.n_buffers ||
      a.n_children != b.n_children || (a.dictionary == nullptr) != (b.dictionary == nullptr)) {
    return false;
  }
  if (a.n_children != 0) return &a == &b;  // which nobody checked yet
  if (!std::equal(a.buffers, a.buffers + a.n_buffers, b.buffers)) return false;
  return a.dictionary == nullptr || same_memory(*a.dictionary, *b.dictionary);
}

bool has_values(const Type& type) {
  return type.form == Form::kFixed || type.form == Form::kBinary || type.form == Form::kLargeBinary ||
         type.form == Form::kView;
}

/// Of some of the views.
uint64_t estimate_view_bytes(const Piece& piece) {
  constexpr int64_t kSamples = 256;
  constexpr uint64_t kOffsetBytes = 4;
  constexpr int64_t kViewBytes = 16;
  const int64_t step = std::max<int64_t>(1, piece.length / kSamples);
  uint64_t bytes = 0, samples = 0;
  for (int64_t row = piece.offset; row < piece.offset + piece.length; row += step, ++samples) {
    int32_t value_bytes = 0;
    std::memcpy(&value_bytes, static_cast<const char*>(piece.array->buffers[1]) + row * kViewBytes, 4);
    if (value_bytes > 0 && valid_at(validity_of(piece), row)) bytes += static_cast<uint64_t>(value_bytes);
  }
  const auto rows = static_cast<uint64_t>(piece.length);
  return rows * kOffsetBytes + bytes * rows / std::max<uint64_t>(1, samples);
}

class Gatherer {
 public:
  Gatherer(DictionaryBook& book, Cut& cut) : book_(book), cut_(cut) {}

  /// The batch that did not fit any more.
  size_t cut_batch() const { return cut_batch_; }

  Status gather(Part& part) {
    part.length = 0;
    for (const Piece& piece : part.pieces) {
      OCM_TRY(check_array(*piece.array, *part.given));
      if (piece.offset < piece.array->offset ||
          piece.offset + piece.length > piece.array->offset + piece.array->length) {
        return malformed("a child is shorter than its parent says");
      }
      part.length += static_cast<uint64_t>(piece.length);
    }
    count_nulls(part);
    OCM_DASSERT(part.nulls <= part.length);
    if (part.nulls > 0 && part.stored->type.form != Form::kNull) part.buffer_bytes[0] = (part.length + 7) / 8;
    if (part.indexes_strings()) return index_strings(part);
    if (part.given->has_dictionary()) return gather_dictionary(part);
    return gather_plain(part);
  }

 private:
  static void count_nulls(Part& part) {
    part.nulls = 0;
    if (part.stored->type.form == Form::kNull) {
      part.nulls = part.length;
      return;
    }
    for (const Piece& piece : part.pieces) {
      const void* validity = piece.array->buffers[0];
      if (piece.array->null_count == 0 || validity == nullptr) continue;
      const auto length = static_cast<uint64_t>(piece.length);
      part.nulls += length - count_ones(validity, static_cast<uint64_t>(piece.offset), length);
    }
  }

  Status gather_plain(Part& part) {
    const Type& type = part.stored->type;
    switch (type.form) {
      case Form::kNull: return {};
      case Form::kBool: part.buffer_bytes[1] = (part.length + 7) / 8; return {};
      case Form::kFixed: return gather_fixed(part);
      case Form::kBinary:
      case Form::kLargeBinary: return gather_binary(part);
      case Form::kStruct: return gather_struct(part);
      case Form::kList:
      case Form::kLargeList: return gather_list(part);
      case Form::kFixedList: return gather_fixed_list(part);
      case Form::kView: break;  // is never stored
    }
    return Status(Code::kInternal, "a view was to be stored");
  }

  static Status gather_fixed(Part& part) {
    part.buffer_bytes[1] = part.length * part.stored->type.width_bytes;
    if (!part.pack || !can_pack(part.stored->type)) return {};
    BoundsOf look(part.stored->type.number);
    for (const Piece& piece : part.pieces) OCM_TRY(look_at(piece, part.given->type, look));
    part.bounds = look.result();
    const bool known = part.bounds.kind == OCM_BOUND_INT;
    if (known || part.nulls == part.length)
      choose_packing(part, known ? part.bounds.minimum.integer : 0, known ? part.bounds.maximum.integer : 0);
    return {};
  }

  /// Decimals of more than 64 bits as the 64 that they become. Foreign buffers need not be aligned.
  static Status look_at(const Piece& piece, const Type& type, BoundsOf& look) {
    if (piece.length == 0) return {};
    const void* validity = validity_of(piece);
    const auto first = static_cast<uint64_t>(piece.offset), length = static_cast<uint64_t>(piece.length);
    const uint64_t width = type.width_bytes;
    const auto* values = static_cast<const std::byte*>(piece.array->buffers[1]) + first * width;
    if (width <= sizeof(int64_t) && reinterpret_cast<uintptr_t>(values) % width == 0) {
      look.look(values, length, validity, first);
      return {};
    }
    std::array<int64_t, 1024> block;
    for (uint64_t done = 0; done < length; done += block.size()) {
      const uint64_t run = std::min<uint64_t>(block.size(), length - done);
      if (width <= sizeof(int64_t)) {
        std::memcpy(block.data(), values + done * width, run * width);
      } else if (!narrow_decimals(piece, done, run, width, block.data())) {
        return malformed("a decimal has more digits than its precision allows");
      }
      look.look(block.data(), run, validity, first + done);
    }
    return {};
  }

  static void choose_packing(Part& part, int64_t least, int64_t most) {
    Packing packing;
    if (!packing_for(least, most, packing) || packing.bits > packed_bits_max(part.stored->type)) return;
    OCM_DASSERT(can_pack(part.stored->type));
    const uint64_t bytes = packed_bytes(part.length, packing.bits);
    if (bytes >= part.buffer_bytes[1]) return;  // few rows, which do not fill their block
    part.buffer_bytes[1] = bytes;
    part.packing = packing;
  }

  Status gather_binary(Part& part) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < part.pieces.size(); ++i) {
      const Piece& piece = part.pieces[i];
      if (part.given->type.form == Form::kView) {
        OCM_TRY(add_view_bytes(piece, bytes));
      } else {
        int64_t first = 0, last = 0;
        OCM_TRY(read_offsets(piece, part.given->type, first, last));
        if (last > first && piece.array->buffers[2] == nullptr) return malformed("its data is null");
        bytes += static_cast<uint64_t>(last - first);
      }
      if (part.stored->type.form == Form::kBinary && bytes > INT32_MAX) return cut_before(i);
    }
    part.buffer_bytes[1] = (part.length + 1) * part.stored->type.offset_bytes();
    part.buffer_bytes[2] = bytes;
    return {};
  }

  static Status add_view_bytes(const Piece& piece, uint64_t& bytes) {
    const ViewReader reader(*piece.array);
    const void* validity = validity_of(piece);
    std::string_view value;
    for (int64_t row = piece.offset; row < piece.offset + piece.length; ++row) {
      if (!valid_at(validity, row)) continue;
      if (!reader.at(row, value)) return malformed("a view points outside of its data");
      bytes += value.size();
    }
    return {};
  }

  Status gather_struct(Part& part) {
    for (size_t c = 0; c < part.stored->children.size(); ++c) {
      Part& child = add_child(part, c);
      for (const Piece& piece : part.pieces) {
        child.pieces.push_back(piece_of(piece.array->children[c], piece.offset, piece.length));
      }
      OCM_DASSERT(child.pieces.size() == part.pieces.size());  // G1
      OCM_TRY(gather(child));
    }
    return {};
  }

  Status gather_list(Part& part) {
    Part& child = add_child(part, 0);
    uint64_t entries = 0;
    for (size_t i = 0; i < part.pieces.size(); ++i) {
      const Piece& piece = part.pieces[i];
      int64_t first = 0, last = 0;
      OCM_TRY(read_offsets(piece, part.given->type, first, last));
      if (last > kRowsMax) return malformed("its offsets are too large");
      child.pieces.push_back(piece_of(piece.array->children[0], first, last - first));
      entries += static_cast<uint64_t>(last - first);
      if (part.stored->type.form == Form::kList && entries > INT32_MAX) return cut_before(i);
    }
    OCM_DASSERT(child.pieces.size() == part.pieces.size());  // G1
    part.buffer_bytes[1] = (part.length + 1) * part.stored->type.offset_bytes();
    return gather(child);
  }

  Status gather_fixed_list(Part& part) {
    Part& child = add_child(part, 0);
    const int64_t entries = part.stored->type.list_length;
    for (const Piece& piece : part.pieces) {
      if (entries > 0 && piece.offset + piece.length > kRowsMax / entries) return malformed("it is too long");
      child.pieces.push_back(
          piece_of(piece.array->children[0], piece.offset * entries, piece.length * entries));
    }
    OCM_DASSERT(child.pieces.size() == part.pieces.size());  // G1
    return gather(child);
  }

  static Part& add_child(Part& part, size_t index) {
    Part& child = part.children.emplace_back();
    child.given = &part.given->children[index];
    child.stored = &part.stored->children[index];
    child.pieces.reserve(part.pieces.size());
    return child;
  }

  // ---------------------------------------------------------------- dictionaries

  /// Strings that become indices.
  Status index_strings(Part& part) {
    const uint64_t limit = index_max(part.stored->type.number) + 1;
    OCM_DASSERT(limit > 1);
    // An index of 8 bits numbers 127 values: the last one stays free, for engines that mark null with it.
    Distinct distinct(limit - 1);
    Part values;
    values.given = part.given;
    values.stored = &part.stored->values();
    part.indices = std::make_unique_for_overwrite<int32_t[]>(part.length);
    int32_t* out = part.indices.get();
    for (const Piece& piece : part.pieces) {
      OCM_TRY(with_reader(*piece.array, part.given->type, [&](const auto& reader) {
        return index_piece(piece, reader, distinct, values, out);
      }));
      out += piece.length;
      if (!cut_.index_full) continue;
      cut_.needed = true;
      cut_.rows += static_cast<uint64_t>(out - piece.length - part.indices.get());
      return Status(Code::kTooLarge,
                    "it has more than " + std::to_string(limit - 1) +
                        " distinct strings in a row group, which its dictionary cannot number");
    }
    OCM_DASSERT(out == part.indices.get() + part.length && values.pieces.size() == distinct.size());
    return store_dictionary(part, values);
  }

  /// One batch of them; where the index is full the cut has the rows before.
  template <class Reader>
  Status index_piece(const Piece& piece, const Reader& reader, Distinct& distinct, Part& values,
                     int32_t* out) {
    const void* validity = validity_of(piece);
    std::string_view value;
    for (int64_t i = 0; i < piece.length; ++i) {
      const int64_t row = piece.offset + i;
      out[i] = 0;
      if (!valid_at(validity, row)) continue;
      if (!reader.at(row, value)) return malformed("a string lies outside of its data");
      const int64_t index = distinct.add(value);
      if (index == Distinct::kFull) {
        cut_.index_full = true;
        cut_.rows = static_cast<uint64_t>(i);
        return {};
      }
      out[i] = static_cast<int32_t>(index);
      if (static_cast<uint64_t>(index) == values.pieces.size())
        values.pieces.push_back({piece.array, row, 1});
    }
    return {};
  }

  Status gather_dictionary(Part& part) {
    Part values;
    values.given = &part.given->values();
    values.stored = &part.stored->values();
    bool same = true;
    for (const Piece& piece : part.pieces) {
      const ArrowArray& dictionary = *piece.array->dictionary;
      OCM_TRY(check_array(dictionary, *values.given));
      same = same && same_memory(dictionary, *part.pieces.front().array->dictionary);
    }
    same = same && !part.pieces.empty();
    // Values that stand in it twice are counted once.
    if (same && part.narrows_index()) {
      const int64_t length = part.pieces.front().array->dictionary->length;
      same = static_cast<uint64_t>(length) <= part.dictionary_max();
    }
    if (same) {
      const ArrowArray* dictionary = part.pieces.front().array->dictionary;
      values.pieces.push_back({dictionary, dictionary->offset, dictionary->length});
    } else if (has_values(values.given->type) && !values.given->has_dictionary()) {
      OCM_TRY(unify(part, values));
    } else {
      OCM_TRY(concatenate(part, values));
    }
    return store_dictionary(part, values);
  }

  /// Dictionaries one after the other, equal values once.
  Status unify(Part& part, Part& values) {
    Distinct distinct(part.dictionary_max());
    int64_t null_index = Distinct::kFull;
    uint64_t count = 0;
    std::vector<int32_t> numbers;  // of the distinct values, which nulls are not among
    for (size_t i = 0; i < part.pieces.size(); ++i) {
      const ArrowArray& dictionary = *part.pieces[i].array->dictionary;
      const void* validity = validity_of(dictionary);
      std::vector<int32_t>& renames = part.renames.emplace_back();
      for (int64_t row = dictionary.offset; row < dictionary.offset + dictionary.length; ++row) {
        std::string_view value;
        if (!valid_at(validity, row)) {
          if (null_index == Distinct::kFull) {
            null_index = static_cast<int64_t>(count++);
            values.pieces.push_back({&dictionary, row, 1});
          }
          renames.push_back(static_cast<int32_t>(null_index));
          continue;
        }
        const bool inside = with_reader(dictionary, values.given->type,
                                        [&](const auto& reader) { return reader.at(row, value); });
        if (!inside) return malformed("a value of its dictionary lies outside of its data");
        const int64_t number = distinct.add(value);
        if (number == Distinct::kFull) return no_index(part, i);
        if (static_cast<size_t>(number) == numbers.size()) {
          numbers.push_back(static_cast<int32_t>(count++));
          values.pieces.push_back({&dictionary, row, 1});
        }
        renames.push_back(numbers[static_cast<size_t>(number)]);
      }
      if (count > part.dictionary_max()) return no_index(part, i);
      OCM_DASSERT(values.pieces.size() == count);
      OCM_DASSERT(renames.size() == static_cast<size_t>(dictionary.length));
    }
    return {};
  }

  /// Dictionaries one after the other, as they are.
  Status concatenate(Part& part, Part& values) {
    uint64_t count = 0;
    for (size_t i = 0; i < part.pieces.size(); ++i) {
      const ArrowArray& dictionary = *part.pieces[i].array->dictionary;
      values.pieces.push_back({&dictionary, dictionary.offset, dictionary.length});
      if (count + static_cast<uint64_t>(dictionary.length) >
          std::min<uint64_t>(index_max(part.stored->type.number) + 1, INT32_MAX))
        return cut_before(i);
      std::vector<int32_t>& renames = part.renames.emplace_back();
      for (int64_t row = 0; row < dictionary.length; ++row) renames.push_back(static_cast<int32_t>(count++));
    }
    return {};
  }

  Status store_dictionary(Part& part, Part& values) {
    Cut inner;
    const Status status = Gatherer(book_, inner).gather(values);
    if (inner.needed) cut_ = {true, 0, false};
    OCM_TRY(status);
    auto image = std::make_shared<Image>();
    image->chunk = chunk_of(values);
    image->bytes.resize(image->chunk.bytes());
    OCM_TRY(encode(values, image->bytes.data(), nullptr));
    OCM_DASSERT(part.stored->type.is_integer() && image->chunk.offset == 0);
    part.values = values.length;
    part.dictionary = book_.enter(*part.stored, std::move(image));
    part.buffer_bytes[1] = part.length * part.stored->type.width_bytes;
    if (part.pack) choose_packing(part, 0, static_cast<int64_t>(std::max<uint64_t>(part.values, 1) - 1));
    return {};
  }

  /// The index cannot number the values of batch `index` too.
  Status no_index(const Part& part, size_t index) {
    // An index of 32 bits is never made wider.
    OCM_DASSERT(index < part.pieces.size());
    if (!part.narrows_index() || index_max(part.stored->type.number) >= INT32_MAX) return cut_before(index);
    cut_ = {true, 0, true};
    cut_batch_ = index;
    return Status(Code::kTooLarge, "its dictionary has more values than the table's index can number");
  }

  /// What comes before batch `index` fits, with it no more.
  Status cut_before(size_t index) {
    cut_ = {true, 0, false};
    cut_batch_ = index;
    return Status(Code::kTooLarge,
                  "a value has more than 2^31-1 bytes or entries, or its dictionary is too long");
  }

  DictionaryBook& book_;
  Cut& cut_;
  size_t cut_batch_ = 0;
};

}  // namespace

bool narrow_decimals(const Piece& piece, uint64_t row, uint64_t count, uint64_t width_bytes, int64_t* out) {
  OCM_DASSERT(width_bytes == 2 * sizeof(int64_t) || width_bytes == 4 * sizeof(int64_t));
  const uint64_t words = width_bytes / sizeof(int64_t);
  const void* validity = validity_of(piece);
  const int64_t first = piece.offset + static_cast<int64_t>(row);
  const auto* source =
      static_cast<const std::byte*>(piece.array->buffers[1]) + static_cast<uint64_t>(first) * width_bytes;
  bool all_fit = true;
  for (uint64_t i = 0; i < count; ++i) {
    int64_t value[4] = {};
    std::memcpy(value, source + i * width_bytes, width_bytes);
    bool fits = true;
    for (uint64_t word = 1; word < words; ++word) fits &= value[word] == value[0] >> 63;
    all_fit &= fits || !valid_at(validity, first + static_cast<int64_t>(i));
    out[i] = fits ? value[0] : 0;
  }
  return all_fit;
}

Status check_array(const ArrowArray& array, const Field& field) {
  const Type& type = field.type;
  if (array.release == nullptr) return malformed("it was released");
  if (array.length < 0 || array.offset < 0 || array.length > kRowsMax || array.offset > kRowsMax)
    return malformed("its length or offset is not a count");
  const int64_t end = array.length + array.offset;
  if (type.width_bytes > 0 && end > INT64_MAX / type.width_bytes) return malformed("it is too long");
  const bool buffers_fit = type.form == Form::kView
                               ? array.n_buffers >= 3
                               : array.n_buffers == static_cast<int64_t>(type.buffers()) ||
                                     (type.form == Form::kNull && array.n_buffers == 1);
  if (!buffers_fit) return malformed("it has " + std::to_string(array.n_buffers) + " buffers");
  if (array.n_buffers > 0 && array.buffers == nullptr) return malformed("its buffers are null");
  if (array.n_children != static_cast<int64_t>(field.children.size()) ||
      (array.n_children > 0 && array.children == nullptr)) {
    return malformed("it has " + std::to_string(array.n_children) + " children");
  }
  for (int64_t i = 0; i < array.n_children; ++i) {
    if (array.children[i] == nullptr) return malformed("a child is null");
  }
  if ((array.dictionary != nullptr) != field.has_dictionary()) return malformed("its dictionary is amiss");
  if (type.form == Form::kNull || array.length == 0) return {};
  if (array.null_count > 0 && array.buffers[0] == nullptr) return malformed("it has nulls and no validity");
  const bool needs_data = type.buffers() > 1 && !(type.form == Form::kFixed && type.width_bytes == 0);
  return needs_data && array.buffers[1] == nullptr ? malformed("its values are null") : Status();
}

Status gather(Part& part, DictionaryBook& book, Cut& cut) {
  const std::vector<Piece> batches = part.pieces;
  cut = {};
  Gatherer gatherer(book, cut);
  const Status status = gatherer.gather(part);
  OCM_DASSERT(!cut.needed || (!status.is_ok() && gatherer.cut_batch() <= batches.size()));
  // What a child counts are entries; its batches are those of the column.
  if (!part.stored->has_dictionary()) cut.rows = 0, cut.index_full = false;
  if (cut.needed && cut.rows == 0) {
    for (size_t i = 0; i < gatherer.cut_batch(); ++i) cut.rows += static_cast<uint64_t>(batches[i].length);
  }
  return status;
}

uint64_t estimate_bytes(const Field& field, const Piece& piece) {
  const ArrowArray& array = *piece.array;
  if (piece.length <= 0 || !check_array(array, field).is_ok() ||
      piece.offset + piece.length > array.offset + array.length) {
    return 0;
  }
  const Type& type = field.type;
  const auto rows = static_cast<uint64_t>(piece.length);
  uint64_t bytes = rows / 8;
  int64_t first = 0, last = 0;
  if (type.has_offsets() && !read_offsets(piece, type, first, last).is_ok()) return 0;
  switch (type.form) {
    case Form::kNull: return 0;
    case Form::kBool: return bytes + rows / 8;
    case Form::kFixed: return bytes + rows * type.width_bytes;
    case Form::kBinary:
    case Form::kLargeBinary: return bytes + rows * type.offset_bytes() + static_cast<uint64_t>(last - first);
    case Form::kView: return bytes + estimate_view_bytes(piece);
    case Form::kStruct:
      for (size_t c = 0; c < field.children.size(); ++c) {
        bytes += estimate_bytes(field.children[c], piece_of(array.children[c], piece.offset, piece.length));
      }
      return bytes;
    case Form::kList:
    case Form::kLargeList:
      if (last > kRowsMax) return 0;
      return bytes + rows * type.offset_bytes() +
             estimate_bytes(field.children[0], piece_of(array.children[0], first, last - first));
    case Form::kFixedList: {
      const int64_t entries = type.list_length;
      if (entries == 0 || piece.offset + piece.length > kRowsMax / entries) return bytes;
      return bytes + estimate_bytes(field.children[0], piece_of(array.children[0], piece.offset * entries,
                                                                piece.length * entries));
    }
  }
  return bytes;
}

uint64_t count_distinct(const Part& part, uint64_t limit) {
  Distinct distinct(limit);
  bool null_value = false;
  const auto add = [&](const ArrowArray& array, const Field& field, int64_t first, int64_t length) {
    if (!check_array(array, field).is_ok() || !has_values(field.type) || field.has_dictionary()) return false;
    const void* validity = validity_of(array);
    return with_reader(array, field.type, [&](const auto& reader) {
      std::string_view value;
      for (int64_t row = first; row < first + length; ++row) {
        if (!valid_at(validity, row)) {
          null_value = true;
          continue;
        }
        if (!reader.at(row, value) || distinct.add(value) == Distinct::kFull) return false;
      }
      return true;
    });
  };
  const ArrowArray* last = nullptr;
  for (const Piece& piece : part.pieces) {
    const ArrowArray* dictionary = piece.array->dictionary;
    bool fit = true;
    if (!part.given->has_dictionary()) {
      fit = add(*piece.array, *part.given, piece.offset, piece.length);
    } else if (dictionary == nullptr) {
      fit = false;
    } else if (dictionary != std::exchange(last, dictionary)) {
      fit = add(*dictionary, part.given->values(), dictionary->offset, dictionary->length);
    }
    if (!fit) return limit + 1;
  }
  OCM_DASSERT(distinct.size() <= limit);
  // A null in a dictionary is a value of it.
  return distinct.size() + (part.given->has_dictionary() && null_value ? 1 : 0);
}

Chunk chunk_of(const Part& part) {
  Chunk chunk;
  chunk.packing = part.packing;
  const auto walk = [&](const Part& one, const auto& self) -> void {
    chunk.lengths.push_back(one.length);
    chunk.nulls.push_back(one.nulls);
    for (uint32_t i = 0; i < one.stored->type.buffers(); ++i) chunk.buffers.push_back(one.buffer_bytes[i]);
    if (one.stored->has_dictionary()) chunk.dictionaries.push_back(one.dictionary);
    for (const Part& child : one.children) self(child, self);
  };
  walk(part, walk);
  OCM_DASSERT(chunk.lengths.size() == chunk.nulls.size() && !chunk.lengths.empty());
  return chunk;
}

}  // namespace ocm::table
