/* Redis and memcached by a client that costs as little as one can: one connection with TCP_NODELAY,
 * the request in one writev, the answer received straight into the buffer, spinning on the socket.
 * put is SET of one value, get is GET of it.
 *
 * usage: kv_raw redis|memcached HOST PORT --sizes 64,4096 --seconds 0.2
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../measure.h"

typedef struct call {
  int fd;
  bool redis;
  char* local;
  uint64_t bytes;
} call;

static void fail(const char* what) {
  fprintf(stderr, "kv_raw: %s: %s\n", what, strerror(errno));
  exit(1);
}

static void send_all(int fd, struct iovec* parts, int count) {
  while (count > 0) {
    ssize_t sent = writev(fd, parts, count);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (sent < 0) fail("send");
    while (count > 0 && (size_t)sent >= parts->iov_len) {
      sent -= (ssize_t)parts->iov_len;
      parts++;
      count--;
    }
    if (count > 0) {
      parts->iov_base = (char*)parts->iov_base + sent;
      parts->iov_len -= (size_t)sent;
    }
  }
}

/* At least one byte, at most `most`. */
static size_t receive_some(int fd, char* target, size_t most) {
  for (;;) {
    const ssize_t got = recv(fd, target, most, MSG_DONTWAIT);
    if (got > 0) return (size_t)got;
    if (got == 0) fail("the server closed the connection");
    if (errno != EAGAIN && errno != EINTR) fail("receive");
  }
}

static void put(void* context, long count) {
  call* c = context;
  char head[128], answer[64];
  const int head_bytes =
      c->redis ? snprintf(head, sizeof head, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%llu\r\n",
                          (unsigned long long)c->bytes)
               : snprintf(head, sizeof head, "set k 0 0 %llu\r\n", (unsigned long long)c->bytes);
  const size_t answer_bytes = c->redis ? 5 : 8; /* +OK\r\n or STORED\r\n */
  for (long i = 0; i < count; i++) {
    struct iovec parts[3] = {{head, (size_t)head_bytes}, {c->local, c->bytes}, {"\r\n", 2}};
    send_all(c->fd, parts, 3);
    size_t got = 0;
    while (got < answer_bytes) got += receive_some(c->fd, answer + got, sizeof answer - got);
    if (answer[0] != (c->redis ? '+' : 'S')) {
      fprintf(stderr, "kv_raw: %.*s\n", (int)got, answer);
      exit(1);
    }
  }
}

static void get(void* context, long count) {
  call* c = context;
  char* request = c->redis ? "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n" : "get k\r\n";
  char head[128], expected[128], tail[16];
  const int head_bytes =
      c->redis ? snprintf(expected, sizeof expected, "$%llu\r\n", (unsigned long long)c->bytes)
               : snprintf(expected, sizeof expected, "VALUE k 0 %llu\r\n", (unsigned long long)c->bytes);
  const size_t tail_bytes = c->redis ? 2 : 7; /* \r\n, and END\r\n of memcached */
  for (long i = 0; i < count; i++) {
    struct iovec part = {request, strlen(request)};
    send_all(c->fd, &part, 1);
    size_t got = 0;
    while (got < (size_t)head_bytes) got += receive_some(c->fd, head + got, (size_t)head_bytes - got);
    if (memcmp(head, expected, (size_t)head_bytes) != 0) fail("unexpected answer");
    const size_t all = c->bytes + tail_bytes;
    got = 0;
    while (got < all) {
      if (got < c->bytes) {
        struct iovec parts[2] = {{c->local + got, c->bytes - got}, {tail, tail_bytes}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        const ssize_t some = recvmsg(c->fd, &message, MSG_DONTWAIT);
        if (some > 0)
          got += (size_t)some;
        else if (some == 0 || (errno != EAGAIN && errno != EINTR))
          fail("receive");
      } else {
        got += receive_some(c->fd, tail, all - got);
      }
    }
  }
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  uint64_t sizes[kMeasureSizesMax];
  const int count = measure_sizes(measure_argument(argc, argv, "--sizes", "64,4096,1048576,67108864"), sizes);
  const double seconds = atof(measure_argument(argc, argv, "--seconds", "0.2"));
  const uint64_t largest = measure_largest(sizes, count);
  call c = {.redis = strcmp(argv[1], "redis") == 0,
            .local = aligned_alloc(4096, (largest + 4095) & ~4095ull)};
  memset(c.local, 2, largest);

  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[3]))};
  if (inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) return 2;
  c.fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(c.fd, (struct sockaddr*)&address, sizeof address) != 0) fail("connect");
  const int one = 1;
  setsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);

  for (int i = 0; i < count; i++) {
    c.bytes = sizes[i];
    measure_print("put", sizes[i], measure_run(put, &c, seconds));
    measure_print("get", sizes[i], measure_run(get, &c, seconds));
  }
  close(c.fd);
  return 0;
}
