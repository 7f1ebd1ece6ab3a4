# Linked whole: programs link the library of kinds, too, and need nothing more for one that only daemons offer.
find_library(OCM_URING liburing.a REQUIRED)
ocm_room(memory/nvme ocm_memory ${OCM_URING})
target_link_options(ocm_memory_nvme INTERFACE LINKER:--exclude-libs,liburing.a)
