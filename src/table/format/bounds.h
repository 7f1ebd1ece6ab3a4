// Smallest and largest value of a chunk, and copying values while looking at them.
#pragma once

#include <oncilla/table.h>

#include <cstdint>

#include "table/format/type.h"

namespace ocm::table {

struct Bounds {
  ocm_bound_kind kind = OCM_BOUND_NONE;
  ocm_bound minimum{};
  ocm_bound maximum{};
};

/// Gathers bounds over runs of values of one type.
class BoundsOf {
 public:
  explicit BoundsOf(Number number) : number_(number) {}
  /// Looks at `count` values; `validity` (may be null) begins at bit `first_bit`.
  void look(const void* values, uint64_t count, const void* validity, uint64_t first_bit);
  /// Nothing is known when every value is null, one is NaN, or an unsigned one lies above 2^63-1.
  Bounds result() const;

 private:
  template <class Value, class Wide>
  void look_at(const Value* values, uint64_t count, const void* validity, uint64_t first_bit, Wide& low,
               Wide& high);

  Number number_;
  bool any_ = false;
  bool unknown_ = false;
  int64_t low_ = INT64_MAX, high_ = INT64_MIN;
  uint64_t unsigned_low_ = UINT64_MAX, unsigned_high_ = 0;
  double real_low_ = 0, real_high_ = 0;
};

/// Bounds of booleans: how many of the `valid` ones are true.
Bounds bool_bounds(uint64_t valid, uint64_t ones);

}  // namespace ocm::table
