// How every command prints its JSON: indented, and valid whatever bytes names have.
#pragma once

#include <stdio.h>

#include <nlohmann/json.hpp>

namespace ocm::cli {

inline void put_json(const nlohmann::ordered_json& value) {
  puts(value.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

}  // namespace ocm::cli
