#include "table/format/bounds.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "table/format/bits.h"

namespace ocm::table {
namespace {

/// The extremes of a run without nulls, in four lanes so that no comparison waits for the one before it.
template <class Value>
bool extremes(const Value* values, uint64_t count, Value& low, Value& high) {
  constexpr int kLanes = 4;
  Value lows[kLanes], highs[kLanes];
  std::fill_n(lows, kLanes, low);
  std::fill_n(highs, kLanes, high);
  bool ordered = true;
  uint64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const Value value = values[i + lane];
      lows[lane] = value < lows[lane] ? value : lows[lane];
      highs[lane] = value > highs[lane] ? value : highs[lane];
      if constexpr (std::is_floating_point_v<Value>) ordered &= value == value;  // NOLINT: not of NaN
    }
  }
  for (; i < count; ++i) {
    lows[0] = values[i] < lows[0] ? values[i] : lows[0];
    highs[0] = values[i] > highs[0] ? values[i] : highs[0];
    if constexpr (std::is_floating_point_v<Value>) ordered &= values[i] == values[i];  // NOLINT: the same
  }
  low = *std::min_element(lows, lows + kLanes);
  high = *std::max_element(highs, highs + kLanes);
  return ordered;
}

}  // namespace

template <class Value, class Wide>
void BoundsOf::look_at(const Value* values, uint64_t count, const void* validity, uint64_t first_bit,
                       Wide& low, Wide& high) {
  using Limits = std::numeric_limits<Value>;
  Value least = Limits::has_infinity ? Limits::infinity() : Limits::max();
  Value most = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  bool seen = false;
  if (validity == nullptr) {
    seen = count > 0;
    unknown_ |= !extremes(values, count, least, most);
  }
  for (uint64_t done = 0; validity != nullptr && done < count; done += 64) {
    const uint64_t run = std::min<uint64_t>(64, count - done);
    uint64_t valid = load_bits(validity, first_bit + done, run);
    seen |= valid != 0;
    if (std::popcount(valid) == static_cast<int>(run)) {
      unknown_ |= !extremes(values + done, run, least, most);
      continue;
    }
    for (; valid != 0; valid &= valid - 1) {
      unknown_ |= !extremes(values + done + std::countr_zero(valid), 1, least, most);
    }
  }
  if (!seen) return;
  low = any_ ? std::min<Wide>(low, least) : static_cast<Wide>(least);
  high = any_ ? std::max<Wide>(high, most) : static_cast<Wide>(most);
  any_ = true;
}

void BoundsOf::look(const void* values, uint64_t count, const void* validity, uint64_t first_bit) {
  const auto look_as = [&](auto* typed, auto& low, auto& high) {
    look_at(typed, count, validity, first_bit, low, high);
  };
  switch (number_) {
    case Number::kNone: return;
    case Number::kInt8: return look_as(static_cast<const int8_t*>(values), low_, high_);
    case Number::kInt16: return look_as(static_cast<const int16_t*>(values), low_, high_);
    case Number::kInt32: return look_as(static_cast<const int32_t*>(values), low_, high_);
    case Number::kInt64: return look_as(static_cast<const int64_t*>(values), low_, high_);
    case Number::kUint8: return look_as(static_cast<const uint8_t*>(values), unsigned_low_, unsigned_high_);
    case Number::kUint16: return look_as(static_cast<const uint16_t*>(values), unsigned_low_, unsigned_high_);
    case Number::kUint32: return look_as(static_cast<const uint32_t*>(values), unsigned_low_, unsigned_high_);
    case Number::kUint64: return look_as(static_cast<const uint64_t*>(values), unsigned_low_, unsigned_high_);
    case Number::kFloat: return look_as(static_cast<const float*>(values), real_low_, real_high_);
    case Number::kDouble: return look_as(static_cast<const double*>(values), real_low_, real_high_);
  }
}

Bounds BoundsOf::result() const {
  Bounds bounds;
  if (!any_ || unknown_) return bounds;
  if (number_ == Number::kFloat || number_ == Number::kDouble) {
    OCM_DASSERT(real_low_ <= real_high_);
    bounds.kind = OCM_BOUND_DOUBLE;
    bounds.minimum.real = real_low_;
    bounds.maximum.real = real_high_;
    return bounds;
  }
  static_assert(Number::kInt64 < Number::kUint8 && Number::kUint64 < Number::kFloat);
  const bool is_unsigned = number_ >= Number::kUint8;
  OCM_DASSERT(is_unsigned ? unsigned_low_ <= unsigned_high_ : low_ <= high_);
  if (is_unsigned && unsigned_high_ > INT64_MAX) return bounds;
  bounds.kind = OCM_BOUND_INT;
  bounds.minimum.integer = is_unsigned ? static_cast<int64_t>(unsigned_low_) : low_;
  bounds.maximum.integer = is_unsigned ? static_cast<int64_t>(unsigned_high_) : high_;
  return bounds;
}

Bounds bool_bounds(uint64_t valid, uint64_t ones) {
  OCM_DASSERT(ones <= valid);
  Bounds bounds;
  if (valid == 0) return bounds;
  bounds.kind = OCM_BOUND_INT;
  bounds.minimum.integer = ones == valid ? 1 : 0;
  bounds.maximum.integer = ones > 0 ? 1 : 0;
  return bounds;
}

}  // namespace ocm::table
