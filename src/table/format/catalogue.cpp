#include "table/format/catalogue.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <unordered_map>

#include "base/crc32c.h"
#include "catalogue.pb.h"

namespace ocm::table {
namespace {

constexpr char kMagic[8] = {'O', 'C', 'M', 'T', 'A', 'B', 'L', 'E'};
constexpr uint32_t kVersion = 2;                       // 2: packed integers
constexpr uint64_t kFieldRowsMax = uint64_t{1} << 48;  // of a field in a chunk
constexpr int kNodesMax = 4096;

/// As it stands in memory; the rest of the 64 bytes is zeros.
struct RawFooter {
  char magic[8];
  uint32_t version;
  uint32_t catalogue_crc;
  uint64_t catalogue_bytes;
  uint64_t table;
  uint32_t footer_crc;  // of what is before it
};
static_assert(offsetof(RawFooter, table) == 24 && offsetof(RawFooter, footer_crc) == 32);
static_assert(std::endian::native == std::endian::little, "a footer is as it stands in memory");

Status bad(const std::string& what) { return Status(Code::kProtocol, "the catalogue is malformed: " + what); }

// ---------------------------------------------------------------- out

void field_to(const Field& field, wire::Field& out) {
  out.set_format(field.format);
  out.set_name(field.name);
  out.set_metadata(field.metadata);
  out.set_flags(field.flags);
  for (const Field& child : field.children) field_to(child, *out.add_children());
  if (field.has_dictionary()) field_to(field.values(), *out.mutable_dictionary());
}

void chunk_to(const Chunk& chunk, wire::Chunk& out) {
  out.set_offset(chunk.offset);
  out.mutable_lengths()->Add(chunk.lengths.begin(), chunk.lengths.end());
  out.mutable_nulls()->Add(chunk.nulls.begin(), chunk.nulls.end());
  out.mutable_buffers()->Add(chunk.buffers.begin(), chunk.buffers.end());
  out.mutable_dictionaries()->Add(chunk.dictionaries.begin(), chunk.dictionaries.end());
  if (!chunk.packing) return;
  out.mutable_packing()->set_bits(chunk.packing->bits);
  out.mutable_packing()->set_base(chunk.packing->base);
}

void column_to(const Column& column, wire::Column& out) {
  chunk_to(column.chunk, *out.mutable_chunk());
  out.set_bounds(column.bounds.kind);
  if (column.bounds.kind == OCM_BOUND_INT) {
    out.set_minimum_integer(column.bounds.minimum.integer);
    out.set_maximum_integer(column.bounds.maximum.integer);
  } else if (column.bounds.kind == OCM_BOUND_DOUBLE) {
    out.set_minimum_real(column.bounds.minimum.real);
    out.set_maximum_real(column.bounds.maximum.real);
  }
}

// ---------------------------------------------------------------- in
// What two bytes can say takes a hundred in memory, so messages are counted before they are parsed, and each group and
// dictionary is checked before the next.

using Bytes = std::span<const std::byte>;

/// Calls visit(number, whole, content) for each field of a message; of one without a length the content is empty.
/// False: it is no message, or visit() said so.
template <class Visit>
bool for_each_field(Bytes bytes, Visit visit) {
  using Lite = google::protobuf::internal::WireFormatLite;
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()),
                                            static_cast<int>(bytes.size()));
  const auto at = [&in] { return static_cast<size_t>(in.CurrentPosition()); };
  while (at() < bytes.size()) {
    const size_t begin = at();
    const uint32_t tag = in.ReadTag();
    if (tag == 0) return false;
    uint32_t length = 0;
    if (Lite::GetTagWireType(tag) == Lite::WIRETYPE_LENGTH_DELIMITED) {
      if (!in.ReadVarint32(&length) || length > bytes.size() - at() || !in.Skip(static_cast<int>(length)))
        return false;
    } else if (!Lite::SkipField(&in, tag)) {
      return false;
    }
    OCM_DASSERT(begin < at() && at() <= bytes.size());
    const Bytes whole = bytes.subspan(begin, at() - begin);
    if (!visit(Lite::GetTagFieldNumber(tag), whole, whole.last(length))) return false;
  }
  return true;
}

template <class Message>
bool parse(Bytes bytes, Message& out) {
  return out.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

/// Whether a wire::Field has at most `left` fields within, which are taken from it.
bool has_fields_at_most(Bytes field, uint32_t& left, uint32_t depth) {
  return for_each_field(field, [&](int number, Bytes, Bytes content) {
    if (number != wire::Field::kChildrenFieldNumber && number != wire::Field::kDictionaryFieldNumber)
      return true;
    if (left == 0 || depth >= kDepthMax) return false;
    --left;
    return has_fields_at_most(content, left, depth + 1);
  });
}

/// The catalogue without its groups and dictionaries.
Status head_from(Bytes bytes, uint64_t segment_bytes, wire::Catalogue& out) {
  std::string head;
  uint32_t fields_left = kFieldsMax;
  uint64_t parts_left = segment_bytes / kAlignment, nodes = 0;
  const bool is_whole = for_each_field(bytes, [&](int number, Bytes whole, Bytes content) {
    if (number == wire::Catalogue::kGroupsFieldNumber || number == wire::Catalogue::kDictionariesFieldNumber)
      return true;
    if (number == wire::Catalogue::kNodesFieldNumber && ++nodes > kNodesMax) return false;
    if (number == wire::Catalogue::kPartsFieldNumber) {
      const uint64_t parts = std::max<uint64_t>(content.size(), 1);  // at most
      if (parts > parts_left) return false;
      parts_left -= parts;
    }
    head.append(reinterpret_cast<const char*>(whole.data()), whole.size());
    return number != wire::Catalogue::kSchemaFieldNumber || has_fields_at_most(content, fields_left, 0);
  });
  if (!is_whole) return bad("it cannot be parsed, or has more nodes, parts or fields than a table can have");
  return parse(std::as_bytes(std::span(head)), out) ? Status() : bad("it cannot be parsed");
}

Status field_from(const wire::Field& in, Field& field, uint32_t depth) {
  if (depth > kDepthMax) return bad("it is nested too deep");
  field.format = in.format();
  field.name = in.name();
  field.metadata = in.metadata();
  field.flags = in.flags();
  field.children.resize(static_cast<size_t>(in.children_size()));
  for (int i = 0; i < in.children_size(); ++i) {
    OCM_TRY(field_from(in.children(i), field.children[static_cast<size_t>(i)], depth + 1));
  }
  if (in.has_dictionary()) OCM_TRY(field_from(in.dictionary(), field.dictionary.emplace_back(), depth + 1));
  return {};
}

Chunk chunk_from(const wire::Chunk& in) {
  Chunk chunk;
  chunk.offset = in.offset();
  chunk.lengths.assign(in.lengths().begin(), in.lengths().end());
  chunk.nulls.assign(in.nulls().begin(), in.nulls().end());
  chunk.buffers.assign(in.buffers().begin(), in.buffers().end());
  chunk.dictionaries.assign(in.dictionaries().begin(), in.dictionaries().end());
  if (in.has_packing()) chunk.packing = {in.packing().bits(), in.packing().base()};
  return chunk;
}

Status bounds_from(const wire::Column& in, Bounds& bounds) {
  static_assert(OCM_BOUND_NONE == 0 && OCM_BOUND_INT == 1 && OCM_BOUND_DOUBLE == 2);
  if (in.bounds() > OCM_BOUND_DOUBLE) return bad("an unknown kind of bounds");
  bounds.kind = static_cast<ocm_bound_kind>(in.bounds());
  if (bounds.kind == OCM_BOUND_INT) {
    bounds.minimum.integer = in.minimum_integer();
    bounds.maximum.integer = in.maximum_integer();
  } else if (bounds.kind == OCM_BOUND_DOUBLE) {
    bounds.minimum.real = in.minimum_real();
    bounds.maximum.real = in.maximum_real();
  }
  return {};
}

/// Checks C1 to C5.
class Checker {
 public:
  explicit Checker(const Catalogue& catalogue) : catalogue_(catalogue) {
    uint32_t next = 0;
    const auto number = [this](const Field& field, uint32_t n) {
      numbers_.emplace(&field, n);
      fields_.push_back(&field);
    };
    number_fields(catalogue.schema, next, number);
    uint64_t end = 0;
    for (const uint64_t bytes : catalogue.parts) ends_.push_back(end += bytes);
    OCM_DASSERT(numbers_.size() == next && std::is_sorted(ends_.begin(), ends_.end()));
  }

  Status check() {
    for (size_t i = 0; i < catalogue_.dictionaries.size(); ++i)
      OCM_TRY(check_dictionary(catalogue_.dictionaries[i], i));
    for (const Group& group : catalogue_.groups) OCM_TRY(check_group(group));
    return {};
  }

  /// Each once, and before the groups.
  Status check_dictionary(const Dictionary& dictionary, size_t place) const {
    if (dictionary.field >= fields_.size() || !fields_[dictionary.field]->has_dictionary())
      return bad("a dictionary of no field");
    if (dictionary.chunk.packing) return bad("a packed dictionary");
    return check_chunk(dictionary.chunk, fields_[dictionary.field]->values(), place);
  }

  /// Each once.
  Status check_group(const Group& group) {
    if (group.rows == 0 || group.rows > kFieldRowsMax) return bad("a row group's rows");
    rows_ += group.rows;
    if (rows_ > INT64_MAX) return bad("a row group's rows");
    if (group.columns.size() != catalogue_.schema.children.size()) return bad("a row group's columns");
    for (size_t c = 0; c < group.columns.size(); ++c) {
      const Chunk& chunk = group.columns[c].chunk;
      if (chunk.lengths.empty() || chunk.lengths[0] != group.rows) return bad("a column's rows");
      OCM_TRY(check_chunk(chunk, catalogue_.schema.children[c], catalogue_.dictionaries.size()));
    }
    return {};
  }

  /// More bytes than a message of so many columns can have in the catalogue.
  uint64_t bytes_max(uint64_t columns) const {
    constexpr uint64_t kPerColumn = 128, kPerField = 64;  // offset, packing, bounds; ten bytes a number
    return kPerColumn * (columns + 1) + kPerField * fields_.size();
  }

 private:
  /// Where the walk over a chunk is.
  struct Cursor {
    const Chunk& chunk;
    size_t dictionaries_before;
    size_t field = 0, buffer = 0, dictionary = 0;
  };

  Status check_chunk(const Chunk& chunk, const Field& field, size_t dictionaries_before) const {
    Cursor cursor{chunk, dictionaries_before};
    OCM_TRY(check_field(field, cursor));
    if (cursor.field != chunk.lengths.size() || chunk.lengths.size() != chunk.nulls.size() ||
        cursor.buffer != chunk.buffers.size() || cursor.dictionary != chunk.dictionaries.size()) {
      return bad("a chunk has more than its fields");
    }
    return check_place(chunk);
  }

  Status check_place(const Chunk& chunk) const {
    uint64_t bytes = 0;
    for (const uint64_t one : chunk.buffers) {
      if (one > kCapacityMax) return bad("a buffer's length");
      bytes += align_up(one);
      if (bytes > kCapacityMax) return bad("a buffer's length");
    }
    if (bytes == 0) return {};
    if (chunk.offset % kAlignment != 0) return bad("a chunk is not aligned");
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), chunk.offset);
    if (end == ends_.end() || bytes > *end - chunk.offset) return bad("a chunk leaves its part");
    return {};
  }

  Status check_field(const Field& field, Cursor& at) const {
    OCM_DASSERT(at.buffer <= at.chunk.buffers.size());
    const size_t index = at.field++;
    const uint32_t buffers = field.type.buffers();
    if (index >= at.chunk.lengths.size() || index >= at.chunk.nulls.size() ||
        at.chunk.buffers.size() - at.buffer < buffers) {
      return bad("a chunk has less than its fields");
    }
    const uint64_t length = at.chunk.lengths[index], nulls = at.chunk.nulls[index];
    const uint64_t* bytes = at.chunk.buffers.data() + at.buffer;
    at.buffer += buffers;
    if (length > kFieldRowsMax || nulls > length) return bad("a field's length");
    OCM_TRY(check_buffers(field.type, at.chunk.packing_of(index), length, nulls, bytes));
    if (field.has_dictionary()) OCM_TRY(check_dictionary_of(field, at));
    for (const Field& child : field.children) {
      const size_t child_index = at.field;
      OCM_TRY(check_field(child, at));
      OCM_TRY(check_child(field.type, length, at.chunk.lengths[child_index]));
    }
    return {};
  }

  static Status check_buffers(const Type& type, const Packing* packing, uint64_t length, uint64_t nulls,
                              const uint64_t* bytes) {
    const Status too_short = bad("a buffer is shorter than its rows");
    if (type.form == Form::kView) return bad("a view");
    if (packing != nullptr && (!can_pack(type) || packing->bits > packed_bits_max(type)))
      return bad("packed values of another type");
    if (type.form == Form::kNull) return {};
    if (nulls > 0 && bytes[0] < (length + 7) / 8) return too_short;
    if (length == 0) return {};
    if (type.form == Form::kBool && bytes[1] < (length + 7) / 8) return too_short;
    if (packing != nullptr) return bytes[1] < packed_bytes(length, packing->bits) ? too_short : Status();
    if (type.form == Form::kFixed && type.width_bytes > 0 && bytes[1] / type.width_bytes < length)
      return too_short;
    if (type.has_offsets() && bytes[1] / type.offset_bytes() < length + 1) return too_short;
    return {};
  }

  static Status check_child(const Type& type, uint64_t length, uint64_t child_length) {
    if (type.form == Form::kStruct && child_length != length)
      return bad("a struct's child is not of its length");
    if (type.form == Form::kFixedList && type.list_length > 0 &&
        (length > kFieldRowsMax / type.list_length || child_length < length * type.list_length)) {
      return bad("a list's child is too short");
    }
    return {};
  }

  Status check_dictionary_of(const Field& field, Cursor& at) const {
    if (at.dictionary >= at.chunk.dictionaries.size()) return bad("a dictionary is missing");
    const uint32_t number = at.chunk.dictionaries[at.dictionary++];
    if (number >= at.dictionaries_before || catalogue_.dictionaries[number].field != numbers_.at(&field))
      return bad("a dictionary of another field");
    return {};
  }

  static constexpr uint64_t kCapacityMax = uint64_t{1} << 60;
  const Catalogue& catalogue_;
  std::unordered_map<const Field*, uint32_t> numbers_;
  std::vector<const Field*> fields_;  // by number
  uint64_t rows_ = 0;
  std::vector<uint64_t> ends_;  // of the data parts
};

Status read_parts(const wire::Catalogue& in, uint64_t catalogue_bytes, uint64_t segment_bytes,
                  std::vector<uint64_t>& parts) {
  OCM_DASSERT(last_part_bytes(catalogue_bytes) <= segment_bytes);
  uint64_t left = segment_bytes - last_part_bytes(catalogue_bytes);
  for (const uint64_t bytes : in.parts()) {
    if (bytes == 0 || bytes % kAlignment != 0 || bytes > left)
      return bad("its parts are longer than the segment");
    left -= bytes;
    parts.push_back(bytes);
  }
  return left == 0 ? Status() : bad("its parts are shorter than the segment");
}

Status dictionaries_from(Bytes bytes, Checker& checker, std::vector<Dictionary>& out) {
  Status status;
  for_each_field(bytes, [&](int number, Bytes, Bytes content) {
    if (number != wire::Catalogue::kDictionariesFieldNumber) return true;
    wire::Dictionary in;
    if (content.size() > checker.bytes_max(1) || !parse(content, in)) status = bad("a dictionary");
    if (!status.is_ok()) return false;
    out.push_back({in.field(), chunk_from(in.chunk())});
    status = checker.check_dictionary(out.back(), out.size() - 1);
    return status.is_ok();
  });
  return status;
}

Status group_from(Bytes bytes, const Checker& checker, size_t columns, Group& out) {
  size_t found = 0;
  const bool is_whole = for_each_field(bytes, [&](int number, Bytes, Bytes) {
    return number != wire::Group::kColumnsFieldNumber || ++found <= columns;
  });
  wire::Group in;
  if (!is_whole || found != columns) return bad("a row group's columns");
  if (bytes.size() > checker.bytes_max(columns) || !parse(bytes, in)) return bad("a row group");
  out.rows = in.rows();
  out.columns.reserve(columns);
  for (const wire::Column& column : in.columns()) {
    Column& to = out.columns.emplace_back();
    to.chunk = chunk_from(column.chunk());
    OCM_TRY(bounds_from(column, to.bounds));
  }
  return {};
}

Status groups_from(Bytes bytes, Checker& checker, size_t columns, std::vector<Group>& out) {
  Status status;
  for_each_field(bytes, [&](int number, Bytes, Bytes content) {
    if (number != wire::Catalogue::kGroupsFieldNumber) return true;
    status = group_from(content, checker, columns, out.emplace_back());
    if (status.is_ok()) status = checker.check_group(out.back());
    return status.is_ok();
  });
  return status;
}

}  // namespace

uint64_t last_part_bytes(uint64_t catalogue_bytes) { return align_up(catalogue_bytes) + kFooterBytes; }

bool is_valid(const Catalogue& catalogue) { return Checker(catalogue).check().is_ok(); }

Result<std::string> encode_catalogue(const Catalogue& catalogue) {
  wire::Catalogue out;
  out.set_table(catalogue.table);
  out.set_placement(catalogue.placement);
  out.set_replicas(catalogue.replicas);
  out.set_packed(catalogue.packed);
  out.set_durable(catalogue.durable);
  out.set_kind(static_cast<uint32_t>(catalogue.kind));
  for (const std::string& node : catalogue.nodes) out.add_nodes(node);
  field_to(catalogue.schema, *out.mutable_schema());
  out.mutable_parts()->Add(catalogue.parts.begin(), catalogue.parts.end());
  for (const Group& group : catalogue.groups) {
    wire::Group& to = *out.add_groups();
    to.set_rows(group.rows);
    for (const Column& column : group.columns) column_to(column, *to.add_columns());
  }
  for (const Dictionary& dictionary : catalogue.dictionaries) {
    wire::Dictionary& to = *out.add_dictionaries();
    to.set_field(dictionary.field);
    chunk_to(dictionary.chunk, *to.mutable_chunk());
  }
  if (out.ByteSizeLong() > kCatalogueBytesMax) {
    return Status(Code::kTooLarge, "the catalogue would have more than 256 MiB: use larger row groups");
  }
  std::string bytes;
  if (!out.SerializeToString(&bytes)) return Status(Code::kInternal, "the catalogue cannot be written");
  RawFooter footer{};
  std::memcpy(footer.magic, kMagic, sizeof(kMagic));
  footer.version = kVersion;
  footer.catalogue_crc = crc32c(0, bytes.data(), bytes.size());
  footer.catalogue_bytes = bytes.size();
  footer.table = catalogue.table;
  footer.footer_crc = crc32c(0, &footer, offsetof(RawFooter, footer_crc));
  bytes.resize(last_part_bytes(bytes.size()), '\0');
  OCM_DASSERT(bytes.size() % kAlignment == 0);
  std::memcpy(bytes.data() + bytes.size() - kFooterBytes, &footer, sizeof(footer));
  return bytes;
}

bool is_footer(std::span<const std::byte> bytes) {
  return bytes.size() == kFooterBytes && std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) == 0;
}

Result<Footer> decode_footer(std::span<const std::byte> bytes, uint64_t segment_bytes) {
  RawFooter raw;
  static_assert(sizeof(raw) <= kFooterBytes);
  if (bytes.size() != kFooterBytes || segment_bytes < kFooterBytes) return bad("it is too short");
  std::memcpy(&raw, bytes.data(), sizeof(raw));
  if (!is_footer(bytes))
    return Status(Code::kProtocol, "it is not a table, but another published allocation");
  if (raw.version != kVersion) return Status(Code::kProtocol, "it was written by another version of Oncilla");
  if (raw.footer_crc != crc32c(0, &raw, offsetof(RawFooter, footer_crc))) return bad("the footer's checksum");
  if (raw.catalogue_bytes > kCatalogueBytesMax || last_part_bytes(raw.catalogue_bytes) > segment_bytes)
    return bad("it is longer than the segment");
  return Footer{raw.catalogue_bytes, raw.catalogue_crc, raw.table};
}

Result<Catalogue> decode_catalogue(std::span<const std::byte> bytes, const Footer& footer,
                                   uint64_t segment_bytes) {
  if (bytes.size() != footer.catalogue_bytes || last_part_bytes(bytes.size()) > segment_bytes)
    return bad("it is too short");
  if (crc32c(0, bytes.data(), bytes.size()) != footer.crc)
    return Status(Code::kBadChecksum, "the catalogue's checksum does not match its bytes");
  wire::Catalogue in;
  OCM_TRY(head_from(bytes, segment_bytes, in));
  Catalogue catalogue;
  catalogue.table = in.table();
  if (catalogue.table != footer.table) return bad("its table is not the footer's");
  if (in.placement() > OCM_TABLE_WHOLE || in.replicas() == 0) return bad("its placement");
  static_assert(OCM_TABLE_WHOLE < OCM_TABLE_BY_DEFAULT, "no table is stored by default");
  catalogue.placement = static_cast<ocm_table_placement>(in.placement());
  catalogue.replicas = in.replicas();
  catalogue.packed = in.packed();
  catalogue.durable = in.durable();
  if (!is_kind(in.kind())) return bad("its kind");
  catalogue.kind = static_cast<Kind>(in.kind());
  catalogue.nodes.assign(in.nodes().begin(), in.nodes().end());
  OCM_TRY(field_from(in.schema(), catalogue.schema, 0));
  if (catalogue.schema.format != "+s" || catalogue.schema.has_dictionary())
    return bad("its schema is not a struct");
  OCM_TRY(check_schema(catalogue.schema));
  OCM_TRY(read_parts(in, footer.catalogue_bytes, segment_bytes, catalogue.parts));
  Checker checker(catalogue);
  OCM_TRY(dictionaries_from(bytes, checker, catalogue.dictionaries));
  OCM_TRY(groups_from(bytes, checker, catalogue.schema.children.size(), catalogue.groups));
  return catalogue;
}

}  // namespace ocm::table
