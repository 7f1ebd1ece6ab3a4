// Files as published allocations: found by path, listed, given a name and removed.
//
// Writing a path that has a file replaces it: the name is removed, then given anew. Readers that have the old
// file open keep it; one that opens it just between finds nothing.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "names.h"
#include "session.h"

namespace ocm::arrowfs {

struct File {
  std::string path;
  int64_t bytes = 0;
};

inline arrow::Result<std::string> name_of(const std::string& path) {
  const std::string name = escaped(stripped(path));
  if (name.empty() || name.find('\0') != std::string::npos) {
    return arrow::internal::IOErrorFromErrno(EINVAL, "ocm://", path,
                                             ": a file's path has bytes other than '/' and no NUL");
  }
  if (name.size() > kNameBytesMax) {
    return arrow::internal::IOErrorFromErrno(ENAMETOOLONG, "ocm://", path, ": needs ", name.size(),
                                             " bytes as a name, where '/' takes 3, and may have ",
                                             kNameBytesMax);
  }
  return name;
}

/// A file that was found. `attachment` is null for an empty one.
struct Found {
  bool exists = false;
  std::shared_ptr<const Attachment> attachment;
};
inline arrow::Result<Found> find(const std::shared_ptr<Session>& session, const std::string& path,
                                 ocm_access access = OCM_ACCESS_READ) {
  const arrow::Result<std::string> name = name_of(path);
  if (!name.ok()) return Found();
  for (const bool empty : {false, true}) {
    ocm_allocation* attached = nullptr;
    const std::string full = empty ? *name + std::string(kEmptyMark) : *name;
    const int code = ocm_allocation_attach(session->get(), full.c_str(), access, &attached);
    if (code == OCM_NOT_FOUND) continue;
    ARROW_RETURN_NOT_OK(checked(code, path));
    auto attachment = std::make_shared<const Attachment>(session, attached, stripped(path));
    ARROW_ASSIGN_OR_RAISE(const bool table, attachment->is_table());
    if (table) {
      return arrow::internal::IOErrorFromErrno(EINVAL, "ocm://", path,
                                               ": a table, not a file: see oncilla.Session.table()");
    }
    return Found{true, empty ? nullptr : std::move(attachment)};
  }
  return Found();
}

/// Every file whose path starts with `prefix`, in the order of names.
inline arrow::Result<std::vector<File>> list(const std::shared_ptr<Session>& session,
                                             const std::string& prefix) {
  struct Context {
    std::vector<File> files;
    std::vector<std::string> perhaps_tables;  // a table's name has no '/', and only sequences can be tables
  } found;
  const auto visit = [](const ocm_name_info* info, void* context) {
    std::string_view name = info->name;
    const bool empty = name.ends_with(kEmptyMark);
    if (empty) name.remove_suffix(kEmptyMark.size());
    auto& [files, perhaps_tables] = *static_cast<Context*>(context);
    const std::optional<std::string> path = unescaped(name);
    if (!path || (empty && !files.empty() && files.back().path == *path)) return true;
    if (info->layout == OCM_LAYOUT_SEQUENCE && !info->lost && path->find('/') == std::string::npos) {
      perhaps_tables.push_back(*path);
    }
    files.push_back({*path, empty ? 0 : static_cast<int64_t>(info->bytes)});
    return true;
  };
  ARROW_RETURN_NOT_OK(checked(ocm_name_list(session->get(), escaped(prefix).c_str(), visit, &found), prefix));
  for (const std::string& path : found.perhaps_tables) {
    if (find(session, path).ok()) continue;
    std::erase_if(found.files, [&](const File& file) { return file.path == path; });
  }
  return found.files;
}

/// True if a path lies under `folder`.
inline arrow::Result<bool> is_folder(const std::shared_ptr<Session>& session, const std::string& folder) {
  if (folder.empty()) return true;
  ARROW_ASSIGN_OR_RAISE(const std::vector<File> inside, list(session, folder + "/"));
  return !inside.empty();
}

/// False if there was none.
inline arrow::Result<bool> remove(const std::shared_ptr<Session>& session, const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(const std::string name, name_of(path));
  ARROW_RETURN_NOT_OK(find(session, path).status());  // not a table
  bool removed = false;
  for (const std::string& full : {name, name + std::string(kEmptyMark)}) {
    const int code = ocm_name_remove(session->get(), full.c_str());
    if (code != OCM_NOT_FOUND) ARROW_RETURN_NOT_OK(checked(code, path));
    removed = removed || code == OCM_OK;
  }
  return removed;
}

/// Gives `allocation` the path's name in place of what had it.
inline arrow::Status publish(const std::shared_ptr<Session>& session, ocm_allocation* allocation,
                             const std::string& path, bool empty, uint32_t mode) {
  constexpr int kAttemptsMax = 100;  // programs that write the same path at once take turns
  ARROW_ASSIGN_OR_RAISE(const std::string name, name_of(path));
  const std::string marked = name + std::string(kEmptyMark);
  const std::string& wanted = empty ? marked : name;
  const std::string& other = empty ? name : marked;
  if (empty) ARROW_RETURN_NOT_OK(find(session, path).status());  // not a table
  int code = OCM_EXISTS;
  for (int attempt = 0; attempt < kAttemptsMax && code == OCM_EXISTS; ++attempt) {
    if (attempt > 0) {
      ARROW_RETURN_NOT_OK(find(session, path).status());  // not a table
      code = ocm_name_remove(session->get(), wanted.c_str());
      if (code != OCM_NOT_FOUND) ARROW_RETURN_NOT_OK(checked(code, path));
    }
    code = ocm_allocation_publish(allocation, wanted.c_str(), mode);
  }
  ARROW_RETURN_NOT_OK(checked(code, path));
  code = ocm_name_remove(session->get(), other.c_str());
  return code == OCM_NOT_FOUND ? arrow::Status::OK() : checked(code, path);
}

}  // namespace ocm::arrowfs
