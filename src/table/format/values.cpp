#include "table/format/values.h"

#include <algorithm>
#include <cstring>

#include "table/format/bits.h"

namespace ocm::table {
namespace {

/// An Arrow view. Source: Arrow columnar format, "Variable-size Binary View Layout".
struct View {
  int32_t length;
  char prefix[4];
  int32_t buffer;
  int32_t offset;
};
constexpr int32_t kInlineBytesMax = 12;

uint64_t load8(const char* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}
uint64_t load4(const char* at) {
  uint32_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

constexpr uint64_t kOdd = 0x9E3779B97F4A7C15ull;

uint64_t mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * kOdd;
  return hash ^ hash >> 32;
}

}  // namespace

Values::Values(const ArrowArray& array, const Type& type)
    : array_(array), form_(type.form), width_bytes_(type.width_bytes) {
  if (array.length == 0) return;
  const int64_t end = array.offset + array.length;
  if (form_ == Form::kBinary) data_bytes_ = static_cast<const int32_t*>(array.buffers[1])[end];
  if (form_ == Form::kLargeBinary) data_bytes_ = static_cast<const int64_t*>(array.buffers[1])[end];
}

bool Values::at(int64_t row, std::string_view& value) const {
  switch (form_) {
    case Form::kFixed:
      value = {static_cast<const char*>(array_.buffers[1]) + row * width_bytes_,
               static_cast<size_t>(width_bytes_)};
      return true;
    case Form::kBinary: return between<int32_t>(row, value);
    case Form::kLargeBinary: return between<int64_t>(row, value);
    case Form::kView: return view(row, value);
    default: return false;
  }
}

template <class Offset>
bool Values::between(int64_t row, std::string_view& value) const {
  const auto* offsets = static_cast<const Offset*>(array_.buffers[1]) + row;
  if (offsets[0] < 0 || offsets[1] < offsets[0] || offsets[1] > data_bytes_) return false;
  if (offsets[0] == offsets[1]) {
    value = {};
    return true;
  }
  if (array_.buffers[2] == nullptr) return false;
  value = {static_cast<const char*>(array_.buffers[2]) + offsets[0],
           static_cast<size_t>(offsets[1] - offsets[0])};
  return true;
}

bool Values::view(int64_t row, std::string_view& value) const {
  const char* at = static_cast<const char*>(array_.buffers[1]) + row * static_cast<int64_t>(sizeof(View));
  View view;
  std::memcpy(&view, at, sizeof(view));
  if (view.length < 0) return false;
  if (view.length <= kInlineBytesMax) {
    value = {at + 4, static_cast<size_t>(view.length)};
    return true;
  }
  // Validity, views, data buffers, and last the lengths of these.
  const int64_t data_buffers = array_.n_buffers - 3;
  if (view.buffer < 0 || view.buffer >= data_buffers || view.offset < 0) return false;
  const auto* lengths = static_cast<const int64_t*>(array_.buffers[array_.n_buffers - 1]);
  const auto* data = static_cast<const char*>(array_.buffers[2 + view.buffer]);
  if (lengths == nullptr || data == nullptr || int64_t{view.offset} + view.length > lengths[view.buffer])
    return false;
  value = {data + view.offset, static_cast<size_t>(view.length)};
  return true;
}

Distinct::Distinct(uint64_t limit) : limit_(std::min<uint64_t>(limit, INT32_MAX)), slots_(512) {}

/// Up to 24 bytes three words, which may overlap, are the value; they are loaded without a loop or a call.
Distinct::Entry Distinct::entry_of(std::string_view value) {
  const char* at = value.data();
  const size_t bytes = value.size();
  Entry entry{0, {}, value};
  if (bytes >= 8) {
    entry.words[0] = load8(at);
    entry.words[1] = load8(at + bytes - 8);
    if (bytes > 16) entry.words[2] = load8(at + 8);
  } else if (bytes >= 4) {
    entry.words[0] = load4(at);
    entry.words[1] = load4(at + bytes - 4);
  } else if (bytes > 0) {
    const auto byte = [&](size_t i) { return static_cast<uint64_t>(static_cast<uint8_t>(at[i])); };
    entry.words[0] = byte(0) | byte(bytes / 2) << 8 | byte(bytes - 1) << 16;
  }
  entry.hash = mix(mix(mix(bytes * kOdd, entry.words[0]), entry.words[1]), entry.words[2]);
  for (size_t i = kWordsBytes - 8; i + 8 < bytes; i += 8) entry.hash = mix(entry.hash, load8(at + i));
  return entry;
}

bool Distinct::same(const Entry& a, const Entry& b) {
  const bool words = a.value.size() == b.value.size() && a.words[0] == b.words[0] &&
                     a.words[1] == b.words[1] && a.words[2] == b.words[2];
  return words && (a.value.size() <= kWordsBytes || a.value == b.value);
}

int64_t Distinct::add(std::string_view value) {
  const Entry entry = entry_of(value);
  const uint64_t mask = slots_.size() - 1;
  uint64_t slot = entry.hash & mask;
  for (; slots_[slot] != 0; slot = (slot + 1) & mask) {
    if (same(entries_[slots_[slot] - 1], entry)) return slots_[slot] - 1;
  }
  if (entries_.size() >= limit_) return kFull;
  entries_.push_back(entry);
  slots_[slot] = static_cast<uint32_t>(entries_.size());
  if (entries_.size() * 2 > slots_.size()) grow();
  return static_cast<int64_t>(entries_.size()) - 1;
}

void Distinct::grow() {
  slots_.assign(slots_.size() * 4, 0);
  const uint64_t mask = slots_.size() - 1;
  for (size_t i = 0; i < entries_.size(); ++i) {
    uint64_t slot = entries_[i].hash & mask;
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = static_cast<uint32_t>(i + 1);
  }
}

}  // namespace ocm::table
