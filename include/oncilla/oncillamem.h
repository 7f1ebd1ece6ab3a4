/* The 2013 interface of Oncilla, source-compatible: compile a program that was written for it unchanged,
 * and link -locm -lm. New programs use oncilla/oncilla.h.
 *
 * An allocation of a remote kind is a pair: a local buffer, which ocm_localbuf gives, and a remote buffer
 * on another node (on this one, if there is no other). Of the other kinds there is the local buffer alone.
 *
 * Conventions: 0 on success, a negative number (an `ocm_status`) on failure, and a line on stderr that
 * says why (up to 100 lines; none if OCM_QUIET is in the environment). Nothing aborts the caller: a
 * handle that is NULL, freed or made up is an error. Any thread may call anything; a buffer is freed when
 * the last call that uses it returns. To use both interfaces in one file, include this header first.
 */
#ifndef ONCILLAMEM_H
#define ONCILLAMEM_H

#ifdef ONCILLA_ONCILLA_H
#error "include oncillamem.h before oncilla/oncilla.h: both know an ocm_kind and an ocm_copy"
#endif

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lib_alloc* ocm_alloc_t;

enum ocm_kind {
  OCM_LOCAL_HOST = 1, /* memory of this program */
  OCM_LOCAL_RMA,      /* the same */
  OCM_REMOTE_RMA,     /* memory of another node, on whichever fabric there is */
  OCM_LOCAL_RDMA,     /* memory of this program */
  OCM_REMOTE_RDMA,    /* memory of another node, on whichever fabric there is */
  OCM_LOCAL_GPU,      /* this build has no GPU memory: ocm_alloc gives NULL */
  OCM_REMOTE_GPU      /* the same */
};

struct ocm_alloc_params {
  uint64_t local_alloc_bytes; /* of the local buffer, > 0 */
  uint64_t rem_alloc_bytes;   /* of the remote buffer, > 0; the local kinds do not read it */
  enum ocm_kind kind;
};
typedef struct ocm_alloc_params* ocm_alloc_param_t;

/* What each offset means is said at the call. */
struct ocm_params {
  uint64_t src_offset;
  uint64_t dest_offset;
  uint64_t src_offset_2;
  uint64_t dest_offset_2;
  uint64_t bytes;
  int op_flag; /* 0: read; 1 (or anything else): write */
};
typedef struct ocm_params* ocm_param_t;

/* Joins the node's daemon. Without one, and unless OCM_NO_EMBEDDED is in the environment, the program
 * is a node by itself. Each success is ended by one ocm_tini; the calls between share one session. */
int ocm_init(void);
/* Leaves: the last of them frees every allocation, local buffers included. */
int ocm_tini(void);

/* NULL if there is no room, the kind is GPU or unknown, or a length is 0. Both buffers start as zeros;
 * the local one is page-aligned. */
ocm_alloc_t ocm_alloc(ocm_alloc_param_t params);
int ocm_free(ocm_alloc_t allocation);

/* The local buffer: valid until ocm_free or the last ocm_tini. */
int ocm_localbuf(ocm_alloc_t allocation, void** buf, size_t* len);
/* True for the remote kinds; false for the others, and for what is no allocation. */
bool ocm_is_remote(ocm_alloc_t allocation);
/* The kind that was asked for; 0, which is no kind, for what is no allocation. */
enum ocm_kind ocm_alloc_kind(ocm_alloc_t allocation);
/* The bytes of the remote buffer; an error for the local kinds. */
int ocm_remote_sz(ocm_alloc_t allocation, size_t* len);

/* Moves the whole local buffer's length between a plain pointer and the allocation's local buffer. */
int ocm_copy_out(void* dst, ocm_alloc_t src);
int ocm_copy_in(ocm_alloc_t dst, void* src);

/* Moves `bytes`; every range is checked before the first byte moves. With op_flag 1:
 *   local  -> local:  dst[dest_offset] <- src[src_offset]
 *   local  -> remote: dst's local[dest_offset] <- src[src_offset];
 *                     then dst's remote[dest_offset_2] <- its local[src_offset_2]
 *   remote -> local:  src's local[src_offset] <- its remote[dest_offset];
 *                     then dst[dest_offset] <- src's local[src_offset]
 *   remote -> remote: dst's remote[dest_offset] <- src's remote[src_offset], from node to node
 * With op_flag 0 the same, with dst and src exchanged. Ranges may overlap. `params` is only read. */
int ocm_copy(ocm_alloc_t dst, ocm_alloc_t src, ocm_param_t params);

/* Between the two buffers of a pair. op_flag 1: remote[dest_offset] <- local[src_offset];
 * op_flag 0: local[src_offset] <- remote[dest_offset]. When it returns, the bytes have arrived. */
int ocm_copy_onesided(ocm_alloc_t allocation, ocm_param_t params);

#ifdef __cplusplus
}
#endif

#endif /* ONCILLAMEM_H */
