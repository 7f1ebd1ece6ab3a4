/* libfabric: fi_write with FI_DELIVERY_COMPLETE and fi_read on a reliable-datagram endpoint. The
 * server owns the memory and reads its completion queue all the time, which makes the progress.
 * Keys and addresses travel over a plain socket on PORT first.
 *
 * usage: ofi_rma server|client PROVIDER HOST PORT --sizes 64,4096 --seconds 0.2
 * PROVIDER: "tcp;ofi_rxm" or "net". HOST: the server's address; the client adds --local ADDRESS.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../measure.h"

static struct {
  struct fi_info* info;
  struct fid_fabric* fabric;
  struct fid_domain* domain;
  struct fid_ep* endpoint;
  struct fid_cq* queue;
  struct fid_av* addresses;
  struct fid_mr* region;
  fi_addr_t peer;
  char* memory;
  uint64_t remote_address;
  uint64_t remote_key;
  uint64_t bytes;
} ofi;

typedef struct hello {
  uint64_t key;
  uint64_t address;
  uint64_t name_bytes;
  char name[256];
} hello;

static void check(const char* what, long result) {
  if (result >= 0) return;
  fprintf(stderr, "ofi_rma: %s: %s\n", what, fi_strerror((int)-result));
  exit(1);
}

static void open_endpoint(const char* provider, const char* local, uint64_t memory_bytes) {
  struct fi_info* hints = fi_allocinfo();
  hints->caps = FI_RMA;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  hints->addr_format = FI_SOCKADDR_IN;
  hints->fabric_attr->prov_name = strdup(provider);
  check("getinfo", fi_getinfo(FI_VERSION(1, 17), local, NULL, FI_SOURCE, hints, &ofi.info));
  check("fabric", fi_fabric(ofi.info->fabric_attr, &ofi.fabric, NULL));
  check("domain", fi_domain(ofi.fabric, ofi.info, &ofi.domain, NULL));
  struct fi_cq_attr queue = {.format = FI_CQ_FORMAT_CONTEXT, .size = 256};
  struct fi_av_attr table = {.type = FI_AV_TABLE};
  check("queue", fi_cq_open(ofi.domain, &queue, &ofi.queue, NULL));
  check("addresses", fi_av_open(ofi.domain, &table, &ofi.addresses, NULL));
  check("endpoint", fi_endpoint(ofi.domain, ofi.info, &ofi.endpoint, NULL));
  check("bind", fi_ep_bind(ofi.endpoint, &ofi.queue->fid, FI_TRANSMIT | FI_RECV));
  check("bind", fi_ep_bind(ofi.endpoint, &ofi.addresses->fid, 0));
  check("enable", fi_enable(ofi.endpoint));
  ofi.memory = aligned_alloc(4096, (memory_bytes + 4095) & ~4095ull);
  memset(ofi.memory, 1, memory_bytes);
  check("register",
        fi_mr_reg(ofi.domain, ofi.memory, memory_bytes, FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE,
                  0, 1, 0, &ofi.region, NULL));
}

static void say_hello(int fd) {
  hello mine = {.key = fi_mr_key(ofi.region)}, theirs;
  /* Targets are named by virtual address or by offset, as the provider says. */
  mine.address = ofi.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)ofi.memory : 0;
  size_t name_bytes = sizeof mine.name;
  check("name", fi_getname(&ofi.endpoint->fid, mine.name, &name_bytes));
  mine.name_bytes = name_bytes;
  if (send(fd, &mine, sizeof mine, 0) != sizeof mine) check("hello", -errno);
  if (recv(fd, &theirs, sizeof theirs, MSG_WAITALL) != sizeof theirs) check("hello", -FI_EIO);
  ofi.remote_address = theirs.address;
  ofi.remote_key = theirs.key;
  check("insert", fi_av_insert(ofi.addresses, theirs.name, 1, &ofi.peer, 0, NULL) == 1 ? 0 : -FI_EINVAL);
}

static void complete_one(void) {
  struct fi_cq_entry entry;
  ssize_t got;
  while ((got = fi_cq_read(ofi.queue, &entry, 1)) == -FI_EAGAIN) {
  }
  if (got < 0) {
    struct fi_cq_err_entry error = {0};
    fi_cq_readerr(ofi.queue, &error, 0);
    check("completion", -error.err);
  }
}

static void put(void* context, long count) {
  struct iovec local = {ofi.memory, ofi.bytes};
  struct fi_rma_iov remote = {ofi.remote_address, ofi.bytes, ofi.remote_key};
  void* description = fi_mr_desc(ofi.region);
  struct fi_msg_rma message = {&local, &description, 1, ofi.peer, &remote, 1, context, 0};
  for (long i = 0; i < count; i++) {
    ssize_t result;
    while ((result = fi_writemsg(ofi.endpoint, &message, FI_DELIVERY_COMPLETE | FI_COMPLETION)) ==
           -FI_EAGAIN) {
      fi_cq_read(ofi.queue, NULL, 0);
    }
    check("write", result);
    complete_one();
  }
}

static void get(void* context, long count) {
  for (long i = 0; i < count; i++) {
    ssize_t result;
    while ((result = fi_read(ofi.endpoint, ofi.memory, ofi.bytes, fi_mr_desc(ofi.region), ofi.peer,
                             ofi.remote_address, ofi.remote_key, context)) == -FI_EAGAIN) {
      fi_cq_read(ofi.queue, NULL, 0);
    }
    check("read", result);
    complete_one();
  }
}

static int meet(bool server, const char* host, int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  if (inet_pton(AF_INET, host, &address.sin_addr) != 1) exit(2);
  const int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  if (server) {
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr*)&address, sizeof address) != 0 || listen(fd, 1) != 0)
      check("listen", -errno);
    const int peer = accept(fd, NULL, NULL);
    close(fd);
    return peer;
  }
  for (int tries = 0; connect(fd, (struct sockaddr*)&address, sizeof address) != 0; tries++) {
    if (tries == 300) check("connect", -errno);
    usleep(10000);
  }
  return fd;
}

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  uint64_t sizes[kMeasureSizesMax];
  const bool server = strcmp(argv[1], "server") == 0;
  const int count = measure_sizes(measure_argument(argc, argv, "--sizes", "64,4096,1048576,67108864"), sizes);
  const double seconds = atof(measure_argument(argc, argv, "--seconds", "0.2"));
  open_endpoint(argv[2], measure_argument(argc, argv, "--local", argv[3]), measure_largest(sizes, count));
  const int fd = meet(server, argv[3], atoi(argv[4]));
  say_hello(fd);
  if (server) {
    char byte;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    for (long turn = 1;; turn++) {
      struct fi_cq_entry entry;
      fi_cq_read(ofi.queue, &entry, 1);
      /* The client closes the socket when it is done. */
      if (turn % 1000000 == 0 && recv(fd, &byte, 1, 0) == 0) return 0;
    }
  }
  for (int i = 0; i < count; i++) {
    ofi.bytes = sizes[i];
    measure_print("put", sizes[i], measure_run(put, NULL, seconds));
    measure_print("get", sizes[i], measure_run(get, NULL, seconds));
  }
  return 0;
}
