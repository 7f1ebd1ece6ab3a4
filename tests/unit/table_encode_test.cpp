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

template <class Index = int8_t>
build::Array indexed(const std::vector<Index>& indices, const std::vector<std::string>& dictionary,
                     const std::string& validity = "") {
  build::Array array = build::values(indices, validity);
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

// ---------------------------------------------------------------- indices of another width

build::Field dictionary_of_texts(const std::string& index) { return {index, "x", {}, {{"u", ""}}}; }

/// "w0", "w1" ... from `first` on.
std::vector<std::string> distinct_words(int count, int first = 0) {
  std::vector<std::string> words;
  for (int i = 0; i < count; ++i) words.push_back("w" + std::to_string(first + i));
  return words;
}

/// A dictionary's values one after the other, each with a comma.
std::string words_of(const Encoded& column) {
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

std::vector<int64_t> indices_of(const Encoded& column) {
  std::vector<int64_t> indices;
  const auto add = [&](const auto& values) { indices.assign(values.begin(), values.end()); };
  switch (column.part.stored->type.width_bytes) {
    case 1: add(column.values<int8_t>(1)); break;
    case 2: add(column.values<int16_t>(1)); break;
    default: add(column.values<int64_t>(1));
  }
  return indices;
}

TEST(TableIndices, OneDictionaryOfAllBatchesStaysAsItIs) {
  for (const char* stored : {"c", "s", "l"}) {
    SCOPED_TRACE(stored);
    build::Array array = indexed<int32_t>({3, 0, 2, 1, 2, 0}, {});
    array.dictionary[0] = sliced(build::texts({"before", "a", "unused", "c", "a", "after"}), 1, 4);
    Encoded column(dictionary_of_texts("i"), dictionary_of_texts(stored), {array});
    const ArrowArray* all = column.part.pieces[0].array;
    column.part.pieces = {{all, 0, 2}, {all, 4, 0}, {all, 3, 3}};
    ASSERT_TRUE(column.run().is_ok());
    EXPECT_TRUE(column.part.renames.empty());
    EXPECT_EQ(words_of(column), "a,unused,c,a,");
    EXPECT_EQ(indices_of(column), (std::vector<int64_t>{3, 0, 1, 2, 0}));
    EXPECT_EQ(column.chunk.buffers[1], 5 * column.part.stored->type.width_bytes);
  }
}

TEST(TableIndices, DictionariesOfSeveralBatchesBecomeOneOfAnotherWidth) {
  // The second dictionary begins behind the start of its buffers.
  build::Array second = indexed<int32_t>({0, 1, 2, 0}, {"b", "c", "a"});
  second.dictionary[0] = sliced(build::texts({"before", "b", "c", "a"}), 1, 3);
  const std::vector<build::Array> batches{indexed<int32_t>({1, 0}, {"a", "b"}), sliced(second, 1, 3)};
  Encoded narrow(dictionary_of_texts("i"), dictionary_of_texts("c"), batches);
  ASSERT_TRUE(narrow.run().is_ok());
  EXPECT_EQ(narrow.values<int8_t>(1), (std::vector<int8_t>{1, 0, 2, 0, 1}));
  EXPECT_EQ(words_of(narrow), "a,b,c,");
  Encoded wide(dictionary_of_texts("i"), dictionary_of_texts("L"), batches);
  ASSERT_TRUE(wide.run().is_ok());
  EXPECT_EQ(wide.values<uint64_t>(1), (std::vector<uint64_t>{1, 0, 2, 0, 1}));
}

TEST(TableIndices, AWiderIndexKeepsTheValues) {
  Encoded column(dictionary_of_texts("c"), dictionary_of_texts("i"),
                 {indexed<int8_t>({1, 0, -1}, {"a", "b"}, "110"), indexed<int8_t>({1, 1}, {"c", "d"})});
  ASSERT_TRUE(column.run().is_ok());
  EXPECT_EQ(column.values<int32_t>(1), (std::vector<int32_t>{1, 0, 0, 3, 3}));
  EXPECT_EQ(words_of(column), "a,b,c,d,");
  Encoded unsigned_one(dictionary_of_texts("C"), dictionary_of_texts("s"),
                       {indexed<uint8_t>({255, 128, 0}, distinct_words(256))});
  ASSERT_TRUE(unsigned_one.run().is_ok());
  EXPECT_EQ(unsigned_one.values<int16_t>(1), (std::vector<int16_t>{255, 128, 0}));
}

/// The status of storing batches of `given` indices in `stored` ones; what does not fit says so.
Code store_as(const std::string& given, const std::string& stored, const std::vector<build::Array>& batches) {
  Encoded column(dictionary_of_texts(given), dictionary_of_texts(stored), batches);
  const Code code = column.run().code();
  EXPECT_EQ(column.cut.needed, code == Code::kTooLarge);
  EXPECT_EQ(column.cut.index_full, code == Code::kTooLarge);
  return code;
}

TEST(TableIndices, ANarrowedIndexOf8BitsNumbers127Values) {
  const auto in_two = [](int count) {
    return std::vector{indexed<uint8_t>({0}, distinct_words(100)),
                       indexed<uint8_t>({0}, distinct_words(count - 100, 100))};
  };
  EXPECT_EQ(store_as("C", "c", {indexed<uint8_t>({126}, distinct_words(127))}), Code::kOk);
  EXPECT_EQ(store_as("C", "c", {indexed<uint8_t>({0}, distinct_words(128))}), Code::kTooLarge);
  EXPECT_EQ(store_as("C", "c", in_two(127)), Code::kOk);
  EXPECT_EQ(store_as("C", "c", in_two(128)), Code::kTooLarge);
  // One that was given with 8 bits may have all of them.
  EXPECT_EQ(store_as("c", "c", {indexed<int8_t>({127}, distinct_words(128))}), Code::kOk);
  EXPECT_EQ(store_as("i", "s", {indexed<int32_t>({32'766}, distinct_words(32'767))}), Code::kOk);
  EXPECT_EQ(store_as("i", "s", {indexed<int32_t>({0}, distinct_words(32'768))}), Code::kTooLarge);
}

TEST(TableIndices, WhatDoesNotFitTogetherSaysHowManyRowsDo) {
  Encoded column(dictionary_of_texts("i"), dictionary_of_texts("c"),
                 {indexed<int32_t>({1, 0}, distinct_words(50)), indexed<int32_t>({7}, distinct_words(77, 50)),
                  indexed<int32_t>({0, 0}, {"one more"})});
  EXPECT_EQ(column.run().code(), Code::kTooLarge);
  EXPECT_TRUE(column.cut.index_full);
  EXPECT_EQ(column.cut.rows, 3u);
}

TEST(TableIndices, EqualWordsOfADictionaryCountOnce) {
  const std::vector<std::string> equal(130, "same");
  Encoded column(dictionary_of_texts("i"), dictionary_of_texts("c"),
                 {indexed<int32_t>({129, 0, 64}, equal), indexed<int32_t>({128}, equal)});
  ASSERT_TRUE(column.run().is_ok());
  EXPECT_EQ(column.values<int8_t>(1), (std::vector<int8_t>{0, 0, 0, 0}));
  EXPECT_EQ(words_of(column), "same,");
}

build::Array with_null_word(std::vector<std::string> words, size_t null_at, const std::vector<int32_t>& at) {
  std::string validity(words.size(), '1');
  validity[null_at] = '0';
  build::Array array = build::values(at);
  array.dictionary.push_back(build::texts(words, validity));
  return array;
}

TEST(TableIndices, ANullInADictionaryIsOneOfItsValues) {
  const auto fields = std::pair(dictionary_of_texts("i"), dictionary_of_texts("c"));
  Encoded one(fields.first, fields.second, {with_null_word({"a", "", "b"}, 1, {2, 1, 0})});
  ASSERT_TRUE(one.run().is_ok());
  EXPECT_EQ(words_of(one), "a,null,b,");
  EXPECT_EQ(one.values<int8_t>(1), (std::vector<int8_t>{2, 1, 0}));
  Encoded two(fields.first, fields.second,
              {with_null_word({"a", "", "b"}, 1, {2, 1, 0}), with_null_word({"", "c", "a"}, 0, {2, 1, 0})});
  ASSERT_TRUE(two.run().is_ok());
  EXPECT_EQ(words_of(two), "a,null,b,c,");
  EXPECT_EQ(two.values<int8_t>(1), (std::vector<int8_t>{2, 1, 0, 0, 3, 1}));
  // 126 words and a null, or 127 and a null; the doubled first one makes it look at each.
  for (const int words : {126, 127}) {
    std::vector<std::string> all = distinct_words(words);
    for (const char* more : {"w0", "w0", "w0", ""}) all.emplace_back(more);
    EXPECT_EQ(store_as("i", "c", {with_null_word(all, all.size() - 1, {0})}),
              words == 126 ? Code::kOk : Code::kTooLarge);
  }
}

TEST(TableIndices, WhatStandsUnderANullIsNotLookedAt) {
  const std::vector<int32_t> garbage{INT32_MIN, 1, 0, INT32_MAX, 300};
  const build::Array array = indexed<int32_t>(garbage, {"a", "b"}, "01100");
  for (const std::vector<build::Array>& batches :
       {std::vector{array}, std::vector{array, indexed<int32_t>({0, -1}, {"b"}, "10")}}) {
    Encoded column(dictionary_of_texts("i"), dictionary_of_texts("c"), batches);
    ASSERT_TRUE(column.run().is_ok());
    std::vector<int8_t> wanted{0, 1, 0, 0, 0};
    if (batches.size() == 2) wanted.insert(wanted.end(), {1, 0});
    EXPECT_EQ(column.values<int8_t>(1), wanted);
  }
}

TEST(TableIndices, OutsideOfTheirDictionaryAreRefusedInEveryWidth) {
  const auto refused = [](const std::string& given, auto wrong, const std::string& stored) {
    using Index = decltype(wrong);
    SCOPED_TRACE(given + " " + std::to_string(wrong) + " as " + stored);
    const std::vector<std::string> words{"a", "b"};
    const build::Array bad = indexed<Index>({0, wrong}, words);
    for (const std::vector<build::Array>& batches :
         {std::vector{bad}, std::vector{indexed<Index>({0}, {"c"}), bad},
          std::vector{bad, indexed<Index>({0}, {"c"})}, std::vector(600, bad)}) {
      for (const bool pack : {false, true}) {
        Encoded column(dictionary_of_texts(given), dictionary_of_texts(stored), batches);
        column.part.pack = pack;
        EXPECT_EQ(column.run().code(), Code::kInvalidArgument);
      }
    }
  };
  for (const char* stored : {"c", "s", "i", "l", "L"}) {
    refused("L", (uint64_t{1} << 63) + 1, stored);
    refused("L", uint64_t{1} << 32, stored);  // 0 in the low bits
    refused("l", int64_t{-1}, stored);
    refused("l", int64_t{256}, stored);
    refused("i", int32_t{2}, stored);
    refused("C", uint8_t{255}, stored);
  }
}

TEST(TableIndices, AreCountedAsTheyWillBeStored) {
  const auto count = [](const std::vector<build::Array>& batches, uint64_t limit = 1000) {
    const Encoded column(dictionary_of_texts("i"), batches);
    return count_distinct(column.part, limit);
  };
  EXPECT_EQ(count({indexed<int32_t>({0}, std::vector<std::string>(130, "same"))}), 1u);
  EXPECT_EQ(count({indexed<int32_t>({0}, {"a", "b"}), indexed<int32_t>({0}, {"b", "c"})}), 3u);
  EXPECT_EQ(count({with_null_word({"a", "", "b"}, 1, {0}), with_null_word({"", "c"}, 0, {0})}), 4u);
  EXPECT_EQ(count({indexed<int32_t>({0}, distinct_words(200))}, 200), 200u);
  EXPECT_EQ(count({indexed<int32_t>({0}, distinct_words(201))}, 200), 201u);
  EXPECT_EQ(count({}), 0u);
  // A row that is null is no value.
  const Encoded rows({"u", "x"}, {build::texts({"a", "", "b", ""}, "1010")});
  EXPECT_EQ(count_distinct(rows.part, 1000), 2u);
}

// ---------------------------------------------------------------- packed

/// The same column encoded plainly and packed.
struct Both {
  Encoded plain, packed;

  Both(const build::Field& given, const build::Field& stored, const std::vector<build::Array>& batches)
      : plain(given, stored, batches), packed(given, stored, batches) {
    packed.part.pack = true;
    EXPECT_TRUE(plain.run().is_ok());
    EXPECT_TRUE(packed.run().is_ok());
    EXPECT_EQ(plain.chunk.packing, std::nullopt);
  }
  Both(const build::Field& field, const std::vector<build::Array>& batches) : Both(field, field, batches) {}

  uint32_t bits() const { return packed.chunk.packing ? packed.chunk.packing->bits : ~0u; }

  /// Rows, nulls, bounds and every value that is not null are the same.
  template <class Value>
  void expect_same() const {
    ASSERT_TRUE(packed.chunk.packing.has_value());
    ASSERT_EQ(packed.chunk.buffers[1], packed_bytes(packed.chunk.lengths[0], bits()));
    EXPECT_LT(packed.chunk.buffers[1], plain.chunk.buffers[1]);
    EXPECT_EQ(packed.chunk.lengths, plain.chunk.lengths);
    EXPECT_EQ(packed.chunk.nulls, plain.chunk.nulls);
    EXPECT_EQ(packed.buffer(0), plain.buffer(0));
    EXPECT_EQ(packed.bytes.back(), std::byte{0xFF}) << "past the end";
    EXPECT_EQ(packed.bounds.kind, plain.bounds.kind);
    EXPECT_EQ(packed.bounds.minimum.integer, plain.bounds.minimum.integer);
    EXPECT_EQ(packed.bounds.maximum.integer, plain.bounds.maximum.integer);
    const std::vector<Value> wanted = plain.values<Value>(1);
    const std::vector<uint32_t> words = packed.values<uint32_t>(1);
    const uint64_t blocks = (wanted.size() + kPackRows - 1) / kPackRows;
    std::vector<Value> got(blocks * kPackRows);
    unpack_blocks(reinterpret_cast<const std::byte*>(words.data()), blocks, *packed.chunk.packing,
                  sizeof(Value), reinterpret_cast<std::byte*>(got.data()));
    const std::string validity = plain.buffer(0);
    for (size_t row = 0; row < wanted.size(); ++row) {
      if (validity.empty() || bit_at(validity.data(), row)) {
        ASSERT_EQ(got[row], wanted[row]) << row;
      } else {
        ASSERT_EQ(got[row], static_cast<Value>(packed.chunk.packing->base)) << "a null at " << row;
      }
    }
  }
};

/// Values from `least` on, below least + 2^bits, with garbage where the validity has a null.
template <class Value>
build::Array ranged(int64_t least, uint32_t bits, size_t rows, int nulls_percent, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Value> values(rows);
  std::string validity(rows, '1');
  for (size_t i = 0; i < rows; ++i) {
    const uint64_t distance = random() & ((uint64_t{1} << bits) - 1);
    values[i] = static_cast<Value>(static_cast<uint64_t>(least) + distance);
    if (static_cast<int>(random() % 100) >= nulls_percent) continue;
    values[i] = static_cast<Value>(random());
    validity[i] = '0';
  }
  return build::values(values, nulls_percent > 0 ? validity : "");
}

template <class Value>
void packs(const std::string& format, int64_t least, uint32_t bits) {
  SCOPED_TRACE(format + " of " + std::to_string(bits) + " bits from " + std::to_string(least));
  for (const int nulls_percent : {0, 30}) {
    // Pieces that begin and end within blocks and within bytes of bitmaps; one of them without any nulls.
    const build::Array first = ranged<Value>(least, bits, 3000, nulls_percent, bits);
    const Both both({format, "x"}, {sliced(first, 5, 1100), sliced(first, 2001, 0), sliced(first, 1700, 1299),
                                    ranged<Value>(least, bits, 2501, 0, bits + 1)});
    both.expect_same<Value>();
    EXPECT_LE(both.bits(), bits);
    EXPECT_EQ(both.packed.chunk.nulls[0] > 0, nulls_percent > 0);
  }
}

template <class Value>
void packs_all(const std::string& format, std::initializer_list<uint32_t> bits) {
  for (const uint32_t one : bits) {
    packs<Value>(format, std::numeric_limits<Value>::lowest(), one);
    packs<Value>(format, 100, one);
    if (std::numeric_limits<Value>::is_signed) packs<Value>(format, -(int64_t{1} << one) / 2, one);
  }
}

TEST(TablePacked, IntegersOfEveryWidthComeBack) {
  packs_all<int8_t>("c", {0, 1, 4});
  packs_all<uint8_t>("C", {0, 1, 6});
  packs_all<int16_t>("s", {0, 7, 12});
  packs_all<uint16_t>("S", {0, 7, 12});
  packs_all<int32_t>("i", {0, 13, 24});
  packs_all<uint32_t>("I", {0, 13, 24});
  packs_all<int64_t>("l", {0, 17, 32});
  packs_all<uint64_t>("L", {0, 17, 32});
}

TEST(TablePacked, DatesTimesAndNarrowDecimalsAreIntegers) {
  packs<int32_t>("tdD", 18'000, 12);
  packs<int32_t>("ttm", 0, 20);
  packs<int64_t>("tsu:UTC", int64_t{1'700'000'000} * 1'000'000, 32);
  packs<int64_t>("tDn", -7, 9);
  packs<int32_t>("d:9,2,32", -700, 15);
  packs<int64_t>("d:18,2,64", -700, 15);
}

TEST(TablePacked, TheEndsOfTheTypesComeBack) {
  Both({"l", "x"}, {build::values<int64_t>(std::vector<int64_t>(500, INT64_MAX))}).expect_same<int64_t>();
  Both({"l", "x"}, {build::values<int64_t>(std::vector<int64_t>(500, INT64_MIN))}).expect_same<int64_t>();
  std::vector<uint64_t> high(2000, INT64_MAX);
  high[77] -= 1000;
  Both({"L", "x"}, {build::values(high)}).expect_same<uint64_t>();
  std::vector<uint32_t> top(2000, ~uint32_t{0});
  top[77] -= 1000;
  Both({"I", "x"}, {build::values(top)}).expect_same<uint32_t>();
}

TEST(TablePacked, WhatIsNotPackedIsAsItWas) {
  const auto plain = [](const std::string& format, const build::Array& array) {
    const Both both({format, "x"}, {array});
    EXPECT_EQ(both.packed.chunk.packing, std::nullopt) << format;
    EXPECT_EQ(both.packed.bytes, both.plain.bytes) << format;
    EXPECT_EQ(both.packed.bounds.kind, both.plain.bounds.kind) << format;
    EXPECT_EQ(both.packed.bounds.maximum.integer, both.plain.bounds.maximum.integer) << format;
  };
  plain("c", ranged<int8_t>(0, 7, 3000, 10, 1));
  plain("S", ranged<uint16_t>(0, 13, 3000, 10, 1));
  plain("i", ranged<int32_t>(0, 25, 3000, 10, 1));
  plain("l", ranged<int64_t>(0, 33, 3000, 10, 1));
  // Where bounds are not known; nulls of the same kind are no hindrance.
  std::vector<uint64_t> above(3000, uint64_t{1} << 63);
  plain("L", build::values(above));
  above.assign(3000, 7);
  above[100] = uint64_t{1} << 63;
  plain("L", build::values(above));
  std::string validity(3000, '1');
  validity[100] = '0';
  Both({"L", "x"}, {build::values(above, validity)}).expect_same<uint64_t>();
  // Other types.
  plain("g", build::values<double>(std::vector<double>(3000, 1.5)));
  plain("e", build::values<uint16_t>(std::vector<uint16_t>(3000, 5)));
  plain("b", {3000, {"", std::string(375, '\7')}, {}, {}, 0});
  plain("u", build::texts(std::vector<std::string>(3000, "same")));
  plain("d:38,2", {100, {"", std::string(1600, '\0')}, {}, {}, 0});
  plain("tiM", build::values<int32_t>(std::vector<int32_t>(3000, 5)));
  plain("w:4", {100, {"", std::string(400, '\0')}, {}, {}, 0});
}

TEST(TablePacked, OnlyTheFirstFieldIsPacked) {
  const build::Array items = build::values<int32_t>(std::vector<int32_t>(3000, 7));
  const Both record({"+s", "x", {{"i", "a"}}}, {{3000, {""}, {items}, {}, 0}});
  EXPECT_EQ(record.packed.chunk.packing, std::nullopt);
  EXPECT_EQ(record.packed.bytes, record.plain.bytes);
  const Both lists({"+w:2", "x", {{"i", "item"}}}, {{1500, {""}, {items}, {}, 0}});
  EXPECT_EQ(lists.packed.chunk.packing, std::nullopt);
  EXPECT_EQ(lists.packed.bytes, lists.plain.bytes);
}

TEST(TablePacked, FewRowsDoNotFillABlock) {
  const auto is_packed = [](size_t rows, uint32_t bits) {
    return Both({"l", "x"}, {ranged<int64_t>(1000, bits, rows, 0, 3)}).packed.chunk.packing.has_value();
  };
  EXPECT_TRUE(is_packed(1, 0));
  EXPECT_FALSE(is_packed(16, 1));
  EXPECT_TRUE(is_packed(500, 10));
  EXPECT_TRUE(is_packed(161, 10));  // 1280 bytes instead of 1288
  EXPECT_FALSE(is_packed(160, 10));
}

TEST(TablePacked, AllNullsTakeNoBytesButTheirBitmap) {
  const Both both({"l", "x"}, {ranged<int64_t>(0, 40, 5000, 100, 9)});
  EXPECT_EQ(both.packed.chunk.nulls[0], 5000u);
  EXPECT_EQ(both.packed.chunk.packing, (Packing{0, 0}));
  EXPECT_EQ(both.packed.chunk.buffers, (std::vector<uint64_t>{625, 0}));
  both.expect_same<int64_t>();
}

TEST(TablePacked, BuffersNeedNotBeAligned) {
  const auto at_odd_addresses = [](const std::string& format, size_t width) {
    const build::Array good = ranged<int64_t>(0, 4, 3001, 0, 5);
    std::vector<char> memory(width * 3001 + 1);
    std::memcpy(memory.data() + 1, good.buffers[1].data(), memory.size() - 1);
    for (size_t i = 0; i < 3001; ++i) {  // small numbers of that width
      std::memset(memory.data() + 1 + i * width, 0, width);
      memory[1 + i * width] = static_cast<char>(i % 5);
    }
    Encoded column({format, "x"}, {good});
    build::Array aligned{3001, {"", std::string(memory.data() + 1, memory.size() - 1)}, {}, {}, 0};
    ArrowArray odd;
    build::export_array(aligned, &odd);
    odd.buffers[1] = memory.data() + 1;
    column.part.pieces = {{&odd, 0, 3001}};
    column.part.pack = true;
    EXPECT_TRUE(column.run().is_ok());
    EXPECT_EQ(column.chunk.packing, (Packing{3, 0})) << format;
    EXPECT_EQ(column.bounds.maximum.integer, 4) << format;
    odd.release(&odd);
  };
  at_odd_addresses("s", 2);
  at_odd_addresses("i", 4);
  at_odd_addresses("l", 8);
}

/// Decimals of 128 or 256 bits; where the validity has a null, more than 64 bits of garbage.
build::Array wide_decimals(size_t words, size_t rows, int64_t least, const std::string& validity = "") {
  std::vector<int64_t> parts;
  for (size_t i = 0; i < rows; ++i) {
    const bool valid = validity.empty() || validity[i] == '1';
    const int64_t value = least + static_cast<int64_t>(i * 7 % 1000);
    parts.push_back(value);
    for (size_t word = 1; word < words; ++word) parts.push_back(valid ? value >> 63 : 0x1234);
  }
  return {static_cast<int64_t>(rows),
          {build::bits_of(validity), build::bytes_of(parts)},
          {},
          {},
          validity.empty() ? 0 : -1};
}

TEST(TablePacked, DecimalsBecomeNarrowAndPacked) {
  std::string validity(2500, '1');
  for (size_t i = 0; i < validity.size(); i += 3) validity[i] = '0';
  for (const auto& [format, words] : {std::pair{"d:15,2", 2u}, std::pair{"d:15,2,256", 4u}}) {
    const Both both(
        {format, "x"}, {"d:15,2,64", "x"},
        {sliced(wide_decimals(words, 2500, -500, validity), 7, 2400), wide_decimals(words, 1500, -400)});
    both.expect_same<int64_t>();
    EXPECT_EQ(both.bits(), 11u) << format;
    EXPECT_EQ(both.packed.bounds.minimum.integer, -500) << format;
  }
}

TEST(TablePacked, DecimalsThatDoNotFitAreRefused) {
  build::Array array = wide_decimals(2, 3000, 5);
  array.buffers[1][16 * 2500 + 8] = 1;  // beyond 64 bits
  Encoded column({"d:15,2", "x"}, {"d:15,2,64", "x"}, {array});
  column.part.pack = true;
  EXPECT_EQ(column.run().code(), Code::kInvalidArgument);
}

TEST(TablePacked, StringsThatBecomeIndicesArePacked) {
  std::vector<std::string> words;
  std::string validity(2600, '1');
  for (size_t i = 0; i < 2600; ++i) {
    words.push_back("word " + std::to_string(i % 5));
    if (i % 11 == 0) validity[i] = '0';
  }
  const build::Array array = build::texts(words, validity);
  const Both both({"u", "x"}, {"c", "x", {}, {{"u", ""}}},
                  {sliced(array, 3, 1500), sliced(array, 1600, 1000)});
  both.expect_same<int8_t>();
  EXPECT_EQ(both.packed.chunk.packing, (Packing{3, 0}));
  EXPECT_EQ(both.packed.book.images[0]->chunk.packing, std::nullopt);
  EXPECT_EQ(both.packed.book.images[0]->bytes, both.plain.book.images[0]->bytes);
}

/// Indices below `count`, and far outside where they are null.
template <class Index>
build::Array many_indices(size_t rows, const std::vector<std::string>& dictionary, int nulls_percent) {
  build::Array array = ranged<Index>(0, 3, rows, nulls_percent, rows);
  auto* indices = reinterpret_cast<Index*>(array.buffers[1].data());
  for (size_t i = 0; i < rows; ++i) {
    const bool valid = nulls_percent == 0 || bit_at(array.buffers[0].data(), i);
    indices[i] = valid ? static_cast<Index>(static_cast<size_t>(indices[i]) % dictionary.size())
                       : std::numeric_limits<Index>::max();
  }
  array.dictionary.push_back(build::texts(dictionary));
  return array;
}

TEST(TablePacked, IndicesAsTheyComeArePacked) {
  const std::vector<std::string> dictionary{"a", "b", "c", "d", "e"};
  const auto packs_indices = [&](const std::string& format, auto index) {
    using Index = decltype(index);
    SCOPED_TRACE(format);
    for (const int nulls_percent : {0, 30, 100}) {
      const build::Array array = many_indices<Index>(2000, dictionary, nulls_percent);
      const Both both({format, "x", {}, {{"u", ""}}}, {array});
      both.expect_same<Index>();
      EXPECT_EQ(both.packed.chunk.packing, (Packing{3, 0}));
    }
  };
  packs_indices("c", int8_t{});
  packs_indices("C", uint8_t{});
  packs_indices("s", int16_t{});
  packs_indices("S", uint16_t{});
  packs_indices("i", int32_t{});
  packs_indices("I", uint32_t{});
  packs_indices("l", int64_t{});
  packs_indices("L", uint64_t{});
}

TEST(TablePacked, IndicesOfSeveralDictionariesArePacked) {
  const Both both({"s", "x", {}, {{"u", ""}}},
                  {many_indices<int16_t>(1500, {"a", "b"}, 20),
                   many_indices<int16_t>(900, {"b", "c", "a", "d"}, 0), many_indices<int16_t>(10, {}, 100)});
  both.expect_same<int16_t>();
  EXPECT_EQ(both.packed.chunk.packing, (Packing{2, 0}));
  EXPECT_EQ(both.packed.book.images[0]->chunk.lengths[0], 4u);
}

TEST(TablePacked, IndicesOfAnotherWidthArePacked) {
  const auto packs = [](const std::string& stored, auto index) {
    using Index = decltype(index);
    SCOPED_TRACE(stored);
    for (const int nulls_percent : {0, 30, 100}) {
      const build::Array array = many_indices<int32_t>(2000, {"a", "b", "c", "d", "e"}, nulls_percent);
      const Both one(dictionary_of_texts("i"), dictionary_of_texts(stored), {array});
      one.expect_same<Index>();
      EXPECT_EQ(one.packed.chunk.packing, (Packing{3, 0}));
      const Both two(dictionary_of_texts("i"), dictionary_of_texts(stored),
                     {array, many_indices<int32_t>(1100, {"f", "b", "f"}, 10)});
      two.expect_same<Index>();
      EXPECT_EQ(two.packed.book.images[0]->chunk.lengths[0], 6u);
    }
  };
  packs("c", int8_t{});
  packs("s", int16_t{});
  packs("l", int64_t{});
}

TEST(TablePacked, AnEmptyDictionaryHasNullsOnly) {
  const Both both({"c", "x", {}, {{"u", ""}}}, {many_indices<int8_t>(2000, {}, 100)});
  both.expect_same<int8_t>();
  EXPECT_EQ(both.packed.chunk.packing, (Packing{0, 0}));
}

TEST(TablePacked, IndicesOutsideOfTheirDictionaryAreRefused) {
  const std::vector<std::string> dictionary{"a", "b", "c"};
  const auto refused = [](const std::vector<build::Array>& batches) {
    Encoded column({"s", "x", {}, {{"u", ""}}}, batches);
    column.part.pack = true;
    EXPECT_EQ(column.run().code(), Code::kInvalidArgument);
  };
  for (const int16_t wrong : {int16_t{3}, int16_t{-1}, int16_t{300}}) {
    build::Array array = many_indices<int16_t>(2000, dictionary, 0);
    std::memcpy(array.buffers[1].data() + 2 * 1999, &wrong, 2);
    refused({array});
    refused({many_indices<int16_t>(2000, {"b", "x"}, 0), array});
  }
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
