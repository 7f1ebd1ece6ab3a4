// From a stream to a segment that is ready to be published: groups are gathered, placed and encoded one by
// one, and what goes to other nodes is put while the next group is encoded.
//
// Invariants
//   L1 nothing is published here; every allocation is freed when the loader goes, unless finish() gave it out.
//   L2 parts_ stand in the order in which they will be joined; offsets in the catalogue count from the first one.
//   L3 staging_[k] is written only when the puts that read it have ended.
#pragma once

#include <map>
#include <mutex>

#include "table/format/catalogue.h"
#include "table/placer.h"
#include "table/source.h"

namespace ocm::table {

struct LoadOptions {
  ocm_table_placement placement = OCM_TABLE_BY_ROWS;
  std::vector<std::string> nodes;         // for the catalogue
  std::vector<std::string> catalogue_on;  // these nodes, if they have room
  uint64_t group_rows = 524'288;
  uint64_t group_bytes = uint64_t{64} << 20;
  bool compact = false;
  bool pack = false;
  bool (*progress)(uint64_t rows, uint64_t bytes, void* context) = nullptr;
  void* context = nullptr;
};

class Loader {
 public:
  /// `source`, `placer` outlive it.
  Loader(ocm_session* session, Source& source, const Placer& placer, const LoadOptions& options)
      : session_(session), source_(source), placer_(placer), options_(options) {}
  ~Loader();

  /// Stores everything that the source has as `stored`; null: decided here, by `given` and the first group.
  /// Errors: those of ocm_table_create.
  Status load(const Field& given, const Field* stored, uint64_t table);
  /// Writes the catalogue and joins the parts.
  Result<Allocation> finish();

 private:
  struct NewDictionary {
    const Field* field;
    std::shared_ptr<const Image> image;
    size_t column;
    size_t bucket = 0;
    uint64_t offset = 0;  // in its bucket
  };
  class Book;
  /// What one extent of a group holds.
  struct Bucket {
    std::vector<size_t> columns;
    uint64_t bytes = 0;
    Allocation allocation;
    std::byte* target = nullptr;  // where it is encoded: the extent, or staging
    bool staged = false;
  };
  struct Staging {
    std::vector<std::byte> bytes;
    std::vector<ocm_op*> puts;
    Status started;  // the first that could not be
  };

  Status store_group(uint64_t rows_wanted);
  std::vector<Part> make_parts(uint64_t rows) const;
  Status gather_rows(std::vector<Part>& parts, uint64_t rows, Cut& cut, size_t& cut_column);
  void choose_dictionaries(uint64_t rows);
  static void narrow_index(const Part& part, Field& stored);
  Status widen(size_t column);
  std::vector<Bucket> make_buckets(const std::vector<Part>& parts, Group& group);
  Status place(std::vector<Bucket>& buckets);
  Status encode_group(const std::vector<Part>& parts, std::vector<Bucket>& buckets, Group& group);
  void start_puts(std::vector<Bucket>& buckets);
  static Status wait_puts(Staging& staging);
  Status wait_puts();
  Status no_room(const Status& status, uint64_t bytes) const;
  Status write_part(const void* bytes, uint64_t length, Result<Allocation> made);
  Status read_back(const Chunk& chunk, std::vector<std::byte>& out) const;
  void commit(std::vector<Bucket>& buckets, Group group);
  /// L2; O(parts).
  bool is_valid() const;

  ocm_session* session_;
  Source& source_;
  const Placer& placer_;
  const LoadOptions options_;
  Field given_;
  bool fixed_ = false;  // the stored schema is the table's
  Catalogue catalogue_;
  std::vector<Allocation> parts_;
  uint64_t bytes_ = 0;  // of parts_
  uint64_t rows_ = 0;   // stored
  // The group at hand
  std::mutex dictionaries_mutex_;
  std::vector<NewDictionary> new_dictionaries_;
  // The last dictionary of each field: its number and bytes.
  std::map<const Field*, std::pair<uint32_t, std::shared_ptr<const Image>>> last_;
  std::map<const Field*, uint32_t> numbers_;  // of fields
  Staging staging_[2];
  size_t staging_next_ = 0;
};

}  // namespace ocm::table
