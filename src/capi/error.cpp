// Statuses across the C ABI: numbers, names, sentences, and the last error of each thread.
#include <algorithm>
#include <cstring>

#include "capi/objects.h"

namespace ocm::capi {
namespace {

constexpr size_t kLastErrorBytes = 1024;
thread_local char last_error[kLastErrorBytes];

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

static_assert(OCM_KIND_GPU == static_cast<int>(Kind::kGpu));
static_assert(OCM_LAYOUT_REPLICATED == static_cast<int>(Layout::kReplicated));
static_assert(OCM_LAYOUT_SEQUENCE == static_cast<int>(Layout::kSequence));
static_assert(OCM_FABRIC_FAKE == static_cast<int>(Fabric::kFake));
static_assert(OCM_ACCESS_READ == static_cast<int>(Access::kRead));
static_assert(OCM_ACCESS_READ_WRITE == static_cast<int>(Access::kReadWrite));
static_assert(OCM_ALLOCATION_DEDICATED == client::kDedicated && OCM_ALLOCATION_ZERO == client::kZero &&
              OCM_ALLOCATION_POPULATE == client::kPopulate &&
              OCM_ALLOCATION_HUGEPAGES == client::kHugepages && OCM_ALLOCATION_LOCAL == client::kLocal &&
              OCM_ALLOCATION_REMOTE == client::kRemote && OCM_ALLOCATION_CHECKSUM == client::kChecksum);

}  // namespace

int fail(Code code, std::string_view why) {
  const size_t bytes = std::min(why.size(), kLastErrorBytes - 1);
  std::memcpy(last_error, why.data(), bytes);
  last_error[bytes] = '\0';
  return static_cast<int>(code);
}

int fail_handle(Code why, const char* what) {
  std::string text = std::string("the ") + what + " handle is ";
  text += why == Code::kRevoked ? "not live any more: it was freed" : "not one that this process was given";
  return fail(why, text);
}

}  // namespace ocm::capi

using ocm::capi::last_error;

extern "C" {

const char* ocm_strerror(int status) {
  // The texts are string literals, so the view ends in '\0'.
  return ocm::is_code(status) ? ocm::code_text(static_cast<ocm::Code>(status)).data() : "an unknown status";
}
const char* ocm_status_name(int status) {
  return ocm::is_code(status) ? ocm::code_name(static_cast<ocm::Code>(status)).data() : "UNKNOWN";
}
const char* ocm_last_error(void) { return last_error; }
const char* ocm_version(void) {
#define OCM_TEXT_(x) #x
#define OCM_TEXT(x) OCM_TEXT_(x)
  return OCM_TEXT(OCM_VERSION_MAJOR) "." OCM_TEXT(OCM_VERSION_MINOR) "." OCM_TEXT(OCM_VERSION_PATCH);
}

}  // extern "C"
