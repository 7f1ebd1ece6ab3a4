// Gathering rows from batches and copying them into a chunk, against arrays written by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "api/arrow_builder.h"
#include "table/format/bits.h"
#include "table/format/encode.h"
#include "table/format/values.h"

namespace {

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
    std::memcpy(out.data(), text.data(), text.size());
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

build::Array sliced(build::Array array, int64_t offset, int64_t length) {
  array.offset = offset;
  array.length = length;
  return array;
}

TEST(TableBits, CopyIsRightForEveryPairOfOffsets) {
  std::mt19937_64 random(1);
  std::vector<uint8_t> from(40);
  for (uint8_t& byte : from) byte = static_cast<uint8_t>(random());
  for (uint64_t to_bit = 0; to_bit < 9; ++to_bit) {
    for (uint64_t from_bit = 0; from_bit < 9; ++from_bit) {
      for (const uint64_t count : {0, 1, 7, 8, 63, 64, 65, 130, 200}) {
        std::vector<uint8_t> to(40, 0xFF);
        copy_bits(to.data(), to_bit, from.data(), from_bit, count);
        for (uint64_t i = 0; i < count; ++i) {
          ASSERT_EQ(bit_at(to.data(), to_bit + i), bit_at(from.data(), from_bit + i))
              << to_bit << " " << from_bit;
        }
        for (uint64_t i = 0; i < to_bit; ++i) ASSERT_TRUE(bit_at(to.data(), i));
      }
    }
  }
}

TEST(TableBits, CountIsTheSumOfTheBits) {
  const std::string bits =
      build::bits_of("1101000111010001110100011101000111010001110100011101000111010001110100011");
  for (uint64_t first = 0; first < 20; ++first) {
    for (uint64_t count = 0; count < 50; ++count) {
      uint64_t ones = 0;
      for (uint64_t i = 0; i < count; ++i) ones += bit_at(bits.data(), first + i) ? 1 : 0;
      ASSERT_EQ(count_ones(bits.data(), first, count), ones);
    }
  }
}

TEST(TableEncode, BatchesFollowEachOther) {
  Encoded column({"l", "x"},
                 {build::values<int64_t>({1, 2}), build::values<int64_t>({}), build::values<int64_t>({3})});
  ASSERT_TRUE(column.run().is_ok());
  EXPECT_EQ(column.values<int64_t>(1), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(column.chunk.buffers[0], 0u);
  EXPECT_EQ(column.chunk.lengths, (std::vector<uint64_t>{3}));
  for (size_t i = 24; i < 64; ++i) EXPECT_EQ(column.bytes[i], std::byte{0}) << "padding";
  EXPECT_EQ(column.bytes[64], std::byte{0xFF}) << "past the end";
}

TEST(TableEncode, SlicesBeginAnywhereInABitmap) {
  const build::Array all = build::values<int32_t>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, "101101110110");
  Encoded column({"i", "x"},
                 {sliced(all, 3, 5), sliced(all, 9, 3), sliced(build::values<int32_t>({7, 8}), 1, 1)});
  ASSERT_TRUE(column.run().is_ok());
  EXPECT_EQ(column.values<int32_t>(1), (std::vector<int32_t>{3, 4, 5, 6, 7, 9, 10, 11, 8}));
  EXPECT_EQ(column.buffer(0), build::bits_of("101111101"));
  EXPECT_EQ(column.chunk.nulls[0], 2u);
  EXPECT_EQ(column.bounds.kind, OCM_BOUND_INT);
  EXPECT_EQ(column.bounds.minimum.integer, 3);
  EXPECT_EQ(column.bounds.maximum.integer, 10);
}

TEST(TableEncode, AllValidNeedsNoBitmap) {
  Encoded column({"i", "x"}, {build::values<int32_t>({1, 2}, "11")});
  ASSERT_TRUE(column.run().is_ok());
  EXPECT_EQ(column.chunk.buffers[0], 0u);
  EXPECT_EQ(column.chunk.nulls[0], 0u);
}

TEST(TableEncode, BooleansAreBits) {
  build::Array flags{6, {build::bits_of("110111"), build::bits_of("101010")}};
  Encoded column({"b", "x"}, {sliced(flags, 1, 4), flags});
  ASSERT_TRUE(column.run().is_ok());
  EXPECT_EQ(column.buffer(1), build::bits_of("0101101010"));
  EXPECT_EQ(column.chunk.nulls[0], 2u);
  EXPECT_EQ(column.bounds.minimum.integer, 0);
  EXPECT_EQ(column.bounds.maximum.integer, 1);
}

TEST(TableEncode, OffsetsBeginAtZero) {
  const build::Array all = build::texts({"zero", "one", "", "three", "four"});
  Encoded column({"u", "x"}, {sliced(all, 1, 3), sliced(all, 4, 1)});
  ASSERT_TRUE(column.run().is_ok());
  EXPECT_EQ(column.values<int32_t>(1), (std::vector<int32_t>{0, 3, 3, 8, 12}));
  EXPECT_EQ(column.buffer(2), "onethreefour");
}

TEST(TableEncode, ViewsBecomePlain) {
  Encoded column({"vu", "x"}, {"u", "x"},
                 {build::views({"short", "a string of more than twelve bytes", "", "gone"}, "1110")});
  ASSERT_TRUE(column.run().is_ok());
  EXPECT_EQ(column.buffer(2), "shorta string of more than twelve bytes");
  EXPECT_EQ(column.values<int32_t>(1), (std::vector<int32_t>{0, 5, 39, 39, 39}));
}

TEST(TableEncode, ListsTakeTheirChildrensRows) {
  build::Array lists{3,
                     {"", build::bytes_of(std::vector<int32_t>{0, 2, 2, 5})},
                     {build::values<int16_t>({1, 2, 3, 4, 5})},
                     {},
                     0};
  Encoded column({"+l", "x", {{"s", "item"}}}, {sliced(lists, 2, 1), sliced(lists, 0, 2)});
  ASSERT_TRUE(column.run().is_ok());
  EXPECT_EQ(column.values<int32_t>(1), (std::vector<int32_t>{0, 3, 5, 5}));
  EXPECT_EQ(column.values<int16_t>(3), (std::vector<int16_t>{3, 4, 5, 1, 2}));
  EXPECT_EQ(column.chunk.lengths, (std::vector<uint64_t>{3, 5}));
}

TEST(TableEncode, StructsAddTheirOffsetToTheirChildren) {
  build::Array pairs{
      3, {build::bits_of("0111")}, {sliced(build::values<int8_t>({9, 1, 2, 3, 4}), 1, 4)}, {}, -1, 1};
  Encoded column({"+s", "x", {{"c", "a"}}}, {pairs});
  ASSERT_TRUE(column.run().is_ok());
  EXPECT_EQ(column.values<int8_t>(2), (std::vector<int8_t>{2, 3, 4}));
  EXPECT_EQ(column.chunk.nulls[0], 0u);
}

TEST(TableEncode, MoneyOfFewDigitsTakes64Bits) {
  Encoded column({"d:15,2", "x"}, {"d:15,2,64", "x"},
                 {{3, {build::bits_of("110"), build::bytes_of(std::vector<int64_t>{-5, -1, 700, 0, 1, 1})}}});
  ASSERT_TRUE(column.run().is_ok());
  EXPECT_EQ(column.values<int64_t>(1), (std::vector<int64_t>{-5, 700, 0}));
  EXPECT_EQ(column.bounds.minimum.integer, -5);
  EXPECT_EQ(column.bounds.maximum.integer, 700);
  Encoded wide({"d:15,2", "x"}, {"d:15,2,64", "x"},
               {{1, {"", build::bytes_of(std::vector<int64_t>{1, 1})}, {}, {}, 0}});
  EXPECT_EQ(wide.run().code(), Code::kInvalidArgument);
}

TEST(TableEncode, StringsBecomeIndices) {
  const build::Field stored{"c", "x", {}, {{"u", ""}}};
  Encoded column({"u", "x"}, stored, {build::texts({"b", "a", "b"}), build::texts({"x", "a", "c"}, "011")});
  ASSERT_TRUE(column.run().is_ok());
  EXPECT_EQ(column.values<int8_t>(1), (std::vector<int8_t>{0, 1, 0, 0, 1, 2}));
  ASSERT_EQ(column.book.images.size(), 1u);
  EXPECT_EQ(column.book.images[0]->chunk.lengths[0], 3u);
}

TEST(TableEncode, MoreStringsThanAnIndexNumbersSayHowManyRowsFit) {
  std::vector<std::string> texts;
  for (int i = 0; i < 300; ++i) texts.push_back(std::to_string(i / 2));
  Encoded column({"u", "x"}, {"c", "x", {}, {{"u", ""}}}, {build::texts(texts)});
  EXPECT_EQ(column.run().code(), Code::kTooLarge);
  EXPECT_TRUE(column.cut.index_full);
  EXPECT_EQ(column.cut.rows, 254u);
}

build::Array indexed(const std::vector<int8_t>& indices, const std::vector<std::string>& dictionary) {
  build::Array array = build::values(indices);
  array.dictionary.push_back(build::texts(dictionary));
  return array;
}

TEST(TableEncode, DictionariesOfSeveralBatchesBecomeOne) {
  Encoded column({"c", "x", {}, {{"u", ""}}},
                 {indexed({1, 0}, {"a", "b"}), indexed({0, 1, 2}, {"b", "c", "a"})});
  ASSERT_TRUE(column.run().is_ok());
  EXPECT_EQ(column.values<int8_t>(1), (std::vector<int8_t>{1, 0, 1, 2, 0}));
  EXPECT_EQ(column.book.images[0]->chunk.lengths[0], 3u);
}

TEST(TableEncode, DictionariesThatDoNotFitTogetherAreCutBetweenBatches) {
  std::vector<std::string> first, second;
  for (int i = 0; i < 100; ++i) {
    first.push_back("a" + std::to_string(i));
    second.push_back("b" + std::to_string(i));
  }
  Encoded column({"c", "x", {}, {{"u", ""}}}, {indexed({1, 0}, first), indexed({0, 1, 2}, second)});
  EXPECT_EQ(column.run().code(), Code::kTooLarge);
  EXPECT_TRUE(column.cut.needed);
  EXPECT_FALSE(column.cut.index_full);
  EXPECT_EQ(column.cut.rows, 2u);
}

TEST(TableEncode, IndicesOutsideOfTheirDictionaryAreRefused) {
  EXPECT_EQ(Encoded({"c", "x", {}, {{"u", ""}}}, {indexed({2}, {"a", "b"})}).run().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(Encoded({"c", "x", {}, {{"u", ""}}}, {indexed({-1}, {"a", "b"})}).run().code(),
            Code::kInvalidArgument);
  EXPECT_EQ(Encoded({"c", "x", {}, {{"u", ""}}}, {indexed({0}, {"a"}), indexed({1}, {"b"})}).run().code(),
            Code::kInvalidArgument);
}

TEST(TableEncode, MalformedArraysAreRefused) {
  const auto refused = [](const build::Field& field, const build::Array& array) {
    const Status status = Encoded(field, {array}).run();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.to_string();
  };
  refused({"l", "x"}, {-1, {"", "12345678"}});
  refused({"l", "x"}, {1, {""}});                 // a buffer is missing
  refused({"l", "x"}, {1, {"", ""}, {}, {}, 0});  // null
  refused({"l", "x"}, {1, {"", "12345678"}, {}, {}, 0, INT64_MAX});
  refused({"l", "x"}, {1, {"", "12345678"}, {}, {}, 1});  // a null and no bitmap
  refused({"u", "x"}, {1, {"", build::bytes_of(std::vector<int32_t>{5, 3}), "abc"}, {}, {}, 0});
  refused({"u", "x"}, {2, {"", build::bytes_of(std::vector<int32_t>{0, 9, 3}), "abcdefghi"}, {}, {}, 0});
  refused({"u", "x"}, {1, {"", build::bytes_of(std::vector<int32_t>{-2, 3}), "abc"}, {}, {}, 0});
  refused({"+l", "x", {{"c", "item"}}},
          {1, {"", build::bytes_of(std::vector<int32_t>{0, 9})}, {build::values<int8_t>({1})}, {}, 0});
  refused({"+s", "x", {{"c", "a"}}}, {2, {""}, {build::values<int8_t>({1})}, {}, 0});
  refused({"+w:3", "x", {{"c", "item"}}}, {2, {""}, {build::values<int8_t>({1, 2, 3, 4, 5})}, {}, 0});
  refused({"c", "x", {}, {{"u", ""}}}, build::values<int8_t>({0}));  // no dictionary
}

TEST(TableEncode, ViewsOutsideOfTheirDataAreRefused) {
  build::Array array = build::views({"a string of more than twelve bytes"});
  array.buffers[1][12] = 1;  // its offset
  EXPECT_EQ(Encoded({"vu", "x"}, {"u", "x"}, {array}).run().code(), Code::kInvalidArgument);
  array.buffers[1][12] = 0;
  array.buffers[1][8] = 1;  // its buffer
  EXPECT_EQ(Encoded({"vu", "x"}, {"u", "x"}, {array}).run().code(), Code::kInvalidArgument);
}

template <class Value>
Bounds bounds_of(const std::string& format, const std::vector<Value>& values,
                 const std::string& validity = "") {
  Encoded column({format, "x"}, {build::values<Value>(values, validity)});
  EXPECT_TRUE(column.run().is_ok());
  return column.bounds;
}

TEST(TableBounds, AreOfTheValuesThatAreNotNull) {
  const Bounds bounds = bounds_of<int16_t>("s", {-7, 5, 100, 3}, "1101");
  EXPECT_EQ(bounds.minimum.integer, -7);
  EXPECT_EQ(bounds.maximum.integer, 5);
  EXPECT_EQ(bounds_of<int32_t>("tdD", {5, 6}, "00").kind, OCM_BOUND_NONE);
}

TEST(TableBounds, AreUnknownWithNanOrAboveTheSigned) {
  EXPECT_EQ(bounds_of<double>("g", {1, std::nan(""), 3}).kind, OCM_BOUND_NONE);
  EXPECT_EQ(bounds_of<double>("g", {1, std::nan(""), 3}, "101").kind, OCM_BOUND_DOUBLE);
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(bounds_of<double>("g", {infinity, 2}).maximum.real, infinity);
  EXPECT_EQ(bounds_of<uint64_t>("L", {1, ~uint64_t{0}}).kind, OCM_BOUND_NONE);
  EXPECT_EQ(bounds_of<uint32_t>("I", {1, ~uint32_t{0}}).maximum.integer, int64_t{~uint32_t{0}});
  EXPECT_EQ(bounds_of<int16_t>("e", {1, 2}).kind, OCM_BOUND_NONE);
}

TEST(TableBounds, MatchASimpleLoopOverLongColumns) {
  std::mt19937_64 random(7);
  std::vector<int64_t> values(100'003);
  std::string validity(values.size(), '1');
  int64_t low = INT64_MAX, high = INT64_MIN;
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int64_t>(random());
    if (random() % 50 == 0) {
      validity[i] = '0';
      continue;
    }
    low = std::min(low, values[i]);
    high = std::max(high, values[i]);
  }
  const Bounds bounds = bounds_of<int64_t>("l", values, validity);
  EXPECT_EQ(bounds.minimum.integer, low);
  EXPECT_EQ(bounds.maximum.integer, high);
}

TEST(TableValues, DistinctStringsAreNumberedInTheirOrder) {
  Distinct distinct(1000);
  std::vector<std::string> texts;
  for (int i = 0; i < 1000; ++i)
    texts.push_back(std::string(static_cast<size_t>(i % 40), 'x') + std::to_string(i));
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(distinct.add(texts[static_cast<size_t>(i)]), i);
  }
  EXPECT_EQ(distinct.add("one more"), Distinct::kFull);
  EXPECT_EQ(distinct.add(texts[3]), 3);
}

}  // namespace
