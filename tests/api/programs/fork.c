/* A forked child has no session and no allocations of its parent's; it may begin anew, and the parent's
 * go on. */
#include <oncillamem.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static ocm_alloc_t make_pair(void) {
  struct ocm_alloc_params params;
  params.local_alloc_bytes = params.rem_alloc_bytes = 65536;
  params.kind = OCM_REMOTE_RDMA;
  return ocm_alloc(&params);
}

static int round_trip(ocm_alloc_t a, int byte) {
  struct ocm_params p;
  void* buf;
  size_t len;
  memset(&p, 0, sizeof(p));
  if (ocm_localbuf(a, &buf, &len)) return -1;
  memset(buf, byte, len);
  p.bytes = len;
  p.op_flag = 1;
  if (ocm_copy_onesided(a, &p)) return -1;
  memset(buf, 0, len);
  p.op_flag = 0;
  return ocm_copy_onesided(a, &p) || ((char*)buf)[len - 1] != byte ? -1 : 0;
}

/* The address sanitizer of GCC 12 does not lock its allocator around fork(): a thread of the parent that is in it, as one
 * that starts is, leaves it locked in the child for good. Soon its threads only wait. */
static void let_sanitizer_settle(void) {
#ifdef __SANITIZE_ADDRESS__
  usleep(200000);
#endif
}

int main(void) {
  int status, round;
  ocm_alloc_t a;
  if (ocm_init() || !(a = make_pair()) || round_trip(a, 1)) return 1;
  for (round = 0; round < 3; round++) {
    pid_t child;
    let_sanitizer_settle();
    child = fork();
    if (child == 0) {
      ocm_alloc_t own;
      if (ocm_free(a) >= 0 || ocm_tini() >= 0) _exit(2);
      if (ocm_init() || !(own = make_pair()) || own == a || round_trip(own, 2)) _exit(3);
      return round; /* with exit handlers, and without ocm_tini */
    }
    if (round_trip(a, 3)) return 4;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != round)
      return printf("the child ended with %d\n", status), 5;
    if (round_trip(a, 4)) return 6;
  }
  return ocm_free(a) || ocm_tini() ? 7 : 0;
}
