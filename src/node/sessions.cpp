#include "node/sessions.h"

#include <unistd.h>

#include "base/fault.h"
#include "base/units.h"
#include "os/crypto.h"

namespace ocm::node {

std::string Sessions::resume_key(const SessionId& id) const {
  const os::Digest key = os::hmac_sha256(core_.token, {os::bytes_of("oncilla resume"), id.bytes});
  return std::string(reinterpret_cast<const char*>(key.data()), key.size());
}

Result<Sessions::Opened> Sessions::open(const wire::SessionHello& hello, uint32_t uid, uint32_t pid) {
  if (core_.draining) return Status(Code::kDraining, "node " + core_.name + " is shutting down");
  if (hello.version() != wire::kControlVersion) {
    return Status(Code::kProtocol, "control version " + std::to_string(hello.version()) +
                                       "; the daemon speaks " + std::to_string(wire::kControlVersion));
  }
  if (sessions_.size() >= core_.config.sessions) {
    return Status(Code::kLimit, "node " + core_.name + " holds at most " +
                                    std::to_string(core_.config.sessions) + " sessions ([limits] sessions)");
  }
  const auto mine = uid_sessions_.find(uid);
  const size_t share = (core_.config.sessions + 1) / 2;
  if (uid != 0 && uid != ::geteuid() && mine != uid_sessions_.end() && mine->second >= share) {
    return Status(Code::kLimit, "uid " + std::to_string(uid) + " has " + std::to_string(mine->second) +
                                    " sessions, all that one user may have of node " + core_.name + "'s " +
                                    std::to_string(core_.config.sessions) + " ([limits] sessions)");
  }
  Opened out;
  out.session = std::make_shared<Session>();
  Session& session = *out.session;
  if (hello.resume_session().empty()) {
    session.id = with_uid(core_.env.random_id<SessionId>(), uid);
  } else {
    if (!read_id(hello.resume_session(), session.id) ||
        !os::equal_secrets(os::bytes_of(hello.resume_key()), os::bytes_of(resume_key(session.id)))) {
      return Status(Code::kAuth, "wrong resume key");
    }
    if (ending_.contains(session.id)) return Status(Code::kAuth, "the session has ended; open a new one");
    if (sessions_.contains(session.id)) return Status(Code::kExists, "the session is open");
    out.resumed = true;
  }
  session.resumed = out.resumed;
  session.uid = uid;
  session.pid = pid;
  for (const char c : hello.program().substr(0, 64)) session.program += c >= ' ' && c <= '~' ? c : '?';
  if (fault::at(fault::Point::kSessionNoFds)) return Code::kNoFds;
  OCM_TRY_ASSIGN(out.page, os::make_memfd("oncilla-session", fabric::shm::kSessionPageBytes, {}));
  OCM_TRY_ASSIGN(session.page, os::Mapping::map(out.page.get(), fabric::shm::kSessionPageBytes, true));
  session.moved_at_ns = core_.now_ns();
  sessions_.emplace(session.id, out.session);
  ++uid_sessions_[uid];
  ++core_.metrics.sessions_total;
  return out;
}

void Sessions::look_at_page(Session& session) {
  constexpr uint64_t kBytesPerNsMax = 1000, kOpsPerNsMax = 1;  // a program may write there what it likes
  const uint64_t now_ns = core_.now_ns();
  const uint64_t passed_ns = now_ns - session.moved_at_ns;
  session.moved_at_ns = now_ns;
  const auto* page = reinterpret_cast<const fabric::shm::SessionPage*>(session.page.data());
  const auto take = [&](const std::atomic<uint64_t>& said, uint64_t& seen, uint64_t& sum, uint64_t per_ns) {
    const uint64_t now = said.load(std::memory_order_relaxed);
    const uint64_t more = now > seen ? std::min(now - seen, passed_ns * per_ns) : 0;
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

void Sessions::remove(const std::shared_ptr<Session>& session) {
  for (const auto& [id, held] : session->allocations) refund(session->uid, held.quota_bytes);
  session->allocations.clear();
  look_at_page(*session);
  if (sessions_.erase(session->id) == 0) return;
  const auto mine = uid_sessions_.find(session->uid);
  if (--mine->second == 0) uid_sessions_.erase(mine);
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

void Sessions::refund(uint32_t uid, uint64_t bytes) {
  const auto it = uid_bytes_.find(uid);
  if (it == uid_bytes_.end()) return;
  it->second -= std::min(it->second, bytes);
  if (it->second == 0) uid_bytes_.erase(it);
}

}  // namespace ocm::node
