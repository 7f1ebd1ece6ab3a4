// Sessions through the C interface: opening, statuses, fork.
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "embedded.h"

namespace {

using Session = Embedded;

TEST(Statuses, EveryNumberHasANameAndASentence) {
  for (int status = 0; status > -100; --status) {
    ASSERT_NE(ocm_status_name(status), nullptr);
    ASSERT_STRNE(ocm_strerror(status), "");
  }
  EXPECT_STREQ(ocm_status_name(OCM_POOL_FULL), "POOL_FULL");
  EXPECT_STREQ(ocm_status_name(12345), "UNKNOWN");
  EXPECT_STREQ(ocm_version(), "0.1.0");
}

TEST(Opening, WithoutADaemonSaysSo) {
  ocm_session_options options = OCM_SESSION_OPTIONS_INIT;
  options.socket_path = "/nonexistent/oncillad.sock";
  ocm_session* session = nullptr;
  EXPECT_EQ(ocm_session_open(&options, &session), OCM_NO_DAEMON);
  EXPECT_NE(std::string(ocm_last_error()).find("/nonexistent/oncillad.sock"), std::string::npos);
  EXPECT_EQ(session, nullptr);
}

TEST(Opening, FallsBackToAnEmbeddedNode) {
  ocm_session_options options = OCM_SESSION_OPTIONS_INIT;
  options.socket_path = "/nonexistent/oncillad.sock";
  options.flags = OCM_SESSION_EMBEDDED_FALLBACK;
  ocm_session* session = nullptr;
  ASSERT_OK(ocm_session_open(&options, &session));
  EXPECT_OK(ocm_session_close(session));
}

TEST(Opening, BadOptionsAreInvalid) {
  ocm_session* session = nullptr;
  ocm_session_options options = OCM_SESSION_OPTIONS_INIT;
  options.size = 0;
  EXPECT_EQ(ocm_session_open(&options, &session), OCM_INVALID_ARGUMENT);
  options = OCM_SESSION_OPTIONS_INIT;
  options.flags = 1u << 20;
  EXPECT_EQ(ocm_session_open(&options, &session), OCM_INVALID_ARGUMENT);
  options = OCM_SESSION_OPTIONS_INIT;
  options.fabric = static_cast<ocm_fabric>(77);
  EXPECT_EQ(ocm_session_open(&options, &session), OCM_INVALID_ARGUMENT);
  const std::string long_path(300, 'x');
  options = OCM_SESSION_OPTIONS_INIT;
  options.socket_path = long_path.c_str();
  EXPECT_EQ(ocm_session_open(&options, &session), OCM_INVALID_ARGUMENT);
}

/// In a child process: a program whose limit leaves it `free` descriptors opens a session. The child's status.
int open_with_free_descriptors(const char* path, int free) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int lowest = ::dup(0);
    ::close(lowest);
    const rlimit limit{static_cast<rlim_t>(lowest + free), static_cast<rlim_t>(lowest + free)};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    ocm_session_options options = OCM_SESSION_OPTIONS_INIT;
    options.socket_path = path;
    options.deadline_ns = 1'000'000;
    ocm_session* session = nullptr;
    ::_exit(-ocm_session_open(&options, &session));
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(Opening, WithoutFreeDescriptorsSaysSo) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers themselves open /proc/self/maps";
#endif
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/ocm-descriptors-%d", ::getpid());
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener, 8), 0);  // connects, and answers nothing
  for (const int free : {0, 1, 2}) {
    const int status = open_with_free_descriptors(address.sun_path, free);
    ASSERT_TRUE(WIFEXITED(status)) << free << " free: signal " << WTERMSIG(status);
    EXPECT_EQ(-WEXITSTATUS(status), free < 2 ? OCM_NO_FDS : OCM_DEADLINE) << free << " free";
  }
  ::close(listener);
  ::unlink(address.sun_path);
}

TEST(Opening, AnyNameOfTheProgramIsGood) {
  for (const char* program : {"\xff", "caf\xc3\xa9 \xe2\x82", "\xed\xb3\xbf", "\xf0\x9f\x98\x80\x80"}) {
    ocm_session_options options = OCM_SESSION_OPTIONS_INIT;
    options.flags = OCM_SESSION_EMBEDDED;
    options.program = program;
    ocm_session* session = nullptr;
    ASSERT_OK(ocm_session_open(&options, &session));
    EXPECT_OK(ocm_session_close(session));
  }
}

TEST_F(Session, WhatIsNotUtf8IsInvalidAndEndsNothing) {
  ocm_allocation* kept = allocate(kMiB, OCM_ALLOCATION_DEDICATED);
  ASSERT_OK(ocm_put(kept, 0, "kept", 4));
  const auto visit = [](const ocm_name_info*, void*) { return true; };
  for (const char* text : {"\xff", "n\xc3", "\xed\xb3\xbf"}) {
    ocm_allocation_options options = OCM_ALLOCATION_OPTIONS_INIT;
    options.nodes = &text;
    options.nodes_count = 1;
    ocm_allocation* none = nullptr;
    EXPECT_EQ(ocm_allocation_create(session, kMiB, &options, &none), OCM_INVALID_ARGUMENT);
    EXPECT_NE(std::string(ocm_last_error()).find("nodes"), std::string::npos) << ocm_last_error();
    EXPECT_EQ(ocm_name_list(session, text, visit, nullptr), OCM_INVALID_ARGUMENT);
    EXPECT_NE(std::string(ocm_last_error()).find("prefix"), std::string::npos) << ocm_last_error();
    EXPECT_EQ(ocm_allocation_publish(kept, text, 0), OCM_INVALID_ARGUMENT);
    EXPECT_EQ(ocm_allocation_attach(session, text, OCM_ACCESS_READ, &none), OCM_INVALID_ARGUMENT);
    EXPECT_EQ(ocm_name_remove(session, text), OCM_INVALID_ARGUMENT);
  }
  ASSERT_OK(ocm_allocation_publish(kept, "kept", 0));  // the daemon still has it
  char text[4];
  ASSERT_OK(ocm_get(kept, 0, text, 4));
  EXPECT_EQ(std::memcmp(text, "kept", 4), 0);
  EXPECT_OK(ocm_allocation_free(kept));
  EXPECT_OK(ocm_name_remove(session, "kept"));
}

TEST_F(Session, CallsWhoKeepsSomethingWithItBeforeItEnds) {
  struct Seen {
    std::vector<int> order;
    ocm_session* other = nullptr;
    ocm_allocation* kept = nullptr;
    int status_of_kept = 1, status_of_session = 1;
  } seen;
  ocm_session_options options = OCM_SESSION_OPTIONS_INIT;
  options.flags = OCM_SESSION_EMBEDDED;
  ocm_session* opened = nullptr;
  ASSERT_OK(ocm_session_open(&options, &opened));
  seen.other = opened;
  ASSERT_OK(ocm_allocation_create(opened, kMiB, nullptr, &seen.kept));
  ASSERT_OK(ocm_session_on_close(
      opened, [](void* context) { static_cast<Seen*>(context)->order.push_back(1); }, &seen));
  ASSERT_OK(ocm_session_on_close(
      opened,
      [](void* context) {
        auto& at = *static_cast<Seen*>(context);
        at.order.push_back(2);
        at.status_of_kept = ocm_put(at.kept, 0, "x", 1);
        at.status_of_session = ocm_session_on_close(
            at.other, [](void*) {}, nullptr);
      },
      &seen));
  EXPECT_OK(ocm_session_close(opened));
  EXPECT_EQ(seen.order, (std::vector<int>{2, 1}));
  EXPECT_EQ(seen.status_of_kept, OCM_OK);
  EXPECT_EQ(seen.status_of_session, OCM_REVOKED);
  EXPECT_EQ(ocm_session_on_close(
                opened, [](void*) {}, nullptr),
            OCM_REVOKED);
  EXPECT_EQ(ocm_session_on_close(
                nullptr, [](void*) {}, nullptr),
            OCM_INVALID_ARGUMENT);
  EXPECT_EQ(ocm_session_on_close(session, nullptr, nullptr), OCM_INVALID_ARGUMENT);
}

TEST_F(Session, ForkedChildHasNoHandles) {
  ocm_allocation* allocation = allocate(kMiB);
  ASSERT_OK(ocm_put(allocation, 0, "parent", 6));
  const pid_t child = ::fork();
  if (child == 0) {
    char text[6];
    const bool refused = ocm_get(allocation, 0, text, 6) == OCM_INVALID_ARGUMENT &&
                         ocm_allocation_free(allocation) == OCM_INVALID_ARGUMENT &&
                         ocm_session_close(session) == OCM_INVALID_ARGUMENT;
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  char text[6];
  ASSERT_OK(ocm_get(allocation, 0, text, 6));
  EXPECT_EQ(std::memcmp(text, "parent", 6), 0);
  EXPECT_OK(ocm_allocation_free(allocation));
}

}  // namespace
