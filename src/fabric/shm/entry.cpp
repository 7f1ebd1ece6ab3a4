// shm: the extents of the program's own daemon, mapped. The client loads and stores by itself (shm/local_extent.h), so
// nothing is served and nothing is connected to.
#include "fabric/entry.h"

namespace ocm::fabric::shm {

extern const Entry kEntry;
constinit const Entry kEntry{
    .fabric = Fabric::kShm,
    .traits = {.rank = 10, .own_node = true, .home_checks = true},
    .settings = {},
    .serve = nullptr,
    .connector = nullptr,
};

}  // namespace ocm::fabric::shm
