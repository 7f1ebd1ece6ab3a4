#include "wire/version.h"

#include <algorithm>

#include "base/assert.h"

namespace ocm::wire {
namespace {

bool is_range(const Versions& versions) { return versions.min != 0 && versions.min <= versions.max; }

std::string text_of(const Versions& versions) {
  const std::string min = std::to_string(versions.min);
  return versions.min == versions.max ? min : min + " to " + std::to_string(versions.max);
}

}  // namespace

Result<Agreed> agree(std::string_view what, const Versions& here, const Versions& there) {
  OCM_ASSERT(is_range(here));
  const uint32_t version = std::min(here.max, there.max);
  if (!is_range(there) || version < std::max(here.min, there.min)) {
    return Status(Code::kProtocol, std::string(what) + " version " + text_of(there) + "; here " +
                                       text_of(here) + ": update the older side");
  }
  return Agreed{.version = version, .features = here.features & there.features};
}

Versions versions_from(const VersionRange& message) {
  return {.min = message.min(), .max = message.max(), .features = message.features()};
}

void versions_to(const Versions& versions, VersionRange& out) {
  out.set_min(versions.min);
  out.set_max(versions.max);
  out.set_features(versions.features);
}

}  // namespace ocm::wire
