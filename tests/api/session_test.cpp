// Sessions through the C interface: opening, statuses, fork.
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
