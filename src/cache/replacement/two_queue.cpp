#include "cache/replacement/two_queue.h"

#include <algorithm>

#include "base/assert.h"

namespace ocm::cache {

TwoQueue::TwoQueue(uint32_t frames, Refresh refresh) : entries_(frames), frames_(frames), refresh_(refresh) {}

void TwoQueue::add(Frame frame) { put_in(frame, kLru, false); }

void TwoQueue::add_aged(Frame frame) { put_in(frame, kFifo, true); }

void TwoQueue::put_in(Frame frame, List list, bool offered) {
  OCM_ASSERT(frame < entries_.size());
  Entry& it = entries_[frame];
  OCM_ASSERT(it.list == kNone);
  it = {};
  it.list = list;
  it.offered = offered;
  link(frame, Place::kTop);
}

void TwoQueue::remove(Frame frame) {
  if (entry(frame).pins == 0) unlink(frame);
  entries_[frame] = {};
}

void TwoQueue::touch(Frame frame) {
  Entry& it = entry(frame);
  it.offered = false;
  move_to_top(frame, it.list == kFifo && refresh_ == Refresh::kFifo ? kFifo : kLru);
}

void TwoQueue::supply(Frame frame) {
  if (entry(frame).list == kFifo) move_to_top(frame, kFifo);
}

void TwoQueue::pin(Frame frame) {
  Entry& it = entry(frame);
  if (it.pins++ != 0) return;
  unlink(frame);
  it.returns = Place::kBottom;
}

void TwoQueue::unpin(Frame frame) {
  Entry& it = entry(frame);
  OCM_ASSERT(it.pins > 0);
  if (--it.pins == 0) link(frame, it.returns);
}

TwoQueue::Victim TwoQueue::next(std::vector<Frame>& aged) {
  Ends& lru = lists_[kLru];
  const Ends& fifo = lists_[kFifo];
  while (lru.size != 0 && fifo.size <= frames_ / 2) {
    const Frame frame = lru.bottom;
    OCM_DASSERT(frame != kNoFrame && entries_[frame].pins == 0);  // Q1
    if (!entries_[frame].sole) return {frame, false};
    move_to_top(frame, kFifo);
    aged.push_back(frame);
  }
  const Frame frame = fifo.bottom;
  return {frame, frame != kNoFrame && entries_[frame].sole && !entries_[frame].offered};
}

void TwoQueue::resize(uint32_t frames) {
  if (frames > entries_.size()) entries_.resize(frames);
  frames_ = frames;
  OCM_DASSERT(is_valid());
}

TwoQueue::Entry& TwoQueue::entry(Frame frame) {
  OCM_ASSERT(frame < entries_.size() && entries_[frame].list != kNone);
  return entries_[frame];
}

void TwoQueue::move_to_top(Frame frame, List list) {
  Entry& it = entries_[frame];
  OCM_DASSERT(it.list != kNone && list != kNone);
  if (it.pins == 0) unlink(frame);
  it.list = list;
  it.returns = Place::kTop;
  if (it.pins == 0) link(frame, Place::kTop);
}

void TwoQueue::link(Frame frame, Place place) {
  Entry& it = entries_[frame];
  OCM_DASSERT(it.list != kNone && it.pins == 0 && it.up == kNoFrame && it.down == kNoFrame);  // Q1
  Ends& ends = lists_[it.list];
  it.up = place == Place::kTop ? kNoFrame : ends.bottom;
  it.down = place == Place::kTop ? ends.top : kNoFrame;
  (it.up != kNoFrame ? entries_[it.up].down : ends.top) = frame;
  (it.down != kNoFrame ? entries_[it.down].up : ends.bottom) = frame;
  ++ends.size;
}

void TwoQueue::unlink(Frame frame) {
  Entry& it = entries_[frame];
  OCM_DASSERT(it.list != kNone && lists_[it.list].size > 0);
  Ends& ends = lists_[it.list];
  (it.up != kNoFrame ? entries_[it.up].down : ends.top) = it.down;
  (it.down != kNoFrame ? entries_[it.down].up : ends.bottom) = it.up;
  it.up = it.down = kNoFrame;
  --ends.size;
}

bool TwoQueue::is_valid() const {
  std::vector<bool> met(entries_.size(), false);
  for (const List list : {kLru, kFifo}) {
    uint32_t count = 0;
    Frame above = kNoFrame;
    for (Frame at = lists_[list].top; at != kNoFrame; at = entries_[at].down) {
      const Entry& it = entries_[at];
      if (met[at] || it.list != list || it.pins != 0 || it.up != above) return false;
      met[at] = true;
      above = at;
      ++count;
    }
    if (above != lists_[list].bottom || count != lists_[list].size) return false;
  }
  return std::all_of(entries_.begin(), entries_.end(), [&, at = Frame{0}](const Entry& it) mutable {
    return met[at++] == (it.list != kNone && it.pins == 0);  // Q1
  });
}

}  // namespace ocm::cache
