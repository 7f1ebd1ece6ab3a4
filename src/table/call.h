// Calls of the C ABI as statuses, and statuses that say which table they are about.
#pragma once

#include <oncilla/oncilla.h>

#include <string>

#include "base/status.h"
#include "capi/failure.h"

namespace ocm::table {

/// What a call of the C ABI returned, with the sentence and the node that it left.
inline Status status_of(int number) {
  if (number == OCM_OK) return {};
  return capi::last_failure(number);
}

/// "row group 3 of it: ..."; a good status stays good.
inline Status about(const std::string& what, const Status& status) {
  if (status.is_ok()) return status;
  return status.with_message(what + ": " + std::string(status.message()));
}
/// "table orders: ..."
inline Status about_table(std::string_view name, const Status& status) {
  if (status.is_ok()) return status;
  return about("table " + std::string(name), status).with_subject(Subject::kTable, name);
}
/// "column `price`: ..."
inline Status about_column(const std::string& name, const Status& status) {
  if (status.is_ok()) return status;
  return about("column `" + name + "`", status).with_subject(Subject::kColumn, name);
}

/// A pointer to memory of this host; null: it is elsewhere, or in pages that daemons cache, which are read and written faster
/// by copies, and can go away under a pointer. Errors: those of ocm_allocation_map, without kUnsupported.
inline Result<void*> plain_pointer(ocm_allocation* allocation, uint64_t offset, uint64_t bytes) {
  ocm_allocation_info info = OCM_ALLOCATION_INFO_INIT;
  OCM_TRY(status_of(ocm_allocation_query(allocation, &info)));
  if (info.kind != OCM_KIND_DRAM) return static_cast<void*>(nullptr);
  void* pointer = nullptr;
  const int result = ocm_allocation_map(allocation, offset, bytes, &pointer);
  if (result == OCM_UNSUPPORTED) return static_cast<void*>(nullptr);
  OCM_TRY(status_of(result));
  return pointer;
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
