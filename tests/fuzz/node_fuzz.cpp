// node/service, as another daemon reaches it that knows the token: two nodes send what they like, and answer
// what they like to the requests of this one.
//
// A node is trusted with the memory (docs/security.md), so nothing is asked of that; but the daemon lives,
// and a program is served.
#include "daemon.h"

using namespace ocm;

namespace {

constexpr uint8_t kAnswer = 4, kWait = 16, kProgram = 32;  // bits of `who`

using Answers = std::vector<wire::Envelope>;

/// Answers with what the input says, one after the other.
class HostileLink final : public control::Link {
 public:
  explicit HostileLink(std::shared_ptr<Answers> answers) : answers_(std::move(answers)) {}
  control::Task<Result<wire::Envelope>> call(wire::Envelope, uint64_t) override {
    if (answers_->empty()) co_return Status(Code::kPeerLost, "it says nothing");
    wire::Envelope out = std::move(answers_->back());
    answers_->pop_back();
    co_return out;
  }
  void close(const Status&) override { open_ = false; }
  bool is_open() const override { return open_; }

 private:
  std::shared_ptr<Answers> answers_;
  bool open_ = true;
};

control::Task<Result<std::shared_ptr<control::Link>>> dial(std::shared_ptr<Answers> answers) {
  co_return std::shared_ptr<control::Link>(std::make_shared<HostileLink>(std::move(answers)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto input = fuzz::bytes_of(data, size);
  const auto answers = std::make_shared<Answers>();
  fuzz::Daemon daemon([answers](std::string, uint64_t) { return dial(answers); });
  const auto honest = daemon.program(1000);
  fuzz::Record next;
  for (int i = 0; i < 64 && fuzz::take(input, next); ++i) {
    wire::Envelope message;
    if (!wire::parse_control(next.bytes, message).is_ok()) continue;
    daemon.resolve(message);
    if ((next.who & kAnswer) != 0) {
      answers->push_back(std::move(message));
    } else if ((next.who & kProgram) != 0) {
      daemon.ask(honest, std::move(message));
    } else {
      daemon.ask_as_node((next.who & 1) != 0 ? "b" : "c", std::move(message));
    }
    daemon.env().run((next.who & kWait) != 0 ? 100'000'000 : 0);
  }
  daemon.env().run(4'000'000'000);
  bool answered = false;
  wire::Envelope request;
  request.mutable_cluster();
  const auto another = daemon.program(1001);
  daemon.ask(another, std::move(request), [&](const wire::Envelope& reply) { answered = reply.code() == 0; });
  daemon.env().run(0);
  OCM_ASSERT(answered);
  daemon.end(another);
  daemon.end(honest);
  daemon.env().run(4'000'000'000);
  return 0;
}

std::vector<std::string> fuzz::seeds() {
  wire::Envelope beat, reserve, release, publish, end, resume, hold, vote, seal, propose, install, allocate, attach,
      reserved, stats, lose, goodbye;
  auto& self = *beat.mutable_heartbeat()->mutable_self();
  self.set_name("b");
  self.set_partition(9);
  self.set_state(1);
  self.set_incarnation(std::string(16, 'i'));
  self.set_control_address("127.0.0.1:2");
  auto& pool = *self.add_pools();
  pool.set_bytes_total(1 << 20);
  auto& published = *beat.mutable_heartbeat()->add_published();
  published.set_allocation_id(std::string(16, 'p'));
  published.set_name("x");
  published.set_bytes_total(4096);
  auto& extent = *published.add_extents();
  extent.set_node("b");
  extent.set_address(uint64_t{9} << 40 | 4096);
  extent.set_generation(1);
  extent.set_bytes(4096);
  extent.set_capability(std::string(16, 'k'));
  auto& wanted = *reserve.mutable_reserve();
  wanted.set_session_id(std::string(16, 's'));
  wanted.set_owner_node("b");
  wanted.set_owner_incarnation(std::string(16, 'i'));
  wanted.set_allocation_id(std::string(16, 'p'));
  wanted.set_bytes_total(4096);
  wanted.set_uid(1000);
  release.mutable_release()->set_address(0);
  *publish.mutable_publish_extents()->mutable_allocation() = published;
  end.mutable_session_end()->set_session_id(std::string(16, 's'));
  resume.mutable_session_resume()->set_session_id(std::string(16, 's'));
  resume.mutable_session_resume()->set_owner_node("b");
  resume.mutable_session_resume()->set_owner_incarnation(std::string(16, 'i'));
  hold.mutable_hold()->set_session_id(std::string(16, 's'));
  hold.mutable_hold()->set_hold_id(std::string(16, 'h'));
  hold.mutable_hold()->set_owner_node("b");
  hold.mutable_hold()->set_owner_incarnation(std::string(16, 'i'));
  hold.mutable_hold()->add_extents()->set_address(0);
  vote.mutable_lease_vote()->set_partition(9);
  seal.mutable_seal_council()->mutable_ballot()->set_round(2);
  auto& propose_council = *propose.mutable_propose_council();
  propose_council.mutable_ballot()->set_round(2);
  propose_council.mutable_next()->mutable_council()->set_id(6);
  propose_council.mutable_next()->mutable_council()->add_voters()->set_name("b");
  propose_council.mutable_next()->add_bases()->set_id(5);
  auto& voter = *install.mutable_install_council()->mutable_council()->add_voters();
  voter.set_name("b");
  install.mutable_install_council()->mutable_council()->set_id(5);
  auto& step = *lose.mutable_lose_replica();
  step.set_phase(1);
  for (const uint64_t partition : {7, 9}) step.add_part()->set_address(partition << 40 | 4096);
  *step.mutable_replica() = step.part(1);
  goodbye.mutable_goodbye()->set_node("b");
  allocate.mutable_allocate()->set_bytes_total(4096);
  allocate.mutable_allocate()->add_nodes("b");
  attach.mutable_attach()->set_name("x");
  attach.mutable_attach()->set_access(1);
  attach.mutable_attach()->set_hold(true);
  *reserved.mutable_reserved()->mutable_extent() = extent;
  stats.mutable_stats();
  const auto say = [](std::initializer_list<std::pair<int, const wire::Envelope*>> all) {
    std::string out;
    for (const auto& [who, message] : all) out += fuzz::record(static_cast<uint8_t>(who), *message);
    return out;
  };
  return {say({{1, &beat},
               {kAnswer, &reserved},
               {kProgram, &allocate},
               {kProgram, &attach},
               {1 + kWait, &goodbye}}),
          say({{1, &reserve}, {1, &publish}, {1, &hold}, {0, &release}, {1, &end}}),
          say({{1, &reserve}, {0, &resume}, {1, &resume}, {1, &release}, {1 + kWait, &stats}}),
          say({{1, &beat}, {1, &vote}, {1, &lose}, {1, &seal}, {1, &propose}, {1, &install}, {0 + kWait, &vote}})};
}
