/* A striped allocation spreads over the nodes, so that a large transfer uses all their links; and a copy
 * between two allocations goes from node to node without passing through this program. */
#include <oncilla/oncilla.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, ocm_last_error());
  return 1;
}

int main(void) {
  const uint64_t bytes = 96u << 20;
  ocm_session_options options = OCM_SESSION_OPTIONS_INIT;
  ocm_allocation_options striped = OCM_ALLOCATION_OPTIONS_INIT;
  ocm_session* session;
  ocm_allocation *table, *backup;
  ocm_allocation_info info = {.size = sizeof(info)};
  ocm_extent_info extent = {.size = sizeof(extent)};
  uint32_t *rows = malloc(bytes), i;

  options.flags = OCM_SESSION_EMBEDDED_FALLBACK;
  if (ocm_session_open(&options, &session)) return failed("open a session");

  striped.layout = OCM_LAYOUT_STRIPED; /* over every node with room ... */
  striped.chunk_bytes = 256 << 10;     /* ... round robin by 256 KiB */
  if (ocm_allocation_create(session, bytes, &striped, &table)) return failed("allocate the table");
  if (ocm_allocation_query(table, &info)) return failed("query");
  for (i = 0; i < info.extents; i++) {
    if (ocm_allocation_extent_query(table, i, &extent)) return failed("extent");
    printf("stripe %u: %llu bytes on %s\n", i, (unsigned long long)extent.bytes, extent.node);
  }

  for (i = 0; i < bytes / sizeof(*rows); i++) rows[i] = i * 2654435761u;
  if (ocm_put(table, 0, rows, bytes)) return failed("put the table");

  /* A place is an offset in an allocation, or a pointer: copies go between any two. */
  if (ocm_allocation_create(session, bytes, NULL, &backup)) return failed("allocate the backup");
  if (ocm_copy(ocm_place_in(backup, 0), ocm_place_in(table, 0), bytes)) return failed("copy");
  memset(rows, 0, bytes);
  if (ocm_copy(ocm_place_at(rows), ocm_place_in(backup, 0), bytes)) return failed("copy back");
  for (i = 0; i < bytes / sizeof(*rows); i++)
    if (rows[i] != i * 2654435761u) return printf("row %u differs\n", i), 1;

  printf("%llu MiB copied and compared\n", (unsigned long long)(bytes >> 20));
  free(rows);
  return ocm_session_close(session) ? failed("close") : 0;
}
