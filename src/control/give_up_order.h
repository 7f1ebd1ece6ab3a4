// Of replicas that a daemon asks the council to give up: which ones next. Pure.
//
// Some take as long as a question may, because no voters or no other replica's home answers; so many are asked for at once.
// Users take turns, and one that fails keeps no other waiting. Those that have no hope, because as far as is known none of
// the others of the part answers, or because they failed a moment ago, have places of their own.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace ocm::control {

struct ToGiveUp {
  uint32_t uid = 0;
  bool is_hopeless = false;
};

/// Of those with hope, and of those without it.
constexpr size_t kGivenUpAtOnceMax = 24, kGivenUpOfUserMax = 8;

/// Indices of `waiting`: those to be asked for now, beside those `under_way`.
inline std::vector<size_t> next_to_give_up(const std::vector<ToGiveUp>& waiting,
                                           const std::vector<ToGiveUp>& under_way) {
  std::array<size_t, 2> at_once{};
  std::map<std::pair<bool, uint32_t>, size_t> of_user;
  for (const ToGiveUp& one : under_way) {
    ++at_once[one.is_hopeless ? 1 : 0];
    ++of_user[{one.is_hopeless, one.uid}];
  }
  std::vector<std::tuple<bool, size_t, size_t>> turns;  // hopeless, turn, index
  for (size_t i = 0; i < waiting.size(); ++i) {
    const size_t turn = of_user[{waiting[i].is_hopeless, waiting[i].uid}]++;
    if (turn < kGivenUpOfUserMax) turns.emplace_back(waiting[i].is_hopeless, turn, i);
  }
  std::sort(turns.begin(), turns.end());
  std::vector<size_t> out;
  for (const auto& [is_hopeless, turn, index] : turns) {
    if (at_once[is_hopeless ? 1 : 0]++ < kGivenUpAtOnceMax) out.push_back(index);
  }
  return out;
}

}  // namespace ocm::control
