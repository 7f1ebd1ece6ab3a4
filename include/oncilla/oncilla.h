/* Oncilla: the memory of a cluster as one address space. The C interface.
 *
 * A program opens a session with the daemon of its node, allocates memory anywhere in the cluster,
 * and moves bytes by one-sided put and get. Memory is non-coherent by contract: a get sees a put that
 * completed remotely before the get started; fences and atomics order the rest.
 *
 * Conventions that hold for every function here (C99 or later, C++11 or later):
 *  - Names are ocm_OBJECT_VERB. What moves bytes or waits for them is the verb alone (ocm_put, ocm_fence), and what only
 *    gives a value is that value (ocm_version, ocm_allocation_bytes). Former names work as before: at the end.
 *  - The result is 0 or a negative `ocm_status`. Outputs are written on success only.
 *  - Nothing aborts the caller. `ocm_last_error()` has the sentence that says what to do, and
 *    `ocm_last_error_info()` the node and the subject that it is about.
 *  - Sized structs: set `size = sizeof(struct)`, or start from the matching `*_INIT`; zeros are defaults.
 *  - Every function may be called from any thread. Operations of one thread in one session to one extent complete
 *    in order, whichever handles they use; all others complete in any order.
 *  - Times are nanoseconds, lengths and offsets are bytes. A deadline of 0 means the session's default
 *    (the failure deadline, 3 s): it bounds the time without progress, not the whole transfer.
 *  - A buffer that the program may not touch is INVALID_ARGUMENT where the kernel copies (over tcp, long puts, and
 *    long gets after their first part) and SIGSEGV elsewhere. What such a put leaves in its range is undefined.
 *  - A put or get that returned an error does nothing more to the program's buffer. After DEADLINE or
 *    PEER_LOST a put may have reached the memory in whole, in part or not at all, and what was sent may
 *    still land there while its node lives: put again, or get, to know. Of REPLICATED memory a get asks one
 *    replica: only putting again makes them equal. (ocm_op_wait's DEADLINE is not the operation's end: buffer
 *    and memory stay in use until it completes.)
 *  - Freeing or closing waits for operations that were started and are not complete. No other call on the
 *    same allocation or session may run in another thread meanwhile: its memory would be unmapped.
 *  - After fork() the child's handles are INVALID_ARGUMENT; it opens a session of its own. The parent's
 *    stay valid.
 *  - A `visit` callback may call any function here.
 */
#ifndef ONCILLA_ONCILLA_H
#define ONCILLA_ONCILLA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabrics.h"
#include "kinds.h"

#ifdef ONCILLAMEM_H /* the 2013 header, where it came first, has an `enum ocm_kind` of its own */
#define ocm_kind ocm_memory_kind
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define OCM_API __attribute__((visibility("default")))
#define OCM_VERSION_MAJOR 0
#define OCM_VERSION_MINOR 1
#define OCM_VERSION_PATCH 0

/* Status codes, grouped by the largest thing they break: call < allocation < peer < node < cluster. */
typedef enum ocm_status {
  OCM_OK = 0,
  /* call: this call did nothing; the next one may succeed */
  OCM_INVALID_ARGUMENT = -1, /* an argument is invalid (null, zero, unknown enum value) */
  OCM_OUT_OF_RANGE = -2,     /* offset and length leave the allocation, or overflow */
  OCM_DEADLINE = -3,         /* the deadline passed; the operation may still complete */
  OCM_QUEUE_FULL = -4,  /* a bounded queue or table is full; wait for an operation to finish, then retry */
  OCM_UNSUPPORTED = -5, /* this build, kind, layout or fabric cannot do it */
  OCM_TOO_LARGE = -6,   /* a message, name, list or request is over its limit */
  OCM_CANCELLED = -7,   /* the session was closed under the operation */
  /* allocation: this allocation is not usable (any more) in this way */
  OCM_POOL_FULL = -20,  /* no node offers that many free bytes of that kind */
  OCM_NOT_FOUND = -21,  /* no such name, allocation or extent */
  OCM_EXISTS = -22,     /* the name is taken */
  OCM_REVOKED = -23,    /* freed, removed or reused: the handle's generation is over */
  OCM_PERMISSION = -24, /* read-only attachment, wrong capability, or not the owner */
  OCM_LOST = -25,       /* the bytes are gone: every copy was on nodes or devices that failed */
  OCM_QUOTA = -26,      /* the user's quota is used up */
  /* peer: one node, or the connection to it */
  OCM_PEER_LOST = -40,    /* the node died, was cut off or stopped answering within the deadline */
  OCM_PROTOCOL = -41,     /* it sent what the protocol does not allow; the connection was closed */
  OCM_AUTH = -42,         /* wrong token, certificate or session key */
  OCM_BAD_CHECKSUM = -43, /* a CRC32C did not match */
  /* node: the local machine or daemon */
  OCM_NO_DAEMON = -60, /* no daemon at the socket: start one with `ocm up` or `oncillad` */
  OCM_NO_MEMORY = -61, /* the operating system refused memory */
  OCM_NO_FDS = -62,    /* out of file descriptors: raise `ulimit -n` (LimitNOFILE) */
  OCM_IO = -63,        /* another error of the operating system */
  OCM_DRAINING = -64,  /* the daemon is shutting down */
  OCM_LIMIT = -65,     /* a limit of the daemon on sessions, connections or extents */
  /* cluster */
  OCM_NO_COORDINATOR = -80, /* the coordinator cannot be reached; names wait, data goes on */
  OCM_UNKNOWN_NODE = -81,   /* no node of that name in the cluster */
  OCM_INTERNAL = -99        /* a fault in Oncilla itself: please report it */
} ocm_status;

/* The fixed sentence for a status; never NULL. */
OCM_API const char* ocm_strerror(int status);
/* The short name, such as "POOL_FULL"; never NULL. */
OCM_API const char* ocm_status_name(int status);
/* What exactly went wrong in this thread's last failed call and what to do; "" if nothing.
 * Valid until this thread's next call. */
OCM_API const char* ocm_last_error(void);
/* What the subject of an error is. */
typedef enum ocm_subject {
  OCM_SUBJECT_NONE = 0,
  OCM_SUBJECT_ALLOCATION = 1, /* by its published name */
  OCM_SUBJECT_TABLE = 2,
  OCM_SUBJECT_SEGMENT = 3, /* of a table: what was appended at once */
  OCM_SUBJECT_COLUMN = 4,
  OCM_SUBJECT_OPTION = 5, /* an argument, or a member of a struct of options */
  OCM_SUBJECT_HANDLE = 6  /* "session", "allocation", "operation" or "table" */
} ocm_subject;
/* What an error is about, as fields: a program need not read the sentence. */
typedef struct ocm_error_info {
  size_t size;
  int status;               /* an ocm_status; OCM_OK if nothing has failed in this thread */
  ocm_subject subject_kind; /* programs should ignore kinds that they do not know */
  const char* node;         /* the name of the node that it is about; "" if of none, or more than 255 bytes */
  const char* subject;      /* the name of what it is about; the same */
} ocm_error_info;
#define OCM_ERROR_INFO_INIT \
  { sizeof(ocm_error_info), 0, OCM_SUBJECT_NONE, NULL, NULL }
/* The fields of this thread's last failed call, whose sentence is ocm_last_error(). It does not change them; its
 * own failure (INVALID_ARGUMENT: `info` or its size) is in the result alone. The strings are valid until this
 * thread's next call of another function here. Names are bytes as the caller gave them: not always UTF-8. */
OCM_API int ocm_last_error_info(ocm_error_info* info);
/* "MAJOR.MINOR.PATCH" of the library that is loaded. */
OCM_API const char* ocm_version(void);

/* Where bytes live. A node offers a budget of each (a pool). They have their lines in oncilla/kinds.h: OCM_KIND_DRAM and
 * so on. */
typedef enum ocm_kind { OCM_KINDS(OCM_KIND_CONSTANT) } ocm_kind;
/* How an allocation is laid over its extents. */
typedef enum ocm_layout {
  OCM_LAYOUT_SINGLE = 0,     /* one extent */
  OCM_LAYOUT_STRIPED = 1,    /* chunks of chunk_bytes, round robin over the extents */
  OCM_LAYOUT_REPLICATED = 2, /* every extent holds all bytes */
  OCM_LAYOUT_SEQUENCE = 3    /* extents of any lengths one after another, as ocm_allocation_join made them */
} ocm_layout;
/* How bytes reach an extent. ANY: shared memory on this host, else the best that both sides have. The others have
 * their lines in oncilla/fabrics.h: OCM_FABRIC_SHM and so on. */
typedef enum ocm_fabric { OCM_FABRIC_ANY = 0, OCM_FABRICS(OCM_FABRIC_CONSTANT) } ocm_fabric;
/* What an attachment may do. HOLD is or-ed to one of the others, for ocm_allocation_attach: the memory stays until this
 * handle ends, also when its name is removed meanwhile. */
typedef enum ocm_access { OCM_ACCESS_READ = 1, OCM_ACCESS_READ_WRITE = 3, OCM_ACCESS_HOLD = 4 } ocm_access;

typedef struct ocm_session ocm_session;       /* a program's connection to its local daemon */
typedef struct ocm_allocation ocm_allocation; /* what the program holds: extents with a layout */
typedef struct ocm_op ocm_op;                 /* an operation under way */

/* ------------------------------------------------------------------ session */

enum {
  OCM_SESSION_EMBEDDED = 1u << 0,          /* no daemon: a single node inside this process */
  OCM_SESSION_EMBEDDED_FALLBACK = 1u << 1, /* the same, only if no daemon answers */
};
/* How a session is opened. */
typedef struct ocm_session_options {
  size_t size;
  const char* socket_path; /* NULL: $OCM_SOCKET, else /run/oncilla/oncillad.sock */
  const char* program;     /* a name to show in `ocm top`; NULL: the process' own */
  uint32_t flags;          /* OCM_SESSION_* */
  ocm_fabric fabric;       /* the default for allocations of this session */
  uint64_t deadline_ns;    /* the default deadline; 0: the cluster's failure deadline */
  uint64_t embedded_bytes; /* budget of an embedded node; 0: 1 GiB */
} ocm_session_options;
#define OCM_SESSION_OPTIONS_INIT \
  { sizeof(ocm_session_options), NULL, NULL, 0, OCM_FABRIC_ANY, 0, 0 }

/* For languages that handle signals between calls. A call that sleeps calls `check` with `context`, on its own thread,
 * about every 50 ms. If `check` does not return 0, the call ends with DEADLINE, as if its deadline had passed, and no wait
 * of that call goes on. `may_call` is 0 while the call holds locks: `check` must then only look whether a signal waits;
 * else it may call anything here except on the handles of that call. A put, get, copy or atomic that ends so uses no
 * buffer of the program any more. It may have been applied, or a part of it; some replicas may have it and others not,
 * until they are written again. What was started with ocm_*_start goes on, unless it was waited for with OCM_WAIT_FREE.
 * Set it before other calls; it holds for the whole process. NULL, the default: none. */
OCM_API void ocm_interrupt_check(int (*check)(int may_call, void* context), void* context);

/* Opens a session. `options` may be NULL. Its allocations end with it unless they were published.
 * Errors: NO_DAEMON, LIMIT, AUTH, DRAINING. Source: Oncilla (Cluster '13) IV, ocm_init. */
OCM_API int ocm_session_open(const ocm_session_options* options, ocm_session** session);
/* Waits for operations in progress (until their deadline), frees every unpublished allocation and the handles. */
OCM_API int ocm_session_close(ocm_session* session);
/* For libraries that keep something with a session of their caller's: `hook` is called with `context` once, by the thread
 * that closes the session and before anything of it ends; the one that was registered last first. It may use the objects
 * of the session (operations, allocations), not the session's handle, which is not live any more. Not in a forked child.
 * Errors: INVALID_ARGUMENT (`hook` is null, or no session), REVOKED (it was closed). */
OCM_API int ocm_session_on_close(ocm_session* session, void (*hook)(void* context), void* context);

/* ------------------------------------------------------------------ allocation */

enum {
  OCM_ALLOCATION_DEDICATED = 1u << 0, /* an extent of its own, not a piece of a slab */
  OCM_ALLOCATION_ZERO = 1u << 1,      /* zero a piece of a slab too (own extents always read as zeros) */
  OCM_ALLOCATION_POPULATE = 1u << 2,  /* allocate the pages now rather than at first access */
  OCM_ALLOCATION_HUGEPAGES = 1u << 3, /* back with huge pages if the node has them */
  OCM_ALLOCATION_LOCAL = 1u << 4,     /* on the session's own node; see ocm_allocation_map */
  OCM_ALLOCATION_REMOTE = 1u << 5,    /* on any node but the session's own; POOL_FULL if it is alone */
  OCM_ALLOCATION_CHECKSUM = 1u << 6,  /* CRC32C over payloads on the wire */
  /* Of kind nvme, on nodes that have a pool (ocm pool create): what is put is on the device when the put is complete,
   * and once published it is there under its name after a restart or a crash of its daemons. UNSUPPORTED where no
   * node keeps memory of that kind. */
  OCM_ALLOCATION_DURABLE = 1u << 7,
  /* Any node may cache pages of it, and reads, writes and atomics by any program see one memory: what a put that is
   * complete wrote is what every later get reads, on whichever node. Of kind dram, single or striped, and sequences of
   * such; kind nvme is coherent with and without it. ocm_allocation_map gives the pages that the program's daemon caches,
   * on every node. Its length is rounded up to pages of 64 KiB ([offer.dram] page_bytes). A put is complete in the
   * cache of the program's node; what that node alone has is lost, and told as LOST, if its daemon dies. Where the home
   * runs without a cache there is one copy, there. UNSUPPORTED with DURABLE, with layout REPLICATED, of other kinds, and
   * where daemons are older than it. */
  OCM_ALLOCATION_COHERENT = 1u << 8,
};
/* What is to be allocated. */
typedef struct ocm_allocation_options {
  size_t size;
  ocm_kind kind;
  ocm_layout layout;
  uint32_t extents;         /* stripes, or replicas (at most 64); 0: named nodes' count, else 2 for
                               REPLICATED, all nodes with room for STRIPED */
  uint64_t chunk_bytes;     /* STRIPED: a multiple of 64; 0: 1 MiB */
  const char* const* nodes; /* "transparent" placement: equal shares on these nodes, by name */
  size_t nodes_count;       /* 0: "opaque" placement, the cluster chooses */
  ocm_fabric fabric;
  uint32_t flags; /* OCM_ALLOCATION_* */
} ocm_allocation_options;
#define OCM_ALLOCATION_OPTIONS_INIT \
  { sizeof(ocm_allocation_options), OCM_KIND_DRAM, OCM_LAYOUT_SINGLE, 0, 0, NULL, 0, OCM_FABRIC_ANY, 0 }

/* Allocates `bytes` (> 0). `options` may be NULL: DRAM, single, placed by the cluster, nearest first.
 * Up to 32 KiB of single, opaque DRAM comes out of a slab lent to the session, without a call.
 * Cost: at most 1 us from a slab, one control round trip otherwise.
 * Errors: POOL_FULL (says what is free and where), QUOTA, UNKNOWN_NODE, UNSUPPORTED (kind, or flags that exclude each
 * other or are not supported by the daemons).
 * Source: Oncilla (Cluster '13) IV, oncilla_alloc: opaque and transparent operators. */
OCM_API int ocm_allocation_create(ocm_session* session, uint64_t bytes, const ocm_allocation_options* options,
                                  ocm_allocation** allocation);
/* Gives the memory back and ends the handle. A published allocation is detached, not removed. Waits for
 * its started operations; see the conventions for calls of other threads. Errors: REVOKED (freed before). */
OCM_API int ocm_allocation_free(ocm_allocation* allocation);
/* Makes one allocation of several: part i begins at the sum of the lengths of the parts before it. Parts are
 * unpublished, DRAM, of this session, not pieces of slabs (allocate them DEDICATED), and either all SINGLE or
 * all REPLICATED. Their handles end, as by free but the memory stays, and their pointers are valid as long as
 * the joined allocation. On an error the parts are as they were. At most 8,192 extents.
 * A sequence of REPLICATED parts is for reading: what puts to it is UNSUPPORTED. Atomics and notified words
 * must be aligned in their part too.
 * Cost: one control round trip; no home is asked and nothing is copied.
 * Errors: INVALID_ARGUMENT (no parts, one given twice or published, replicated and other parts mixed),
 * UNSUPPORTED (slab, striped or joined parts), TOO_LARGE, REVOKED, PEER_LOST (the daemon restarted, and a part's home
 * does not answer). */
OCM_API int ocm_allocation_join(ocm_session* session, ocm_allocation* const* parts, size_t count,
                                ocm_allocation** joined);
/* Its length as asked for; 0 if the handle is invalid. */
OCM_API uint64_t ocm_allocation_bytes(const ocm_allocation* allocation);

/* What an allocation is. */
typedef struct ocm_allocation_info {
  size_t size;
  uint64_t bytes;
  ocm_kind kind;
  ocm_layout layout;
  uint64_t chunk_bytes;
  uint32_t extents;
  ocm_access access;
  bool published;
  bool slab; /* a piece of a slab lent to the session */
  /* Of its name; 0 and 0 while it has none. A published one with mode 0: the library is older than these fields. */
  uint32_t owner_uid;
  uint32_t mode;
  uint32_t own_uid; /* the uid that the daemon sees for this program; in a container it may be another */
  bool durable;     /* OCM_ALLOCATION_DURABLE; of a sequence: all parts */
  /* What events name it by (ocm_event). Handles of one published allocation have the same, and so have the pieces of one
   * slab. */
  uint8_t id[16];
  bool coherent; /* OCM_ALLOCATION_COHERENT, or of a kind that always is; of a sequence: all parts */
} ocm_allocation_info;
#define OCM_ALLOCATION_INFO_INIT                                                                           \
  {                                                                                                        \
    sizeof(ocm_allocation_info), 0, OCM_KIND_DRAM, OCM_LAYOUT_SINGLE, 0, 0, OCM_ACCESS_READ, false, false, \
        0, 0, 0, false, {0}, false                                                                         \
  }
/* Describes the allocation.
 * Shapes: info->size must be set (OCM_ALLOCATION_INFO_INIT); no more than that is written. */
OCM_API int ocm_allocation_query(const ocm_allocation* allocation, ocm_allocation_info* info);

/* What one extent is. */
typedef struct ocm_extent_info {
  size_t size;
  uint64_t global_address; /* 24 bits partition, 40 bits offset (DPGAS 3.4) */
  uint64_t bytes;
  uint32_t generation;
  ocm_fabric fabric; /* how this session reaches it */
  bool
      local; /* in memory of this host: ocm_allocation_map works in it, except for replicas attached for writing */
  bool lost; /* its node is known to be gone */
  char node[64];
  uint64_t offset; /* SEQUENCE: where its bytes begin in the allocation; else 0 */
} ocm_extent_info;
#define OCM_EXTENT_INFO_INIT \
  { sizeof(ocm_extent_info), 0, 0, 0, OCM_FABRIC_ANY, false, false, {0}, 0 }
/* Where extent `index` of the allocation lives. OUT_OF_RANGE past the last.
 * Shapes: info->size must be set (OCM_EXTENT_INFO_INIT). */
OCM_API int ocm_allocation_extent_query(const ocm_allocation* allocation, uint32_t index,
                                        ocm_extent_info* info);

/* A pointer to bytes [offset, offset + bytes) where they are contiguous on this host, or in pages that the daemon caches.
 * It is valid until the allocation is freed. After a read-only attach, a store through it faults. Once
 * another program has removed the allocation, the bytes are undefined.
 * Pages that daemons cache (COHERENT, or kind nvme and not DURABLE; any range of one extent, on every node): loads and
 * stores of programs of all nodes see one memory, the one that put, get and atomics see, and the processor's atomics
 * work in it. A thread that touches a page that is not here waits until it is. What cannot be had any more (the home or the daemon is gone, the page
 * is lost, the allocation was removed) gives SIGBUS; such a pointer stays so, and mapping anew gives another one, by
 * which it can be had if it has come back. A forked child has no such pages: it gets SIGSEGV. Calls of the system on such bytes (read, write)
 * wait as the program does, unless the program may not ask for that (it needs /dev/userfaultfd or CAP_SYS_PTRACE): they end
 * with EFAULT then where a page is not here, so touch the bytes first. Not for O_DIRECT, nor for memory that a device is to
 * read or write. Source: vGASNet (HPC Asia '18), for which the API had put and get only.
 * REPLICATED, also in a sequence: only after a read-only attach. It points into the replica on this host,
 * which was current at this call; what others put later may miss it if this node is cut off. Errors:
 * UNSUPPORTED (remote and not cached, crosses a stripe or a part, replicas to write, a small extent of a node with few
 * descriptors, which programs reach over the network only, or a kernel older than Linux 5.19, for cached pages),
 * OUT_OF_RANGE, PEER_LOST (a replica that is not current), LIMIT (a user maps at most 128 cached extents of a node). */
OCM_API int ocm_allocation_map(ocm_allocation* allocation, uint64_t offset, uint64_t bytes, void** pointer);

/* ------------------------------------------------------------------ put and get */

/* Writes [source, source + bytes) to the allocation at `offset`, and returns when it is complete
 * remotely: a later get by anyone sees it. REPLICATED: on every replica that is alive; two programs or threads that
 * put to the same bytes at once may leave the replicas different (order them by fences or atomics).
 * Cost: no allocation, lock or system call below 2 KiB on shm.
 * Time: where replicas fail, the daemon is asked what became of them. Each question waits for at most four
 * failure deadlines of the cluster (12 s), or twice the session's deadline and a second if that is longer; one
 * that is not answered is the last, and the put fails. The put starts over with replicas that were made again,
 * at most eight times. Moving the bytes takes its own time: a node fails after a deadline without progress.
 * The same holds for gets, copies and the asynchronous forms.
 * Errors: OUT_OF_RANGE, PERMISSION, REVOKED, PEER_LOST. Source: Oncilla (Cluster '13) IV, ocm_copy. */
OCM_API int ocm_put(ocm_allocation* allocation, uint64_t offset, const void* source, uint64_t bytes);
/* Reads [offset, offset + bytes) of the allocation into `target`. On an error the bytes of `target`
 * are unspecified. Errors: OUT_OF_RANGE, REVOKED (also when it was removed meanwhile), PEER_LOST, LOST. */
OCM_API int ocm_get(ocm_allocation* allocation, uint64_t offset, void* target, uint64_t bytes);

/* One piece of a vectored transfer. */
typedef struct ocm_segment {
  uint64_t offset; /* in the allocation */
  void* pointer;   /* in this program; read by putv, written by getv */
  uint64_t bytes;
} ocm_segment;
/* Vectored: all segments, in one window of operations. On an error any of them may have been moved. */
OCM_API int ocm_putv(ocm_allocation* allocation, const ocm_segment* segments, size_t count);
OCM_API int ocm_getv(ocm_allocation* allocation, const ocm_segment* segments, size_t count);

/* Strided in two dimensions: `rows` rows of `row_bytes`; row i lies at offset + i * stride in the
 * allocation and at pointer + i * pointer_stride here. */
OCM_API int ocm_put_strided(ocm_allocation* allocation, uint64_t offset, uint64_t stride, const void* pointer,
                            uint64_t pointer_stride, uint64_t row_bytes, uint64_t rows);
OCM_API int ocm_get_strided(ocm_allocation* allocation, uint64_t offset, uint64_t stride, void* pointer,
                            uint64_t pointer_stride, uint64_t row_bytes, uint64_t rows);

/* One end of a copy: an allocation and an offset in it, or (allocation NULL) a plain pointer. */
typedef struct ocm_place {
  ocm_allocation* allocation;
  uint64_t offset;
  void* pointer;
} ocm_place;
static inline ocm_place ocm_place_in(ocm_allocation* allocation, uint64_t offset) {
  ocm_place place = {allocation, offset, NULL};
  return place;
}
static inline ocm_place ocm_place_at(const void* pointer) {
  ocm_place place = {NULL, 0, (void*)pointer};
  return place;
}
/* Copies `bytes` between any two of {pointer, allocation}. Remote to remote goes from node to node and
 * not through the program. Overlapping ranges of one allocation, and allocations of two sessions, are
 * INVALID_ARGUMENT. */
OCM_API int ocm_place_copy(ocm_place target, ocm_place source, uint64_t bytes);

/* ------------------------------------------------------------------ asynchronous forms */

/* Each starts the operation and gives a handle, to be ended by ocm_op_free (or ocm_op_wait with
 * OCM_WAIT_FREE). `source` must stay unchanged until local completion, `target` alive until complete.
 * Operations make progress in calls that wait, test or fence, and otherwise in a thread of the session, which sleeps when
 * there is nothing to do: the program may compute meanwhile. Starting an operation connects to its node if necessary. It
 * waits if the operation is too long to be sent at once, and on replicated memory for earlier operations (a put for all of
 * them, a get for puts). If another program removes the allocation meanwhile, its operations end with REVOKED. */
OCM_API int ocm_put_start(ocm_allocation* allocation, uint64_t offset, const void* source, uint64_t bytes,
                          ocm_op** op);
OCM_API int ocm_get_start(ocm_allocation* allocation, uint64_t offset, void* target, uint64_t bytes,
                          ocm_op** op);
OCM_API int ocm_putv_start(ocm_allocation* allocation, const ocm_segment* segments, size_t count,
                           ocm_op** op);
OCM_API int ocm_getv_start(ocm_allocation* allocation, const ocm_segment* segments, size_t count,
                           ocm_op** op);
OCM_API int ocm_put_strided_start(ocm_allocation* allocation, uint64_t offset, uint64_t stride,
                                  const void* pointer, uint64_t pointer_stride, uint64_t row_bytes,
                                  uint64_t rows, ocm_op** op);
OCM_API int ocm_get_strided_start(ocm_allocation* allocation, uint64_t offset, uint64_t stride, void* pointer,
                                  uint64_t pointer_stride, uint64_t row_bytes, uint64_t rows, ocm_op** op);
OCM_API int ocm_place_copy_start(ocm_place target, ocm_place source, uint64_t bytes, ocm_op** op);

enum {
  OCM_WAIT_REMOTE = 0,      /* until complete: visible to every later get */
  OCM_WAIT_LOCAL = 1u << 0, /* until the local buffer may be reused; a put to REPLICATED: until complete */
  OCM_WAIT_FREE = 1u << 1,  /* free the handle when it has completed, also with an error (not at DEADLINE) */
};
/* Waits at most `deadline_ns` in all (0: the session's default without progress). Returns the
 * operation's own status, or DEADLINE: then it is still under way and the handle stays. */
OCM_API int ocm_op_wait(ocm_op* op, uint32_t flags, uint64_t deadline_ns);
/* Returns 1 if complete without error, 0 if in progress, or the negative status that it completed with. Does not wait, but
 * makes progress, for which it may connect to a node; after ocm_op_signal it only returns the state. */
OCM_API int ocm_op_test(ocm_op* op);
/* For event loops: `eventfd`, one of eventfd(2), becomes readable once the operation is complete, at once if it is; one
 * may serve many operations, each of which adds 1. A negative one cancels that. It must stay open until it was read for
 * the operation, or the handle has ended. The operation makes progress without calls. */
OCM_API int ocm_op_signal(ocm_op* op, int eventfd);
/* The operation ends with CANCELLED unless it is complete: at once, or where a thread is just connecting to a node for it
 * right after that, as ocm_op_wait, ocm_op_test and ocm_op_signal tell. Then nothing touches its buffers any more. What was
 * sent may still be applied, in whole or in part, and of REPLICATED memory to some replicas alone: put again, or get, to
 * know. Does not wait; the handle stays. */
OCM_API int ocm_op_cancel(ocm_op* op);
/* Ends the handle; waits first if the operation is under way (ocm_wait_at_least_start: ends it instead). */
OCM_API int ocm_op_free(ocm_op* op);
/* For event loops: 1 if an operation that is started on these bytes now is under way at once; 0 if that may wait first: for
 * a connection to a node, for the daemon, or for earlier operations. Does not wait. Errors: OUT_OF_RANGE. */
OCM_API int ocm_allocation_ready(ocm_allocation* allocation, uint64_t offset, uint64_t bytes);
/* Returns when every put and atomic that this session started on the allocation is complete remotely;
 * the first error among those whose handles were freed early is returned here. */
OCM_API int ocm_fence(ocm_allocation* allocation);
/* The same for every allocation of the session. */
OCM_API int ocm_session_fence(ocm_session* session);

/* ------------------------------------------------------------------ atomics and notification */

/* 64-bit atomics at the home, sequentially consistent among themselves whatever fabric they arrive over.
 * `offset` is a multiple of 8. `old` (may be NULL) receives the value before.
 * Errors: INVALID_ARGUMENT (alignment), UNSUPPORTED (REPLICATED). */
OCM_API int ocm_atomic_fetch_add(ocm_allocation* a, uint64_t offset, uint64_t operand, uint64_t* old);
OCM_API int ocm_atomic_swap(ocm_allocation* a, uint64_t offset, uint64_t operand, uint64_t* old);
OCM_API int ocm_atomic_compare_swap(ocm_allocation* a, uint64_t offset, uint64_t expected, uint64_t desired,
                                    uint64_t* old);
OCM_API int ocm_atomic_and(ocm_allocation* a, uint64_t offset, uint64_t operand, uint64_t* old);
OCM_API int ocm_atomic_or(ocm_allocation* a, uint64_t offset, uint64_t operand, uint64_t* old);
OCM_API int ocm_atomic_xor(ocm_allocation* a, uint64_t offset, uint64_t operand, uint64_t* old);

/* The same, only started: `old` is written before the operation is complete, and must be alive until then. An operation
 * that fails was not applied, unless it fails with PEER_LOST: then it may have been. */
OCM_API int ocm_atomic_fetch_add_start(ocm_allocation* a, uint64_t offset, uint64_t operand, uint64_t* old,
                                       ocm_op** op);
OCM_API int ocm_atomic_swap_start(ocm_allocation* a, uint64_t offset, uint64_t operand, uint64_t* old,
                                  ocm_op** op);
OCM_API int ocm_atomic_compare_swap_start(ocm_allocation* a, uint64_t offset, uint64_t expected,
                                          uint64_t desired, uint64_t* old, ocm_op** op);
OCM_API int ocm_atomic_and_start(ocm_allocation* a, uint64_t offset, uint64_t operand, uint64_t* old,
                                 ocm_op** op);
OCM_API int ocm_atomic_or_start(ocm_allocation* a, uint64_t offset, uint64_t operand, uint64_t* old,
                                ocm_op** op);
OCM_API int ocm_atomic_xor_start(ocm_allocation* a, uint64_t offset, uint64_t operand, uint64_t* old,
                                 ocm_op** op);

/* Notified access: the put, then `value` is added to the 64-bit word at `notify_offset`, which a waiter
 * sees only after the bytes; a put that failed adds nothing. Both in the same extent.
 * Source: GPU RMA thesis, notified access. */
OCM_API int ocm_put_notify(ocm_allocation* allocation, uint64_t offset, const void* source, uint64_t bytes,
                           uint64_t notify_offset, uint64_t value);
OCM_API int ocm_put_notify_start(ocm_allocation* allocation, uint64_t offset, const void* source,
                                 uint64_t bytes, uint64_t notify_offset, uint64_t value, ocm_op** op);
/* Waits until the word at `offset` is at least `value` (unsigned). `seen` may be NULL.
 * Errors: DEADLINE, REVOKED, PEER_LOST, INVALID_ARGUMENT (alignment). */
OCM_API int ocm_wait_at_least(ocm_allocation* allocation, uint64_t offset, uint64_t value,
                              uint64_t deadline_ns, uint64_t* seen);
/* The same, only started: complete when the word is at least `value`; a deadline of 0 is none. The session's thread looks at
 * the word up to a thousand times a second, the more seldom the more words of other nodes are waited for. `seen` must be
 * alive until it is complete. No fence waits for it, and nothing that is started later. To give up: ocm_op_cancel or
 * ocm_op_free; freeing the allocation ends it with REVOKED. */
OCM_API int ocm_wait_at_least_start(ocm_allocation* allocation, uint64_t offset, uint64_t value,
                                    uint64_t deadline_ns, uint64_t* seen, ocm_op** op);

/* ------------------------------------------------------------------ names */

/* Gives the allocation a name (1 to 255 bytes of UTF-8 without '\0' or '/') under which other sessions attach
 * it; it then outlives the session. A piece of a slab is moved to an extent of its own first, unless its
 * pointer was taken (then UNSUPPORTED: allocate it DEDICATED). `mode`: POSIX-like bits, 0 for 0600;
 * read and write of the owner (0600) and of others (0006). While X is published, only its
 * owner and root may publish names that start with `X~`. Errors: EXISTS (the name is taken, or this handle was published
 * already, even if that name was removed since), PERMISSION, REVOKED (an earlier publish without an answer succeeded, and
 * the name was removed), NO_COORDINATOR, PEER_LOST, DEADLINE, NO_DAEMON. After one of the last four the name may exist, or
 * appear a moment later: publish again under the same name to find out. If you free the allocation instead, the name goes
 * with it; after NO_COORDINATOR and PEER_LOST the end of the program has the same effect. If PEER_LOST persists, a home has
 * restarted, and the bytes that it had are lost. */
OCM_API int ocm_allocation_publish(ocm_allocation* allocation, const char* name, uint32_t mode);
/* Attaches a published allocation. READ is enforced by the mapping and by the remote node.
 * With OCM_ACCESS_HOLD its homes are asked to keep the memory: the hold ends with the handle, with the session, however
 * that ends, and some time after the death of the session's daemon. A node that seems dead begins to hold its part when it
 * answers again, if the part is still there; until then the part answers PEER_LOST. Cost: with HOLD one more
 * round trip, to all homes at once. Errors: NOT_FOUND, PERMISSION, NO_COORDINATOR; with HOLD PEER_LOST (a home does
 * not answer, or all seem dead), LIMIT. */
OCM_API int ocm_allocation_attach(ocm_session* session, const char* name, ocm_access access,
                                  ocm_allocation** allocation);
/* Removes the name. Its memory is freed, and attached handles get REVOKED; while handles with HOLD exist, all
 * handles stay valid until the last of those has ended, and the memory counts as used until then. Returns when the homes
 * were told. Errors: NOT_FOUND, PERMISSION, NO_COORDINATOR: the name may still be removed, now or a moment later, but
 * only from the allocation that had it during the call. */
OCM_API int ocm_name_remove(ocm_session* session, const char* name);

/* What a published name stands for. */
typedef struct ocm_name_info {
  size_t size;
  char name[256];
  uint64_t bytes;
  ocm_kind kind;
  ocm_layout layout;
  uint32_t extents;
  uint32_t owner_uid;
  uint32_t mode;
  bool lost;                 /* part of it was on a node that died */
  uint32_t replicas_missing; /* of `extents`: given up, or on a node that is gone; 0 if it is lost */
  bool durable;              /* it is there after a restart of its nodes */
  bool coherent;             /* any node may cache pages of it */
} ocm_name_info;
#define OCM_NAME_INFO_INIT \
  { sizeof(ocm_name_info), {0}, 0, OCM_KIND_DRAM, OCM_LAYOUT_SINGLE, 0, 0, 0, false, 0, false, false }
/* Calls `visit` for each published name with the prefix ("" or NULL: all) until it returns false. */
OCM_API int ocm_name_list(ocm_session* session, const char* prefix,
                          bool (*visit)(const ocm_name_info* info, void* context), void* context);

/* ------------------------------------------------------------------ cluster */

/* A node as the coordinator sees it. */
typedef enum ocm_node_state {
  OCM_NODE_ALIVE = 1,
  OCM_NODE_SUSPECT = 2,
  OCM_NODE_DEAD = 3,
  OCM_NODE_DRAINING = 4
} ocm_node_state;
/* What a node is and offers. */
typedef struct ocm_node_info {
  size_t size;
  char name[64];
  uint32_t partition;
  ocm_node_state state;
  bool self; /* the session's own node */
  bool coordinator;
  uint64_t pool_bytes[3]; /* of the kinds 0 to 2: the budget offered */
  uint64_t used_bytes[3];
  uint64_t sessions;
  uint64_t extents;
  uint64_t heartbeat_age_ns;
} ocm_node_info;
#define OCM_NODE_INFO_INIT \
  { sizeof(ocm_node_info), {0}, 0, OCM_NODE_ALIVE, false, false, {0}, {0}, 0, 0, 0 }
/* Calls `visit` for each node that the session's daemon knows of until it returns false. */
OCM_API int ocm_node_list(ocm_session* session, bool (*visit)(const ocm_node_info* info, void* context),
                          void* context);

/* ------------------------------------------------------------------ events */

/* What a session can be told unasked. Programs should ignore kinds that they do not know. */
typedef enum ocm_event_kind {
  /* The session's daemon was started again: events of before may be missing. What is so now follows, of what the session
   * holds and of nodes; a node of which nothing follows is alive. */
  OCM_EVENT_RESYNC = 1,
  OCM_EVENT_REVOKED =
      2, /* it was freed, its name removed, or a part of it is gone: operations there get REVOKED */
  OCM_EVENT_MOVED = 3, /* a part of it goes on in another extent, which operations follow by themselves */
  /* Too much of this user is watched at its node: its end is not told, operations say so. */
  OCM_EVENT_UNWATCHED = 4,
  OCM_EVENT_NODE_ALIVE = 5, /* it joined, or is back; another `partition`: what the run before had is gone */
  /* Silent for half of the failure deadline, or the session's daemon has lost its connection to it and finds no other. */
  OCM_EVENT_NODE_SUSPECT = 6,
  OCM_EVENT_NODE_DEAD = 7,
  OCM_EVENT_NODE_DRAINING = 8 /* it was told to stop */
} ocm_event_kind;
/* What has happened. */
typedef struct ocm_event {
  size_t size;
  ocm_event_kind kind;
  uint8_t allocation[16]; /* ocm_allocation_info.id; zeros if it is about a node */
  char name[256];         /* the allocation's, if it has one */
  char node[64];          /* where the extent is or was, or the node itself */
  uint32_t partition;     /* the run of that node's daemon */
} ocm_event;
#define OCM_EVENT_INIT \
  { sizeof(ocm_event), OCM_EVENT_RESYNC, {0}, {0}, {0}, 0 }
/* Waits for the next event of the session: of allocations that it holds, and of all nodes. The first call begins that: what
 * is revoked by then, and the nodes that are not alive, come first. Each event comes to one caller. Of an allocation, or a
 * node, that has several before they are read, only the newest comes: who reads slowly, or never, misses nothing that still
 * holds, and takes no more of the daemon's memory than what it holds already. An end on another node is told within a round
 * trip or two; after a cut as soon as its node is reached again. Operations need no events: they find out by themselves.
 * deadline_ns: as everywhere; UINT64_MAX waits for ever, also while the daemon stands still. A session must not be closed
 * while a thread waits here: let that thread wait for a second at a time, and look between whether it is to end.
 * Errors: DEADLINE (no event until then), NO_DAEMON (the daemon is gone, and did not come back until then). */
OCM_API int ocm_event_next(ocm_session* session, uint64_t deadline_ns, ocm_event* event);

#ifdef __cplusplus
}
#endif

#ifdef ONCILLAMEM_H
#undef ocm_kind
#endif

/* Former names of functions above, deprecated: for programs that were written for them. */
#ifdef __cplusplus
extern "C" {
#endif
OCM_API int ocm_publish(ocm_allocation* allocation, const char* name,
                        uint32_t mode); /* ocm_allocation_publish */
OCM_API int ocm_attach(ocm_session* session, const char* name, ocm_access access,
                       ocm_allocation** allocation); /* ocm_allocation_attach */
OCM_API int ocm_allocation_extent(const ocm_allocation* allocation, uint32_t index,
                                  ocm_extent_info* info); /* ocm_allocation_extent_query */
OCM_API int ocm_allocation_pointer(ocm_allocation* allocation, uint64_t offset, uint64_t bytes,
                                   void** pointer); /* ocm_allocation_map */
#ifdef __cplusplus
}
#endif

/* The short name of the copy, unless the 2013 header, which has another ocm_copy, came first. */
#if !defined(ONCILLAMEM_H) && !defined(OCM_NO_SHORT_NAMES)
static inline int ocm_copy(ocm_place target, ocm_place source, uint64_t bytes) {
  return ocm_place_copy(target, source, bytes);
}
static inline int ocm_copy_start(ocm_place target, ocm_place source, uint64_t bytes, ocm_op** op) {
  return ocm_place_copy_start(target, source, bytes, op);
}
#endif

#endif /* ONCILLA_ONCILLA_H */
