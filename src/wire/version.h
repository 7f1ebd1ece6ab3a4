// Which version two sides of a connection speak: each tells a range, and the features that it has; they use the highest
// version that both know. Who tells one version alone is a range of one.
//
// A version is of what messages mean and where things stand in them. Fields of messages may be added at any time. What
// another node or program must know before one may do it is a feature: `features_all` of the view has those that every
// node has (control/membership.h, M4).
//
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "control.pb.h"

namespace ocm::wire {

/// What one side knows.
struct Versions {
  uint32_t min = 0, max = 0;
  uint64_t features = 0;  // one bit each
  bool operator==(const Versions&) const = default;
};
/// What both do.
struct Agreed {
  uint32_t version = 0;
  uint64_t features = 0;
  bool operator==(const Agreed&) const = default;
};

/// Features of daemons.
inline constexpr uint64_t kNotesNames = 1;  // as a voter: control/notes.h

/// Of control messages, and of the tables that programs map (fabric/shm/tables.h). A daemon speaks the last version, too:
/// so nodes are upgraded one after the other.
inline constexpr Versions kControlVersions{.min = 8, .max = 8, .features = kNotesNames};
static_assert(kControlVersions.max - kControlVersions.min <= 1);
/// Of the data frames after the hello.
inline constexpr Versions kDataVersions{.min = 1, .max = 1, .features = 0};

/// `what`: has these versions, "control". Errors: kProtocol, whose text has both ranges (none in common, or `there` is no
/// range).
Result<Agreed> agree(std::string_view what, const Versions& here, const Versions& there);

Versions versions_from(const VersionRange& message);
void versions_to(const Versions& versions, VersionRange& out);
/// Of a hello.
template <class Hello>
Versions versions_of(const Hello& hello) {
  if (hello.has_versions()) return versions_from(hello.versions());
  return {.min = hello.version(), .max = hello.version()};
}
/// `version` is for a receiver that knows no ranges.
template <class Hello>
void tell_versions(const Versions& versions, Hello& hello) {
  hello.set_version(versions.min);
  versions_to(versions, *hello.mutable_versions());
}

}  // namespace ocm::wire
