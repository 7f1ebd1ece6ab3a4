/* Loads liboncilla, opens a session with a node of its own, unloads it, and does it again; then with a copy of the library,
 * which is another one for the loader, while the first is still there.
 *   loaded_twice LIBRARY */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <oncilla/oncilla.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static int use(const char* library, void** address) {
  ocm_session_options options = OCM_SESSION_OPTIONS_INIT;
  ocm_session* session = NULL;
  int (*open_session)(const ocm_session_options*, ocm_session**);
  int (*close_session)(ocm_session*);
  void* loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (loaded == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  *address = dlsym(loaded, "ocm_session_open");
  *(void**)&open_session = *address;
  *(void**)&close_session = dlsym(loaded, "ocm_session_close");
  options.flags = OCM_SESSION_EMBEDDED;
  options.embedded_bytes = (uint64_t)8 << 20;
  if (open_session(&options, &session) != OCM_OK || close_session(session) != OCM_OK) return 2;
  return dlclose(loaded) == 0 ? 0 : 3;
}

/* The path of a copy of the file in memory. */
static int copy(const char* library, char* path, size_t bytes) {
  const int from = open(library, O_RDONLY | O_CLOEXEC);
  const int to = memfd_create("copy", MFD_CLOEXEC);
  struct stat status;
  if (from < 0 || to < 0 || fstat(from, &status) != 0) return 5;
  for (off_t left = status.st_size; left > 0;) {
    const ssize_t sent = sendfile(to, from, NULL, (size_t)left);
    if (sent <= 0) return 6;
    left -= sent;
  }
  close(from);
  snprintf(path, bytes, "/proc/self/fd/%d", to);
  return 0;
}

int main(int count, char** arguments) {
  char other[64];
  void *first = NULL, *again = NULL, *second = NULL;
  int failed = count == 2 ? use(arguments[1], &first) : 4;
  if (failed == 0) failed = use(arguments[1], &again);
  if (failed == 0) failed = copy(arguments[1], other, sizeof other);
  if (failed == 0) failed = use(other, &second);
  return failed == 0 && second == first ? 7 : failed;
}
