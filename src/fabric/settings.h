// What a fabric can be told: each setting is a key of its section in the daemon's configuration, and a flag.
//
// A key named kEnabled decides whether a daemon serves the fabric at all; its flag is the fabric's name alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/fabrics.h"

namespace ocm::fabric {

struct Setting {
  enum class Type : uint8_t { kNumber, kBytes, kFlag };

  const char* key;
  Type type;
  uint64_t initial, least, most;
  /// Programs of the daemon's host are told: it is about their end.
  bool for_programs;
  const char* help;
};

inline constexpr std::string_view kEnabled = "enabled";
/// Of every fabric that has it: connections to one home, over which operations are spread.
inline constexpr std::string_view kLanes = "lanes";

/// Values other than the initial ones.
class Settings {
 public:
  uint64_t get(Fabric fabric, const Setting& setting) const {
    const auto it = values_.find({fabric, setting.key});
    return it == values_.end() ? setting.initial : it->second;
  }
  void set(Fabric fabric, const Setting& setting, uint64_t value) { values_[{fabric, setting.key}] = value; }

 private:
  std::map<std::pair<Fabric, std::string>, uint64_t> values_;
};

}  // namespace ocm::fabric
