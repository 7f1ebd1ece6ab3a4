// Sessions of programs: who takes one up again after their daemon's restart, and what their pages can make it count.
#include "node/sessions.h"

#include <gtest/gtest.h>

#include <array>

#include "sessions_fixture.h"
#include "users.h"

namespace ocm::node {
namespace {

using test::kAlice;
using test::kBob;

struct SessionRun : SessionsRun {
  using SessionsRun::SessionsRun;
  Sessions::Opened open(uint32_t uid = kAlice) {
    auto opened = sessions.open(hello(), uid, 1);
    EXPECT_TRUE(opened.is_ok()) << opened.status().to_string();
    return std::move(opened).value();
  }
  Status take_up(const SessionId& id, const std::string& key, uint32_t uid = kAlice) {
    return sessions.open(hello(id, key), uid, 1).status();
  }
};

TEST(Sessions, HaveTheirUserInTheirId) {
  SessionRun run;
  for (const uint32_t uid : {0u, kAlice, kBob}) {
    const auto session = run.open(uid).session;
    EXPECT_EQ(uid_of(session->id), uid);
    EXPECT_EQ(session->uid, uid);
  }
}

TEST(Sessions, AreTakenUpWithTheirOwnKeyOnly) {
  SessionRun before, after, elsewhere("another token");
  const SessionId session = before.open().session->id, other = before.open().session->id;
  const std::string key = before.sessions.resume_key(session);
  for (const std::string& wrong :
       {std::string(), std::string(key.size(), '\0'), key.substr(1), key + "x",
        before.sessions.resume_key(other), elsewhere.sessions.resume_key(session)}) {
    const Status refused = after.take_up(session, wrong);
    EXPECT_EQ(refused.code(), Code::kAuth);
    EXPECT_EQ(refused.message(), "wrong resume key");
  }
  EXPECT_TRUE(after.sessions.all().empty());
  EXPECT_TRUE(after.take_up(session, key).is_ok());
}

TEST(Sessions, AreTakenUpByTheirOwnUserOnly) {
  SessionRun before, after;
  const SessionId session = before.open(kAlice).session->id;
  const std::string key = before.sessions.resume_key(session);
  for (const uint32_t uid : {kBob, 0u}) {
    const Status refused = after.take_up(session, key, uid);
    EXPECT_EQ(refused.code(), Code::kAuth) << uid;
    EXPECT_NE(refused.message().find("the session is of uid 61001"), std::string::npos)
        << refused.to_string();
  }
  EXPECT_TRUE(after.sessions.all().empty());
  EXPECT_TRUE(after.take_up(session, key, kAlice).is_ok());
  EXPECT_EQ(after.sessions.all().at(session)->uid, kAlice);
}

TEST(Sessions, CountWhatTheirPagesSayByWhatAMachineCouldDo) {
  constexpr uint64_t kBytesPerNs = 1000, kOpsPerNs = 1;
  SessionRun run;
  const uint64_t began_ns = run.core.now_ns();
  const Sessions::Opened opened = run.open();
  auto mapped = os::Mapping::map(opened.page.get(), fabric::shm::kSessionPageBytes, true);
  ASSERT_TRUE(mapped.is_ok()) << mapped.status().to_string();
  auto* const page = reinterpret_cast<fabric::shm::SessionPage*>(mapped.value().data());
  const auto say = [&](uint64_t lie) {
    for (auto* const counter :
         {&page->put_bytes, &page->get_bytes, &page->put_ops, &page->get_ops, &page->atomic_ops})
      counter->store(lie);
  };
  const auto counted = [&] {
    const Moved moved = run.sessions.moved();
    return std::array{moved.put_bytes, moved.get_bytes, moved.put_ops, moved.get_ops, moved.atomic_ops};
  };
  auto before = counted();
  say(100);
  const auto honest = counted();
  for (const uint64_t lie : {uint64_t{1} << 62, uint64_t{0}, ~uint64_t{0}, uint64_t{1} << 63}) {
    say(lie);
    const auto now = counted();
    const uint64_t passed_ns = run.core.now_ns() - began_ns;
    for (size_t i = 0; i < now.size(); ++i) {
      EXPECT_GE(now[i], before[i]) << "counter " << i << " falls at " << lie;
      EXPECT_LE(now[i], passed_ns * (i < 2 ? kBytesPerNs : kOpsPerNs)) << "counter " << i << " at " << lie;
    }
    before = now;
  }
  for (const uint64_t count : honest) EXPECT_EQ(count, 100u) << "what may be true is counted";
}

}  // namespace
}  // namespace ocm::node
