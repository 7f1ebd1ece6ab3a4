// What the daemon gave with each allocation, to be shown to it after it restarted: bytes that only it reads.
// Threads: the session's mutex guards it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/ids.h"

namespace ocm::client {

class Receipts {
 public:
  /// One handle more. `from`: the run of the daemon that gave the receipt (Daemon::run()). `hold`: the handle's, if it
  /// has one.
  void add(const AllocationId& id, std::string bytes, uint64_t from, const std::string& hold = {}) {
    if (bytes.empty()) return;
    Kept& kept = kept_[id];
    if (!hold.empty()) kept.holds.push_back(hold);
    kept.bytes = std::move(bytes);
    kept.known_to = from;
    ++kept.handles;
  }
  /// The allocation has changed.
  void renew(const AllocationId& id, std::string bytes) {
    const auto kept = kept_.find(id);
    if (kept != kept_.end() && !bytes.empty()) kept->second.bytes = std::move(bytes);
  }
  /// One handle less.
  void remove(const AllocationId& id, const std::string& hold = {}) {
    const auto kept = kept_.find(id);
    if (kept == kept_.end()) return;
    std::erase(kept->second.holds, hold);
    if (--kept->second.handles == 0) kept_.erase(kept);
  }
  /// One handle less, as soon as a daemon is told of it. `hold`: the handle's, if it had one.
  void free_later(const AllocationId& id, const std::string& hold) {
    const auto kept = kept_.find(id);
    if (kept == kept_.end()) return;
    std::erase(kept->second.holds, hold);
    kept->second.freed.push_back(hold);
    kept->second.known_to = 0;
  }
  /// `run` was told of all of them.
  void told(uint64_t run) {
    for (auto it = kept_.begin(); it != kept_.end();) {
      Kept& kept = it->second;
      OCM_ASSERT(kept.handles >= kept.freed.size());
      if (kept.known_to == run) kept.handles -= static_cast<uint32_t>(std::exchange(kept.freed, {}).size());
      it = kept.handles == 0 ? kept_.erase(it) : std::next(it);
    }
  }
  void clear() { kept_.clear(); }
  /// What is kept has handles; those that were freed, and those with a hold, are of them. Cost: all of them.
  bool is_valid() const {
    return std::all_of(kept_.begin(), kept_.end(), [](const auto& one) {
      const Kept& kept = one.second;
      return kept.handles > 0 && kept.freed.size() + kept.holds.size() <= kept.handles && !kept.bytes.empty();
    });
  }

  /// Its publishing is not answered, or is.
  void doubt_name(const AllocationId& id, bool doubt) {
    const auto kept = kept_.find(id);
    if (kept != kept_.end()) kept->second.may_be_named = doubt;
  }

  struct Shown {
    std::string bytes;
    uint32_t handles = 0;
    bool may_be_named = false;
    std::vector<std::string> freed, holds;
  };
  /// Some of what `run` does not know, at least one if there is any; it counts as known from now on.
  std::vector<Shown> take_unknown_to(uint64_t run, size_t bytes_max) {
    std::vector<Shown> out;
    size_t bytes = 0;
    for (auto& [id, kept] : kept_) {
      if (kept.known_to == run) continue;
      bytes += kept.bytes.size();
      if (!out.empty() && bytes > bytes_max) break;
      kept.known_to = run;
      out.push_back({kept.bytes, kept.handles, kept.may_be_named, kept.freed, kept.holds});
    }
    return out;
  }

 private:
  struct Kept {
    std::string bytes;
    uint32_t handles = 0;
    uint64_t known_to = 0;
    bool may_be_named = false;
    std::vector<std::string> freed;  // each one of `handles`
    std::vector<std::string> holds;  // of the others
  };
  std::unordered_map<AllocationId, Kept> kept_;
};

}  // namespace ocm::client
