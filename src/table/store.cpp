#include "table/store.h"

#include <algorithm>
#include <cstdio>

#include "base/kinds.h"
#include "os/crypto.h"
#include "table/loader.h"
#include "table/names.h"

namespace ocm::table {
namespace {

constexpr int kPublishTriesMax = 1000;  // each time somebody else was first

LoadOptions load_options(const ocm_table_options& options) {
  LoadOptions load;
  if (options.placement != OCM_TABLE_BY_DEFAULT) load.placement = options.placement;
  if (options.group_rows != 0) load.group_rows = options.group_rows;
  if (options.group_bytes != 0) load.group_bytes = options.group_bytes;
  load.compact = (options.flags & OCM_TABLE_COMPACT) != 0;
  load.pack = (options.flags & OCM_TABLE_PACK) != 0;
  load.progress = options.progress;
  load.context = options.context;
  return load;
}

uint64_t random_number() {
  uint64_t number = 0;
  os::fill_random(std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

Status publish_first(ocm_session* session, const std::string& name, const Allocation& segment,
                     const ocm_table_options& options) {
  for (int tried = 0; tried < kPublishTriesMax; ++tried) {
    const Status status = status_of(ocm_allocation_publish(segment.get(), name.c_str(), options.mode));
    if (status.code() != Code::kExists || (options.flags & OCM_TABLE_REPLACE) == 0) return status;
    const Status removed = remove_table(session, name).name;
    if (!removed.is_ok() && removed.code() != Code::kNotFound) return removed;
  }
  return Status(Code::kExists, "another program took the name each of the " +
                                   std::to_string(kPublishTriesMax) +
                                   " times that its table was removed: replace it when no other does");
}

/// The number after the last appended segment's.
Result<uint32_t> next_number(ocm_session* session, const std::string& name, uint64_t table,
                             uint32_t owner_uid) {
  OCM_TRY_ASSIGN(const Owners owners, owners_of_appended(session, name, table));
  uint32_t next = 1;
  for (const auto& [number, uid] : owners) {
    if (counts(owner_uid, uid)) next = number + 1;
  }
  return next;
}

/// The nodes with the catalogue of the first segment, which every reader of the table needs. A name is known from the homes
/// that have a part of what it names: with its own catalogue there, too, no appended segment is forgotten before the table
/// is, and one whose rows are gone is missed.
Result<std::vector<std::string>> nodes_of_catalogue(const HeldSegment& first, const Catalogue& catalogue) {
  std::vector<std::string> nodes;
  ocm_allocation_info whole = OCM_ALLOCATION_INFO_INIT;
  OCM_TRY(status_of(ocm_allocation_query(first.allocation.get(), &whole)));
  for (uint32_t i = whole.extents - std::min(whole.extents, catalogue.replicas); i < whole.extents; ++i) {
    ocm_extent_info info = OCM_EXTENT_INFO_INIT;
    OCM_TRY(status_of(ocm_allocation_extent_query(first.allocation.get(), i, &info)));
    if (!info.lost) nodes.emplace_back(info.node);
  }
  return nodes;
}

/// What the coordinator decides again when the rows are published: known before they are moved.
Status check_appender(const HeldSegment& first) {
  if (first.reader_uid == 0 || first.reader_uid == first.owner_uid) return {};
  char mode[8];
  std::snprintf(mode, sizeof(mode), "%04o", first.mode & 0777u);
  return Status(Code::kPermission, "uid " + std::to_string(first.reader_uid) +
                                       " may not append: the table belongs to uid " +
                                       std::to_string(first.owner_uid) + " (mode " + mode +
                                       "), and its owner and root alone append, whatever the mode");
}

/// Gives the segment the first free number; the name that it got.
Result<std::string> publish_appended(ocm_session* session, const std::string& name, const Allocation& segment,
                                     uint64_t table, const HeldSegment& first) {
  OCM_TRY_ASSIGN(uint32_t number, next_number(session, name, table, first.owner_uid));
  for (int tried = 0; tried < kPublishTriesMax; ++tried, ++number) {
    const std::string published = segment_name(name, {table, number});
    const Status status = status_of(ocm_allocation_publish(segment.get(), published.c_str(), first.mode));
    if (status.is_ok()) return published;
    if (status.code() != Code::kExists) return status;
  }
  return Status(Code::kExists,
                "other programs appended first, " + std::to_string(kPublishTriesMax) + " times: try again")
      .with_subject(Subject::kSegment, segment_name(name, {table, number}));
}

}  // namespace

Status create_table(ocm_session* session, const char* name, ArrowArrayStream* stream,
                    const ocm_table_options& given_options) {
  Source source(stream);
  ocm_table_options options = given_options;
  const bool durable = (options.flags & OCM_TABLE_DURABLE) != 0;
  if (options.kind == -1) options.kind = static_cast<int32_t>(durable ? kDurableKind : kDefaultKind);
  OCM_TRY(check_table_name(name));
  OCM_TRY_ASSIGN(const std::optional<Published> taken, find_name(session, name));
  if (taken && (options.flags & OCM_TABLE_REPLACE) == 0)
    return Status(Code::kExists, "the name is taken: drop it, or replace it");
  OCM_TRY_ASSIGN(const Field given, source.read_schema());
  OCM_TRY_ASSIGN(const Placer placer, Placer::make(session, options));
  const uint64_t table = random_number();
  LoadOptions load = load_options(options);
  // Rows that may lie anywhere are dealt out anew by each append, from its own node on.
  const bool anywhere = load.placement == OCM_TABLE_BY_ROWS && options.nodes_count == 0 &&
                        (options.flags & OCM_TABLE_REMOTE) == 0;
  if (!anywhere) load.nodes = placer.ring();
  Loader loader(session, source, placer, load);
  OCM_TRY(loader.load(given, nullptr, table));
  OCM_TRY_ASSIGN(const Allocation segment, loader.finish());
  // They had the name before it is published here: nobody can have it again.
  OCM_TRY_ASSIGN(const std::vector<std::string> leftovers, appended_names(session, name));
  OCM_TRY(publish_first(session, name, segment, options));
  for (const std::string& one : leftovers) (void)ocm_name_remove(session, one.c_str());
  return {};
}

Status append_table(ocm_session* session, const char* name, ArrowArrayStream* stream,
                    const ocm_table_options& given_options) {
  Source source(stream);
  OCM_TRY(check_table_name(name));
  OCM_TRY_ASSIGN(const HeldSegment first, hold_segment(session, name));
  OCM_TRY(check_appender(first));
  OCM_TRY_ASSIGN(const Catalogue catalogue, read_catalogue(first));
  OCM_TRY_ASSIGN(const Field given, source.read_schema());
  ocm_table_options options = given_options;  // what it leaves open is the table's
  if (options.placement == OCM_TABLE_BY_DEFAULT) options.placement = catalogue.placement;
  if (options.replicas == 0) options.replicas = catalogue.replicas;
  if (options.kind == -1) options.kind = static_cast<int32_t>(catalogue.kind);
  if (catalogue.durable) options.flags |= OCM_TABLE_DURABLE;
  OCM_TRY_ASSIGN(const Placer placer, Placer::make(session, options, catalogue.nodes));
  LoadOptions load = load_options(options);
  load.nodes = catalogue.nodes;
  load.pack |= catalogue.packed;
  OCM_TRY_ASSIGN(load.catalogue_on, nodes_of_catalogue(first, catalogue));
  Loader loader(session, source, placer, load);
  OCM_TRY(loader.load(given, &catalogue.schema, catalogue.table));
  OCM_TRY_ASSIGN(const Allocation segment, loader.finish());
  OCM_TRY_ASSIGN(const std::string published,
                 publish_appended(session, name, segment, catalogue.table, first));
  // A drop meanwhile may not have seen the new segment.
  const Result<HeldSegment> now = hold_segment(session, name);
  const bool gone =
      now.is_ok() ? now.value().footer.table != catalogue.table : now.status().code() == Code::kNotFound;
  if (!gone) return {};
  (void)ocm_name_remove(session, published.c_str());
  return Status(Code::kNotFound, "it was dropped while rows were appended");
}

}  // namespace ocm::table
