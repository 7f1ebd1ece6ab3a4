#include "table/format/type.h"

#include <bit>
#include <charconv>
#include <string>

namespace ocm::table {
namespace {

constexpr uint32_t kFixedBytesMax = 1u << 24;

Type fixed(uint32_t width_bytes, Number number = Number::kNone) {
  Type type;
  type.form = Form::kFixed;
  type.number = number;
  type.width_bytes = width_bytes;
  OCM_DASSERT(type.is_valid());
  return type;
}

Type of_form(Form form, bool text = false) {
  Type type;
  type.form = form;
  type.text = text;
  OCM_DASSERT(type.is_valid());
  return type;
}

Status bad(std::string_view format) {
  return Status(Code::kInvalidArgument, "'" + std::string(format.substr(0, 64)) + "' is no Arrow format");
}

/// Reads a number and moves past it.
bool take_number(std::string_view& text, int32_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

/// "d:precision,scale[,bits]"
Result<Type> parse_decimal(std::string_view format) {
  std::string_view rest = format.substr(2);
  int32_t precision = 0, scale = 0, bits = 128;
  if (!take_number(rest, precision) || !rest.starts_with(',')) return bad(format);
  rest.remove_prefix(1);
  if (!take_number(rest, scale)) return bad(format);
  if (rest.starts_with(',')) {
    rest.remove_prefix(1);
    if (!take_number(rest, bits)) return bad(format);
  }
  const bool known = bits == 32 || bits == 64 || bits == 128 || bits == 256;
  if (!rest.empty() || !known || precision < 1 || precision > 76) return bad(format);
  Type type = fixed(static_cast<uint32_t>(bits) / 8);
  if (bits == 32) type.number = Number::kInt32;
  if (bits == 64) type.number = Number::kInt64;
  type.decimal_bits = static_cast<uint32_t>(bits);
  type.precision = precision;
  type.scale = scale;
  OCM_DASSERT(type.is_valid());
  return type;
}

Result<Type> parse_temporal(std::string_view format) {
  if (format == "tdD" || format == "tts" || format == "ttm") return fixed(4, Number::kInt32);
  if (format == "tdm" || format == "ttu" || format == "ttn") return fixed(8, Number::kInt64);
  if (format == "tiM") return fixed(4);
  if (format == "tiD") return fixed(8);
  if (format == "tin") return fixed(16);
  const bool unit = format.size() >= 3 && std::string_view("smun").find(format[2]) != format.npos;
  if (format.starts_with("ts") && unit && format.size() >= 4 && format[3] == ':')
    return fixed(8, Number::kInt64);
  if (format.starts_with("tD") && unit && format.size() == 3) return fixed(8, Number::kInt64);
  return bad(format);
}

Result<Type> parse_nested(std::string_view format) {
  if (format == "+s") return of_form(Form::kStruct);
  if (format == "+l") return of_form(Form::kList);
  if (format == "+L") return of_form(Form::kLargeList);
  if (format == "+m") {
    Type type = of_form(Form::kList);
    type.map = true;
    return type;
  }
  if (format.starts_with("+w:")) {
    std::string_view rest = format.substr(3);
    int32_t length = 0;
    if (!take_number(rest, length) || !rest.empty() || length < 0) return bad(format);
    Type type = of_form(Form::kFixedList);
    type.list_length = static_cast<uint32_t>(length);
    return type;
  }
  const std::string cast = "; cast it to a plain type first";
  if (format.starts_with("+u")) return Status(Code::kUnsupported, "unions cannot be stored" + cast);
  if (format == "+r") return Status(Code::kUnsupported, "run-end encoding cannot be stored" + cast);
  if (format.starts_with("+v")) return Status(Code::kUnsupported, "list views cannot be stored" + cast);
  return bad(format);
}

Result<Type> parse_fixed_binary(std::string_view format) {
  std::string_view rest = format.substr(2);
  int32_t width = 0;
  if (!take_number(rest, width) || !rest.empty() || width < 0) return bad(format);
  if (static_cast<uint32_t>(width) > kFixedBytesMax) {
    return Status(Code::kTooLarge, "a fixed-size value has more than 16 MiB");
  }
  return fixed(static_cast<uint32_t>(width));
}

Result<Type> parse_letter(std::string_view format) {
  switch (format[0]) {
    case 'n': return of_form(Form::kNull);
    case 'b': return of_form(Form::kBool);
    case 'c': return fixed(1, Number::kInt8);
    case 'C': return fixed(1, Number::kUint8);
    case 's': return fixed(2, Number::kInt16);
    case 'S': return fixed(2, Number::kUint16);
    case 'i': return fixed(4, Number::kInt32);
    case 'I': return fixed(4, Number::kUint32);
    case 'l': return fixed(8, Number::kInt64);
    case 'L': return fixed(8, Number::kUint64);
    case 'e': return fixed(2);
    case 'f': return fixed(4, Number::kFloat);
    case 'g': return fixed(8, Number::kDouble);
    case 'z': return of_form(Form::kBinary);
    case 'u': return of_form(Form::kBinary, true);
    case 'Z': return of_form(Form::kLargeBinary);
    case 'U': return of_form(Form::kLargeBinary, true);
    default: return bad(format);
  }
}

}  // namespace

uint32_t Type::buffers() const {
  switch (form) {
    case Form::kNull: return 0;
    case Form::kStruct:
    case Form::kFixedList: return 1;
    case Form::kBool:
    case Form::kFixed:
    case Form::kView:
    case Form::kList:
    case Form::kLargeList: return 2;
    case Form::kBinary:
    case Form::kLargeBinary: return 3;
  }
  return 0;
}

int32_t Type::children() const {
  if (form == Form::kStruct) return -1;
  return form == Form::kList || form == Form::kLargeList || form == Form::kFixedList ? 1 : 0;
}

bool Type::is_valid() const {
  const bool binary = form == Form::kBinary || form == Form::kLargeBinary || form == Form::kView;
  if (form != Form::kFixed && (width_bytes != 0 || number != Number::kNone || decimal_bits != 0))
    return false;
  const bool is_word = std::has_single_bit(width_bytes) && width_bytes <= 8;
  if (number != Number::kNone && !is_word) return false;
  if (decimal_bits != 0 && (decimal_bits != width_bytes * 8 || precision < 1)) return false;
  if (list_length != 0 && form != Form::kFixedList) return false;
  return (!text || binary) && (!map || form == Form::kList);
}

Result<Type> parse_type(std::string_view format) {
  if (format.size() == 1) return parse_letter(format);
  if (format == "vz") return of_form(Form::kView);
  if (format == "vu") return of_form(Form::kView, true);
  if (format.starts_with("d:")) return parse_decimal(format);
  if (format.starts_with("w:")) return parse_fixed_binary(format);
  if (format.starts_with("t")) return parse_temporal(format);
  if (format.starts_with("+")) return parse_nested(format);
  return bad(format);
}

uint64_t index_max(Number number) {
  switch (number) {
    case Number::kInt8: return INT8_MAX;
    case Number::kUint8: return UINT8_MAX;
    case Number::kInt16: return INT16_MAX;
    case Number::kUint16: return UINT16_MAX;
    case Number::kInt32: return INT32_MAX;
    case Number::kUint32: return UINT32_MAX;
    case Number::kInt64:
    case Number::kUint64: return INT64_MAX;
    default: return 0;
  }
}

}  // namespace ocm::table
