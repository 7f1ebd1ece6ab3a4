/* Copies to a remote buffer; after a line on stdin, until that fails. Then local copies still work, and
 * remote allocations are NULL or work: nothing hangs. */
#include <oncillamem.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

int main(void) {
  struct ocm_alloc_params params = {65536, 65536, OCM_REMOTE_RDMA};
  struct ocm_params p;
  time_t start;
  ocm_alloc_t remote, local;
  if (ocm_init() || !(remote = ocm_alloc(&params))) return 1;
  params.kind = OCM_LOCAL_HOST;
  if (!(local = ocm_alloc(&params))) return 2;
  memset(&p, 0, sizeof(p));
  p.bytes = 65536;
  p.op_flag = 1;
  if (ocm_copy(remote, local, &p)) return 3;
  printf("ready\n");
  fflush(stdout);
  if (getchar() == EOF) return 4;
  start = time(NULL);
  while (ocm_copy(remote, local, &p) == 0)
    if (time(NULL) - start > 10) return 5;
  printf("%d\n", ocm_copy_onesided(remote, &p));
  if (ocm_copy(local, local, &p)) return 6;
  return ocm_free(remote) || ocm_free(local) || ocm_tini() ? 7 : 0;
}
