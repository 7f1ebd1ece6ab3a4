// Batches of a stream that wait to become row groups: references to what the stream gave, no copies.
#pragma once

#include <deque>
#include <memory>

#include "table/format/gather.h"

namespace ocm::table {

/// One batch; its columns' arrays live as long as it.
class Batch {
 public:
  explicit Batch(const ArrowArray& array) : array_(array) {}
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch() {
    if (array_.release != nullptr) array_.release(&array_);
  }
  const ArrowArray& array() const { return array_; }

 private:
  ArrowArray array_;
};

class Source {
 public:
  /// Moves the stream in.
  explicit Source(ArrowArrayStream* stream);
  ~Source();
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// The stream's schema; call it first. Errors: kIo (the stream's own), those of import_schema.
  Result<Field> read_schema();
  /// Reads until so many rows or about so many bytes wait, or the stream ends.
  Status fill(const Field& schema, uint64_t rows, uint64_t bytes);

  uint64_t rows() const { return rows_; }
  /// How many of the waiting rows make a group: at most `rows`, about `bytes`, at least one.
  uint64_t group_rows(uint64_t rows, uint64_t bytes) const;
  /// The first `rows` of a column.
  std::vector<Piece> pieces(size_t column, uint64_t rows) const;
  /// Lets the first `rows` go.
  void drop(uint64_t rows);
  /// The rows that wait are those of the batches; O(batches).
  bool is_valid() const;

 private:
  struct Waiting {
    std::unique_ptr<Batch> batch;
    uint64_t first = 0;  // row that waits
    uint64_t rows = 0;   // of the batch
    uint64_t bytes = 0;  // about, of all of it
  };
  Status stream_error(int error);
  Status check_batch(const ArrowArray& array, const Field& schema) const;

  ArrowArrayStream stream_;
  bool ended_ = false;
  std::deque<Waiting> waiting_;
  uint64_t rows_ = 0;   // that wait
  uint64_t bytes_ = 0;  // about
};

}  // namespace ocm::table
