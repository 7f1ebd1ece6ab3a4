// Calls of the C ABI as statuses, and statuses that say which table they are about.
#pragma once

#include <oncilla/oncilla.h>

#include <string>

#include "base/status.h"

namespace ocm::table {

/// What a call of the C ABI returned, with the sentence that it left.
inline Status status_of(int number) {
  if (number == OCM_OK) return {};
  return Status(static_cast<Code>(number), ocm_last_error());
}

/// "table orders: ..."; a good status stays good.
inline Status about(const std::string& what, const Status& status) {
  if (status.is_ok()) return status;
  return Status(status.code(), what + ": " + std::string(status.message()));
}

/// Frees an unpublished or attached allocation when it goes.
class Allocation {
 public:
  Allocation() = default;
  explicit Allocation(ocm_allocation* handle) : handle_(handle) {}
  Allocation(Allocation&& other) noexcept : handle_(other.release()) {}
  Allocation& operator=(Allocation&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  ~Allocation() {
    if (handle_ != nullptr) (void)ocm_allocation_free(handle_);
  }
  ocm_allocation* get() const { return handle_; }
  ocm_allocation* release() { return std::exchange(handle_, nullptr); }

 private:
  ocm_allocation* handle_ = nullptr;
};

}  // namespace ocm::table
