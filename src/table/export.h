// Rows of a held row group as an Arrow array, without copying.
//
// Every array, and each child that a consumer moved out, keeps the memory that it points into and the scan's
// end (whose last reference calls the `released` callback).
#pragma once

#include <oncilla/table.h>

#include <memory>

#include "table/fetch.h"

namespace ocm::table {

/// The callback at the very end of a scan, after its table was let go. It may close the session.
struct ScanEnd {
  void (*released)(void* context) = nullptr;
  void* context = nullptr;

  ScanEnd() = default;
  ScanEnd(const ScanEnd&) = delete;
  ScanEnd& operator=(const ScanEnd&) = delete;
  ~ScanEnd() {
    if (released != nullptr) released(context);
  }
};
/// What every array of a scan keeps.
struct ScanLife {
  const std::shared_ptr<ScanEnd> end = std::make_shared<ScanEnd>();
  std::shared_ptr<Table> table;  // ends first
};

/// A struct array of the columns' rows [first, first + rows) of the group.
void export_rows(const std::shared_ptr<ScanLife>& life, const HeldGroup& held,
                 const std::vector<uint32_t>& columns, uint64_t first, uint64_t rows, ArrowArray* out);

}  // namespace ocm::table
