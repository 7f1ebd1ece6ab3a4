// Gathering rows from batches and copying them into a chunk, against arrays written by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "table/format/values.h"
#include "table_encode_fixture.h"

namespace {

using namespace table_encode;

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
  EXPECT_TRUE(distinct.is_valid());
  EXPECT_EQ(distinct.add("one more"), Distinct::kFull);
  EXPECT_EQ(distinct.add(texts[3]), 3);
}

}  // namespace
