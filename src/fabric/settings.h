// What a fabric can be told.
//
// A key named kEnabled decides whether a daemon serves the fabric at all; its flag is the fabric's name alone.
#pragma once

#include <string_view>

#include "base/fabrics.h"
#include "base/settings.h"

namespace ocm::fabric {

using Settings = SettingsOf<Fabric>;

inline constexpr std::string_view kEnabled = "enabled";
/// Of every fabric that has it: connections to one home, over which operations are spread.
inline constexpr std::string_view kLanes = "lanes";

}  // namespace ocm::fabric
