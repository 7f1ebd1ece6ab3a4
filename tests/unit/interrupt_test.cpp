// os/interrupt.h: what ends the waits of a program's thread before their deadlines, wherever it sleeps.
#include "os/interrupt.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/allocation.h"
#include "client/atomics.h"
#include "client/control.h"
#include "client/session.h"
#include "client/transfer.h"
#include "scripted_daemon.h"

namespace ocm::client {
namespace {

using test::ScriptedDaemon;

constexpr uint64_t kHourNs = 3600'000'000'000;
constexpr uint64_t kSecondNs = 1'000'000'000;

struct Interrupt : testing::Test {
  void SetUp() override {
    os::interrupt_context.store(this);
    os::interrupt_check.store([](int may_call, void* self) {
      auto* const test = static_cast<Interrupt*>(self);
      ++(may_call != 0 ? test->asked : test->asked_with_locks);
      return os::now_ns() >= test->from_ns ? 1 : 0;
    });
  }
  void TearDown() override {
    os::interrupt_check.store(nullptr);
    if (allocation.session() != nullptr) (void)allocation.free();
    session.reset();
  }
  void open(wire::Allocation granted) {
    daemon.allocation = std::move(granted);
    daemon.allocation.set_receipt("a receipt");
    SessionOptions options;
    options.dial = [this]() -> Result<os::Fd> { return daemon.dial(); };
    options.program = "test";
    options.deadline_ns = kHourNs;
    auto opened = Session::open(options);
    ASSERT_TRUE(opened.is_ok()) << opened.status().to_string();
    session = std::move(*opened);
    AllocationOptions wanted;
    wanted.flags = kDedicated;
    ASSERT_TRUE(allocation.create(*session, ScriptedDaemon::kBytes, wanted).is_ok());
  }
  /// An extent of a home that takes connections and says nothing.
  wire::Allocation silent() {
    listener = os::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(at);
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&at), length), 0);
    EXPECT_EQ(::listen(listener.get(), 16), 0);
    EXPECT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &length), 0);
    wire::ExtentDescriptor extent = daemon.place(2, memory);
    extent.set_node("n2");
    auto& address = *extent.add_addresses();
    address.set_fabric(static_cast<uint32_t>(Fabric::kTcp));
    address.set_address("127.0.0.1:" + std::to_string(ntohs(at.sin_port)));
    return single(extent);
  }
  static wire::Allocation single(const wire::ExtentDescriptor& extent) {
    wire::Allocation out = ScriptedDaemon::replicated({extent});
    out.set_layout(static_cast<uint32_t>(Layout::kSingle));
    return out;
  }
  Status get(std::vector<std::byte>& target) {
    const client::Run run{End{nullptr, 0, target.data()}, End{&allocation, 0, nullptr}, target.size()};
    return transfer(*session, Runs::one(run), target.size());
  }
  /// From then on the waits are to end.
  void interrupt_in(uint64_t ns) { from_ns = os::now_ns() + ns; }
  static void expect_interrupted(const Status& status) {
    EXPECT_EQ(status.code(), Code::kDeadline) << status.to_string();
    EXPECT_NE(status.message().find("interrupted"), std::string_view::npos) << status.to_string();
  }

  std::atomic<uint64_t> from_ns{UINT64_MAX};
  std::atomic<int> asked{0}, asked_with_locks{0};
  std::atomic<bool> has_room{true};  // at the daemon, which is asked until it ends
  ScriptedDaemon daemon;
  ScriptedDaemon::Memory memory = daemon.make_memory();
  os::Fd listener;
  std::unique_ptr<Session> session;
  Allocation allocation;
};

TEST_F(Interrupt, EndsAWaitForTheDaemon) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  ControlConnection connection{os::Fd(ends[0])};
  const os::Fd silent_daemon(ends[1]);
  wire::Envelope request;
  request.mutable_stats();
  auto call = connection.start(request, os::Deadline::never());
  ASSERT_TRUE(call.is_ok());
  interrupt_in(100'000'000);
  expect_interrupted(connection.wait(**call, os::Deadline::after_ns(kHourNs)));
  EXPECT_TRUE(connection.awaits_late());
  EXPECT_GT(asked, 0);
  EXPECT_EQ(asked_with_locks, 0);
}

TEST_F(Interrupt, EndsAWaitForAWordOfThisHost) {
  open(single(daemon.place(1, memory)));
  interrupt_in(100'000'000);
  expect_interrupted(wait_at_least(allocation, 0, 1, os::Deadline::after_ns(kHourNs)).status());
  interrupt_in(kHourNs);
  asked = 0;
  EXPECT_EQ(wait_at_least(allocation, 0, 1, os::Deadline::after_ns(300'000'000)).status().code(),
            Code::kDeadline);
  EXPECT_LE(asked, 8) << "once in 50 ms";
}

TEST_F(Interrupt, EndsWhatWaitsForASilentHomeAndItsHandleIsAsBefore) {
  open(silent());
  std::vector<std::byte> bytes(64);
  for (int i = 0; i < 2; ++i) {
    interrupt_in(100'000'000);
    expect_interrupted(get(bytes));
    expect_interrupted(atomic(allocation, fabric::OpCode::kFetchAdd, 0, 1, 0).status());
    expect_interrupted(put_notify(allocation, 8, bytes.data(), bytes.size(), 0, 1));
    expect_interrupted(wait_at_least(allocation, 0, 1, os::Deadline::after_ns(kHourNs)).status());
  }
  EXPECT_GT(asked_with_locks, 0) << "who dials holds locks: the check must run nothing of the program's";
  EXPECT_EQ(allocation.busy().load(), 0u);
  EXPECT_EQ(allocation.gets().load(), 0u);
}

TEST_F(Interrupt, EndsAWaitForAnotherThreadThatDials) {
  open(silent());
  std::thread other([this] {
    const os::InterruptedBy later(
        [](int, void* self) { return static_cast<Interrupt*>(self)->asked_with_locks > 3 ? 1 : 0; }, this);
    std::vector<std::byte> bytes(64);
    expect_interrupted(get(bytes));
  });
  const timespec until_it_dials{0, 100'000'000};
  ::nanosleep(&until_it_dials, nullptr);
  std::vector<std::byte> bytes(64);
  interrupt_in(100'000'000);
  expect_interrupted(get(bytes));
  asked_with_locks = 100;
  other.join();
}

TEST_F(Interrupt, EndsNoWaitOfWhoMustNotBe) {
  open(single(daemon.place(1, memory)));
  from_ns = 0;
  asked = 0;
  const os::Uninterrupted here;
  const Status status = wait_at_least(allocation, 0, 1, os::Deadline::after_ns(100'000'000)).status();
  EXPECT_EQ(status.message().find("interrupted"), std::string_view::npos);
  EXPECT_EQ(asked, 0);
}

TEST_F(Interrupt, EndsACallWhileTheSessionIsTakenUpAgain) {
  has_room = false;
  daemon.on_restore = [this](int, const wire::SessionRestore&, wire::Envelope& reply) {
    if (!has_room) reply.set_code(static_cast<int32_t>(Code::kQueueFull));
  };
  open(single(daemon.place(1, memory)));
  daemon.restart();
  const timespec until_it_is_dialled{0, 200'000'000};
  ::nanosleep(&until_it_is_dialled, nullptr);
  interrupt_in(100'000'000);
  Allocation another;
  const uint64_t begin_ns = os::now_ns();
  EXPECT_FALSE(another.create(*session, ScriptedDaemon::kBytes, AllocationOptions{}).is_ok());
  EXPECT_LT(os::now_ns() - begin_ns, 20 * kSecondNs);
  has_room = true;
  interrupt_in(kHourNs);
  EXPECT_TRUE(session->daemon().is_ok());
}

TEST_F(Interrupt, EndsAWaitForALock) {
  std::timed_mutex mutex;
  std::unique_lock free(mutex, std::defer_lock);
  EXPECT_TRUE(os::lock_unless_interrupted(free));
  std::thread([&] {
    interrupt_in(100'000'000);
    std::unique_lock taken(mutex, std::defer_lock);
    EXPECT_FALSE(os::lock_unless_interrupted(taken));
    EXPECT_FALSE(taken.owns_lock());
  }).join();
}

}  // namespace
}  // namespace ocm::client
