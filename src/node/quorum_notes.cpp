// What the coordinator has the voters note of names (control/notes.h). What is to be noted while a round is under way goes
// with the next one, so that many publishes at once cost as many rounds as one after the other.
#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/fault.h"
#include "control/voting_wire.h"
#include "node/quorum.h"

namespace ocm::node {

using control::Task;

Task<Status> Quorum::note(std::vector<control::NameNote> notes) {
  if (!next_notes_) next_notes_ = std::make_shared<NoteRound>(core_.env);
  const std::shared_ptr<NoteRound> round = next_notes_;
  for (control::NameNote& note : notes) {
    note.sequence = note_sequence_ = std::max(note_sequence_, voter_->notes().sequence()) + 1;
    round->notes.push_back(std::move(note));
  }
  if (!std::exchange(noting_, true)) core_.env.spawn(send_notes());
  while (!round->outcome) co_await round->done.wait();
  co_return *round->outcome;
}

Task<void> Quorum::send_notes() {
  while (next_notes_ != nullptr) {
    const std::shared_ptr<NoteRound> round = std::exchange(next_notes_, nullptr);
    round->outcome = co_await note_round(*round);
    round->done.notify();
  }
  noting_ = false;
}

Task<Status> Quorum::note_round(const NoteRound& round) {
  const uint64_t deadline_ns = core_.config.failure_deadline_ns();
  for (const uint64_t give_up_ns = core_.now_ns() + deadline_ns / 2; acts();) {
    const control::Council council = newest();  // another one follows it perhaps, whose voters are asked then
    const size_t needed = fault::at(fault::Point::kNotedByOne) ? 1 : control::majority(council);
    wire::Envelope request;
    control::to_wire(control::NoteRequest{council.id, self_.incarnation, round.notes},
                     *request.mutable_note_names());
    const Answers answers = co_await ask_all(council, std::move(request), needed);
    OCM_DASSERT(answers.size() <= council.voters.size());
    if (answers.size() >= needed) co_return Status();
    if (core_.now_ns() >= give_up_ns) break;
    co_await core_.env.sleep_ns(deadline_ns / 128);
  }
  co_return Status::of_node(Code::kNoCoordinator, core_.name,
                            ": no majority of the voters has noted it; ask again");
}

}  // namespace ocm::node
