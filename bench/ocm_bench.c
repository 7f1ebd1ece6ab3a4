/* Oncilla measured through its public C interface, against daemons that are running already
 * ($OCM_SOCKET names the local one). Results are JSON lines (measure.h).
 *
 * usage: ocm_bench MODE [--sizes 64,4096] [--seconds 0.2] [--node NAME] [--sessions N] [--extents N]
 *   shm     put and get of an extent on this node
 *   tcp     put and get of an extent on another node; eight in flight; 256 concurrent gets of 64 B
 *   slab    allocation and free out of the session's slab
 *   alloc   a new extent on another node, 1 MiB and 4 GiB, and its free
 *   attach  attach of a published allocation on another node until the first byte is read
 *   scale   allocation time on this node when empty, and beside N sessions that hold N extents
 */
#define _GNU_SOURCE
#include <errno.h>
#include <oncilla/oncilla.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure.h"

enum { kConcurrent = 256, kInFlight = 8, kChildren = 10 };

static const uint64_t kMiB = 1u << 20;
static double seconds = 0.2;
static const char* node; /* NULL: the cluster chooses */

static void check(const char* what, int status) {
  if (status >= 0) return;
  fprintf(stderr, "ocm_bench: %s: %s: %s\n", what, ocm_status_name(status), ocm_last_error());
  exit(1);
}

static ocm_session* open_session(void) {
  ocm_session* session;
  check("open", ocm_session_open(NULL, &session));
  return session;
}

static int create(ocm_session* session, uint64_t bytes, bool remote, ocm_fabric fabric,
                  ocm_allocation** allocation) {
  ocm_allocation_options options = OCM_ALLOCATION_OPTIONS_INIT;
  options.flags = OCM_ALLOCATION_DEDICATED;
  if (remote && node != NULL) {
    options.nodes = &node;
    options.nodes_count = 1;
  } else {
    options.flags |= remote ? OCM_ALLOCATION_REMOTE : OCM_ALLOCATION_LOCAL;
  }
  options.fabric = fabric;
  return ocm_allocation_create(session, bytes, &options, allocation);
}

/* ------------------------------------------------------------------ put and get */

typedef struct call {
  ocm_allocation* allocation;
  char* local;
  uint64_t bytes;
  uint64_t slots; /* places of `bytes` in the allocation and in `local` */
  int in_flight;
} call;

static void put(void* context, long count) {
  const call* c = context;
  for (long i = 0; i < count; i++) check("put", ocm_put(c->allocation, 0, c->local, c->bytes));
}

static void get(void* context, long count) {
  const call* c = context;
  for (long i = 0; i < count; i++) check("get", ocm_get(c->allocation, 0, c->local, c->bytes));
}

/* `in_flight` operations are under way at any time, completed in the order of their start. */
static void windowed(const call* c, long count, bool is_put) {
  ocm_op* ops[kConcurrent];
  for (long i = 0; i < count + c->in_flight; i++) {
    ocm_op** op = &ops[i % c->in_flight];
    if (i >= c->in_flight) check("wait", ocm_op_wait(*op, OCM_WAIT_FREE, 0));
    if (i < count) {
      const uint64_t offset = (uint64_t)i % c->slots * c->bytes;
      check("start", is_put ? ocm_put_start(c->allocation, offset, c->local + offset, c->bytes, op)
                            : ocm_get_start(c->allocation, offset, c->local + offset, c->bytes, op));
    }
  }
}

/* `in_flight` operations are started, then all are waited for; the last batch may be smaller. */
static void batched(const call* c, long count, bool is_put) {
  ocm_op* ops[kConcurrent];
  for (long done = 0; done < count;) {
    const long now = count - done < c->in_flight ? count - done : c->in_flight;
    for (long i = 0; i < now; i++) {
      const uint64_t offset = (uint64_t)i * c->bytes;
      check("start", is_put ? ocm_put_start(c->allocation, offset, c->local + offset, c->bytes, &ops[i])
                            : ocm_get_start(c->allocation, offset, c->local + offset, c->bytes, &ops[i]));
    }
    for (long i = 0; i < now; i++) check("wait", ocm_op_wait(ops[i], OCM_WAIT_FREE, 0));
    done += now;
  }
}

static void put_windowed(void* context, long count) { windowed(context, count, true); }
static void get_windowed(void* context, long count) { windowed(context, count, false); }
static void put_batches(void* context, long count) { batched(context, count, true); }
static void get_batches(void* context, long count) { batched(context, count, false); }

static void check_bytes(call* c) {
  for (uint64_t i = 0; i < c->bytes; i++) c->local[i] = (char)(i * 7 + c->bytes % 251);
  put(c, 1);
  memset(c->local, 0, c->bytes);
  get(c, 1);
  for (uint64_t i = 0; i < c->bytes; i++) {
    if (c->local[i] == (char)(i * 7 + c->bytes % 251)) continue;
    fprintf(stderr, "ocm_bench: byte %llu of %llu came back wrong\n", (unsigned long long)i,
            (unsigned long long)c->bytes);
    exit(1);
  }
}

static void put_and_get(const uint64_t* sizes, int count, bool remote) {
  ocm_session* session = open_session();
  uint64_t largest = measure_largest(sizes, count);
  if (largest < kInFlight * kMiB) largest = kInFlight * kMiB;
  call c = {.local = aligned_alloc(4096, (largest + 4095) & ~4095ull)};
  memset(c.local, 2, largest);
  check("create", create(session, largest, remote, remote ? OCM_FABRIC_TCP : OCM_FABRIC_ANY, &c.allocation));
  c.bytes = largest; /* every page of both is there before the clock starts */
  put(&c, 1);
  for (int i = 0; i < count; i++) {
    c.bytes = sizes[i];
    check_bytes(&c);
    measure_print("put", sizes[i], measure_run(put, &c, seconds));
    measure_print("get", sizes[i], measure_run(get, &c, seconds));
  }
  if (remote) {
    /* One at a time and several, over the same places in memory. */
    const struct {
      const char *put, *get;
      measure_batch put_many, get_many;
      uint64_t bytes;
      int in_flight;
    } cases[] = {{"put_window1", "get_window1", put_windowed, get_windowed, kMiB, 1},
                 {"put_window8", "get_window8", put_windowed, get_windowed, kMiB, kInFlight},
                 {"put_window1", "get_window1", put_windowed, get_windowed, 64, 1},
                 {"put_window256", "get_window256", put_windowed, get_windowed, 64, kConcurrent},
                 {"put_batch256", "get_batch256", put_batches, get_batches, 64, kConcurrent}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
      c.bytes = cases[i].bytes;
      c.in_flight = cases[i].in_flight;
      c.slots = c.bytes == kMiB ? kInFlight : kConcurrent;
      measure_print(cases[i].put, c.bytes, measure_run(cases[i].put_many, &c, seconds));
      measure_print(cases[i].get, c.bytes, measure_run(cases[i].get_many, &c, seconds));
    }
  }
  check("free", ocm_allocation_free(c.allocation));
  check("close", ocm_session_close(session));
}

/* ------------------------------------------------------------------ allocation */

/* The median of `count` times in microseconds, printed with the extremes. */
static void print_times(const char* operation, uint64_t bytes, double* us, int count) {
  qsort(us, (size_t)count, sizeof us[0], measure_compare);
  const measure_result result = {us[count / 2], us[0], us[count - 1], count};
  measure_print(operation, bytes, result);
}

static void extents(ocm_session* session, uint64_t bytes, bool remote, int count, const char* create_name,
                    const char* free_name) {
  double created[kMeasureSamplesMax], freed[kMeasureSamplesMax];
  for (int i = -3; i < count; i++) { /* the first three open connections */
    ocm_allocation* allocation;
    const double start = measure_now_s();
    check("create", create(session, bytes, remote, OCM_FABRIC_ANY, &allocation));
    const double middle = measure_now_s();
    check("free", ocm_allocation_free(allocation));
    const double end = measure_now_s();
    if (i < 0) continue;
    created[i] = (middle - start) * 1e6;
    freed[i] = (end - middle) * 1e6;
  }
  print_times(create_name, bytes, created, count);
  print_times(free_name, bytes, freed, count);
}

static void allocations(void) {
  ocm_session* session = open_session();
  const int count = (int)(seconds * 2000) < kMeasureSamplesMax ? (int)(seconds * 2000) : kMeasureSamplesMax;
  extents(session, kMiB, true, count, "alloc_remote", "free_remote");
  extents(session, 4096 * kMiB, true, 20, "alloc_remote", "free_remote");
  extents(session, kMiB, false, count, "alloc_local", "free_local");
  extents(session, 4096 * kMiB, false, 20, "alloc_local", "free_local");
  check("close", ocm_session_close(session));
}

/* Many pieces are taken and then given back, so that the slab is searched and not only its last piece;
 * more than one slab's worth would measure leases as well. */
static void slab_pieces(void) {
  enum { kPieces = 64 };
  ocm_session* session = open_session();
  ocm_allocation* pieces[kPieces];
  const uint64_t sizes[] = {64, 4096, 32768};
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
    static double created[kMeasureSamplesMax], freed[kMeasureSamplesMax];
    for (int i = -64; i < kMeasureSamplesMax; i++) {
      const double start = measure_now_s();
      for (int p = 0; p < kPieces; p++) {
        check("create", ocm_allocation_create(session, sizes[s], NULL, &pieces[p]));
      }
      const double middle = measure_now_s();
      for (int p = 0; p < kPieces; p++) check("free", ocm_allocation_free(pieces[p]));
      const double end = measure_now_s();
      if (i < 0) continue;
      created[i] = (middle - start) * 1e6 / kPieces;
      freed[i] = (end - middle) * 1e6 / kPieces;
    }
    print_times("slab_alloc", sizes[s], created, kMeasureSamplesMax);
    print_times("slab_free", sizes[s], freed, kMeasureSamplesMax);
  }
  check("close", ocm_session_close(session));
}

/* ------------------------------------------------------------------ attach */

/* warm: the session has a connection to the node; else each attach is the first of a new session. */
static void attach_times(const char* name, bool warm, int count) {
  double us[kMeasureSamplesMax];
  ocm_session* kept = warm ? open_session() : NULL;
  for (int i = -3; i < count; i++) {
    ocm_session* session = warm ? kept : open_session();
    ocm_allocation* allocation;
    char byte = 0;
    const double start = measure_now_s();
    check("attach", ocm_allocation_attach(session, name, OCM_ACCESS_READ, &allocation));
    check("get", ocm_get(allocation, 0, &byte, 1));
    const double end = measure_now_s();
    if (byte != 42) check("first byte", OCM_INTERNAL);
    check("detach", ocm_allocation_free(allocation));
    if (!warm) check("close", ocm_session_close(session));
    if (i >= 0) us[i] = (end - start) * 1e6;
  }
  if (warm) check("close", ocm_session_close(kept));
  print_times(warm ? "attach_warm" : "attach_cold", 1, us, count);
}

static void attaches(void) {
  char name[64];
  snprintf(name, sizeof name, "ocm_bench.%d", (int)getpid());
  ocm_session* session = open_session();
  ocm_allocation* allocation;
  check("create", create(session, kMiB, true, OCM_FABRIC_ANY, &allocation));
  const char byte = 42;
  check("put", ocm_put(allocation, 0, &byte, 1));
  check("publish", ocm_allocation_publish(allocation, name, 0));
  attach_times(name, true, 200);
  attach_times(name, false, 100);
  check("remove", ocm_name_remove(session, name));
  check("free", ocm_allocation_free(allocation));
  check("close", ocm_session_close(session));
}

/* ------------------------------------------------------------------ scale */

/* A child holds its share of the sessions and extents until its input closes. */
static void hold(int sessions, int extents_each, int ready, int release) {
  for (int s = 0; s < sessions; s++) {
    ocm_session* session = open_session();
    for (int e = 0; e < extents_each; e++) {
      ocm_allocation* allocation;
      check("create", create(session, 4096, false, OCM_FABRIC_ANY, &allocation));
    }
  }
  char byte = 1;
  if (write(ready, &byte, 1) != 1) _exit(1);
  while (read(release, &byte, 1) < 0 && errno == EINTR) {
  }
  _exit(0); /* sessions end with their program */
}

static void scale(int sessions, int extents_all) {
  struct rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  int ready[2], release[2];
  if (pipe(ready) != 0 || pipe(release) != 0) exit(1);
  pid_t children[kChildren];
  /* The children exist before this process has a session, and start when told to. */
  int start[2];
  if (pipe(start) != 0) exit(1);
  for (int i = 0; i < kChildren; i++) {
    children[i] = fork();
    if (children[i] == 0) {
      char byte;
      close(release[1]);
      close(start[1]);
      if (read(start[0], &byte, 1) != 1) _exit(1);
      hold(sessions / kChildren, extents_all / sessions, ready[1], release[0]);
    }
  }
  close(ready[1]);
  ocm_session* session = open_session();
  extents(session, 4096, false, 400, "scale_alloc_empty", "scale_free_empty");
  const double began = measure_now_s();
  char bytes[kChildren] = {0};
  if (write(start[1], bytes, kChildren) != kChildren) exit(1);
  int held = 0;
  ssize_t got;
  while (held < kChildren && (got = read(ready[0], bytes, sizeof bytes)) > 0) held += (int)got;
  if (held < kChildren) {
    fprintf(stderr, "ocm_bench: only %d of %d programs could hold their extents\n", held, kChildren);
  }
  const double filled = measure_now_s() - began;
  extents(session, 4096, false, 400, "scale_alloc_full", "scale_free_full");
  const measure_result fill = {filled * 1e6 / extents_all, filled * 1e6 / extents_all,
                               filled * 1e6 / extents_all, extents_all};
  if (held == kChildren) measure_print("scale_fill", 4096, fill);
  close(release[1]);
  for (int i = 0; i < kChildren; i++) waitpid(children[i], NULL, 0);
  check("close", ocm_session_close(session));
  if (held < kChildren) exit(1);
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: ocm_bench shm|tcp|slab|alloc|attach|scale [--sizes A,B] [--seconds S]\n");
    return 2;
  }
  uint64_t sizes[kMeasureSizesMax];
  const int count = measure_sizes(measure_argument(argc, argv, "--sizes", "64,4096,1048576,67108864"), sizes);
  seconds = atof(measure_argument(argc, argv, "--seconds", "0.2"));
  node = measure_argument(argc, argv, "--node", NULL);
  const char* mode = argv[1];
  if (strcmp(mode, "shm") == 0) {
    put_and_get(sizes, count, false);
  } else if (strcmp(mode, "tcp") == 0) {
    put_and_get(sizes, count, true);
  } else if (strcmp(mode, "slab") == 0) {
    slab_pieces();
  } else if (strcmp(mode, "alloc") == 0) {
    allocations();
  } else if (strcmp(mode, "attach") == 0) {
    attaches();
  } else if (strcmp(mode, "scale") == 0) {
    scale(atoi(measure_argument(argc, argv, "--sessions", "1000")),
          atoi(measure_argument(argc, argv, "--extents", "100000")));
  } else {
    fprintf(stderr, "ocm_bench: no mode named %s\n", mode);
    return 2;
  }
  return 0;
}
