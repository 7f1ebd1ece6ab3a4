#include "cache/replacement/streams.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"

namespace ocm::cache {

Streams::Streams(uint64_t page_bytes, uint64_t pages)
    : pages_(pages), most_(std::max(kFirstPages, kWindowBytes / page_bytes)) {
  OCM_DASSERT(std::has_single_bit(page_bytes));
}

Streams::Run Streams::used(uint64_t page, bool missed, uint64_t room) {
  OCM_ASSERT(page < pages_);
  Stream* const at = reader_of(page);
  if (at == nullptr) {
    if (missed) note_miss(page);  // else it was brought for a reader whose stream is another one's by now
    return {};
  }
  at->used = ++uses_;
  if (at->window == 0) at->window = kFirstPages;
  at->next = page + 1;
  at->end = std::max(at->end, at->next);
  const uint64_t ahead = at->end - at->next;
  if (ahead > at->window / 2) return {};
  const Run run{at->end, std::min({at->window - ahead, pages_ - at->end, room})};
  at->end += run.count;
  OCM_DASSERT(at->end - at->next <= at->window);  // S2
  if (run.count != 0) at->window = std::min(2 * at->window, most_);
  OCM_DASSERT(is_valid());
  return run;
}

void Streams::dropped_unused(uint64_t page) {
  for (Stream& one : streams_) {
    if (page < one.next || page >= one.end) continue;
    one.window = std::max(one.window / 2, kFirstPages);
    one.end = page;
  }
  OCM_DASSERT(is_valid());
}

Streams::Stream* Streams::reader_of(uint64_t page) {
  Stream* found = nullptr;
  for (Stream& one : streams_) {
    if (one.used == 0) continue;
    if (page == one.next) return &one;
    if (page > one.next && page < one.end) found = &one;
  }
  return found;
}

void Streams::note_miss(uint64_t page) {
  const auto same = std::find_if(streams_.begin(), streams_.end(),
                                 [page](const Stream& one) { return one.next == page + 1; });
  Stream& at = same != streams_.end() ? *same : oldest();
  if (same == streams_.end()) at = {page + 1, page + 1, 0, 0};
  at.used = ++uses_;
}

Streams::Stream& Streams::oldest() {
  const auto is_candidate = [](const Stream& one) { return one.window == 0; };
  const bool candidates = std::count_if(streams_.begin(), streams_.end(), is_candidate) >= kCandidates;
  return *std::min_element(streams_.begin(), streams_.end(), [&](const Stream& a, const Stream& b) {
    if (candidates && is_candidate(a) != is_candidate(b)) return is_candidate(a);
    return a.used < b.used;
  });
}

bool Streams::is_valid() const {
  return std::all_of(streams_.begin(), streams_.end(), [this](const Stream& one) {
    return one.next <= one.end && one.end <= pages_ && one.end - one.next <= most_ &&
           (one.window == 0 ? one.next == one.end : one.window >= kFirstPages && one.window <= most_);
  });
}

}  // namespace ocm::cache
