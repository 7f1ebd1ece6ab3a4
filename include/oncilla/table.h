/* Oncilla: tables in the memory of a cluster. Arrow in, Arrow out.
 *
 * A table is one or more segments. A segment is a published allocation: row groups, each in an extent of its
 * own (by column: one for each node, with the columns of that node), and a catalogue that says where each
 * buffer of each column lies. Data moves as the Arrow C stream interface: any engine that speaks it can fill
 * or read a table, and nothing of Arrow is linked.
 *
 * Invariants
 *   T1 What is published is never changed: create publishes the first segment, append the next one, in one
 *      step each. A reader opened before sees none of it, one opened after all of it.
 *   T2 An opened table holds its memory: it lives until it is closed, also when the table was dropped.
 *   T3 On the session's own node a scan copies nothing: arrays point into the extents, but those of packed
 *      columns. From other nodes only the buffers of the wanted columns and row groups are moved, once.
 *   T4 A load that fails, or whose program dies, leaves no name and no memory.
 *
 * Conventions are those of oncilla.h. Errors name the table, and the column or the node that they are about.
 */
#ifndef ONCILLA_TABLE_H
#define ONCILLA_TABLE_H

#include <oncilla/oncilla.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The Arrow C data and stream interfaces, whose text may stand in any header:
 * https://arrow.apache.org/docs/format/CDataInterface.html */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};
#endif
#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
  int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
  const char* (*get_last_error)(struct ArrowArrayStream*);
  void (*release)(struct ArrowArrayStream*);
  void* private_data;
};
#endif

typedef struct ocm_table ocm_table; /* an opened table: a snapshot */

/* Where the row groups of a table go. */
typedef enum ocm_table_placement {
  OCM_TABLE_BY_ROWS = 0,   /* row groups round robin over the nodes; one that is full is passed over */
  OCM_TABLE_BY_COLUMN = 1, /* each column on one node, columns round robin; the next node where one is full */
  OCM_TABLE_WHOLE = 2,     /* on one node; the next one where it is full only if none was named */
  OCM_TABLE_BY_DEFAULT = 3 /* create: by rows; append: as the table was created */
} ocm_table_placement;

enum {
  /* Narrower forms of the same values: decimal128 and decimal256 of at most 18 digits become decimal64; a
   * column of strings becomes a dictionary, decided by its first row group: with an index of 8 bits up to 127
   * distinct values (at most a quarter of the rows), of 16 bits up to 32,767 (at most one in 32 rows). Should
   * a later group have more, every index becomes one of 32 bits. Without it the schema stays as given (views
   * become plain strings, which is said in the schema). Appended rows take the table's form: strings that
   * outnumber its index cut row groups shorter, down to 1,024 rows, and are TOO_LARGE then. The index of a
   * dictionary that was given becomes as narrow as its values allow, and wider again should a later group
   * have more. */
  OCM_TABLE_COMPACT = 1u << 0,
  /* Drops a table of that name when the new one is complete; opening it at that moment fails with NOT_FOUND. */
  OCM_TABLE_REPLACE = 1u << 1,
  /* The nodes to use are any but the session's own. */
  OCM_TABLE_REMOTE = 1u << 2,
  /* Columns of integers (dates, times, decimals of at most 64 bits and indices of dictionaries too) are
   * stored in as few bits as the range of each row group needs, where that saves a quarter or more. The
   * schema stays: a scan widens the values, many times as fast as a network delivers them. Fewer bytes are
   * stored and moved; but even on the session's own node such a column is widened, not read in place.
   * Appended rows are packed if the table is. */
  OCM_TABLE_PACK = 1u << 3,
  /* Of kind nvme, on nodes that have a pool (ocm pool create): the table is there after a restart of its nodes,
   * also after a crash (OCM_ALLOCATION_DURABLE). An appended segment follows the table. */
  OCM_TABLE_DURABLE = 1u << 4,
};
/* How a table is stored. */
typedef struct ocm_table_options {
  size_t size;
  ocm_table_placement placement;
  const char* const* nodes; /* by name, in the order of use */
  size_t nodes_count;       /* 0: create: every node with room, the session's own first; append: those that
                               the table was created for, by name, by OCM_TABLE_REMOTE or by its placement */
  uint32_t replicas;    /* copies of each row group on different nodes; 0: create: 1; append: the table's */
  uint32_t mode;        /* of the name, as in ocm_allocation_publish; 0: 0600; append: the table's */
  uint64_t group_rows;  /* at most so many rows in a group; 0: 524,288 */
  uint64_t group_bytes; /* and about so many bytes; 0: 64 MiB */
  uint32_t flags;       /* OCM_TABLE_* */
  /* Called after each row group that is stored with what is done so far; false stops the load (CANCELLED). */
  bool (*progress)(uint64_t rows, uint64_t bytes, void* context);
  void* context;
  int32_t kind; /* an ocm_kind; -1: create: OCM_KIND_DRAM, with OCM_TABLE_DURABLE OCM_KIND_NVME; append: the
                   table's. What is on devices is moved by each scan, even on its own node */
} ocm_table_options;
#define OCM_TABLE_OPTIONS_INIT \
  { sizeof(ocm_table_options), OCM_TABLE_BY_DEFAULT, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, -1 }

/* Stores what the stream gives under `name` (1 to 200 bytes of UTF-8 without '\0', '/' or '~') and publishes
 * it. The stream is moved in: it is released whatever happens. At most a row group and a batch of it are in
 * this program at a time, and two row groups more while they are put to other nodes. `options` may be NULL.
 * Errors: EXISTS, POOL_FULL (says what is missing), UNSUPPORTED (which column, or that no node offers the kind),
 * TOO_LARGE (more than 65,536 fields), INVALID_ARGUMENT (a malformed array), CANCELLED, IO (the stream's own
 * error). */
OCM_API int ocm_table_create(ocm_session* session, const char* name, struct ArrowArrayStream* source,
                             const ocm_table_options* options);
/* Adds the stream's rows as one step. Its schema must be the table's (before or after OCM_TABLE_COMPACT, with
 * any width of dictionaries' indices). What `options` leaves open is as the table was created. Only the
 * table's owner and root append, whatever the mode; rows of others do not count.
 * Errors: as create, NOT_FOUND, PERMISSION (says whose the table is). */
OCM_API int ocm_table_append(ocm_session* session, const char* name, struct ArrowArrayStream* source,
                             const ocm_table_options* options);
/* Removes the table. Its memory comes back when the last reader that holds it has closed it.
 * Errors: NOT_FOUND, PERMISSION, INVALID_ARGUMENT (it is no table), NO_DAEMON, NO_COORDINATOR, PEER_LOST, DEADLINE: its name
 * may be gone and names of rows that were appended still be there, which dropping it again removes. */
OCM_API int ocm_table_drop(ocm_session* session, const char* name);

/* Returns 1 if the allocation is a segment of a table, and 0 if it is a program's own. Cost: one get of a
 * SEQUENCE, nothing of others. Errors: REVOKED, PEER_LOST, LOST: nobody can tell. */
OCM_API int ocm_table_test(ocm_allocation* allocation);

/* Opens the table as it is now.
 * Errors: NOT_FOUND, PERMISSION, PROTOCOL (the catalogue is malformed), NO_COORDINATOR. */
OCM_API int ocm_table_open(ocm_session* session, const char* name, ocm_table** table);
/* Ends the handle. Streams and arrays that came from it go on; the session must outlive them: after its close
 * streams fail with ECANCELED; arrays that were moved stay valid, those in extents of the own node are unmapped. */
OCM_API int ocm_table_close(ocm_table* table);

/* What a table is. */
typedef struct ocm_table_info {
  size_t size;
  uint64_t rows;
  uint64_t bytes;       /* of all buffers as they are stored, of one replica */
  uint64_t bytes_moved; /* from other nodes by scans of this handle so far */
  uint32_t columns;
  uint32_t groups;
  uint32_t segments;
  uint32_t replicas; /* of the segment that has the fewest */
  ocm_table_placement placement;
  uint64_t id;      /* drawn at random by create */
  ocm_kind kind;    /* as it was created; rows that were appended may be of another */
  uint64_t version; /* equal for two handles: they have the same rows (it also changes when memory moves) */
} ocm_table_info;
#define OCM_TABLE_INFO_INIT \
  { sizeof(ocm_table_info), 0, 0, 0, 0, 0, 0, 0, OCM_TABLE_BY_ROWS, 0, OCM_KIND_DRAM, 0 }
OCM_API int ocm_table_query(const ocm_table* table, ocm_table_info* info);
/* The schema: a struct with a child for each column. The caller releases it. */
OCM_API int ocm_table_schema_query(const ocm_table* table, struct ArrowSchema* schema);

/* Smallest and largest value of a chunk that are not null. */
typedef enum ocm_bound_kind {
  OCM_BOUND_NONE = 0, /* unknown, or the type has no order here, or all values are null */
  OCM_BOUND_INT = 1, /* integers (unsigned ones up to 2^63-1), booleans, dates, times, timestamps, decimals of
                        at most 64 bits: the stored integer */
  OCM_BOUND_DOUBLE = 2, /* float and double without NaN among them */
} ocm_bound_kind;
typedef union ocm_bound {
  int64_t integer;
  double real;
} ocm_bound;
/* One column of one row group. */
typedef struct ocm_table_chunk {
  size_t size;
  uint64_t first_row; /* of the group, in the table */
  uint64_t rows;
  uint64_t bytes; /* all buffers of the column in this group as they are stored, dictionary included */
  uint64_t nulls;
  ocm_bound_kind bounds;
  ocm_bound minimum;
  ocm_bound maximum;
  bool local;    /* on this host: a scan moves nothing */
  bool lost;     /* no copy is left */
  char node[64]; /* the first home that is alive */
} ocm_table_chunk;
#define OCM_TABLE_CHUNK_INIT                                                           \
  {                                                                                    \
    sizeof(ocm_table_chunk), 0, 0, 0, 0, OCM_BOUND_NONE, {0}, {0}, false, false, { 0 } \
  }
/* Errors: OUT_OF_RANGE. */
OCM_API int ocm_table_chunk_query(const ocm_table* table, uint32_t group, uint32_t column,
                                  ocm_table_chunk* chunk);

enum {
  OCM_SCAN_CACHE = 1u << 0, /* keep what is moved in the session's cache, and use what is there */
  /* check every offset of variable-length columns before handing them out; extents of the own node are copied
     first, because their writer can still change them */
  OCM_SCAN_VALIDATE = 1u << 1,
  OCM_SCAN_MOVE = 1u << 2, /* use the fabric for extents of the own node too (to measure) */
};
/* What a scan gives. */
typedef struct ocm_scan_options {
  size_t size;
  const uint32_t* columns; /* indices, in the wanted order; NULL: all */
  size_t columns_count;
  const uint32_t* groups; /* indices of row groups, ascending; NULL: all */
  size_t groups_count;
  uint64_t batch_rows;      /* rows of an array at most; 0: 131,072, or 32,768 where columns are widened.
                               Arrays never cross row groups */
  uint32_t prefetch_groups; /* row groups moved ahead of the reader, by a thread; 0: 3 */
  uint32_t flags;           /* OCM_SCAN_* */
  /* Called once when the stream and every array from it were released, from any thread. May be NULL. */
  void (*released)(void* context);
  void* context;
} ocm_scan_options;
#define OCM_SCAN_OPTIONS_INIT \
  { sizeof(ocm_scan_options), NULL, 0, NULL, 0, 0, 0, 0, NULL, NULL }
/* Gives the wanted columns of the wanted row groups as a stream, in order. get_next may be called from any
 * thread, one at a time. Its errors are errno values and stay; get_last_error begins with the status' name
 * and names the table, the row group, the node and what to do. To the thread that called they are its last error,
 * too: ocm_last_error_info has the status, node and subject. Cost: local: no copy. Remote: one vectored get
 * for each row group, two at a time, overlapped with the reader. Packed columns: widened, batch by batch. */
OCM_API int ocm_table_scan(ocm_table* table, const ocm_scan_options* options,
                           struct ArrowArrayStream* stream);

/* The cache of remote columns of a session: least recently used goes first. 0 (the default): none. */
OCM_API int ocm_table_cache_limit(ocm_session* session, uint64_t bytes);
/* What the cache holds and did. */
typedef struct ocm_table_cache_info {
  size_t size;
  uint64_t limit_bytes;
  uint64_t used_bytes;
  uint64_t hits; /* column chunks found, and not */
  uint64_t misses;
} ocm_table_cache_info;
#define OCM_TABLE_CACHE_INFO_INIT \
  { sizeof(ocm_table_cache_info), 0, 0, 0, 0 }
OCM_API int ocm_table_cache_query(ocm_session* session, ocm_table_cache_info* info);
/* Forgets everything (what readers hold stays theirs), so that the next scan is a first touch. */
OCM_API int ocm_table_cache_clear(ocm_session* session);

/* The former name of ocm_table_schema_query, deprecated. */
OCM_API int ocm_table_schema(const ocm_table* table, struct ArrowSchema* schema);

#ifdef __cplusplus
}
#endif

#endif /* ONCILLA_TABLE_H */
