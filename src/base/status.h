// What an operation came to: a code, grouped by what it breaks, and a sentence that says what to do.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/assert.h"

namespace ocm {

/// The same numbers as `ocm_status` in include/oncilla/oncilla.h (src/capi asserts it).
enum class Code : int {
  kOk = 0,
  // call
  kInvalidArgument = -1,
  kOutOfRange = -2,
  kDeadline = -3,
  kQueueFull = -4,
  kUnsupported = -5,
  kTooLarge = -6,
  kCancelled = -7,
  // allocation
  kPoolFull = -20,
  kNotFound = -21,
  kExists = -22,
  kRevoked = -23,
  kPermission = -24,
  kLost = -25,
  kQuota = -26,
  // peer
  kPeerLost = -40,
  kProtocol = -41,
  kAuth = -42,
  kBadChecksum = -43,
  // node
  kNoDaemon = -60,
  kNoMemory = -61,
  kNoFds = -62,
  kIo = -63,
  kDraining = -64,
  kLimit = -65,
  // cluster
  kNoCoordinator = -80,
  kUnknownNode = -81,
  kInternal = -99,
};

/// "POOL_FULL": stable, for logs, metrics and JSON. Unknown numbers give "UNKNOWN".
std::string_view code_name(Code code);
/// One fixed English sentence.
std::string_view code_text(Code code);
/// True if `number` is one of the codes above; bytes from outside are checked with it.
bool is_code(int number);

/// A code and, on failure, a detail. Copying a good status costs nothing.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code) : code_(code) {}  // NOLINT: a code is a status
  Status(Code code, std::string detail)
      : code_(code), detail_(std::make_shared<const std::string>(std::move(detail))) {}

  static Status ok() { return {}; }
  /// From errno: ENOMEM, EMFILE/ENFILE and ENOSPC get their own codes, the rest is kIo.
  static Status from_errno(int error, std::string_view what);

  bool is_ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  /// The detail, or the code's fixed sentence.
  std::string_view message() const { return detail_ ? std::string_view(*detail_) : code_text(code_); }
  /// "POOL_FULL: message"
  std::string to_string() const;

 private:
  Code code_ = Code::kOk;
  std::shared_ptr<const std::string> detail_;
};

/// A value, or the status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}        // NOLINT
  Result(Status status) : state_(std::move(status)) {  // NOLINT
    OCM_ASSERT(!std::get<Status>(state_).is_ok());
  }
  Result(Code code) : Result(Status(code)) {}  // NOLINT

  bool is_ok() const { return std::holds_alternative<T>(state_); }
  Status status() const { return is_ok() ? Status() : std::get<Status>(state_); }
  T& value() & {
    OCM_ASSERT(is_ok());
    return std::get<T>(state_);
  }
  const T& value() const& {
    OCM_ASSERT(is_ok());
    return std::get<T>(state_);
  }
  T&& value() && {
    OCM_ASSERT(is_ok());
    return std::get<T>(std::move(state_));
  }
  T* operator->() { return &value(); }
  T& operator*() & { return value(); }
  T&& operator*() && { return std::move(*this).value(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace ocm

/// Returns from the enclosing function if `expression` is a bad Status.
#define OCM_TRY(expression)                      \
  do {                                           \
    ::ocm::Status ocm_try_status = (expression); \
    if (!ocm_try_status.is_ok()) [[unlikely]]    \
      return ocm_try_status;                     \
  } while (0)

#define OCM_CONCAT_(a, b) a##b
#define OCM_CONCAT(a, b) OCM_CONCAT_(a, b)
/// `OCM_TRY_ASSIGN(auto x, f());`: declares or assigns x from a Result, or returns its status.
#define OCM_TRY_ASSIGN(target, expression) \
  OCM_TRY_ASSIGN_(OCM_CONCAT(ocm_result_, __LINE__), target, expression)
#define OCM_TRY_ASSIGN_(result, target, expression) \
  auto result = (expression);                       \
  if (!result.is_ok()) [[unlikely]]                 \
    return result.status();                         \
  target = std::move(result).value()
