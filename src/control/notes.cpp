#include "control/notes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/assert.h"

namespace ocm::control {

void NameNotes::drop(std::map<AllocationId, NameNote>::iterator it) {
  OCM_DASSERT(bytes_ >= it->second.bytes());
  bytes_ -= it->second.bytes();
  const auto use = use_.find(it->second.owner_uid);
  OCM_DASSERT(use != use_.end() && use->second.bytes >= it->second.bytes());
  use->second.bytes -= it->second.bytes();
  if (--use->second.names == 0) use_.erase(use);
  by_name_.erase(it->second.name);
  names_.erase(it);
}

NameNotes::Use NameNotes::of_users() const {
  const auto root = use_.find(0);
  if (root == use_.end()) return {names_.size(), bytes_};
  return {names_.size() - root->second.names, bytes_ - root->second.bytes};
}

bool NameNotes::take_new(NameNote note) {
  const auto fits = [&](const Use& use, size_t quarters) {
    return use.names < kNotedMax / 4 * quarters && use.bytes + note.bytes() <= kNotedBytesMax / 4 * quarters;
  };
  const auto use = use_.find(note.owner_uid);
  const bool is_known = note.is_removal() || names_.contains(note.id) || note.owner_uid == 0;
  if (!is_known && !(fits(use == use_.end() ? Use() : use->second, 2) && fits(of_users(), 3))) return false;
  return take(std::move(note));
}

bool NameNotes::take(NameNote note) {
  sequence_ = std::max(sequence_, note.sequence);
  if (removed_.contains(note.id)) return true;  // K1
  const auto known = names_.find(note.id);
  if (note.is_removal()) {
    if (known != names_.end()) drop(known);
    note_change(note.id);
    removed_.insert(note.id);
    return true;
  }
  if (known != names_.end() && known->second.sequence >= note.sequence) return true;  // K1
  const auto holder = by_name_.find(note.name);
  const auto other =
      holder == by_name_.end() || holder->second == note.id ? names_.end() : names_.find(holder->second);
  if (other != names_.end()) {  // K4; who hears of this note drops that one by itself
    if (other->second.sequence >= note.sequence) return true;
    drop(other);
  }
  const size_t others = names_.size() - (known == names_.end() ? 0 : 1);
  const size_t bytes = bytes_ - (known == names_.end() ? 0 : known->second.bytes());
  if (others >= kNotedMax || note.bytes() > kNotedBytesMax - bytes) return false;  // K3
  if (known != names_.end()) drop(known);
  bytes_ += note.bytes();
  Use& use = use_[note.owner_uid];
  use.bytes += note.bytes();
  ++use.names;
  note_change(note.id);
  const AllocationId id = note.id;
  by_name_[note.name] = id;
  names_.emplace(id, std::move(note));
  return true;
}

void NameNotes::merge(const NameNotes& other) {
  for (const AllocationId& id : other.removed()) (void)take({.id = id});
  for (const auto& [id, note] : other.names_) (void)take(note);
  sequence_ = std::max(sequence_, other.sequence_);
}

void NameNotes::clear() {
  const uint64_t version = this->version();
  *this = NameNotes();
  changed_before_ = version + 1;  // since() tells nothing of what was before
}

void NameNotes::note_change(const AllocationId& id) {
  constexpr size_t kChangedMax = 4096;
  changed_.push_back(id);
  if (changed_.size() <= kChangedMax) return;
  changed_.pop_front();
  ++changed_before_;
}

std::optional<std::vector<NameNote>> NameNotes::since(uint64_t version) const {
  if (version < changed_before_) return std::nullopt;
  OCM_DASSERT(version <= this->version());
  std::set<AllocationId> seen;
  std::vector<NameNote> out;
  for (auto it = changed_.begin() + static_cast<ptrdiff_t>(version - changed_before_); it != changed_.end();
       ++it) {
    if (!seen.insert(*it).second) continue;
    const auto known = names_.find(*it);
    if (known != names_.end())
      out.push_back(known->second);
    else if (removed_.contains(*it))
      out.push_back({.id = *it, .sequence = sequence_});  // else K4 ended it
  }
  return out;
}

bool NameNotes::is_valid() const {
  size_t bytes = 0;
  std::map<uint32_t, Use> uses;
  for (const auto& [id, note] : names_) {
    if (note.id != id || note.is_removal() || removed_.contains(id) || note.sequence > sequence_)
      return false;
    const auto named = by_name_.find(note.name);
    if (named == by_name_.end() || named->second != id) return false;  // K4
    bytes += note.bytes();
    ++uses[note.owner_uid].names;
    uses[note.owner_uid].bytes += note.bytes();
  }
  return uses == use_ && bytes == bytes_ && by_name_.size() == names_.size() && names_.size() <= kNotedMax &&
         bytes_ <= kNotedBytesMax;
}

}  // namespace ocm::control
