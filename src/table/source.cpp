#include "table/source.h"

#include <algorithm>
#include <cstring>

#include "table/format/bits.h"

namespace ocm::table {

Source::Source(ArrowArrayStream* stream) : stream_(*stream) { stream->release = nullptr; }

Source::~Source() {
  waiting_.clear();
  if (stream_.release != nullptr) stream_.release(&stream_);
}

Status Source::stream_error(int error) {
  const char* text = stream_.get_last_error != nullptr ? stream_.get_last_error(&stream_) : nullptr;
  return Status(Code::kIo,
                "the source stream failed: " + std::string(text != nullptr ? text : std::strerror(error)));
}

Result<Field> Source::read_schema() {
  if (stream_.release == nullptr || stream_.get_schema == nullptr || stream_.get_next == nullptr)
    return Status(Code::kInvalidArgument, "the source stream was released");
  ArrowSchema schema{};
  if (const int error = stream_.get_schema(&stream_, &schema); error != 0) return stream_error(error);
  Result<Field> field = import_schema(schema);
  if (schema.release != nullptr) schema.release(&schema);
  return field;
}

Status Source::check_batch(const ArrowArray& array, const Field& schema) const {
  OCM_TRY(check_array(array, schema));
  if (array.length > 0 && array.null_count != 0 && array.buffers[0] != nullptr &&
      count_ones(array.buffers[0], static_cast<uint64_t>(array.offset),
                 static_cast<uint64_t>(array.length)) != static_cast<uint64_t>(array.length)) {
    return Status(Code::kInvalidArgument, "a batch has rows that are null as a whole");
  }
  return {};
}

Status Source::fill(const Field& schema, uint64_t rows, uint64_t bytes) {
  while (!ended_ && rows_ < rows && bytes_ < bytes) {
    ArrowArray array{};
    if (const int error = stream_.get_next(&stream_, &array); error != 0) return stream_error(error);
    if (array.release == nullptr) {
      ended_ = true;
      break;
    }
    auto batch = std::make_unique<Batch>(array);
    OCM_TRY(check_batch(array, schema));
    if (array.length == 0) continue;
    const uint64_t about = estimate_bytes(schema, {&batch->array(), array.offset, array.length});
    waiting_.push_back({std::move(batch), 0, static_cast<uint64_t>(array.length), about});
    rows_ += static_cast<uint64_t>(array.length);
    bytes_ += about;
  }
  OCM_DASSERT(is_valid());
  return {};
}

uint64_t Source::group_rows(uint64_t rows, uint64_t bytes) const {
  OCM_DASSERT(rows_ > 0 && rows > 0);
  uint64_t taken = 0, taken_bytes = 0;
  for (const Waiting& one : waiting_) {
    const uint64_t here = one.rows - one.first;
    const double row_bytes = static_cast<double>(one.bytes) / static_cast<double>(one.rows);
    const double fit = row_bytes > 0 ? static_cast<double>(bytes - taken_bytes) / row_bytes : 1e18;
    const uint64_t take = std::min({here, rows - taken, static_cast<uint64_t>(std::min(fit, 1e18))});
    taken += take;
    taken_bytes = std::min(bytes, taken_bytes + static_cast<uint64_t>(static_cast<double>(take) * row_bytes));
    if (take < here || taken == rows) break;
  }
  OCM_DASSERT(taken <= std::min(rows, rows_) && taken_bytes <= bytes);
  return std::max<uint64_t>(1, taken);
}

std::vector<Piece> Source::pieces(size_t column, uint64_t rows) const {
  std::vector<Piece> pieces;
  for (const Waiting& one : waiting_) {
    if (rows == 0) break;
    const uint64_t take = std::min(rows, one.rows - one.first);
    const ArrowArray& root = one.batch->array();
    OCM_DASSERT(column < static_cast<uint64_t>(root.n_children));
    const ArrowArray* child = root.children[column];
    // What is no offset is refused by gather, whatever the sum.
    const auto first = static_cast<int64_t>(static_cast<uint64_t>(child->offset) +
                                            static_cast<uint64_t>(root.offset) + one.first);
    pieces.push_back({child, first, static_cast<int64_t>(take)});
    rows -= take;
  }
  OCM_DASSERT(rows == 0);  // so many wait
  return pieces;
}

void Source::drop(uint64_t rows) {
  OCM_DASSERT(rows <= rows_);
  rows_ -= rows;
  while (rows > 0) {
    Waiting& one = waiting_.front();
    const uint64_t take = std::min(rows, one.rows - one.first);
    const auto share = [&](uint64_t row) {
      return static_cast<uint64_t>(static_cast<double>(one.bytes) * static_cast<double>(row) /
                                   static_cast<double>(one.rows));
    };
    bytes_ -= std::min(bytes_, share(one.first + take) - share(one.first));
    one.first += take;
    rows -= take;
    if (one.first == one.rows) waiting_.pop_front();
  }
  if (waiting_.empty()) bytes_ = 0;
  OCM_DASSERT(is_valid());
}

bool Source::is_valid() const {
  uint64_t rows = 0;
  for (const Waiting& one : waiting_) {
    if (one.first >= one.rows) return false;
    rows += one.rows - one.first;
  }
  return rows == rows_;
}

}  // namespace ocm::table
