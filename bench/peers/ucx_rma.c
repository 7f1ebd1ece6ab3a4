/* UCX: ucp_put_nbx and an endpoint flush (the put is then visible at the target), and ucp_get_nbx.
 * The server owns the memory and progresses its worker all the time: ucx_perftest's does so between
 * waits of a millisecond only, so its get over TCP measures that wait.
 *
 * usage: ucx_rma server|client HOST PORT --sizes 64,4096 --seconds 0.2   (transports by UCX_TLS)
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include "../measure.h"

static struct {
  ucp_context_h context;
  ucp_worker_h worker;
  ucp_ep_h endpoint;
  ucp_mem_h memory_handle;
  ucp_rkey_h key;
  char* memory;
  char* local;
  uint64_t remote_address;
  uint64_t bytes;
} ucx;

static void check(const char* what, ucs_status_t status) {
  if (status == UCS_OK) return;
  fprintf(stderr, "ucx_rma: %s: %s\n", what, ucs_status_string(status));
  exit(1);
}

static void complete(void* request) {
  if (request == NULL) return;
  if (UCS_PTR_IS_ERR(request)) check("operation", UCS_PTR_STATUS(request));
  while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(ucx.worker);
  check("operation", ucp_request_check_status(request));
  ucp_request_free(request);
}

static void put(void* context, long count) {
  (void)context;
  const ucp_request_param_t parameters = {0};
  for (long i = 0; i < count; i++) {
    void* request = ucp_put_nbx(ucx.endpoint, ucx.local, ucx.bytes, ucx.remote_address, ucx.key, &parameters);
    void* flush = ucp_ep_flush_nbx(ucx.endpoint, &parameters);
    complete(request);
    complete(flush);
  }
}

static void get(void* context, long count) {
  (void)context;
  const ucp_request_param_t parameters = {0};
  for (long i = 0; i < count; i++) {
    complete(ucp_get_nbx(ucx.endpoint, ucx.local, ucx.bytes, ucx.remote_address, ucx.key, &parameters));
  }
}

static int meet(bool server, const char* host, int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  if (inet_pton(AF_INET, host, &address.sin_addr) != 1) exit(2);
  const int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  if (server) {
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr*)&address, sizeof address) != 0 || listen(fd, 1) != 0) {
      check("listen", UCS_ERR_IO_ERROR);
    }
    const int peer = accept(fd, NULL, NULL);
    close(fd);
    return peer;
  }
  for (int tries = 0; connect(fd, (struct sockaddr*)&address, sizeof address) != 0; tries++) {
    if (tries == 300) check("connect", UCS_ERR_UNREACHABLE);
    usleep(10000);
  }
  return fd;
}

static void send_block(int fd, const void* data, uint64_t bytes) {
  if (send(fd, &bytes, sizeof bytes, 0) != sizeof bytes || send(fd, data, bytes, 0) != (ssize_t)bytes) {
    check("send", UCS_ERR_IO_ERROR);
  }
}

static void* receive_block(int fd) {
  uint64_t bytes;
  if (recv(fd, &bytes, sizeof bytes, MSG_WAITALL) != sizeof bytes || bytes > 65536) {
    check("receive", UCS_ERR_IO_ERROR);
  }
  void* block = malloc(bytes);
  if (recv(fd, block, bytes, MSG_WAITALL) != (ssize_t)bytes) check("receive", UCS_ERR_IO_ERROR);
  return block;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  uint64_t sizes[kMeasureSizesMax];
  const bool server = strcmp(argv[1], "server") == 0;
  const int count = measure_sizes(measure_argument(argc, argv, "--sizes", "64,4096,1048576,67108864"), sizes);
  const double seconds = atof(measure_argument(argc, argv, "--seconds", "0.2"));
  const uint64_t largest = measure_largest(sizes, count);

  const ucp_params_t context = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_RMA};
  check("init", ucp_init(&context, NULL, &ucx.context));
  const ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                      .thread_mode = UCS_THREAD_MODE_SINGLE};
  check("worker", ucp_worker_create(ucx.context, &worker, &ucx.worker));
  /* UCX allocates, so that shared memory can reach it. */
  const ucp_mem_map_params_t map = {
      .field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
      .length = largest,
      .flags = UCP_MEM_MAP_ALLOCATE};
  check("map", ucp_mem_map(ucx.context, &map, &ucx.memory_handle));
  ucp_mem_attr_t attributes = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
  check("query", ucp_mem_query(ucx.memory_handle, &attributes));
  ucx.memory = attributes.address;
  memset(ucx.memory, 1, largest);
  ucx.local = aligned_alloc(4096, (largest + 4095) & ~4095ull);
  memset(ucx.local, 2, largest);

  const int fd = meet(server, argv[2], atoi(argv[3]));
  ucp_address_t* mine;
  size_t mine_bytes, key_bytes;
  void* key;
  check("address", ucp_worker_get_address(ucx.worker, &mine, &mine_bytes));
  check("key", ucp_rkey_pack(ucx.context, ucx.memory_handle, &key, &key_bytes));
  send_block(fd, mine, mine_bytes);
  send_block(fd, key, key_bytes);
  send_block(fd, &ucx.memory, sizeof ucx.memory);
  const ucp_ep_params_t endpoint = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                                    .address = receive_block(fd)};
  check("endpoint", ucp_ep_create(ucx.worker, &endpoint, &ucx.endpoint));
  check("unpack", ucp_ep_rkey_unpack(ucx.endpoint, receive_block(fd), &ucx.key));
  ucx.remote_address = *(uint64_t*)receive_block(fd);

  if (server) {
    char byte;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (long turn = 1;; turn++) {
      ucp_worker_progress(ucx.worker);
      /* The client closes the socket when it is done. */
      if (turn % 1000000 == 0 && recv(fd, &byte, 1, 0) == 0) return 0;
    }
  }
  ucx.bytes = 8;
  get(NULL, 1); /* connects; without it a put and flush takes 70 us until the peer has sent once */
  for (int i = 0; i < count; i++) {
    ucx.bytes = sizes[i];
    measure_print("put", sizes[i], measure_run(put, NULL, seconds));
    measure_print("get", sizes[i], measure_run(get, NULL, seconds));
  }
  return 0;
}
