// Columns of several batches, written by hand, that are encoded into a chunk.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/arrow_builder.h"
#include "table/format/bits.h"
#include "table/format/encode.h"

namespace table_encode {

using namespace ocm;
using namespace ocm::table;
namespace build = arrow_builder;

class OneBook : public DictionaryBook {
 public:
  uint32_t enter(const Field&, std::shared_ptr<const Image> image) override {
    images.push_back(std::move(image));
    return static_cast<uint32_t>(images.size() - 1);
  }
  std::vector<std::shared_ptr<const Image>> images;
};

/// A column of several batches, stored in a form.
class Encoded {
 public:
  Encoded(const build::Field& given, const build::Field& stored, const std::vector<build::Array>& batches)
      : given_(import(given)), stored_(import(stored)), arrays_(batches.size()) {
    for (size_t i = 0; i < batches.size(); ++i) build::export_array(batches[i], &arrays_[i]);
    part.given = &given_.children[0];
    part.stored = &stored_.children[0];
    for (const ArrowArray& array : arrays_) part.pieces.push_back({&array, array.offset, array.length});
  }
  Encoded(const build::Field& field, const std::vector<build::Array>& batches)
      : Encoded(field, field, batches) {}
  ~Encoded() {
    for (ArrowArray& array : arrays_) array.release(&array);
  }

  Status run() {
    OCM_TRY(gather(part, book, cut));
    chunk = chunk_of(part);
    // Full of ones, so that what stays between buffers is seen.
    bytes.assign(chunk.bytes() + 1, std::byte{0xFF});
    return encode(part, bytes.data(), &bounds);
  }
  /// Buffer `index` of the chunk.
  std::string buffer(size_t index) const {
    uint64_t at = 0;
    for (size_t i = 0; i < index; ++i) at += align_up(chunk.buffers[i]);
    return {reinterpret_cast<const char*>(bytes.data()) + at, chunk.buffers[index]};
  }
  template <class Value>
  std::vector<Value> values(size_t index) const {
    const std::string text = buffer(index);
    std::vector<Value> out(text.size() / sizeof(Value));
    if (!text.empty()) std::memcpy(out.data(), text.data(), text.size());
    return out;
  }

  Part part;
  OneBook book;
  Cut cut;
  Chunk chunk;
  Bounds bounds;
  std::vector<std::byte> bytes;

 private:
  static Field import(const build::Field& field) {
    ArrowSchema schema;
    build::export_field(build::record({field}), &schema);
    Field imported = import_schema(schema).value();
    schema.release(&schema);
    return imported;
  }
  Field given_, stored_;
  std::vector<ArrowArray> arrays_;
};

inline build::Array sliced(build::Array array, int64_t offset, int64_t length) {
  array.offset = offset;
  array.length = length;
  return array;
}

template <class Index = int8_t>
build::Array indexed(const std::vector<Index>& indices, const std::vector<std::string>& dictionary,
                     const std::string& validity = "") {
  build::Array array = build::values(indices, validity);
  array.dictionary.push_back(build::texts(dictionary));
  return array;
}

inline build::Field dictionary_of_texts(const std::string& index) { return {index, "x", {}, {{"u", ""}}}; }

/// "w0", "w1" ... from `first` on.
inline std::vector<std::string> distinct_words(int count, int first = 0) {
  std::vector<std::string> words;
  for (int i = 0; i < count; ++i) words.push_back("w" + std::to_string(first + i));
  return words;
}

/// A dictionary's values one after the other, each with a comma.
inline std::string words_of(const Encoded& column) {
  const Image& image = *column.book.images.at(0);
  const uint64_t validity = align_up(image.chunk.buffers[0]);
  const auto* offsets = reinterpret_cast<const int32_t*>(image.bytes.data() + validity);
  const auto* data =
      reinterpret_cast<const char*>(image.bytes.data()) + validity + align_up(image.chunk.buffers[1]);
  std::string words;
  for (uint64_t i = 0; i < image.chunk.lengths[0]; ++i) {
    const bool valid = validity == 0 || bit_at(image.bytes.data(), i);
    words += valid ? std::string(data + offsets[i], data + offsets[i + 1]) : "null";
    words += ",";
  }
  return words;
}

inline std::vector<int64_t> indices_of(const Encoded& column) {
  std::vector<int64_t> indices;
  const auto add = [&](const auto& values) { indices.assign(values.begin(), values.end()); };
  switch (column.part.stored->type.width_bytes) {
    case 1: add(column.values<int8_t>(1)); break;
    case 2: add(column.values<int16_t>(1)); break;
    default: add(column.values<int64_t>(1));
  }
  return indices;
}

}  // namespace table_encode
