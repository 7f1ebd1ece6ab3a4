/* The limit of tcp on this machine: a send and receive loop in C with nothing around it.
 *
 * put: 48 bytes of request and the data in one send; the server receives the data into its memory and
 * answers 48 bytes. get: 48 bytes, answered by the data alone. Request and data are received by one system
 * call where they arrive together. One connection, TCP_NODELAY, one operation at a time. Both sides spin on
 * non-blocking receives, or both block; buffers are the kernel's, or capped at 128 KiB.
 *
 * As functions (tcp_raw.h) the server is a forked process; bench/tcp_bench.cpp links them, so that both are
 * measured in one run. As a program (TCP_RAW_MAIN):
 *   tcp_raw server|client HOST PORT [--wait spin|block] [--capped 0|1] [--sizes 64,4096] [--seconds 0.2]
 *   tcp_raw      every mode over loopback, a JSON line for each
 */
#define _GNU_SOURCE
#include "tcp_raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kHeaderBytes = 48, kCapBytes = 128 * 1024 };
struct header {
  uint64_t put, bytes, pad[4];
};

/* Moves past `done` bytes; the number of parts that are left. */
static int advance(struct iovec** parts, int count, size_t done) {
  while (count > 0 && done >= (*parts)->iov_len) {
    done -= (*parts)->iov_len;
    (*parts)++;
    count--;
  }
  if (count > 0) {
    (*parts)->iov_base = (char*)(*parts)->iov_base + done;
    (*parts)->iov_len -= done;
  }
  return count;
}

static void send_parts(int fd, struct iovec* parts, int count, int flags) {
  while (count > 0) {
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    const ssize_t sent = sendmsg(fd, &message, flags | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) exit(0);
    if (sent > 0) count = advance(&parts, count, (size_t)sent);
  }
}

/* Receives at least `least` bytes into the parts; how many came. A lost peer ends the program. */
static size_t receive_parts(int fd, struct iovec* parts, int count, size_t least, int flags) {
  size_t all = 0;
  while (all < least) {
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    const ssize_t got = recvmsg(fd, &message, flags);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) exit(0);
    all += (size_t)got;
    count = advance(&parts, count, (size_t)got);
  }
  return all;
}

/* Before connect or listen, so that the window is scaled for the cap. */
static void tune(int fd, int capped) {
  int on = 1, cap = kCapBytes;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (capped) {
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &cap, sizeof(cap));
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &cap, sizeof(cap));
  }
}

static void serve(int fd, char* memory, size_t memory_bytes, int flags) {
  for (;;) {
    struct header request;
    struct iovec arriving[2] = {{&request, sizeof(request)}, {memory, memory_bytes}};
    const size_t had = receive_parts(fd, arriving, 2, sizeof(request), flags) - sizeof(request);
    if (request.bytes > memory_bytes) exit(1);
    if (request.put) {
      struct iovec rest = {memory + had, request.bytes - had}, answer = {&request, sizeof(request)};
      if (had < request.bytes) receive_parts(fd, &rest, 1, rest.iov_len, flags);
      send_parts(fd, &answer, 1, flags);
    } else {
      struct iovec answer = {memory, request.bytes};
      send_parts(fd, &answer, 1, flags);
    }
  }
}

static char* map_memory(size_t bytes) {
  return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
}

static int listen_at(struct sockaddr_in* address, int capped) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  socklen_t length = sizeof(*address);
  tune(listener, capped);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(listener, (struct sockaddr*)address, length) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, (struct sockaddr*)address, &length) != 0)
    return -1;
  return listener;
}

static void accept_and_serve(int listener, int capped, char* memory, size_t memory_bytes, int flags) {
  const int fd = accept(listener, NULL, NULL);
  tune(fd, capped);
  serve(fd, memory, memory_bytes, flags);
}

static int connect_to(struct tcp_raw* raw, const struct sockaddr_in* address, int capped) {
  raw->fd = socket(AF_INET, SOCK_STREAM, 0);
  tune(raw->fd, capped);
  return connect(raw->fd, (const struct sockaddr*)address, sizeof(*address));
}

int tcp_raw_open(struct tcp_raw* raw, int spin, int capped, char* memory, size_t memory_bytes) {
  memset(raw, 0, sizeof(*raw));
  const int own = memory == NULL;
  if (own) memory = map_memory(memory_bytes);
  if (memory == MAP_FAILED) return -1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  const int listener = listen_at(&address, capped);
  if (listener < 0) return -1;
  raw->flags = spin ? MSG_DONTWAIT : 0;
  raw->child = fork();
  if (raw->child < 0) return -1;
  if (raw->child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    accept_and_serve(listener, capped, memory, memory_bytes, raw->flags);
  }
  if (connect_to(raw, &address, capped) != 0) return -1;
  close(listener);
  if (own) munmap(memory, memory_bytes);
  return 0;
}

void tcp_raw_close(struct tcp_raw* raw) {
  close(raw->fd);
  kill(raw->child, SIGKILL);
  waitpid(raw->child, NULL, 0);
}

void tcp_raw_put(struct tcp_raw* raw, const char* data, size_t bytes) {
  struct header request = {.put = 1, .bytes = bytes};
  struct iovec parts[2] = {{&request, sizeof(request)}, {(char*)data, bytes}};
  send_parts(raw->fd, parts, 2, raw->flags);
  struct iovec answer = {&request, sizeof(request)};
  receive_parts(raw->fd, &answer, 1, sizeof(request), raw->flags);
}

void tcp_raw_get(struct tcp_raw* raw, char* data, size_t bytes) {
  struct header request = {.put = 0, .bytes = bytes};
  struct iovec part = {&request, sizeof(request)}, target = {data, bytes};
  send_parts(raw->fd, &part, 1, raw->flags);
  receive_parts(raw->fd, &target, 1, bytes, raw->flags);
}

#ifdef TCP_RAW_MAIN
#include "measure.h"

struct call {
  struct tcp_raw* raw;
  char* data;
  size_t bytes;
};
static void put_many(void* context, long count) {
  const struct call* c = context;
  for (long i = 0; i < count; i++) tcp_raw_put(c->raw, c->data, c->bytes);
}
static void get_many(void* context, long count) {
  const struct call* c = context;
  for (long i = 0; i < count; i++) tcp_raw_get(c->raw, c->data, c->bytes);
}

static int all_modes(char* data) {
  static const size_t kSizes[] = {64, 4096, 1u << 20, 64u << 20};
  for (int mode = 0; mode < 4; ++mode) {
    const int spin = mode < 2, capped = mode % 2;
    struct tcp_raw raw;
    if (tcp_raw_open(&raw, spin, capped, NULL, 64u << 20) != 0) return 1;
    for (size_t s = 0; s < 2 * sizeof(kSizes) / sizeof(kSizes[0]); ++s) {
      const int put = s % 2 == 0;
      struct call c = {&raw, data, kSizes[s / 2]};
      const double us = measure_run(put ? put_many : get_many, &c, 0.3).us;
      printf(
          "{\"bench\":\"tcp_raw\",\"mode\":\"%s\",\"buffers\":\"%s\",\"direction\":\"%s\",\"bytes\":%zu,"
          "\"latency_us\":%.3f,\"rate_gb_s\":%.3f}\n",
          spin ? "spin" : "block", capped ? "capped" : "default", put ? "put" : "get", c.bytes, us,
          (double)c.bytes / us * 1e-3);
      fflush(stdout);
    }
    tcp_raw_close(&raw);
  }
  return 0;
}

int main(int argc, char** argv) {
  uint64_t sizes[kMeasureSizesMax];
  const int count = measure_sizes(measure_argument(argc, argv, "--sizes", "64,4096,1048576,67108864"), sizes);
  const double seconds = atof(measure_argument(argc, argv, "--seconds", "0.2"));
  const int capped = atoi(measure_argument(argc, argv, "--capped", "0"));
  const size_t memory_bytes = argc < 4 ? 64u << 20 : measure_largest(sizes, count);
  char* memory = map_memory(memory_bytes);
  if (memory == MAP_FAILED) return 1;
  if (argc < 4) return all_modes(memory);

  struct tcp_raw raw = {.flags = MSG_DONTWAIT};
  if (strcmp(measure_argument(argc, argv, "--wait", "spin"), "block") == 0) raw.flags = 0;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[3]))};
  if (inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) return 2;
  if (strcmp(argv[1], "server") == 0) {
    const int listener = listen_at(&address, capped);
    if (listener < 0) return 1;
    accept_and_serve(listener, capped, memory, memory_bytes, raw.flags);
  }
  for (int tries = 0; connect_to(&raw, &address, capped) != 0; tries++) {
    if (tries == 300) return 1;
    close(raw.fd);
    usleep(10000);
  }
  for (int i = 0; i < count; i++) {
    struct call c = {&raw, memory, sizes[i]};
    measure_print("put", sizes[i], measure_run(put_many, &c, seconds));
    measure_print("get", sizes[i], measure_run(get_many, &c, seconds));
  }
  return 0;
}
#endif
