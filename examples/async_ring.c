/* A ring of buffers, so that puts overlap with the work that makes the bytes: fill a buffer, start its
 * put, and wait only when the ring comes round to that buffer again. */
#include <oncilla/oncilla.h>
#include <stdio.h>
#include <string.h>

enum { BUFFERS = 4, BUFFER_BYTES = 1 << 20, ROUNDS = 64 };

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, ocm_last_error());
  return 1;
}

static unsigned char byte_of(int round) { return (unsigned char)(round * 37 + 1); }

int main(void) {
  static unsigned char buffers[BUFFERS][BUFFER_BYTES];
  ocm_op* ops[BUFFERS] = {NULL};
  ocm_session_options options = OCM_SESSION_OPTIONS_INIT;
  ocm_session* session;
  ocm_allocation* memory;
  unsigned char first, last;
  int round, slot;

  options.flags = OCM_SESSION_EMBEDDED_FALLBACK;
  if (ocm_session_open(&options, &session)) return failed("open a session");
  if (ocm_allocation_create(session, (uint64_t)ROUNDS * BUFFER_BYTES, NULL, &memory))
    return failed("allocate");

  for (round = 0; round < ROUNDS; round++) {
    slot = round % BUFFERS;
    /* Until this buffer's last put is complete; the others go on meanwhile. The handle ends with it. */
    if (ops[slot] && ocm_op_wait(ops[slot], OCM_WAIT_REMOTE | OCM_WAIT_FREE, 0))
      return failed("wait for a buffer");
    memset(buffers[slot], byte_of(round), BUFFER_BYTES);
    if (ocm_put_start(memory, (uint64_t)round * BUFFER_BYTES, buffers[slot], BUFFER_BYTES, &ops[slot]))
      return failed("start a put");
  }
  for (slot = 0; slot < BUFFERS; slot++)
    if (ocm_op_wait(ops[slot], OCM_WAIT_REMOTE | OCM_WAIT_FREE, 0)) return failed("wait for the last puts");

  for (round = 0; round < ROUNDS; round++) {
    const uint64_t at = (uint64_t)round * BUFFER_BYTES;
    if (ocm_get(memory, at, &first, 1) || ocm_get(memory, at + BUFFER_BYTES - 1, &last, 1))
      return failed("get");
    if (first != byte_of(round) || last != byte_of(round)) return printf("round %d differs\n", round), 1;
  }
  printf("%d MiB in a ring of %d buffers\n", ROUNDS, BUFFERS);
  return ocm_session_close(session) ? failed("close") : 0; /* frees the allocation too */
}
