/* The raw tcp loop as functions; see tcp_raw.c. One thread. A lost server ends the program. */
#ifndef ONCILLA_BENCH_TCP_RAW_H
#define ONCILLA_BENCH_TCP_RAW_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tcp_raw {
  int fd;
  int child;
  int flags;
};
/* Forks the serving process and connects. It serves `memory`, a shared mapping, so that another server can be
 * compared over the same pages; NULL: a mapping of its own. 0, or -1 with errno. */
int tcp_raw_open(struct tcp_raw* raw, int spin, int capped, char* memory, size_t memory_bytes);
void tcp_raw_close(struct tcp_raw* raw);
void tcp_raw_put(struct tcp_raw* raw, const char* data, size_t bytes);
void tcp_raw_get(struct tcp_raw* raw, char* data, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
