#include "node/remaker.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/fault.h"
#include "control/allocation_wire.h"
#include "control/home_requests_wire.h"
#include "control/parts.h"
#include "control/view_wire.h"

namespace ocm::node {

using control::Remake;
using control::Reply;
using control::Task;

namespace {

constexpr uint64_t kChunkBytes = uint64_t{256} << 10;
constexpr uint64_t kPieceBytes = uint64_t{8} << 20;  // of one request to copy
constexpr size_t kDigestBytesEach = 16;
constexpr uint64_t kSlowestBytesPerSecond = uint64_t{50} << 20;
constexpr uint64_t kFrozenBytesPerSecond = uint64_t{256} << 20;  // else it thaws, and is tried again later

/// Without what fabrics need: its home has it.
void set_place(const ExtentDescriptor& extent, wire::ExtentDescriptor& out) {
  ExtentDescriptor place = extent;
  place.addresses.clear();
  wire::descriptor_to(place, out);
}

/// Programs may write there meanwhile (tests/tsan.supp): what they change is found by the comparison after
/// it.
[[gnu::noinline]] std::string digests_of(const std::byte* bytes, uint64_t length, uint64_t seed) {
  std::string out;
  for (uint64_t at = 0; at < length; at += kChunkBytes) {
    const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes + at, std::min(kChunkBytes, length - at), seed);
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, hash);
    out.append(reinterpret_cast<const char*>(canonical.digest), kDigestBytesEach);
  }
  return out;
}

}  // namespace

Remaker::Remaker(Core& core, Home& home, Cluster& cluster, Sessions& sessions)
    : core_(core),
      home_(home),
      cluster_(cluster),
      homes_(cluster.homes()),
      sessions_(sessions),
      gone_(core, home, cluster, sessions,
            [this](std::string node, ExtentId replica) { return is_there(std::move(node), replica); }),
      side_(core.env) {
  home_.on_removed([this](ExtentId id) {
    if (Job* job = job_of(id)) {
      if (!job->goes_on_elsewhere()) job->steps.freed();
    } else {
      home_.unshare(id);
    }
    thawed_.notify();
  });
  home_.on_dropped([this](ExtentId id) {
    for (const auto& job : jobs_) job->given_up = job->given_up || job->now.id == id;
    for (const auto& job : giving_) job->given_up = job->given_up || job->now.id == id;
  });
  home_.on_ended([this](ExtentId id, ExtentId follows) {
    const control::PlannedPart* plan = home_.plan_of(id);
    if (plan == nullptr || plan->give.part.now[0].id != follows || following_.contains(id)) return;
    core_.env.spawn([](Remaker& self, ExtentId which) -> Task<void> {
      (void)co_await self.follow_plan(which);
    }(*this, id));
  });
  cluster_.on_asked([this](const SessionId& id) { return sessions_.all().contains(id); });
  home_.on_held_late([this](const control::PartMoved& part, ExtentId here, control::Ownership::HeldBy by) {
    held_late(part, here, std::move(by));
  });
  home_.on_part_freed([this](const control::PartMoved& part, const std::set<std::string>& owners) {
    part_freed(part, owners);
  });
  home_.on_part_given([this](const control::PartMoved& part, ExtentId here, uint64_t attempt) {
    part_given(part, here, {control::Title::owner_by(attempt)});
  });
  home_.on_needed([this](ExtentId id) {
    const auto is_of = [id](const std::shared_ptr<Job>& job) { return job->was == id; };
    return job_of(id) != nullptr || std::any_of(giving_.begin(), giving_.end(), is_of);
  });
}

void Remaker::start() {
  gone_.start();
  core_.env.spawn(run());
}

control::CopyProgress Remaker::progress() const {
  control::CopyProgress out;
  out.replicas_waiting = gone_.away().parts;
  out.replicas_left = static_cast<uint32_t>(gone_.away().left);
  out.replicas_wanted = static_cast<uint32_t>(gone_.away().made);
  for (const Home::ShortPart& one : home_.led_parts()) {
    if (out.replicas_waiting++ != 0 && one.living() >= out.replicas_left) continue;
    out.replicas_left = static_cast<uint32_t>(one.living());
    out.replicas_wanted = static_cast<uint32_t>(one.wanted);
  }
  if (jobs_.empty()) return out;
  out.replica_bytes = jobs_.back()->bytes * jobs_.back()->spares.size();
  out.replica_bytes_copied = jobs_.back()->copied_bytes;
  return out;
}

Task<void> Remaker::run() {
  bool at_once = false;
  while (!core_.draining) {
    if (!at_once) co_await core_.env.sleep_ns(core_.until_next_ns(core_.config.heartbeat_ns()));
    at_once = co_await make_parts_again() && !core_.draining;
  }
}

Task<bool> Remaker::make_parts_again() {
  uint64_t since_ns = core_.now_ns();  // to choose takes time, too: more with the parts that a user has
  settle_plans();
  look_at_leaders();
  const uint64_t ordered_ns = looked_ns_ = core_.now_ns();
  const auto led = home_.led_parts();
  std::set<ExtentId> still_led;
  for (const Home::ShortPart& one : led) still_led.insert(one.id);
  std::erase_if(not_before_ns_, [&](const auto& entry) { return !still_led.contains(entry.first); });
  std::map<uint32_t, uint64_t>
      failed_parts;  // by user: the more of his have failed, the longer each of these waits
  for (const auto& [id, ns] : not_before_ns_) {
    if (const control::Title* title = home_.title(id)) ++failed_parts[title->uid];
  }
  const auto try_again_after = [&](const Job& job, uint64_t ns) {
    const uint64_t crowd = 1 + failed_parts[job.uid] / 256;
    const bool first = not_before_ns_.insert_or_assign(job.was, core_.now_ns() + ns * crowd).second;
    if (first) ++failed_parts[job.uid];
  };
  bool more = false;
  for (const size_t i : order_of(led)) {
    const Home::ShortPart& one = led[i];
    if (!jobs_.empty() && jobs_.back()->was == one.id) co_return false;
    if (core_.now_ns() < not_before_ns(one.id) || job_of(one.id) != nullptr) continue;
    const control::Title* title = home_.title(one.id);
    if (title == nullptr || title->name_ended) continue;  // freed meanwhile
    if (!jobs_.empty() && !control::may_overtake(title->bytes, jobs_.back()->bytes)) continue;
    if (home_.plan_of(one.id) != nullptr) continue;  // a home that led before may have had it decided
    const auto job = std::make_shared<Job>();
    job->was = one.id;
    job->part = one.part;
    job->lost = one.lost;
    job->wanted = one.wanted;
    job->uid = title->uid;
    job->since_ns = since_ns;
    co_await make_again(job);
    since_ns = core_.now_ns();
    more = true;
    if (job->no_room) {  // nobody was asked; others may need less
      try_again_after(*job, core_.config.heartbeat_ns());
      more = false;
      continue;
    }
    if (job->steps.next() == Remake::Step::kOver) {
      try_again_after(*job, 2 * core_.config.failure_deadline_ns());
      break;
    }
    if (core_.draining) break;
    if (core_.now_ns() >= ordered_ns + core_.config.heartbeat_ns()) break;  // others may be missed by now
  }
  co_return more;
}

std::vector<size_t> Remaker::order_of(const std::vector<Home::ShortPart>& parts) {
  std::vector<control::ToRemake> out;
  for (const Home::ShortPart& one : parts) {
    const control::Title* title = home_.title(one.id);
    const Job* job = job_of(one.id);
    const uint64_t copied_bytes =
        job == nullptr || job->spares.empty() ? 0 : job->copied_bytes / job->spares.size();
    out.push_back({.not_before_ns = not_before_ns(one.id), .living = one.living()});
    if (title == nullptr) continue;
    out.back().uid = title->uid;
    out.back().bytes = title->bytes - std::min(title->bytes, copied_bytes);
  }
  return turns_.order(out);
}

void Remaker::charge(Job& job) {
  const uint64_t now = core_.now_ns();
  turns_.spent(job.uid, now - std::exchange(job.since_ns, now));
}

Task<uint64_t> Remaker::set_aside(std::shared_ptr<Job> job) {
  const uint64_t since_ns = core_.now_ns();
  if (since_ns < looked_ns_ + core_.config.heartbeat_ns()) co_return 0;
  charge(*job);
  bool more = true;
  while (more && !core_.draining) more = co_await make_parts_again();
  job->since_ns = core_.now_ns();
  co_return job->since_ns - since_ns;
}

Task<void> Remaker::make_again(std::shared_ptr<Job> job) {
  jobs_.push_back(job);
  job->session = with_uid(core_.env.random_id<SessionId>(), 0);
  job->allocation = core_.env.random_id<AllocationId>();
  job->owners.insert(id_field(job->session));
  Remake::Step failed = Remake::Step::kOver;  // the last that did
  while (job->steps.next() != Remake::Step::kDone && job->steps.next() != Remake::Step::kOver) {
    const Remake::Step now = job->steps.next();
    uint64_t changed_bytes = 0;
    const bool good = co_await step(job, changed_bytes);
    // Freed meanwhile, it is at another step already.
    if (job->steps.next() == now) {
      if (good) {
        job->steps.done(changed_bytes);
      } else if (now == Remake::Step::kGive && job->steps.is_switched() &&
                 !fault::at(fault::Point::kGivesFirst)) {
        core_.env.spawn(give_on(job));  // others need not wait for a home that is silent
        break;
      } else {
        if (now != Remake::Step::kRelease) failed = now;
        job->steps.failed();
        if (job->steps.next() == now) co_await core_.env.sleep_ns(core_.config.heartbeat_ns());
      }
    }
    thawed_.notify();
  }
  if (job->steps.next() == Remake::Step::kOver && home_.has(job->was) && !job->no_room)
    tell_failed(job->was, failed);
  charge(*job);
  OCM_DASSERT(jobs_.back() == job);
  jobs_.pop_back();
}

Task<void> Remaker::give_on(std::shared_ptr<Job> job) {
  fault::reached(fault::State::kGivenLater);
  giving_.insert(job);
  co_await give_until_heard(job);
  giving_.erase(job);
}

Task<void> Remaker::give_until_heard(std::shared_ptr<Job> job) {
  while (job->steps.next() == Remake::Step::kGive) {
    co_await core_.env.sleep_ns(core_.config.heartbeat_ns());
    // Made again once more, without those who are silent: what is given up is dropped where it is.
    if (home_.remade(job->now.id) != nullptr) co_return;
    uint64_t changed_bytes = 0;
    const bool good = co_await step(job, changed_bytes);
    if (good && job->steps.next() == Remake::Step::kGive) job->steps.done();
  }
}

Task<bool> Remaker::step(std::shared_ptr<Job> job, uint64_t& changed_bytes) {
  switch (job->steps.next()) {
    case Remake::Step::kReserve: co_return co_await reserve(job);
    case Remake::Step::kCopy: co_return co_await copy_all(job);
    case Remake::Step::kCompare: co_return co_await compare(job, changed_bytes);
    case Remake::Step::kFreeze: co_return co_await freeze(job);
    case Remake::Step::kDecide: co_return co_await decide(job);
    case Remake::Step::kGive: {
      if (!has_owner(*job) && !job->goes_on_elsewhere()) {
        if (job->steps.may_be_given()) release_spares(*job);
        job->steps.unwanted();
        co_return false;
      }
      const bool given = co_await give(job);
      if (job->steps.is_switched() && !fault::at(fault::Point::kLateGoneNotMissed)) miss_what_is_gone(*job);
      std::vector<ExtentId> lost = home_.lost_of(job->now.id);
      if (fault::at(fault::Point::kGivesFirst)) lost.clear();
      const auto heard = [&](const Spare& home) {
        return home.given || cluster_.find(home.node) == nullptr || is_in(lost, home.extent.id) ||
               homes_.is_over(home.node, home.partition, home.shown);
      };
      const bool all = std::all_of(job->spares.begin(), job->spares.end(), heard) &&
                       std::all_of(job->peers.begin(), job->peers.end(), heard);
      if (!given && (all || core_.draining)) job->steps.spare_is_gone();
      co_return given;
    }
    case Remake::Step::kSwitch: switch_over(*job); co_return true;
    case Remake::Step::kThaw:
      fault::reached(fault::State::kRemakeThawed);
      home_.thaw(job->was);
      co_return true;
    case Remake::Step::kRelease: release(*job); co_return true;
    case Remake::Step::kDone:
    case Remake::Step::kOver: break;
  }
  co_return true;
}

std::vector<Remaker::Spare> Remaker::rooms_for(const Job& job) {
  const uint64_t now = core_.now_ns();
  const auto is_past = [&](const auto& entry) { return entry.second <= now; };
  std::erase_if(failed_until_ns_, is_past);
  std::erase_if(avoided_until_ns_, is_past);
  std::vector<std::pair<std::tuple<bool, bool, uint64_t>, Spare>> rooms;
  for (const control::NodeRoom& room : cluster_.rooms()) {
    const control::NodeInfo* node = cluster_.find(room.name);
    const uint64_t free_bytes = room.bytes_free(job.kind);
    if (!room.usable || node == nullptr || free_bytes < job.bytes) continue;
    const bool has_one = std::any_of(job.part.begin(), job.part.end(), [&](ExtentId id) {
      return id.address.partition() == node->partition && !is_in(job.lost, id);
    });
    if (has_one || room.name == core_.name) continue;
    const bool is_avoided = avoided_until_ns_.contains({job.uid, node->partition});
    rooms.push_back({{failed_until_ns_.contains(room.name), is_avoided, ~free_bytes},
                     {room.name, node->partition, node->partition, {}, {}}});
  }
  std::sort(rooms.begin(), rooms.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Spare> out;
  for (auto& [rank, spare] : rooms) out.push_back(std::move(spare));
  return out;
}

Task<bool> Remaker::reserve(std::shared_ptr<Job> job) {
  const control::Title* title = home_.title(job->was);
  if (title == nullptr) co_return false;
  const std::optional<Kind> kind = home_.kind_of(job->was);
  if (!kind) co_return false;
  job->kind = *kind;
  job->bytes = title->bytes;
  for (const ExtentId& lost : job->lost) {
    const uint32_t partition = lost.address.partition();
    avoided_until_ns_[{job->uid, partition}] = core_.now_ns() + 10 * core_.config.failure_deadline_ns();
  }
  job->no_room = rooms_for(*job).empty();
  if (job->no_room) co_return false;
  for (const ExtentId& lost : job->lost) {  // M6
    const Status quiet = co_await cluster_.confirm_lost(job->part, job->lost, lost);
    if (!quiet.is_ok()) co_return false;
  }
  title = home_.title(job->was);
  if (title == nullptr) co_return false;
  const uint32_t uid = title->uid;
  const std::optional<SessionId> session = title->session;
  for (Spare& spare : rooms_for(*job)) {
    if (job->part.size() - job->lost.size() + job->spares.size() == job->wanted) break;
    const bool reserved = co_await reserve_at(job, spare, uid, session);
    if (reserved) {
      job->spares.push_back(std::move(spare));
    } else {
      failed_until_ns_[spare.node] = core_.now_ns() + 10 * core_.config.failure_deadline_ns();
      release_at(*job, spare);
    }
  }
  if (job->spares.empty()) co_return false;
  const bool peers_share = co_await share_at_peers(job);
  if (!peers_share || job->steps.next() != Remake::Step::kReserve) co_return false;
  home_.unshare(job->was);  // of a home that led and ended
  auto shared = home_.share(job->was);
  if (!shared.is_ok()) {
    tell_waiting(core_.name, shared.status());
    co_return false;
  }
  job->now = std::move(shared).value();
  log::debug(
      "replica_copying",
      {{"extent", job->was.address.to_string()}, {"bytes", job->bytes}, {"to", job->spares.front().node}});
  co_return true;
}

Task<bool> Remaker::share_at_peers(std::shared_ptr<Job> job) {
  for (const ExtentId& id : job->part) {
    if (is_in(job->lost, id) || id == job->was) continue;
    const control::NodeInfo* node = cluster_.find_partition(id.address.partition());
    if (node == nullptr) co_return false;
    job->peers.push_back({node->name, node->partition, node->partition, {}, id, false, true});
    const Status shared = co_await share_at(job->peers.back());
    if (shared.code() == Code::kRevoked || shared.code() == Code::kNotFound)
      (void)co_await lose_if_gone(job->part, id, job->peers.back().node);
    if (!shared.is_ok()) co_return false;
  }
  co_return true;
}

Task<Status> Remaker::share_at(Spare& home) {
  wire::Envelope message;
  *message.mutable_share_replica()->mutable_replica() = ref_of(home.was);
  auto reply = co_await homes_.ask(home.node, std::move(message));
  if (!reply.is_ok()) {
    tell_waiting(home.node, reply.status());
    co_return reply.status();
  }
  auto second = control::made_extent(reply.value().reserved(), home.node);
  if (!second.is_ok() || second.value().id.address.partition() != home.partition)
    co_return Status(Code::kProtocol);
  home.extent = std::move(second).value();
  co_return Status();
}

void Remaker::tell_waiting(const std::string& node, const Status& why) {
  if (why.code() != Code::kLimit && why.code() != Code::kPoolFull) return;
  if (const auto left_out = core_.limiter.admit("replica_waits", node, core_.now_ns(), why.message()))
    log::warn("replica_waits", {{"node", node}, {"why", why.message()}, {"left_out", *left_out}});
}

void Remaker::tell_failed(ExtentId id, Remake::Step step) {
  static constexpr std::array kSteps{"reserving room", "copying",  "comparing",
                                     "freezing",       "deciding", "giving"};
  const auto at = static_cast<size_t>(step);
  const std::string why = at < kSteps.size() ? kSteps[at] : "its end";
  if (const auto left_out = core_.limiter.admit("replica_not_made", core_.name, core_.now_ns(), why))
    log::warn("replica_not_made",
              {{"extent", id.address.to_string()}, {"failed", why}, {"left_out", *left_out}});
}

/// First every home of the part that follows knows of it; then the council decides whether it does.
Task<bool> Remaker::decide(std::shared_ptr<Job> job) {
  auto give = next_part(*job);
  if (!give) co_return false;
  job->planned = true;
  note_told(*job, *give);
  for (const auto* homes : {&job->peers, &job->spares}) {
    for (const Spare& home : *homes) {
      wire::Envelope message;
      give->replica = home.extent.id;
      const ExtentId replica = homes == &job->peers ? home.was : home.extent.id;
      control::to_wire(control::PlannedPart{replica, *give, job->part, job->lost},
                       *message.mutable_plan_part());
      const auto reply = co_await homes_.ask(home.node, std::move(message), answer_by_ns(*job, 0));
      if (!reply.is_ok() || job->steps.next() != Remake::Step::kDecide) co_return false;
    }
  }
  while (job->steps.next() == Remake::Step::kDecide) {
    Status decided = Status(Code::kDeadline);
    if (!core_.draining) decided = co_await cluster_.end_part(job->part, job->lost, job->now.id);
    if (decided.code() != Code::kDeadline) co_return decided.is_ok();
    co_await core_.env.sleep_ns(core_.config.heartbeat_ns());  // B stays frozen: M10
  }
  co_return false;
}

Task<bool> Remaker::reserve_at(std::shared_ptr<Job> job, Spare& spare, uint32_t uid,
                               std::optional<SessionId> session) {
  if (session) {  // its end must reach the spare home
    const auto owner = home_.vouching(*session);
    if (!owner) co_return false;
    control::GivenReplica owned;
    owned.session = *session;
    owned.owner_node = owner->node;
    owned.owner_incarnation = owner->incarnation;
    const Status told = co_await tell_owner(std::move(owned), spare.node);
    if (!told.is_ok()) co_return false;
    spare.owner_told = true;
  }
  wire::Envelope message;
  control::to_wire(control::ReserveRequest{.session = job->session,
                                           .owner_node = core_.name,
                                           .owner_incarnation = core_.incarnation,
                                           .allocation = job->allocation,
                                           .bytes_total = job->bytes,
                                           .kind = job->kind,
                                           .uid = uid,
                                           .replicated = true},
                   *message.mutable_reserve());
  auto reply = co_await homes_.ask(spare.node, std::move(message));
  if (!reply.is_ok()) co_return false;
  cluster_.note_pool(spare.node, control::from_wire(reply.value().reserved().pool()));
  auto made = control::made_extent(reply.value().reserved(), spare.node);
  if (!made.is_ok()) co_return false;
  spare.extent = std::move(made).value();
  // The run that made it: the view may show the one before.
  spare.partition = spare.extent.id.address.partition();
  co_return spare.extent.bytes >= job->bytes;
}

Task<bool> Remaker::copy(const Job& job, const Spare& spare, uint64_t offset, uint64_t bytes) {
  wire::Envelope message;
  auto& request = *message.mutable_copy();
  set_place(spare.extent, *request.mutable_target());
  set_place(job.now, *request.mutable_source());
  request.set_target_offset(offset);
  request.set_source_offset(offset);
  request.set_bytes_total(bytes);
  const auto reply = co_await homes_.ask(spare.node, std::move(message), answer_by_ns(job, bytes));
  co_return reply.is_ok();
}

uint64_t Remaker::answer_by_ns(const Job& job, uint64_t bytes) const {
  const uint64_t deadline_ns = core_.config.failure_deadline_ns();
  if (job.steps.is_frozen() && !fault::at(fault::Point::kFrozenForSilence))
    return core_.now_ns() + deadline_ns / 4 + bytes * 1'000'000'000 / kFrozenBytesPerSecond;
  return core_.now_ns() + deadline_ns + bytes * 1'000'000'000 / kSlowestBytesPerSecond;
}

Task<bool> Remaker::copy_all(std::shared_ptr<Job> job) {
  uint64_t began_ns = core_.now_ns();
  uint64_t sent_bytes = 0;
  for (uint64_t at = 0; at < job->bytes; at += kPieceBytes) {
    const uint64_t bytes = std::min(kPieceBytes, job->bytes - at);
    began_ns += co_await set_aside(job);
    if (job->steps.next() != Remake::Step::kCopy) co_return false;
    for (const Spare& spare : job->spares) {
      const bool good = co_await copy(*job, spare, at, bytes);
      if (!good || job->steps.next() != Remake::Step::kCopy || core_.draining) co_return false;
      job->copied_bytes += bytes;
      sent_bytes += bytes;
      if (core_.config.replica_bytes_per_second == 0) continue;
      const double due_s =
          static_cast<double>(sent_bytes) / static_cast<double>(core_.config.replica_bytes_per_second);
      const auto due_ns = began_ns + static_cast<uint64_t>(due_s * 1e9);
      const uint64_t now = core_.now_ns();
      if (due_ns > now) co_await core_.env.sleep_ns(due_ns - now);
    }
  }
  co_return true;
}

Task<Result<std::string>> Remaker::digests_here(ExtentId id, uint64_t offset, uint64_t bytes, uint64_t seed) {
  auto opened = home_.directory().open(id);
  if (!opened.is_ok()) co_return opened.status();
  const std::shared_ptr<fabric::ServedExtent> extent = std::move(opened).value();
  if (bytes > extent->bytes || offset > extent->bytes - bytes) co_return Status(Code::kOutOfRange);
  if (extent->data == nullptr) co_return Status(Code::kUnsupported, "its bytes are on a device");
  std::function<std::string()> work = [extent, offset, bytes, seed] {
    return digests_of(extent->data + offset, bytes, seed);
  };
  co_return co_await side_.run(std::move(work));
}

Task<bool> Remaker::compare(std::shared_ptr<Job> job, uint64_t& changed_bytes) {
  if (job->steps.is_frozen() && fault::at(fault::Point::kFrozenNotCompared)) co_return true;
  for (uint64_t at = 0; at < job->bytes; at += kDigestBytesMax) {
    const uint64_t bytes = std::min(kDigestBytesMax, job->bytes - at);
    if (!job->steps.is_frozen()) (void)co_await set_aside(job);
    if (job->steps.next() != Remake::Step::kCompare) co_return false;
    const uint64_t seed = core_.env.random_number();
    std::vector<Result<std::string>> theirs(job->spares.size(), Status(Code::kPeerLost));
    Result<std::string> mine = Status(Code::kPeerLost);
    const auto here = [](Remaker& self, Job& of, uint64_t offset, uint64_t length, uint64_t key,
                         Result<std::string>& out) -> Task<void> {
      out = co_await self.digests_here(of.now.id, offset, length, key);
    };
    const auto there = [](Remaker& self, Job& of, const Spare& spare, uint64_t offset, uint64_t length,
                          uint64_t key, Result<std::string>& out) -> Task<void> {
      wire::Envelope message;
      auto& request = *message.mutable_digest();
      set_place(spare.extent, *request.mutable_extent());
      request.set_offset(offset);
      request.set_bytes_total(length);
      request.set_seed(key);
      const uint64_t by_ns = self.answer_by_ns(of, length);
      auto reply = co_await self.homes_.ask(spare.node, std::move(message), by_ns);
      if (reply.is_ok())
        out = std::move(*reply.value().mutable_digests()->mutable_digests());
      else
        out = reply.status();
    };
    std::vector<Task<void>> tasks;
    tasks.push_back(here(*this, *job, at, bytes, seed, mine));
    for (size_t i = 0; i < job->spares.size(); ++i)
      tasks.push_back(there(*this, *job, job->spares[i], at, bytes, seed, theirs[i]));
    co_await core_.env.join(std::move(tasks));
    if (!mine.is_ok()) co_return false;
    for (size_t i = 0; i < job->spares.size(); ++i) {
      if (!theirs[i].is_ok() || theirs[i].value().size() != mine.value().size()) co_return false;
      for (uint64_t chunk = 0; chunk * kChunkBytes < bytes;) {  // runs of chunks that differ
        const auto differs = [&](uint64_t c) {
          return mine.value().compare(c * kDigestBytesEach, kDigestBytesEach, theirs[i].value(),
                                      c * kDigestBytesEach, kDigestBytesEach) != 0;
        };
        uint64_t end = chunk;
        while (end * kChunkBytes < bytes && (end - chunk) * kChunkBytes < kPieceBytes && differs(end)) ++end;
        if (end == chunk) {
          ++chunk;
          continue;
        }
        const uint64_t length = std::min(end * kChunkBytes, bytes) - chunk * kChunkBytes;
        const bool good = co_await copy(*job, job->spares[i], at + chunk * kChunkBytes, length);
        if (!good || job->steps.next() != Remake::Step::kCompare || core_.draining) co_return false;
        changed_bytes += length;
        chunk = end;
      }
    }
  }
  co_return true;
}

Task<bool> Remaker::freeze(std::shared_ptr<Job> job) {
  if (fault::at(fault::Point::kReplicaNotFrozen)) co_return true;
  auto frozen = home_.freeze(job->was);
  if (!frozen.is_ok()) co_return false;
  fault::reached(fault::State::kReplicaFrozen);
  const uint64_t give_up_ns = core_.now_ns() + core_.config.failure_deadline_ns() / 2;
  while (!frozen.value().expired()) {  // operations that began before
    if (core_.now_ns() >= give_up_ns || job->steps.next() != Remake::Step::kFreeze) co_return false;
    co_await core_.env.sleep_ns(1'000'000);  // threads that use it yet tell nobody
  }
  co_return true;
}

std::optional<control::GivenReplica> Remaker::next_part(Job& job) {
  const ExtentId here = job.steps.is_frozen() ? job.was : job.now.id;
  const control::Title* title = home_.title(here);
  if (title == nullptr) return std::nullopt;
  if (job.follows.now.empty()) {
    job.follows.was = job.was;
    job.follows.now.push_back(job.now);
    for (const Spare& peer : job.peers) {
      job.follows.now.push_back(peer.extent);
      job.follows.peers.push_back(peer.was);
    }
    for (const Spare& spare : job.spares) job.follows.now.push_back(spare.extent);
    job.follows.former = home_.formerly(job.was);
    job.follows.epoch = home_.epoch_of(job.was) + 1;
    job.follows.replicas_wanted = static_cast<uint32_t>(job.wanted);
    job.follows.allocation = title->allocation;
  }
  std::optional<control::GivenReplica> out = owner_of(here);
  if (!out) return std::nullopt;  // removed: freed() comes
  add_holds(*out, here);
  out->part = job.follows;
  if (out->published) (void)control::relocate(*out->published, job.follows);
  return out;
}

bool Remaker::has_owner(const Job& job) const {
  const ExtentId here = job.steps.is_frozen() ? job.was : job.now.id;
  const control::Title* title = home_.title(here);
  return title != nullptr && (title->session || home_.published_with(here) != nullptr);
}

void Remaker::release_at(const Job& job, const Spare& spare) {
  const bool answered = spare.extent.id.address.bits() != 0;
  const auto tell = [&](const control::ReleaseRequest& request) {
    wire::Envelope message;
    control::to_wire(request, *message.mutable_release());
    homes_.tell(spare.node, answered ? spare.partition : Homes::kAnyRun, std::move(message));
  };
  control::ReleaseRequest request{.session = job.session, .allocation = job.allocation};
  tell(request);
  if (!answered || (!job.steps.may_be_given() && !job.planned)) return;
  request.extent = spare.extent.id;
  request.capability = spare.extent.capability;
  tell(request);
}

void Remaker::release(const Job& job) {
  home_.unshare(job.was);
  for (const Spare& peer : job.peers) {
    if (peer.extent.id.address.bits() == 0 || job.steps.may_be_given())
      continue;  // of a freed part, all of it ends
    wire::Envelope message;
    *message.mutable_share_replica()->mutable_replica() = ref_of(peer.was);
    *message.mutable_share_replica()->mutable_end() = ref_of(peer.extent.id);
    homes_.tell(peer.node, peer.partition, std::move(message));
  }
  release_spares(job);
}

void Remaker::release_spares(const Job& job) {
  for (const Spare& spare : job.spares) {
    release_at(job, spare);
    failed_until_ns_[spare.node] = core_.now_ns() + 10 * core_.config.failure_deadline_ns();
  }
}

void Remaker::remade(const control::PartMoved& part) {
  for (const auto& [id, session] : sessions_.all()) {
    for (const auto& record : session->allocations.relocate(part)) {
      HeldAllocation& held = record->second;
      sessions_.settle(*session, held);  // may erase others
      if (!held.owned) continue;
      if (sessions_.look_for_missing(*session, part.now)) gone_.look_again();  // its receipt was older
      for (const auto& extent : part.now) {
        if (extent.node != core_.name) session->homes.insert(extent.node);
      }
    }
  }
  cluster_.remade(part);
}

void Remaker::tell_name(ExtentId here) {
  if (const control::Allocation* named = home_.published_with(here)) cluster_.name_changed(named->id);
}

bool Remaker::has_moved_away(const control::PartMoved& part) const {
  const auto& now = part.now;
  return home_.is_here(part.was) &&
         std::none_of(now.begin(), now.end(), [this](const auto& one) { return one.node == core_.name; });
}

}  // namespace ocm::node
