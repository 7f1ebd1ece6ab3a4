// A session with a node inside the test's process, one for each test.
#pragma once

#include <gtest/gtest.h>
#include <oncilla/oncilla.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#define EXPECT_OK(call) EXPECT_EQ((call), OCM_OK) << ocm_last_error()
#define ASSERT_OK(call) ASSERT_EQ((call), OCM_OK) << ocm_last_error()

class Embedded : public testing::Test {
 protected:
  static constexpr uint64_t kMiB = uint64_t{1} << 20;

  void SetUp() override {
    ocm_session_options options = OCM_SESSION_OPTIONS_INIT;
    options.flags = OCM_SESSION_EMBEDDED;
    options.embedded_bytes = 256 * kMiB;
    ASSERT_OK(ocm_session_open(&options, &session));
  }
  void TearDown() override {
    if (session != nullptr) {
      EXPECT_OK(ocm_session_close(session));
    }
  }

  ocm_allocation* allocate(uint64_t bytes, uint32_t flags = 0) {
    ocm_allocation_options options = OCM_ALLOCATION_OPTIONS_INIT;
    options.flags = flags;
    ocm_allocation* allocation = nullptr;
    EXPECT_OK(ocm_allocation_create(session, bytes, &options, &allocation));
    return allocation;
  }
  static std::vector<uint8_t> numbers(size_t bytes, uint8_t first = 1) {
    std::vector<uint8_t> all(bytes);
    for (size_t i = 0; i < bytes; ++i) all[i] = static_cast<uint8_t>(first + i * 7 + i / 251);
    return all;
  }

  ocm_session* session = nullptr;
};
