#include "table/loader.h"

#include <algorithm>
#include <cstring>

#include "base/limits.h"
#include "base/units.h"
#include "table/format/encode.h"
#include "table/parallel.h"

namespace ocm::table {
namespace {

// Strings become indices of 8 bits up to so many values, of 16 bits where that saves much.
constexpr uint64_t kSmallIndexMax = 127;
constexpr uint64_t kWideIndexMax = 32'767;
constexpr uint64_t kRowsPerSmallValue = 4;
constexpr uint64_t kRowsPerWideValue = 32;
/// An appended group is cut short down to here when its strings outnumber the index.
constexpr uint64_t kCutRowsMin = 1024;

uint64_t estimate(const std::vector<Part>& parts) {
  uint64_t bytes = 0;
  for (const Part& part : parts) {
    for (const Piece& piece : part.pieces) bytes += estimate_bytes(*part.given, piece);
  }
  return bytes;
}

bool same_image(const Image& a, const Image& b) {
  return a.chunk.lengths == b.chunk.lengths && a.chunk.nulls == b.chunk.nulls &&
         a.chunk.buffers == b.chunk.buffers && a.chunk.dictionaries == b.chunk.dictionaries &&
         a.bytes == b.bytes;
}

void set_format(Field& field, const char* format) {
  field.format = format;
  field.type = parse_type(format).value();
}

Field text_values() {
  Field values;
  set_format(values, "u");
  return values;
}

}  // namespace

/// Numbers the dictionaries of one column of the group at hand.
class Loader::Book : public DictionaryBook {
 public:
  Book(Loader& loader, size_t column) : loader_(loader), column_(column) {}
  uint32_t enter(const Field& field, std::shared_ptr<const Image> image) override {
    std::lock_guard lock(loader_.dictionaries_mutex_);
    const auto last = loader_.last_.find(&field);
    if (last != loader_.last_.end() && same_image(*last->second.second, *image)) return last->second.first;
    loader_.new_dictionaries_.push_back({&field, std::move(image), column_});
    return static_cast<uint32_t>(loader_.catalogue_.dictionaries.size() + loader_.new_dictionaries_.size() -
                                 1);
  }

 private:
  Loader& loader_;
  size_t column_;
};

Loader::~Loader() { (void)wait_puts(); }

Status Loader::load(const Field& given, const Field* stored, uint64_t table) {
  given_ = given;
  fixed_ = stored != nullptr;
  if (fixed_) OCM_TRY(check_match(given, *stored));
  catalogue_.table = table;
  catalogue_.placement = options_.placement;
  catalogue_.replicas = placer_.replicas();
  catalogue_.kind = static_cast<Kind>(placer_.kind());
  catalogue_.packed = options_.pack;
  catalogue_.durable = placer_.durable();
  catalogue_.nodes = options_.nodes;
  catalogue_.schema = fixed_ ? *stored : stored_form(given, options_.compact);
  bool first = true;
  while (true) {
    OCM_TRY(source_.fill(given_, options_.group_rows, options_.group_bytes));
    if (source_.rows() == 0) return wait_puts();
    const uint64_t rows = source_.group_rows(options_.group_rows, options_.group_bytes);
    if (std::exchange(first, false)) {
      if (options_.compact && !fixed_) choose_dictionaries(rows);
      uint32_t next = 0;
      const auto number = [&](const Field& field, uint32_t n) { numbers_.emplace(&field, n); };
      number_fields(catalogue_.schema, next, number);
    }
    OCM_TRY(store_group(rows));
  }
}

std::vector<Part> Loader::make_parts(uint64_t rows) const {
  OCM_DASSERT(given_.children.size() == catalogue_.schema.children.size() && rows > 0);
  std::vector<Part> parts(given_.children.size());
  for (size_t c = 0; c < parts.size(); ++c) {
    parts[c].given = &given_.children[c];
    parts[c].stored = &catalogue_.schema.children[c];
    parts[c].pack = options_.pack;
    parts[c].pieces = source_.pieces(c, rows);
  }
  return parts;
}

void Loader::narrow_index(const Part& part, Field& stored) {
  const uint32_t width_bytes = stored.type.width_bytes;
  const uint64_t count = count_distinct(part, kWideIndexMax);
  if (count <= kSmallIndexMax && width_bytes > sizeof(int8_t)) {
    set_format(stored, "c");
  } else if (count <= kWideIndexMax && width_bytes > sizeof(int16_t)) {
    set_format(stored, "s");
  }
}

void Loader::choose_dictionaries(uint64_t rows) {
  std::vector<Part> parts = make_parts(rows);
  in_parallel(parts.size(), estimate(parts), [&](size_t c) {
    const Field& given = given_.children[c];
    Field& stored = catalogue_.schema.children[c];
    if (is_extension(given)) return;
    if (given.has_dictionary()) return narrow_index(parts[c], stored);
    if (!given.type.text) return;
    const uint64_t wide_max = std::min(kWideIndexMax, rows / kRowsPerWideValue);
    const uint64_t limit = std::max(wide_max, std::min(kSmallIndexMax, rows / kRowsPerSmallValue));
    const uint64_t count = count_distinct(parts[c], limit);
    if (count > limit) return;
    set_format(stored, count <= kSmallIndexMax ? "c" : "s");
    stored.dictionary.push_back(text_values());
  });
}

// ---------------------------------------------------------------- one group

Status Loader::store_group(uint64_t rows) {
  std::vector<Part> parts;
  while (true) {
    parts = make_parts(rows);
    Cut cut;
    size_t column = 0;
    const Status status = gather_rows(parts, rows, cut, column);
    if (status.is_ok()) break;
    const Status explained = about_column(given_.children[column].name, status);
    if (!cut.needed) return explained;
    if (cut.index_full && !fixed_) {
      OCM_TRY(widen(column));
      continue;
    }
    if (cut.index_full && cut.rows < (parts[column].indexes_strings() ? kCutRowsMin : 1)) {
      return explained.with_code(Code::kTooLarge)
          .with_message(
              std::string(explained.message()) +
              ": create the table again with a wider index, without OCM_TABLE_COMPACT if that was given");
    }
    if (rows == 1) return explained;
    rows = cut.rows > 0 && cut.rows < rows ? cut.rows : rows / 2;
  }
  Group group;
  group.rows = rows;
  std::vector<Bucket> buckets = make_buckets(parts, group);
  OCM_TRY(place(buckets));
  OCM_TRY(encode_group(parts, buckets, group));
  start_puts(buckets);
  commit(buckets, std::move(group));
  source_.drop(rows);
  if (options_.progress != nullptr && !options_.progress(rows_, bytes_, options_.context))
    return Status(Code::kCancelled, "the load was stopped by its caller; nothing was kept");
  return {};
}

Status Loader::gather_rows(std::vector<Part>& parts, uint64_t rows, Cut& cut, size_t& cut_column) {
  new_dictionaries_.clear();
  std::vector<Status> statuses(parts.size());
  std::vector<Cut> cuts(parts.size());
  in_parallel(parts.size(), estimate(parts), [&](size_t c) {
    Book book(*this, c);
    statuses[c] = gather(parts[c], book, cuts[c]);
  });
  // What is malformed first; then an index to widen; then the fewest rows.
  const auto rank = [&](size_t c) {
    if (!cuts[c].needed) return uint64_t{0};
    if (cuts[c].index_full && !fixed_) return uint64_t{1};
    return 2 + (cuts[c].rows > 0 ? cuts[c].rows : rows / 2);
  };
  const Status* worst = nullptr;
  for (size_t c = 0; c < parts.size(); ++c) {
    if (statuses[c].is_ok() || (worst != nullptr && rank(c) >= rank(cut_column))) continue;
    worst = &statuses[c];
    cut = cuts[c];
    cut_column = c;
  }
  [[maybe_unused]] const auto is_whole = [rows](const Part& part) { return part.length == rows; };
  OCM_DASSERT(worst != nullptr || std::all_of(parts.begin(), parts.end(), is_whole));
  return worst != nullptr ? *worst : Status();
}

std::vector<Loader::Bucket> Loader::make_buckets(const std::vector<Part>& parts, Group& group) {
  const size_t count =
      options_.placement == OCM_TABLE_BY_COLUMN ? std::min(placer_.nodes(), parts.size()) : 1;
  std::vector<Bucket> buckets(count);
  group.columns.resize(parts.size());
  for (size_t c = 0; c < parts.size(); ++c) {
    Bucket& bucket = buckets[c % count];
    bucket.columns.push_back(c);
    Chunk& chunk = group.columns[c].chunk;
    chunk = chunk_of(parts[c]);
    chunk.offset = bucket.bytes;
    OCM_DASSERT(chunk.offset % kAlignment == 0);  // C1
    bucket.bytes += chunk.bytes();
    for (NewDictionary& dictionary : new_dictionaries_) {
      if (dictionary.column != c) continue;
      dictionary.bucket = c % count;
      dictionary.offset = bucket.bytes;
      bucket.bytes += dictionary.image->chunk.bytes();
    }
  }
  return buckets;
}

Status Loader::place(std::vector<Bucket>& buckets) {
  uint64_t staged_bytes = 0;
  for (size_t b = 0; b < buckets.size(); ++b) {
    Bucket& bucket = buckets[b];
    if (bucket.bytes == 0) continue;
    if ((parts_.size() + buckets.size() + 1) * placer_.replicas() > kSequenceExtentsMax)
      return Status(Code::kTooLarge, "it needs more than 8,192 extents: use larger row groups");
    const uint64_t turn = options_.placement == OCM_TABLE_BY_COLUMN ? b
                          : options_.placement == OCM_TABLE_WHOLE   ? 0
                                                                    : catalogue_.groups.size();
    Result<Allocation> made = placer_.allocate(bucket.bytes, turn);
    if (!made.is_ok()) return no_room(made.status(), bucket.bytes);
    bucket.allocation = std::move(*made);
    const Result<void*> pointer = plain_pointer(bucket.allocation.get(), 0, bucket.bytes);
    bucket.target = pointer.is_ok() ? static_cast<std::byte*>(pointer.value()) : nullptr;
    bucket.staged = bucket.target == nullptr;
    if (bucket.staged) staged_bytes += bucket.bytes;
  }
  if (staged_bytes == 0) return {};
  staging_next_ ^= 1;
  Staging& staging = staging_[staging_next_];
  OCM_TRY(wait_puts(staging));
  OCM_DASSERT(staging.puts.empty());  // L3
  if (staging.bytes.size() < staged_bytes) staging.bytes.resize(staged_bytes);
  std::byte* next = staging.bytes.data();
  for (Bucket& bucket : buckets) {
    if (!bucket.staged) continue;
    bucket.target = next;
    next += bucket.bytes;
  }
  OCM_DASSERT(next == staging.bytes.data() + staged_bytes);
  return {};
}

Status Loader::encode_group(const std::vector<Part>& parts, std::vector<Bucket>& buckets, Group& group) {
  std::vector<Status> statuses(parts.size());
  uint64_t bytes = 0;
  for (const Bucket& bucket : buckets) {
    OCM_DASSERT(bucket.target != nullptr || bucket.bytes == 0);
    bytes += bucket.bytes;
  }
  in_parallel(parts.size(), bytes, [&](size_t c) {
    Column& column = group.columns[c];
    statuses[c] = encode(parts[c], buckets[c % buckets.size()].target + column.chunk.offset, &column.bounds);
  });
  for (size_t c = 0; c < parts.size(); ++c) {
    OCM_TRY(about_column(given_.children[c].name, statuses[c]));
  }
  for (const NewDictionary& dictionary : new_dictionaries_) {
    const std::vector<std::byte>& image = dictionary.image->bytes;
    OCM_DASSERT(dictionary.offset + image.size() <= buckets[dictionary.bucket].bytes);
    if (!image.empty())
      std::memcpy(buckets[dictionary.bucket].target + dictionary.offset, image.data(), image.size());
  }
  return {};
}

void Loader::start_puts(std::vector<Bucket>& buckets) {
  Staging& staging = staging_[staging_next_];
  for (const Bucket& bucket : buckets) {
    if (!bucket.staged || !staging.started.is_ok()) continue;
    ocm_op* op = nullptr;
    staging.started = status_of(ocm_put_start(bucket.allocation.get(), 0, bucket.target, bucket.bytes, &op));
    if (staging.started.is_ok()) staging.puts.push_back(op);
  }
}

Status Loader::wait_puts(Staging& staging) {
  Status first = std::exchange(staging.started, Status());
  for (ocm_op* op : std::exchange(staging.puts, {})) {
    const Status status = status_of(ocm_op_wait(op, OCM_WAIT_REMOTE | OCM_WAIT_FREE, 0));
    if (first.is_ok()) first = status;
  }
  return first;
}

Status Loader::wait_puts() {
  Status first;
  for (Staging& staging : staging_) {
    const Status status = wait_puts(staging);
    if (first.is_ok()) first = status;
  }
  return first;
}

void Loader::commit(std::vector<Bucket>& buckets, Group group) {
  std::vector<uint64_t> starts;
  for (Bucket& bucket : buckets) {
    starts.push_back(bytes_);
    if (bucket.bytes == 0) continue;
    catalogue_.parts.push_back(bucket.bytes);
    parts_.push_back(std::move(bucket.allocation));
    bytes_ += bucket.bytes;
  }
  OCM_DASSERT(parts_.size() == catalogue_.parts.size());  // L2
  for (size_t c = 0; c < group.columns.size(); ++c)
    group.columns[c].chunk.offset += starts[c % starts.size()];
  for (const NewDictionary& dictionary : new_dictionaries_) {
    Chunk chunk = dictionary.image->chunk;
    chunk.offset = starts[dictionary.bucket] + dictionary.offset;
    last_[dictionary.field] = {static_cast<uint32_t>(catalogue_.dictionaries.size()), dictionary.image};
    catalogue_.dictionaries.push_back({numbers_.at(dictionary.field), std::move(chunk)});
  }
  rows_ += group.rows;
  catalogue_.groups.push_back(std::move(group));
}

Status Loader::no_room(const Status& status, uint64_t bytes) const {
  if (status.code() != Code::kPoolFull) return status;
  return Status(Code::kPoolFull, format_bytes(bytes_) + " in " + std::to_string(catalogue_.groups.size()) +
                                     " row groups were stored, the next one needs " + format_bytes(bytes) +
                                     " on one node, and " + placer_.room() +
                                     "; nothing was kept. Drop tables, raise the budgets or add nodes");
}

// ---------------------------------------------------------------- indices that became too narrow

Status Loader::read_back(const Chunk& chunk, std::vector<std::byte>& out) const {
  uint64_t start = 0;
  size_t part = 0;
  while (chunk.offset >= start + catalogue_.parts[part]) start += catalogue_.parts[part++];
  OCM_DASSERT(chunk.offset + chunk.bytes() <= start + catalogue_.parts[part]);  // C1
  out.resize(chunk.bytes());
  return status_of(ocm_get(parts_[part].get(), chunk.offset - start, out.data(), out.size()));
}

Status Loader::write_part(const void* bytes, uint64_t length, Result<Allocation> made) {
  if (!made.is_ok()) return no_room(made.status(), length);
  OCM_TRY(status_of(ocm_put(made->get(), 0, bytes, length)));
  parts_.push_back(std::move(*made));
  return {};
}

/// The stored groups get the indices that were given, or of 32 bits, in extents of their own; the narrow ones
/// stay behind, unused: a byte or two for each row, in a table whose first group was not like the others.
Status Loader::widen(size_t column) {
  Field& field = catalogue_.schema.children[column];
  const Number narrow = field.type.number;
  OCM_ASSERT(narrow == Number::kInt8 || narrow == Number::kInt16);
  const Field& given = given_.children[column];
  const bool as_given = given.has_dictionary() && given.type.width_bytes <= sizeof(int32_t);
  set_format(field, as_given ? given.format.c_str() : "i");
  const Type& type = field.type;
  OCM_TRY(wait_puts());
  for (size_t g = 0; g < catalogue_.groups.size(); ++g) {
    Chunk& chunk = catalogue_.groups[g].columns[column].chunk;
    if (chunk.packing) continue;  // which is of any width
    std::vector<std::byte> old;
    OCM_TRY(read_back(chunk, old));
    const uint64_t validity = align_up(chunk.buffers[0]), rows = chunk.lengths[0];
    Chunk wide = chunk;
    wide.buffers[1] = rows * type.width_bytes;
    std::vector<std::byte> bytes(wide.bytes());
    std::memcpy(bytes.data(), old.data(), validity);
    const std::byte* in = old.data() + validity;
    std::byte* out = bytes.data() + validity;
    for (uint64_t row = 0; row < rows; ++row, out += type.width_bytes) {
      const int32_t index = narrow == Number::kInt8 ? reinterpret_cast<const int8_t*>(in)[row]
                                                    : reinterpret_cast<const int16_t*>(in)[row];
      std::memcpy(out, &index, type.width_bytes);  // little end first
    }
    OCM_TRY(write_part(bytes.data(), bytes.size(), placer_.allocate(bytes.size(), g)));
    wide.offset = bytes_;
    catalogue_.parts.push_back(bytes.size());
    bytes_ += bytes.size();
    chunk = std::move(wide);
  }
  OCM_DASSERT(is_valid());
  return {};
}

bool Loader::is_valid() const {
  uint64_t bytes = 0;
  for (const uint64_t one : catalogue_.parts) bytes += one;
  return parts_.size() == catalogue_.parts.size() && bytes == bytes_;
}

Result<Allocation> Loader::finish() {
  OCM_TRY(wait_puts());
  OCM_DASSERT(is_valid() && table::is_valid(catalogue_));
  OCM_TRY_ASSIGN(const std::string bytes, encode_catalogue(catalogue_));
  OCM_TRY(write_part(bytes.data(), bytes.size(),
                     placer_.allocate_on_or_near(options_.catalogue_on, bytes.size())));
  std::vector<ocm_allocation*> handles;
  for (const Allocation& part : parts_) handles.push_back(part.get());
  ocm_allocation* joined = nullptr;
  OCM_TRY(status_of(ocm_allocation_join(session_, handles.data(), handles.size(), &joined)));
  for (Allocation& part : parts_) (void)part.release();
  parts_.clear();
  return Allocation(joined);
}

}  // namespace ocm::table
