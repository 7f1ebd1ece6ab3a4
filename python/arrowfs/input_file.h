// A file to read: Arrow buffers that point into local memory, or that one get fills from a remote node.
//
// Nothing is read ahead or kept: Arrow's readers ask for the ranges they need, and get just these.
#pragma once

#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/future.h>
#include <arrow/util/thread_pool.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "session.h"

namespace ocm::arrowfs {

using BufferResult = arrow::Result<std::shared_ptr<arrow::Buffer>>;
using BufferFuture = arrow::Future<std::shared_ptr<arrow::Buffer>>;

/// A range of local cluster memory; it keeps the attachment.
class PointingBuffer : public arrow::Buffer {
 public:
  PointingBuffer(const uint8_t* data, int64_t bytes, std::shared_ptr<const Attachment> attachment)
      : arrow::Buffer(data, bytes), attachment_(std::move(attachment)) {}

 private:
  std::shared_ptr<const Attachment> attachment_;
};

class InputFile : public arrow::io::RandomAccessFile {
 public:
  /// `attachment` null: an empty file.
  InputFile(std::shared_ptr<const Attachment> attachment, arrow::io::IOContext context)
      : attachment_(std::move(attachment)), context_(std::move(context)) {
    if (!attachment_) return;
    bytes_ = attachment_->bytes();
    local_ = attachment_->local();
  }

  arrow::Status Close() override {
    closed_ = true;
    attachment_.reset();  // the buffers that point into it, and reads under way, have their own
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }
  bool supports_zero_copy() const override { return local_; }
  arrow::Result<int64_t> GetSize() override {
    ARROW_RETURN_NOT_OK(check_open());
    return bytes_;
  }
  arrow::Result<int64_t> Tell() const override {
    ARROW_RETURN_NOT_OK(check_open());
    return position_;
  }
  arrow::Status Seek(int64_t position) override {
    ARROW_RETURN_NOT_OK(check_open());
    if (position < 0) return arrow::Status::Invalid("cannot seek to ", position);
    position_ = position;
    return arrow::Status::OK();
  }
  arrow::Result<int64_t> Read(int64_t bytes, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const int64_t read, ReadAt(position_, bytes, out));
    position_ += read;
    return read;
  }
  BufferResult Read(int64_t bytes) override {
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> read, ReadAt(position_, bytes));
    position_ += read->size();
    return read;
  }

  arrow::Result<int64_t> ReadAt(int64_t position, int64_t bytes, bool allow_short, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const int64_t length, within(position, bytes, allow_short));
    if (length == 0) return 0;
    const ocm_segment segment{static_cast<uint64_t>(position), out, static_cast<uint64_t>(length)};
    ARROW_RETURN_NOT_OK(attachment_->get(&segment, 1));
    return length;
  }
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t bytes, void* out) override {
    return ReadAt(position, bytes, true, out);
  }
  BufferResult ReadAt(int64_t position, int64_t bytes, bool allow_short) override {
    ARROW_ASSIGN_OR_RAISE(const arrow::io::ReadRange range, range_of(position, bytes, allow_short));
    ARROW_ASSIGN_OR_RAISE(auto read, read_many(attachment_, {range}, context_));
    return std::move(read[0]);
  }
  BufferResult ReadAt(int64_t position, int64_t bytes) override { return ReadAt(position, bytes, true); }

  BufferFuture ReadAsync(const arrow::io::IOContext& context, int64_t position, int64_t bytes,
                         bool allow_short) override {
    const arrow::Result<arrow::io::ReadRange> range = range_of(position, bytes, allow_short);
    if (!range.ok()) return BufferFuture::MakeFinished(range.status());
    return std::move(ReadManyAsync(context, {*range})[0]);
  }
  BufferFuture ReadAsync(const arrow::io::IOContext& context, int64_t position, int64_t bytes) override {
    return ReadAsync(context, position, bytes, true);
  }
  /// Neighbours in the list, about kTogetherBytes of them, share a vectored get on a thread of Arrow's own.
  std::vector<BufferFuture> ReadManyAsync(const arrow::io::IOContext& context,
                                          const std::vector<arrow::io::ReadRange>& ranges) override;

 private:
  static constexpr int64_t kTogetherBytes = 4 << 20;

  arrow::Status check_open() const {
    return closed_ ? arrow::Status::Invalid("the file is closed") : arrow::Status::OK();
  }
  arrow::Result<int64_t> within(int64_t position, int64_t bytes, bool allow_short) const {
    ARROW_RETURN_NOT_OK(check_open());
    if (position < 0 || bytes < 0) {
      return arrow::Status::Invalid("cannot read ", bytes, " bytes at ", position);
    }
    const int64_t length = std::clamp<int64_t>(bytes_ - position, 0, bytes);
    if (length < bytes && !allow_short) {
      return arrow::Status::IOError("the file ends at ", bytes_, ", before ", bytes, " bytes at ", position);
    }
    return length;
  }
  arrow::Result<arrow::io::ReadRange> range_of(int64_t position, int64_t bytes, bool allow_short) const {
    ARROW_ASSIGN_OR_RAISE(const int64_t length, within(position, bytes, allow_short));
    return arrow::io::ReadRange{position, length};
  }
  static arrow::Result<std::vector<std::shared_ptr<arrow::Buffer>>> read_many(
      const std::shared_ptr<const Attachment>& attachment, const std::vector<arrow::io::ReadRange>& ranges,
      const arrow::io::IOContext& context);

  std::shared_ptr<const Attachment> attachment_;
  arrow::io::IOContext context_;
  int64_t bytes_ = 0;
  bool local_ = true;
  int64_t position_ = 0;
  std::atomic<bool> closed_{false};
};

inline arrow::Result<std::vector<std::shared_ptr<arrow::Buffer>>> InputFile::read_many(
    const std::shared_ptr<const Attachment>& attachment, const std::vector<arrow::io::ReadRange>& ranges,
    const arrow::io::IOContext& context) {
  std::vector<std::shared_ptr<arrow::Buffer>> buffers;
  std::vector<ocm_segment> segments;
  for (const arrow::io::ReadRange& range : ranges) {
    const uint8_t* here = nullptr;
    if (range.length > 0) here = attachment->pointer(range.offset, range.length);
    if (here != nullptr) {
      buffers.push_back(std::make_shared<PointingBuffer>(here, range.length, attachment));
      continue;
    }
    ARROW_ASSIGN_OR_RAISE(std::unique_ptr<arrow::Buffer> buffer,
                          arrow::AllocateBuffer(range.length, context.pool()));
    if (range.length > 0) {
      segments.push_back(
          {static_cast<uint64_t>(range.offset), buffer->mutable_data(), static_cast<uint64_t>(range.length)});
    }
    buffers.push_back(std::move(buffer));
  }
  if (!segments.empty()) ARROW_RETURN_NOT_OK(attachment->get(segments.data(), segments.size()));
  return buffers;
}

inline std::vector<BufferFuture> InputFile::ReadManyAsync(const arrow::io::IOContext& context,
                                                          const std::vector<arrow::io::ReadRange>& ranges) {
  std::vector<BufferFuture> futures;
  for (size_t first = 0; first < ranges.size();) {
    std::vector<arrow::io::ReadRange> together;
    std::vector<BufferFuture> waiting;
    arrow::Status status;
    for (int64_t bytes = 0; first < ranges.size() && bytes < kTogetherBytes; ++first) {
      const auto range = range_of(ranges[first].offset, ranges[first].length, true);
      if (!range.ok()) status = range.status();
      together.push_back(range.ValueOr(arrow::io::ReadRange{0, 0}));
      bytes += together.back().length;
      waiting.push_back(BufferFuture::Make());
    }
    futures.insert(futures.end(), waiting.begin(), waiting.end());
    auto read = [attachment = attachment_, together = std::move(together), waiting, context] {
      auto buffers = read_many(attachment, together, context);
      for (size_t i = 0; i < waiting.size(); ++i) {
        BufferFuture future = waiting[i];
        future.MarkFinished(buffers.ok() ? BufferResult((*buffers)[i]) : BufferResult(buffers.status()));
      }
    };
    if (status.ok() && !supports_zero_copy()) {
      status = context.executor()->Spawn(std::move(read));
    } else if (status.ok()) {
      read();
    }
    if (!status.ok()) {
      for (BufferFuture& future : waiting) future.MarkFinished(status);
    }
  }
  return futures;
}

}  // namespace ocm::arrowfs
