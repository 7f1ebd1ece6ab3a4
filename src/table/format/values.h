// Values of Arrow arrays as runs of bytes, and finding equal ones.
#pragma once

#include <oncilla/table.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "table/format/type.h"

namespace ocm::table {

inline Status malformed(const std::string& what) {
  return Status(Code::kInvalidArgument, "malformed array: " + what);
}

// Each reader gives the value of a row, which counts from the start of the array's buffers; false if its
// offsets or its view lie outside of the array's data.

class FixedReader {
 public:
  FixedReader(const ArrowArray& array, const Type& type)
      : values_(static_cast<const char*>(array.buffers[1])), width_bytes_(type.width_bytes) {}
  bool at(int64_t row, std::string_view& value) const {
    value = {values_ + row * width_bytes_, static_cast<size_t>(width_bytes_)};
    return true;
  }

 private:
  const char* values_;
  int64_t width_bytes_;
};

template <class Offset>
class OffsetReader {
 public:
  explicit OffsetReader(const ArrowArray& array)
      : offsets_(static_cast<const Offset*>(array.buffers[1])),
        data_(static_cast<const char*>(array.buffers[2])),
        data_bytes_(array.length > 0 && data_ != nullptr ? offsets_[array.offset + array.length] : 0) {}
  bool at(int64_t row, std::string_view& value) const {
    const Offset first = offsets_[row], last = offsets_[row + 1];
    value = {data_ + first, static_cast<size_t>(last - first)};
    if (first == last) value = {};
    return first >= 0 && last >= first && (first == last || last <= data_bytes_);
  }

 private:
  const Offset* offsets_;
  const char* data_;
  Offset data_bytes_;
};

/// Source: Arrow columnar format, "Variable-size Binary View Layout".
class ViewReader {
 public:
  explicit ViewReader(const ArrowArray& array)
      : views_(static_cast<const char*>(array.buffers[1])),
        data_(array.buffers + 2),
        data_buffers_(array.n_buffers - 3),  // without validity, views and last the lengths
        lengths_(static_cast<const int64_t*>(array.buffers[array.n_buffers - 1])) {}
  bool at(int64_t row, std::string_view& value) const {
    const char* at = views_ + row * static_cast<int64_t>(sizeof(View));
    View view;
    std::memcpy(&view, at, sizeof(view));
    if (view.length <= kInlineBytesMax) {
      value = {at + sizeof(view.length), static_cast<size_t>(view.length)};
      return view.length >= 0;
    }
    if (view.buffer < 0 || view.buffer >= data_buffers_ || view.offset < 0 || lengths_ == nullptr)
      return false;
    const auto* data = static_cast<const char*>(data_[view.buffer]);
    value = {data + view.offset, static_cast<size_t>(view.length)};
    return data != nullptr && int64_t{view.offset} + view.length <= lengths_[view.buffer];
  }

 private:
  struct View {
    int32_t length;
    char prefix[4];
    int32_t buffer;
    int32_t offset;
  };
  static constexpr int32_t kInlineBytesMax = 12;
  static_assert(sizeof(View) == sizeof(View::length) + kInlineBytesMax, "a short value is in it");

  const char* views_;
  const void** data_;
  int64_t data_buffers_;
  const int64_t* lengths_;
};

/// Calls body(reader) with the reader for the array's type, one of fixed-width, binary or view form.
template <class Body>
auto with_reader(const ArrowArray& array, const Type& type, Body body) {
  switch (type.form) {
    case Form::kFixed: return body(FixedReader(array, type));
    case Form::kBinary: return body(OffsetReader<int32_t>(array));
    case Form::kLargeBinary: return body(OffsetReader<int64_t>(array));
    default: OCM_ASSERT(type.form == Form::kView); return body(ViewReader(array));
  }
}

/// A set of byte strings, numbered from 0 in the order of their coming. Keeps views: the bytes stay where
/// they are.
class Distinct {
 public:
  static constexpr int64_t kFull = -1;

  /// Holds at most `limit` values.
  explicit Distinct(uint64_t limit);
  /// The number of `value`, which is added if it is new; kFull if there is no room for it.
  int64_t add(std::string_view value) {
    const Entry entry = entry_of(value);
    const uint64_t mask = slots_.size() - 1;
    uint64_t slot = entry.hash & mask;
    for (; slots_[slot] != 0; slot = (slot + 1) & mask) {
      if (same(entries_[slots_[slot] - 1], entry)) return slots_[slot] - 1;
    }
    return add_new(entry, slot);
  }
  uint64_t size() const { return entries_.size(); }
  /// Each value is found where its hash says, and there is room between them; O(values).
  bool is_valid() const;

 private:
  static constexpr size_t kWordsBytes = 24;
  static constexpr uint64_t kOdd = 0x9E3779B97F4A7C15ull;
  struct Entry {
    uint64_t hash;
    uint64_t words[3];  // the value, if it has at most kWordsBytes
    std::string_view value;
  };
  static uint64_t load8(const char* at) {
    uint64_t word;
    std::memcpy(&word, at, sizeof(word));
    return word;
  }
  static uint64_t load4(const char* at) {
    uint32_t word;
    std::memcpy(&word, at, sizeof(word));
    return word;
  }
  static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * kOdd;
    return hash ^ hash >> 32;
  }
  /// Up to 24 bytes three words, which may overlap, are the value; they are loaded without a loop or a call.
  static Entry entry_of(std::string_view value) {
    const char* at = value.data();
    const size_t bytes = value.size();
    Entry entry{0, {}, value};
    if (bytes >= 8) {
      entry.words[0] = load8(at);
      entry.words[1] = load8(at + bytes - 8);
      if (bytes > 16) entry.words[2] = load8(at + 8);
    } else if (bytes >= 4) {
      entry.words[0] = load4(at);
      entry.words[1] = load4(at + bytes - 4);
    } else if (bytes > 0) {
      const auto byte = [&](size_t i) { return static_cast<uint64_t>(static_cast<uint8_t>(at[i])); };
      entry.words[0] = byte(0) | byte(bytes / 2) << 8 | byte(bytes - 1) << 16;
    }
    entry.hash = mix(mix(mix(bytes * kOdd, entry.words[0]), entry.words[1]), entry.words[2]);
    for (size_t i = kWordsBytes - 8; i + 8 < bytes; i += 8) entry.hash = mix(entry.hash, load8(at + i));
    return entry;
  }
  static bool same(const Entry& a, const Entry& b) {
    const bool words = a.value.size() == b.value.size() && a.words[0] == b.words[0] &&
                       a.words[1] == b.words[1] && a.words[2] == b.words[2];
    return words && (a.value.size() <= kWordsBytes || a.value == b.value);
  }
  int64_t add_new(const Entry& entry, uint64_t slot);
  void grow();

  uint64_t limit_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_;  // a power of two of them; an entry's number + 1, 0: free
};

}  // namespace ocm::table
