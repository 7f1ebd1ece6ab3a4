// The fabrics by number and name, from the one list of them (include/oncilla/fabrics.h).
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "oncilla/fabrics.h"

namespace ocm {

/// Same numbers as `ocm_fabric`.
enum class Fabric : uint8_t {
  kAny = 0,
#define OCM_LINE(CONSTANT, Name, name, number, offered) k##Name = number,
  OCM_FABRICS(OCM_LINE)
#undef OCM_LINE
};

struct FabricName {
  Fabric fabric;
  const char* name;
  bool offered;  // to users; others are inside one process, for tests
};

inline constexpr FabricName kFabrics[] = {
#define OCM_LINE(CONSTANT, Name, name, number, offered) {Fabric::k##Name, #name, (offered) != 0},
    OCM_FABRICS(OCM_LINE)
#undef OCM_LINE
};
inline constexpr size_t kFabricsCount = std::size(kFabrics);

/// "any", its name, or "?" for a number that is none.
constexpr const char* fabric_name(Fabric fabric) {
  if (fabric == Fabric::kAny) return "any";
  for (const FabricName& line : kFabrics) {
    if (line.fabric == fabric) return line.name;
  }
  return "?";
}
/// True for kAny too.
constexpr bool is_fabric(uint64_t number) {
  if (number == 0) return true;
  for (const FabricName& line : kFabrics) {
    if (number == static_cast<uint64_t>(line.fabric)) return true;
  }
  return false;
}
/// kAny for a name that is none's.
constexpr Fabric fabric_named(std::string_view name) {
  for (const FabricName& line : kFabrics) {
    if (name == line.name) return line.fabric;
  }
  return Fabric::kAny;
}
/// What users choose among, in the order of the list.
inline std::vector<std::string> offered_fabrics() {
  std::vector<std::string> out;
  for (const FabricName& line : kFabrics) {
    if (line.offered) out.emplace_back(line.name);
  }
  return out;
}

/// "shm,tcp" where `between` is ",".
inline std::string offered_fabrics(const char* between) {
  std::string out;
  for (const std::string& name : offered_fabrics()) out += (out.empty() ? "" : between) + name;
  return out;
}

constexpr bool fabrics_are_distinct() {
  for (size_t i = 0; i < kFabricsCount; ++i) {
    if (kFabrics[i].fabric == Fabric::kAny || static_cast<unsigned>(kFabrics[i].fabric) > 31) return false;
    for (size_t j = 0; j < i; ++j) {
      if (kFabrics[i].fabric == kFabrics[j].fabric) return false;
    }
  }
  return true;
}
static_assert(fabrics_are_distinct(),
              "a fabric's number is 1 to 31 and its own: placement keeps a bit for each");

constexpr bool fabrics_have_names() {
  for (const FabricName& line : kFabrics) {
    if (fabric_named(line.name) != line.fabric) return false;
  }
  return fabric_named(fabric_name(Fabric::kAny)) == Fabric::kAny;
}
static_assert(fabrics_have_names(), "a fabric's name is its own, and not that of kAny");

}  // namespace ocm
