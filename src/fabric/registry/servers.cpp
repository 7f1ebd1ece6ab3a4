#include "fabric/registry/servers.h"

#include "base/log.h"

namespace ocm::fabric {

Servers::Servers() {
  for (const Entry* entry : entries()) {
    if (entry->serve != nullptr) all_.emplace_back(*entry);
  }
}

Servers::~Servers() { stop(); }

Status Servers::start(const ServeOptions& options, ExtentDirectory& directory) {
  for (One& one : all_) {
    OCM_ASSERT(one.server == nullptr);  // it is started once
    const Setting* enabled = one.entry.setting(kEnabled);
    if (enabled != nullptr && options.settings.get(one.entry.fabric, *enabled) == 0) continue;
    auto started = one.entry.serve(options, directory, one.stats);
    if (started.is_ok()) {
      one.server = std::move(started).value();
      continue;
    }
    if (started.status().code() != Code::kUnsupported) return started.status();
    one.why_not = started.status().message();
    log::warn(std::string(one.entry.name()) + "_not_served", {{"why", one.why_not}});
  }
  return {};
}

void Servers::revoke(const ExtentId& id) {
  for (const One& one : all_) {
    if (one.server != nullptr) one.server->revoke(id);
  }
}

void Servers::stop() {
  for (const One& one : all_) {
    if (one.server != nullptr) one.server->stop();
  }
}

}  // namespace ocm::fabric
