#include "table/format/verify.h"

#include <algorithm>
#include <array>

#include "table/format/bits.h"

namespace ocm::table {
namespace {

Status bad(const char* what) {
  return Status(Code::kProtocol, std::string("the stored data is malformed: ") + what);
}

class Verifier {
 public:
  Verifier(const Catalogue& catalogue, const Chunk& chunk, const std::byte* data, Depth depth)
      : catalogue_(catalogue), chunk_(chunk), at_(data), depth_(depth) {}

  /// What the catalogue says of the chunk was walked over, all of it.
  bool is_at_end() const {
    return field_ == chunk_.lengths.size() && buffer_ == chunk_.buffers.size() &&
           dictionary_ == chunk_.dictionaries.size();
  }

  Status verify(const Field& field) {
    OCM_DASSERT(field_ < chunk_.lengths.size() && field_ < chunk_.nulls.size());  // C2
    const uint64_t length = chunk_.lengths[field_], nulls = chunk_.nulls[field_];
    const Packing* packing = chunk_.packing_of(field_);
    ++field_;
    const std::byte* buffers[3] = {};
    uint64_t bytes[3] = {};
    for (uint32_t i = 0; i < field.type.buffers(); ++i) {
      bytes[i] = chunk_.buffers[buffer_++];
      buffers[i] = at_;
      at_ += align_up(bytes[i]);
    }
    if (field.has_dictionary()) {
      OCM_DASSERT(dictionary_ < chunk_.dictionaries.size());  // C3
      const Dictionary& dictionary = catalogue_.dictionaries[chunk_.dictionaries[dictionary_++]];
      if (depth_ == Depth::kAll && length > 0) {
        OCM_TRY(verify_indices(field.type, packing, buffers[1], length, nulls > 0 ? buffers[0] : nullptr,
                               dictionary.chunk.lengths[0]));
      }
    }
    if (field.type.has_offsets() && length > 0) {
      const bool list = field.type.form == Form::kList || field.type.form == Form::kLargeList;
      const uint64_t end = list ? chunk_.lengths[field_] : bytes[2];
      OCM_TRY(field.type.offset_bytes() == 8
                  ? verify_offsets(reinterpret_cast<const int64_t*>(buffers[1]), length, end)
                  : verify_offsets(reinterpret_cast<const int32_t*>(buffers[1]), length, end));
    }
    for (const Field& child : field.children) OCM_TRY(verify(child));
    return {};
  }

 private:
  template <class Offset>
  Status verify_offsets(const Offset* offsets, uint64_t length, uint64_t end) const {
    if (offsets[0] < 0 || offsets[length] < offsets[0] || static_cast<uint64_t>(offsets[length]) > end)
      return bad("offsets leave their buffer");
    bool falls = false;
    for (uint64_t i = 0; depth_ == Depth::kAll && i < length; ++i) falls |= offsets[i + 1] < offsets[i];
    return falls ? bad("offsets fall") : Status();
  }

  static Status verify_indices(const Type& type, const Packing* packing, const std::byte* buffer,
                               uint64_t length, const std::byte* validity, uint64_t values) {
    OCM_DASSERT(length > 0 && type.is_integer());
    const bool unseen = validity != nullptr && count_ones(validity, 0, length) == 0;
    if (unseen) return {};
    BoundsOf look(type.number);
    if (packing == nullptr) {
      look.look(buffer, length, validity, 0);
    } else {
      look_at_packed(*packing, type.width_bytes, buffer, length, validity, look);
    }
    const Bounds bounds = look.result();
    const bool inside = bounds.kind == OCM_BOUND_INT && bounds.minimum.integer >= 0 &&
                        static_cast<uint64_t>(bounds.maximum.integer) < values;
    return inside ? Status() : bad("an index lies outside of its dictionary");
  }

  /// At least one value is valid.
  static void look_at_packed(const Packing& packing, uint32_t width_bytes, const std::byte* buffer,
                             uint64_t length, const std::byte* validity, BoundsOf& look) {
    alignas(8) std::array<std::byte, kPackRows * sizeof(uint64_t)> block;
    if (packing.bits == 0) {  // no buffer says that there are not 2^48 of them: one is like all
      unpack_blocks(buffer, 1, packing, width_bytes, block.data());
      return look.look(block.data(), 1, nullptr, 0);
    }
    for (uint64_t row = 0; row < length; row += kPackRows) {
      unpack_blocks(buffer + packed_bytes(row, packing.bits), 1, packing, width_bytes, block.data());
      look.look(block.data(), std::min(kPackRows, length - row), validity, row);
    }
  }

  const Catalogue& catalogue_;
  const Chunk& chunk_;
  const std::byte* at_;
  Depth depth_;
  size_t field_ = 0, buffer_ = 0, dictionary_ = 0;
};

}  // namespace

Status verify_chunk(const Catalogue& catalogue, const Field& field, const Chunk& chunk, const std::byte* data,
                    Depth depth) {
  Verifier verifier(catalogue, chunk, data, depth);
  const Status status = verifier.verify(field);
  OCM_DASSERT(!status.is_ok() || verifier.is_at_end());
  return status;
}

}  // namespace ocm::table
