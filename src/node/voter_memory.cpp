#include "node/voter_memory.h"

#include <algorithm>

#include "base/assert.h"
#include "base/fault.h"
#include "control/voting_wire.h"

namespace ocm::node {

using control::Voter;

namespace {

/// What the last run saved, and appended.
std::optional<control::VoterMemory> last_of(const std::vector<std::string>& saved) {
  wire::VoterMemory first;
  if (saved.empty() || !first.ParseFromString(saved.front())) return std::nullopt;
  auto out = control::from_wire(first);
  if (!out.is_ok()) return std::nullopt;
  std::vector<control::VoterChange> changes;
  changes.reserve(saved.size() - 1);
  for (size_t i = 1; i < saved.size(); ++i) {
    wire::VoterChange change;
    if (!change.ParseFromString(saved[i])) return std::nullopt;
    changes.push_back(control::from_wire(change));
  }
  if (!fault::at(fault::Point::kChangesForgotten)) control::apply_changes(out.value(), std::move(changes));
  return std::move(out).value();
}

/// What those before it left, the newest last.
std::vector<control::VoterMemory> former_of(const std::vector<std::string>& saved) {
  wire::VoterMemories left;
  std::vector<control::VoterMemory> out;
  if (saved.size() != 1 || !left.ParseFromString(saved.front())) return out;
  for (const wire::VoterMemory& one : left.memories()) {
    auto memory = control::from_wire(one);
    if (memory.is_ok()) out.push_back(std::move(memory).value());
  }
  return out;
}

}  // namespace

void VoterMemory::start(const Voter& voter) {
  OCM_DASSERT(former_.empty());
  started_ns_ = core_.now_ns();
  if (!core_.voter_store) return;
  std::vector<control::VoterMemory> left = former_of(core_.voter_store->load(VoterStore::Of::kFormerRuns));
  if (auto last = last_of(core_.voter_store->load(VoterStore::Of::kThisRun)))
    left.push_back(std::move(*last));
  for (control::VoterMemory& memory : left) {
    auto known =
        Voter::remembered(core_.now_ns(), core_.name, std::move(memory), core_.config.failure_deadline_ns());
    if (!known || remembers(known->incarnation())) continue;
    former_.push_back(std::move(*known));
    fault::reached(fault::State::kVoterRemembered);
  }
  // Those that never voted first: there may be no council with them.
  while (former_.size() > control::kRememberedRunsMax) {
    const auto blank =
        std::find_if(former_.begin(), former_.end(), [](const Voter& one) { return one.council().id == 0; });
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
  wire::VoterChange message;
  control::to_wire(*change, message);
  const std::string bytes = message.SerializeAsString();
  if (!core_.voter_store->append(VoterStore::Of::kThisRun, bytes)) return false;
  fault::reached(fault::State::kVoterAppended);
  appended_bytes_ += bytes.size();
  saved_ = voter.memory_key();
  return true;
}

void VoterMemory::save_all(const Voter& voter) {
  wire::VoterMemory message;
  control::to_wire(voter.memory(), message);
  const std::string bytes = message.SerializeAsString();
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
  for (const Voter& one : former_) control::to_wire(one.memory(), *memories.add_memories());
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
  return former_.size() <= control::kRememberedRunsMax;
}

std::vector<control::RememberedRun> VoterMemory::runs() const {
  std::vector<control::RememberedRun> out;
  out.reserve(former_.size());
  for (const Voter& one : former_) out.push_back({one.incarnation(), one.council().number});
  return out;
}

bool VoterMemory::remembers(const control::Incarnation& run) const {
  return std::any_of(former_.begin(), former_.end(),
                     [&](const Voter& one) { return one.incarnation() == run; });
}

std::vector<control::Council> VoterMemory::councils() const {
  std::vector<control::Council> out;
  for (const Voter& one : former_) {
    if (one.council().id != 0) out.push_back(one.council());
  }
  return out;
}

Voter* VoterMemory::voter_in(uint64_t council) {
  const auto it = std::find_if(former_.begin(), former_.end(),
                               [&](const Voter& one) { return council != 0 && one.council().id == council; });
  return it == former_.end() ? nullptr : &*it;
}

Status VoterMemory::may_answer() const {
  if (core_.now_ns() < started_ns_ + core_.config.failure_deadline_ns())
    return Status(Code::kPeerLost, "it voted until a moment ago, in a former run");
  return {};
}

std::optional<Result<control::CouncilPromise>> VoterMemory::seal(const control::SealRequest& request) {
  Voter* const former = voter_in(request.council);
  if (former == nullptr) return std::nullopt;
  if (const Status late = may_answer(); !late.is_ok()) return late;
  auto promise = former->seal(core_.now_ns(), request);
  if (!promise.is_ok()) return promise;
  promise.value().remembered = true;
  if (promise.value().agreed) fault::reached(fault::State::kPromisedForFormer);
  keep_former();
  return promise;
}

std::optional<Status> VoterMemory::accept(const control::Proposal& proposal) {
  Voter* const former = voter_in(proposal.council);
  if (former == nullptr) return std::nullopt;
  OCM_TRY(may_answer());
  OCM_TRY(former->accept(proposal));
  keep_former();
  return Status();
}

std::optional<Status> VoterMemory::install(const control::MadeCouncil& made) {
  const auto former = std::find_if(former_.begin(), former_.end(), [&](const Voter& one) {
    return made.council.has(core_.name, one.incarnation());
  });
  if (former == former_.end()) return std::nullopt;
  OCM_TRY(may_answer());
  OCM_TRY(former->install(core_.now_ns(), made));
  fault::reached(fault::State::kInstalledForFormer);
  keep_former();
  return Status();
}

void VoterMemory::home_came_to(const control::Council& council) {
  const bool votes_here = council.has(core_.name, core_.incarnation);
  for (Voter& one : former_) {
    const control::Council was = one.council();
    one.home_came_to(council);
    // Its end was promised, and is known.
    if (was.id != 0 && council.number > was.number && control::continues(council, was)) one.leave();
  }
  // Who made this one knows this run, and takes no former one for it any more.
  if (votes_here && council.voters.size() > 1)
    std::erase_if(former_, [](const Voter& one) { return one.council().id == 0; });
  OCM_DASSERT(is_valid());
  keep_former();
}

}  // namespace ocm::node
