// Arrow arrays and streams made by hand, with no library: what a test says is what the array has.
#pragma once

#include <oncilla/table.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace arrow_builder {

/// A field to be exported.
struct Field {
  std::string format;
  std::string name;
  std::vector<Field> children;
  std::vector<Field> dictionary;
  int64_t flags = ARROW_FLAG_NULLABLE;
  std::string metadata;
};

/// An array to be exported. Buffers of no bytes are null.
struct Array {
  int64_t length = 0;
  std::vector<std::string> buffers;
  std::vector<Array> children;
  std::vector<Array> dictionary;
  int64_t nulls = -1;
  int64_t offset = 0;
};

template <class Value>
std::string bytes_of(const std::vector<Value>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value)};
}
/// A bitmap: "1101" has bits 0, 1 and 3.
inline std::string bits_of(const std::string& text) {
  std::string bits((text.size() + 7) / 8, '\0');
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '1') bits[i / 8] = static_cast<char>(bits[i / 8] | 1 << (i % 8));
  }
  return bits;
}
template <class Value>
Array values(const std::vector<Value>& values, const std::string& validity = "") {
  return {static_cast<int64_t>(values.size()),
          {bits_of(validity), bytes_of(values)},
          {},
          {},
          validity.empty() ? 0 : -1};
}
template <class Offset = int32_t>
Array texts(const std::vector<std::string>& values, const std::string& validity = "") {
  std::vector<Offset> offsets{0};
  std::string data;
  for (const std::string& value : values) {
    data += value;
    offsets.push_back(static_cast<Offset>(data.size()));
  }
  return {static_cast<int64_t>(values.size()),
          {bits_of(validity), bytes_of(offsets), data},
          {},
          {},
          validity.empty() ? 0 : -1};
}
/// String views: one data buffer, and its length last.
inline Array views(const std::vector<std::string>& values, const std::string& validity = "") {
  std::string views, data;
  for (const std::string& value : values) {
    char view[16] = {};
    const auto length = static_cast<int32_t>(value.size()), offset = static_cast<int32_t>(data.size());
    std::memcpy(view, &length, 4);
    value.copy(view + 4, value.size() <= 12 ? 12 : 4);
    if (value.size() > 12) {
      std::memcpy(view + 12, &offset, 4);
      data += value;
    }
    views.append(view, 16);
  }
  return {
      static_cast<int64_t>(values.size()),
      {bits_of(validity), views, data, bytes_of(std::vector<int64_t>{static_cast<int64_t>(data.size())})}};
}
inline Array rows(std::vector<Array> columns) {
  const int64_t length = columns.empty() ? 0 : columns[0].length;
  return {length, {""}, std::move(columns), {}, 0};
}
inline Field record(std::vector<Field> columns) { return {"+s", "", std::move(columns), {}, 0, ""}; }

// ---------------------------------------------------------------- export

struct OwnedSchema {
  Field field;
  std::vector<ArrowSchema> children;
  std::vector<ArrowSchema*> pointers;
  ArrowSchema dictionary{};
};
inline void release_schema(ArrowSchema* schema) {
  auto* owned = static_cast<OwnedSchema*>(schema->private_data);
  for (ArrowSchema& child : owned->children) child.release(&child);
  if (owned->dictionary.release != nullptr) owned->dictionary.release(&owned->dictionary);
  schema->release = nullptr;
  delete owned;
}
inline void export_field(const Field& field, ArrowSchema* out) {
  auto* owned = new OwnedSchema{field, {}, {}, {}};
  owned->children.resize(field.children.size());
  for (size_t i = 0; i < field.children.size(); ++i) {
    export_field(field.children[i], &owned->children[i]);
    owned->pointers.push_back(&owned->children[i]);
  }
  if (!field.dictionary.empty()) export_field(field.dictionary[0], &owned->dictionary);
  *out = {};
  out->format = owned->field.format.c_str();
  out->name = owned->field.name.c_str();
  out->metadata = owned->field.metadata.empty() ? nullptr : owned->field.metadata.data();
  out->flags = field.flags;
  out->n_children = static_cast<int64_t>(owned->pointers.size());
  out->children = owned->pointers.data();
  out->dictionary = field.dictionary.empty() ? nullptr : &owned->dictionary;
  out->release = release_schema;
  out->private_data = owned;
}

struct OwnedArray {
  Array array;
  std::vector<const void*> buffers;
  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> pointers;
  ArrowArray dictionary{};
};
inline void release_array(ArrowArray* array) {
  auto* owned = static_cast<OwnedArray*>(array->private_data);
  for (ArrowArray& child : owned->children) child.release(&child);
  if (owned->dictionary.release != nullptr) owned->dictionary.release(&owned->dictionary);
  array->release = nullptr;
  delete owned;
}
inline void export_array(const Array& array, ArrowArray* out) {
  auto* owned = new OwnedArray{array, {}, {}, {}, {}};
  for (const std::string& buffer : owned->array.buffers) {
    owned->buffers.push_back(buffer.empty() ? nullptr : buffer.data());
  }
  owned->children.resize(array.children.size());
  for (size_t i = 0; i < array.children.size(); ++i) {
    export_array(array.children[i], &owned->children[i]);
    owned->pointers.push_back(&owned->children[i]);
  }
  if (!array.dictionary.empty()) export_array(array.dictionary[0], &owned->dictionary);
  *out = {};
  out->length = array.length;
  out->null_count = array.nulls;
  out->offset = array.offset;
  out->n_buffers = static_cast<int64_t>(owned->buffers.size());
  out->buffers = owned->buffers.data();
  out->n_children = static_cast<int64_t>(owned->pointers.size());
  out->children = owned->pointers.data();
  out->dictionary = array.dictionary.empty() ? nullptr : &owned->dictionary;
  out->release = release_array;
  out->private_data = owned;
}

/// A stream of batches; `fails_after` batches it answers EIO.
struct Stream {
  Field field;
  std::vector<Array> batches;
  size_t next = 0;
  size_t fails_after = ~size_t{0};
};
inline void export_stream(Stream stream, ArrowArrayStream* out) {
  *out = {};
  out->private_data = new Stream(std::move(stream));
  out->get_schema = [](ArrowArrayStream* self, ArrowSchema* schema) {
    export_field(static_cast<Stream*>(self->private_data)->field, schema);
    return 0;
  };
  out->get_next = [](ArrowArrayStream* self, ArrowArray* array) {
    auto* made = static_cast<Stream*>(self->private_data);
    *array = {};
    if (made->next == made->fails_after) return EIO;
    if (made->next < made->batches.size()) export_array(made->batches[made->next++], array);
    return 0;
  };
  out->get_last_error = [](ArrowArrayStream*) { return "the disk is on fire"; };
  out->release = [](ArrowArrayStream* self) {
    delete static_cast<Stream*>(self->private_data);
    self->release = nullptr;
  };
}

// ---------------------------------------------------------------- reading back

/// Row `row` of an array (its offset added) as text: "null", numbers, 'strings', [lists], {structs}.
inline std::string show(const ArrowSchema& schema, const ArrowArray& array, int64_t row) {
  const std::string format = schema.format;
  const int64_t at = array.offset + row;
  const auto* validity = array.n_buffers > 0 ? static_cast<const uint8_t*>(array.buffers[0]) : nullptr;
  if (format == "n" || (validity != nullptr && (validity[at / 8] >> (at % 8) & 1) == 0)) return "null";
  const void* values = array.n_buffers > 1 ? array.buffers[1] : nullptr;
  const auto number = [&]() -> int64_t {
    switch (format[0]) {
      case 'c': return static_cast<const int8_t*>(values)[at];
      case 'C': return static_cast<const uint8_t*>(values)[at];
      case 's': return static_cast<const int16_t*>(values)[at];
      case 'S': return static_cast<const uint16_t*>(values)[at];
      case 'i': return static_cast<const int32_t*>(values)[at];
      case 'I': return static_cast<const uint32_t*>(values)[at];
      default: return static_cast<const int64_t*>(values)[at];
    }
  };
  if (schema.dictionary != nullptr) return show(*schema.dictionary, *array.dictionary, number());
  const auto list = [&](int64_t first, int64_t last) {
    std::string text = "[";
    for (int64_t i = first; i < last; ++i)
      text += (i > first ? "," : "") + show(*schema.children[0], *array.children[0], i);
    return text + "]";
  };
  if (format == "b")
    return (static_cast<const uint8_t*>(values)[at / 8] >> (at % 8) & 1) != 0 ? "true" : "false";
  if (format == "f") return std::to_string(static_cast<const float*>(values)[at]);
  if (format == "g") return std::to_string(static_cast<const double*>(values)[at]);
  if (format == "u" || format == "z") {
    const auto* offsets = static_cast<const int32_t*>(values) + at;
    return "'" +
           std::string(static_cast<const char*>(array.buffers[2]) + offsets[0], offsets[1] - offsets[0]) +
           "'";
  }
  if (format == "U" || format == "Z") {
    const auto* offsets = static_cast<const int64_t*>(values) + at;
    return "'" +
           std::string(static_cast<const char*>(array.buffers[2]) + offsets[0], offsets[1] - offsets[0]) +
           "'";
  }
  if (format == "+l" || format == "+m")
    return list(static_cast<const int32_t*>(values)[at], static_cast<const int32_t*>(values)[at + 1]);
  if (format == "+L")
    return list(static_cast<const int64_t*>(values)[at], static_cast<const int64_t*>(values)[at + 1]);
  if (format.rfind("+w:", 0) == 0) {
    const int64_t entries = std::stoll(format.substr(3));
    return list(at * entries, (at + 1) * entries);
  }
  if (format == "+s") {
    std::string text = "{";
    for (int64_t i = 0; i < schema.n_children; ++i)
      text += (i > 0 ? "," : "") + show(*schema.children[i], *array.children[i], at);
    return text + "}";
  }
  size_t width = 0;
  if (format.rfind("d:", 0) == 0) {
    const size_t comma = format.find(',', format.find(',') + 1);
    width = comma == std::string::npos ? 16 : std::stoul(format.substr(comma + 1)) / 8;
  }
  if (format.rfind("w:", 0) == 0) width = std::stoul(format.substr(2));
  if (format == "tin") width = 16;
  if (format == "tdD" || format == "tts" || format == "ttm" || format == "tiM") width = 4;
  if (format == "e") width = 2;
  if (width == 4) return std::to_string(static_cast<const int32_t*>(values)[at]);
  if (format[0] != 'w' && (width == 0 || width == 8)) return std::to_string(number());
  std::string hex = "x";
  for (size_t i = 0; i < width; ++i) {
    char digits[3];
    std::snprintf(
        digits, sizeof(digits), "%02x",
        static_cast<const uint8_t*>(values)[at * static_cast<int64_t>(width) + static_cast<int64_t>(i)]);
    hex += digits;
  }
  return hex;
}

}  // namespace arrow_builder
