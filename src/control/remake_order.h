// In which order a home makes parts again that miss replicas. Pure.
//
// Users share the time: a part's turn is when as much was spent on each user as on this one with this part and his own before
// it. So whoever has little need not wait for who has much, nor for one whose parts take long for another reason. Of a user's
// parts those that failed come last, the one that failed first before the others: none keeps the rest from being made again.
// Then those come first of which the fewest replicas live, and the smaller ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace ocm::control {

struct ToRemake {
  uint64_t not_before_ns = 0;  // 0: it has not failed
  size_t living = 0;           // replicas
  uint32_t uid = 0;
  uint64_t bytes = 0;  // to be copied yet
};

/// A part of `bytes` may be made again before one of `under_way_bytes` goes on: who is set aside waits for little against his
/// own, and each of those under way is at most half as large as the one before, so that they are few.
constexpr bool may_overtake(uint64_t bytes, uint64_t under_way_bytes) { return bytes <= under_way_bytes / 2; }

class RemakeTurns {
 public:
  /// So long one of the user's parts was under way.
  void spent(uint32_t uid, uint64_t ns) { spent_ns_[uid] += ns; }

  /// Indices of `parts`, the next one first. A user without any is forgotten, and who comes anew has as much as who has least.
  std::vector<size_t> order(const std::vector<ToRemake>& parts) {
    std::set<uint32_t> users;
    for (const ToRemake& part : parts) users.insert(part.uid);
    std::erase_if(spent_ns_, [&](const auto& one) { return !users.contains(one.first); });
    uint64_t least_ns = ~uint64_t{0};
    for (const auto& [uid, ns] : spent_ns_) least_ns = std::min(least_ns, ns);
    for (auto& [uid, ns] : spent_ns_) ns -= least_ns;
    for (const uint32_t uid : users) spent_ns_.try_emplace(uid, 0);

    std::vector<size_t> order(parts.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const auto sort_by = [&](const auto& key) {
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
    };
    sort_by([&](size_t i) { return std::tuple(parts[i].not_before_ns, parts[i].living, parts[i].bytes); });
    std::map<uint32_t, uint64_t> of_user = spent_ns_;
    std::vector<uint64_t> turn(parts.size());
    for (const size_t i : order) turn[i] = of_user[parts[i].uid] += kPartNs + parts[i].bytes;
    sort_by([&](size_t i) { return turn[i]; });
    return order;
  }

 private:
  static constexpr uint64_t kPartNs = 1'000'000;  // about so long, and a nanosecond for each byte

  std::map<uint32_t, uint64_t> spent_ns_;
};

}  // namespace ocm::control
