// What an operation came to: a code, grouped by what it breaks, a sentence that says what to do, and as fields the node
// and the subject that it is about, so that nobody reads them out of the sentence.
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

/// What the subject of a status is. The same numbers as `ocm_subject` in include/oncilla/oncilla.h.
enum class Subject : int {
  kNone = 0,
  kAllocation = 1,  // by its published name
  kTable = 2,
  kSegment = 3,  // of a table: what was appended at once
  kColumn = 4,
  kOption = 5,  // an argument, or a member of a struct of options
  kHandle = 6,
};
/// True if `number` is one of these; bytes from outside are checked with it.
constexpr bool is_subject(int number) {
  return number >= static_cast<int>(Subject::kNone) && number <= static_cast<int>(Subject::kHandle);
}

/// A code and, on failure, what is known of it behind one pointer. Copying a good status costs nothing.
///
/// Who first decides an error names its node and subject; who hands it on adds what is not named yet.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code) : code_(code) {}  // NOLINT: a code is a status
  Status(Code code, std::string detail)
      : code_(code), failure_(std::make_shared<const Failure>(Failure{std::move(detail), {}, {}, {}})) {}
  /// About `node`; the sentence is "node NODE" and `rest`: ": gone", " is shutting down".
  static Status of_node(Code code, std::string_view node, std::string_view rest);

  static Status ok() { return {}; }
  /// From errno: ENOMEM, EMFILE/ENFILE and ENOSPC get their own codes, the rest is kIo.
  static Status from_errno(int error, std::string_view what);

  bool is_ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  /// The detail, or the code's fixed sentence.
  std::string_view message() const {
    return failure_ && !failure_->detail.empty() ? std::string_view(failure_->detail) : code_text(code_);
  }
  /// The name of the node that it is about, or "".
  std::string_view node() const { return failure_ ? std::string_view(failure_->node) : std::string_view(); }
  /// The name of what it is about, or "".
  std::string_view subject() const {
    return failure_ ? std::string_view(failure_->subject) : std::string_view();
  }
  Subject subject_kind() const { return failure_ ? failure_->kind : Subject::kNone; }

  /// This status, about `node`, or `subject`, unless it names one. A good status stays as it is.
  Status with_node(std::string_view node) const;
  Status with_subject(Subject kind, std::string_view subject) const;
  /// The same failure with another sentence, or code.
  Status with_message(std::string message) const;
  Status with_code(Code code) const;

  /// "POOL_FULL: message"
  std::string to_string() const;

 private:
  struct Failure {
    std::string detail;  // empty: the code's fixed sentence
    std::string node;
    std::string subject;
    Subject kind = Subject::kNone;
  };
  Status(Code code, Failure failure)
      : code_(code), failure_(std::make_shared<const Failure>(std::move(failure))) {}
  Failure failure() const { return failure_ ? *failure_ : Failure(); }

  Code code_ = Code::kOk;
  std::shared_ptr<const Failure> failure_;
};
static_assert(sizeof(Status) == 3 * sizeof(void*));

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
