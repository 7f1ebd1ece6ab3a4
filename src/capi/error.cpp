// Statuses across the C ABI: numbers, names, sentences, and the last error of each thread.
#include <algorithm>

#include "base/text.h"
#include "capi/objects.h"

namespace ocm::capi {
namespace {

constexpr size_t kLastErrorBytes = 1024;
/// Of this thread. Without an allocation: what failed may be one.
struct LastError {
  Code code;
  Subject subject_kind;
  char text[kLastErrorBytes];
  char node[kNameBytesMax + 1];
  char subject[kNameBytesMax + 1];
};
thread_local LastError last;

template <size_t kBytes>
void keep(char (&to)[kBytes], std::string_view text) {
  const size_t bytes = std::min(text.size(), kBytes - 1);
  std::copy_n(text.data(), bytes, to);  // an empty text may have no address
  to[bytes] = '\0';
}
/// A name is there whole, or not at all.
template <size_t kBytes>
void keep_name(char (&to)[kBytes], std::string_view name) {
  keep(to, name.size() < kBytes ? name : std::string_view());
}

#define OCM_SAME(c_name, code) static_assert(c_name == static_cast<int>(Code::code))
OCM_SAME(OCM_OK, kOk);
OCM_SAME(OCM_INVALID_ARGUMENT, kInvalidArgument);
OCM_SAME(OCM_OUT_OF_RANGE, kOutOfRange);
OCM_SAME(OCM_DEADLINE, kDeadline);
OCM_SAME(OCM_QUEUE_FULL, kQueueFull);
OCM_SAME(OCM_UNSUPPORTED, kUnsupported);
OCM_SAME(OCM_TOO_LARGE, kTooLarge);
OCM_SAME(OCM_CANCELLED, kCancelled);
OCM_SAME(OCM_POOL_FULL, kPoolFull);
OCM_SAME(OCM_NOT_FOUND, kNotFound);
OCM_SAME(OCM_EXISTS, kExists);
OCM_SAME(OCM_REVOKED, kRevoked);
OCM_SAME(OCM_PERMISSION, kPermission);
OCM_SAME(OCM_LOST, kLost);
OCM_SAME(OCM_QUOTA, kQuota);
OCM_SAME(OCM_PEER_LOST, kPeerLost);
OCM_SAME(OCM_PROTOCOL, kProtocol);
OCM_SAME(OCM_AUTH, kAuth);
OCM_SAME(OCM_BAD_CHECKSUM, kBadChecksum);
OCM_SAME(OCM_NO_DAEMON, kNoDaemon);
OCM_SAME(OCM_NO_MEMORY, kNoMemory);
OCM_SAME(OCM_NO_FDS, kNoFds);
OCM_SAME(OCM_IO, kIo);
OCM_SAME(OCM_DRAINING, kDraining);
OCM_SAME(OCM_LIMIT, kLimit);
OCM_SAME(OCM_NO_COORDINATOR, kNoCoordinator);
OCM_SAME(OCM_UNKNOWN_NODE, kUnknownNode);
OCM_SAME(OCM_INTERNAL, kInternal);
#undef OCM_SAME
static_assert(OCM_SUBJECT_NONE == static_cast<int>(Subject::kNone) &&
              OCM_SUBJECT_ALLOCATION == static_cast<int>(Subject::kAllocation) &&
              OCM_SUBJECT_TABLE == static_cast<int>(Subject::kTable) &&
              OCM_SUBJECT_SEGMENT == static_cast<int>(Subject::kSegment) &&
              OCM_SUBJECT_COLUMN == static_cast<int>(Subject::kColumn) &&
              OCM_SUBJECT_OPTION == static_cast<int>(Subject::kOption) &&
              OCM_SUBJECT_HANDLE == static_cast<int>(Subject::kHandle));

static_assert(OCM_LAYOUT_REPLICATED == static_cast<int>(Layout::kReplicated));
static_assert(OCM_LAYOUT_SEQUENCE == static_cast<int>(Layout::kSequence));
static_assert(OCM_ACCESS_READ == static_cast<int>(Access::kRead));
static_assert(OCM_ACCESS_READ_WRITE == static_cast<int>(Access::kReadWrite));
static_assert(OCM_ALLOCATION_DEDICATED == client::kDedicated && OCM_ALLOCATION_ZERO == client::kZero &&
              OCM_ALLOCATION_POPULATE == client::kPopulate &&
              OCM_ALLOCATION_HUGEPAGES == client::kHugepages && OCM_ALLOCATION_LOCAL == client::kLocal &&
              OCM_ALLOCATION_REMOTE == client::kRemote && OCM_ALLOCATION_CHECKSUM == client::kChecksum &&
              OCM_ALLOCATION_DURABLE == client::kDurable && OCM_ALLOCATION_COHERENT == client::kCoherent);

}  // namespace

int fail(Code code, std::string_view why) {
  last.code = code;
  last.subject_kind = Subject::kNone;
  last.node[0] = last.subject[0] = '\0';
  keep(last.text, why);
  return static_cast<int>(code);
}

int fail(const Status& status) {
  (void)fail(status.code(), status.message());
  last.subject_kind = status.subject_kind();
  keep_name(last.node, status.node());
  keep_name(last.subject, status.subject());
  return static_cast<int>(status.code());
}

Status last_failure(int number) {
  if (number >= 0) return {};
  const auto code = static_cast<Code>(number);
  // Some answers, such as a wait's deadline, leave no words.
  return code == last.code ? Status(code, last.text).with_node(last.node) : Status(code, last.text);
}

int fail_handle(Code why, const char* what) {
  std::string text = std::string("the ") + what + " handle is ";
  text += why == Code::kRevoked ? "not live any more: it was freed" : "not one that this process was given";
  return fail(Status(why, text).with_subject(Subject::kHandle, what));
}

}  // namespace ocm::capi

using ocm::capi::last;

extern "C" {

const char* ocm_strerror(int status) {
  // The texts are string literals, so the view ends in '\0'.
  return ocm::is_code(status) ? ocm::code_text(static_cast<ocm::Code>(status)).data() : "an unknown status";
}
const char* ocm_status_name(int status) {
  return ocm::is_code(status) ? ocm::code_name(static_cast<ocm::Code>(status)).data() : "UNKNOWN";
}
const char* ocm_last_error(void) { return last.text; }
int ocm_last_error_info(ocm_error_info* info) {
  if (info == nullptr) return OCM_INVALID_ARGUMENT;
  ocm_error_info out{};
  out.status = static_cast<int>(last.code);
  out.subject_kind = static_cast<ocm_subject>(last.subject_kind);
  out.node = last.node;
  out.subject = last.subject;
  // What there is to be told stays as it is.
  return static_cast<int>(ocm::capi::write_sized(out, info).code());
}
const char* ocm_version(void) {
#define OCM_TEXT_(x) #x
#define OCM_TEXT(x) OCM_TEXT_(x)
  return OCM_TEXT(OCM_VERSION_MAJOR) "." OCM_TEXT(OCM_VERSION_MINOR) "." OCM_TEXT(OCM_VERSION_PATCH);
}

}  // extern "C"
