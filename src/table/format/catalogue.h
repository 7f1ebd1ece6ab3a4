// A segment's catalogue: the schema, and where every buffer of every column lies.
//
//   segment   part 0 | part 1 | ... | last part: catalogue, padding, footer (64 bytes)
//
// Bytes of a catalogue come from anyone who may publish a name, so they are checked as a stranger's.
//
// Invariants of a decoded one
//   C1 every chunk lies inside one data part, at a multiple of 64.
//   C2 every buffer is long enough for the rows of its field, and lengths of fields fit their parents'.
//   C3 every dictionary number is of a dictionary for that very field; a dictionary refers only to earlier ones.
//   C4 groups have at least one row; their rows together fit 63 bits.
//   C5 only columns are packed, dictionaries are not: what a scan widens is bounded by the rows of a batch.
// What C2 cannot know is in the bytes themselves: offsets and indices (see scan options).
#pragma once

#include <span>
#include <string>

#include "base/kinds.h"
#include "table/format/bounds.h"
#include "table/format/chunk.h"
#include "table/format/schema.h"

namespace ocm::table {

inline constexpr uint64_t kFooterBytes = 64;
inline constexpr uint64_t kCatalogueBytesMax = uint64_t{256} << 20;
static_assert(kCatalogueBytesMax <= INT32_MAX, "protobuf counts in int");
static_assert(kFooterBytes % kAlignment == 0, "what follows a footer is aligned");

struct Column {
  Chunk chunk;
  Bounds bounds;
};
struct Group {
  uint64_t rows = 0;
  std::vector<Column> columns;
};
/// The values of one field's dictionary, for any number of groups.
struct Dictionary {
  uint32_t field = 0;  // its number: see number_fields()
  Chunk chunk;
};
struct Catalogue {
  uint64_t table = 0;  // random; the same in every segment of a table
  ocm_table_placement placement = OCM_TABLE_BY_ROWS;
  uint32_t replicas = 1;
  bool packed = false;             // was asked for; chunks say what became of it
  Kind kind = kDefaultKind;        // of this segment
  bool durable = false;            // so are segments that are appended
  std::vector<std::string> nodes;  // where rows that are appended go too, in that order; empty: anywhere
  Field schema;
  std::vector<uint64_t> parts;  // bytes of each data part
  std::vector<Group> groups;
  std::vector<Dictionary> dictionaries;
};

/// What the last bytes of a segment say.
struct Footer {
  uint64_t catalogue_bytes = 0;
  uint32_t crc = 0;
  uint64_t table = 0;
};

/// The last part: catalogue, zeros, footer; a multiple of 64 bytes.
/// Errors: kTooLarge.
Result<std::string> encode_catalogue(const Catalogue& catalogue);

/// True if the last kFooterBytes of some bytes are a table's footer, of whatever version.
bool is_footer(std::span<const std::byte> bytes);
/// Errors: kProtocol.
Result<Footer> decode_footer(std::span<const std::byte> footer, uint64_t segment_bytes);
/// `bytes` are catalogue_bytes long; the catalogue's part begins where the data parts end.
/// Errors: kProtocol, kBadChecksum, kTooLarge and kUnsupported of the schema.
Result<Catalogue> decode_catalogue(std::span<const std::byte> bytes, const Footer& footer,
                                   uint64_t segment_bytes);
/// C1 to C5, of a catalogue whose schema was checked.
bool is_valid(const Catalogue& catalogue);
/// Bytes of the last part of a segment with a catalogue of this length.
uint64_t last_part_bytes(uint64_t catalogue_bytes);

/// Calls visit(field, number) for each field of the schema, the root aside, each before its children and
/// these before its dictionary's values. Numbers count from 0.
template <class Visit>
void number_fields(const Field& field, uint32_t& next, Visit& visit) {
  const auto one = [&](const Field& child) {
    visit(child, next++);
    number_fields(child, next, visit);
  };
  for (const Field& child : field.children) one(child);
  for (const Field& values : field.dictionary) one(values);
}

}  // namespace ocm::table
