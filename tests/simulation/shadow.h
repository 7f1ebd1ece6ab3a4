// What an allocation must hold: the bytes of every acknowledged write, and for writes that failed both
// answers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace ocm::simulation {

class Shadow {
 public:
  explicit Shadow(uint64_t bytes) : certain_(bytes) {}

  uint64_t bytes() const { return certain_.size(); }

  /// Acknowledged: these bytes and no others. `settles`: no failed write before it can land after it.
  void wrote(uint64_t offset, const std::byte* data, uint64_t count, bool settles) {
    if (settles) forget(offset, count);
    std::copy(data, data + count, certain_.begin() + static_cast<ptrdiff_t>(offset));
  }
  /// Failed: each byte is the old or the new one.
  void may_have_written(uint64_t offset, const std::byte* data, uint64_t count) {
    maybe_.push_back({offset, {data, data + count}});
  }
  /// A copy that may still be made, of what its source holds then.
  void may_become_anything(uint64_t offset, uint64_t count) { unknown_.emplace_back(offset, count); }

  /// The first place where `data`, read at `offset`, cannot be.
  std::optional<uint64_t> first_wrong(uint64_t offset, const std::byte* data, uint64_t count) const {
    for (uint64_t i = 0; i < count; ++i) {
      if (data[i] != certain_[offset + i] && !may_be(offset + i, data[i])) return offset + i;
    }
    return std::nullopt;
  }
  bool is_certain(uint64_t offset, uint64_t count) const {
    const auto meets = [&](uint64_t begin, uint64_t size) {
      return begin < offset + count && offset < begin + size;
    };
    return std::none_of(maybe_.begin(), maybe_.end(),
                        [&](const Maybe& m) { return meets(m.offset, m.data.size()); }) &&
           std::none_of(unknown_.begin(), unknown_.end(),
                        [&](const auto& range) { return meets(range.first, range.second); });
  }
  const std::byte* certain(uint64_t offset) const { return certain_.data() + offset; }

 private:
  struct Maybe {
    uint64_t offset;
    std::vector<std::byte> data;
  };

  bool may_be(uint64_t at, std::byte value) const {
    for (const auto& [offset, count] : unknown_) {
      if (at >= offset && at - offset < count) return true;
    }
    return std::any_of(maybe_.begin(), maybe_.end(), [&](const Maybe& m) {
      return at >= m.offset && at - m.offset < m.data.size() && m.data[at - m.offset] == value;
    });
  }
  void forget(uint64_t offset, uint64_t count) {
    std::vector<Maybe> kept;
    for (Maybe& m : maybe_) {
      const uint64_t begin = m.offset, end = m.offset + m.data.size(), stop = offset + count;
      const auto part = [&](uint64_t from, uint64_t to) {
        if (from < to)
          kept.push_back({from, {m.data.begin() + (from - begin), m.data.begin() + (to - begin)}});
      };
      if (end <= offset || stop <= begin) {
        kept.push_back(std::move(m));
      } else {
        part(begin, std::min(end, offset));
        part(std::max(begin, stop), end);
      }
    }
    maybe_ = std::move(kept);
  }

  std::vector<std::byte> certain_;
  std::vector<Maybe> maybe_;
  std::vector<std::pair<uint64_t, uint64_t>> unknown_;  // offset, count
};

}  // namespace ocm::simulation
