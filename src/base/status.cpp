#include "base/status.h"

#include <array>
#include <cerrno>
#include <cstring>

namespace ocm {
namespace {

struct CodeEntry {
  Code code;
  std::string_view name;
  std::string_view text;
};

constexpr std::array kCodes{
    CodeEntry{Code::kOk, "OK", "success"},
    CodeEntry{Code::kInvalidArgument, "INVALID_ARGUMENT", "an argument is invalid"},
    CodeEntry{Code::kOutOfRange, "OUT_OF_RANGE", "offset and length leave the allocation"},
    CodeEntry{Code::kDeadline, "DEADLINE", "the deadline passed; it may still complete"},
    CodeEntry{Code::kQueueFull, "QUEUE_FULL", "a bounded queue or table is full; wait and try again"},
    CodeEntry{Code::kUnsupported, "UNSUPPORTED", "this build, kind, layout or fabric cannot do it"},
    CodeEntry{Code::kTooLarge, "TOO_LARGE", "a message, name, list or request is over its limit"},
    CodeEntry{Code::kCancelled, "CANCELLED", "the session was closed under the operation"},
    CodeEntry{Code::kPoolFull, "POOL_FULL", "no node offers that many free bytes of that kind"},
    CodeEntry{Code::kNotFound, "NOT_FOUND", "no such name, allocation or extent"},
    CodeEntry{Code::kExists, "EXISTS", "the name is taken"},
    CodeEntry{Code::kRevoked, "REVOKED", "freed, removed or reused: allocate or attach again"},
    CodeEntry{Code::kPermission, "PERMISSION", "read-only, wrong capability or not the owner"},
    CodeEntry{Code::kLost, "LOST", "the bytes are gone: every copy was on nodes or devices that failed"},
    CodeEntry{Code::kQuota, "QUOTA", "the user's quota is used up: free something first"},
    CodeEntry{Code::kPeerLost, "PEER_LOST", "the node died, was cut off or stopped answering"},
    CodeEntry{Code::kProtocol, "PROTOCOL", "the peer broke the protocol; the connection was closed"},
    CodeEntry{Code::kAuth, "AUTH", "wrong token, certificate or session key"},
    CodeEntry{Code::kBadChecksum, "BAD_CHECKSUM", "a CRC32C did not match"},
    CodeEntry{Code::kNoDaemon, "NO_DAEMON", "no daemon answers: start one with `ocm up` or `oncillad`"},
    CodeEntry{Code::kNoMemory, "NO_MEMORY", "the operating system refused memory"},
    CodeEntry{Code::kNoFds, "NO_FDS", "out of file descriptors: raise `ulimit -n`"},
    CodeEntry{Code::kIo, "IO", "the operating system reported an error"},
    CodeEntry{Code::kDraining, "DRAINING", "the daemon is shutting down"},
    CodeEntry{Code::kLimit, "LIMIT", "a limit of the daemon is reached"},
    CodeEntry{Code::kNoCoordinator, "NO_COORDINATOR", "the coordinator cannot be reached; try again"},
    CodeEntry{Code::kUnknownNode, "UNKNOWN_NODE", "no node of that name: see `ocm status`"},
    CodeEntry{Code::kInternal, "INTERNAL", "a fault in Oncilla itself: please report it"},
};

constexpr bool codes_are_distinct() {
  for (size_t i = 0; i < kCodes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (kCodes[i].code == kCodes[j].code || kCodes[i].name == kCodes[j].name) return false;
    }
  }
  return true;
}
static_assert(codes_are_distinct(), "a code has one number and one name");

const CodeEntry* find(int number) {
  for (const CodeEntry& entry : kCodes) {
    if (static_cast<int>(entry.code) == number) return &entry;
  }
  return nullptr;
}

}  // namespace

std::string_view code_name(Code code) {
  const CodeEntry* entry = find(static_cast<int>(code));
  return entry ? entry->name : "UNKNOWN";
}

std::string_view code_text(Code code) {
  const CodeEntry* entry = find(static_cast<int>(code));
  return entry ? entry->text : "unknown status";
}

bool is_code(int number) { return find(number) != nullptr; }

Status Status::from_errno(int error, std::string_view what) {
  Code code = Code::kIo;
  if (error == ENOMEM) code = Code::kNoMemory;
  if (error == EMFILE || error == ENFILE) code = Code::kNoFds;
  std::array<char, 128> buffer{};
  const char* text = ::strerror_r(error, buffer.data(), buffer.size());
  return {code, std::string(what) + ": " + text};
}

Status Status::of_node(Code code, std::string_view node, std::string_view rest) {
  OCM_DASSERT(code != Code::kOk);
  std::string detail("node ");
  detail.append(node).append(rest);
  return {code, Failure{std::move(detail), std::string(node), {}, {}}};
}

Status Status::with_node(std::string_view node) const {
  if (is_ok() || !this->node().empty() || node.empty()) return *this;
  Failure out = failure();
  out.node = node;
  return {code_, std::move(out)};
}

Status Status::with_subject(Subject kind, std::string_view subject) const {
  OCM_DASSERT(is_subject(static_cast<int>(kind)));
  if (is_ok() || subject_kind() != Subject::kNone || kind == Subject::kNone) return *this;
  Failure out = failure();
  out.subject = subject;
  out.kind = kind;
  return {code_, std::move(out)};
}

Status Status::with_message(std::string message) const {
  if (is_ok()) return *this;
  Failure out = failure();
  out.detail = std::move(message);
  return {code_, std::move(out)};
}

Status Status::with_code(Code code) const {
  OCM_DASSERT(is_code(static_cast<int>(code)));
  Status out = *this;
  out.code_ = code;
  return out;
}

std::string Status::to_string() const {
  std::string out(code_name(code_));
  if (failure_ && !failure_->detail.empty()) {
    out += ": ";
    out += failure_->detail;
  }
  return out;
}

}  // namespace ocm
