/* Ends without ocm_free and without ocm_tini, as many programs of 2013 did. With an argument it stays,
 * after it has said so, until it is killed. */
#include <oncillamem.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char* argv[]) {
  struct ocm_alloc_params params;
  struct ocm_params p;
  ocm_alloc_t a;
  (void)argv;
  if (ocm_init()) return 1;
  params.local_alloc_bytes = 1 << 20;
  params.rem_alloc_bytes = 8 << 20;
  params.kind = OCM_REMOTE_RDMA;
  if (!(a = ocm_alloc(&params))) return 2;
  memset(&p, 0, sizeof(p));
  p.bytes = 1 << 20;
  p.op_flag = 1;
  if (ocm_copy_onesided(a, &p)) return 3;
  printf("holding\n");
  fflush(stdout);
  if (argc > 1) pause();
  return 0;
}
