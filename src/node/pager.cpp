#include "node/pager.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <system_error>
#include <utility>

#include "base/assert.h"
#include "cache/page_cache.h"
#include "os/crypto.h"
#include "os/userfault.h"
#include "wire/mapped.h"

namespace ocm::node {

using control::Reply;

/// One program's mapping of one extent.
class Pagers::Pager final : public cache::Viewer, public std::enable_shared_from_this<Pager> {
 public:
  struct Place {
    ExtentId extent;
    uint64_t page_bytes = 0, bytes = 0;  // of the shadow
    bool may_store = false;
  };
  Pager(cache::PageCache& cache, const Place& place, os::Fd socket, os::Fd bell)
      : cache_(cache), place_(place), socket_(std::move(socket)), bell_(std::move(bell)) {}

  void run() {
    if (begin()) serve();
    cache_.viewer_ended(place_.extent, this);
    faults_ = os::Userfault();  // G2, G3: here, and not where the last owner lets this go
    socket_.reset();
    std::deque<Job> left;  // may have the shadow's last owner
    {
      const std::lock_guard lock(mutex_);
      left.swap(jobs_);
    }
    left.clear();
    is_over_.store(true);
  }
  void end() override {
    ends_.store(true);
    ring();
  }
  bool is_over() const { return is_over_.load(); }

  void enter(uint32_t page, std::shared_ptr<cache::Shadow> shadow, cache::PageBytes bytes) override {
    push({Job::Kind::kEnter, page, false, Code::kOk, std::move(shadow), std::move(bytes)});
  }
  void grant(uint32_t page, bool writable) override { push({Job::Kind::kGrant, page, writable, Code::kOk}); }
  void protect(uint32_t page) override { push({Job::Kind::kProtect, page, false, Code::kOk}); }
  void refuse(uint32_t page, Code why) override { push({Job::Kind::kRefuse, page, false, why}); }

 private:
  struct Job {
    enum class Kind : uint8_t { kEnter, kGrant, kProtect, kRefuse };
    Kind kind = Kind::kGrant;
    uint32_t page = 0;
    bool writable = false;
    Code why = Code::kOk;
    std::shared_ptr<cache::Shadow> shadow = {};  // kEnter
    cache::PageBytes bytes = {};
  };

  void ring() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(bell_.get(), &one, sizeof(one));
  }
  void push(const Job& job) {
    bool rings = false;
    {
      const std::lock_guard lock(mutex_);
      rings = jobs_.empty() && !is_awake_;
      jobs_.push_back(job);
    }
    if (rings) ring();
  }

  bool tell(wire::MappedNews::Kind kind, Code code, uint64_t offset, uint64_t bytes) {
    wire::MappedNews news;
    news.kind = kind;
    news.code = static_cast<int32_t>(code);
    news.offset = offset;
    news.bytes = bytes;
    ssize_t sent = 0;
    do sent = ::send(socket_.get(), &news, sizeof(news), MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == sizeof(news);
  }

  /// The program says where it mapped the shadow. False: it does not, or not so.
  bool begin() {
    constexpr int kPatienceMs = 10'000;
    std::array<pollfd, 2> on{pollfd{socket_.get(), POLLIN, 0}, pollfd{bell_.get(), POLLIN, 0}};
    int ready = 0;
    do ready = ::poll(on.data(), on.size(), kPatienceMs);
    while (ready < 0 && errno == EINTR);
    if (ready <= 0 || ends_.load()) return false;
    wire::MappedAt at;
    os::Fd fd;
    if (!receive(at, fd)) return false;
    Status status = check(at);
    if (status.is_ok()) {
      auto taken = os::Userfault::take(std::move(fd));
      if (taken.is_ok()) {
        faults_ = std::move(taken.value());
        faults_.set_can_protect((at.flags & wire::MappedAt::kCanProtect) != 0);
        address_ = at.address;
      } else {
        status = taken.status();
      }
    }
    return tell(wire::MappedNews::Kind::kServed, status.code(), 0, 0) && status.is_ok();
  }
  bool receive(wire::MappedAt& at, os::Fd& fd) const {
    iovec into{&at, sizeof(at)};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &into;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0) return false;
    for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
      if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_RIGHTS) continue;
      int number = -1;
      std::memcpy(&number, CMSG_DATA(one), sizeof(number));
      fd = os::Fd(number);
    }
    return got == sizeof(at) && fd.is_open() && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  }
  Status check(const wire::MappedAt& at) const {
    if (at.magic != wire::MappedAt::kMagic) return Code::kProtocol;
    if (at.bytes != place_.bytes || at.address % 4096 != 0 || at.address > UINT64_MAX - at.bytes)
      return Code::kInvalidArgument;
    return {};
  }

  void serve() {
    while (!ends_.load()) {
      const bool has_faulted = take_faults();
      const bool has_worked = work();
      if (is_gone_) return;
      if (has_faulted || has_worked) continue;
      if (!sleep()) return;
    }
  }
  /// What the program's threads wait for goes to the cache.
  bool take_faults() {
    constexpr int kAtOnce = 32;
    for (int i = 0; i < kAtOnce; ++i) {
      const auto fault = faults_.next();
      if (!fault.is_ok()) {
        is_gone_ = true;
        return false;
      }
      if (!fault.value().has_value()) return i != 0;
      const uint64_t offset = fault.value()->address - address_;
      if (fault.value()->address < address_ || offset >= place_.bytes) {  // of no page of this mapping
        is_gone_ = true;
        return false;
      }
      const bool stores = fault.value()->writes || (place_.may_store && !faults_.can_protect());
      cache_.fault(place_.extent, static_cast<uint32_t>(offset / place_.page_bytes), stores,
                   shared_from_this(), place_.may_store);
    }
    return true;
  }
  /// V1.
  bool work() {
    std::deque<Job> now;
    {
      const std::lock_guard lock(mutex_);
      is_awake_ = true;
      now.swap(jobs_);
    }
    for (const Job& job : now) {
      const uint64_t offset = job.page * place_.page_bytes;
      switch (job.kind) {
        case Job::Kind::kEnter:
          job.shadow->enter(job.page, job.bytes.get());
          cache_.entered(place_.extent, job.page, this);
          break;
        case Job::Kind::kGrant:
          is_gone_ =
              !faults_.resolve(address_ + offset, place_.page_bytes, job.writable || !place_.may_store) ||
              is_gone_;
          break;
        case Job::Kind::kProtect:
          is_gone_ = !faults_.protect(address_ + offset, place_.page_bytes) || is_gone_;
          if (!is_gone_) cache_.is_protected(place_.extent, job.page, this);
          break;
        case Job::Kind::kRefuse:
          // A program that does not take its news has them all when the socket closes.
          if (!tell(wire::MappedNews::Kind::kDead, job.why, offset, place_.page_bytes)) is_gone_ = true;
          break;
      }
    }
    return !now.empty();
  }
  /// False: the program closed its end.
  bool sleep() {
    {
      const std::lock_guard lock(mutex_);
      if (!jobs_.empty()) return true;
      is_awake_ = false;
    }
    std::array<pollfd, 3> on{pollfd{faults_.fd(), POLLIN, 0}, pollfd{bell_.get(), POLLIN, 0},
                             pollfd{socket_.get(), POLLIN, 0}};
    const int ready = ::poll(on.data(), on.size(), -1);
    if (ready < 0) return errno == EINTR;
    if (on[1].revents != 0) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(bell_.get(), &count, sizeof(count));
    }
    return on[2].revents == 0 && (on[0].revents & (POLLERR | POLLNVAL)) == 0;
  }

  cache::PageCache& cache_;
  const Place place_;
  os::Fd socket_;
  const os::Fd bell_;
  os::Userfault faults_;
  uint64_t address_ = 0;
  bool is_gone_ = false;  // the program, or what it says makes no sense
  std::atomic<bool> ends_{false}, is_over_{false};
  std::mutex mutex_;
  std::deque<Job> jobs_;
  bool is_awake_ = false;  // it looks at jobs_ before it sleeps
};

namespace {

Status not_cached() {
  return Status(
      Code::kUnsupported,
      "this node does not cache the extent (it is durable, its pages are longer than 256 KiB and of "
      "another node, or the daemon has no cache): use put and get");
}

/// Each takes four descriptors; most are for sessions and connections.
size_t most_of_all() {
  rlimit limit{};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  return std::clamp<size_t>(limit.rlim_cur / 16, 8, Pagers::kMost);
}

}  // namespace

void Pagers::collect() {
  running_.remove_if([](Running& one) {
    if (!one.pager->is_over()) return false;
    one.thread.join();
    return true;
  });
}

Reply Pagers::open(uint32_t uid, const ExtentDescriptor& extent, Access access) {
  collect();
  const auto served = home_.directory().open(extent.id);
  if (served.status().code() == Code::kNotFound) return not_cached();
  if (!served.is_ok()) return served.status();
  if (!os::opens(served.value()->capability, extent.capability, access))
    return Status(Code::kPermission, "the capability does not open the extent so");  // G1
  const auto of_user =
      std::count_if(running_.begin(), running_.end(), [&](const Running& one) { return one.uid == uid; });
  const size_t most = most_of_all(), of_one_user = most / 4;
  if (running_.size() >= most || static_cast<size_t>(of_user) >= of_one_user)
    return Status(Code::kLimit, "programs of this node map as many cached extents as may be, of one user " +
                                    std::to_string(of_one_user) + " and of all " + std::to_string(most) +
                                    ": free some, or use put and get");
  for (int tries = 0; tries < kTriesMost; ++tries) {
    std::optional<Reply> reply = begin(uid, extent.id, access == Access::kReadWrite);
    if (reply.has_value()) return std::move(*reply);
  }
  return Status(Code::kRevoked, "the extent is not cached here any more");
}

/// None: the shadow went meanwhile, with its last viewer.
std::optional<Reply> Pagers::begin(uint32_t uid, const ExtentId& id, bool may_store) {
  Pager::Place place;
  place.extent = id;
  place.may_store = may_store;
  cache::PageCache* cache = nullptr;
  std::shared_ptr<cache::Shadow> shadow;
  if (home_.caches() != nullptr) {
    for (cache::PageCache* one : home_.caches()->all()) {
      auto its = one->shadow(id);
      if (!its.is_ok() && its.status().code() != Code::kRevoked) return Reply(its.status());
      if (!its.is_ok()) continue;
      cache = one;
      shadow = std::move(its.value());
      break;
    }
  }
  if (cache == nullptr) return Reply(not_cached());
  place.page_bytes = cache->page_bytes();
  place.bytes = shadow->bytes();
  Result<os::Fd> file = shadow->share(may_store);
  if (!file.is_ok()) return Reply(file.status());
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return Reply(Status::from_errno(errno, "socketpair"));
  os::Fd program(ends[0]), mine(ends[1]);
  os::Fd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.is_open()) return Reply(Status::from_errno(errno, "eventfd"));
  Running one;
  one.uid = uid;
  one.pager = std::make_shared<Pager>(*cache, place, std::move(mine), std::move(bell));
  if (!cache->add_viewer(id, shadow.get(), one.pager)) return std::nullopt;
  try {
    one.thread = std::thread([pager = one.pager] { pager->run(); });
  } catch (const std::system_error&) {
    cache->viewer_ended(id, one.pager.get());
    return Reply(Status(Code::kNoMemory, "the system has no thread for the program's page faults"));
  }
  running_.push_back(std::move(one));
  Reply reply;
  reply.message.mutable_pages_mapped()->set_page_bytes(place.page_bytes);
  reply.message.mutable_pages_mapped()->set_bytes(place.bytes);
  reply.fds.push_back(std::move(file.value()));
  reply.fds.push_back(std::move(program));
  return reply;
}

void Pagers::stop() {
  for (Running& one : running_) one.pager->end();
  for (Running& one : running_) one.thread.join();
  running_.clear();
}

}  // namespace ocm::node
