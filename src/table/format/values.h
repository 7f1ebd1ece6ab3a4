// Values of Arrow arrays as runs of bytes, and finding equal ones.
#pragma once

#include <oncilla/table.h>

#include <string_view>
#include <vector>

#include "table/format/type.h"

namespace ocm::table {

/// The values of an array of fixed-width, binary or view form. Rows count from the start of its buffers.
class Values {
 public:
  Values(const ArrowArray& array, const Type& type);
  /// False if the row's offsets or view lie outside of the array's data.
  bool at(int64_t row, std::string_view& value) const;

 private:
  template <class Offset>
  bool between(int64_t row, std::string_view& value) const;
  bool view(int64_t row, std::string_view& value) const;

  const ArrowArray& array_;
  Form form_;
  int64_t width_bytes_;
  int64_t data_bytes_ = 0;  // of binary forms: the last offset
};

/// A set of byte strings, numbered from 0 in the order of their coming. Keeps views: the bytes stay where
/// they are.
class Distinct {
 public:
  static constexpr int64_t kFull = -1;

  /// Holds at most `limit` values.
  explicit Distinct(uint64_t limit);
  /// The number of `value`, which is added if it is new; kFull if there is no room for it.
  int64_t add(std::string_view value);
  uint64_t size() const { return entries_.size(); }

 private:
  static constexpr size_t kWordsBytes = 24;
  struct Entry {
    uint64_t hash;
    uint64_t words[3];  // the value, if it has at most kWordsBytes
    std::string_view value;
  };
  static Entry entry_of(std::string_view value);
  static bool same(const Entry& a, const Entry& b);
  void grow();

  uint64_t limit_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_;  // a power of two of them; an entry's number + 1, 0: free
};

}  // namespace ocm::table
