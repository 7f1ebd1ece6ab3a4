// A file that is being written: parts that go into extents of their own as they fill, joined and published at
// Close.
//
// Invariants
//   W1 The name appears, or changes, when every byte is there. A file that is aborted, or never closed, or
//   whose
//      program dies leaves no name and no memory.
//   W2 Memory is needed once: a part has as many bytes as its extent, and the program holds one part.
//   W3 After a Write that failed nothing is published: bytes of it may be missing. Close says so.
//   W4 Nothing is published under an exception of Python's that was not handled yet when the file was opened.
//   Close
//      raises it again.
#pragma once

#include <arrow/io/interfaces.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "exception.h"
#include "published.h"

namespace ocm::arrowfs {

/// Where new files go.
struct Placement {
  std::vector<std::string> nodes;  // parts take turns on them; empty: the cluster chooses, nearest first
  uint32_t replicas = 1;
  uint32_t mode = 0;
};

class OutputFile : public arrow::io::OutputStream {
 public:
  OutputFile(std::shared_ptr<Session> session, std::string path, Placement placement)
      : session_(std::move(session)), path_(std::move(path)), placement_(std::move(placement)) {}
  ~OutputFile() override { release(); }

  arrow::Status Write(const void* data, int64_t bytes) override {
    if (closed_) return arrow::Status::Invalid("the file is closed");
    if (failure_.ok()) failure_ = append(static_cast<const uint8_t*>(data), bytes);
    if (!failure_.ok()) free_parts();
    return failure_;
  }
  using arrow::io::OutputStream::Write;

  /// Instead of Write: the bytes of another file, from node to node.
  arrow::Status copy(const Attachment& source) {
    for (int64_t offset = 0; offset < source.bytes();) {
      const int64_t bytes = std::min(part_bytes(), source.bytes() - offset);
      ARROW_RETURN_NOT_OK(store(bytes, [&](ocm_allocation* part) {
        return ocm_place_copy(ocm_place_in(part, 0),
                              ocm_place_in(source.get(), static_cast<uint64_t>(offset)),
                              static_cast<uint64_t>(bytes));
      }));
      offset += bytes;
    }
    return arrow::Status::OK();
  }

  arrow::Result<int64_t> Tell() const override {
    if (closed_) return arrow::Status::Invalid("the file is closed");
    return stored_bytes_ + held_bytes_;
  }
  bool closed() const override { return closed_; }
  arrow::Status Abort() override {
    release();
    return arrow::Status::OK();
  }
  arrow::Status Close() override {
    if (closed_) return arrow::Status::OK();
    const arrow::Status status = close();
    release();
    return status;
  }

 private:
  static constexpr int64_t kPartBytesMin = 8 << 20;
  static constexpr int64_t kPartBytesMax = 256 << 20;

  /// Grows with the file, so that a large one has few parts and a small one needs little of the program.
  int64_t part_bytes() const {
    int64_t bytes = kPartBytesMin;
    while (bytes < kPartBytesMax && bytes * 16 <= stored_bytes_) bytes *= 2;
    return bytes;
  }
  arrow::Status append(const uint8_t* next, int64_t bytes) {
    while (bytes > 0) {
      const int64_t wanted = part_bytes();
      if (held_bytes_ == 0 && bytes >= wanted) {
        ARROW_RETURN_NOT_OK(store(next, wanted));
        next += wanted, bytes -= wanted;
        continue;
      }
      const int64_t taken = std::min(bytes, wanted - held_bytes_);
      if (held_capacity_bytes_ < wanted) ARROW_RETURN_NOT_OK(grow(wanted));
      std::memcpy(held_.get() + held_bytes_, next, static_cast<size_t>(taken));
      held_bytes_ += taken, next += taken, bytes -= taken;
      if (held_bytes_ == wanted) ARROW_RETURN_NOT_OK(store_held());
    }
    return arrow::Status::OK();
  }
  arrow::Status grow(int64_t bytes) {
    std::unique_ptr<uint8_t[]> larger(new (std::nothrow) uint8_t[static_cast<size_t>(bytes)]);
    if (larger == nullptr) return arrow::Status::OutOfMemory("no room for a part of ", bytes, " bytes");
    if (held_bytes_ > 0) std::memcpy(larger.get(), held_.get(), static_cast<size_t>(held_bytes_));
    held_ = std::move(larger);
    held_capacity_bytes_ = bytes;
    return arrow::Status::OK();
  }
  arrow::Status store_held() {
    const int64_t bytes = std::exchange(held_bytes_, 0);
    return store(held_.get(), bytes);
  }
  arrow::Status store(const uint8_t* data, int64_t bytes) {
    return store(bytes,
                 [=](ocm_allocation* part) { return ocm_put(part, 0, data, static_cast<uint64_t>(bytes)); });
  }
  template <class Fill>
  arrow::Status store(int64_t bytes, Fill fill);
  arrow::Status close() {
    ARROW_RETURN_NOT_OK(handled_.status(path_));
    if (failure_.ok()) return finish();
    return failure_.WithMessage(failure_.message(), "; nothing was published, since this write failed");
  }
  arrow::Status finish();
  void free_parts() {
    for (ocm_allocation* part : parts_) ocm_allocation_free(part);
    parts_.clear();
    held_.reset();
  }
  void release() {
    closed_ = true;
    free_parts();
  }

  std::shared_ptr<Session> session_;
  std::string path_;
  Placement placement_;
  std::vector<ocm_allocation*> parts_;
  std::unique_ptr<uint8_t[]> held_;
  int64_t held_capacity_bytes_ = 0;
  int64_t held_bytes_ = 0;
  int64_t stored_bytes_ = 0;
  arrow::Status failure_;  // of the first Write that failed
  HandledException handled_;
  bool closed_ = false;
};

template <class Fill>
arrow::Status OutputFile::store(int64_t bytes, Fill fill) {
  std::vector<const char*> nodes;
  ocm_allocation_options options = OCM_ALLOCATION_OPTIONS_INIT;
  options.flags = OCM_ALLOCATION_DEDICATED;
  if (placement_.replicas > 1) {
    options.layout = OCM_LAYOUT_REPLICATED;
    options.extents = placement_.replicas;
  }
  for (size_t i = 0; i < std::min<size_t>(placement_.nodes.size(), placement_.replicas); ++i) {
    nodes.push_back(placement_.nodes[(parts_.size() + i) % placement_.nodes.size()].c_str());
  }
  options.nodes = nodes.empty() ? nullptr : nodes.data();
  options.nodes_count = nodes.size();
  ocm_allocation* part = nullptr;
  ARROW_RETURN_NOT_OK(
      checked(ocm_allocation_create(session_->get(), static_cast<uint64_t>(bytes), &options, &part), path_));
  parts_.push_back(part);
  ARROW_RETURN_NOT_OK(checked(fill(part), path_));
  stored_bytes_ += bytes;
  return arrow::Status::OK();
}

inline arrow::Status OutputFile::finish() {
  if (held_bytes_ > 0) ARROW_RETURN_NOT_OK(store_held());
  const bool empty = parts_.empty();
  if (empty) ARROW_RETURN_NOT_OK(store(reinterpret_cast<const uint8_t*>(""), 1));
  if (parts_.size() > 1) {
    ocm_allocation* whole = nullptr;
    ARROW_RETURN_NOT_OK(
        checked(ocm_allocation_join(session_->get(), parts_.data(), parts_.size(), &whole), path_));
    parts_.assign(1, whole);
  }
  return publish(session_, parts_[0], path_, empty, placement_.mode);
}

}  // namespace ocm::arrowfs
