// node/copy_queue: whose turn it is, and how much may wait.
#include "node/copy_queue.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace ocm::node {
namespace {

CopyJob job(uint32_t uid, int session, uint64_t bytes) {
  CopyJob out;
  out.uid = uid;
  out.session.bytes[0] = static_cast<std::byte>(session);
  out.bytes = bytes;
  return out;
}

/// The jobs' bytes in the order that they are taken in.
std::string order(CopyQueue& queue) {
  std::string out;
  while (!queue.empty()) {
    EXPECT_TRUE(queue.is_valid());
    out += std::to_string(queue.pop().bytes) + " ";
  }
  EXPECT_TRUE(queue.is_valid());
  return out;
}

TEST(CopyQueue, UsersTakeTurns) {
  CopyQueue queue;
  for (uint64_t bytes : {1, 2, 3}) ASSERT_TRUE(queue.push(job(7, 1, bytes)).is_ok());
  ASSERT_TRUE(queue.push(job(8, 1, 10)).is_ok());
  EXPECT_EQ(order(queue), "1 10 2 3 ");
}

TEST(CopyQueue, SessionsOfAUserTakeTurns) {
  CopyQueue queue;
  for (uint64_t bytes : {1, 2, 3}) ASSERT_TRUE(queue.push(job(7, 1, bytes)).is_ok());
  ASSERT_TRUE(queue.push(job(7, 2, 10)).is_ok());
  ASSERT_TRUE(queue.push(job(8, 3, 20)).is_ok());
  EXPECT_EQ(order(queue), "1 20 10 2 3 ");
}

TEST(CopyQueue, TheRestOfAJobIsTheNextOfItsSession) {
  CopyQueue queue;
  for (uint64_t bytes : {1, 2}) ASSERT_TRUE(queue.push(job(7, 1, bytes)).is_ok());
  ASSERT_TRUE(queue.push(job(8, 1, 10)).is_ok());
  queue.push_rest(queue.pop());
  EXPECT_EQ(order(queue), "10 1 2 ");
}

TEST(CopyQueue, OneUserNeverFillsItNorDoesRoot) {
  for (const uint32_t uid : {7u, 0u, static_cast<uint32_t>(::geteuid())}) {
    CopyQueue queue;
    for (size_t i = 0; i < CopyQueue::kUserMax; ++i) {
      ASSERT_TRUE(queue.push(job(uid, static_cast<int>(i % 5), 1)).is_ok());
    }
    EXPECT_EQ(queue.push(job(uid, 9, 1)).code(), Code::kQueueFull) << uid;
    EXPECT_TRUE(queue.push(job(uid + 1, 1, 1)).is_ok());
    (void)queue.pop();
    EXPECT_TRUE(queue.push(job(uid, 9, 1)).is_ok());
    EXPECT_TRUE(queue.is_valid());
  }
}

}  // namespace
}  // namespace ocm::node
