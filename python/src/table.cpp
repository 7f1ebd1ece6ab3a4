// Tables for Python: Arrow streams in and out as capsules, and what a table is.
//
// Ownership: a capsule owns its stream until a consumer moves it out. A scan's stream and its arrays hold the
//            session, so that they outlive the table's handle and `pool.close()`.
// Threads:   the GIL is left in every call of the library, whose source may be Python code that takes it by
// itself.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <oncilla/table.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core.h"

namespace ocm::python {
namespace {

// ------------------------------------------------------------------ capsules of the Arrow PyCapsule
// interface

constexpr const char* kStreamCapsule = "arrow_array_stream";
constexpr const char* kSchemaCapsule = "arrow_schema";

template <class Arrow>
nb::object arrow_capsule(std::unique_ptr<Arrow> arrow, const char* name, PyCapsule_Destructor destructor) {
  PyObject* capsule = PyCapsule_New(arrow.get(), name, destructor);
  if (capsule == nullptr) throw nb::python_error();
  arrow.release();
  return nb::steal(capsule);
}

void release_stream(PyObject* capsule) {
  std::unique_ptr<ArrowArrayStream> stream(
      static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule, kStreamCapsule)));
  if (stream == nullptr || stream->release == nullptr) return;
  const GilLeft left;
  stream->release(stream.get());
}

void release_schema(PyObject* capsule) {
  std::unique_ptr<ArrowSchema> schema(
      static_cast<ArrowSchema*>(PyCapsule_GetPointer(capsule, kSchemaCapsule)));
  if (schema != nullptr && schema->release != nullptr) schema->release(schema.get());
}

/// Moves the stream out of `capsule`. Raises TypeError for what is none, and for one that was consumed.
ArrowArrayStream take_stream(nb::handle capsule) {
  auto* stream = static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule.ptr(), kStreamCapsule));
  if (stream == nullptr) throw nb::python_error();
  if (stream->release == nullptr) throw nb::type_error("the Arrow stream was consumed before");
  const ArrowArrayStream taken = *stream;
  stream->release = nullptr;
  return taken;
}

// ------------------------------------------------------------------ loading

/// A load's progress and what ended it: shared by the call and by the source that it reads.
struct Load {
  nb::object progress;
  std::exception_ptr raised;

  /// Lets a signal handler run (Ctrl-C), then tells `progress`. False: stop, with `raised` or asked to.
  bool go_on(std::optional<nb::object> rows_and_bytes) {
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (!rows_and_bytes || progress.is_none()) return true;
      const nb::object answer =
          nb::steal(enter_python([&] { return PyObject_CallObject(progress.ptr(), rows_and_bytes->ptr()); }));
      if (!answer.is_valid()) throw nb::python_error();
      return answer.ptr() != Py_False;
    } catch (...) {
      raised = std::current_exception();
      return false;
    }
  }
};

bool on_progress(uint64_t rows, uint64_t bytes, void* context) {
  const GilTaken gil;
  return static_cast<Load*>(context)->go_on(nb::make_tuple(rows, bytes));
}

/// The source as the library reads it: a signal ends it between two batches.
struct Source {
  ArrowArrayStream inner;
  std::shared_ptr<Load> load;
  bool stopped = false;

  static Source& of(ArrowArrayStream* stream) { return *static_cast<Source*>(stream->private_data); }
  static int get_schema(ArrowArrayStream* stream, ArrowSchema* out) {
    return enter_python([&] { return of(stream).inner.get_schema(&of(stream).inner, out); });
  }
  static int get_next(ArrowArrayStream* stream, ArrowArray* out) {
    Source& self = of(stream);
    {
      const GilTaken gil;
      self.stopped = !self.load->go_on(std::nullopt);
    }
    if (self.stopped) return ECANCELED;
    return enter_python([&] { return self.inner.get_next(&self.inner, out); });
  }
  static const char* get_last_error(ArrowArrayStream* stream) {
    Source& self = of(stream);
    return self.stopped ? "interrupted" : self.inner.get_last_error(&self.inner);
  }
  static void release(ArrowArrayStream* stream) {
    Source* self = &of(stream);
    enter_python([&] { self->inner.release(&self->inner); });
    stream->release = nullptr;
    const GilTaken gil;
    delete self;
  }
};

ArrowArrayStream interruptible(ArrowArrayStream inner, std::shared_ptr<Load> load) {
  auto* source = new Source{inner, std::move(load)};
  return {Source::get_schema, Source::get_next, Source::get_last_error, Source::release, source};
}

using Store = int (*)(ocm_session*, const char*, ArrowArrayStream*, const ocm_table_options*);

template <Store kStore>
void store(const Session& self, const Text& name, nb::handle stream, int placement,
           const std::vector<Text>& nodes, uint32_t replicas, uint32_t mode, uint64_t group_rows,
           uint64_t group_bytes, uint32_t flags, int32_t kind, nb::object progress) {
  const std::shared_ptr<SessionHandle> session = self.handle();
  const char* table = name.c_str();
  std::vector<const char*> node_names;
  for (const Text& node : nodes) node_names.push_back(node.c_str());
  auto load = std::make_shared<Load>();
  load->progress = std::move(progress);
  ocm_table_options options = OCM_TABLE_OPTIONS_INIT;
  options.placement = static_cast<ocm_table_placement>(placement);
  options.nodes = node_names.data();
  options.nodes_count = node_names.size();
  options.replicas = replicas;
  options.mode = mode;
  options.group_rows = group_rows;
  options.group_bytes = group_bytes;
  options.flags = flags;
  options.kind = kind;
  options.progress = on_progress;
  options.context = load.get();
  ArrowArrayStream source = interruptible(take_stream(stream), load);
  Interruptible waits;
  const int status = without_gil([&] { return kStore(session->get(), table, &source, &options); });
  if (load->raised) std::rethrow_exception(load->raised);
  waits.check(status);
}

void drop(const Session& self, const Text& name) {
  const std::shared_ptr<SessionHandle> session = self.handle();
  const char* table = name.c_str();
  check_interruptible([&] { return ocm_table_drop(session->get(), table); });
}

// ------------------------------------------------------------------ an opened table

class Opened;

/// `oncilla._core.Meter`: bytes that scans moved, of handles that are open and of those that were.
class Meter {
 public:
  void add(const Opened* opened) {
    std::lock_guard lock(mutex_);
    open_.insert(opened);
  }
  void remove(const Opened* opened, uint64_t bytes) {
    std::lock_guard lock(mutex_);
    open_.erase(opened);
    done_bytes_ += bytes;
  }
  uint64_t bytes() const;

 private:
  mutable std::mutex mutex_;  // guards what follows; an Opened that is in open_ lives
  std::unordered_set<const Opened*> open_;
  uint64_t done_bytes_ = 0;
};
using Meters = std::vector<std::shared_ptr<Meter>>;

/// The library's handle, held by its OpenTable and by the streams of its scans. Destroyed with the GIL or
/// without, on any thread.
class Opened {
 public:
  Opened(std::shared_ptr<SessionHandle> session, ocm_table* table, Meters meters)
      : session_(std::move(session)), table_(table), meters_(std::move(meters)) {
    for (const auto& meter : meters_) meter->add(this);
  }
  ~Opened() {
    const uint64_t moved = bytes_moved();
    for (const auto& meter : meters_) meter->remove(this, moved);
    Interruptible waits;
    waits.end_waits_after_interrupt();
    (void)ocm_table_close(table_);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  ocm_table* get() const { return table_; }
  const std::shared_ptr<SessionHandle>& session() const { return session_; }
  uint64_t bytes_moved() const {
    ocm_table_info info = OCM_TABLE_INFO_INIT;
    return ocm_table_query(table_, &info) == OCM_OK ? info.bytes_moved : 0;
  }

 private:
  std::shared_ptr<SessionHandle> session_;
  ocm_table* table_;
  Meters meters_;
};

uint64_t Meter::bytes() const {
  std::lock_guard lock(mutex_);
  uint64_t bytes = done_bytes_;
  for (const Opened* opened : open_) bytes += opened->bytes_moved();
  return bytes;
}

/// `oncilla._core.OpenTable`: a snapshot. Calls keep the handle while they run, so close() may come any time.
class OpenTable {
 public:
  explicit OpenTable(std::shared_ptr<Opened> opened) : opened_(std::move(opened)) {}
  ~OpenTable() { close(); }
  OpenTable(OpenTable&&) = default;

  std::shared_ptr<Opened> opened() const {
    if (opened_ == nullptr) raise_status(OCM_INVALID_ARGUMENT, "the snapshot was closed: take another one");
    return opened_;
  }
  void close() {
    if (opened_ != nullptr) {
      std::shared_ptr<Opened> opened = std::move(opened_);
      without_gil([&] { opened.reset(); });
    }
  }

 private:
  std::shared_ptr<Opened> opened_;
};

OpenTable open_table(const Session& self, const Text& name, Meters meters) {
  std::shared_ptr<SessionHandle> session = self.handle();
  const char* which = name.c_str();
  if (std::find(meters.begin(), meters.end(), nullptr) != meters.end()) {
    throw nb::type_error("`meters` are of Meter: one is None");
  }
  ocm_table* table = nullptr;
  check_interruptible([&] { return ocm_table_open(session->get(), which, &table); });
  return OpenTable(std::make_shared<Opened>(std::move(session), table, std::move(meters)));
}

nb::dict info(const OpenTable& self) {
  const std::shared_ptr<Opened> opened = self.opened();
  ocm_table_info info = OCM_TABLE_INFO_INIT;
  check(without_gil([&] { return ocm_table_query(opened->get(), &info); }));
  nb::dict out;
  out["rows"] = info.rows;
  out["bytes"] = info.bytes;
  out["bytes_moved"] = info.bytes_moved;
  out["columns"] = info.columns;
  out["groups"] = info.groups;
  out["segments"] = info.segments;
  out["replicas"] = info.replicas;
  out["placement"] = static_cast<int>(info.placement);
  out["version"] = info.version;
  out["id"] = info.id;
  out["kind"] = static_cast<int>(info.kind);
  return out;
}

nb::object schema(const OpenTable& self) {
  auto schema = std::make_unique<ArrowSchema>();
  check(ocm_table_schema_query(self.opened()->get(), schema.get()));
  return arrow_capsule(std::move(schema), kSchemaCapsule, release_schema);
}

/// (name, format, format of the dictionary's values or None) of each column: the formats of the C data
/// interface.
nb::list fields(const OpenTable& self) {
  ArrowSchema schema{};
  check(ocm_table_schema_query(self.opened()->get(), &schema));
  const std::unique_ptr<ArrowSchema, void (*)(ArrowSchema*)> owner(&schema,
                                                                   [](ArrowSchema* s) { s->release(s); });
  nb::list out;
  for (int64_t i = 0; i < schema.n_children; ++i) {
    const ArrowSchema& field = *schema.children[i];
    nb::object values = nb::none();
    if (field.dictionary != nullptr) values = nb::str(field.dictionary->format);
    out.append(nb::make_tuple(field.name == nullptr ? "" : field.name, field.format, values));
  }
  return out;
}

nb::object bound(ocm_bound_kind kind, const ocm_bound& value) {
  if (kind == OCM_BOUND_INT) return nb::int_(value.integer);
  if (kind == OCM_BOUND_DOUBLE) return nb::float_(value.real);
  return nb::none();
}

/// (first_row, rows, bytes, nulls, minimum, maximum, local, lost, node) of `column` in each row group.
nb::list chunks(const OpenTable& self, uint32_t column) {
  const std::shared_ptr<Opened> opened = self.opened();
  ocm_table_info info = OCM_TABLE_INFO_INIT;
  check(ocm_table_query(opened->get(), &info));
  nb::list out;
  for (uint32_t group = 0; group < info.groups; ++group) {
    ocm_table_chunk chunk = OCM_TABLE_CHUNK_INIT;
    check_interruptible([&] { return ocm_table_chunk_query(opened->get(), group, column, &chunk); });
    out.append(nb::make_tuple(chunk.first_row, chunk.rows, chunk.bytes, chunk.nulls,
                              bound(chunk.bounds, chunk.minimum), bound(chunk.bounds, chunk.maximum),
                              chunk.local, chunk.lost, chunk.node));
  }
  return out;
}

/// What scans of this process failed with, the last ones. Arrow's C stream interface passes on nothing but an errno and a
/// text, through libraries and threads of others: that text, which is looked up and not parsed, finds the rest again. Any
/// thread.
class ScanFailures {
 public:
  void keep(const char* text, Failure failure) {
    const std::lock_guard lock(mutex_);
    std::erase_if(kept_, [&](const auto& one) { return one.first == text; });
    if (kept_.size() >= kKept) kept_.pop_front();
    kept_.emplace_back(text, std::move(failure));
  }
  /// The newest whose whole text stands in `text`.
  std::optional<Failure> find(std::string_view text) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(kept_.rbegin(), kept_.rend(), [&](const auto& one) {
      return text.find(one.first) != std::string_view::npos;
    });
    if (found == kept_.rend()) return std::nullopt;
    return found->second;
  }

 private:
  static constexpr size_t kKept = 64;
  std::mutex mutex_;
  std::deque<std::pair<std::string, Failure>> kept_;
};
ScanFailures& scan_failures() {
  static auto* const failures = new ScanFailures;  // a thread may outlive the module
  return *failures;
}

std::optional<nb::tuple> scan_failure(const std::string& text) {
  const std::optional<Failure> found = scan_failures().find(text);
  if (!found) return std::nullopt;
  return arguments_of(*found);
}

/// A scan's stream, which holds the handle: what it moved is counted until the consumer lets go of it.
struct Scanned {
  ArrowArrayStream inner;
  std::shared_ptr<Opened> opened;

  static ArrowArrayStream* of(ArrowArrayStream* stream) {
    return &static_cast<Scanned*>(stream->private_data)->inner;
  }
  static int get_schema(ArrowArrayStream* stream, ArrowSchema* out) {
    return noted(stream, of(stream)->get_schema(of(stream), out));
  }
  /// A reader without Python may be in between, which tells of a signal's exception as an error of its own.
  static int get_next(ArrowArrayStream* stream, ArrowArray* out) {
    const Interruptible waits;
    return noted(stream, of(stream)->get_next(of(stream), out));
  }
  static const char* get_last_error(ArrowArrayStream* stream) {
    return of(stream)->get_last_error(of(stream));
  }
  /// The errno value that one of them returned. The error's fields are kept while they are this thread's last.
  static int noted(ArrowArrayStream* stream, int error) noexcept {
    const char* const text = error != 0 ? get_last_error(stream) : nullptr;
    ocm_error_info info = OCM_ERROR_INFO_INIT;
    if (text == nullptr || ocm_last_error_info(&info) != OCM_OK) return error;
    try {
      scan_failures().keep(text, Failure::last(info.status));
    } catch (const std::bad_alloc&) {  // the text is left
    }
    return error;
  }
  static void release(ArrowArrayStream* stream) {
    const std::unique_ptr<Scanned> self(static_cast<Scanned*>(stream->private_data));
    self->inner.release(&self->inner);
    stream->release = nullptr;
  }
};

nb::object scan(const OpenTable& self, const std::optional<std::vector<uint32_t>>& columns,
                const std::optional<std::vector<uint32_t>>& groups, uint64_t batch_rows,
                uint32_t prefetch_groups, uint32_t flags) {
  const std::shared_ptr<Opened> opened = self.opened();
  const uint32_t none = 0;  // an empty list is not NULL, which means all
  ocm_scan_options options = OCM_SCAN_OPTIONS_INIT;
  options.columns = !columns ? nullptr : columns->empty() ? &none : columns->data();
  options.columns_count = columns ? columns->size() : 0;
  options.groups = !groups ? nullptr : groups->empty() ? &none : groups->data();
  options.groups_count = groups ? groups->size() : 0;
  options.batch_rows = batch_rows;
  options.prefetch_groups = prefetch_groups;
  options.flags = flags;
  auto held = std::make_unique<std::shared_ptr<SessionHandle>>(opened->session());
  options.released = [](void* context) { delete static_cast<std::shared_ptr<SessionHandle>*>(context); };
  options.context = held.get();
  auto scanned = std::make_unique<Scanned>();
  check_interruptible([&] { return ocm_table_scan(opened->get(), &options, &scanned->inner); });
  held.release();
  scanned->opened = opened;
  auto stream = std::make_unique<ArrowArrayStream>(ArrowArrayStream{
      Scanned::get_schema, Scanned::get_next, Scanned::get_last_error, Scanned::release, scanned.release()});
  return arrow_capsule(std::move(stream), kStreamCapsule, release_stream);
}

// ------------------------------------------------------------------ the cache

void cache_limit(const Session& self, uint64_t bytes) {
  const std::shared_ptr<SessionHandle> session = self.handle();
  check(without_gil([&] { return ocm_table_cache_limit(session->get(), bytes); }));
}

nb::dict cache_info(const Session& self) {
  const std::shared_ptr<SessionHandle> session = self.handle();
  ocm_table_cache_info info = OCM_TABLE_CACHE_INFO_INIT;
  check(ocm_table_cache_query(session->get(), &info));
  nb::dict out;
  out["limit_bytes"] = info.limit_bytes;
  out["used_bytes"] = info.used_bytes;
  out["hits"] = info.hits;
  out["misses"] = info.misses;
  return out;
}

void cache_clear(const Session& self) {
  const std::shared_ptr<SessionHandle> session = self.handle();
  check(without_gil([&] { return ocm_table_cache_clear(session->get()); }));
}

template <Store kStore>
void define_store(nb::module_& module, const char* name) {
  module.def(name, store<kStore>, nb::arg("session"), nb::arg("name"), nb::arg("stream"),
             nb::arg("placement"), nb::arg("nodes"), nb::arg("replicas"), nb::arg("mode"),
             nb::arg("group_rows"), nb::arg("group_bytes"), nb::arg("flags"), nb::arg("kind"),
             nb::arg("progress").none());
}

}  // namespace

void register_table(nb::module_& module) {
  nb::class_<Meter>(module, "Meter",
                    "Counts bytes that the scans of tables opened with it move from other nodes.")
      .def(nb::init<>())
      .def_prop_ro("nbytes", &Meter::bytes, "Bytes moved so far.");
  nb::class_<OpenTable>(module, "OpenTable", "A table as it was when it was opened; it holds the memory.")
      .def("close", &OpenTable::close, "Lets go; streams and arrays that came from it go on.")
      .def("info", info, "Rows, bytes, bytes moved by scans of this handle, groups, segments and so on.")
      .def("schema", schema, "The schema as an arrow_schema capsule.")
      .def("fields", fields, "(name, format, dictionary format or None) of each column.")
      .def("chunks", chunks, nb::arg("column"),
           "(first_row, rows, bytes, nulls, minimum, maximum, local, lost, node) of each row group.")
      .def("scan", scan, nb::arg("columns").none(), nb::arg("groups").none(), nb::arg("batch_rows"),
           nb::arg("prefetch_groups"), nb::arg("flags"), "An arrow_array_stream capsule.");
  define_store<ocm_table_create>(module, "table_create");
  define_store<ocm_table_append>(module, "table_append");
  module.def("table_drop", drop, nb::arg("session"), nb::arg("name"));
  module.def("table_open", open_table, nb::arg("session"), nb::arg("name"), nb::arg("meters"));
  module.def("scan_failure", scan_failure, nb::arg("text"));
  module.def("table_cache_limit", cache_limit, nb::arg("session"), nb::arg("bytes"));
  module.def("table_cache_info", cache_info, nb::arg("session"));
  module.def("table_cache_clear", cache_clear, nb::arg("session"));
  for (const auto& [name, flag] : {std::pair{"TABLE_COMPACT", uint32_t{OCM_TABLE_COMPACT}},
                                   {"TABLE_REPLACE", uint32_t{OCM_TABLE_REPLACE}},
                                   {"TABLE_REMOTE", uint32_t{OCM_TABLE_REMOTE}},
                                   {"TABLE_PACK", uint32_t{OCM_TABLE_PACK}},
                                   {"TABLE_DURABLE", uint32_t{OCM_TABLE_DURABLE}},
                                   {"SCAN_CACHE", uint32_t{OCM_SCAN_CACHE}},
                                   {"SCAN_VALIDATE", uint32_t{OCM_SCAN_VALIDATE}},
                                   {"SCAN_MOVE", uint32_t{OCM_SCAN_MOVE}}}) {
    module.attr(name) = flag;
  }
}

}  // namespace ocm::python
