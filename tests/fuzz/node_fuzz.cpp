// A daemon, as others reach it that know the token: two nodes send what they like, and answer what they like
// to the requests of this one, which is their coordinator, or a member of the cluster that one of them
// coordinates.
//
// A node is trusted with the memory (docs/security.md), so nothing is asked of that. But the daemon lives and
// serves a program; what it keeps is valid; and when those nodes are gone, its sessions have ended and what
// its names lead to is removed, no byte is used.
#include <deque>

#include "control/council_wire.h"
#include "control/home_requests_wire.h"
#include "daemon.h"
#include "node_input.h"
#include "records.h"

using namespace ocm;
using namespace ocm::fuzz::node_input;
using wire::Envelope;

namespace {

/// The body that answers a request; nothing: an empty reply does.
Envelope::BodyCase answer_of(Envelope::BodyCase request) {
  switch (request) {
    case Envelope::kHeartbeat: return Envelope::kClusterView;
    case Envelope::kReserve:
    case Envelope::kShareReplica: return Envelope::kReserved;
    case Envelope::kResolve: return Envelope::kPartMoved;
    case Envelope::kSessionResume: return Envelope::kSessionExtents;
    case Envelope::kLeaseVote: return Envelope::kLeaseGranted;
    case Envelope::kLoseReplica: return Envelope::kReplicaLosing;
    case Envelope::kSealCouncil: return Envelope::kCouncilPromise;
    case Envelope::kHold: return Envelope::kHeld;
    case Envelope::kDigest: return Envelope::kDigests;
    case Envelope::kStopCheck: return Envelope::kStopCheckReply;
    case Envelope::kReplicaQuery: return Envelope::kReplicaAnswer;
    case Envelope::kStats: return Envelope::kStatsReply;
    case Envelope::kWatch: return Envelope::kWatched;
    case Envelope::kCache: return Envelope::kCacheable;
    case Envelope::kAttach:
    case Envelope::kNameRemove: return Envelope::kAllocation;
    case Envelope::kNameList: return Envelope::kNames;
    case Envelope::kPublish: return Envelope::kPublished;
    default: return Envelope::BODY_NOT_SET;
  }
}

/// The other two nodes, as this one reaches them.
class Others {
 public:
  void will_say(Envelope answer, bool to_any) { answers_.push_back({std::move(answer), to_any}); }
  /// They are gone. `coordinates`: there is another coordinator in the place of one, which is honest.
  void leave(bool coordinates) {
    answers_.clear();
    gone_ = true;
    coordinates_ = coordinates;
  }
  Result<Envelope> answer(const Envelope& request) {
    if (gone_) return honest_answer(request);
    const Envelope::BodyCase wanted = answer_of(request.body_case());
    for (auto it = answers_.begin(); it != answers_.end(); ++it) {
      const bool fits = it->message.body_case() == wanted;
      if (!fits && !it->to_any) continue;
      Envelope out = std::move(it->message);
      answers_.erase(it);
      if (fits) fuzz::reached(out);
      return out;
    }
    return Status(Code::kPeerLost, "they say nothing");
  }

 private:
  struct Answer {
    Envelope message;
    bool to_any;
  };
  Result<Envelope> honest_answer(const Envelope& request) const {
    if (!coordinates_ || !request.has_heartbeat()) return Status(Code::kPeerLost, "they are gone");
    Envelope out;
    auto& view = *out.mutable_cluster_view();
    view.set_epoch(~uint64_t{0});
    view.set_cluster_id(~uint64_t{0});
    view.set_coordinator("b");
    *view.add_nodes() = request.heartbeat().self();
    return out;
  }

  std::deque<Answer> answers_;
  bool gone_ = false, coordinates_ = false;
};

class HostileLink final : public control::Link {
 public:
  explicit HostileLink(Others& others) : others_(others) {}
  control::Task<Result<Envelope>> call(Envelope request, uint64_t) override {
    co_return others_.answer(request);
  }
  void close(const Status&) override { open_ = false; }
  bool is_open() const override { return open_; }
  uint64_t heard_ns() const override { return ~uint64_t{0}; }

 private:
  Others& others_;
  bool open_ = true;
};

control::Task<Result<std::shared_ptr<control::Link>>> dial(Others& others) {
  co_return std::shared_ptr<control::Link>(std::make_shared<HostileLink>(others));
}

/// As a coordinator would that knows what this home has.
void remove_published(fuzz::Env& env, fuzz::Daemon& daemon) {
  std::vector<control::NameChange> removals;
  for (const auto& [id, allocation] : daemon.home().published())
    removals.push_back({.allocation = allocation, .remove = true});
  for (const control::NameChange& removal : removals) {
    Envelope remove;
    control::to_wire(removal, *remove.mutable_publish_extents());
    daemon.ask_as_node("b", std::move(remove));
  }
  env.run(0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  auto input = fuzz::bytes_of(data + 1, size - 1);
  const bool is_member = (data[0] & 1) == kMember;
  Others others;
  fuzz::Env env;
  fuzz::Known known;
  fuzz::Daemon::Options options;
  if (is_member) options.coordinator = "b";
  fuzz::Daemon daemon(env, known, options, [&](std::string, uint64_t) { return dial(others); });
  env.run(2 * fuzz::kHeartbeatNs);
  std::shared_ptr<node::Program> programs[2];
  int long_waits = 0;
  fuzz::Record next;
  for (int i = 0; i < 64 && fuzz::take(input, next); ++i) {
    std::shared_ptr<node::Program>& program = programs[next.who & 1];
    const std::string node = (next.who & 1) != 0 ? "b" : "c";
    Envelope message;
    const bool parsed = wire::parse_control(next.bytes, message).is_ok();
    wire::Council newest;
    control::to_wire(daemon.cluster().quorum().newest(), newest);
    if (newest.id() != 0) known.learn(newest);
    known.resolve(message);
    if (message.has_session_hello()) daemon.sign_former(*message.mutable_session_hello());
    if (!parsed) {
    } else if ((next.who & kAnswer) != 0) {
      others.will_say(std::move(message), (next.who & kAny) != 0);
    } else if ((next.who & kProgram) != 0) {
      if (!program) {
        program = std::make_shared<node::Program>();
        program->uid = 1000 + (next.who & 1);
        SessionId former;
        if (node::read_id(message.session_hello().resume_session(), former)) program->uid = uid_of(former);
      }
      if (message.has_stop_check() || message.has_stats_reply())
        daemon.get((message.has_stop_check() ? "/stop-check?node=" : "/status?node=") + node, 0);
      else
        daemon.ask(program, std::move(message));
    } else {
      daemon.ask_as_node(node, std::move(message));
    }
    env.run((next.who & kLong) != 0 && ++long_waits <= 4 ? 2 * fuzz::kDeadlineNs
            : (next.who & kWait) != 0                    ? fuzz::kHeartbeatNs
                                                         : 0);
    if ((next.who & kEnd) == 0 || !program) continue;
    daemon.end(program);
    program.reset();
  }
  daemon.check_served(1002);
  daemon.check_valid();
  for (const char* path : {"/metrics", "/status"}) daemon.get(path, 0);
  for (auto& program : programs) {
    if (program) daemon.end(program);
  }
  others.leave(is_member);
  env.run(fuzz::kAllOverNs);
  if (!is_member) fuzz::remove_names(env, daemon);
  remove_published(env, daemon);
  env.run(fuzz::kAllOverNs);
  daemon.check_valid();
  daemon.check_unused();
  return 0;
}
