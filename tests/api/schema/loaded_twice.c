/* Loads liboncilla, opens a session with a node of its own, unloads it, and does it again.
 *   loaded_twice LIBRARY */
#include <dlfcn.h>
#include <oncilla/oncilla.h>
#include <stdio.h>

static int use(const char* library) {
  ocm_session_options options = OCM_SESSION_OPTIONS_INIT;
  ocm_session* session = NULL;
  int (*open_session)(const ocm_session_options*, ocm_session**);
  int (*close_session)(ocm_session*);
  void* loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (loaded == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  *(void**)&open_session = dlsym(loaded, "ocm_session_open");
  *(void**)&close_session = dlsym(loaded, "ocm_session_close");
  options.flags = OCM_SESSION_EMBEDDED;
  options.embedded_bytes = (uint64_t)8 << 20;
  if (open_session(&options, &session) != OCM_OK || close_session(session) != OCM_OK) return 2;
  return dlclose(loaded) == 0 ? 0 : 3;
}

int main(int count, char** arguments) {
  int failed = count == 2 ? use(arguments[1]) : 4;
  return failed != 0 ? failed : use(arguments[1]);
}
