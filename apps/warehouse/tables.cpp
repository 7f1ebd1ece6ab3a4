#include "apps/warehouse/tables.h"

#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "tools/session.h"
#include "tools/signals.h"

namespace ocm::warehouse {
namespace {

/// The node that the session is on.
Result<std::string> own_node(ocm_session* session) {
  OCM_TRY_ASSIGN(const std::vector<ocm_node_info> nodes, tools::list_nodes(session));
  for (const ocm_node_info& node : nodes) {
    if (node.self) return std::string(node.name);
  }
  return Status(Code::kUnknownNode, "the daemon does not say which node it is");
}

}  // namespace

Status write_table(ocm_session* session, const std::string& name, Stream source, const Writing& writing) {
  std::vector<std::string> nodes = writing.nodes;
  if (nodes.empty() && !writing.remote) {
    OCM_TRY_ASSIGN(std::string own, own_node(session));
    nodes.push_back(std::move(own));
  }
  std::vector<const char*> names;
  for (const std::string& node : nodes) names.push_back(node.c_str());
  ocm_table_options options = OCM_TABLE_OPTIONS_INIT;
  options.nodes = names.empty() ? nullptr : names.data();
  options.nodes_count = names.size();
  options.replicas = writing.replicas;
  options.group_rows = writing.chunk_rows;
  options.flags = OCM_TABLE_COMPACT;
  if (writing.packed) options.flags |= OCM_TABLE_PACK;
  if (writing.replace) options.flags |= OCM_TABLE_REPLACE;
  if (nodes.empty()) options.flags |= OCM_TABLE_REMOTE;
  options.progress = [](uint64_t rows, uint64_t bytes, void* context) {
    const auto* to = static_cast<const Writing*>(context);
    if (to->progress) to->progress(rows, bytes);
    return !tools::interrupted();
  };
  options.context = const_cast<Writing*>(&writing);  // only read
  ArrowArrayStream raw = source.take();
  return tools::checked(ocm_table_create(session, name.c_str(), &raw, &options));
}

Result<Table> Table::open(ocm_session* session, const std::string& name) {
  Table table;
  table.name_ = name;
  ocm_table* raw = nullptr;
  OCM_TRY(tools::checked(ocm_table_open(session, name.c_str(), &raw)));
  table.table_.reset(raw);
  OCM_TRY(tools::checked(ocm_table_schema_query(raw, table.schema_.get())));
  return table;
}

Result<std::vector<uint32_t>> Table::indices(const std::vector<std::string>& columns) const {
  std::vector<uint32_t> found;
  for (const std::string& column : columns) {
    ArrowSchema** const begin = schema_->children;
    ArrowSchema** const end = begin + schema_->n_children;
    const auto at = std::find_if(begin, end, [&](const ArrowSchema* child) { return column == child->name; });
    if (at == end) return Status(Code::kNotFound, "table " + name_ + " has no column " + column);
    found.push_back(static_cast<uint32_t>(at - begin));
  }
  return found;
}

Result<Stream> Table::scan(const std::vector<std::string>& columns, const Reading& reading) const {
  OCM_TRY_ASSIGN(const std::vector<uint32_t> wanted, indices(columns));
  ocm_scan_options options = OCM_SCAN_OPTIONS_INIT;
  options.columns = wanted.data();
  options.columns_count = wanted.size();
  options.batch_rows = reading.batch_rows;
  options.prefetch_groups = reading.prefetch_groups;
  Stream stream;
  OCM_TRY(tools::checked(ocm_table_scan(table_.get(), &options, stream.get())));
  return stream;
}

ocm_table_info Table::info() const {
  ocm_table_info info = OCM_TABLE_INFO_INIT;
  OCM_ASSERT(ocm_table_query(table_.get(), &info) == 0);
  return info;
}

Result<Table::Needed> Table::needed(const std::vector<std::string>& columns) const {
  OCM_TRY_ASSIGN(const std::vector<uint32_t> wanted, indices(columns));
  Needed needed;
  for (uint32_t group = 0; group < info().groups; ++group) {
    for (const uint32_t column : wanted) {
      ocm_table_chunk chunk = OCM_TABLE_CHUNK_INIT;
      OCM_TRY(tools::checked(ocm_table_chunk_query(table_.get(), group, column, &chunk)));
      needed.bytes += chunk.bytes;
      if (!chunk.local) needed.remote_bytes += chunk.bytes;
    }
  }
  return needed;
}

Result<Table::Needed> Table::needed() const {
  std::vector<std::string> columns;
  for (int64_t i = 0; i < schema_->n_children; ++i) columns.push_back(schema_->children[i]->name);
  return needed(columns);
}

Result<std::vector<std::string>> Table::nodes() const {
  std::vector<std::string> nodes;
  for (uint32_t group = 0; group < info().groups; ++group) {
    ocm_table_chunk chunk = OCM_TABLE_CHUNK_INIT;
    OCM_TRY(tools::checked(ocm_table_chunk_query(table_.get(), group, 0, &chunk)));
    if (std::find(nodes.begin(), nodes.end(), chunk.node) == nodes.end()) nodes.push_back(chunk.node);
  }
  return nodes;
}

std::string Scratch::add(const std::string& output) {
  static std::atomic<uint64_t> serial{0};
  names_.emplace_back(output, "warehouse-" + std::to_string(getpid()) + "-" +
                                  std::to_string(serial.fetch_add(1)) + "-" + output);
  return names_.back().second;
}

std::string Scratch::find(const std::string& output) const {
  for (const auto& [known, name] : names_) {
    if (known == output) return name;
  }
  return "";
}

void Scratch::drop() {
  for (const auto& [output, name] : names_) {
    // One that was not completed has no name to drop; one on a lost node is gone with it.
    static_cast<void>(ocm_table_drop(session_, name.c_str()));
  }
  names_.clear();
}

}  // namespace ocm::warehouse
