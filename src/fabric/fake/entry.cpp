#include "fabric/fake/entry.h"

#include "fabric/entry.h"

namespace ocm::fabric::fake {
namespace {

Connector* installed = nullptr;

Connector* connector(const Settings&) { return installed; }

}  // namespace

void install(Connector* connector) { installed = connector; }

extern const Entry kEntry;
constinit const Entry kEntry{
    .fabric = Fabric::kFake,
    .traits = {.rank = 90, .own_node = false, .home_checks = true},
    .settings = {},
    .serve = nullptr,
    .connector = connector,
};

}  // namespace ocm::fabric::fake
