// The file system: Arrow's interface over files in cluster memory.
//
// Folders exist while a file lies in them; making one does nothing. Nothing is known of times.
#pragma once

#include <arrow/filesystem/filesystem.h>

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "input_file.h"
#include "output_file.h"

namespace ocm::arrowfs {

class OcmFileSystem : public arrow::fs::FileSystem {
 public:
  OcmFileSystem(std::string socket, Placement placement, const arrow::io::IOContext& context)
      : FileSystem(context), socket_(std::move(socket)), placement_(std::move(placement)) {}

  std::string type_name() const override { return "ocm"; }
  bool Equals(const FileSystem& other) const override {
    if (this == &other) return true;
    if (other.type_name() != type_name()) return false;
    const auto& same = static_cast<const OcmFileSystem&>(other);
    return socket_ == same.socket_ && placement_.nodes == same.placement_.nodes &&
           placement_.replicas == same.placement_.replicas && placement_.mode == same.placement_.mode;
  }

  using FileSystem::GetFileInfo;
  arrow::Result<arrow::fs::FileInfo> GetFileInfo(const std::string& path) override;
  arrow::Result<arrow::fs::FileInfoVector> GetFileInfo(const arrow::fs::FileSelector& select) override;

  arrow::Status CreateDir(const std::string&, bool) override { return arrow::Status::OK(); }
  arrow::Status DeleteDir(const std::string& path) override { return DeleteDirContents(path, false); }
  arrow::Status DeleteDirContents(const std::string& path, bool missing_dir_ok) override;
  arrow::Status DeleteRootDirContents() override {
    return arrow::Status::NotImplemented(
        "every published name at once is not removed; remove folders or files");
  }
  arrow::Status DeleteFile(const std::string& path) override {
    ARROW_ASSIGN_OR_RAISE(const auto session, this->session());
    ARROW_ASSIGN_OR_RAISE(const bool removed, remove(session, path));
    return removed ? arrow::Status::OK() : not_found(path);
  }
  arrow::Status Move(const std::string& source, const std::string& target) override;
  arrow::Status CopyFile(const std::string& source, const std::string& target) override;

  arrow::Result<std::shared_ptr<arrow::io::InputStream>> OpenInputStream(const std::string& path) override {
    return OpenInputFile(path);
  }
  arrow::Result<std::shared_ptr<arrow::io::RandomAccessFile>> OpenInputFile(
      const std::string& path) override {
    ARROW_ASSIGN_OR_RAISE(const auto session, this->session());
    ARROW_ASSIGN_OR_RAISE(Found found, find(session, path, kHold));
    if (!found.exists) return not_found(path);
    return std::make_shared<InputFile>(std::move(found.attachment), io_context());
  }
  arrow::Result<std::shared_ptr<arrow::io::OutputStream>> OpenOutputStream(
      const std::string& path, const std::shared_ptr<const arrow::KeyValueMetadata>&) override {
    return open_output(path);
  }
  arrow::Result<std::shared_ptr<arrow::io::OutputStream>> OpenAppendStream(
      const std::string&, const std::shared_ptr<const arrow::KeyValueMetadata>&) override {
    return arrow::Status::NotImplemented("a published file is never changed; write a further file instead");
  }

 private:
  arrow::Result<std::shared_ptr<Session>> session() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!session_ || session_->pid() != getpid()) {
      ARROW_ASSIGN_OR_RAISE(session_, Session::open(socket_));
    }
    return session_;
  }
  arrow::Result<std::shared_ptr<OutputFile>> open_output(const std::string& path) {
    ARROW_RETURN_NOT_OK(name_of(path).status());
    ARROW_ASSIGN_OR_RAISE(const auto session, this->session());
    return std::make_shared<OutputFile>(session, path, placement_);
  }

  const std::string socket_;
  const Placement placement_;
  std::mutex mutex_;
  std::shared_ptr<Session> session_;
};

inline arrow::fs::FileInfo folder_info(std::string path) {
  return arrow::fs::FileInfo(std::move(path), arrow::fs::FileType::Directory);
}
inline arrow::fs::FileInfo file_info(std::string path, int64_t bytes) {
  arrow::fs::FileInfo info(std::move(path), arrow::fs::FileType::File);
  info.set_size(bytes);
  return info;
}

inline arrow::Result<arrow::fs::FileInfo> OcmFileSystem::GetFileInfo(const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(const auto session, this->session());
  const std::string plain = stripped(path);
  if (plain.empty()) return folder_info(path);
  ARROW_ASSIGN_OR_RAISE(const Found found, find(session, plain));
  if (found.exists) return file_info(path, found.attachment ? found.attachment->bytes() : 0);
  ARROW_ASSIGN_OR_RAISE(const bool folder, is_folder(session, plain));
  if (folder) return folder_info(path);
  return arrow::fs::FileInfo(path, arrow::fs::FileType::NotFound);
}

inline arrow::Result<arrow::fs::FileInfoVector> OcmFileSystem::GetFileInfo(
    const arrow::fs::FileSelector& select) {
  ARROW_ASSIGN_OR_RAISE(const auto session, this->session());
  const std::string base = stripped(select.base_dir);
  const std::string prefix = base.empty() ? "" : base + "/";
  ARROW_ASSIGN_OR_RAISE(const std::vector<File> files, list(session, prefix));
  if (files.empty() && !base.empty() && !select.allow_not_found) return not_found(base);
  const int depth_max = select.recursive ? select.max_recursion : 0;
  arrow::fs::FileInfoVector infos;
  std::set<std::string> folders;
  for (const File& file : files) {
    int depth = 0;
    size_t slash = file.path.find('/', prefix.size());
    for (; slash != std::string::npos && depth <= depth_max;
         slash = file.path.find('/', slash + 1), ++depth) {
      const std::string folder = file.path.substr(0, slash);
      if (folders.insert(folder).second) infos.push_back(folder_info(folder));
    }
    if (slash == std::string::npos && depth <= depth_max) infos.push_back(file_info(file.path, file.bytes));
  }
  return infos;
}

inline arrow::Status OcmFileSystem::DeleteDirContents(const std::string& path, bool missing_dir_ok) {
  ARROW_ASSIGN_OR_RAISE(const auto session, this->session());
  const std::string folder = stripped(path);
  if (folder.empty()) return DeleteRootDirContents();
  ARROW_ASSIGN_OR_RAISE(const std::vector<File> files, list(session, folder + "/"));
  if (files.empty() && !missing_dir_ok) return not_found(folder);
  for (const File& file : files) ARROW_RETURN_NOT_OK(remove(session, file.path).status());
  return arrow::Status::OK();
}

inline arrow::Status OcmFileSystem::CopyFile(const std::string& source, const std::string& target) {
  if (stripped(source) == stripped(target)) return arrow::Status::OK();
  ARROW_ASSIGN_OR_RAISE(const auto session, this->session());
  ARROW_ASSIGN_OR_RAISE(const Found found, find(session, source, kHold));
  if (!found.exists) return not_found(source);
  ARROW_ASSIGN_OR_RAISE(const auto output, open_output(target));
  if (found.attachment) ARROW_RETURN_NOT_OK(output->copy(*found.attachment));
  return output->Close();
}

inline arrow::Status OcmFileSystem::Move(const std::string& source, const std::string& target) {
  const std::string from = stripped(source);
  const std::string to = stripped(target);
  if (from == to) return arrow::Status::OK();
  ARROW_ASSIGN_OR_RAISE(const auto session, this->session());
  ARROW_ASSIGN_OR_RAISE(const Found found, find(session, from));
  if (found.exists) {
    ARROW_RETURN_NOT_OK(CopyFile(from, to));
    return remove(session, from).status();
  }
  ARROW_ASSIGN_OR_RAISE(const std::vector<File> files, list(session, from + "/"));
  if (files.empty()) return not_found(from);
  for (const File& file : files) {
    ARROW_RETURN_NOT_OK(CopyFile(file.path, to + file.path.substr(from.size())));
    ARROW_RETURN_NOT_OK(remove(session, file.path).status());
  }
  return arrow::Status::OK();
}

}  // namespace ocm::arrowfs
