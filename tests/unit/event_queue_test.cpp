// control/event_queue.h: what is given until it was received, and what takes the place of what.
#include "control/event_queue.h"

#include <gtest/gtest.h>

namespace ocm::control {
namespace {

AllocationId allocation(uint8_t number) {
  AllocationId out;
  out.bytes[0] = std::byte{number};
  return out;
}
Event revoked(uint8_t number) {
  return {.kind = EventKind::kRevoked, .allocation = allocation(number), .node = "n1"};
}
Event of_node(EventKind kind, const char* name) { return {.kind = kind, .node = name}; }

TEST(EventQueue, GivesAgainWhatWasNotReceived) {
  EventQueue queue;
  queue.put(revoked(1));
  queue.put(revoked(2));
  ASSERT_EQ(queue.first(9).size(), 2u);
  ASSERT_EQ(queue.first(1).size(), 1u);
  queue.received(queue.first(1)[0].number);
  ASSERT_EQ(queue.first(9).size(), 1u);
  EXPECT_EQ(queue.first(9)[0].allocation, allocation(2));
  queue.received(~uint64_t{0});
  EXPECT_TRUE(queue.empty() && queue.is_valid());
}

TEST(EventQueue, HasTheNewestOfEachSubjectOnly) {
  EventQueue queue;
  for (int i = 0; i < 1000; ++i) {
    queue.put(of_node(EventKind::kNodeSuspect, "n1"));
    queue.put(of_node(EventKind::kNodeAlive, "n1"));
    queue.put(revoked(static_cast<uint8_t>(1 + i % 3)));
  }
  EXPECT_EQ(queue.size(), 4u) << "U2";
  uint64_t last = 0;
  for (const Event& event : queue.first(9)) {
    EXPECT_GT(event.number, last) << "U1";
    last = event.number;
    if (event.node == "n1" && event.allocation == AllocationId()) {
      EXPECT_EQ(event.kind, EventKind::kNodeAlive);
    }
  }
  EXPECT_TRUE(queue.is_valid());
}

TEST(EventQueue, SaysNothingOfWhatItsProgramGaveBack) {
  EventQueue queue;
  queue.put(revoked(1));
  queue.forget(allocation(1));
  queue.forget(allocation(2));
  EXPECT_TRUE(queue.empty() && queue.is_valid());
}

}  // namespace
}  // namespace ocm::control
