// ocm:// for Arrow: the file system of cluster memory as a factory in libarrow's registry, so that no Python
// is in the data path. Loading this library registers it; pyarrow.fs.FileSystem.from_uri then makes it.
//
//   ocm:///?socket=PATH&nodes=NODE,NODE&replicas=N&mode=OCTAL      all optional
//
// pyarrow wraps the types that it knows; so what comes out stands under an empty base path of its
// SubTreeFileSystem. One translation unit, since Arrow's headers are the cost of compiling this.
#include <arrow/util/config.h>
#include <arrow/util/uri.h>

#include <charconv>

#include "filesystem.h"

namespace ocm::arrowfs {
namespace {

arrow::Result<uint32_t> number(const std::string& key, const std::string& text, int base, uint32_t max) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size() || value > max) {
    return arrow::Status::Invalid("ocm://: ", key, "=", text, " is not a number up to ", max);
  }
  return value;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> items;
  for (size_t first = 0; first <= text.size();) {
    const size_t comma = std::min(text.find(',', first), text.size());
    if (comma > first) items.push_back(text.substr(first, comma - first));
    first = comma + 1;
  }
  return items;
}

arrow::Result<std::shared_ptr<arrow::fs::FileSystem>> make(const arrow::fs::Uri& uri,
                                                           const arrow::io::IOContext& context,
                                                           std::string* out_path) {
  constexpr uint32_t kReplicasMax = 64;
  constexpr uint32_t kModeMax = 0666;
  std::string socket;
  Placement placement;
  ARROW_ASSIGN_OR_RAISE(const auto items, uri.query_items());
  for (const auto& [key, value] : items) {
    if (key == "socket") {
      socket = value;
    } else if (key == "nodes") {
      placement.nodes = split(value);
    } else if (key == "replicas") {
      ARROW_ASSIGN_OR_RAISE(placement.replicas, number(key, value, 10, kReplicasMax));
    } else if (key == "mode") {
      ARROW_ASSIGN_OR_RAISE(placement.mode, number(key, value, 8, kModeMax));
    } else {
      return arrow::Status::Invalid("ocm://: unknown option ", key,
                                    "; there are socket, nodes, replicas and mode");
    }
  }
  if (!uri.username().empty() || !uri.password().empty() || !uri.port_text().empty()) {
    return arrow::Status::Invalid("ocm://: what has ':' or '@' before its first '/' is written ocm:///PATH");
  }
  if (out_path != nullptr) *out_path = stripped(uri.host() + uri.path());
  auto files = std::make_shared<OcmFileSystem>(std::move(socket), std::move(placement), context);
  return std::make_shared<arrow::fs::SubTreeFileSystem>("", std::move(files));
}

const arrow::fs::FileSystemRegistrar registrar = ARROW_REGISTER_FILESYSTEM("ocm", make, {});

}  // namespace
}  // namespace ocm::arrowfs

extern "C" {
/// Bytes that reads of this process moved from other nodes through this library.
__attribute__((visibility("default"))) uint64_t oncilla_arrowfs_bytes_moved(void) {
  return ocm::arrowfs::bytes_moved.load();
}
}
