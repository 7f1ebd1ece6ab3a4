// Allocations for Python: create, attach, publish, free, what they are.
#include "allocation.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <oncilla/table.h>

#include <chrono>

#include "operation.h"

namespace ocm::python {
namespace {

/// To free takes a message to each home. Longer: one of them is asked again and again.
constexpr std::chrono::milliseconds kAnswersIn{500};

[[noreturn]] void raise_buffer_error(const std::string& text) {
  PyErr_SetString(PyExc_BufferError, text.c_str());
  throw nb::python_error();
}

void create(Allocation* self, const Session& session, uint64_t bytes, int kind, int layout, uint32_t extents,
            uint64_t chunk_bytes, const std::vector<Text>& nodes, int fabric, uint32_t flags) {
  std::vector<const char*> names;
  for (const Text& node : nodes) names.push_back(node.c_str());
  ocm_allocation_options options = OCM_ALLOCATION_OPTIONS_INIT;
  options.kind = static_cast<ocm_kind>(kind);
  options.layout = static_cast<ocm_layout>(layout);
  options.extents = extents;
  options.chunk_bytes = chunk_bytes;
  options.nodes = names.empty() ? nullptr : names.data();
  options.nodes_count = names.size();
  options.fabric = static_cast<ocm_fabric>(fabric);
  options.flags = flags;
  std::shared_ptr<SessionHandle> handle = session.handle();
  ocm_allocation* allocation = nullptr;
  check_interruptible([&] { return ocm_allocation_create(handle->get(), bytes, &options, &allocation); });
  auto made = std::make_shared<AllocationHandle>(std::move(handle), allocation);
  check_interrupts(nullptr);
  new (self) Allocation(session.state(), std::move(made));
}

void attach(Allocation* self, const Session& session, const Text& text, int access) {
  const char* name = text.c_str();
  std::shared_ptr<SessionHandle> handle = session.handle();
  ocm_allocation* allocation = nullptr;
  check_interruptible([&] {
    return ocm_allocation_attach(handle->get(), name, static_cast<ocm_access>(access), &allocation);
  });
  new (self) Allocation(session.state(), std::make_shared<AllocationHandle>(std::move(handle), allocation));
}

void join(Allocation* self, const Session& session, const std::vector<nb::object>& objects) {
  std::vector<Allocation*> parts;
  for (const nb::object& object : objects) {
    Allocation* part = nullptr;
    if (!nb::try_cast(object, part) || part == nullptr) {
      const std::string which =
          "`parts` are allocations, but parts[" + std::to_string(parts.size()) + "] is not";
      throw nb::type_error(which.c_str());
    }
    parts.push_back(part);
  }
  std::shared_ptr<SessionHandle> handle = session.handle();
  std::vector<std::shared_ptr<AllocationHandle>> taken;
  std::vector<ocm_allocation*> pointers;
  const auto give_back = [&] {
    for (size_t i = 0; i < taken.size(); ++i) parts[i]->give(std::move(taken[i]));
  };
  try {
    for (Allocation* part : parts) {
      taken.push_back(part->take());
      pointers.push_back(taken.back()->get());
    }
  } catch (...) {
    give_back();
    throw;
  }
  ocm_allocation* joined = nullptr;
  try {
    check_interruptible(
        [&] { return ocm_allocation_join(handle->get(), pointers.data(), pointers.size(), &joined); });
  } catch (...) {
    give_back();
    throw;
  }
  for (const auto& part : taken) part->ended();
  new (self) Allocation(session.state(), std::make_shared<AllocationHandle>(std::move(handle), joined));
}

nb::tuple query(const Allocation& self) {
  const auto handle = self.handle();
  ocm_allocation_info info = OCM_ALLOCATION_INFO_INIT;
  check(ocm_allocation_query(handle->get(), &info));
  return nb::make_tuple(info.bytes, static_cast<int>(info.kind), static_cast<int>(info.layout),
                        info.chunk_bytes, info.extents, info.access == OCM_ACCESS_READ_WRITE, info.published,
                        info.slab, info.owner_uid, info.mode, info.own_uid, info.durable,
                        nb::bytes(reinterpret_cast<const char*>(info.id), sizeof(info.id)), info.coherent);
}

bool is_table(const Allocation& self) {
  const auto handle = self.handle();
  int is = 0;
  check_interruptible([&] { return is = ocm_table_test(handle->get()); });
  return is != 0;
}

nb::list extent_list(const Allocation& self) {
  const auto handle = self.handle();
  ocm_allocation_info info = OCM_ALLOCATION_INFO_INIT;
  check(ocm_allocation_query(handle->get(), &info));
  std::vector<ocm_extent_info> extents(info.extents, ocm_extent_info OCM_EXTENT_INFO_INIT);
  check_interruptible([&] {  // may ask the daemon who is alive
    for (uint32_t i = 0; i < info.extents; ++i) {
      const int status = ocm_allocation_extent_query(handle->get(), i, &extents[i]);
      if (status < 0) return status;
    }
    return static_cast<int>(OCM_OK);
  });
  nb::list out;
  for (const ocm_extent_info& extent : extents) {
    out.append(nb::make_tuple(extent.node, extent.bytes, extent.global_address, extent.generation,
                              static_cast<int>(extent.fabric), extent.local, extent.lost));
  }
  return out;
}

void publish(const Allocation& self, const Text& text, uint32_t mode) {
  const char* name = text.c_str();
  const auto handle = self.handle();
  check_interruptible([&] { return ocm_allocation_publish(handle->get(), name, mode); });
}

void fence_allocation(const Allocation& self) {
  const auto handle = self.handle();
  check_interruptible([&] { return ocm_fence(handle->get()); });
}

}  // namespace

AllocationHandle::AllocationHandle(std::shared_ptr<SessionHandle> session, ocm_allocation* allocation)
    : session_(std::move(session)), allocation_(allocation), bytes_(ocm_allocation_bytes(allocation)) {}

AllocationHandle::~AllocationHandle() {
  if (allocation_ == nullptr || session_->ends_allocations()) return;
  const auto end = [this] {
    session_->end_abandoned(allocation_);
    Interruptible waits;
    waits.end_waits_after_interrupt();
    const auto began = std::chrono::steady_clock::now();
    const int status = ocm_allocation_free(allocation_);
    if (status != OCM_OK || std::chrono::steady_clock::now() - began > kAnswersIn) session_->was_unanswered();
  };
  // The last who had it may have the GIL, which the threads that it waits for may need.
  if (PyGILState_Check() != 0)
    without_gil(end);
  else
    end();
}

bool AllocationHandle::direct() {
  Reach reach = reach_.load(std::memory_order_relaxed);
  if (reach != Reach::kUnknown) return reach == Reach::kDirect;
  ocm_allocation_info info = OCM_ALLOCATION_INFO_INIT;
  if (ocm_allocation_query(allocation_, &info) < 0) return false;
  void* pointer = nullptr;
  // A piece of a slab is local; its pointer, once taken, would forbid to publish it.
  bool direct = info.slab;
  if (!direct && info.layout == OCM_LAYOUT_SINGLE && info.kind == OCM_KIND_DRAM) {
    const int status = ocm_allocation_map(allocation_, 0, bytes_, &pointer);
    if (status == OCM_DEADLINE) return false;  // who asks next is told
    direct = status == OCM_OK;
  }
  reach_.store(direct ? Reach::kDirect : Reach::kFar, std::memory_order_relaxed);
  return direct;
}

Allocation::Allocation(std::shared_ptr<SessionState> state, std::shared_ptr<AllocationHandle> handle)
    : state_(std::move(state)), handle_(std::move(handle)), bytes_(handle_->bytes()) {
  state_->allocations.insert(this);
}

Allocation::~Allocation() { leave(); }

std::shared_ptr<AllocationHandle> Allocation::handle() const {
  if (handle_ != nullptr) return handle_;
  raise_failure(gone());
}

Failure Allocation::gone() const {
  Failure why;
  why.status = state_->handle == nullptr ? OCM_CANCELLED : OCM_REVOKED;
  why.text = state_->handle == nullptr
                 ? "the allocation's session was closed: open another one with oncilla.connect()"
                 : "the allocation was freed: allocate or attach again";
  return why;
}

void Allocation::free() {
  if (handle_ == nullptr) return;
  check_no_exports();
  leave();
}

std::shared_ptr<AllocationHandle> Allocation::take() {
  if (handle().use_count() > 2) {  // this one's, and the copy that is asked
    check_no_exports();
    raise_buffer_error("another thread's call uses the allocation: wait for it first");
  }
  state_->allocations.erase(this);
  return std::move(handle_);
}

void Allocation::give(std::shared_ptr<AllocationHandle> handle) {
  handle_ = std::move(handle);
  state_->allocations.insert(this);
}

void Allocation::check_no_exports() const {
  if (exports == 0) return;
  raise_buffer_error("the allocation's memory is in use by " + std::to_string(exports) +
                     " buffer(s) (memoryview, numpy, arrow): delete them first");
}

void Allocation::leave() {
  state_->allocations.erase(this);
  std::shared_ptr<AllocationHandle> handle = std::move(handle_);
  if (handle == nullptr) return;
  while (!handle->word_waits.empty()) {  // one by one: its end may let other threads run
    Operation* const wait = *handle->word_waits.begin();
    handle->word_waits.erase(wait);
    wait->end(gone());
  }
  without_gil([&] { handle.reset(); });
}

void register_allocation(nb::module_& module) {
  nb::class_<Allocation> allocation(module, "Allocation", nb::type_slots(allocation_slots),
                                    "Memory of the cluster; the base of oncilla.Allocation.");
  allocation
      .def("__init__", create, nb::arg("session"), nb::arg("nbytes"), nb::arg("kind"), nb::arg("layout"),
           nb::arg("extents"), nb::arg("chunk_bytes"), nb::arg("nodes"), nb::arg("fabric"), nb::arg("flags"))
      .def("__init__", attach, nb::arg("session"), nb::arg("name"), nb::arg("access"))
      .def("__init__", join, nb::arg("session"), nb::arg("parts"))
      .def_prop_ro("nbytes", &Allocation::bytes, "Its length in bytes, as asked for.")
      .def_prop_ro("freed", &Allocation::freed, "True after free(), or after its session was closed.")
      .def("free", &Allocation::free,
           "Gives the memory back (a published allocation is detached, not removed). Again: does nothing.\n\n"
           "Raises BufferError while buffers of it are in use.")
      .def("publish", publish, nb::arg("name"), nb::arg("mode") = 0600,
           "Gives it a name under which other sessions attach it; it then outlives this session.\n\n"
           "`mode`: bits like a file's, read and write of the owner (0o600) and of others (0o006).\n"
           "Raises Exists, NoCoordinator, Unsupported (a small allocation whose memory a buffer points to: "
           "allocate\n"
           "it with dedicated=True).")
      .def("fence", fence_allocation, "Returns when every put and atomic to it is complete remotely.")
      .def("_leave", &Allocation::leave,
           "free(), but where buffers are in use the memory goes with the last of them.")
      .def("_query", query)
      .def("_is_table", is_table,
           "True if it is a segment of a table. Raises oncilla.Error, as PeerLost where nobody can tell.")
      .def("_extent_list", extent_list);
  register_transfer(allocation, module);
  register_atomics(allocation);
}

}  // namespace ocm::python
