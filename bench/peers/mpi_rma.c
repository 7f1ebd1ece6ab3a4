/* Open MPI one-sided: MPI_Put and MPI_Get, each followed by MPI_Win_flush, on a window of
 * MPI_Win_allocate under a passive lock. Rank 0 measures; rank 1 owns the memory and makes progress.
 *
 * usage: mpirun -np 2 ... mpi_rma --sizes 64,4096 --seconds 0.2
 */
#include <mpi.h>

#include "../measure.h"

typedef struct call {
  MPI_Win window;
  char* local;
  uint64_t bytes;
} call;

static void put(void* context, long count) {
  const call* c = context;
  for (long i = 0; i < count; i++) {
    MPI_Put(c->local, (int)c->bytes, MPI_BYTE, 1, 0, (int)c->bytes, MPI_BYTE, c->window);
    MPI_Win_flush(1, c->window);
  }
}

static void get(void* context, long count) {
  const call* c = context;
  for (long i = 0; i < count; i++) {
    MPI_Get(c->local, (int)c->bytes, MPI_BYTE, 1, 0, (int)c->bytes, MPI_BYTE, c->window);
    MPI_Win_flush(1, c->window);
  }
}

int main(int argc, char** argv) {
  uint64_t sizes[kMeasureSizesMax];
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int count = measure_sizes(measure_argument(argc, argv, "--sizes", "64,4096,1048576,67108864"), sizes);
  const double seconds = atof(measure_argument(argc, argv, "--seconds", "0.2"));
  const uint64_t largest = measure_largest(sizes, count);

  call c;
  char* base;
  MPI_Win_allocate((MPI_Aint)largest, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &c.window);
  memset(base, 1, largest);
  c.local = aligned_alloc(4096, (largest + 4095) & ~4095ull);
  memset(c.local, 2, largest);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, c.window);
    for (int i = 0; i < count; i++) {
      c.bytes = sizes[i];
      measure_print("put", sizes[i], measure_run(put, &c, seconds));
      measure_print("get", sizes[i], measure_run(get, &c, seconds));
    }
    MPI_Win_unlock(1, c.window);
  }
  MPI_Barrier(MPI_COMM_WORLD); /* rank 1 makes progress here */
  MPI_Win_free(&c.window);
  MPI_Finalize();
  return 0;
}
