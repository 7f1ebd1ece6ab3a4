#include "node/voter_memory.h"

#include <algorithm>

#include "base/assert.h"
#include "base/fault.h"
#include "control/presence.h"

namespace ocm::node {

using control::Reply;
using control::Voter;

namespace {

/// What the last run saved, and appended.
std::optional<wire::VoterMemory> last_of(const std::vector<std::string>& saved) {
  wire::VoterMemory out;
  if (saved.empty() || !out.ParseFromString(saved.front())) return std::nullopt;
  std::vector<wire::VoterChange> changes(saved.size() - 1);
  for (size_t i = 0; i < changes.size(); ++i) {
    if (!changes[i].ParseFromString(saved[i + 1])) return std::nullopt;
  }
  if (!fault::at(fault::Point::kChangesForgotten)) control::apply_changes(out, changes);
  return out;
}

}  // namespace

void VoterMemory::start(const Voter& voter) {
  OCM_DASSERT(former_.empty());
  started_ns_ = core_.now_ns();
  if (!core_.voter_store) return;
  wire::VoterMemories left;
  const auto former = core_.voter_store->load(VoterStore::Of::kFormerRuns);
  if (former.size() != 1 || !left.ParseFromString(former.front())) left.Clear();
  if (auto last = last_of(core_.voter_store->load(VoterStore::Of::kThisRun)))
    *left.add_memories() = std::move(*last);
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
  save_all(voter);
}

void VoterMemory::keep(const Voter& voter) {
  if (!core_.voter_store) return;
  const bool is_due = core_.now_ns() >= tried_ns_ + core_.config.failure_deadline_ns();
  if (unsaved_ ? !is_due : voter.memory_key() == saved_) return;
  if (unsaved_ || !append_changes(voter)) save_all(voter);
}

bool VoterMemory::append_changes(const Voter& voter) {
  constexpr size_t kAppendedMin = size_t{64} << 10;
  // All is written again for as many bytes of changes, so that each of them is written twice at most.
  if (appended_bytes_ >= std::max(saved_bytes_, kAppendedMin)) return false;
  const auto change = voter.memory_since(saved_);
  if (!change || fault::at(fault::Point::kVoterDiskFull)) return false;
  const std::string bytes = change->SerializeAsString();
  if (!core_.voter_store->append(VoterStore::Of::kThisRun, bytes)) return false;
  fault::reached(fault::State::kVoterAppended);
  appended_bytes_ += bytes.size();
  saved_ = voter.memory_key();
  return true;
}

void VoterMemory::save_all(const Voter& voter) {
  const std::string bytes = voter.memory().SerializeAsString();
  unsaved_ = !save(VoterStore::Of::kThisRun, bytes);
  tried_ns_ = core_.now_ns();
  saved_ = voter.memory_key();
  saved_bytes_ = bytes.size();
  appended_bytes_ = 0;
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
