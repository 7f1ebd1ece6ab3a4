#include "node/voter_memory.h"

#include <algorithm>

#include "base/assert.h"
#include "base/fault.h"
#include "control/presence.h"

namespace ocm::node {

using control::Reply;
using control::Voter;

void VoterMemory::start(const Voter& voter) {
  OCM_DASSERT(former_.empty());
  started_ns_ = core_.now_ns();
  if (!core_.voter_store) return;
  wire::VoterMemories left;
  if (!left.ParseFromString(core_.voter_store->load(VoterStore::Of::kFormerRuns))) left.Clear();
  wire::VoterMemory last;
  const std::string bytes = core_.voter_store->load(VoterStore::Of::kThisRun);
  if (!bytes.empty() && last.ParseFromString(bytes)) *left.add_memories() = std::move(last);
  for (const wire::VoterMemory& memory : left.memories()) {
    auto known = Voter::remembered(core_.now_ns(), core_.name, memory, core_.config.failure_deadline_ns());
    if (!known || remembers(known->incarnation())) continue;
    former_.push_back(std::move(*known));
    fault::reached(fault::State::kVoterRemembered);
  }
  // Those that never voted first: there may be no council with them.
  while (former_.size() > control::VoterRun::kRememberedMax) {
    const auto blank = std::find_if(former_.begin(), former_.end(),
                                    [](const Voter& one) { return one.council().id() == 0; });
    former_.erase(blank == former_.end() ? former_.begin() : blank);
  }
  OCM_DASSERT(is_valid());
  keep_former();
  failed_ = unsaved_ = !save(VoterStore::Of::kThisRun, voter.memory().SerializeAsString());
  saved_ = voter.memory_key();
  tried_ns_ = core_.now_ns();
}

void VoterMemory::keep(const Voter& voter) {
  constexpr size_t kSmall = 256;  // parts that were decided about: to be written whenever one of them changes
  constexpr uint64_t kRestNsPerPart = 16'000;  // some ten times what it takes to write one
  if (!core_.voter_store) return;
  const Voter::MemoryKey key = voter.memory_key();
  const bool changed = key != saved_;
  const uint64_t now_ns = core_.now_ns(), deadline_ns = core_.config.failure_deadline_ns();
  const size_t parts = voter.ledger().parts();
  const uint64_t rest_ns = parts <= kSmall ? 0 : std::min(deadline_ns, parts * kRestNsPerPart);
  const bool rests = now_ns < tried_ns_ + rest_ns;
  const bool is_due = unsaved_ && !rests && (!failed_ || now_ns >= tried_ns_ + deadline_ns);
  if (!changed && !is_due) return;
  unsaved_ = !save(VoterStore::Of::kThisRun, rests ? std::string() : voter.memory().SerializeAsString());
  failed_ = unsaved_ && !rests;
  if (!rests) tried_ns_ = now_ns;
  saved_ = key;
}

bool VoterMemory::save(VoterStore::Of of, const std::string& bytes) {
  const bool refused = fault::at(fault::Point::kVoterDiskFull);
  const bool saved = core_.voter_store->save(of, refused ? std::string() : bytes);
  if (saved && refused_) fault::reached(fault::State::kVoterSavedLater);
  refused_ = refused;
  return saved;
}

void VoterMemory::keep_former() {
  std::vector<Voter::MemoryKey> keys;
  for (const Voter& one : former_) keys.push_back(one.memory_key());
  if (!core_.voter_store || keys == saved_former_) return;
  wire::VoterMemories memories;
  for (const Voter& one : former_) *memories.add_memories() = one.memory();
  if (save(VoterStore::Of::kFormerRuns, former_.empty() ? std::string() : memories.SerializeAsString()) ||
      former_.empty())
    saved_former_ = std::move(keys);
}

bool VoterMemory::is_valid() const {
  for (auto one = former_.begin(); one != former_.end(); ++one) {
    for (auto other = former_.begin(); other != one; ++other) {
      if (other->incarnation() == one->incarnation()) return false;
    }
  }
  return former_.size() <= size_t{control::VoterRun::kRememberedMax};
}

std::vector<wire::RememberedRun> VoterMemory::runs() const {
  std::vector<wire::RememberedRun> out;
  for (const Voter& one : former_) {
    out.emplace_back().set_incarnation(one.incarnation());
    out.back().set_council(one.council().number());
  }
  return out;
}

bool VoterMemory::remembers(const std::string& incarnation) const {
  return std::any_of(former_.begin(), former_.end(),
                     [&](const Voter& one) { return one.incarnation() == incarnation; });
}

std::vector<wire::Council> VoterMemory::councils() const {
  std::vector<wire::Council> out;
  for (const Voter& one : former_) {
    if (one.council().id() != 0) out.push_back(one.council());
  }
  return out;
}

Voter* VoterMemory::asked(const wire::Envelope& request) {
  const uint64_t id = request.has_seal_council()      ? request.seal_council().council_id()
                      : request.has_propose_council() ? request.propose_council().council_id()
                                                      : 0;
  const auto it = std::find_if(former_.begin(), former_.end(), [&](const Voter& one) {
    if (!request.has_install_council()) return id != 0 && one.council().id() == id;
    const auto& voters = request.install_council().council().voters();
    return std::any_of(voters.begin(), voters.end(), [&](const wire::Voter& voter) {
      return voter.name() == core_.name && voter.incarnation() == one.incarnation();
    });
  });
  return it == former_.end() ? nullptr : &*it;
}

std::optional<Reply> VoterMemory::answer(const wire::Envelope& request) {
  Voter* const former = asked(request);
  if (former == nullptr) return std::nullopt;
  const uint64_t now = core_.now_ns();
  // A vote that the former run gave may run until then.
  if (now < started_ns_ + core_.config.failure_deadline_ns())
    return Status(Code::kPeerLost, "it voted until a moment ago, in a former run");
  wire::Envelope out;
  if (request.has_seal_council()) {
    auto promise = former->seal(now, request.seal_council());
    if (!promise.is_ok()) return promise.status();
    *out.mutable_council_promise() = std::move(promise).value();
    out.mutable_council_promise()->set_remembered(true);
    if (out.council_promise().agreed()) fault::reached(fault::State::kPromisedForFormer);
  } else if (request.has_propose_council()) {
    const Status accepted = former->accept(request.propose_council());
    if (!accepted.is_ok()) return accepted;
  } else {
    OCM_DASSERT(request.has_install_council());
    const Status installed = former->install(now, request.install_council());
    if (!installed.is_ok()) return installed;
    fault::reached(fault::State::kInstalledForFormer);
  }
  keep_former();
  return out;
}

void VoterMemory::home_came_to(const wire::Council& council) {
  const auto& voters = council.voters();
  const bool votes_here = std::any_of(voters.begin(), voters.end(), [&](const wire::Voter& voter) {
    return voter.name() == core_.name && voter.incarnation() == id_field(core_.incarnation);
  });
  for (Voter& one : former_) {
    const wire::Council was = one.council();
    one.home_came_to(council);
    // Its end was promised, and is known.
    if (was.id() != 0 && council.number() > was.number() && control::continues(council, was)) one.leave();
  }
  // Who made this one knows this run, and takes no former one for it any more.
  if (votes_here && voters.size() > 1)
    std::erase_if(former_, [](const Voter& one) { return one.council().id() == 0; });
  OCM_DASSERT(is_valid());
  keep_former();
}

}  // namespace ocm::node
