#include "client/session.h"

#include <algorithm>

#include "control.pb.h"
#include "os/interrupt.h"

namespace ocm::client {
namespace {

constexpr uint64_t kDefaultDeadlineNs = 3'000'000'000;
/// After a failed dial the next calls fail at once for so long.
constexpr uint64_t kRedialNs = 100'000'000;
/// A thread may still be counting on the page of a run that has just ended; never on one so far back.
constexpr size_t kRunsKept = 8;
/// Of one message, if it is not one receipt.
constexpr size_t kShownBytesMax = size_t{1} << 20;

}  // namespace

/// Borrows slabs with the session's own requests.
class Session::SlabsFromDaemon final : public SlabSource {
 public:
  explicit SlabsFromDaemon(Session& session) : session_(session) {}

  uint64_t slab_bytes() override { return session_.daemon_now()->slab_bytes(); }

  Result<std::unique_ptr<Grant>> lend(uint64_t bytes) override {
    OCM_TRY_ASSIGN(std::unique_ptr<Grant> grant, request_grant(session_, bytes, AllocationOptions{}));
    if (grant->extents.size() != 1 || grant->extents[0]->descriptor().bytes < bytes) {
      (void)return_grant(session_, ReturnedGrant(*grant));
      return Status(Code::kProtocol, "a slab that is not one extent of its size");
    }
    if (grant->extents[0]->on_this_host()) {
      const auto opened = grant->extents[0]->open();
      if (!opened.is_ok()) {
        (void)return_grant(session_, ReturnedGrant(*grant));
        return opened.status();
      }
    }
    return grant;
  }
  void give_back(std::unique_ptr<Slab> slab) override {
    const ReturnedGrant granted(*slab->grant);
    slab.reset();
    (void)return_grant(session_, granted);
  }
  bool usable(const Slab& slab) override {
    const Extent& extent = slab.extent();
    if (session_.is_leaving(extent.descriptor().id.address.partition())) return false;
    return extent.on_this_host() ? extent.check_local() == Code::kOk : !extent.avoided(os::now_ns());
  }

 private:
  Session& session_;
};

Session::Session(SessionOptions options)
    : options_(std::move(options)), slab_source_(std::make_unique<SlabsFromDaemon>(*this)) {}

Session::~Session() {
  const os::Uninterrupted to_the_end;
  // A watcher may just have taken the session up: its new run has a watcher too.
  for (std::shared_ptr<Daemon> last; last != daemon_now();) {
    last = daemon_now();
    if (last == nullptr) break;
    for (const std::shared_ptr<Daemon>& run : runs_now()) run->stop_watching();
  }
  (void)under_way_.drain(nullptr);
  slabs_.reset();
  routes_.reset();
}

Result<std::unique_ptr<Session>> Session::open(SessionOptions options) {
  std::unique_ptr<Session> session(new Session(std::move(options)));
  OCM_TRY_ASSIGN(os::Fd socket, session->options_.dial());
  const uint64_t patience =
      session->options_.deadline_ns != 0 ? session->options_.deadline_ns : kDefaultDeadlineNs;
  OCM_TRY_ASSIGN(session->daemon_, Daemon::greet(std::move(socket), session->options_.program, nullptr,
                                                 os::Deadline::after_ns(patience)));
  session->take_refused(*session->daemon_);
  session->node_ = session->daemon_->node();
  session->deadline_ns_ = session->options_.deadline_ns;
  if (session->deadline_ns_ == 0) session->deadline_ns_ = session->daemon_->failure_deadline_ns();
  if (session->deadline_ns_ == 0) session->deadline_ns_ = kDefaultDeadlineNs;
  session->runs_.push_back(session->daemon_);
  session->page_ = session->daemon_->page();
  session->routes_ = std::make_unique<Routes>(*session);
  session->slabs_ = std::make_unique<Slabs>(*session->slab_source_);
  // As long as a node may be silent before it is suspected.
  session->patience_with_dead_ns_ = std::min(
      session->deadline_ns_, std::max<uint64_t>(session->daemon_->failure_deadline_ns() / 2, 100'000'000));
  OCM_TRY(session->daemon_->watch([raw = session.get()] { return raw->daemon().is_ok(); },
                                  [raw = session.get()] { return raw->tell_what_is_due(); }));
  return session;
}

bool Session::is_valid() const {
  {
    std::lock_guard lock(mutex_);
    if (runs_.empty() || runs_.back() != daemon_ || !receipts_.is_valid()) return false;
    if (page_.load(std::memory_order_relaxed) != daemon_->page()) return false;
    for (const auto& [runs, count] : growing_) {
      if (runs > runs_resumed_ || count == 0) return false;
    }
    if (!std::all_of(runs_.begin(), runs_.end(), [](const auto& run) { return run->control().is_valid(); }))
      return false;
  }
  return routes_->is_valid() && slabs_->is_valid() && orders_.is_valid() && under_way_.is_valid() &&
         nodes_.is_valid();
}

uint64_t Session::call_deadline_ns() const {
  // The daemon itself waits for other nodes up to the failure deadline before it answers.
  constexpr uint64_t kMoreNs = 1'000'000'000, kMost = ~uint64_t{0};
  return deadline_ns_ > (kMost - kMoreNs) / 2 ? kMost : 2 * deadline_ns_ + kMoreNs;
}

std::vector<std::shared_ptr<Daemon>> Session::runs_now() const {
  std::lock_guard lock(mutex_);
  return runs_;
}

std::shared_ptr<Daemon> Session::daemon_now() const {
  std::lock_guard lock(mutex_);
  return daemon_;
}

Result<std::shared_ptr<Daemon>> Session::daemon() {
  std::shared_ptr<Daemon> now = daemon_now();
  if (!now->is_over()) return now;
  std::unique_lock dialling(dial_mutex_, std::defer_lock);
  if (!os::lock_unless_interrupted(dialling)) return os::interrupted();
  const os::HoldsLocks held;
  if (std::shared_ptr<Daemon> newer = daemon_now(); newer != now) return newer;
  if (os::now_ns() - dial_failed_at_ns_ < kRedialNs && dial_failed_at_ns_ != 0) {
    return Status(Code::kNoDaemon, "the daemon is gone; the session reconnects when it is back");
  }
  Result<std::shared_ptr<Daemon>> fresh = Status(Code::kNoDaemon);
  Result<os::Fd> socket = options_.dial();
  if (socket.is_ok()) {
    fresh =
        Daemon::greet(std::move(*socket), options_.program, now.get(), os::Deadline::after_ns(deadline_ns_));
    if (fresh.status().code() == Code::kAuth) {
      // It has another token than the one that it gave this session's key by: nothing that was held can be
      // reached any more, but the program goes on.
      socket = options_.dial();
      if (socket.is_ok()) {
        fresh = Daemon::greet(std::move(*socket), options_.program, nullptr,
                              os::Deadline::after_ns(deadline_ns_));
      }
    }
  } else {
    fresh = socket.status();
  }
  Status failed = fresh.status();
  if (failed.is_ok() && (*fresh)->node() != node_) {
    return Status(Code::kNoDaemon, "another node's daemon answers at the socket now: open a new session");
  }
  if (failed.is_ok()) take_refused(**fresh);
  now->control().fail(Status(Code::kNoDaemon, "the daemon was restarted"));
  std::vector<std::shared_ptr<Daemon>> over;  // let go after the lock
  std::unique_lock lock(mutex_);
  if (failed.is_ok() && (*fresh)->who().session != now->who().session) receipts_.clear();
  const os::Deadline deadline = os::Deadline::after_ns(call_deadline_ns());
  while (failed.is_ok()) {  // until none is left, and none comes before daemon_ is the new one
    const auto shown = receipts_.take_unknown_to((*fresh)->run(), kShownBytesMax);
    if (shown.empty()) break;
    lock.unlock();
    failed = show_receipts(**fresh, shown, deadline);
    lock.lock();
  }
  // What it did not take may be what was freed: the next run is told again.
  if (failed.is_ok() && unshown_run_ != (*fresh)->run()) receipts_.told((*fresh)->run());
  if (!failed.is_ok()) {
    dial_failed_at_ns_ = os::now_ns();
    return failed;
  }
  OCM_TRY((*fresh)->watch([this] { return daemon().is_ok(); }, [this] { return tell_what_is_due(); }));
  for (const auto& run : runs_) run->note_successor(**fresh);
  OCM_ASSERT((*fresh)->run() != now->run());
  daemon_ = *fresh;
  due_.clear();  // it is not shown what was freed
  runs_.push_back(daemon_);
  for (auto it = runs_.begin(); runs_.size() > kRunsKept && it != runs_.end();) {
    if ((*it)->watched_to_the_end()) {
      over.push_back(std::move(*it));
      it = runs_.erase(it);
    } else {
      ++it;
    }
  }
  page_.store(daemon_->page(), std::memory_order_release);
  complete_due_ = daemon_->who().session == now->who().session;
  ++runs_resumed_;
  std::shared_ptr<Daemon> out = daemon_;
  lock.unlock();
  if (tell_if_complete()) out->wake_watcher();
  return out;
}

Session::Growing::Growing(Session& session) : session_(session) {
  std::lock_guard lock(session.mutex_);
  runs_ = session.runs_resumed_;
  ++session.growing_[runs_];
}

Session::Growing::~Growing() {
  {
    std::lock_guard lock(session_.mutex_);
    const auto mine = session_.growing_.find(runs_);
    OCM_ASSERT(mine != session_.growing_.end() && mine->second > 0);
    if (--mine->second == 0) session_.growing_.erase(mine);
  }
  if (session_.tell_if_complete()) session_.daemon_now()->wake_watcher();
}

void Session::take_refused(Daemon& daemon) {
  daemon.control().on_refused([this, run = daemon.run()](std::shared_ptr<wire::Envelope> request) {
    tell_later(run, std::move(request));
  });
}

bool Session::is_complete_due() const {
  const bool some_grow = !growing_.empty() && growing_.begin()->first < runs_resumed_;
  return complete_due_ && !some_grow && unshown_run_ != daemon_->run();
}

bool Session::tell_if_complete() {
  std::shared_ptr<Daemon> to;
  {
    std::lock_guard lock(mutex_);
    if (!is_complete_due()) return false;
    complete_due_ = false;
    to = daemon_;
  }
  bool told = false;
  try {
    wire::Envelope request;
    request.mutable_session_restore()->set_complete(true);
    told = to->control().tell(request);
  } catch (const std::bad_alloc&) {  // later
  }
  std::lock_guard lock(mutex_);
  complete_due_ = complete_due_ || (!told && daemon_ == to);
  return is_complete_due();
}

void Session::tell_later(uint64_t run, std::shared_ptr<wire::Envelope> request) {
  std::lock_guard lock(mutex_);
  if (daemon_->run() != run) return;
  if (request->has_session_restore())
    complete_due_ = true;
  else
    due_.push_back(std::move(request));
  daemon_->wake_watcher();
}

bool Session::free_later(const Daemon& from, const wire::Envelope& request, const AllocationId& id,
                         const std::string& hold) {
  auto due = std::make_shared<wire::Envelope>(request);
  std::lock_guard lock(mutex_);
  if (daemon_.get() != &from) return false;
  if (daemon_->is_over()) {
    receipts_.free_later(id, hold);  // the next run may have been shown it
    return true;
  }
  due_.push_back(std::move(due));
  receipts_.remove(id, hold);
  daemon_->wake_watcher();
  return true;
}

bool Session::tell_what_is_due() {
  constexpr uint64_t kPauseNs = 100'000'000;
  std::vector<std::shared_ptr<wire::Envelope>> due;
  std::shared_ptr<Daemon> to;
  {
    std::lock_guard lock(mutex_);
    if (due_.empty() && !is_complete_due()) return false;
    const uint64_t now = os::now_ns();
    if (now < due_again_ns_) return true;
    due_again_ns_ = now + kPauseNs;
  }
  (void)tell_if_complete();
  {
    std::lock_guard lock(mutex_);
    due.swap(due_);
    to = daemon_;
  }
  bool memory = true;
  while (!due.empty() && memory) {
    const std::shared_ptr<wire::Envelope> request = std::move(due.back());
    due.pop_back();  // first: told twice it would be another handle's
    try {
      if (to->control().tell(*request)) continue;
    } catch (const std::bad_alloc&) {  // nothing was sent, or it was and nobody looks at the answer
      memory = false;
      continue;
    }
    due.push_back(request);  // there was room for it
    break;
  }
  std::lock_guard lock(mutex_);
  if (daemon_ == to) {
    due_.swap(due);
    due_.insert(due_.end(), due.begin(), due.end());
  }
  return !due_.empty() || is_complete_due();
}

Status Session::show_receipts(Daemon& to, const std::vector<Receipts::Shown>& shown, os::Deadline deadline) {
  wire::Envelope request;
  for (const Receipts::Shown& one : shown) {
    auto& next = *request.mutable_session_restore()->add_shown();
    next.set_receipt(one.bytes);
    next.set_handles(one.handles);
    next.set_may_be_named(one.may_be_named);
    for (const std::string& hold : one.freed) next.add_freed(hold);
    for (const std::string& hold : one.holds) next.add_holds(hold);
  }
  os::Interrupts interrupts;
  for (;;) {
    Result<std::shared_ptr<Call>> call = to.control().start(request, deadline);
    const Status answered = call.is_ok() ? to.control().wait(**call, deadline) : call.status();
    if (to.control().failed()) return answered;
    // One that the daemon refuses takes nothing from the others. What had no room on the connection it has not seen, and what it
    // has not answered may still be refused.
    const bool seen = answered.code() != Code::kQueueFull && answered.code() != Code::kDeadline;
    if (call.is_ok() && seen) return {};
    if (deadline.passed() || interrupts.came()) {
      unshown_run_ = to.run();
      return {};
    }
    const timespec pause{0, 10'000'000};
    ::nanosleep(&pause, nullptr);
  }
}

void Session::keep_receipt(const AllocationId& id, const std::string& receipt,
                           const std::shared_ptr<Daemon>& from, const std::string& hold) {
  std::vector<Receipts::Shown> shown;
  std::shared_ptr<Daemon> to;
  {
    std::lock_guard lock(mutex_);
    if (daemon_->who().session != from->who().session) return;  // it went with its session
    receipts_.add(id, receipt, from->run(), hold);
    if (daemon_ == from) return;
    to = daemon_;  // taken up since
    shown = receipts_.take_unknown_to(to->run(), kShownBytesMax);
  }
  if (!shown.empty()) (void)show_receipts(*to, shown, os::Deadline::after_ns(call_deadline_ns()));
}

void Session::renew_receipt(const AllocationId& id, const std::string& receipt) {
  std::lock_guard lock(mutex_);
  receipts_.renew(id, receipt);
}

void Session::doubt_name(const AllocationId& id, bool doubt) {
  std::lock_guard lock(mutex_);
  receipts_.doubt_name(id, doubt);
}

bool Session::free_later(const AllocationId& id, const std::string& hold) {
  std::lock_guard lock(mutex_);
  if (!daemon_->is_over()) return false;
  receipts_.free_later(id, hold);
  return true;
}

void Session::drop_receipt(const AllocationId& id, const std::string& hold) {
  std::lock_guard lock(mutex_);
  receipts_.remove(id, hold);
}

bool Session::handle_ended(const Daemon& from, const AllocationId& id, const std::string& hold) {
  std::lock_guard lock(mutex_);
  if (daemon_.get() != &from) return false;
  if (daemon_->is_over())
    receipts_.free_later(id, hold);  // the next run may have been shown it
  else
    receipts_.remove(id, hold);
  return true;
}

Result<Reply> Session::call(wire::Envelope& request, std::shared_ptr<Daemon>* from) {
  OCM_TRY_ASSIGN(std::shared_ptr<Daemon> to, daemon());
  if (from != nullptr) *from = to;
  return ask(*to, request);
}

Result<Reply> Session::ask(Daemon& to, wire::Envelope& request, bool* sent) const {
  const os::Deadline deadline = os::Deadline::after_ns(call_deadline_ns());
  OCM_TRY_ASSIGN(std::shared_ptr<Call> call, to.control().start(request, deadline, sent));
  OCM_TRY(to.control().wait(*call, deadline));
  return std::move(call->reply);
}

}  // namespace ocm::client
