// Oncilla's status codes as Arrow's: an IOError that carries an errno, which Python turns into the fitting
// OSError.
#pragma once

#include <arrow/status.h>
#include <arrow/util/io_util.h>
#include <errno.h>
#include <oncilla/oncilla.h>

#include <string>

namespace ocm::arrowfs {

inline int errno_of(int code) {
  switch (code) {
    case OCM_NOT_FOUND: return ENOENT;
    case OCM_EXISTS: return EEXIST;
    case OCM_PERMISSION:
    case OCM_AUTH: return EACCES;
    case OCM_POOL_FULL:
    case OCM_QUOTA: return ENOSPC;
    case OCM_NO_MEMORY: return ENOMEM;
    case OCM_NO_FDS: return EMFILE;
    case OCM_REVOKED: return ESTALE;
    case OCM_DEADLINE: return ETIMEDOUT;
    case OCM_NO_DAEMON: return ECONNREFUSED;
    case OCM_PEER_LOST: return EHOSTDOWN;
    case OCM_INVALID_ARGUMENT:
    case OCM_OUT_OF_RANGE: return EINVAL;
    case OCM_UNSUPPORTED: return ENOTSUP;
    case OCM_TOO_LARGE: return EFBIG;
    default: return EIO;
  }
}

/// The status of this thread's last failed call, about `path`.
inline arrow::Status failure(int code, const std::string& path) {
  return arrow::internal::IOErrorFromErrno(errno_of(code), "ocm://", path, ": ", ocm_status_name(code), ": ",
                                           ocm_last_error());
}

inline arrow::Status checked(int code, const std::string& path) {
  return code < 0 ? failure(code, path) : arrow::Status::OK();
}

inline arrow::Status not_found(const std::string& path) {
  return arrow::internal::IOErrorFromErrno(ENOENT, "ocm://", path, ": no file of that name is published");
}

}  // namespace ocm::arrowfs
