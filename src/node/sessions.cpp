#include "node/sessions.h"

#include <unistd.h>

#include "base/assert.h"
#include "base/fault.h"
#include "base/share.h"
#include "base/units.h"
#include "os/crypto.h"

namespace ocm::node {

std::string Sessions::resume_key(const SessionId& id) const {
  const os::Digest key = os::hmac_sha256(core_.token, {os::bytes_of("oncilla resume"), id.bytes});
  return std::string(reinterpret_cast<const char*>(key.data()), key.size());
}

Result<Sessions::Opened> Sessions::open(const wire::SessionHello& hello, uint32_t uid, uint32_t pid) {
  if (core_.draining) return Status::of_node(Code::kDraining, core_.name, " is shutting down");
  OCM_TRY(wire::agree("control", core_.versions, wire::versions_of(hello)).status());
  std::shared_ptr<Session> session;
  if (!hello.resume_session().empty()) {
    SessionId id;
    if (!read_id(hello.resume_session(), id) ||
        !os::equal_secrets(os::bytes_of(hello.resume_key()), os::bytes_of(resume_key(id)))) {
      return Status(Code::kAuth, "wrong resume key");
    }
    if (uid_of(id) != uid)
      return Status(Code::kAuth, "the session is of uid " + std::to_string(uid_of(id)) +
                                     ", and this program of uid " + std::to_string(uid));
    if (over_.contains(id)) return Status(Code::kAuth, "the session has ended; open a new one");
    if (const auto known = sessions_.find(id); known != sessions_.end()) {
      session = known->second;
      if (!session->waiting) return Status(Code::kExists, "the session is open");
      fault::reached(fault::State::kSessionTakenUp);
    } else {
      OCM_TRY(check_room(uid));
      session = std::make_shared<Session>(core_.env);
      session->id = id;
      session->resumed = true;
    }
  } else {
    OCM_TRY(check_room(uid));
    session = std::make_shared<Session>(core_.env);
    session->id = with_uid(core_.env.random_id<SessionId>(), uid);
  }
  if (fault::at(fault::Point::kSessionNoFds)) return Code::kNoFds;
  Opened out;
  OCM_TRY_ASSIGN(out.page, os::make_memfd("oncilla-session", fabric::shm::kSessionPageBytes, {}));
  OCM_TRY_ASSIGN(os::Mapping page, os::Mapping::map(out.page.get(), fabric::shm::kSessionPageBytes, true));
  if (session->page.data() != nullptr) look_at_page(*session);
  auto* const told = reinterpret_cast<fabric::shm::SessionPage*>(page.data());
  told->version.store(core_.versions.max, std::memory_order_relaxed);
  told->bytes.store(sizeof(fabric::shm::SessionPage), std::memory_order_release);
  session->page = std::move(page);
  session->nodes_version =
      core_.env.random_number() & ~uint64_t{1};  // another run's page is told from this one
  tell(*session);
  session->moved = {};
  session->moved_at_ns = core_.now_ns();
  OCM_DASSERT(uid_of(session->id) == uid && !session->ended);  // P8
  session->uid = uid;
  session->pid = pid;
  session->waiting = false;
  ++session->hellos;
  session->program.clear();
  for (const char c : hello.program().substr(0, 64)) session->program += c >= ' ' && c <= '~' ? c : '?';
  if (sessions_.emplace(session->id, session).second) {
    ++uid_sessions_[uid];
    ++core_.metrics.sessions_total;
  }
  OCM_DASSERT(sessions_.size() <= core_.config.sessions && uid_sessions_.contains(uid));
  out.session = std::move(session);
  return out;
}

Status Sessions::check_room(uint32_t uid) const {
  if (sessions_.size() >= core_.config.sessions) {
    return Status::of_node(
        Code::kLimit, core_.name,
        " holds at most " + std::to_string(core_.config.sessions) + " sessions ([limits] sessions)");
  }
  const auto known = uid_sessions_.find(uid);
  const uint64_t mine = known == uid_sessions_.end() ? 0 : known->second, users = of_users(uid_sessions_);
  switch (used_up_share(is_privileged(uid), mine, users, core_.config.sessions)) {
    case Share::kOk: break;
    case Share::kOfAllUsers:
      return Status::of_node(
          Code::kLimit, core_.name,
          " keeps its last sessions for root ([limits] sessions): the users have " + std::to_string(users));
    case Share::kOfOneUser:
      return Status(Code::kLimit, "uid " + std::to_string(uid) + " has " + std::to_string(mine) +
                                      " sessions, all that one user may have of node " + core_.name + "'s " +
                                      std::to_string(core_.config.sessions) + " ([limits] sessions)")
          .with_node(core_.name);
  }
  return {};
}

bool Sessions::is_valid() const {
  std::unordered_map<uint32_t, size_t> by_uid;
  std::unordered_map<uint32_t, uint64_t> bytes;
  for (const auto& [id, session] : sessions_) {
    if (id != session->id || uid_of(id) != session->uid || over_.contains(id)) return false;  // P8
    ++by_uid[session->uid];
    if (!session->allocations.is_valid()) return false;  // P1, P4
    for (const auto& [allocation, held] : session->allocations) bytes[session->uid] += held.quota_bytes;
  }
  const size_t share = share_of_one_user(core_.config.sessions);
  for (const auto& [uid, sessions] : by_uid) {
    if (!is_privileged(uid) && sessions > share) return false;  // P3
  }
  for (const auto& [uid, sum] : bytes) {  // allocations under way are charged, too
    const auto charged = uid_bytes_.find(uid);
    if (sum > (charged == uid_bytes_.end() ? 0 : charged->second)) return false;
  }
  return by_uid == uid_sessions_ && sessions_.size() <= core_.config.sessions;
}

void Sessions::look_at_page(Session& session) {
  constexpr uint64_t kBytesPerNsMax = 1000, kOpsPerNsMax = 1;  // a program may write there what it likes
  const uint64_t now_ns = core_.now_ns();
  OCM_DASSERT(now_ns >= session.moved_at_ns && session.page.data() != nullptr);
  const uint64_t passed_ns = now_ns - session.moved_at_ns;
  session.moved_at_ns = now_ns;
  const auto* page = reinterpret_cast<const fabric::shm::SessionPage*>(session.page.data());
  const auto take = [&](const std::atomic<uint64_t>& said, uint64_t& seen, uint64_t& sum, uint64_t per_ns) {
    const uint64_t now = said.load(std::memory_order_relaxed);
    const uint64_t more = now > seen ? std::min(now - seen, passed_ns * per_ns) : 0;
    OCM_DASSERT(more == 0 || seen + more <= now);
    seen += more;
    sum += more;
  };
  take(page->put_bytes, session.moved.put_bytes, moved_.put_bytes, kBytesPerNsMax);
  take(page->get_bytes, session.moved.get_bytes, moved_.get_bytes, kBytesPerNsMax);
  take(page->put_ops, session.moved.put_ops, moved_.put_ops, kOpsPerNsMax);
  take(page->get_ops, session.moved.get_ops, moved_.get_ops, kOpsPerNsMax);
  take(page->atomic_ops, session.moved.atomic_ops, moved_.atomic_ops, kOpsPerNsMax);
}

Moved Sessions::moved() {
  for (const auto& [id, session] : sessions_) look_at_page(*session);
  return moved_;
}

void Sessions::end(const std::shared_ptr<Session>& session) {
  over_.insert(session->id);
  for (const auto& [id, held] : session->allocations) refund(session->uid, held.quota_bytes);
  session->allocations.clear();
  // Whoever still tells a home of its end keeps the session: not what it has shown, which nobody is charged for any more.
  session->holds.clear();
  session->holds_shown.clear();
  session->holds_reported.clear();
  session->freed.clear();
  session->restored = control::Charge();
  look_at_page(*session);
  if (sessions_.erase(session->id) == 0) return;
  ended_.notify();
  const auto mine = uid_sessions_.find(session->uid);
  OCM_DASSERT(mine != uid_sessions_.end() && mine->second > 0);
  if (--mine->second == 0) uid_sessions_.erase(mine);
}

void Sessions::tell(std::vector<fabric::shm::NodeWord> nodes) {
  if (nodes == nodes_) return;
  nodes_ = std::move(nodes);
  for (const auto& [id, session] : sessions_) tell(*session);
}

void Sessions::tell(Session& session) const {
  using fabric::shm::SessionPage;
  OCM_DASSERT(session.page.data() != nullptr && session.nodes_version % 2 == 0);
  auto* const page = reinterpret_cast<SessionPage*>(session.page.data());
  page->nodes_version.store(session.nodes_version + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  const size_t count = std::min<size_t>(nodes_.size(), SessionPage::kNodes);
  for (size_t i = 0; i < count; ++i) page->nodes[i].store(nodes_[i].word(), std::memory_order_relaxed);
  page->nodes_count.store(count, std::memory_order_relaxed);
  session.nodes_version += 2;
  page->nodes_version.store(session.nodes_version, std::memory_order_release);
}

Status Sessions::charge(uint32_t uid, uint64_t bytes) {
  const uint64_t quota = core_.config.quota_bytes(uid);
  uint64_t& held = uid_bytes_[uid];
  if (quota != 0 && (bytes > quota || held > quota - bytes)) {
    return Status(Code::kQuota, "uid " + std::to_string(uid) + " holds " + format_bytes(held) + " of its " +
                                    format_bytes(quota) + " on this node");
  }
  held += bytes;
  return {};
}

Result<std::shared_ptr<control::Charge>> Sessions::charge_record(uint32_t uid, size_t message_bytes) {
  if (is_privileged(uid)) return std::shared_ptr<control::Charge>();
  auto charge = std::make_shared<control::Charge>(records_.of(uid));
  if (!charge->resize(control::kKeptBytesPerWireByte * message_bytes)) {
    return Status(Code::kLimit, "what uid " + std::to_string(uid) + " has attached takes all of the " +
                                    format_bytes(control::kUserBytesMax) + " that node " + core_.name +
                                    " keeps for the records of one user: free some handles")
        .with_node(core_.name);
  }
  return charge;
}

void Sessions::refund(uint32_t uid, uint64_t bytes) {
  const auto it = uid_bytes_.find(uid);
  if (it == uid_bytes_.end()) return;
  it->second -= std::min(it->second, bytes);
  if (it->second == 0) uid_bytes_.erase(it);
}

}  // namespace ocm::node
