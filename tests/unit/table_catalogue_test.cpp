// Catalogues: there and back, and what a stranger may write into one.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "base/crc32c.h"
#include "table/format/verify.h"

namespace {

using namespace ocm;
using namespace ocm::table;

constexpr uint64_t kPartBytes = 1024;

Field field_of(const std::string& format, const std::string& name, std::vector<Field> children = {},
               std::vector<Field> dictionary = {}) {
  Field field;
  field.format = format;
  field.name = name;
  field.children = std::move(children);
  field.dictionary = std::move(dictionary);
  return field;
}

/// Two parts; ten rows of a number, a string, a list and a dictionary.
Catalogue good() {
  Catalogue catalogue;
  catalogue.table = 42;
  catalogue.schema = field_of(
      "+s", "",
      {field_of("l", "number"), field_of("u", "text"), field_of("+l", "list", {field_of("i", "item")}),
       field_of("c", "color", {}, {field_of("u", "")})});
  catalogue.parts = {kPartBytes, kPartBytes};
  Group group;
  group.rows = 10;
  Bounds bounds;
  bounds.kind = OCM_BOUND_INT;
  bounds.minimum.integer = -3;
  bounds.maximum.integer = 9;
  group.columns.push_back({{0, {10}, {2}, {2, 80}, {}}, bounds});
  group.columns.push_back({{192, {10}, {0}, {0, 44, 100}, {}}, {}});
  group.columns.push_back({{kPartBytes, {10, 20}, {0, 0}, {0, 44, 0, 80}, {}}, {}});
  group.columns.push_back({{448, {10}, {0}, {0, 10}, {0}}, {}});
  catalogue.groups.push_back(group);
  catalogue.dictionaries.push_back({4, {512, {3}, {0}, {0, 16, 5}, {}}});
  return catalogue;
}

std::span<const std::byte> span_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

Result<Catalogue> decode(const std::string& last_part) {
  const uint64_t segment_bytes = 2 * kPartBytes + last_part.size();
  OCM_TRY_ASSIGN(const Footer footer, decode_footer(span_of(last_part).last(kFooterBytes), segment_bytes));
  return decode_catalogue(span_of(last_part).first(footer.catalogue_bytes), footer, segment_bytes);
}

Status decode_changed(const std::function<void(Catalogue&)>& change) {
  Catalogue catalogue = good();
  change(catalogue);
  return decode(encode_catalogue(catalogue).value()).status();
}

TEST(TableCatalogue, ComesBackAsItWas) {
  const std::string bytes = encode_catalogue(good()).value();
  EXPECT_EQ(bytes.size() % kAlignment, 0u);
  const Result<Catalogue> decoded = decode(bytes);
  ASSERT_TRUE(decoded.is_ok()) << decoded.status().to_string();
  EXPECT_EQ(decoded.value().table, 42u);
  EXPECT_EQ(decoded.value().schema.children[2].children[0].name, "item");
  EXPECT_EQ(decoded.value().groups[0].columns[0].bounds.minimum.integer, -3);
  EXPECT_EQ(decoded.value().groups[0].columns[1].chunk.buffers, (std::vector<uint64_t>{0, 44, 100}));
  EXPECT_EQ(encode_catalogue(decoded.value()).value(), bytes);
}

TEST(TableCatalogue, EveryChangedByteIsNoticed) {
  const std::string bytes = encode_catalogue(good()).value();
  const uint64_t catalogue_bytes =
      decode_footer(span_of(bytes).last(kFooterBytes), 4096).value().catalogue_bytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool zeros =
        i >= catalogue_bytes && (i < bytes.size() - kFooterBytes || i >= bytes.size() - kFooterBytes + 40);
    if (zeros) continue;
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    const Code code = decode(changed).status().code();
    // Four bytes of the footer are padding that the checksum covers.
    EXPECT_TRUE(code == Code::kBadChecksum || code == Code::kProtocol ||
                i >= bytes.size() - kFooterBytes + 36)
        << i;
  }
}

TEST(TableCatalogue, SaysWhenItIsNoTable) {
  const std::string zeros(kFooterBytes, '\0');
  const Status status = decode_footer(span_of(zeros), 4096).status();
  EXPECT_EQ(status.code(), Code::kProtocol);
  EXPECT_NE(status.message().find("no table"), std::string_view::npos);
}

TEST(TableCatalogue, ChunksLieInsideOfOnePart) {
  EXPECT_EQ(decode_changed([](Catalogue&) {}).code(), Code::kOk);
  const auto refused = [](const std::function<void(Chunk&)>& change) {
    EXPECT_EQ(decode_changed([&](Catalogue& all) { change(all.groups[0].columns[0].chunk); }).code(),
              Code::kProtocol);
    EXPECT_EQ(decode_changed([&](Catalogue& all) { change(all.dictionaries[0].chunk); }).code(),
              Code::kProtocol);
  };
  refused([](Chunk& chunk) { chunk.offset = 2 * kPartBytes; });
  refused([](Chunk& chunk) { chunk.offset = kPartBytes - 64; });
  refused([](Chunk& chunk) { chunk.offset = ~uint64_t{63}; });
  refused([](Chunk& chunk) { chunk.offset = 8; });
  refused([](Chunk& chunk) { chunk.buffers[1] = 4 * kPartBytes; });
  refused([](Chunk& chunk) { chunk.buffers[1] = ~uint64_t{0}; });
  refused([](Chunk& chunk) { chunk.buffers[1] = 4; });
  refused([](Chunk& chunk) { chunk.buffers.pop_back(); });
  refused([](Chunk& chunk) { chunk.buffers.push_back(0); });
  refused([](Chunk& chunk) { chunk.lengths.push_back(1); });
  refused([](Chunk& chunk) { chunk.lengths.clear(); });
  refused([](Chunk& chunk) { chunk.lengths[0] = uint64_t{1} << 62; });
  refused([](Chunk& chunk) { chunk.nulls[0] = 1000; });
  refused([](Chunk& chunk) { chunk.nulls.clear(); });
  refused([](Chunk& chunk) { chunk.dictionaries.push_back(0); });
}

TEST(TableCatalogue, BuffersAreLongEnoughForTheirRows) {
  const auto refused = [](size_t column, const std::function<void(Chunk&)>& change) {
    const Status status =
        decode_changed([&](Catalogue& all) { change(all.groups[0].columns[column].chunk); });
    EXPECT_EQ(status.code(), Code::kProtocol) << column;
  };
  refused(0, [](Chunk& chunk) { chunk.buffers[0] = 1; });
  refused(0, [](Chunk& chunk) { chunk.buffers[1] = 79; });
  refused(1, [](Chunk& chunk) { chunk.buffers[1] = 43; });
  refused(2, [](Chunk& chunk) { chunk.buffers[3] = 79; });
  refused(3, [](Chunk& chunk) { chunk.buffers[1] = 9; });
  refused(3, [](Chunk& chunk) { chunk.dictionaries[0] = 1; });
  refused(3, [](Chunk& chunk) { chunk.dictionaries.clear(); });
}

TEST(TableCatalogue, GroupsAndDictionariesFitTheSchema) {
  const auto refused = [](const std::function<void(Catalogue&)>& change) {
    EXPECT_NE(decode_changed(change).code(), Code::kOk);
  };
  refused([](Catalogue& all) { all.groups[0].rows = 11; });
  refused([](Catalogue& all) { all.groups[0].rows = 0; });
  refused([](Catalogue& all) { all.groups[0].columns.pop_back(); });
  refused([](Catalogue& all) { all.dictionaries[0].field = 3; });
  refused([](Catalogue& all) { all.dictionaries[0].field = 99; });
  refused([](Catalogue& all) { all.dictionaries.clear(); });
  refused([](Catalogue& all) { all.parts.pop_back(); });
  refused([](Catalogue& all) { all.parts[0] = 0; });
  refused([](Catalogue& all) { all.parts.push_back(64); });
  refused([](Catalogue& all) { all.replicas = 0; });
  refused([](Catalogue& all) { all.schema.children[0].format = "vu"; });
  refused([](Catalogue& all) { all.schema.children[0].format = "?"; });
  refused([](Catalogue& all) { all.schema.format = "i"; });
}

TEST(TableCatalogue, ADictionaryOfADictionaryRefersToAnEarlierOne) {
  Catalogue catalogue = good();
  catalogue.schema =
      field_of("+s", "", {field_of("c", "x", {}, {field_of("c", "", {}, {field_of("u", "")})})});
  catalogue.groups[0].columns = {{{0, {10}, {0}, {0, 10}, {1}}, {}}};
  catalogue.dictionaries = {{1, {64, {3}, {0}, {0, 16, 5}, {}}}, {0, {192, {2}, {0}, {0, 2}, {0}}}};
  EXPECT_TRUE(decode(encode_catalogue(catalogue).value()).is_ok());
  catalogue.dictionaries[1].chunk.dictionaries = {1};  // itself
  EXPECT_EQ(decode(encode_catalogue(catalogue).value()).status().code(), Code::kProtocol);
}

TEST(TableCatalogue, DeepSchemasAreRefused) {
  Field field = field_of("i", "leaf");
  for (int i = 0; i < 80; ++i) field = field_of("+l", "level", {field});
  EXPECT_NE(decode_changed([&](Catalogue& all) { all.schema.children[0] = field; }).code(), Code::kOk);
}

/// The good catalogue's text column with these offsets.
Status verify_offsets(std::vector<int32_t> offsets, Depth depth) {
  const Catalogue catalogue = decode(encode_catalogue(good()).value()).value();
  std::vector<std::byte> data(catalogue.groups[0].columns[1].chunk.bytes());
  std::memcpy(data.data(), offsets.data(), offsets.size() * 4);
  return verify_chunk(catalogue, catalogue.schema.children[1], catalogue.groups[0].columns[1].chunk,
                      data.data(), depth);
}

TEST(TableVerify, OffsetsStayInside) {
  EXPECT_TRUE(verify_offsets({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 100}, Depth::kAll).is_ok());
  EXPECT_FALSE(verify_offsets({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 101}, Depth::kEnds).is_ok());
  EXPECT_FALSE(verify_offsets({-1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, Depth::kEnds).is_ok());
  EXPECT_FALSE(verify_offsets({0, 1, 2, 3, 99, 5, 6, 7, 8, 9, 10}, Depth::kAll).is_ok());
  EXPECT_TRUE(verify_offsets({0, 1, 2, 3, 99, 5, 6, 7, 8, 9, 10}, Depth::kEnds).is_ok());
}

TEST(TableVerify, IndicesNameAValue) {
  const Catalogue catalogue = decode(encode_catalogue(good()).value()).value();
  const auto verify = [&](int8_t index) {
    std::vector<std::byte> data(64);
    data[9] = static_cast<std::byte>(index);
    return verify_chunk(catalogue, catalogue.schema.children[3], catalogue.groups[0].columns[3].chunk,
                        data.data(), Depth::kAll);
  };
  EXPECT_TRUE(verify(2).is_ok());
  EXPECT_EQ(verify(3).code(), Code::kProtocol);
  EXPECT_EQ(verify(-1).code(), Code::kProtocol);
}

}  // namespace
