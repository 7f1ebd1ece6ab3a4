// Sessions, nodes and names for Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <optional>

#include "allocation.h"
#include "core.h"
#include "wait.h"

namespace ocm::python {
namespace {

/// A path as the system has it. Raises InvalidArgument for what cannot be one.
std::string path_of(nb::handle path) {
  PyObject* bytes = nullptr;
  if (PyUnicode_FSConverter(path.ptr(), &bytes) == 0) {
    if (!PyErr_ExceptionMatches(PyExc_ValueError)) throw nb::python_error();
    const nb::python_error cause;
    raise_status(OCM_INVALID_ARGUMENT, std::string("`socket` is not a path: ") + cause.what());
  }
  const nb::object held = nb::steal(bytes);
  return PyBytes_AsString(bytes);
}

void open_session(Session* self, const std::optional<nb::object>& socket, const std::optional<Text>& program,
                  uint32_t flags, int fabric, uint64_t deadline_ns, uint64_t embedded_bytes) {
  ocm_session_options options = OCM_SESSION_OPTIONS_INIT;
  const std::optional<std::string> path = socket ? std::optional(path_of(*socket)) : std::nullopt;
  options.socket_path = path ? path->c_str() : nullptr;
  options.program = program ? program->c_str() : nullptr;
  options.flags = flags;
  options.fabric = static_cast<ocm_fabric>(fabric);
  options.deadline_ns = deadline_ns;
  options.embedded_bytes = embedded_bytes;
  ocm_session* session = nullptr;
  check_interruptible([&] { return ocm_session_open(&options, &session); });
  new (self) Session(std::make_shared<SessionHandle>(session));
}

/// Everything that `list(session, visit, context)` visits. Without the GIL in between.
template <class Info, class List>
std::vector<Info> collect(const Session& self, List list) {
  std::vector<Info> out;
  const auto visit = [](const Info* info, void* context) {
    static_cast<std::vector<Info>*>(context)->push_back(*info);
    return true;
  };
  const std::shared_ptr<SessionHandle> session = self.handle();
  check_interruptible([&] { return list(session->get(), +visit, &out); });
  return out;
}

nb::list node_list(const Session& self) {
  nb::list out;
  for (const ocm_node_info& node : collect<ocm_node_info>(self, ocm_node_list)) {
    out.append(nb::make_tuple(node.name, node.partition, static_cast<int>(node.state), node.self,
                              node.coordinator, node.pool_bytes[OCM_KIND_DRAM],
                              node.used_bytes[OCM_KIND_DRAM], node.sessions, node.extents,
                              static_cast<double>(node.heartbeat_age_ns) * 1e-9));
  }
  return out;
}

nb::list name_list(const Session& self, const Text& text) {
  const char* prefix = text.c_str();
  const auto list = [&](ocm_session* session, bool (*visit)(const ocm_name_info*, void*), void* context) {
    return ocm_name_list(session, prefix, visit, context);
  };
  nb::list out;
  for (const ocm_name_info& name : collect<ocm_name_info>(self, list)) {
    out.append(nb::make_tuple(name.name, name.bytes, static_cast<int>(name.layout), name.extents,
                              name.owner_uid, name.mode, name.lost, name.replicas_missing, name.durable,
                              name.coherent));
  }
  return out;
}

void remove_name(const Session& self, const Text& text) {
  const char* name = text.c_str();
  const std::shared_ptr<SessionHandle> session = self.handle();
  check_interruptible([&] { return ocm_name_remove(session->get(), name); });
}

void fence_session(const Session& self) {
  const std::shared_ptr<SessionHandle> session = self.handle();
  check_interruptible([&] { return ocm_session_fence(session->get()); });
}

/// None: no event until then. `closes`: the session's end; `cancel` (may be null): of this call.
std::optional<nb::tuple> next_event(const Session& self, std::optional<double> deadline_s,
                                    const Cancel& closes, const Cancel* cancel) {
  if (deadline_s && std::isnan(*deadline_s)) throw nb::value_error("deadline_s is no number");
  const auto handle = self.handle();
  const auto wait_ns =
      deadline_s ? static_cast<uint64_t>(std::clamp(*deadline_s * 1e9, 1.0, 1e18)) : UINT64_MAX;
  Interruptible waits;
  waits.end_waits_when(closes.flag());
  if (cancel != nullptr) waits.end_waits_when(cancel->flag());
  ocm_event event = OCM_EVENT_INIT;
  const int status = without_gil([&] { return ocm_event_next(handle->get(), wait_ns, &event); });
  if (status == OCM_OK) {
    return nb::make_tuple(
        static_cast<int>(event.kind),
        nb::bytes(reinterpret_cast<const char*>(event.allocation), sizeof(event.allocation)), event.name,
        event.node, event.partition);
  }
  if (status != OCM_DEADLINE) waits.check(status);
  waits.check_signals();
  if (closes.cancelled() || (cancel != nullptr && cancel->cancelled()))
    raise_status(OCM_CANCELLED, "the wait for an event was cancelled, or the session closed");
  return std::nullopt;
}

}  // namespace

SessionHandle::~SessionHandle() {
  end_abandoned(nullptr);
  Interruptible waits;
  waits.end_waits_after_interrupt();
  (void)ocm_session_close(session_);  // ends every operation
  if (abandoned_.empty() || !Py_IsInitialized()) return;
  const GilTaken gil;
  abandoned_.clear();
}

void SessionHandle::abandon(ocm_op* op, std::shared_ptr<Buffers> buffers, const Ends& ends) {
  std::lock_guard lock(mutex_);
  abandoned_.push_back({op, std::move(buffers), ends});
}

void SessionHandle::end_abandoned(const ocm_allocation* end) {
  std::vector<Abandoned> over;
  {
    std::lock_guard lock(mutex_);
    const auto uses = [&](const Abandoned& one) {
      return end == nullptr || std::find(one.ends.begin(), one.ends.end(), end) != one.ends.end();
    };
    const auto first = std::stable_partition(abandoned_.begin(), abandoned_.end(),
                                             [&](const Abandoned& one) { return !uses(one); });
    std::move(first, abandoned_.end(), std::back_inserter(over));
    abandoned_.erase(first, abandoned_.end());
  }
  if (over.empty()) return;
  Interruptible waits;
  waits.end_waits();
  for (const Abandoned& one : over) (void)ocm_op_wait(one.op, OCM_WAIT_REMOTE | OCM_WAIT_FREE, 0);
  if (!Py_IsInitialized()) {
    new std::vector<Abandoned>(std::move(over));  // the buffers are nobody's any more
    return;
  }
  const GilTaken gil;
  over.clear();
}

void SessionHandle::reap() {
  std::vector<Abandoned> ended;  // let go of after the lock: a buffer's end may run anything
  std::lock_guard lock(mutex_);
  std::erase_if(abandoned_, [&](Abandoned& one) {
    if (ocm_op_test(one.op) == 0) return false;
    (void)ocm_op_free(one.op);
    ended.push_back(std::move(one));
    return true;
  });
}

std::shared_ptr<SessionHandle> Session::handle() const {
  if (closed())
    raise_status(OCM_CANCELLED, "the session was closed: open another one with oncilla.connect()");
  return state_->handle;
}

void Session::close() {
  if (state_ == nullptr || closed()) return;
  std::shared_ptr<SessionHandle> handle = std::move(state_->handle);
  handle->begin_to_close();
  // One by one: leave() takes it out of the set, and lets other threads run.
  while (!state_->allocations.empty()) (*state_->allocations.begin())->leave();
  without_gil([&] { handle.reset(); });
}

void register_session(nb::module_& module) {
  nb::class_<Session>(module, "Session", "A connection to the daemon of this node.")
      .def("__init__", open_session, nb::arg("socket").none(), nb::arg("program").none(), nb::arg("flags"),
           nb::arg("fabric"), nb::arg("deadline_ns"), nb::arg("embedded_bytes"))
      .def("close", &Session::close,
           "Frees every unpublished allocation and closes the session.\n\n"
           "Arrays that point into local memory stay valid; their memory comes back when they are gone.")
      .def_prop_ro("closed", &Session::closed, "True after close().")
      .def("_node_list", node_list)
      .def("_name_list", name_list, nb::arg("prefix"))
      .def("_next_event", next_event, nb::arg("deadline_s").none(), nb::arg("closes"),
           nb::arg("cancel").none() = nb::none())
      .def("remove", remove_name, nb::arg("name"),
           "Removes a published name and frees its memory; attached allocations get Revoked.\n\n"
           "Raises NotFound, Permission, NoCoordinator.")
      .def("fence", fence_session, "Returns when every put and atomic of this session is complete remotely.");
}

}  // namespace ocm::python
