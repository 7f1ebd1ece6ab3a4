// Sessions of this process, one for each daemon, and what a file holds of one: an attached allocation.
//
// Threads: any. A file system holds its session, an attachment too; the last of them closes it. After fork()
// the child's sessions are new ones.
#pragma once

#include <arrow/result.h>
#include <oncilla/oncilla.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "status.h"

namespace ocm::arrowfs {

/// Files are read from memory that is held: it lives until the reader lets go, also when the file is
/// replaced.
inline constexpr auto kHold = static_cast<ocm_access>(OCM_ACCESS_READ | OCM_ACCESS_HOLD);

/// Bytes that reads of this process moved from other nodes.
inline std::atomic<uint64_t> bytes_moved{0};

/// An open session with the daemon at `socket` ("": the default one).
class Session {
 public:
  static arrow::Result<std::shared_ptr<Session>> open(const std::string& socket);
  Session(ocm_session* session, pid_t pid) : session_(session), pid_(pid) {}
  ~Session() {
    if (pid_ == getpid()) ocm_session_close(session_);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  ocm_session* get() const { return session_; }
  pid_t pid() const { return pid_; }

 private:
  ocm_session* session_;
  pid_t pid_;
};

inline arrow::Result<std::shared_ptr<Session>> Session::open(const std::string& socket) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Session>> open_sessions;
  const std::lock_guard<std::mutex> lock(mutex);
  const char* preset = getenv("OCM_SOCKET");
  std::weak_ptr<Session>& known = open_sessions[socket.empty() && preset != nullptr ? preset : socket];
  if (std::shared_ptr<Session> session = known.lock(); session && session->pid() == getpid()) return session;
  ocm_session_options options = OCM_SESSION_OPTIONS_INIT;
  options.socket_path = socket.empty() ? nullptr : socket.c_str();
  ocm_session* opened = nullptr;
  ARROW_RETURN_NOT_OK(checked(ocm_session_open(&options, &opened), ""));
  auto session = std::make_shared<Session>(opened, getpid());
  known = session;
  return session;
}

/// An allocation's handle; freed (a published one: detached) at the end.
class Attachment {
 public:
  Attachment(std::shared_ptr<Session> session, ocm_allocation* allocation, std::string path)
      : session_(std::move(session)), allocation_(allocation), path_(std::move(path)) {
    (void)ocm_allocation_query(allocation_, &info_);
    uint32_t here = 0;
    for (uint32_t i = 0; i < info_.extents; ++i) {
      ocm_extent_info extent = OCM_EXTENT_INFO_INIT;
      if (ocm_allocation_extent_query(allocation_, i, &extent) == OCM_OK && extent.local) ++here;
    }
    local_ = here == info_.extents || (here > 0 && info_.layout == OCM_LAYOUT_REPLICATED);
  }
  ~Attachment() {
    if (session_->pid() == getpid()) ocm_allocation_free(allocation_);
  }
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  ocm_allocation* get() const { return allocation_; }
  const std::string& path() const { return path_; }
  int64_t bytes() const { return static_cast<int64_t>(info_.bytes); }
  /// Every byte is on this host, perhaps as a replica.
  bool local() const { return local_; }

  /// A table's first segment ends in a footer, which begins with its mark. False where nobody can tell.
  arrow::Result<bool> is_table() const {
    constexpr uint64_t kFooterBytes = 64;
    constexpr std::string_view kMark = "OCMTABLE";
    const bool named_so = path_.find('/') == std::string::npos;
    if (!named_so || info_.layout != OCM_LAYOUT_SEQUENCE || info_.bytes < kFooterBytes) return false;
    char mark[kMark.size()];
    const int code = ocm_get(allocation_, info_.bytes - kFooterBytes, mark, sizeof(mark));
    if (code == OCM_PEER_LOST || code == OCM_LOST) return false;
    ARROW_RETURN_NOT_OK(checked(code, path_));
    return std::string_view(mark, sizeof(mark)) == kMark;
  }

  /// Null unless [offset, offset + bytes) is contiguous on this host.
  const uint8_t* pointer(int64_t offset, int64_t bytes) const {
    void* found = nullptr;
    const int code =
        ocm_allocation_map(allocation_, static_cast<uint64_t>(offset), static_cast<uint64_t>(bytes), &found);
    return code < 0 ? nullptr : static_cast<const uint8_t*>(found);
  }
  arrow::Status get(const ocm_segment* segments, size_t count) const {
    ARROW_RETURN_NOT_OK(checked(ocm_getv(allocation_, segments, count), path_));
    uint64_t moved = 0;
    for (size_t i = 0; i < count; ++i) moved += segments[i].bytes;
    if (!local_) bytes_moved.fetch_add(moved, std::memory_order_relaxed);
    return arrow::Status::OK();
  }

 private:
  std::shared_ptr<Session> session_;
  ocm_allocation* allocation_;
  std::string path_;
  ocm_allocation_info info_ = OCM_ALLOCATION_INFO_INIT;
  bool local_ = false;
};

}  // namespace ocm::arrowfs
