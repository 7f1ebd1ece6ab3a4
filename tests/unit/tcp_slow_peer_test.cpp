// fabric/tcp: peers that stand still in the middle of an operation, and peers that are gone.
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <thread>

#include "tcp_fixture.h"

namespace ocm::fabric::tcp {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kExtentBytes = uint64_t{24} << 20;

class TcpSlowPeerTest : public TcpTest {
 protected:
  void serve(uint64_t release_ns, uint64_t vanished_ns) {
    start({.release_ns = release_ns, .vanished_ns = vanished_ns});
    extent = directory.add(kExtentBytes);
    channel = connect();
    ASSERT_NE(channel, nullptr);
    auto attached = channel->attach(describe(*extent), Access::kReadWrite, soon());
    ASSERT_TRUE(attached.is_ok());
    index = *attached;
  }
  /// Posts `op` and makes no progress, until the home can move no byte more of it.
  void stand_in(OpCode opcode) {
    set(op, opcode, index, 0, buffer.data(), buffer.size());
    channel->post(op);
    channel->flush();
    const int fd = channel->poll_on().fd;
    int last = -1;
    for (int same = 0; same < 10;) {
      ::poll(nullptr, 0, 10);
      int waiting = 0;
      ASSERT_EQ(::ioctl(fd, opcode == OpCode::kGet ? FIONREAD : TIOCOUTQ, &waiting), 0);
      same = waiting == last && (waiting > 0 || opcode == OpCode::kPut) ? same + 1 : 0;
      last = waiting;
    }
  }
  /// From now on the peer's kernel hears nothing of this connection: as if its machine had gone.
  void vanish() {
    sock_filter drop_all{BPF_RET | BPF_K, 0, 0, 0};
    const sock_fprog program{1, &drop_all};
    ASSERT_EQ(::setsockopt(channel->poll_on().fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)),
              0);
  }
  template <class Condition>
  static bool soon_true(Condition condition) {
    const os::Deadline deadline = soon(10);
    while (!condition() && !deadline.passed()) ::poll(nullptr, 0, 5);
    return condition();
  }

  std::shared_ptr<BufferExtent> extent;
  std::unique_ptr<Channel> channel;
  uint32_t index = 0;
  std::vector<std::byte> buffer = pattern(kExtentBytes, 3);
  Op op;
};

TEST_F(TcpSlowPeerTest, AGetWaitsWhileItsProgramComputes) {
  serve(20 * kMs, 100 * kMs);
  const auto bytes = pattern(kExtentBytes, 8);
  std::copy(bytes.begin(), bytes.end(), extent->data);
  stand_in(OpCode::kGet);
  std::this_thread::sleep_for(std::chrono::milliseconds(800));  // the program computes
  EXPECT_EQ(wait(*channel, op), Code::kOk);
  EXPECT_TRUE(buffer == bytes);
  // It would end a connection whose peer computes for longer than that (both ends are tuned alike).
  int timeout_ms = -1;
  socklen_t length = sizeof(timeout_ms);
  EXPECT_EQ(::getsockopt(channel->poll_on().fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, &length), 0);
  EXPECT_EQ(timeout_ms, 0);
}

TEST_F(TcpSlowPeerTest, APeerThatVanishesWhileItDoesNotReadIsNoticed) {
  serve(20 * kMs, 100 * kMs);
  stand_in(OpCode::kGet);
  vanish();
  EXPECT_TRUE(soon_true([&] { return stats.connections.load() == 0; }));
  EXPECT_EQ(wait(*channel, op, 50 * kMs), Code::kPeerLost);
}

TEST_F(TcpSlowPeerTest, APeerThatVanishesBeforeItsReplyIsNoticed) {
  serve(20 * kMs, 100 * kMs);
  vanish();
  set(op, OpCode::kGet, index, 0, buffer.data(), 64);
  channel->post(op);
  channel->flush();
  EXPECT_TRUE(soon_true([&] { return stats.connections.load() == 0; }));
  EXPECT_EQ(wait(*channel, op, 50 * kMs), Code::kPeerLost);
}

/// It begins calls and ends them when told to.
class StoppedDevice final : public Staged {
 public:
  void read(uint64_t, std::span<std::byte>, Done done) override { keep(std::move(done)); }
  void write(uint64_t, std::span<const std::byte>, Done done) override { keep(std::move(done)); }
  void modify(uint64_t, std::function<void(std::byte*)>, Done done) override { keep(std::move(done)); }
  size_t waiting() {
    const std::lock_guard lock(mutex_);
    return calls_.size();
  }
  void end_all() {
    const std::lock_guard lock(mutex_);
    for (const Done& done : calls_) done({});
    calls_.clear();
  }

 private:
  void keep(Done done) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(done));
  }
  std::mutex mutex_;
  std::vector<Done> calls_;
};

TEST_F(TcpSlowPeerTest, APeerThatIsResetWhileItWaitsForADeviceIsNoticed) {
  serve(20 * kMs, 20 * kSecondNs);
  StoppedDevice device;
  const auto on_device = directory.add(kExtentBytes);
  on_device->data = nullptr;
  on_device->staged = &device;
  auto attached = channel->attach(describe(*on_device), Access::kReadWrite, soon());
  ASSERT_TRUE(attached.is_ok());
  set(op, OpCode::kGet, *attached, 0, buffer.data(), kExtentBytes);  // more than are under way at once
  channel->post(op);
  channel->flush();
  ASSERT_TRUE(soon_true([&] { return device.waiting() != 0; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the home sleeps
  const linger reset{1, 0};
  ASSERT_EQ(::setsockopt(channel->poll_on().fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
  channel.reset();
  EXPECT_TRUE(soon_true([&] { return stats.connections.load() == 0; }));
  device.end_all();
}

TEST_F(TcpSlowPeerTest, AGetUnderWayDoesNotKeepRemovedMemory) {
  serve(20 * kMs, 20 * kSecondNs);
  stand_in(OpCode::kGet);
  const auto removed = directory.revoke(std::move(extent));
  EXPECT_TRUE(soon_true([&] { return removed.expired(); }));
  EXPECT_EQ(wait(*channel, op), Code::kPeerLost);
}

TEST_F(TcpSlowPeerTest, APutUnderWayDoesNotKeepRemovedMemory) {
  serve(20 * kMs, 20 * kSecondNs);
  const auto other = directory.add(4096);
  stand_in(OpCode::kPut);
  const auto removed = directory.revoke(std::move(extent));
  EXPECT_TRUE(soon_true([&] { return removed.expired(); }));
  // The rest of it is drained, and the connection goes on.
  EXPECT_EQ(wait(*channel, op), Code::kRevoked);
  auto attached = channel->attach(describe(*other), Access::kReadWrite, soon());
  ASSERT_TRUE(attached.is_ok());
  EXPECT_EQ(put(*channel, *attached, 0, buffer.data(), 4096), Code::kOk);
}

TEST_F(TcpSlowPeerTest, AGetThatIsTakenInTimeIsNotEndedByTheRemoval) {
  serve(5 * kSecondNs, 20 * kSecondNs);
  stand_in(OpCode::kGet);
  const auto removed = directory.revoke(std::move(extent));
  // What was asked for when it was removed comes or is refused, and the connection goes on.
  const Code code = wait(*channel, op);
  EXPECT_TRUE(code == Code::kOk || code == Code::kRevoked) << code_name(code);
  EXPECT_TRUE(channel->health().is_ok());
  EXPECT_TRUE(soon_true([&] { return removed.expired(); }));
}

}  // namespace
}  // namespace ocm::fabric::tcp
