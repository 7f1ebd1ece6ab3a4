#include "table/export.h"

#include <iterator>

#include "table/format/bits.h"

namespace ocm::table {
namespace {

/// Stands for buffers of no bytes: one offset of any width is 0 there.
alignas(kAlignment) constexpr std::byte kZeros[kAlignment] = {};

/// What an exported array owns.
struct Node {
  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  /// What nobody moved out goes too.
  ~Node() {
    for (const auto& child : children) {
      if (child->release != nullptr) child->release(child.get());
    }
    if (dictionary != nullptr && dictionary->release != nullptr) dictionary->release(dictionary.get());
  }

  std::shared_ptr<ScanLife> life;
  std::shared_ptr<std::byte> memory;
  const void* buffers[3] = {};
  std::vector<std::unique_ptr<ArrowArray>> children;
  std::vector<ArrowArray*> pointers;
  std::unique_ptr<ArrowArray> dictionary;
};

void release_array(ArrowArray* array) {
  array->release = nullptr;
  delete static_cast<Node*>(array->private_data);
}

void finish(ArrowArray& out, std::unique_ptr<Node> node, uint64_t length, int64_t nulls, uint64_t offset,
            uint32_t buffers) {
  OCM_DASSERT(buffers <= std::size(node->buffers) && node->pointers.empty());
  for (const auto& child : node->children) node->pointers.push_back(child.get());
  out = {};
  out.length = static_cast<int64_t>(length);
  out.null_count = nulls;
  out.offset = static_cast<int64_t>(offset);
  out.n_buffers = buffers;
  out.buffers = node->buffers;
  out.n_children = static_cast<int64_t>(node->pointers.size());
  out.children = node->pointers.empty() ? nullptr : node->pointers.data();
  out.dictionary = node->dictionary.get();
  out.release = release_array;
  out.private_data = node.release();
}

/// Walks one chunk and makes its arrays.
class Exporter {
 public:
  Exporter(const std::shared_ptr<ScanLife>& life, const Catalogue& catalogue, const HeldGroup& held,
           const Chunk& chunk, const HeldChunk& bytes)
      : life_(life),
        catalogue_(catalogue),
        held_(held),
        chunk_(chunk),
        memory_(bytes.memory),
        at_(bytes.data) {}

  /// Rows [first, first + rows) of the next field; all of them if rows is kAll.
  void take(const Field& field, uint64_t first, uint64_t rows, ArrowArray& out) {
    OCM_DASSERT(field_ < chunk_.lengths.size() && field_ < chunk_.nulls.size());  // C2
    auto node = std::make_unique<Node>();
    node->life = life_;
    node->memory = memory_;
    const uint64_t length = chunk_.lengths[field_], nulls = chunk_.nulls[field_];
    const Packing* packing = chunk_.packing_of(field_);
    ++field_;
    if (rows == kAll) rows = length;
    OCM_DASSERT(first <= length && rows <= length - first && nulls <= length);
    const uint32_t buffers = field.type.buffers();
    for (uint32_t i = 0; i < buffers; ++i) node->buffers[i] = next_buffer(i == 0);
    if (nulls == 0) node->buffers[0] = nullptr;
    const int64_t nulls_here = nulls_in(field, node->buffers[0], length, nulls, first, rows);
    if (packing != nullptr)
      first = widen(*packing, field.type.width_bytes, first, rows, nulls_here > 0, *node);
    if (field.has_dictionary()) {
      OCM_DASSERT(dictionary_ < chunk_.dictionaries.size());  // C3
      const uint32_t number = chunk_.dictionaries[dictionary_++];
      node->dictionary = std::make_unique<ArrowArray>();
      const Chunk& values = catalogue_.dictionaries[number].chunk;
      Exporter(life_, catalogue_, held_, values, held_.dictionaries.at(number))
          .take(field.values(), 0, kAll, *node->dictionary);
    }
    for (const Field& child : field.children) {
      node->children.push_back(std::make_unique<ArrowArray>());
      take(child, 0, kAll, *node->children.back());
    }
    finish(out, std::move(node), rows, nulls_here, first, buffers);
  }
  static constexpr uint64_t kAll = ~uint64_t{0};

 private:
  /// Makes plain values of packed ones, in memory of the array's own, and gives the row at which they begin
  /// there.
  uint64_t widen(const Packing& packing, uint64_t width_bytes, uint64_t first, uint64_t rows, bool nulls,
                 Node& node) {
    const uint64_t start = first / kPackRows * kPackRows;
    const uint64_t blocks = (first + rows - start + kPackRows - 1) / kPackRows;
    const uint64_t values_bytes = blocks * kPackRows * width_bytes;
    OCM_DASSERT(start + blocks * kPackRows >= first + rows && first - start < kPackRows);
    const uint64_t validity_bytes = nulls ? (first - start + rows + 7) / 8 : 0;
    std::shared_ptr<std::byte> memory = life_->table->state().pool->take(values_bytes + validity_bytes);
    unpack_blocks(static_cast<const std::byte*>(node.buffers[1]) + packed_bytes(start, packing.bits), blocks,
                  packing, static_cast<uint32_t>(width_bytes), memory.get());
    if (nulls) copy_bits(memory.get() + values_bytes, 0, node.buffers[0], start, first - start + rows);
    node.buffers[0] = nulls ? memory.get() + values_bytes : nullptr;
    node.buffers[1] = memory.get();
    node.memory = std::move(memory);
    return first - start;
  }

  const void* next_buffer(bool validity) {
    OCM_DASSERT(buffer_ < chunk_.buffers.size());  // C2
    const uint64_t bytes = chunk_.buffers[buffer_++];
    if (bytes == 0) return validity ? nullptr : kZeros;
    const std::byte* buffer = at_;
    at_ += align_up(bytes);
    return buffer;
  }
  static int64_t nulls_in(const Field& field, const void* validity, uint64_t length, uint64_t nulls,
                          uint64_t first, uint64_t rows) {
    if (field.type.form == Form::kNull) return static_cast<int64_t>(rows);
    if (nulls == 0 || rows == length) return static_cast<int64_t>(nulls);
    return static_cast<int64_t>(rows - count_ones(validity, first, rows));
  }

  const std::shared_ptr<ScanLife>& life_;
  const Catalogue& catalogue_;
  const HeldGroup& held_;
  const Chunk& chunk_;
  const std::shared_ptr<std::byte>& memory_;
  const std::byte* at_;
  size_t field_ = 0, buffer_ = 0, dictionary_ = 0;
};

}  // namespace

void export_rows(const std::shared_ptr<ScanLife>& life, const HeldGroup& held,
                 const std::vector<uint32_t>& columns, uint64_t first, uint64_t rows, ArrowArray* out) {
  const Table& table = *life->table;
  const GroupPlace& place = table.groups()[held.group];
  const Catalogue& catalogue = table.segment_of(place).catalogue;
  OCM_DASSERT(held.columns.size() == columns.size());
  OCM_DASSERT(first + rows <= catalogue.groups[place.group].rows);
  auto root = std::make_unique<Node>();
  root->life = life;
  for (size_t i = 0; i < columns.size(); ++i) {
    const Chunk& chunk = catalogue.groups[place.group].columns[columns[i]].chunk;
    root->children.push_back(std::make_unique<ArrowArray>());
    Exporter(life, catalogue, held, chunk, held.columns[i])
        .take(catalogue.schema.children[columns[i]], first, rows, *root->children.back());
  }
  finish(*out, std::move(root), rows, 0, 0, 1);
}

}  // namespace ocm::table
