// Arrow streams with owners, and what the app puts around them: a clock, and batches kept to be given again.
#pragma once

#include <stdint.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "oncilla/table.h"

namespace ocm::warehouse {

/// Owns one struct of the Arrow C data interface; released at the end. Its address stays while it is not
/// moved.
template <class Struct>
class Owned {
 public:
  Owned() = default;
  explicit Owned(const Struct& raw) : raw_(raw) {}
  Owned(Owned&& other) noexcept : raw_(std::exchange(other.raw_, Struct{})) {}
  Owned& operator=(Owned&& other) noexcept {
    if (this != &other) {
      reset();
      raw_ = std::exchange(other.raw_, Struct{});
    }
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { reset(); }

  void reset() {
    if (raw_.release != nullptr) raw_.release(&raw_);
    raw_ = Struct{};
  }
  /// Gives it up to the caller.
  Struct take() { return std::exchange(raw_, Struct{}); }
  Struct* get() { return &raw_; }
  const Struct* get() const { return &raw_; }
  Struct* operator->() { return &raw_; }
  const Struct* operator->() const { return &raw_; }
  explicit operator bool() const { return raw_.release != nullptr; }

 private:
  Struct raw_{};
};
using Stream = Owned<ArrowArrayStream>;
using Schema = Owned<ArrowSchema>;
using Batch = Owned<ArrowArray>;

/// Fills an ArrowArrayStream from an object with schema(), next() and error(), which the stream then owns.
template <class Source>
Stream stream_of(std::unique_ptr<Source> source) {
  ArrowArrayStream raw{};
  raw.get_schema = [](ArrowArrayStream* self, ArrowSchema* out) {
    return static_cast<Source*>(self->private_data)->schema(out);
  };
  raw.get_next = [](ArrowArrayStream* self, ArrowArray* out) {
    return static_cast<Source*>(self->private_data)->next(out);
  };
  raw.get_last_error = [](ArrowArrayStream* self) {
    return static_cast<Source*>(self->private_data)->error();
  };
  raw.release = [](ArrowArrayStream* self) {
    delete static_cast<Source*>(self->private_data);
    *self = {};
  };
  raw.private_data = source.release();
  return Stream(raw);
}

/// The status of errno `error` from `stream`, with what the stream says about it. `what` goes before; may be
/// empty.
Status stream_error(ArrowArrayStream* stream, int error, const std::string& what);

/// What passed through a stream. Written by the thread in get_next (one at a time), read after the end.
struct Flow {
  std::atomic<uint64_t> wait_ns{0};  // spent in get_next: what the reader of the stream waited
  std::atomic<uint64_t> rows{0};
  /// The first failure of the source in its own words; the engine puts others around them.
  Status failure;
};

/// `source` with a clock and a counter around get_next. It ends with ECANCELED after Ctrl-C.
Stream timed(Stream source, std::shared_ptr<Flow> flow);

/// Every batch of a stream, kept in this program; the stream itself, at its end, still knows the schema.
struct Kept {
  Stream source;
  std::vector<Batch> batches;
};
/// Reads `stream` to its end, or until `rows_max` rows or more are here.
Result<std::shared_ptr<Kept>> keep(Stream stream, uint64_t rows_max = UINT64_MAX);
/// The same batches again, copying none; `kept` lives until the stream and what came from it are released.
Stream again(std::shared_ptr<Kept> kept);

}  // namespace ocm::warehouse
