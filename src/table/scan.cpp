#include "table/scan.h"

#include <algorithm>
#include <cerrno>
#include <deque>

#include "capi/call.h"
#include "capi/failure.h"
#include "table/fork.h"

namespace ocm::table {
namespace {

constexpr uint64_t kBatchRows = 131'072;
// What is widened should still be in the processor's own cache when the reader looks at it.
constexpr uint64_t kWidenedBatchRows = 32'768;
constexpr uint32_t kPrefetchGroups = 3;
// The next home gets its request while the last one's bytes still come: it wakes up meanwhile. More would keep the first waiting.
constexpr size_t kFetchesAtFirst = 2;

/// Row groups on their way ahead of the reader.
///
/// Nothing here has a thread: what was started goes on in the session's (client/mover.h) while the reader works, and in the
/// reader's own while it waits here. What is to be checked of a group is checked when the reader takes it.
/// Invariants
///   F1 fetches_ are under way or have come, in order: groups [taken_, next_), prefetch_groups of them at most.
///   F2 a dictionary that is on its way is in dictionaries_, and belongs to a fetch that ends before any that
///      found it there; after a failure nothing is given.
/// Threads: one at a time, as a stream. The session's end may come from another one at any time (sessions.h).
class Ahead {
 public:
  Ahead(std::shared_ptr<ScanLife> life, ScanPlan plan) : life_(std::move(life)), plan_(std::move(plan)) {}

  const ScanPlan& plan() const { return plan_; }
  Table& table() { return *life_->table; }
  const std::shared_ptr<ScanLife>& life() const { return life_; }
  bool is_idle() const { return fetches_.empty(); }

  /// The next group; only while more() holds.
  Result<HeldGroup> next() {
    OCM_DASSERT(more());
    const Calls::Entered entered(table().state().calls);
    if (!entered.well()) return closed();
    ahead_ = ahead_ || needs_moving(table(), plan_.groups[next_], plan_.columns, plan_.flags);
    begin(ahead_ ? kFetchesAtFirst : 1);
    const std::unique_ptr<Fetch> first = std::move(fetches_.front());
    fetches_.pop_front();
    ++taken_;
    Result<HeldGroup> group = first == nullptr ? no_memory(taken_ - 1) : end(*first);
    if (!group.is_ok() && table().state().calls.stopping()) return closed();  // which took it back
    if (group.is_ok() && ahead_) begin(plan_.prefetch_groups);
    return group;
  }
  bool more() const { return taken_ < plan_.groups.size(); }

 private:
  static Status closed() { return Status(Code::kCancelled, "the session was closed under the scan"); }
  Status no_memory(size_t index) {
    return Status(Code::kNoMemory, table().describe(plan_.groups[index]) + ": this program is out of memory");
  }

  /// Until so many are under way, or have come.
  void begin(size_t count) {
    count = std::min<size_t>(count, plan_.prefetch_groups);
    for (; fetches_.size() < count && next_ < plan_.groups.size(); ++next_) {
      std::unique_ptr<Fetch> fetch;  // null: no memory for it
      try {
        fetch =
            std::make_unique<Fetch>(table(), plan_.groups[next_], plan_.columns, plan_.flags, dictionaries_);
      } catch (const std::bad_alloc&) {
      }
      fetches_.push_back(std::move(fetch));
      if (fetches_.back() == nullptr) count = 0;
    }
    OCM_DASSERT(next_ - taken_ == fetches_.size() && fetches_.size() <= plan_.prefetch_groups);  // F1
  }
  Result<HeldGroup> end(Fetch& fetch) {
    try {
      return fetch.finish();
    } catch (const std::bad_alloc&) {
      return no_memory(taken_ - 1);
    }
  }

  const std::shared_ptr<ScanLife> life_;
  const ScanPlan plan_;
  HeldDictionaries dictionaries_;
  std::deque<std::unique_ptr<Fetch>> fetches_;
  bool ahead_ = false;  // from the first group on that is moved
  size_t next_ = 0;     // group to fetch
  size_t taken_ = 0;    // groups that the reader has had
};

/// What a stream owns.
class Scan {
 public:
  Scan(std::shared_ptr<ScanLife> life, ScanPlan plan)
      : ahead_(std::make_unique<Ahead>(std::move(life), std::move(plan))), born_(fork_generation()) {}
  ~Scan() {
    // What is under way is the parent's: nothing here may wait for it, nor for locks that were held there.
    if (born_ != fork_generation() && !ahead_->is_idle()) (void)ahead_.release();
  }

  void schema(ArrowSchema* out) {
    const Field& all = ahead_->table().schema();
    Field root;
    root.format = all.format;
    root.flags = all.flags;
    root.metadata = all.metadata;
    for (const uint32_t column : ahead_->plan().columns) root.children.push_back(all.children[column]);
    export_schema(root, out);
  }

  Status next(ArrowArray* out) {
    *out = {};
    if (born_ != fork_generation())
      return Status(Code::kInvalidArgument,
                    "a scan of the parent process: open a session and the table again");
    if (!failure_.is_ok()) return failure_;
    if (ahead_->table().state().calls.stopping())
      return Status(Code::kCancelled, "the session was closed under the scan");
    if (row_ == rows_) {
      if (!ahead_->more()) return {};
      Result<HeldGroup> group = ahead_->next();
      if (!group.is_ok()) return failure_ = group.status();
      group_ = std::make_unique<HeldGroup>(std::move(*group));
      rows_ = ahead_->table().group_of(ahead_->table().groups()[group_->group]).rows;
      row_ = 0;
    }
    const uint64_t rows = std::min(ahead_->plan().batch_rows, rows_ - row_);
    OCM_DASSERT(group_ != nullptr && rows > 0);
    export_rows(ahead_->life(), *group_, ahead_->plan().columns, row_, rows, out);
    row_ += rows;
    if (row_ == rows_) group_.reset();  // the arrays keep it
    return {};
  }

  /// Errors stay.
  void end(Status failure) { failure_ = std::move(failure); }

  std::string error;  // of the last call

 private:
  std::unique_ptr<Ahead> ahead_;
  uint32_t born_;
  std::unique_ptr<HeldGroup> group_;
  uint64_t row_ = 0, rows_ = 0;  // in the group
  Status failure_;
};

int errno_of(Code code) {
  switch (code) {
    case Code::kOk: return 0;
    case Code::kInvalidArgument: return EINVAL;
    case Code::kNoMemory: return ENOMEM;
    case Code::kCancelled: return ECANCELED;
    case Code::kDeadline: return ETIMEDOUT;
    default: return EIO;
  }
}

/// Runs a callback's body; its failure becomes an errno value and the stream's last error.
template <class Body>
int answer(ArrowArrayStream* stream, Body body) noexcept {
  auto* scan = static_cast<Scan*>(stream->private_data);
  try {
    const Status status = body(*scan);
    scan->error = status.is_ok() ? "" : status.to_string();
    (void)capi::finish(status);
    return errno_of(status.code());
  } catch (const std::exception&) {
    scan->end(Status(Code::kNoMemory));
    (void)capi::fail(Status(Code::kNoMemory));
    return ENOMEM;
  }
}

int get_schema(ArrowArrayStream* stream, ArrowSchema* out) {
  return answer(stream, [&](Scan& scan) {
    scan.schema(out);
    return Status();
  });
}
int get_next(ArrowArrayStream* stream, ArrowArray* out) {
  return answer(stream, [&](Scan& scan) { return scan.next(out); });
}
const char* get_last_error(ArrowArrayStream* stream) {
  const auto* scan = static_cast<Scan*>(stream->private_data);
  return scan->error.empty() ? nullptr : scan->error.c_str();
}
void release(ArrowArrayStream* stream) {
  delete static_cast<Scan*>(stream->private_data);
  stream->release = nullptr;
}

/// Whether one of the columns is packed, as far as the first row group tells.
bool widens(const Table& table, const std::vector<uint32_t>& columns) {
  if (table.groups().empty()) return false;
  const Group& first = table.group_of(table.groups().front());
  return std::any_of(columns.begin(), columns.end(),
                     [&](uint32_t column) { return first.columns[column].chunk.packing.has_value(); });
}

}  // namespace

Result<ScanPlan> plan_scan(const Table& table, const ocm_scan_options& options) {
  constexpr uint32_t kFlags = OCM_SCAN_CACHE | OCM_SCAN_VALIDATE | OCM_SCAN_MOVE;
  static_assert(kFlags == OCM_SCAN_CACHE + OCM_SCAN_VALIDATE + OCM_SCAN_MOVE,
                "each flag is a bit of its own");
  if ((options.flags & ~kFlags) != 0) return capi::unknown_flags(options.flags & ~kFlags, "OCM_SCAN_");
  ScanPlan plan;
  plan.prefetch_groups = options.prefetch_groups != 0 ? options.prefetch_groups : kPrefetchGroups;
  plan.flags = options.flags;
  // What was checked must not change afterwards: who wrote it may write on.
  if ((plan.flags & OCM_SCAN_VALIDATE) != 0) plan.flags |= OCM_SCAN_MOVE;
  const auto columns = static_cast<uint32_t>(table.schema().children.size());
  const auto groups = static_cast<uint32_t>(table.groups().size());
  if (options.columns == nullptr) {
    for (uint32_t i = 0; i < columns; ++i) plan.columns.push_back(i);
  } else {
    plan.columns.assign(options.columns, options.columns + options.columns_count);
  }
  for (const uint32_t column : plan.columns) {
    if (column >= columns)
      return Status(Code::kOutOfRange, "column " + std::to_string(column) + " is asked for; the table has " +
                                           std::to_string(columns) + ", counted from 0");
  }
  plan.batch_rows = options.batch_rows;
  if (plan.batch_rows == 0) plan.batch_rows = widens(table, plan.columns) ? kWidenedBatchRows : kBatchRows;
  if (options.groups == nullptr) {
    for (uint32_t i = 0; i < groups; ++i) plan.groups.push_back(i);
    return plan;
  }
  plan.groups.assign(options.groups, options.groups + options.groups_count);
  for (size_t i = 0; i < plan.groups.size(); ++i) {
    if (plan.groups[i] >= groups)
      return Status(Code::kOutOfRange, "row group " + std::to_string(plan.groups[i]) +
                                           " is asked for; the table has " + std::to_string(groups) +
                                           ", counted from 0");
    if (i > 0 && plan.groups[i] <= plan.groups[i - 1])
      return Status(Code::kInvalidArgument, "row group " + std::to_string(plan.groups[i]) +
                                                " is given after " + std::to_string(plan.groups[i - 1]) +
                                                ": give row groups in ascending order, each once");
  }
  return plan;
}

void start_scan(std::shared_ptr<ScanLife> life, ScanPlan plan, ArrowArrayStream* stream) {
  auto scan = std::make_unique<Scan>(std::move(life), std::move(plan));
  *stream = {};
  stream->get_schema = get_schema;
  stream->get_next = get_next;
  stream->get_last_error = get_last_error;
  stream->release = release;
  stream->private_data = scan.release();
}

}  // namespace ocm::table
