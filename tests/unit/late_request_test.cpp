// Requests to a daemon that reads nothing for a while: what was begun goes on, and what comes of it too late goes back.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/control.h"
#include "control.pb.h"

namespace ocm::client {
namespace {

constexpr size_t kLong = 400'000;  // more than the socket takes

class LateRequest : public ::testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    const int few = 16'384;
    ::setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &few, sizeof(few));
    connection = std::make_unique<ControlConnection>(os::Fd(ends[0]));
    daemon = os::Fd(ends[1]);
  }
  static os::Deadline soon() { return os::Deadline::after_ns(30'000'000); }
  wire::Envelope read() {
    std::string header(wire::kControlHeaderBytes, '\0'), body;
    wire::Envelope out;
    take(header);
    body.resize(
        wire::control_length({reinterpret_cast<const std::byte*>(header.data()), header.size()}).value());
    take(body);
    EXPECT_TRUE(out.ParseFromString(body));
    return out;
  }
  /// A byte of the stream after the other: the client sends the rest as there is room.
  void take(std::string& out) {
    for (size_t at = 0; at < out.size();) {
      const ssize_t n = ::recv(daemon.get(), out.data() + at, out.size() - at, MSG_DONTWAIT);
      if (n > 0) at += static_cast<size_t>(n);
      wire::Envelope none;
      none.mutable_stats();
      if (n <= 0) (void)connection->start(none, soon());  // who asks next sends what was left
    }
  }
  static wire::Envelope request_of(size_t bytes) {
    wire::Envelope out;
    out.mutable_allocate()->add_nodes(std::string(bytes, 'x'));
    return out;
  }

  std::unique_ptr<ControlConnection> connection;
  os::Fd daemon;
};

TEST_F(LateRequest, WhatIsHalfSentGoesOnWithTheNextRequest) {
  wire::Envelope first = request_of(kLong);
  bool sent = false;
  EXPECT_EQ(connection->start(first, soon(), &sent).status().code(), Code::kDeadline);
  EXPECT_TRUE(sent);
  EXPECT_FALSE(connection->failed()) << "the session and all that it has would end";
  EXPECT_TRUE(connection->awaits_late());
  wire::Envelope second = request_of(kLong);  // nothing of it is sent: it is as if it had never been
  EXPECT_EQ(connection->start(second, soon(), &sent).status().code(), Code::kDeadline);
  EXPECT_FALSE(sent);
  const wire::Envelope came = read();
  EXPECT_EQ(came.allocate().nodes(0).size(), kLong);
  EXPECT_EQ(came.id(), first.id());
  EXPECT_TRUE(read().has_stats());
}

TEST_F(LateRequest, WhatAHalfSentRequestGotGoesBack) {
  wire::Envelope first = request_of(kLong);
  EXPECT_EQ(connection->start(first, soon()).status().code(), Code::kDeadline);
  const wire::Envelope came = read();
  wire::Envelope reply;
  reply.set_id(came.id());
  reply.set_reply(true);
  reply.mutable_allocation()->set_allocation_id(std::string(16, 'a'));
  std::string bytes;
  ASSERT_TRUE(wire::append_control(reply, bytes).is_ok());
  ASSERT_EQ(::send(daemon.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  connection->take_late();
  wire::Envelope freed = read();
  while (freed.has_stats()) freed = read();
  EXPECT_EQ(freed.free().allocation_id(), std::string(16, 'a'));
}

TEST_F(LateRequest, WhatTheDaemonHadNoRoomForIsGivenToWhoTellsItAgain) {
  std::vector<std::shared_ptr<wire::Envelope>> refused;
  connection->on_refused(
      [&](std::shared_ptr<wire::Envelope> request) { refused.push_back(std::move(request)); });
  const auto answer = [&](uint64_t id, Code code) {
    wire::Envelope reply;
    reply.set_id(id);
    reply.set_reply(true);
    reply.set_code(static_cast<int32_t>(code));
    if (code == Code::kOk) reply.mutable_allocation()->set_allocation_id(std::string(16, 'm'));
    std::string bytes;
    ASSERT_TRUE(wire::append_control(reply, bytes).is_ok());
    ASSERT_EQ(::send(daemon.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    connection->take_late();
  };
  wire::Envelope freed;
  freed.mutable_free()->set_allocation_id(std::string(16, 'f'));
  ASSERT_TRUE(connection->tell(freed));
  answer(read().id(), Code::kQueueFull);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0]->free().allocation_id(), std::string(16, 'f'));

  wire::Envelope complete;
  complete.mutable_session_restore()->set_complete(true);
  auto waited = connection->start(complete, soon());
  ASSERT_TRUE(waited.is_ok());
  EXPECT_EQ(connection->wait(**waited, soon()).code(), Code::kDeadline);
  answer(read().id(), Code::kQueueFull);
  ASSERT_EQ(refused.size(), 2u);
  EXPECT_TRUE(refused[1]->session_restore().complete());

  wire::Envelope allocate = request_of(1);  // its memory comes too late, and cannot be freed at once
  auto given_up = connection->start(allocate, soon());
  ASSERT_TRUE(given_up.is_ok());
  EXPECT_EQ(connection->wait(**given_up, soon()).code(), Code::kDeadline);
  answer(read().id(), Code::kOk);
  answer(read().id(), Code::kQueueFull);
  ASSERT_EQ(refused.size(), 3u);
  EXPECT_EQ(refused[2]->free().allocation_id(), std::string(16, 'm'));

  wire::Envelope done;
  done.mutable_free()->set_allocation_id(std::string(16, 'd'));
  ASSERT_TRUE(connection->tell(done));
  answer(read().id(), Code::kNotFound);
  EXPECT_EQ(refused.size(), 3u);
}

}  // namespace
}  // namespace ocm::client
