// In which order a home makes parts again that miss replicas. Pure.
//
// Those that failed come last, the one that failed first before the others: none keeps the rest from being made again. Then
// those come first of which the fewest replicas live, and users share what is copied: a part's turn is when so many bytes of
// each user were copied as this one's take with its own smaller ones. So whoever has little need not wait for who has much.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace ocm::control {

struct ToRemake {
  uint64_t not_before_ns = 0;  // 0: it has not failed
  size_t living = 0;           // replicas
  uint32_t uid = 0;
  uint64_t bytes = 0;
};

/// Indices of `parts`, the next one first.
inline std::vector<size_t> remake_order(const std::vector<ToRemake>& parts) {
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto sort_by = [&](const auto& last) {
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::tuple(parts[a].not_before_ns, parts[a].living, last(a)) <
             std::tuple(parts[b].not_before_ns, parts[b].living, last(b));
    });
  };
  sort_by([&](size_t i) { return parts[i].bytes; });
  std::unordered_map<uint32_t, uint64_t> of_user;
  std::vector<uint64_t> turn(parts.size());
  for (const size_t i : order) turn[i] = of_user[parts[i].uid] += parts[i].bytes;
  sort_by([&](size_t i) { return turn[i]; });
  return order;
}

}  // namespace ocm::control
