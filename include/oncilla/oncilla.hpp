// Oncilla for C++20: the C interface (oncilla.h) with owners, spans and results. Header only.
//
//   auto session = ocm::Session::open().value();
//   auto memory = session.allocate(1 << 20).value();
//   memory.put(0, std::as_bytes(std::span(numbers))).check();
//
// Conventions: every object is move-only and ends what it owns; no function throws except value() and
// check(), which throw ocm::Exception. Threads, completion and costs are those of oncilla.h.
#ifndef ONCILLA_ONCILLA_HPP
#define ONCILLA_ONCILLA_HPP

#include <oncilla/oncilla.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

/// OCM_ACCESS_READ | OCM_ACCESS_HOLD.
constexpr ocm_access operator|(ocm_access a, ocm_access b) {
  return static_cast<ocm_access>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

namespace ocm {
inline namespace api {

/// An ocm_status that is not OCM_OK, with the sentence that says what to do.
class Error {
 public:
  Error(int status, std::string message, std::string node = {}, std::string subject = {},
        ocm_subject subject_kind = OCM_SUBJECT_NONE)
      : status_(status),
        message_(std::move(message)),
        node_(std::move(node)),
        subject_(std::move(subject)),
        subject_kind_(subject_kind) {}
  /// From the last failed call of this thread.
  static Error last(int status) {
    const char* text = ocm_last_error();
    std::string message = *text != '\0' ? text : ocm_strerror(status);
    ocm_error_info info = OCM_ERROR_INFO_INIT;
    if (ocm_last_error_info(&info) != OCM_OK || info.status != status) return {status, std::move(message)};
    return {status, std::move(message), info.node, info.subject, info.subject_kind};
  }
  /// The ocm_status.
  int status() const noexcept { return status_; }
  /// Such as "POOL_FULL".
  const char* name() const noexcept { return ocm_status_name(status_); }
  /// What went wrong and what to do.
  const std::string& message() const noexcept { return message_; }
  /// The name of the node that it is about, or "".
  const std::string& node() const noexcept { return node_; }
  /// The name of what it is about, or ""; what that is, is its kind.
  const std::string& subject() const noexcept { return subject_; }
  ocm_subject subject_kind() const noexcept { return subject_kind_; }

 private:
  int status_;
  std::string message_, node_, subject_;
  ocm_subject subject_kind_;
};

/// Thrown by Result::value() and Done::check() only.
class Exception : public std::runtime_error {
 public:
  explicit Exception(Error error)
      : std::runtime_error(std::string(error.name()) + ": " + error.message()), error_(std::move(error)) {}
  /// What value() or check() met.
  const Error& error() const noexcept { return error_; }
  /// The error's.
  const std::string& node() const noexcept { return error_.node(); }
  const std::string& subject() const noexcept { return error_.subject(); }

 private:
  Error error_;
};

/// A value, or the error that says why there is none.
template <class T>
class [[nodiscard]] Expected {
 public:
  /// Holds a value, or an error.
  Expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT
  Expected(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  bool has_value() const noexcept { return state_.index() == 0; }
  /// True with a value. The operators below need one; error() needs none.
  explicit operator bool() const noexcept { return has_value(); }
  T& operator*() & { return *std::get_if<0>(&state_); }
  const T& operator*() const& { return *std::get_if<0>(&state_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&state_)); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }
  const Error& error() const { return *std::get_if<1>(&state_); }
  int status() const noexcept { return has_value() ? OCM_OK : error().status(); }

  /// The value; throws Exception without one.
  T& value() & {
    if (!has_value()) throw Exception(error());
    return **this;
  }
  T&& value() && {
    if (!has_value()) throw Exception(error());
    return std::move(**this);
  }
  /// The value, or `other` without one.
  template <class U>
  T value_or(U&& other) && {
    return has_value() ? std::move(**this) : static_cast<T>(std::forward<U>(other));
  }

 private:
  std::variant<T, Error> state_;
};

/// An outcome without a value.
template <>
class [[nodiscard]] Expected<void> {
 public:
  Expected() = default;
  Expected(Error error) : error_(std::move(error)) {}  // NOLINT
  /// Of a C call that has just returned in this thread.
  static Expected from(int status) { return status < 0 ? Expected(Error::last(status)) : Expected(); }

  bool has_value() const noexcept { return !error_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }
  const Error& error() const { return *error_; }
  int status() const noexcept { return error_ ? error_->status() : OCM_OK; }
  /// Throws Exception if there is an error.
  void value() const {
    if (error_) throw Exception(*error_);
  }
  void check() const { value(); }

 private:
  std::optional<Error> error_;
};
/// The outcome of what gives no value.
using Done = Expected<void>;

/// Deadlines; 0 is the session's default.
using Nanoseconds = std::chrono::nanoseconds;

namespace detail {
inline uint64_t count(Nanoseconds time) { return time.count() > 0 ? static_cast<uint64_t>(time.count()) : 0; }

/// Owns a C handle.
template <class Handle, int (*kEnd)(Handle*)>
class Owner {
 public:
  Owner() = default;
  explicit Owner(Handle* handle) : handle_(handle) {}
  Owner(Owner&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owner& operator=(Owner&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~Owner() { reset(); }
  Handle* get() const noexcept { return handle_; }
  Handle* release() noexcept { return std::exchange(handle_, nullptr); }
  int reset() noexcept { return handle_ != nullptr ? kEnd(std::exchange(handle_, nullptr)) : OCM_OK; }

 private:
  Handle* handle_ = nullptr;
};
}  // namespace detail

/// An operation under way. Destroying it waits for its end; a wait for a word ends then.
class Op {
 public:
  Op() = default;
  explicit Op(ocm_op* op) : op_(op) {}
  /// Until complete: visible to every later get. 0: the session's default without progress.
  Done wait(Nanoseconds deadline = {}) {
    return Done::from(ocm_op_wait(op_.get(), OCM_WAIT_REMOTE, detail::count(deadline)));
  }
  /// Until the local buffer may be reused.
  Done wait_local(Nanoseconds deadline = {}) {
    return Done::from(ocm_op_wait(op_.get(), OCM_WAIT_LOCAL, detail::count(deadline)));
  }
  /// True when complete and well; false while under way.
  Expected<bool> test() {
    const int status = ocm_op_test(op_.get());
    if (status < 0) return Error::last(status);
    return status == 1;
  }
  /// `eventfd`, of eventfd(2), becomes readable when the operation is complete, without calls that wait or test.
  Done signal(int eventfd) { return Done::from(ocm_op_signal(op_.get(), eventfd)); }
  /// It ends with CANCELLED unless it is complete, and soon: wait(), test() and signal() tell. What was sent may still be
  /// applied.
  Done cancel() { return Done::from(ocm_op_cancel(op_.get())); }
  /// The C handle; release() leaves its end to the caller.
  ocm_op* get() const noexcept { return op_.get(); }
  ocm_op* release() noexcept { return op_.release(); }

 private:
  detail::Owner<ocm_op, ocm_op_free> op_;
};

/// As ocm_allocation_options; the nodes are copied.
struct AllocationOptions {
  ocm_kind kind = OCM_KIND_DRAM;
  ocm_layout layout = OCM_LAYOUT_SINGLE;
  uint32_t extents = 0;
  uint64_t chunk_bytes = 0;
  std::vector<std::string> nodes;  // empty: the cluster chooses
  ocm_fabric fabric = OCM_FABRIC_ANY;
  uint32_t flags = 0;  // OCM_ALLOCATION_*
};

/// Memory in the cluster. Destroying it gives the memory back (published: detaches).
class Allocation {
 public:
  Allocation() = default;
  explicit Allocation(ocm_allocation* allocation) : allocation_(allocation) {}

  /// Its length as asked for.
  uint64_t size_bytes() const { return ocm_allocation_bytes(get()); }
  /// Kind, layout, access, and whether it is published, whose the name is and who may open it.
  Expected<ocm_allocation_info> info() const {
    ocm_allocation_info info{};
    info.size = sizeof(info);
    if (const int status = ocm_allocation_query(get(), &info); status < 0) return Error::last(status);
    return info;
  }
  /// Errors: OUT_OF_RANGE (index).
  Expected<ocm_extent_info> extent(uint32_t index) const {
    ocm_extent_info info{};
    info.size = sizeof(info);
    if (const int status = ocm_allocation_extent_query(get(), index, &info); status < 0)
      return Error::last(status);
    return info;
  }
  /// Ends it now, with the outcome that the destructor would swallow.
  Done free() { return Done::from(allocation_.reset()); }

  /// Completion: remote; a later get by anyone sees it. Errors: OUT_OF_RANGE, PERMISSION, REVOKED, PEER_LOST.
  Done put(uint64_t offset, std::span<const std::byte> source) {
    return Done::from(ocm_put(get(), offset, source.data(), source.size()));
  }
  /// On an error the bytes of `target` are unspecified. Errors: as put, LOST.
  Done get(uint64_t offset, std::span<std::byte> target) const {
    return Done::from(ocm_get(get(), offset, target.data(), target.size()));
  }
  /// One object, as its bytes.
  template <class T>
  requires std::is_trivially_copyable_v<T> Done store(uint64_t offset, const T& value) {
    return put(offset, std::as_bytes(std::span<const T, 1>(&value, 1)));
  }
  template <class T>
  requires std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T> Expected<T> load(
      uint64_t offset)
  const {
    T value{};
    if (Done done = get(offset, std::as_writable_bytes(std::span<T, 1>(&value, 1))); !done)
      return done.error();
    return value;
  }
  /// Vectored, in one window. On an error any segment may have been moved.
  Done put(std::span<const ocm_segment> segments) {
    return Done::from(ocm_putv(get(), segments.data(), segments.size()));
  }
  /// The same, into the segments.
  Done get(std::span<const ocm_segment> segments) const {
    return Done::from(ocm_getv(get(), segments.data(), segments.size()));
  }
  /// Shapes: row i lies at offset + i * stride there and pointer + i * pointer_stride here.
  Done put_strided(uint64_t offset, uint64_t stride, const void* pointer, uint64_t pointer_stride,
                   uint64_t row_bytes, uint64_t rows) {
    return Done::from(ocm_put_strided(get(), offset, stride, pointer, pointer_stride, row_bytes, rows));
  }
  /// The same, from there to here.
  Done get_strided(uint64_t offset, uint64_t stride, void* pointer, uint64_t pointer_stride,
                   uint64_t row_bytes, uint64_t rows) const {
    return Done::from(ocm_get_strided(get(), offset, stride, pointer, pointer_stride, row_bytes, rows));
  }

  /// `source` stays unchanged until local completion.
  Expected<Op> put_start(uint64_t offset, std::span<const std::byte> source) {
    return started(ocm_put_start, offset, source.data(), source.size());
  }
  /// `target` stays alive until the operation is complete.
  Expected<Op> get_start(uint64_t offset, std::span<std::byte> target) const {
    return started(ocm_get_start, offset, target.data(), target.size());
  }
  /// As the blocking forms; the list of segments is copied.
  Expected<Op> put_start(std::span<const ocm_segment> segments) {
    return started(ocm_putv_start, segments.data(), segments.size());
  }
  Expected<Op> get_start(std::span<const ocm_segment> segments) const {
    return started(ocm_getv_start, segments.data(), segments.size());
  }
  Expected<Op> put_strided_start(uint64_t offset, uint64_t stride, const void* pointer,
                                 uint64_t pointer_stride, uint64_t row_bytes, uint64_t rows) {
    return started(ocm_put_strided_start, offset, stride, pointer, pointer_stride, row_bytes, rows);
  }
  Expected<Op> get_strided_start(uint64_t offset, uint64_t stride, void* pointer, uint64_t pointer_stride,
                                 uint64_t row_bytes, uint64_t rows) const {
    return started(ocm_get_strided_start, offset, stride, pointer, pointer_stride, row_bytes, rows);
  }
  /// Completion: remote, of all that this session started here. Returns the first error of an operation freed early.
  Done fence() { return Done::from(ocm_fence(get())); }

  /// The bytes where they are contiguous on this host, or in pages that the daemon caches (ocm_allocation_map says how those
  /// end); valid until the allocation is freed.
  Expected<std::span<std::byte>> bytes(uint64_t offset, uint64_t count) {
    void* pointer = nullptr;
    if (const int status = ocm_allocation_map(get(), offset, count, &pointer); status < 0)
      return Error::last(status);
    return std::span(static_cast<std::byte*>(pointer), count);
  }

  /// Atomics give the value before. Shapes: offset % 8 == 0. Errors: UNSUPPORTED (replicated).
  Expected<uint64_t> fetch_add(uint64_t offset, uint64_t operand) {
    return atomic(ocm_atomic_fetch_add, offset, operand);
  }
  Expected<uint64_t> swap(uint64_t offset, uint64_t operand) {
    return atomic(ocm_atomic_swap, offset, operand);
  }
  Expected<uint64_t> fetch_and(uint64_t offset, uint64_t operand) {
    return atomic(ocm_atomic_and, offset, operand);
  }
  Expected<uint64_t> fetch_or(uint64_t offset, uint64_t operand) {
    return atomic(ocm_atomic_or, offset, operand);
  }
  Expected<uint64_t> fetch_xor(uint64_t offset, uint64_t operand) {
    return atomic(ocm_atomic_xor, offset, operand);
  }
  /// The value before: equal to `expected` if `desired` was stored.
  Expected<uint64_t> compare_swap(uint64_t offset, uint64_t expected, uint64_t desired) {
    uint64_t old = 0;
    if (const int status = ocm_atomic_compare_swap(get(), offset, expected, desired, &old); status < 0)
      return Error::last(status);
    return old;
  }
  /// The same, only started. `old` (may be null) is written before the operation is complete, and lives until then.
  Expected<Op> fetch_add_start(uint64_t offset, uint64_t operand, uint64_t* old) {
    return started(ocm_atomic_fetch_add_start, offset, operand, old);
  }
  Expected<Op> swap_start(uint64_t offset, uint64_t operand, uint64_t* old) {
    return started(ocm_atomic_swap_start, offset, operand, old);
  }
  Expected<Op> fetch_and_start(uint64_t offset, uint64_t operand, uint64_t* old) {
    return started(ocm_atomic_and_start, offset, operand, old);
  }
  Expected<Op> fetch_or_start(uint64_t offset, uint64_t operand, uint64_t* old) {
    return started(ocm_atomic_or_start, offset, operand, old);
  }
  Expected<Op> fetch_xor_start(uint64_t offset, uint64_t operand, uint64_t* old) {
    return started(ocm_atomic_xor_start, offset, operand, old);
  }
  Expected<Op> compare_swap_start(uint64_t offset, uint64_t expected, uint64_t desired, uint64_t* old) {
    return started(ocm_atomic_compare_swap_start, offset, expected, desired, old);
  }
  Expected<Op> put_notify_start(uint64_t offset, std::span<const std::byte> source, uint64_t notify_offset,
                                uint64_t value) {
    return started(ocm_put_notify_start, offset, source.data(), source.size(), notify_offset, value);
  }
  /// The put, then `value` is added to the word at `notify_offset`, in the same extent.
  Done put_notify(uint64_t offset, std::span<const std::byte> source, uint64_t notify_offset,
                  uint64_t value) {
    return Done::from(ocm_put_notify(get(), offset, source.data(), source.size(), notify_offset, value));
  }
  /// Until the word is at least `value`; what it was then. Errors: DEADLINE.
  Expected<uint64_t> wait_at_least(uint64_t offset, uint64_t value, Nanoseconds deadline = {}) const {
    uint64_t seen = 0;
    if (const int status = ocm_wait_at_least(get(), offset, value, detail::count(deadline), &seen);
        status < 0)
      return Error::last(status);
    return seen;
  }
  /// The same, only started. `seen` (may be null) is written before the operation is complete, and lives until then; a
  /// deadline of 0 is none. Op::cancel() gives up.
  Expected<Op> wait_at_least_start(uint64_t offset, uint64_t value, uint64_t* seen,
                                   Nanoseconds deadline = {}) const {
    return started(ocm_wait_at_least_start, offset, value, detail::count(deadline), seen);
  }
  /// Whether an operation that is started on these bytes now is under way at once, without waiting for anything.
  Expected<bool> ready(uint64_t offset, uint64_t bytes) const {
    const int status = ocm_allocation_ready(get(), offset, bytes);
    if (status < 0) return Error::last(status);
    return status == 1;
  }

  /// Shapes: 1 to 255 bytes of UTF-8 without '/'. Errors: EXISTS, NO_COORDINATOR.
  Done publish(const std::string& name, uint32_t mode = 0600) {
    return Done::from(ocm_allocation_publish(get(), name.c_str(), mode));
  }

  /// The C handle; release() leaves its end to the caller.
  ocm_allocation* get() const noexcept { return allocation_.get(); }
  ocm_allocation* release() noexcept { return allocation_.release(); }

 private:
  template <class Start, class... Arguments>
  Expected<Op> started(Start start, Arguments... arguments) const {
    ocm_op* op = nullptr;
    if (const int status = start(get(), arguments..., &op); status < 0) return Error::last(status);
    return Op(op);
  }
  Expected<uint64_t> atomic(int (*function)(ocm_allocation*, uint64_t, uint64_t, uint64_t*), uint64_t offset,
                            uint64_t operand) {
    uint64_t old = 0;
    if (const int status = function(get(), offset, operand, &old); status < 0) return Error::last(status);
    return old;
  }
  detail::Owner<ocm_allocation, ocm_allocation_free> allocation_;
};

/// One end of a copy.
struct Place : ocm_place {
  Place(const Allocation& in, uint64_t at) : ocm_place{in.get(), at, nullptr} {}
  Place(const void* here) : ocm_place(ocm_place_at(here)) {}  // NOLINT
};
/// Between any two of {pointer, allocation}, of one session. Errors: INVALID_ARGUMENT (overlap).
inline Done copy(const Place& target, const Place& source, uint64_t bytes) {
  return Done::from(ocm_place_copy(target, source, bytes));
}
/// The same, only started.
inline Expected<Op> copy_start(const Place& target, const Place& source, uint64_t bytes) {
  ocm_op* op = nullptr;
  if (const int status = ocm_place_copy_start(target, source, bytes, &op); status < 0)
    return Error::last(status);
  return Op(op);
}

/// As ocm_session_options.
struct SessionOptions {
  std::string socket_path;  // empty: $OCM_SOCKET, else the system's
  std::string program;
  uint32_t flags = 0;  // OCM_SESSION_*
  ocm_fabric fabric = OCM_FABRIC_ANY;
  Nanoseconds deadline{};
  uint64_t embedded_bytes = 0;
};

/// The program's connection to its daemon. Its allocations must be destroyed before it.
class Session {
 public:
  Session() = default;
  explicit Session(ocm_session* session) : session_(session) {}

  /// Errors: NO_DAEMON, LIMIT, AUTH, DRAINING.
  static Expected<Session> open(const SessionOptions& options = {}) {
    ocm_session_options c = OCM_SESSION_OPTIONS_INIT;
    c.socket_path = options.socket_path.empty() ? nullptr : options.socket_path.c_str();
    c.program = options.program.empty() ? nullptr : options.program.c_str();
    c.flags = options.flags;
    c.fabric = options.fabric;
    c.deadline_ns = detail::count(options.deadline);
    c.embedded_bytes = options.embedded_bytes;
    ocm_session* session = nullptr;
    if (const int status = ocm_session_open(&c, &session); status < 0) return Error::last(status);
    return Session(session);
  }
  /// Ends it now, with the outcome that the destructor would swallow.
  Done close() { return Done::from(session_.reset()); }

  /// Shapes: bytes > 0. Errors: POOL_FULL, QUOTA, UNKNOWN_NODE, UNSUPPORTED.
  Expected<Allocation> allocate(uint64_t bytes, const AllocationOptions& options = {}) {
    ocm_allocation_options c = OCM_ALLOCATION_OPTIONS_INIT;
    std::vector<const char*> nodes;
    for (const std::string& node : options.nodes) nodes.push_back(node.c_str());
    c.kind = options.kind;
    c.layout = options.layout;
    c.extents = options.extents;
    c.chunk_bytes = options.chunk_bytes;
    c.nodes = nodes.data();
    c.nodes_count = nodes.size();
    c.fabric = options.fabric;
    c.flags = options.flags;
    ocm_allocation* allocation = nullptr;
    if (const int status = ocm_allocation_create(get(), bytes, &c, &allocation); status < 0)
      return Error::last(status);
    return Allocation(allocation);
  }
  /// Joins several allocations into one and leaves them empty; on an error they are unchanged.
  /// Errors: INVALID_ARGUMENT, UNSUPPORTED, TOO_LARGE, REVOKED.
  Expected<Allocation> join(std::span<Allocation> parts) {
    std::vector<ocm_allocation*> handles;
    for (const Allocation& part : parts) handles.push_back(part.get());
    ocm_allocation* joined = nullptr;
    if (const int status = ocm_allocation_join(get(), handles.data(), handles.size(), &joined); status < 0)
      return Error::last(status);
    for (Allocation& part : parts) (void)part.release();
    return Allocation(joined);
  }
  /// `access` may have OCM_ACCESS_HOLD. Errors: NOT_FOUND, PERMISSION, NO_COORDINATOR; with HOLD PEER_LOST,
  /// LIMIT.
  Expected<Allocation> attach(const std::string& name, ocm_access access = OCM_ACCESS_READ_WRITE) {
    ocm_allocation* allocation = nullptr;
    if (const int status = ocm_allocation_attach(get(), name.c_str(), access, &allocation); status < 0)
      return Error::last(status);
    return Allocation(allocation);
  }
  /// Frees its memory, once no handle holds it; attached handles get REVOKED. Errors: NOT_FOUND, PERMISSION.
  Done remove(const std::string& name) { return Done::from(ocm_name_remove(get(), name.c_str())); }
  /// Allocation::fence() of every allocation.
  Done fence() { return Done::from(ocm_session_fence(get())); }

  /// Published names that start with `prefix`.
  Expected<std::vector<ocm_name_info>> names(const std::string& prefix = {}) {
    std::vector<ocm_name_info> all;
    const auto visit = [](const ocm_name_info* info, void* context) {
      static_cast<std::vector<ocm_name_info>*>(context)->push_back(*info);
      return true;
    };
    if (const int status = ocm_name_list(get(), prefix.c_str(), visit, &all); status < 0)
      return Error::last(status);
    return all;
  }
  /// The nodes that the session's daemon knows of.
  Expected<std::vector<ocm_node_info>> nodes() {
    std::vector<ocm_node_info> all;
    const auto visit = [](const ocm_node_info* info, void* context) {
      static_cast<std::vector<ocm_node_info>*>(context)->push_back(*info);
      return true;
    };
    if (const int status = ocm_node_list(get(), visit, &all); status < 0) return Error::last(status);
    return all;
  }

  /// The next event, of allocations that the session holds and of nodes: see ocm_event_next. 0: the session's default,
  /// Nanoseconds::max(): for ever. Errors: DEADLINE, NO_DAEMON.
  Expected<ocm_event> next_event(Nanoseconds deadline = {}) {
    ocm_event event = OCM_EVENT_INIT;
    const uint64_t wait_ns = deadline == Nanoseconds::max() ? UINT64_MAX : detail::count(deadline);
    if (const int status = ocm_event_next(get(), wait_ns, &event); status < 0) return Error::last(status);
    return event;
  }

  /// The C handle.
  ocm_session* get() const noexcept { return session_.get(); }

 private:
  detail::Owner<ocm_session, ocm_session_close> session_;
};

}  // namespace api
}  // namespace ocm

#endif  // ONCILLA_ONCILLA_HPP
