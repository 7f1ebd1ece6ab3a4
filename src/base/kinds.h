// The kinds of memory by number and name, from the one list of them (include/oncilla/kinds.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "oncilla/kinds.h"

namespace ocm {

/// Where bytes live. Same numbers as `ocm_kind`.
enum class Kind : uint8_t {
#define OCM_LINE(CONSTANT, Name, name, number, offered, built, lasts) k##Name = number,
  OCM_KINDS(OCM_LINE)
#undef OCM_LINE
};

/// What is allocated where nothing else is asked for; slabs are of it.
inline constexpr Kind kDefaultKind = Kind::kDram;

struct KindName {
  Kind kind;
  const char* name;
  bool offered;  // to users; others are for tests
  bool built;    // else nodes of this build have none of it
  bool lasts;    // nodes may keep it beyond their run
};

inline constexpr KindName kKinds[] = {
#define OCM_LINE(CONSTANT, Name, name, number, offered, built, lasts) \
  {Kind::k##Name, #name, (offered) != 0, (built) != 0, (lasts) != 0},
    OCM_KINDS(OCM_LINE)
#undef OCM_LINE
};
/// What is kept for each kind has so many places, whatever of them are taken.
inline constexpr size_t kKindsMax = 16;

/// Of what is to be durable, where no kind is asked for.
inline constexpr Kind kDurableKind = [] {
  for (const KindName& line : kKinds) {
    if (line.lasts && line.offered) return line.kind;
  }
  return kDefaultKind;
}();

/// "?" for a number that is none.
constexpr const char* kind_name(Kind kind) {
  for (const KindName& line : kKinds) {
    if (line.kind == kind) return line.name;
  }
  return "?";
}
constexpr bool is_kind(uint64_t number) {
  for (const KindName& line : kKinds) {
    if (number == static_cast<uint64_t>(line.kind)) return true;
  }
  return false;
}
/// Null for a name that is none's.
constexpr const KindName* find_kind(std::string_view name) {
  for (const KindName& line : kKinds) {
    if (name == line.name) return &line;
  }
  return nullptr;
}
/// Those that nodes of this build can offer: "dram,nvme" where `between` is ",".
inline std::string built_kinds(const char* between) {
  std::string out;
  for (const KindName& line : kKinds) {
    if (line.built) out += (out.empty() ? std::string() : between) + line.name;
  }
  return out;
}

constexpr bool kinds_are_distinct() {
  for (size_t i = 0; i < std::size(kKinds); ++i) {
    if (static_cast<size_t>(kKinds[i].kind) >= kKindsMax) return false;
    for (size_t j = 0; j < i; ++j) {
      if (kKinds[i].kind == kKinds[j].kind) return false;
    }
  }
  return true;
}
static_assert(kinds_are_distinct(), "a kind's number is 0 to 15 and its own");
static_assert(find_kind(kind_name(kDefaultKind))->built, "every build has the default");

}  // namespace ocm
