#include "base/log_limiter.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace ocm::log {

std::optional<uint64_t> Limiter::admit(std::string_view event, std::string_view peer, uint64_t now_ns,
                                       std::string_view reason) {
  OCM_DASSERT(!event.empty() && event.find_first_of(" \n") == event.npos);
  std::string name = std::string(event) + ' ' + std::string(peer);
  if (!reason.empty()) name = with_reason(std::move(name), reason.substr(0, kReasonBytesMax), now_ns);
  auto it = keys_.find(name);
  if (it == keys_.end() && keys_.size() >= kKeysMax) forget(now_ns);
  const bool own = it != keys_.end() || keys_.size() < kKeysMax;
  if (it == keys_.end())
    it = own ? keys_.try_emplace(name).first : others_.try_emplace(std::string(event)).first;
  OCM_DASSERT(is_valid());
  Key& key = it->second;
  if (now_ns < key.next_ns) {
    ++key.left_out;
    return std::nullopt;
  }
  key.next_ns = now_ns + kPeriodNs;
  return std::exchange(key.left_out, 0);
}

std::string Limiter::with_reason(std::string name, std::string_view reason, uint64_t now_ns) const {
  const std::string prefix = name + '\n', own = prefix + std::string(reason);
  size_t others = 0;
  for (auto it = keys_.lower_bound(prefix); it != keys_.end() && it->first.starts_with(prefix); ++it) {
    if (it->second.next_ns <= now_ns) continue;
    if (it->first == own) return own;
    ++others;
  }
  return others < kReasonsMax ? own : name;
}

void Limiter::forget(uint64_t now_ns) {
  std::erase_if(keys_, [now_ns](const auto& entry) { return entry.second.next_ns <= now_ns; });
}

bool Limiter::is_valid() const {
  const auto is_peers = [](const auto& one) { return one.first.find(' ') != std::string::npos; };
  return keys_.size() <= kKeysMax && std::none_of(others_.begin(), others_.end(), is_peers);
}

}  // namespace ocm::log
