// How a node whose council nobody leads finds one: it asks the seeds, and those who vote in what it hears of; and the first
// seed, or the node that an operator names, founds one (control/founding.h).
#include <algorithm>

#include "base/fault.h"
#include "control/council_wire.h"
#include "node/cluster.h"
#include "node/standing.h"

namespace ocm::node {

using control::Task;

Task<Result<wire::Envelope>> Cluster::tell_leader(std::string address) {
  wire::Envelope message;
  control::to_wire(quorum_.known(), *message.mutable_leader()->mutable_council());
  co_return co_await peers_.call(std::move(address), std::move(message), core_.now_ns() + patience_ns());
}

void Cluster::ask_seeds() {
  // A coordinator asks members, too: a seed that has just restarted with all others, and remembers nothing, would found
  // another cluster before it is missed.
  for (const std::string& seed : core_.other_seeds) {
    if (asking_seeds_.insert(seed).second) core_.env.spawn(ask_seed(seed));
  }
  if (is_coordinator()) {
    const std::set<std::string> beside = founded_beside_;  // who was out of reach may have founded one, too
    for (const std::string& address : beside) {
      if (asking_seeds_.insert(address).second) core_.env.spawn(ask_seed(address));
    }
    return;
  }
  for (const control::Council& council : quorum_.remembered_councils()) ask_voters_of(council);
  for (const std::string& voter : voters_to_ask_) {
    if (asking_seeds_.insert(voter).second) core_.env.spawn(ask_seed(voter));
  }
  const uint64_t now = core_.now_ns();
  if ((core_.founds && founding_.may_found(now)) || (was_alone_ && founding_again_.may_found(now)))
    quorum_.found_first();
}

void Cluster::ask_voters_of(const control::Council& council) {
  constexpr size_t kVotersMax = 64;
  if (fault::at(fault::Point::kVotersNotAsked)) return;
  for (const control::VoterInfo& voter : council.voters) {
    const auto& seeds = core_.other_seeds;
    const bool is_asked = voter.name == core_.name || voter.address.empty() ||
                          std::find(seeds.begin(), seeds.end(), voter.address) != seeds.end();
    if (is_asked || voters_to_ask_.size() >= kVotersMax) continue;
    voters_to_ask_.insert(voter.address);
    founding_.awaits(core_.now_ns(), voter.address);
  }
}

Task<void> Cluster::ask_seed(std::string seed) {
  const auto reply = co_await tell_leader(seed);
  asking_seeds_.erase(seed);
  if (!reply.is_ok()) {
    if (!is_coordinator()) missed_coordinator(seed, reply.status());
    co_return;
  }
  if (!reply.value().has_leader()) co_return;
  const control::Leader leader = control::from_wire(reply.value().leader());
  for (const control::Council& former : leader.remembered) ask_voters_of(former);
  const control::Council& council = leader.council;
  const bool alone = quorum_.was_alone(council);
  was_alone_ = was_alone_ || alone;
  founding_.answered(core_.now_ns(), seed, council.id != 0);
  founding_again_.answered(core_.now_ns(), seed, council.id != 0 && !alone);
  quorum_.told_of(council);
  if (control::are_of_one_cluster(council, quorum_.known())) founded_beside_.erase(seed);
  tell_if_foreign(seed, council);
}

void Cluster::tell_if_foreign(const std::string& seed, const control::Council& council) {
  if (!is_coordinator() || !control::is_council(council) || quorum_.was_alone(council)) return;
  if (control::are_of_one_cluster(council, quorum_.known())) return;
  const std::string other = control::coordinator_of(council).name;
  if (const auto left_out = core_.limiter.admit("two_clusters", seed, core_.now_ns(), other)) {
    log::warn("two_clusters",
              {{"seed", seed},
               {"its_coordinator", other},
               {"help", "give all nodes the same seeds in the same order; restart the nodes of one cluster"},
               {"left_out", *left_out}});
  }
}

Task<void> Cluster::ask_founding(std::string address, std::map<std::string, control::FoundingAnswer>& out) {
  const auto reply = co_await tell_leader(std::move(address));
  if (!reply.is_ok() || !reply.value().has_leader()) co_return;
  const control::Leader leader = control::from_wire(reply.value().leader());
  const control::Council& mine = quorum_.newest();
  if (leader.node.empty() || leader.node == core_.name) co_return;
  control::FoundingAnswer& answer = out[leader.node];
  answer.founds = leader.founds;
  answer.founded = mine.id == 0 ? leader.council.id != 0 : control::replaces(leader.council, mine);
}

Task<Status> Cluster::found_by_hand() {
  if (has_coordinator()) {
    co_return Status::of_node(
        Code::kExists, core_.name,
        ": " + (is_coordinator() ? "this node" : "node " + view_.coordinator) + " is the coordinator");
  }
  const std::shared_ptr<bool> flag = founds_by_hand_;
  if (*flag) co_return Status::of_node(Code::kExists, core_.name, " is just founding the cluster");
  const Standing founding(*flag);
  const uint64_t give_up_ns = core_.now_ns() + 4 * core_.config.failure_deadline_ns();
  for (bool alone = fault::at(fault::Point::kFoundsBeside); !alone;) {
    founded_beside_.insert(core_.other_seeds.begin(), core_.other_seeds.end());
    for (const control::NodeInfo& node : view_.nodes) {  // also those that seem dead
      if (node.name != core_.name && !node.control_address.empty())
        founded_beside_.insert(node.control_address);
    }
    std::map<std::string, control::FoundingAnswer> answers;
    std::vector<Task<void>> tasks;
    for (const std::string& address : founded_beside_) tasks.push_back(ask_founding(address, answers));
    if (!tasks.empty()) co_await core_.env.join(std::move(tasks));
    const control::FoundingStep step = control::founding_step(core_.name, answers);
    alone = step == control::FoundingStep::kFound;
    if (step == control::FoundingStep::kRefuse) {
      const auto other = std::find_if(answers.begin(), answers.end(), [](const auto& one) {
        return one.second.founded || one.second.founds;
      });
      co_return Status::of_node(Code::kExists, core_.name,
                                ": a cluster is founded already, as node " + other->first + " says");
    }
    if (step == control::FoundingStep::kWait && core_.now_ns() >= give_up_ns)
      co_return Status::of_node(Code::kDeadline, core_.name, ": another node founds the cluster, too");
    if (step == control::FoundingStep::kWait)
      co_await core_.env.sleep_ns(core_.config.failure_deadline_ns() / 16);
  }
  const Status founded = co_await quorum_.found_by_hand();
  if (founded.is_ok()) follow_role();
  co_return founded;
}

}  // namespace ocm::node
