// What an allocation must hold: the bytes of every acknowledged write, and for writes that failed both
// answers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
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
  /// Failed: each byte is the old or the new one. `may_come`: also after a later write.
  void may_have_written(uint64_t offset, const std::byte* data, uint64_t count, bool may_come = false) {
    maybe_.push_back({offset, {data, data + count}, may_come});
  }

  /// The first place where `data`, read at `offset`, cannot be.
  std::optional<uint64_t> first_wrong(uint64_t offset, const std::byte* data, uint64_t count) const {
    for (uint64_t i = 0; i < count; ++i) {
      if (data[i] != certain_[offset + i] && !may_be(offset + i, data[i])) return offset + i;
    }
    return std::nullopt;
  }
  bool is_certain(uint64_t offset, uint64_t count) const {
    return std::none_of(maybe_.begin(), maybe_.end(), [&](const Maybe& m) {
      return m.offset < offset + count && offset < m.offset + m.data.size();
    });
  }
  const std::byte* certain(uint64_t offset) const { return certain_.data() + offset; }

 private:
  struct Maybe {
    uint64_t offset;
    std::vector<std::byte> data;
    bool may_come = false;
  };

  bool may_be(uint64_t at, std::byte value) const {
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
      if (m.may_come || end <= offset || stop <= begin) {
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
};

}  // namespace ocm::simulation
