#include "table/format/encode.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "table/format/values.h"

namespace ocm::table {
namespace {

/// Where the piece's values of `bytes` each begin.
const std::byte* values_of(const Piece& piece, uint64_t bytes) {
  return static_cast<const std::byte*>(piece.array->buffers[1]) + static_cast<uint64_t>(piece.offset) * bytes;
}

class Encoder {
 public:
  explicit Encoder(std::byte* target) : at_(target) {}

  Status encode(const Part& part, Bounds* bounds) {
    if (part.stored->type.buffers() == 0) return {};
    if (std::byte* validity = begin(part.buffer_bytes[0])) write_validity(part, validity);
    OCM_TRY(encode_values(part, bounds));
    for (const Part& child : part.children) OCM_TRY(encode(child, nullptr));
    return {};
  }
  /// Where the next buffer would begin.
  const std::byte* at() const { return at_; }

 private:
  /// The next buffer; null if it is absent.
  std::byte* begin(uint64_t bytes) {
    if (bytes == 0) return nullptr;
    std::byte* buffer = at_;
    at_ += align_up(bytes);
    std::memset(buffer + bytes, 0, align_up(bytes) - bytes);
    return buffer;
  }

  static void write_validity(const Part& part, std::byte* target) {
    uint64_t bit = 0;
    for (const Piece& piece : part.pieces) {
      const auto length = static_cast<uint64_t>(piece.length);
      if (const void* validity = validity_of(piece)) {
        copy_bits(target, bit, validity, static_cast<uint64_t>(piece.offset), length);
      } else {
        fill_ones(target, bit, length);
      }
      bit += length;
    }
    OCM_DASSERT(bit == part.length);
  }

  Status encode_values(const Part& part, Bounds* bounds) {
    const Type& type = part.stored->type;
    if (part.packing) return encode_packed(part, bounds);
    if (part.indexes_strings()) return encode_indices(part, begin(part.buffer_bytes[1]));
    if (part.given->has_dictionary()) return encode_renamed(part, begin(part.buffer_bytes[1]));
    switch (type.form) {
      case Form::kBool: return encode_bools(part, bounds);
      case Form::kFixed:
        return part.given->type.width_bytes == type.width_bytes ? encode_fixed(part, bounds)
                                                                : encode_decimals(part, bounds);
      case Form::kBinary: return encode_binary<int32_t>(part);
      case Form::kLargeBinary: return encode_binary<int64_t>(part);
      case Form::kList: return encode_offsets<int32_t>(part, begin(part.buffer_bytes[1]));
      case Form::kLargeList: return encode_offsets<int64_t>(part, begin(part.buffer_bytes[1]));
      default: return {};
    }
  }

  static Status encode_bools_look(const Part& part, Bounds& bounds) {
    uint64_t ones = 0;
    for (const Piece& piece : part.pieces) {
      const auto first = static_cast<uint64_t>(piece.offset), length = static_cast<uint64_t>(piece.length);
      const void* validity = validity_of(piece);
      for (uint64_t done = 0; done < length; done += 64) {
        const uint64_t run = std::min<uint64_t>(64, length - done);
        uint64_t word = load_bits(piece.array->buffers[1], first + done, run);
        if (validity != nullptr) word &= load_bits(validity, first + done, run);
        ones += static_cast<uint64_t>(std::popcount(word));
      }
    }
    bounds = bool_bounds(part.length - part.nulls, ones);
    return {};
  }

  Status encode_bools(const Part& part, Bounds* bounds) {
    std::byte* target = begin(part.buffer_bytes[1]);
    uint64_t bit = 0;
    for (const Piece& piece : part.pieces) {
      const auto length = static_cast<uint64_t>(piece.length);
      if (length > 0)
        copy_bits(target, bit, piece.array->buffers[1], static_cast<uint64_t>(piece.offset), length);
      bit += length;
    }
    return bounds != nullptr ? encode_bools_look(part, *bounds) : Status();
  }

  Status encode_fixed(const Part& part, Bounds* bounds) {
    constexpr uint64_t kBlockBytes = 32 * 1024;  // is still in the first cache when it is looked at
    const uint64_t width = part.stored->type.width_bytes;
    std::byte* target = begin(part.buffer_bytes[1]);
    if (target == nullptr) return {};
    BoundsOf look(part.stored->type.number);
    OCM_DASSERT(width > 0 && part.buffer_bytes[1] == part.length * width);
    const uint64_t block_rows = std::max<uint64_t>(64, kBlockBytes / width / 64 * 64);
    for (const Piece& piece : part.pieces) {
      const auto length = static_cast<uint64_t>(piece.length);
      const std::byte* source = length > 0 ? values_of(piece, width) : nullptr;
      if (bounds == nullptr || part.stored->type.number == Number::kNone) {
        if (length > 0) std::memcpy(target, source, length * width);
        target += length * width;
        continue;
      }
      for (uint64_t done = 0; done < length; done += block_rows) {
        const uint64_t rows = std::min(block_rows, length - done);
        std::memcpy(target, source + done * width, rows * width);
        look.look(target, rows, validity_of(piece), static_cast<uint64_t>(piece.offset) + done);
        target += rows * width;
      }
    }
    if (bounds != nullptr) *bounds = look.result();
    return {};
  }

  /// From 128 or 256 bits to 64.
  Status encode_decimals(const Part& part, Bounds* bounds) {
    auto* out = reinterpret_cast<int64_t*>(begin(part.buffer_bytes[1]));
    BoundsOf look(Number::kInt64);
    for (const Piece& piece : part.pieces) {
      const auto length = static_cast<uint64_t>(piece.length);
      if (length == 0) continue;
      if (!narrow_decimals(piece, 0, length, part.given->type.width_bytes, out))
        return malformed("a decimal has more digits than its precision allows");
      look.look(out, length, validity_of(piece), static_cast<uint64_t>(piece.offset));
      out += length;
    }
    if (bounds != nullptr) *bounds = look.result();
    return {};
  }

  // ---------------------------------------------------------------- packed integers

  /// Collects distances and packs whole blocks.
  class Packer {
   public:
    Packer(const Packing& packing, std::byte* target) : packing_(packing), target_(target) {}

    /// Values of `width_bytes` each; what is null is as good as the base.
    void add(const std::byte* values, uint64_t count, uint64_t width_bytes, const void* validity,
             uint64_t first_bit) {
      for (uint64_t done = 0; done < count;) {
        const uint64_t run = std::min(count - done, kPackRows - filled_);
        distances(values + done * width_bytes, run, width_bytes);
        if (validity != nullptr) {
          for (uint64_t i = 0; i < run; ++i)
            if (!bit_at(validity, first_bit + done + i)) block_[filled_ + i] = 0;
        }
        filled_ += run;
        done += run;
        OCM_DASSERT(filled_ <= kPackRows);
        if (filled_ == kPackRows) end_block();
      }
    }
    void finish() {
      if (filled_ == 0) return;
      std::fill(block_.begin() + static_cast<ptrdiff_t>(filled_), block_.end(), 0);
      end_block();
    }

   private:
    void distances(const std::byte* values, uint64_t count, uint64_t width_bytes) {
      switch (width_bytes) {
        case 1: return distances_of<uint8_t>(values, count);
        case 2: return distances_of<uint16_t>(values, count);
        case 4: return distances_of<uint32_t>(values, count);
        default: return distances_of<uint64_t>(values, count);
      }
    }
    template <class Value>
    void distances_of(const std::byte* values, uint64_t count) {
      const auto base = static_cast<Value>(packing_.base);
      uint32_t* out = block_.data() + filled_;
      for (uint64_t i = 0; i < count; ++i) {
        Value value;
        std::memcpy(&value, values + i * sizeof(Value), sizeof(Value));
        out[i] = static_cast<uint32_t>(static_cast<Value>(value - base));
      }
    }
    void end_block() {
      pack_block(block_.data(), packing_.bits, target_);
      target_ += packed_bytes(kPackRows, packing_.bits);
      filled_ = 0;
    }

    const Packing packing_;
    std::byte* target_;
    uint64_t filled_ = 0;
    std::array<uint32_t, kPackRows> block_;
  };

  Status encode_packed(const Part& part, Bounds* bounds) {
    if (bounds != nullptr) *bounds = part.bounds;
    std::byte* target = begin(part.buffer_bytes[1]);
    Packer packer(*part.packing, target);
    if (part.stored->has_dictionary()) {
      const uint64_t width = part.stored->type.width_bytes;
      std::vector<std::byte> indices(part.length * width);
      OCM_TRY(part.indexes_strings() ? encode_indices(part, indices.data())
                                     : encode_renamed(part, indices.data()));
      // A null's index may lie outside.
      uint64_t row = 0;
      for (const Piece& piece : part.pieces) {
        const auto length = static_cast<uint64_t>(piece.length);
        packer.add(indices.data() + row * width, length, width, validity_of(piece),
                   static_cast<uint64_t>(piece.offset));
        row += length;
      }
      OCM_DASSERT(row == part.length);
    } else {
      for (const Piece& piece : part.pieces) add_values(part, piece, packer);
    }
    packer.finish();
    return {};
  }

  static void add_values(const Part& part, const Piece& piece, Packer& packer) {
    const auto length = static_cast<uint64_t>(piece.length), first = static_cast<uint64_t>(piece.offset);
    const uint64_t width = part.given->type.width_bytes;
    if (length == 0) return;
    if (width <= sizeof(int64_t)) {
      packer.add(values_of(piece, width), length, width, validity_of(piece), first);
      return;
    }
    std::array<int64_t, kPackRows> narrow;
    for (uint64_t done = 0; done < length; done += narrow.size()) {
      const uint64_t run = std::min<uint64_t>(narrow.size(), length - done);
      (void)narrow_decimals(piece, done, run, width, narrow.data());  // gather saw that they fit
      packer.add(reinterpret_cast<const std::byte*>(narrow.data()), run, sizeof(int64_t), validity_of(piece),
                 first + done);
    }
  }

  /// Offsets of lists and plain binaries, based on 0.
  template <class Offset>
  static Status encode_offsets(const Part& part, std::byte* buffer) {
    if (part.given->type.offset_bytes() == 8) return rebase<int64_t, Offset>(part, buffer);
    return rebase<int32_t, Offset>(part, buffer);
  }
  template <class From, class To>
  static Status rebase(const Part& part, std::byte* buffer) {
    auto* out = reinterpret_cast<To*>(buffer);
    int64_t base = 0;
    *out++ = 0;
    for (const Piece& piece : part.pieces) {
      if (piece.length == 0) continue;
      const From* offsets = static_cast<const From*>(piece.array->buffers[1]) + piece.offset;
      const int64_t shift = base - offsets[0];
      bool falls = false;
      for (int64_t i = 1; i <= piece.length; ++i) {
        falls |= offsets[i] < offsets[i - 1];
        out[i - 1] = static_cast<To>(offsets[i] + shift);
      }
      if (falls) return malformed("its offsets fall");
      base = offsets[piece.length] + shift;
      out += piece.length;
    }
    OCM_DASSERT(out == reinterpret_cast<To*>(buffer) + part.length + 1);
    return {};
  }

  template <class Offset>
  Status encode_binary(const Part& part) {
    std::byte* offsets = begin(part.buffer_bytes[1]);
    std::byte* data = begin(part.buffer_bytes[2]);
    if (part.given->type.form == Form::kView) return encode_views<Offset>(part, offsets, data);
    OCM_TRY(encode_offsets<Offset>(part, offsets));
    for (const Piece& piece : part.pieces) {
      if (piece.length == 0) continue;
      int64_t first = 0, last = 0;
      if (part.given->type.form == Form::kLargeBinary) {
        const int64_t* from = static_cast<const int64_t*>(piece.array->buffers[1]) + piece.offset;
        first = from[0], last = from[piece.length];
      } else {
        const int32_t* from = static_cast<const int32_t*>(piece.array->buffers[1]) + piece.offset;
        first = from[0], last = from[piece.length];
      }
      if (last == first) continue;
      std::memcpy(data, static_cast<const std::byte*>(piece.array->buffers[2]) + first,
                  static_cast<uint64_t>(last - first));
      data += last - first;
    }
    return {};
  }

  template <class Offset>
  static Status encode_views(const Part& part, std::byte* offsets, std::byte* data) {
    auto* out = reinterpret_cast<Offset*>(offsets);
    Offset end = 0;
    *out++ = 0;
    for (const Piece& piece : part.pieces) {
      const ViewReader reader(*piece.array);
      const void* validity = validity_of(piece);
      std::string_view value;
      for (int64_t row = piece.offset; row < piece.offset + piece.length; ++row) {
        if (valid_at(validity, row)) {
          if (!reader.at(row, value)) return malformed("a view points outside of its data");
          std::memcpy(data + end, value.data(), value.size());
          end += static_cast<Offset>(value.size());
        }
        *out++ = end;
      }
    }
    return {};
  }

  // ---------------------------------------------------------------- dictionaries

  /// Calls `body` with a pointer of the index' type.
  template <class Body>
  static Status with_index(Number number, std::byte* buffer, Body body) {
    switch (number) {
      case Number::kInt8: return body(reinterpret_cast<int8_t*>(buffer));
      case Number::kUint8: return body(reinterpret_cast<uint8_t*>(buffer));
      case Number::kInt16: return body(reinterpret_cast<int16_t*>(buffer));
      case Number::kUint16: return body(reinterpret_cast<uint16_t*>(buffer));
      case Number::kInt32: return body(reinterpret_cast<int32_t*>(buffer));
      case Number::kUint32: return body(reinterpret_cast<uint32_t*>(buffer));
      case Number::kInt64: return body(reinterpret_cast<int64_t*>(buffer));
      default: return body(reinterpret_cast<uint64_t*>(buffer));
    }
  }

  /// Indices that gather found.
  static Status encode_indices(const Part& part, std::byte* target) {
    OCM_DASSERT(part.indices != nullptr && part.stored->type.is_integer());
    return with_index(part.stored->type.number, target, [&](auto* out) {
      using Index = std::remove_pointer_t<decltype(out)>;
      for (uint64_t row = 0; row < part.length; ++row) out[row] = static_cast<Index>(part.indices[row]);
      return Status();
    });
  }

  /// Indices as they came, or into the dictionary that several became.
  static Status encode_renamed(const Part& part, std::byte* target) {
    OCM_DASSERT(part.renames.empty() || part.renames.size() == part.pieces.size());
    return with_index(part.stored->type.number, target, [&](auto* out) {
      for (size_t i = 0; i < part.pieces.size(); ++i) {
        const Piece& piece = part.pieces[i];
        if (piece.length == 0) continue;
        if (part.renames.empty() && part.given->type.number == part.stored->type.number) {
          std::memcpy(out, values_of(piece, sizeof(*out)),
                      static_cast<uint64_t>(piece.length) * sizeof(*out));
          OCM_TRY(check_indices(part, piece, out));
        } else {
          auto* from = const_cast<std::byte*>(values_of(piece, part.given->type.width_bytes));
          const std::vector<int32_t>* renames = part.renames.empty() ? nullptr : &part.renames[i];
          OCM_TRY(with_index(part.given->type.number, from, [&](const auto* indices) {
            return renumber(piece, indices, renames, part.values, out);
          }));
        }
        out += piece.length;
      }
      return Status();
    });
  }

  template <class Index>
  static Status check_indices(const Part& part, const Piece& piece, const Index* indices) {
    BoundsOf look(part.stored->type.number);
    look.look(indices, static_cast<uint64_t>(piece.length), validity_of(piece),
              static_cast<uint64_t>(piece.offset));
    const Bounds bounds = look.result();
    if (bounds.kind == OCM_BOUND_NONE) {
      // No valid index, or one above 2^63-1.
      if (!std::numeric_limits<Index>::is_signed && sizeof(Index) == 8 && any_valid(piece)) return outside();
      return {};
    }
    const bool inside =
        bounds.minimum.integer >= 0 && static_cast<uint64_t>(bounds.maximum.integer) < part.values;
    return inside ? Status() : outside();
  }
  static bool any_valid(const Piece& piece) {
    const void* validity = validity_of(piece);
    return validity == nullptr ||
           count_ones(validity, static_cast<uint64_t>(piece.offset), static_cast<uint64_t>(piece.length)) > 0;
  }

  /// By `renames`, or (null) only to another width.
  template <class From, class Index>
  static Status renumber(const Piece& piece, const From* from, const std::vector<int32_t>* renames,
                         uint64_t values, Index* out) {
    const void* validity = validity_of(piece);
    const uint64_t count = renames != nullptr ? renames->size() : values;
    for (int64_t row = 0; row < piece.length; ++row) {
      out[row] = 0;
      if (!valid_at(validity, piece.offset + row)) continue;
      const auto index = static_cast<uint64_t>(from[row]);  // NOLINT: a negative one is outside
      if (index >= count) return outside();
      out[row] = static_cast<Index>(renames != nullptr ? (*renames)[index] : static_cast<int64_t>(index));
    }
    return {};
  }
  static Status outside() { return malformed("an index lies outside of its dictionary"); }

  std::byte* at_;
};

}  // namespace

Status encode(const Part& part, std::byte* target, Bounds* bounds) {
  if (bounds != nullptr) *bounds = {};
  Encoder encoder(target);
  const Status status = encoder.encode(part, bounds);
  OCM_DASSERT(!status.is_ok() || encoder.at() == target + chunk_of(part).bytes());
  return status;
}

}  // namespace ocm::table
