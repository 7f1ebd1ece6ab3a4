#include "apps/warehouse/streams.h"

#include <errno.h>
#include <string.h>

#include "os/clock.h"
#include "tools/signals.h"

namespace ocm::warehouse {
namespace {

using os::now_ns;

/// The code whose name opens the text ("PEER_LOST: node n2 ..."), as streams of ocm_table_scan say it;
/// `otherwise` if none does. The name is taken off.
Code take_code(std::string& text, Code otherwise) {
  for (int number = static_cast<int>(Code::kInternal); number < 0; ++number) {
    if (!is_code(number)) continue;
    const std::string name = std::string(code_name(static_cast<Code>(number))) + ": ";
    if (!text.starts_with(name)) continue;
    text.erase(0, name.size());
    return static_cast<Code>(number);
  }
  return otherwise;
}

class Timed {
 public:
  Timed(Stream source, std::shared_ptr<Flow> flow) : source_(std::move(source)), flow_(std::move(flow)) {}

  int schema(ArrowSchema* out) { return noted(source_->get_schema(source_.get(), out)); }
  int next(ArrowArray* out) {
    if (tools::interrupted()) {
      flow_->failure = Status(Code::kCancelled, "interrupted");
      return ECANCELED;
    }
    const uint64_t start_ns = now_ns();
    const int result = noted(source_->get_next(source_.get(), out));
    flow_->wait_ns.fetch_add(now_ns() - start_ns, std::memory_order_relaxed);
    if (result == 0 && out->release != nullptr) {
      flow_->rows.fetch_add(static_cast<uint64_t>(out->length), std::memory_order_relaxed);
    }
    return result;
  }
  const char* error() {
    if (flow_->failure.code() == Code::kCancelled) return "interrupted";
    return source_->get_last_error(source_.get());
  }

 private:
  int noted(int result) {
    if (result != 0 && flow_->failure.is_ok()) flow_->failure = stream_error(source_.get(), result, "");
    return result;
  }

  Stream source_;
  std::shared_ptr<Flow> flow_;
};

/// An array whose buffers belong to `kept`, which it holds. A consumer may move children out of it and keep
/// them longer, so each holds `kept` by itself.
ArrowArray borrowed(const std::shared_ptr<Kept>& kept, const ArrowArray& array) {
  struct Borrowed {
    std::shared_ptr<Kept> kept;
    std::vector<ArrowArray> children;
    std::vector<ArrowArray*> pointers;
  };
  auto owner = std::make_unique<Borrowed>();
  owner->kept = kept;
  for (int64_t i = 0; i < array.n_children; ++i) {
    owner->children.push_back(borrowed(kept, *array.children[i]));
  }
  for (ArrowArray& child : owner->children) owner->pointers.push_back(&child);
  ArrowArray copy = array;  // a dictionary is part of its array and is not moved on its own
  copy.children = owner->pointers.data();
  copy.private_data = owner.release();
  copy.release = [](ArrowArray* self) {
    std::unique_ptr<Borrowed> held(static_cast<Borrowed*>(self->private_data));
    for (ArrowArray& child : held->children) {
      if (child.release != nullptr) child.release(&child);
    }
    self->release = nullptr;
  };
  return copy;
}

class Again {
 public:
  explicit Again(std::shared_ptr<Kept> kept) : kept_(std::move(kept)) {}
  int schema(ArrowSchema* out) { return kept_->source->get_schema(kept_->source.get(), out); }
  int next(ArrowArray* out) {
    if (next_ == kept_->batches.size()) {
      *out = {};
    } else {
      *out = borrowed(kept_, *kept_->batches[next_++].get());
    }
    return 0;
  }
  const char* error() { return kept_->source->get_last_error(kept_->source.get()); }

 private:
  std::shared_ptr<Kept> kept_;
  size_t next_ = 0;
};

}  // namespace

Status stream_error(ArrowArrayStream* stream, int error, const std::string& what) {
  const char* why = stream->get_last_error != nullptr ? stream->get_last_error(stream) : nullptr;
  std::string text = why != nullptr && *why != '\0' ? why : strerror(error);
  const Code code = take_code(text, error == ECANCELED ? Code::kCancelled : Code::kIo);
  return Status(code, what.empty() ? text : what + ": " + text);
}

Stream timed(Stream source, std::shared_ptr<Flow> flow) {
  return stream_of(std::make_unique<Timed>(std::move(source), std::move(flow)));
}

Result<std::shared_ptr<Kept>> keep(Stream stream, uint64_t rows_max) {
  auto kept = std::make_shared<Kept>();
  kept->source = std::move(stream);
  for (uint64_t rows = 0; rows < rows_max; rows += static_cast<uint64_t>(kept->batches.back()->length)) {
    Batch batch;
    const int error = kept->source->get_next(kept->source.get(), batch.get());
    if (error != 0) return stream_error(kept->source.get(), error, "");
    if (!batch) break;
    kept->batches.push_back(std::move(batch));
  }
  return kept;
}

Stream again(std::shared_ptr<Kept> kept) { return stream_of(std::make_unique<Again>(std::move(kept))); }

}  // namespace ocm::warehouse
