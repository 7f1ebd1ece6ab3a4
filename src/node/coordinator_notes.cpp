// What the coordinator has voters note of its names, and what it knows from them when it takes the role over (C6).
#include <algorithm>

#include "base/assert.h"
#include "base/fault.h"
#include "node/cluster.h"
#include "node/coordinator.h"

namespace ocm::node {

using control::NameNote;
using control::Task;

bool Coordinator::notes_names() const {
  return core_.passes_on() && membership_.nodes() > 1 && member_.all_have(wire::kNotesNames);
}

std::optional<NameNote> Coordinator::note_of(const AllocationId& allocation) const {
  NameNote out{.id = allocation};
  const control::Allocation* named = names_.find_id(allocation);
  if (named == nullptr && !names_.was_removed(allocation)) return std::nullopt;
  if (named == nullptr) return out;
  out.name = named->name;
  out.owner_uid = named->owner_uid;
  out.mode = named->mode;
  out.homes = homes_of(*named);
  return out;
}

Task<Status> Coordinator::note(AllocationId allocation) {
  auto what = note_of(allocation);
  if (!core_.passes_on() || !what) co_return Status();
  unnoted_.insert(allocation);
  if (!notes_names()) co_return Status();
  const bool is_removal = what->is_removal();
  std::vector<NameNote> notes;
  notes.push_back(std::move(*what));
  const Status noted = co_await quorum_.note(std::move(notes));
  // It may have got a mode, or been removed, meanwhile: then that is noted by whoever did it.
  if (noted.is_ok() && is_removal == names_.was_removed(allocation)) unnoted_.erase(allocation);
  co_return noted;
}

Task<void> Coordinator::note_rest() {
  constexpr size_t kAtOnce = 256;
  std::vector<NameNote> notes;
  for (auto it = unnoted_.begin(); it != unnoted_.end() && notes.size() < kAtOnce;) {
    if (publishing_.contains(*it)) {  // it may be undone yet
      ++it;
      continue;
    }
    auto what = note_of(*it);
    const bool is_over = !what.has_value();
    if (!is_over) notes.push_back(std::move(*what));
    it = is_over ? unnoted_.erase(it) : std::next(it);
  }
  const std::vector<NameNote> asked = notes;
  Status noted;
  if (!notes.empty()) noted = co_await quorum_.note(std::move(notes));
  noting_rest_ = false;
  if (!noted.is_ok()) co_return;
  for (const NameNote& note : asked) {
    const auto now = note_of(note.id);
    if (!now || *now == note) unnoted_.erase(note.id);
  }
}

void Coordinator::take_notes() {
  const control::Voter& voter = quorum_.voter();
  if (!core_.passes_on() || std::exchange(notes_of_, voter.council().id) == voter.council().id) return;
  for (const AllocationId& id : voter.notes().removed()) {
    if (const auto back = names_.remember_removed(id)) tell_removed(*back);
  }
  for (const auto& [id, note] : voter.notes().names()) {
    (void)names_.expect(note);
    if (names_.expects(id)) fault::reached(fault::State::kNameExpected);
  }
  OCM_DASSERT(names_.is_valid());
}

bool Coordinator::is_noted(const std::string& name) const {
  if (names_.expected(name) != nullptr) return true;
  const control::Allocation* named = names_.find(name);
  return named != nullptr && notes_names() && !unnoted_.contains(named->id);
}

Task<void> Coordinator::wait_for_homes(std::string name) {
  const auto is_awaited = [&](const std::string& home) {
    const control::NodeInfo* node = membership_.find(home);
    return home != core_.name && node != nullptr && membership_.may_live(home, node->partition) &&
           !reported_.contains(home);
  };
  const auto all_told = [&] {
    const NameNote* noted = names_.expected(name);
    const control::Allocation* named = names_.find(name);
    if (noted == nullptr && named == nullptr) return true;
    const std::vector<std::string> homes = noted != nullptr ? noted->homes : homes_of(*named);
    return std::none_of(homes.begin(), homes.end(), is_awaited);
  };
  while (!knows_all_names() && !all_told()) co_await member_.next_news(all_known_ns());
}

}  // namespace ocm::node
