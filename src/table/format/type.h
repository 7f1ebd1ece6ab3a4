// What an Arrow format string says about the buffers of an array.
// Source: https://arrow.apache.org/docs/format/CDataInterface.html, "Data type description".
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace ocm::table {

/// How values lie in buffers.
enum class Form : uint8_t {
  kNull,         // none
  kBool,         // validity, bits
  kFixed,        // validity, values of width_bytes
  kBinary,       // validity, 32-bit offsets, bytes
  kLargeBinary,  // validity, 64-bit offsets, bytes
  kView,         // validity, views, any number of data buffers, their lengths
  kStruct,       // validity; children
  kList,         // validity, 32-bit offsets; one child (maps too)
  kLargeList,    // validity, 64-bit offsets; one child
  kFixedList     // validity; one child
};

/// How a fixed-width value is compared; kNone: it has no order here.
enum class Number : uint8_t {
  kNone,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFloat,
  kDouble
};

struct Type {
  Form form = Form::kNull;
  Number number = Number::kNone;
  bool text = false;          // UTF-8
  bool map = false;           // a kList whose child is a struct of key and value
  uint32_t width_bytes = 0;   // kFixed
  uint32_t list_length = 0;   // kFixedList
  uint32_t decimal_bits = 0;  // 0: no decimal
  int32_t precision = 0;
  int32_t scale = 0;

  bool has_offsets() const {
    return form == Form::kBinary || form == Form::kLargeBinary || form == Form::kList ||
           form == Form::kLargeList;
  }
  uint32_t offset_bytes() const {
    OCM_DASSERT(has_offsets());
    return form == Form::kLargeBinary || form == Form::kLargeList ? 8 : 4;
  }
  /// Integers, and what is stored as one: dates, times, decimals of at most 64 bits.
  bool is_integer() const { return number >= Number::kInt8 && number <= Number::kUint64; }
  /// Buffers of an array (of kView: those before the data buffers).
  uint32_t buffers() const;
  /// Children that its field must have; -1: any number.
  int32_t children() const;
  /// Its members fit its form, as those of every parsed type do.
  bool is_valid() const;
};

/// Errors: kInvalidArgument (not a format), kUnsupported (unions, run-end encoding, list views).
Result<Type> parse_type(std::string_view format);

/// The largest value that an index of this type can hold; 0 if it is no integer.
uint64_t index_max(Number number);

}  // namespace ocm::table
