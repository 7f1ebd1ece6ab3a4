#include "table/scan.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <thread>

#include "capi/call.h"
#include "capi/failure.h"
#include "os/interrupt.h"
#include "table/fork.h"

namespace ocm::table {
namespace {

constexpr uint64_t kBatchRows = 131'072;
// What is widened should still be in the processor's own cache when the reader looks at it.
constexpr uint64_t kWidenedBatchRows = 32'768;
constexpr uint32_t kPrefetchGroups = 3;
// The next home gets its request while the last one's bytes still come: it wakes up meanwhile.
constexpr size_t kFetchesMax = 2;
constexpr int kSleepMs = 60'000;

/// Fetches row groups ahead of the reader.
///
/// A thread runs only while there is room ahead: it ends when that is full and the reader starts the next
/// one, so a reader that rests keeps no thread. A release, and the session's end, take back the gets that are under way.
/// Invariants
///   F1 running_ => one thread is in run(), and nobody else touches dictionaries_.
///   F2 ready_.size() + fetches under way <= prefetch_groups; groups come in order.
///   F3 a dictionary that is on its way is in dictionaries_, and belongs to a fetch that ends before any that
///      found it there; after a failure nothing is given.
class Ahead : public std::enable_shared_from_this<Ahead> {
 public:
  Ahead(std::shared_ptr<ScanLife> life, ScanPlan plan) : life_(std::move(life)), plan_(std::move(plan)) {}

  const ScanPlan& plan() const { return plan_; }
  Table& table() { return *life_->table; }
  const std::shared_ptr<ScanLife>& life() const { return life_; }

  /// The next group; only while more() holds.
  Result<HeldGroup> next() {
    OCM_DASSERT(more());
    const bool moves = !ahead_ && needs_moving(table(), plan_.groups[next_], plan_.columns, plan_.flags);
    ahead_ = ahead_ || moves;
    if (!ahead_) {
      OCM_DASSERT(next_ == taken_);
      const Entered entered(table().state().threads);  // a dictionary may have to be moved all the same
      if (!entered.well) return closed();
      ++taken_;
      Fetches one;
      begin(next_++, one);
      return end(one);
    }
    std::unique_lock lock(mutex_);
    start(lock);
    os::Interrupts interrupts;
    const auto has_news = [&] { return !ready_.empty() || !running_; };
    while (!has_news()) {
      some_.wait_for(lock, std::chrono::milliseconds(interrupts.sleep_ms(kSleepMs)));
      if (has_news() || interrupts.none()) continue;
      lock.unlock();
      const bool came = interrupts.came();
      lock.lock();
      if (came && !has_news()) return os::interrupted();
    }
    if (ready_.empty()) return exhausted_ ? no_memory(next_ - 1) : closed();
    Result<HeldGroup> group = std::move(ready_.front());
    ready_.pop_front();
    if (!group.is_ok() && is_over()) return closed();  // which took it back
    ++taken_;
    start(lock);
    return group;
  }
  bool more() const { return taken_ < plan_.groups.size(); }

  void stop() {
    std::lock_guard lock(mutex_);
    stop_.store(true);
  }

 private:
  /// Nobody wants what it fetches.
  bool is_over() { return stop_.load() || table().state().threads.stopping(); }

  /// Keeps the session from ending.
  struct Entered {
    explicit Entered(Threads& threads) : all(threads), well(threads.enter()) {}
    ~Entered() {
      if (well) all.leave();
    }
    Entered(const Entered&) = delete;
    Entered& operator=(const Entered&) = delete;
    Threads& all;
    const bool well;
  };
  /// Under way, in order; null: no memory for it.
  struct Fetches {
    std::array<std::pair<size_t, std::unique_ptr<Fetch>>, kFetchesMax> all;
    size_t count = 0;
  };

  static Status closed() { return Status(Code::kCancelled, "the session was closed under the scan"); }
  Status no_memory(size_t index) {
    return Status(Code::kNoMemory, table().describe(plan_.groups[index]) + ": this program is out of memory");
  }

  void begin(size_t index, Fetches& fetches) {
    OCM_DASSERT(index < plan_.groups.size() && fetches.count < kFetchesMax);
    std::unique_ptr<Fetch> fetch;
    try {
      fetch =
          std::make_unique<Fetch>(table(), plan_.groups[index], plan_.columns, plan_.flags, dictionaries_);
    } catch (const std::bad_alloc&) {
    }
    fetches.all[fetches.count++] = {index, std::move(fetch)};
  }
  Result<HeldGroup> end(Fetches& fetches) {
    OCM_DASSERT(fetches.count > 0);
    const auto [index, fetch] = std::move(fetches.all.front());
    std::move(fetches.all.begin() + 1, fetches.all.end(), fetches.all.begin());
    --fetches.count;
    try {
      if (fetch != nullptr) return fetch->finish();
    } catch (const std::bad_alloc&) {
    }
    return no_memory(index);
  }

  /// Starts the thread unless one runs or there is nothing to do.
  void start(std::unique_lock<std::mutex>&) {
    if (running_ || stop_ || !room() || !table().state().threads.enter()) return;
    running_ = true;
    try {
      std::thread([self = shared_from_this()]() mutable {
        const std::shared_ptr<SessionState> state = self->table().shared_state();
        // The last holder's callback may close the session, which waits for this thread to leave: so this
        // goes after that.
        const std::shared_ptr<ScanEnd> end = self->life()->end;
        try {
          self->run();
        } catch (const std::bad_alloc&) {
          self->abandon();
        }
        self.reset();  // perhaps the table's last holder: before the session may end
        state->threads.leave();
      }).detach();
    } catch (...) {
      running_ = false;
      table().state().threads.leave();
      ready_.emplace_back(Status(Code::kNoMemory, "no thread can be started to fetch row groups"));
    }
  }
  /// Not even a failure could be kept.
  void abandon() {
    std::lock_guard lock(mutex_);
    running_ = false;
    failed_ = exhausted_ = true;
    some_.notify_one();
  }
  bool room(size_t fetches = 0) const {
    return ready_.size() + fetches < plan_.prefetch_groups && next_ < plan_.groups.size() && !failed_;
  }
  /// To the reader; nothing comes after a failure.
  void give(Result<HeldGroup> group) {
    if (failed_) return;
    failed_ = !group.is_ok();
    ready_.push_back(std::move(group));
    some_.notify_one();
  }

  void run() {
    const os::InterruptedBy its_end(
        [](int, void* self) { return static_cast<Ahead*>(self)->is_over() ? 1 : 0; }, this);
    Fetches fetches;
    std::unique_lock lock(mutex_);
    OCM_DASSERT(running_);  // F1
    const auto wanted = [&] { return !is_over() && room(fetches.count) && fetches.count < kFetchesMax; };
    while (true) {
      while (wanted()) {
        const size_t index = next_++;
        lock.unlock();
        begin(index, fetches);
        lock.lock();
        OCM_DASSERT(ready_.size() + fetches.count <= plan_.prefetch_groups);  // F2
      }
      if (fetches.count == 0) break;
      lock.unlock();
      Result<HeldGroup> group = end(fetches);
      lock.lock();
      give(std::move(group));
    }
    running_ = false;
    some_.notify_one();
  }

  const std::shared_ptr<ScanLife> life_;
  const ScanPlan plan_;
  HeldDictionaries dictionaries_;  // of the thread while one runs
  bool ahead_ = false;             // of the reader: from the first group on that is moved

  std::mutex mutex_;  // guards what follows, once ahead_
  std::condition_variable some_;
  std::deque<Result<HeldGroup>> ready_;
  size_t next_ = 0;   // group to fetch
  size_t taken_ = 0;  // groups that the reader has had
  bool running_ = false;
  std::atomic<bool> stop_{false};
  bool failed_ = false;
  bool exhausted_ = false;  // memory, for want of which nothing more comes
};

/// What a stream owns.
class Scan {
 public:
  Scan(std::shared_ptr<ScanLife> life, ScanPlan plan)
      : ahead_(std::make_shared<Ahead>(std::move(life), std::move(plan))), born_(fork_generation()) {}
  ~Scan() {
    if (born_ == fork_generation()) {
      ahead_->stop();
    } else if (ahead_.use_count() > 1) {
      // Its thread stayed in the parent: nothing here may wait for it.
      new (std::nothrow) std::shared_ptr<Ahead>(std::move(ahead_));
    }
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
    if (ahead_->table().state().threads.stopping())
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
  std::shared_ptr<Ahead> ahead_;
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
