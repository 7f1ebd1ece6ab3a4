// Packed columns: the same values, nulls and bounds as the plain ones in fewer bytes.
#include <limits>
#include <random>

#include "table_encode_fixture.h"

namespace {

using namespace table_encode;

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

}  // namespace
