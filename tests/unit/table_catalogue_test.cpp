// Catalogues: there and back, and what a stranger may write into one.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>

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
  catalogue.nodes = {"n2", "n1"};
  catalogue.kind = Kind::kNvme;
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
  EXPECT_TRUE(is_valid(decoded.value()));
  EXPECT_EQ(decoded.value().table, 42u);
  EXPECT_EQ(decoded.value().schema.children[2].children[0].name, "item");
  EXPECT_EQ(decoded.value().nodes, (std::vector<std::string>{"n2", "n1"}));
  EXPECT_EQ(decoded.value().kind, Kind::kNvme);
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
  EXPECT_NE(status.message().find("not a table"), std::string_view::npos);
}

TEST(TableCatalogue, NodesAreBounded) {
  const auto with_nodes = [](size_t count) {
    return decode_changed([=](Catalogue& all) { all.nodes.assign(count, "n"); }).code();
  };
  EXPECT_EQ(with_nodes(4096), Code::kOk);
  EXPECT_EQ(with_nodes(4097), Code::kProtocol);
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

/// How many bytes of memory more than before this process had at most while it decoded a catalogue.
int64_t decoding_takes(const std::string& catalogue, Code& code) {
  const auto status_bytes = [](const std::string& key) {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      int64_t kib = 0;
      if (word == key && status >> kib) return kib * 1024;
    }
    return int64_t{-1};
  };
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak is the present
  const int64_t before = status_bytes("VmRSS:");
  const Footer footer{catalogue.size(), crc32c(0, catalogue.data(), catalogue.size()), 42};
  code = decode_catalogue(span_of(catalogue), footer, last_part_bytes(catalogue.size())).status().code();
  return status_bytes("VmHWM:") - before;
}

TEST(TableCatalogue, ManyEmptyMessagesTakeNoMemory) {
  constexpr size_t kBytes = size_t{8} << 20;
  const auto bytes_of = [](const char* bytes, size_t length) { return std::string(bytes, length); };
  const auto many = [](const std::string& one) {
    std::string out;
    while (out.size() < kBytes) out += one;
    return out;
  };
  const auto message = [](char number, const std::string& content) {
    std::string out(1, static_cast<char>(number << 3 | 2));
    for (size_t length = content.size(); out.size() < 6; length >>= 7)
      out += static_cast<char>((length & 0x7f) | (out.size() < 5 ? 0x80 : 0));
    return out + content;
  };
  const std::string head = bytes_of("\x09\x2a\0\0\0\0\0\0\0\x18\x01", 11);  // table 42, one replica
  const std::string schema = message(4, bytes_of("\x0a\x02+s", 4));
  const std::string one = message(4, bytes_of("\x0a\x02+s\x2a\x03\x0a\x01l", 9));
  const std::string fields = message(4, bytes_of("\x0a\x02+s", 4) + many(bytes_of("\x2a\0", 2)));
  const std::string columns = one + message(6, bytes_of("\x08\x01", 2) + many(bytes_of("\x12\0", 2)));
  const std::string lengths =
      one + message(6, bytes_of("\x08\x01", 2) + message(2, message(1, message(2, many("\x01")))));
  const std::string dictionaries = schema + many(bytes_of("\x3a\0", 2)),
                    groups = one + many(bytes_of("\x32\0", 2));
  const std::string nodes = schema + many(bytes_of("\x4a\0", 2)), parts = schema + message(5, many("\x40"));
  for (const std::string& body : {fields, columns, lengths, dictionaries, groups, nodes, parts}) {
    Code code = Code::kOk;
    const int64_t bytes = decoding_takes(head + body, code);
    const auto which = testing::PrintToString(body.substr(0, 24));
    EXPECT_EQ(code, Code::kProtocol) << which;
    EXPECT_LT(bytes, static_cast<int64_t>(6 * kBytes)) << which;
  }
}

/// The good catalogue with its number and its color packed.
Catalogue good_packed() {
  Catalogue catalogue = good();
  catalogue.packed = true;
  catalogue.parts = {8 * kPartBytes, kPartBytes};
  std::vector<Column>& columns = catalogue.groups[0].columns;
  columns[0].chunk.offset = kPartBytes;
  columns[0].chunk.buffers = {2, 3 * kPackRows / 8};
  columns[0].chunk.packing = Packing{3, -3};
  columns[1].chunk.offset = 0;
  columns[2].chunk.offset = 8 * kPartBytes;
  columns[3].chunk.offset = 2 * kPartBytes;
  columns[3].chunk.buffers = {0, 2 * kPackRows / 8};
  columns[3].chunk.packing = Packing{2, 0};
  return catalogue;
}
Result<Catalogue> decode_packed(const std::function<void(Catalogue&)>& change) {
  Catalogue catalogue = good_packed();
  change(catalogue);
  const std::string last_part = encode_catalogue(catalogue).value();
  const uint64_t segment_bytes = 9 * kPartBytes + last_part.size();
  OCM_TRY_ASSIGN(const Footer footer, decode_footer(span_of(last_part).last(kFooterBytes), segment_bytes));
  return decode_catalogue(span_of(last_part).first(footer.catalogue_bytes), footer, segment_bytes);
}

TEST(TableCatalogue, PackingsComeBack) {
  const Result<Catalogue> decoded = decode_packed([](Catalogue&) {});
  ASSERT_TRUE(decoded.is_ok()) << decoded.status().to_string();
  EXPECT_TRUE(decoded.value().packed);
  const std::vector<Column>& columns = decoded.value().groups[0].columns;
  EXPECT_EQ(columns[0].chunk.packing, (Packing{3, -3}));
  EXPECT_EQ(columns[1].chunk.packing, std::nullopt);
  EXPECT_EQ(columns[3].chunk.packing, (Packing{2, 0}));
  EXPECT_FALSE(decode(encode_catalogue(good()).value()).value().packed);
}

TEST(TableCatalogue, NoBitsNeedNoBytes) {
  const Result<Catalogue> decoded = decode_packed([](Catalogue& all) {
    all.groups[0].columns[0].chunk.packing = Packing{0, INT64_MIN};
    all.groups[0].columns[0].chunk.buffers = {2, 0};
  });
  ASSERT_TRUE(decoded.is_ok()) << decoded.status().to_string();
  EXPECT_EQ(decoded.value().groups[0].columns[0].chunk.packing, (Packing{0, INT64_MIN}));
}

TEST(TableCatalogue, PackedBuffersHaveAllOfTheirBlocks) {
  const auto code = [](size_t column, uint64_t bytes, Packing packing) {
    return decode_packed([&](Catalogue& all) {
             all.groups[0].columns[column].chunk.buffers[1] = bytes;
             all.groups[0].columns[column].chunk.packing = packing;
           })
        .status()
        .code();
  };
  EXPECT_EQ(code(0, 384, {3, 0}), Code::kOk);
  EXPECT_EQ(code(0, 383, {3, 0}), Code::kProtocol);
  EXPECT_EQ(code(0, 80, {3, 0}), Code::kProtocol);  // enough for its rows if they were plain
  EXPECT_EQ(code(0, 0, {1, 0}), Code::kProtocol);
  EXPECT_EQ(code(3, 256, {2, 0}), Code::kOk);
  EXPECT_EQ(code(3, 255, {2, 0}), Code::kProtocol);
  EXPECT_EQ(code(0, 4096, {32, 0}), Code::kOk);
}

TEST(TableCatalogue, APackingHasNoMoreBitsThanItsTypeAllows) {
  const auto code = [](const std::string& format, uint32_t bits) {
    return decode_packed([&](Catalogue& all) {
             all.schema.children[0].format = format;
             all.groups[0].columns[0].chunk.packing = Packing{bits, 0};
             all.groups[0].columns[0].chunk.buffers[1] = 5000;
           })
        .status()
        .code();
  };
  const std::pair<const char*, uint32_t> most[] = {
      {"c", 6},  {"C", 6},    {"s", 12},   {"S", 12},    {"i", 24},   {"I", 24},        {"l", 32},
      {"L", 32}, {"tdD", 24}, {"ttm", 24}, {"tsu:", 32}, {"tDn", 32}, {"d:9,2,32", 24}, {"d:18,2,64", 32}};
  for (const auto& [format, bits] : most) {
    EXPECT_EQ(code(format, bits), Code::kOk) << format;
    EXPECT_EQ(code(format, bits + 1), Code::kProtocol) << format;
    EXPECT_EQ(code(format, 33), Code::kProtocol) << format;
    EXPECT_EQ(code(format, 64), Code::kProtocol) << format;
    EXPECT_EQ(code(format, ~uint32_t{0}), Code::kProtocol) << format;
  }
}

TEST(TableCatalogue, OnlyIntegersArePacked) {
  const auto code = [](Field field, Chunk chunk, std::optional<Packing> packing) {
    return decode_packed([&](Catalogue& all) {
             all.schema.children[0] = field;
             chunk.offset = kPartBytes;
             chunk.packing = packing;
             all.groups[0].columns[0] = {chunk, {}};
             // It may have children, so the dictionary's field has another number.
             all.schema.children.resize(1);
             all.groups[0].columns.resize(1);
             all.dictionaries.clear();
           })
        .status()
        .code();
  };
  const auto refused = [&](const Field& field, const Chunk& chunk) {
    EXPECT_EQ(code(field, chunk, std::nullopt), Code::kOk) << field.format;
    EXPECT_EQ(code(field, chunk, Packing{0, 0}), Code::kProtocol) << field.format;
    EXPECT_EQ(code(field, chunk, Packing{1, 0}), Code::kProtocol) << field.format;
  };
  refused(field_of("n", "x"), {0, {10}, {10}, {}, {}});
  refused(field_of("b", "x"), {0, {10}, {0}, {0, 2000}, {}});
  for (const char* format : {"e", "f", "g", "d:38,2", "tin", "tiD", "w:4", "w:0"})
    refused(field_of(format, "x"), {0, {10}, {0}, {0, 2000}, {}});
  for (const char* format : {"u", "z", "U", "Z"})
    refused(field_of(format, "x"), {0, {10}, {0}, {0, 2000, 2000}, {}});
  refused(field_of("+l", "x", {field_of("i", "item")}), {0, {10, 20}, {0, 0}, {0, 2000, 0, 2000}, {}});
  refused(field_of("+w:2", "x", {field_of("i", "item")}), {0, {10, 20}, {0, 0}, {0, 0, 2000}, {}});
  refused(field_of("+s", "x", {field_of("i", "a")}), {0, {10, 10}, {0, 0}, {0, 0, 2000}, {}});
}

TEST(TableCatalogue, DictionariesAreNotPacked) {
  const auto code = [](std::optional<Packing> packing) {
    return decode_packed([&](Catalogue& all) {
             all.schema.children[3].dictionary[0].format = "i";
             all.dictionaries[0].chunk = {3 * kPartBytes, {3}, {0}, {0, 512}, {}, packing};
           })
        .status()
        .code();
  };
  EXPECT_EQ(code(std::nullopt), Code::kOk);
  EXPECT_EQ(code(Packing{1, 0}), Code::kProtocol);
  EXPECT_EQ(code(Packing{0, 0}), Code::kProtocol);
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

/// The packed catalogue's color (of three values), `rows` of it with the last one's distance.
Status verify_packed(uint64_t rows, Packing packing, uint32_t last, bool last_is_null = false) {
  const Catalogue catalogue = decode_packed([](Catalogue&) {}).value();
  Chunk chunk = catalogue.groups[0].columns[3].chunk;
  chunk.lengths = {rows};
  chunk.nulls = {last_is_null ? 1u : 0u};
  chunk.packing = packing;
  chunk.buffers = {last_is_null ? (rows + 7) / 8 : 0, packed_bytes(rows, packing.bits)};
  std::vector<std::byte> data(chunk.bytes(), std::byte{0xFF});
  std::array<uint32_t, kPackRows> block{};
  for (uint64_t row = 0; packing.bits > 0 && row < rows; row += kPackRows) {
    if (row + kPackRows >= rows) {
      block.fill(3);  // behind the rows: nobody looks there
      for (uint64_t i = row; i < rows; ++i) block[i - row] = 0;
      block[rows - 1 - row] = last;
    }
    pack_block(block.data(), packing.bits,
               data.data() + align_up(chunk.buffers[0]) + packed_bytes(row, packing.bits));
  }
  if (last_is_null) data[(rows - 1) / 8] &= ~std::byte{static_cast<uint8_t>(1u << (rows - 1) % 8)};
  return verify_chunk(catalogue, catalogue.schema.children[3], chunk, data.data(), Depth::kAll);
}

TEST(TableVerify, PackedIndicesNameAValue) {
  for (const uint64_t rows : {1u, 10u, 1024u, 1025u, 5000u}) {
    EXPECT_TRUE(verify_packed(rows, {2, 0}, 2).is_ok()) << rows;
    EXPECT_EQ(verify_packed(rows, {2, 0}, 3).code(), Code::kProtocol) << rows;
    EXPECT_TRUE(verify_packed(rows, {2, 0}, 3, true).is_ok()) << rows;
    EXPECT_EQ(verify_packed(rows, {2, -1}, 1).code(), rows == 1 ? Code::kOk : Code::kProtocol) << rows;
    EXPECT_EQ(verify_packed(rows, {2, 1}, 2).code(), Code::kProtocol) << rows;
  }
}

TEST(TableVerify, ManyIndicesOfNoBitsAreOne) {
  constexpr uint64_t kRows = uint64_t{1} << 48;  // to look at each would take days
  EXPECT_TRUE(verify_packed(kRows, {0, 2}, 0).is_ok());
  EXPECT_EQ(verify_packed(kRows, {0, 3}, 0).code(), Code::kProtocol);
  EXPECT_EQ(verify_packed(kRows, {0, -1}, 0).code(), Code::kProtocol);
}

}  // namespace
