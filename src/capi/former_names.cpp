// Former names of functions of the C ABI: programs that were built with them find them in the library for good.
#include <oncilla/oncilla.h>

extern "C" {

int ocm_publish(ocm_allocation* allocation, const char* name, uint32_t mode) {
  return ocm_allocation_publish(allocation, name, mode);
}

int ocm_attach(ocm_session* session, const char* name, ocm_access access, ocm_allocation** allocation) {
  return ocm_allocation_attach(session, name, access, allocation);
}

int ocm_allocation_extent(const ocm_allocation* allocation, uint32_t index, ocm_extent_info* info) {
  return ocm_allocation_extent_query(allocation, index, info);
}

int ocm_allocation_pointer(ocm_allocation* allocation, uint64_t offset, uint64_t bytes, void** pointer) {
  return ocm_allocation_map(allocation, offset, bytes, pointer);
}

}  // extern "C"
