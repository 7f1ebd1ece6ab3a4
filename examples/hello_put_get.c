/* The shortest use: open a session, allocate on another node, put, get, free.
 *   cc hello_put_get.c -loncilla && ./a.out */
#include <oncilla/oncilla.h>
#include <stdio.h>
#include <string.h>

/* Every call gives 0 or a negative status; ocm_last_error has the sentence that says what to do. */
static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, ocm_last_error());
  return 1;
}

int main(void) {
  /* The local daemon; without one, this program is a node by itself. */
  ocm_session_options options = OCM_SESSION_OPTIONS_INIT;
  ocm_session* session;
  ocm_allocation* memory;
  ocm_extent_info where = {.size = sizeof(where)};
  const char message[] = "hello, cluster";
  char answer[sizeof(message)];

  options.flags = OCM_SESSION_EMBEDDED_FALLBACK;
  if (ocm_session_open(&options, &session)) return failed("open a session");

  /* NULL: plain DRAM, wherever the cluster places it. OCM_ALLOCATION_REMOTE would insist on elsewhere. */
  if (ocm_allocation_create(session, 64 << 20, NULL, &memory)) return failed("allocate 64 MiB");
  if (ocm_allocation_extent_query(memory, 0, &where)) return failed("ask where it lives");
  printf("64 MiB on node %s, address %#llx\n", where.node, (unsigned long long)where.global_address);

  /* When ocm_put returns, any later get by anyone sees the bytes. */
  if (ocm_put(memory, 1 << 20, message, sizeof(message))) return failed("put");
  if (ocm_get(memory, 1 << 20, answer, sizeof(answer))) return failed("get");
  printf("%s\n", answer);

  /* An error is a sentence, never a crash. */
  if (ocm_put(memory, 64 << 20, message, 1) != OCM_OUT_OF_RANGE) return failed("a put past the end");
  printf("a put past the end: %s\n", ocm_last_error());

  if (ocm_allocation_free(memory)) return failed("free");
  if (ocm_session_close(session)) return failed("close");
  return strcmp(answer, message) != 0;
}
