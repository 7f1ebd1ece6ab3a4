// table/format/catalogue: the catalogue and the footer of a segment that anyone may have published, and the
// bytes that it speaks of.
#include <array>

#include "base/assert.h"
#include "base/crc32c.h"
#include "fuzz.h"
#include "table/format/verify.h"

using namespace ocm;
using namespace ocm::table;

namespace {

constexpr uint64_t kTable = 7;
constexpr uint64_t kPartBytes = 4096;
constexpr size_t kParts = 2;

/// Bytes of the data parts: the input again and again.
std::vector<std::byte> parts_of(std::span<const std::byte> input) {
  std::vector<std::byte> data(kParts * kPartBytes);
  for (size_t i = 0; i < data.size() && !input.empty(); ++i) data[i] = input[i % input.size()];
  return data;
}

/// The last block, as a scan widens it.
void widen(const Field& field, const Chunk& chunk, const std::byte* data) {
  if (!chunk.packing || chunk.lengths[0] == 0) return;
  alignas(8) std::array<std::byte, kPackRows * sizeof(uint64_t)> block;
  const uint64_t before = (chunk.lengths[0] - 1) / kPackRows * kPackRows;
  const uint64_t at = align_up(chunk.buffers[0]) + packed_bytes(before, chunk.packing->bits);
  unpack_blocks(data + at, 1, *chunk.packing, field.type.width_bytes, block.data());
}

void verify(const Catalogue& catalogue, std::span<const std::byte> input) {
  const std::vector<std::byte> data = parts_of(input);
  const auto check = [&](const Field& field, const Chunk& chunk) {
    OCM_ASSERT(chunk.bytes() == 0 || chunk.offset + chunk.bytes() <= data.size());
    const std::byte* at = data.data() + (chunk.bytes() == 0 ? 0 : chunk.offset);
    (void)verify_chunk(catalogue, field, chunk, at, Depth::kAll);
    widen(field, chunk, at);
  };
  for (const Group& group : catalogue.groups) {
    for (size_t c = 0; c < group.columns.size(); ++c)
      check(catalogue.schema.children[c], group.columns[c].chunk);
  }
}

Field field_of(const std::string& format, std::vector<Field> children = {},
               std::vector<Field> dictionary = {}) {
  Field field;
  field.format = format;
  field.name = "f";
  field.children = std::move(children);
  field.dictionary = std::move(dictionary);
  return field;
}

Catalogue catalogue_of(Field column, Chunk chunk, std::vector<Dictionary> dictionaries = {}) {
  Catalogue catalogue;
  catalogue.table = kTable;
  catalogue.schema = field_of("+s", {std::move(column)});
  catalogue.parts.assign(kParts, kPartBytes);
  catalogue.groups.push_back({chunk.lengths[0], {{std::move(chunk), {}}}});
  catalogue.dictionaries = std::move(dictionaries);
  return catalogue;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = fuzz::bytes_of(data, size);
  if (size >= kFooterBytes) (void)decode_footer(bytes.first(kFooterBytes), kParts * kPartBytes);
  // As if the footer were good, so that the checksum does not stop everything.
  const Footer footer{size, crc32c(0, data, size), kTable};
  const uint64_t segment_bytes = kParts * kPartBytes + last_part_bytes(size);
  const Result<Catalogue> catalogue = decode_catalogue(bytes, footer, segment_bytes);
  if (!catalogue.is_ok()) return 0;
  verify(catalogue.value(), bytes);
  OCM_ASSERT(encode_catalogue(catalogue.value()).is_ok());
  return 0;
}

std::vector<std::string> fuzz::seeds() {
  std::vector<std::string> out;
  const auto add = [&](const Catalogue& catalogue) {
    std::string bytes = encode_catalogue(catalogue).value();
    out.push_back(bytes.substr(bytes.size() - kFooterBytes));
    const Footer footer =
        decode_footer(bytes_of(reinterpret_cast<const uint8_t*>(out.back().data()), kFooterBytes),
                      kParts * kPartBytes + bytes.size())
            .value();
    bytes.resize(footer.catalogue_bytes);
    out.push_back(bytes);
  };
  add(catalogue_of(field_of("l"), {0, {10}, {1}, {2, 80}, {}}));
  add(catalogue_of(field_of("u"), {kPartBytes, {3}, {0}, {0, 16, 30}, {}}));
  add(catalogue_of(field_of("+l", {field_of("+s", {field_of("b"), field_of("n")})}),
                   {64, {2, 5, 5, 5}, {0, 0, 0, 5}, {0, 12, 0, 0, 1}, {}}));
  add(catalogue_of(field_of("+w:3", {field_of("d:10,2,64")}), {0, {2, 6}, {0, 0}, {0, 0, 48}, {}}));
  add(catalogue_of(field_of("c", {}, {field_of("u")}), {0, {4}, {0}, {0, 4}, {0}},
                   {{0, {128, {2}, {0}, {0, 12, 5}, {}}}}));
  add(catalogue_of(field_of("l"), {64, {1030}, {1}, {129, 1280}, {}, Packing{5, -3}}));
  add(catalogue_of(field_of("tdD"), {0, {10}, {0}, {0, 0}, {}, Packing{0, 18'000}}));
  add(catalogue_of(field_of("s", {}, {field_of("u")}), {0, {4}, {0}, {0, 256}, {0}, Packing{2, 0}},
                   {{0, {512, {4}, {0}, {0, 20, 5}, {}}}}));
  out.emplace_back(kFooterBytes, '\0');
  out.emplace_back("OCMTABLE");
  return out;
}
