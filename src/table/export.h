// Rows of a held row group as an Arrow array, without copying.
//
// Every array, and each child that a consumer moved out, keeps the memory that it points into and the scan's
// end (whose last reference calls the `released` callback).
#pragma once

#include <oncilla/table.h>

#include <memory>

#include "table/fetch.h"

namespace ocm::table {

/// What every array of a scan keeps: the table, and the callback at the very end.
struct ScanLife {
  std::shared_ptr<Table> table;
  void (*released)(void* context) = nullptr;
  void* context = nullptr;

  ScanLife() = default;
  ScanLife(const ScanLife&) = delete;
  ScanLife& operator=(const ScanLife&) = delete;
  ~ScanLife() {
    table.reset();
    if (released != nullptr) released(context);
  }
};

/// A struct array of the columns' rows [first, first + rows) of the group.
void export_rows(const std::shared_ptr<ScanLife>& life, const HeldGroup& held,
                 const std::vector<uint32_t>& columns, uint64_t first, uint64_t rows, ArrowArray* out);

}  // namespace ocm::table
