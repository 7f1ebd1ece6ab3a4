// What this process writes to its log, on stderr, while one of these lives.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/log.h"

namespace ocm::test {

class LogLines {
 public:
  LogLines() {
    log::configure(log::Level::kWarn, log::Format::kLogfmt);
    testing::internal::CaptureStderr();
  }
  /// Ends it. Those of this event.
  std::vector<std::string> of(const std::string& event) {
    const std::string all = testing::internal::GetCapturedStderr();
    log::configure(log::Level::kOff, log::Format::kLogfmt);
    std::vector<std::string> out;
    for (size_t begin = 0; begin < all.size();) {
      const size_t end = std::min(all.find('\n', begin), all.size());
      const std::string line = all.substr(begin, end - begin);
      if (line.find(event) != std::string::npos) out.push_back(line);
      begin = end + 1;
    }
    return out;
  }
};

}  // namespace ocm::test
