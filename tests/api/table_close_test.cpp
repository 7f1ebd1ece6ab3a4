// A scan's `released` callback may close the session, whichever thread lets go last.
#include <dirent.h>
#include <unistd.h>

#include <algorithm>

#include "arrow_builder.h"
#include "embedded.h"

namespace {

using namespace arrow_builder;

class TableClose : public Embedded {};

/// Entries of a folder of /proc/self.
int count(const char* folder) {
  DIR* directory = ::opendir(folder);
  int entries = 0;
  while (directory != nullptr && ::readdir(directory) != nullptr) ++entries;
  if (directory != nullptr) ::closedir(directory);
  return entries;
}

/// One scan over the fabric, by a session that ends with it.
void scan_and_close(ocm_session* session) {
  ocm_table* table = nullptr;
  ASSERT_OK(ocm_table_open(session, "t", &table));
  ocm_scan_options options = OCM_SCAN_OPTIONS_INIT;
  options.flags = OCM_SCAN_MOVE;
  options.released = [](void* context) { EXPECT_OK(ocm_session_close(static_cast<ocm_session*>(context))); };
  options.context = session;
  ArrowArrayStream stream;
  ASSERT_OK(ocm_table_scan(table, &options, &stream));
  ASSERT_OK(ocm_table_close(table));
  while (true) {
    ArrowArray array;
    ASSERT_EQ(stream.get_next(&stream, &array), 0) << stream.get_last_error(&stream);
    if (array.release == nullptr) break;
    array.release(&array);
  }
  stream.release(&stream);
}

TEST_F(TableClose, TheLastReleaseMayCloseTheSession) {
  constexpr int kSessions = 50;
  const int threads_before = count("/proc/self/task"), descriptors_before = count("/proc/self/fd");
  ASSERT_OK(ocm_session_close(session));
  for (int i = 0; i < kSessions; ++i) {
    SetUp();
    ocm_table_options options = OCM_TABLE_OPTIONS_INIT;
    options.group_rows = 100;
    ArrowArrayStream source;
    export_stream({record({{"l", "a"}}), {rows({values(std::vector<int64_t>(300, i))})}}, &source);
    ASSERT_OK(ocm_table_create(session, "t", &source, &options));
    scan_and_close(session);
  }
  session = nullptr;
  // Where the thread that read ahead was the last, its end is a moment later.
  constexpr int kTriesMax = 1000;
  const auto are_back = [&] {
    return count("/proc/self/task") <= threads_before && count("/proc/self/fd") <= descriptors_before;
  };
  for (int tried = 0; tried < kTriesMax && !are_back(); ++tried) ::usleep(10'000);
  EXPECT_LE(count("/proc/self/task"), threads_before);
  EXPECT_LE(count("/proc/self/fd"), descriptors_before);
}

}  // namespace
