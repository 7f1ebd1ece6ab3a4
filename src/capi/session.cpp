// Sessions, names and the cluster, through the C ABI.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "capi/objects.h"
#include "client/cluster.h"
#include "client/fork.h"
#include "os/clock.h"
#include "os/interrupt.h"

namespace ocm::capi {

Sessions sessions;
Allocations allocations;
Ops ops;

namespace {

Result<os::Fd> connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Status(Code::kInvalidArgument,
                  "the socket's path has " + std::to_string(path.size()) + " bytes, and Linux allows " +
                      std::to_string(sizeof(address.sun_path) - 1) + ": give the daemon a shorter run_dir");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  os::Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) return Status::from_errno(errno, "socket");
  const os::Deadline patience = os::Deadline::after_ns(3'000'000'000);
  os::Interrupts interrupts;
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN &&
        !patience.passed()) {  // the backlog of a daemon that stands still; nothing tells of room
      constexpr int kLookAgainMs = 10;
      ::poll(nullptr, 0, kLookAgainMs);
      if (interrupts.came()) return os::interrupted();
      continue;
    }
    if (errno == EACCES) return Status(Code::kPermission, "may not open " + path);
    return Status(Code::kNoDaemon, "no daemon at " + path + " (" + std::strerror(errno) +
                                       "): start one with `ocm up` or `oncillad`, or set OCM_SOCKET");
  }
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK);
  return fd;
}

std::string socket_path(const ocm_session_options& options) {
  if (options.socket_path != nullptr) return options.socket_path;
  if (const char* path = std::getenv("OCM_SOCKET"); path != nullptr && *path != '\0') return path;
  return "/run/oncilla/oncillad.sock";
}

Status use_embedded(const ocm_session_options& options, client::SessionOptions& out) {
  constexpr uint64_t kDefaultBytes = uint64_t{1} << 30;
  OCM_TRY_ASSIGN(Embedded node,
                 start_embedded(options.embedded_bytes != 0 ? options.embedded_bytes : kDefaultBytes));
  out.dial = std::move(node.dial);
  out.owner = std::move(node.owner);
  return {};
}

Result<std::unique_ptr<client::Session>> open_session(const ocm_session_options& options) {
  constexpr uint32_t kFlags = OCM_SESSION_EMBEDDED | OCM_SESSION_EMBEDDED_FALLBACK;
  if ((options.flags & ~kFlags) != 0) return unknown_flags(options.flags & ~kFlags, "OCM_SESSION_");
  if (!is_fabric(number_in(options.fabric)))
    return unknown_value("fabric", number_in(options.fabric), "ocm_fabric");
  client::SessionOptions out;
  out.program = options.program != nullptr ? options.program : program_invocation_short_name;
  out.fabric = static_cast<Fabric>(options.fabric);
  out.deadline_ns = options.deadline_ns;
  if ((options.flags & OCM_SESSION_EMBEDDED) != 0) {
    OCM_TRY(use_embedded(options, out));
    return client::Session::open(std::move(out));
  }
  out.dial = [path = socket_path(options)] { return connect_to(path); };
  auto session = client::Session::open(out);
  if (session.is_ok() || session.status().code() != Code::kNoDaemon ||
      (options.flags & OCM_SESSION_EMBEDDED_FALLBACK) == 0) {
    return session;
  }
  OCM_TRY(use_embedded(options, out));
  return client::Session::open(std::move(out));
}

void reset_in_child() {
  sessions.reset_in_child();
  allocations.reset_in_child();
  ops.reset_in_child();
}

void end_session(client::Session* session) {
  const bool all_ended = session->under_way().drain(nullptr);
  ops.for_each([&](uint64_t handle, OpObject& object) {
    const bool is_one = object.operation.has_value() || object.word != nullptr;
    if (!is_one || object.session() != session || ops.retire(handle) == nullptr) return;
    if (object.word != nullptr) {
      session->under_way().words().leave(*object.word);
      object.word.reset();
    } else {
      session->under_way().leave(*object.operation);
      if (!all_ended) object.operation->take_back();
      object.operation.reset();
    }
    ops.release(Ops::index_of(handle));
  });
  allocations.for_each([&](uint64_t handle, client::Allocation& allocation) {
    if (allocation.session() != session || allocations.retire(handle) == nullptr) return;
    allocation.clear();
    allocations.release(Allocations::index_of(handle));
  });
}

void copy_text(char* out, size_t bytes, const std::string& text) {
  OCM_DASSERT(bytes > 0);
  const size_t length = std::min(text.size(), bytes - 1);
  std::memcpy(out, text.data(), length);  // NOLINT: ended below
  std::memset(out + length, 0, bytes - length);
}

}  // namespace

}  // namespace ocm::capi

using namespace ocm;        // NOLINT: the C ABI of this very namespace
using namespace ocm::capi;  // NOLINT

extern "C" {

void ocm_interrupt_check(int (*check)(int may_call, void* context), void* context) {
  os::interrupt_context.store(context);
  os::interrupt_check.store(check);
}

int ocm_session_open(const ocm_session_options* options, ocm_session** session) {
  return guarded([&] {
    if (session == nullptr) return fail(Code::kInvalidArgument, "`session` is null");
    ocm_session_options read = OCM_SESSION_OPTIONS_INIT;
    if (options != nullptr) {
      if (const Status status = read_sized(*options, read); !status.is_ok()) return fail(status);
    }
    static const bool hooked = (client::run_in_child(reset_in_child), true);
    (void)hooked;
    auto opened = open_session(read);
    if (!opened.is_ok()) return fail(opened.status());
    const Sessions::Reserved slot = sessions.reserve();
    if (slot.object == nullptr) return fail(Code::kLimit, "too many sessions in this process");
    OCM_ASSERT(slot.object->session == nullptr);
    slot.object->session = std::move(*opened);
    slot.object->deferred_error.store(0);
    const uint64_t handle = sessions.publish(slot.index);
    slot.object->close_hooks.open(handle);
    *session = handle_of<ocm_session>(handle);
    return static_cast<int>(OCM_OK);
  });
}

int ocm_session_close(ocm_session* session) {
  return guarded([&] {
    SessionObject* object = sessions.retire(bits(session));
    if (object == nullptr) return fail_handle(session);
    object->close_hooks.close();
    OCM_DASSERT(object->session->is_valid());
    end_session(object->session.get());
    object->session.reset();
    sessions.release(Sessions::index_of(bits(session)));
    return static_cast<int>(OCM_OK);
  });
}

int ocm_session_on_close(ocm_session* session, void (*hook)(void* context), void* context) {
  return guarded([&] {
    SessionObject* object = sessions.find(bits(session));
    if (object == nullptr) return fail_handle(session);
    if (hook == nullptr) return fail(Code::kInvalidArgument, "`hook` is null");
    if (!object->close_hooks.add(bits(session), {hook, context})) return fail_handle(session);
    return static_cast<int>(OCM_OK);
  });
}

int ocm_name_remove(ocm_session* session, const char* name) {
  return guarded([&] {
    SessionObject* object = sessions.find(bits(session));
    if (object == nullptr) return fail_handle(session);
    if (name == nullptr) return fail(Code::kInvalidArgument, "`name` is null");
    if (const Status status = check_name(name); !status.is_ok()) return fail(status);
    return finish(client::remove_name(*object->session, name).with_subject(Subject::kAllocation, name));
  });
}

int ocm_name_list(ocm_session* session, const char* prefix, bool (*visit)(const ocm_name_info*, void*),
                  void* context) {
  return guarded([&] {
    SessionObject* object = sessions.find(bits(session));
    if (object == nullptr) return fail_handle(session);
    if (visit == nullptr) return fail(Code::kInvalidArgument, "`visit` is null");
    const auto names = client::list_names(*object->session, prefix != nullptr ? prefix : "");
    if (!names.is_ok()) return fail(names.status());
    for (const client::NameInfo& name : names.value()) {
      ocm_name_info info{};
      info.size = sizeof(info);
      copy_text(info.name, sizeof(info.name), name.name);
      info.bytes = name.shape.bytes;
      info.kind = static_cast<ocm_kind>(name.kind);
      info.layout = static_cast<ocm_layout>(name.shape.layout);
      info.extents = name.shape.extents;
      info.owner_uid = name.owner_uid;
      info.mode = name.mode;
      info.lost = name.lost;
      info.replicas_missing = name.replicas_missing;
      info.durable = name.durable;
      info.coherent = name.coherent;
      if (!visit(&info, context)) break;
    }
    return static_cast<int>(OCM_OK);
  });
}

int ocm_node_list(ocm_session* session, bool (*visit)(const ocm_node_info*, void*), void* context) {
  return guarded([&] {
    SessionObject* object = sessions.find(bits(session));
    if (object == nullptr) return fail_handle(session);
    if (visit == nullptr) return fail(Code::kInvalidArgument, "`visit` is null");
    const auto nodes = client::list_nodes(*object->session);
    if (!nodes.is_ok()) return fail(nodes.status());
    for (const client::NodeInfo& node : nodes.value()) {
      ocm_node_info info{};
      info.size = sizeof(info);
      copy_text(info.name, sizeof(info.name), node.name);
      info.partition = node.partition;
      info.state = static_cast<ocm_node_state>(node.state);
      info.self = node.self;
      info.coordinator = node.coordinator;
      for (size_t kind = 0; kind < std::size(info.pool_bytes); ++kind) {
        info.pool_bytes[kind] = node.pool_bytes[kind];
        info.used_bytes[kind] = node.used_bytes[kind];
      }
      info.sessions = node.sessions;
      info.extents = node.extents;
      info.heartbeat_age_ns = node.heartbeat_age_ns;
      if (!visit(&info, context)) break;
    }
    return static_cast<int>(OCM_OK);
  });
}

int ocm_event_next(ocm_session* session, uint64_t deadline_ns, ocm_event* event) {
  return guarded([&] {
    SessionObject* object = sessions.find(bits(session));
    if (object == nullptr) return fail_handle(session);
    if (event == nullptr) return fail(Code::kInvalidArgument, "`event` is null");
    ocm_event out{};
    out.size = event->size;
    if (const Status status = write_sized(out, event); !status.is_ok()) return fail(status);
    const uint64_t wait_ns = deadline_ns != 0 ? deadline_ns : object->session->deadline_ns();
    const auto next = object->session->events().next(os::Deadline::after_ns(wait_ns));
    if (!next.is_ok()) return fail(next.status());
    const client::Event& told = next.value();
    out.kind = static_cast<ocm_event_kind>(told.kind);
    std::memcpy(out.allocation, told.allocation.bytes.data(), sizeof(out.allocation));
    copy_text(out.name, sizeof(out.name), told.name);
    copy_text(out.node, sizeof(out.node), told.node);
    out.partition = told.partition;
    return finish(write_sized(out, event));
  });
}

}  // extern "C"
