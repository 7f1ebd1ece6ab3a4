// The functions of table.h: arguments checked, handles looked up, statuses made numbers.
#include <algorithm>
#include <cstring>

#include "base/ids.h"
#include "base/kinds.h"
#include "capi/call.h"
#include "table/fork.h"
#include "table/scan.h"
#include "table/store.h"

namespace ocm::table {

Tables tables;

namespace {

using capi::bits;
using capi::fail;
using capi::finish;

/// The table behind a handle; null and the last error set if there is none.
std::shared_ptr<Table> find(const ocm_table* handle) {
  if (TableObject* object = tables.find(bits(handle))) {
    std::shared_ptr<Table> table = object->get();
    // The slot may have been closed, and used again, before its table was taken.
    if (table != nullptr && tables.find(bits(handle)) == object) return table;
  }
  (void)capi::fail_handle(tables.why(bits(handle)), "table");
  return nullptr;
}
int no_table(const ocm_table* handle) { return static_cast<int>(tables.why(bits(handle))); }

Status read_options(const ocm_table_options* given, ocm_table_options& options) {
  constexpr uint32_t kFlags =
      OCM_TABLE_COMPACT | OCM_TABLE_REPLACE | OCM_TABLE_REMOTE | OCM_TABLE_PACK | OCM_TABLE_DURABLE;
  static_assert(
      kFlags == OCM_TABLE_COMPACT + OCM_TABLE_REPLACE + OCM_TABLE_REMOTE + OCM_TABLE_PACK + OCM_TABLE_DURABLE,
      "each flag is a bit of its own");
  options = OCM_TABLE_OPTIONS_INIT;
  if (given != nullptr) OCM_TRY(capi::read_sized(*given, options));
  if (capi::number_in(options.placement) > OCM_TABLE_BY_DEFAULT)
    return capi::unknown_value("placement", capi::number_in(options.placement), "ocm_table_placement");
  if ((options.flags & ~kFlags) != 0) return capi::unknown_flags(options.flags & ~kFlags, "OCM_TABLE_");
  if (options.nodes_count > 0 && options.nodes == nullptr)
    return Status(Code::kInvalidArgument, "`nodes` is null");
  if ((options.mode & ~0666u) != 0) return Status(Code::kInvalidArgument, "`mode` has bits other than 0666");
  if (options.kind != -1 && (options.kind < 0 || !is_kind(static_cast<uint32_t>(options.kind))))
    return Status(Code::kInvalidArgument, "`kind` is " + std::to_string(options.kind) +
                                              ", which is neither -1 nor a value of ocm_kind")
        .with_subject(Subject::kOption, "kind");
  if (options.replicas > kReplicasMax)
    return Status(Code::kInvalidArgument, "`replicas` is " + std::to_string(options.replicas) + "; at most " +
                                              std::to_string(kReplicasMax) + " are possible")
        .with_subject(Subject::kOption, "replicas");
  return {};
}

using Store = Status (*)(ocm_session*, const char*, ArrowArrayStream*, const ocm_table_options&);

/// The stream is released whatever happens.
int store(ocm_session* session, const char* name, ArrowArrayStream* source, const ocm_table_options* given,
          Store how) {
  return capi::guarded([&] {
    if (source == nullptr || source->release == nullptr)
      return fail(Code::kInvalidArgument, "`source` is null or was released");
    const auto refuse = [&](const Status& status) {
      if (source->release != nullptr) source->release(source);
      return fail(status);
    };
    const Result<std::shared_ptr<SessionState>> state = state_of(session);
    if (!state.is_ok()) return refuse(state.status());
    ocm_table_options options;
    if (const Status status = read_options(given, options); !status.is_ok()) return refuse(status);
    return finish(about_table(name != nullptr ? name : "", how(session, name, source, options)));
  });
}

uint64_t chunk_bytes(const Catalogue& catalogue, const Chunk& chunk) {
  uint64_t bytes = 0;
  for (const uint64_t one : chunk.buffers) bytes += one;
  for (const uint32_t number : chunk.dictionaries) {
    OCM_DASSERT(number < catalogue.dictionaries.size());  // C3
    bytes += chunk_bytes(catalogue, catalogue.dictionaries[number].chunk);
  }
  return bytes;
}

/// Every buffer once, dictionaries too.
uint64_t stored_bytes(const Table& table) {
  uint64_t bytes = 0;
  const auto add = [&](const Chunk& chunk) {
    for (const uint64_t one : chunk.buffers) bytes += one;
  };
  for (const Segment& segment : table.segments()) {
    for (const Dictionary& dictionary : segment.catalogue.dictionaries) add(dictionary.chunk);
    for (const Group& group : segment.catalogue.groups) {
      for (const Column& column : group.columns) add(column.chunk);
    }
  }
  return bytes;
}

Status query_chunk(const Table& table, uint32_t group, uint32_t column, ocm_table_chunk& out) {
  if (group >= table.groups().size() || column >= table.schema().children.size()) {
    return Status(Code::kOutOfRange, "row group " + std::to_string(group) + " and column " +
                                         std::to_string(column) + " are asked for; the table has " +
                                         std::to_string(table.groups().size()) + " row groups and " +
                                         std::to_string(table.schema().children.size()) +
                                         " columns, counted from 0");
  }
  const GroupPlace& place = table.groups()[group];
  const Segment& segment = table.segment_of(place);
  const Column& stored = table.group_of(place).columns[column];
  OCM_DASSERT(stored.chunk.nulls.at(0) <= stored.chunk.lengths.at(0));  // C2
  out = {};
  out.first_row = place.first_row;
  out.rows = table.group_of(place).rows;
  out.bytes = chunk_bytes(segment.catalogue, stored.chunk);
  out.nulls = stored.chunk.nulls[0];
  out.bounds = stored.bounds.kind;
  out.minimum = stored.bounds.minimum;
  out.maximum = stored.bounds.maximum;
  // Indices of no bits have no place of their own: where their dictionary is.
  const Chunk* placed = &stored.chunk;
  while (placed->bytes() == 0 && !placed->dictionaries.empty())
    placed = &segment.catalogue.dictionaries[placed->dictionaries.front()].chunk;
  if (placed->bytes() == 0) {
    out.local = true;
    return {};
  }
  ocm_extent_info info;
  OCM_TRY(table.locate(segment, placed->offset, info));
  out.local = segment.local(placed->offset) != nullptr;
  out.lost = info.lost;
  static_assert(sizeof(out.node) == sizeof(info.node));
  std::memcpy(out.node, info.node, sizeof(out.node));
  return {};
}

int scan(const std::shared_ptr<Table>& table, const ocm_scan_options* given, ArrowArrayStream* stream) {
  ocm_scan_options options = OCM_SCAN_OPTIONS_INIT;
  if (given != nullptr) {
    if (const Status status = capi::read_sized(*given, options); !status.is_ok()) return fail(status);
  }
  Result<ScanPlan> plan = plan_scan(*table, options);
  if (!plan.is_ok()) return fail(about_table(table->name(), plan.status()));
  auto life = std::make_shared<ScanLife>();
  life->table = table;
  start_scan(life, std::move(*plan), stream);
  // From here on the end of the stream is the end of the scan.
  life->end->released = options.released;
  life->end->context = options.context;
  return OCM_OK;
}

}  // namespace
}  // namespace ocm::table

using namespace ocm;         // NOLINT: the C ABI of this very namespace
using namespace ocm::table;  // NOLINT

extern "C" {

int ocm_table_create(ocm_session* session, const char* name, ArrowArrayStream* source,
                     const ocm_table_options* options) {
  return store(session, name, source, options, create_table);
}

int ocm_table_append(ocm_session* session, const char* name, ArrowArrayStream* source,
                     const ocm_table_options* options) {
  return store(session, name, source, options, append_table);
}

int ocm_table_drop(ocm_session* session, const char* name) {
  return capi::guarded([&] {
    if (const auto state = state_of(session); !state.is_ok()) return fail(state.status());
    if (const Status status = check_table_name(name); !status.is_ok()) return fail(status);
    const RemovedTable removed = remove_table(session, name);
    return finish(about_table(name, removed.name.is_ok() ? removed.appended : removed.name));
  });
}

int ocm_table_test(ocm_allocation* allocation) {
  return capi::guarded([&] {
    ocm_allocation_info info = OCM_ALLOCATION_INFO_INIT;
    if (const int known = ocm_allocation_query(allocation, &info); known != OCM_OK) return known;
    if (info.layout != OCM_LAYOUT_SEQUENCE || info.bytes < kFooterBytes) return 0;
    std::byte footer[kFooterBytes];
    if (const int got = ocm_get(allocation, info.bytes - kFooterBytes, footer, kFooterBytes); got != OCM_OK)
      return got;
    return is_footer(footer) ? 1 : 0;
  });
}

int ocm_table_open(ocm_session* session, const char* name, ocm_table** table) {
  return capi::guarded([&] {
    if (table == nullptr) return fail(Code::kInvalidArgument, "`table` is null");
    if (const auto state = state_of(session); !state.is_ok()) return fail(state.status());
    if (const Status status = check_table_name(name); !status.is_ok()) return fail(status);
    Result<std::shared_ptr<Table>> opened = Table::open(session, name);
    if (!opened.is_ok()) return fail(about_table(name, opened.status()));
    const Tables::Reserved slot = tables.reserve();
    if (slot.object == nullptr) return fail(Code::kLimit, "too many open tables in this process");
    slot.object->set(std::move(*opened));
    *table = capi::handle_of<ocm_table>(tables.publish(slot.index));
    return static_cast<int>(OCM_OK);
  });
}

int ocm_table_close(ocm_table* table) {
  return capi::guarded([&] {
    TableObject* object = tables.retire(bits(table));
    if (object == nullptr) return capi::fail_handle(tables.why(bits(table)), "table");
    object->set(nullptr);
    tables.release(Tables::index_of(bits(table)));
    return static_cast<int>(OCM_OK);
  });
}

int ocm_table_query(const ocm_table* table, ocm_table_info* info) {
  return capi::guarded([&] {
    const std::shared_ptr<Table> object = find(table);
    if (object == nullptr) return no_table(table);
    if (info == nullptr) return fail(Code::kInvalidArgument, "`info` is null");
    ocm_table_info out{};
    out.rows = object->rows();
    out.bytes = stored_bytes(*object);
    out.bytes_moved = object->bytes_moved().load(std::memory_order_relaxed);
    out.columns = static_cast<uint32_t>(object->schema().children.size());
    out.groups = static_cast<uint32_t>(object->groups().size());
    out.segments = static_cast<uint32_t>(object->segments().size());
    out.replicas = object->replicas();
    out.placement = object->segments().front().catalogue.placement;
    out.id = object->id();
    out.kind = static_cast<ocm_kind>(object->segments().front().catalogue.kind);
    out.version = object->version();
    return finish(capi::write_sized(out, info));
  });
}

int ocm_table_schema_query(const ocm_table* table, ArrowSchema* schema) {
  return capi::guarded([&] {
    const std::shared_ptr<Table> object = find(table);
    if (object == nullptr) return no_table(table);
    if (schema == nullptr) return fail(Code::kInvalidArgument, "`schema` is null");
    export_schema(object->schema(), schema);
    return static_cast<int>(OCM_OK);
  });
}

int ocm_table_schema(const ocm_table* table, ArrowSchema* schema) {
  return ocm_table_schema_query(table, schema);
}

int ocm_table_chunk_query(const ocm_table* table, uint32_t group, uint32_t column, ocm_table_chunk* chunk) {
  return capi::guarded([&] {
    const std::shared_ptr<Table> object = find(table);
    if (object == nullptr) return no_table(table);
    if (chunk == nullptr) return fail(Code::kInvalidArgument, "`chunk` is null");
    ocm_table_chunk out;
    const Status status = query_chunk(*object, group, column, out);
    if (!status.is_ok()) return fail(about_table(object->name(), status));
    return finish(capi::write_sized(out, chunk));
  });
}

int ocm_table_scan(ocm_table* table, const ocm_scan_options* options, ArrowArrayStream* stream) {
  return capi::guarded([&] {
    const std::shared_ptr<Table> object = find(table);
    if (object == nullptr) return no_table(table);
    if (stream == nullptr) return fail(Code::kInvalidArgument, "`stream` is null");
    return scan(object, options, stream);
  });
}

int ocm_table_cache_limit(ocm_session* session, uint64_t bytes) {
  return capi::guarded([&] {
    const auto state = state_of(session);
    if (!state.is_ok()) return fail(state.status());
    state.value()->cache.limit(bytes);
    return static_cast<int>(OCM_OK);
  });
}

int ocm_table_cache_query(ocm_session* session, ocm_table_cache_info* info) {
  return capi::guarded([&] {
    const auto state = state_of(session);
    if (!state.is_ok()) return fail(state.status());
    if (info == nullptr) return fail(Code::kInvalidArgument, "`info` is null");
    ocm_table_cache_info out{};
    state.value()->cache.query(out);
    return finish(capi::write_sized(out, info));
  });
}

int ocm_table_cache_clear(ocm_session* session) {
  return capi::guarded([&] {
    const auto state = state_of(session);
    if (!state.is_ok()) return fail(state.status());
    state.value()->cache.clear();
    return static_cast<int>(OCM_OK);
  });
}

}  // extern "C"
