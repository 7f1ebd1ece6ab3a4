// Whose daemon a home does not hear of: it asks before it frees what their sessions have.
#include "base/assert.h"
#include "base/fault.h"
#include "node/home.h"

namespace ocm::node {

void Home::owner_node(const std::string& node, const std::optional<control::Incarnation>& alive) {
  nodes_[node] = alive;
  ownership_.owner_node(node, alive, core_.now_ns(), patience());
  if (!alive || freed_of_.erase(node) == 0 || fault::at(fault::Point::kOrphansNotTold)) return;
  fault::reached(fault::State::kOrphansMissed);
  ++orphans_freed_;
}

void Home::free_orphan(const SessionId& session) {
  fault::reached(fault::State::kOrphanFreed);
  log::info("orphan_freed", {{"session", to_hex(session).substr(0, 8)}});
  free_session(session);
  OCM_DASSERT(!ownership_.vouching(session));  // it has nothing here any more
  for (Making& making : making_) making.cancelled = making.cancelled || making.session == session;
}

std::optional<Home::Orphan> Home::orphan(const SessionId& session) const {
  const auto owner = ownership_.vouching(session);
  if (!owner || !ownership_.is_expired(session, core_.now_ns())) return std::nullopt;
  const auto known = nodes_.find(owner->node);
  const bool lives = known != nodes_.end() && known->second.has_value();
  return Orphan{session, owner->node, lives ? *known->second : owner->incarnation, lives};
}

std::vector<Home::Orphan> Home::tick(uint64_t now_ns) {
  std::vector<Orphan> out;
  if (fault::at(fault::Point::kOrphansStay)) return out;
  for (const SessionId& session : ownership_.expired(now_ns)) {
    if (fault::at(fault::Point::kOrphanNotAsked)) {
      free_orphan(session);
      continue;
    }
    const std::optional<Orphan> one = orphan(session);
    OCM_DASSERT(one.has_value());  // L2 of control/ownership.h
    out.push_back(*one);
  }
  return out;
}

void Home::answered(const Orphan& asked, Answer answer) {
  if (orphan(asked.session) != asked) return;
  // It may have ended there since.
  const bool over = asked.lives && over_.contains(over_key(asked.session, asked.incarnation));
  if (answer == Answer::kHasIt && !over) {
    fault::reached(fault::State::kOrphanVouched);
    if (const auto left_out = core_.limiter.admit("orphan_vouched_for", asked.node, core_.now_ns()))
      log::info(
          "orphan_vouched_for",
          {{"session", to_hex(asked.session).substr(0, 8)}, {"node", asked.node}, {"left_out", *left_out}});
    if (asked.lives)
      ownership_.resume(asked.session, asked.node, asked.incarnation);
    else
      ownership_.renew(asked.session, core_.now_ns(), patience());
  } else if (answer != Answer::kNone || over || !asked.lives) {
    const bool is_silent = answer == Answer::kNone && !over;
    if (!over && ownership_.wait_longer(asked.session, core_.now_ns())) return;
    if (is_silent) freed_of_.insert(asked.node);
    free_orphan(asked.session);
  }
}

}  // namespace ocm::node
