/* A published allocation has a name, outlives its session, and is attached by others: read-only here, and
 * counted up by 64-bit atomics at its home. */
#include <oncilla/oncilla.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, ocm_last_error());
  return 1;
}

static bool print_name(const ocm_name_info* info, void* count) {
  printf("published: %s, %llu bytes\n", info->name, (unsigned long long)info->bytes);
  ++*(int*)count;
  return true; /* go on */
}

int main(void) {
  ocm_session_options options = OCM_SESSION_OPTIONS_INIT;
  ocm_allocation_options dedicated = OCM_ALLOCATION_OPTIONS_INIT;
  ocm_session* session;
  ocm_allocation *board, *reader;
  char name[64], text[32];
  uint64_t before;
  int count = 0;

  options.flags = OCM_SESSION_EMBEDDED_FALLBACK;
  if (ocm_session_open(&options, &session)) return failed("open a session");
  snprintf(name, sizeof(name), "example-board-%d", (int)getpid());

  dedicated.flags = OCM_ALLOCATION_DEDICATED; /* what is to be published gets an extent of its own */
  if (ocm_allocation_create(session, 4096, &dedicated, &board)) return failed("allocate");
  if (ocm_put(board, 64, "written by the owner", 21)) return failed("put");
  if (ocm_allocation_publish(board, name, 0)) return failed("publish"); /* mode 0: this user only */

  /* Any program of this user, on any node, would attach it in the same way. */
  if (ocm_allocation_attach(session, name, OCM_ACCESS_READ, &reader)) return failed("attach");
  if (ocm_get(reader, 64, text, 21)) return failed("get");
  printf("%s\n", text);
  if (ocm_put(reader, 64, "x", 1) != OCM_PERMISSION) return printf("a read-only put went through\n"), 1;

  /* Bytes 0 to 8 are a counter that many may add to at once. */
  if (ocm_atomic_fetch_add(board, 0, 5, NULL)) return failed("add");
  if (ocm_atomic_fetch_add(board, 0, 1, &before) || before != 5) return failed("add again");

  if (ocm_name_list(session, "example-board-", print_name, &count)) return failed("list");
  if (ocm_allocation_free(reader)) return failed("detach");
  if (ocm_name_remove(session, name)) return failed("remove"); /* frees the memory everywhere */
  if (ocm_put(board, 64, "x", 1) != OCM_REVOKED) return printf("a removed board answers\n"), 1;
  return ocm_session_close(session) || count == 0 || strcmp(text, "written by the owner") != 0 ? failed("end")
                                                                                               : 0;
}
