// What a part that is one of a list, a fabric or a kind of memory, can be told: each setting is a key of its section in
// the daemon's configuration, and a flag of the daemon.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace ocm {

struct Setting {
  enum class Type : uint8_t {
    kNumber,
    kBytes,
    kFlag,
    kIndex,  // from 0, or -1, which is kNoIndex: none
    kPath
  };

  const char* key;
  Type type;
  uint64_t initial, least, most;
  /// Programs of the daemon's host are told: it is about their end.
  bool for_programs;
  const char* help;
  const char* initial_text = "";  // kPath's; it has no numbers

  /// The initial value is one that it may have.
  constexpr bool is_valid() const;
};
inline constexpr uint64_t kNoIndex = ~uint64_t{0};

constexpr bool Setting::is_valid() const {
  if (least > most || (type == Type::kPath) != (initial_text[0] != 0)) return false;
  const bool is_none = type == Type::kIndex && initial == kNoIndex;
  return is_none || (initial >= least && initial <= most);
}

/// Values other than the initial ones, of all parts of a list.
template <class Of>
class SettingsOf {
 public:
  uint64_t get(Of of, const Setting& setting) const {
    const auto it = values_.find({of, setting.key});
    return it == values_.end() ? setting.initial : it->second;
  }
  std::string text(Of of, const Setting& setting) const {
    const auto it = texts_.find({of, setting.key});
    return it == texts_.end() ? setting.initial_text : it->second;
  }
  void set_text(Of of, const Setting& setting, std::string text) {
    texts_[{of, setting.key}] = std::move(text);
  }
  void set(Of of, const Setting& setting, uint64_t value) { set(of, setting.key, value); }
  void set(Of of, const char* key, uint64_t value) { values_[{of, key}] = value; }

 private:
  std::map<std::pair<Of, std::string>, uint64_t> values_;
  std::map<std::pair<Of, std::string>, std::string> texts_;
};

}  // namespace ocm
