// A fault that happens each time, as long as it is on.
#pragma once

#include <atomic>

#include "base/fault.h"

namespace ocm::test {

/// What meets it ends before it does.
struct FaultSwitch final : fault::Hook {
  explicit FaultSwitch(fault::Point at) : point(at) { fault::install(this); }
  ~FaultSwitch() override { fault::install(nullptr); }
  bool happens(fault::Point at) override { return on && at == point; }
  void reached(fault::State) override {}
  const fault::Point point;
  std::atomic<bool> on{false};
};

}  // namespace ocm::test
