// Which page leaves a full page cache: two queues of frames (vGASNet, HPC Asia '18, 3.3), each step O(1). Pure: no clock, no
// lock, no I/O.
//
//   LRU    pages that this node's programs use, those brought in last on top
//   FIFO   pages that nobody else has and that were old in LRU, and those that another node aged into this one
//
// Rules
//   R1 what a local program brings in goes to the top of LRU.
//   R2 a frame is needed: LRU's bottom goes, unless its page is sole. A sole one ages: it goes to the top of FIFO, and the
//      next one is looked at.
//   R3 while FIFO has more than half of the frames, or LRU has none, it is FIFO's bottom that goes.
//   R4 a page in FIFO that a local program touches goes to the top of LRU (Refresh::kFifo: of FIFO); one that another node
//      fetches, to the top of FIFO. A touch in LRU: to its top.
//   R5 who asks unmaps what aged: the next touch faults, and that is how it is known.
//   R6 a sole page at FIFO's bottom is worth offering to a node with room, once: only a local touch makes it so again.
//
// Invariants
//   Q1 a frame is in one queue, or pinned and in none, or empty. A pinned one is passed over: it returns to the bottom of its
//      queue, or where it was sent to meanwhile.
//   Q2 a frame that goes stays where it is until it is pinned or removed.
#pragma once

#include <cstdint>
#include <vector>

namespace ocm::cache {

/// A frame's number at its node.
using Frame = uint32_t;
inline constexpr Frame kNoFrame = ~Frame{0};

enum class Refresh : uint8_t { kLru, kFifo };

class TwoQueue {
 public:
  /// `frames`: how many there are; their numbers are below that.
  explicit TwoQueue(uint32_t frames, Refresh refresh = Refresh::kLru);

  /// R1: an empty frame gets a page.
  void add(Frame frame);
  /// R6, at the other end: it gets one that another node aged into this one.
  void add_aged(Frame frame);
  /// It is empty again.
  void remove(Frame frame);

  /// R4. Not of an empty frame.
  void touch(Frame frame);
  void supply(Frame frame);
  /// Nobody else has its page, as far as is known. Not of an empty frame.
  void set_sole(Frame frame, bool sole) { entry(frame).sole = sole; }

  /// Q1: in a transient state, held, or being sent. As often as it is released.
  void pin(Frame frame);
  void unpin(Frame frame);

  struct Victim {
    Frame frame = kNoFrame;  // none: all are pinned, or empty
    bool offer = false;      // R6
  };
  /// R2, R3. `aged`: those that are to be unmapped (R5) are added. Cost: one step, and one for each that ages.
  Victim next(std::vector<Frame>& aged);

  /// R3's half is of so many. Frames above may have pages still, and new ones when there were ever so many.
  void resize(uint32_t frames);

  uint32_t lru_size() const { return lists_[kLru].size; }
  uint32_t fifo_size() const { return lists_[kFifo].size; }
  /// Cost: all frames.
  bool is_valid() const;

 private:
  enum List : uint8_t { kLru, kFifo, kNone };
  enum class Place : uint8_t { kBottom, kTop };  // where a pinned one returns

  struct Entry {
    Frame up = kNoFrame, down = kNoFrame;
    uint32_t pins = 0;
    List list = kNone;  // of a pinned one: where it returns
    Place returns = Place::kBottom;
    bool sole = false;
    bool offered = false;  // R6
  };
  struct Ends {
    Frame top = kNoFrame, bottom = kNoFrame;
    uint32_t size = 0;
  };

  Entry& entry(Frame frame);
  void put_in(Frame frame, List list, bool offered);
  void link(Frame frame, Place place);
  void unlink(Frame frame);
  /// To the top of `list`, at once or when it is unpinned.
  void move_to_top(Frame frame, List list);

  std::vector<Entry> entries_;
  Ends lists_[2];
  uint32_t frames_;
  Refresh refresh_;
};

}  // namespace ocm::cache
