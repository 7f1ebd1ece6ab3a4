#include "fabric/fake/network.h"

#include "fabric/fake/channel.h"
#include "fabric/fake/core.h"

namespace ocm::fabric::fake {

FakeNetwork::FakeNetwork(uint64_t seed, NetworkOptions options)
    : core_(std::make_shared<NetworkCore>(seed, options)) {}
FakeNetwork::~FakeNetwork() = default;

void FakeNetwork::add_node(const std::string& name, ExtentDirectory* directory,
                           std::function<uint64_t()> clock) {
  const std::lock_guard lock(core_->mutex);
  core_->add_node(name, directory, std::move(clock));
}
void FakeNetwork::kill(const std::string& name) {
  const std::lock_guard lock(core_->mutex);
  core_->kill(name);
}
void FakeNetwork::stop(const std::string& name) {
  const std::lock_guard lock(core_->mutex);
  core_->set_stopped(name, true);
}
void FakeNetwork::resume(const std::string& name) {
  const std::lock_guard lock(core_->mutex);
  core_->set_stopped(name, false);
}
void FakeNetwork::cut(const std::string& a, const std::string& b) {
  const std::lock_guard lock(core_->mutex);
  core_->set_cut(a, b, true);
}
void FakeNetwork::restore(const std::string& a, const std::string& b) {
  const std::lock_guard lock(core_->mutex);
  core_->set_cut(a, b, false);
}
void FakeNetwork::set_faults(const Faults& faults) {
  const std::lock_guard lock(core_->mutex);
  core_->options.faults = faults;
}
uint64_t FakeNetwork::now_ns() const {
  const std::lock_guard lock(core_->mutex);
  return core_->now_ns;
}
void FakeNetwork::advance(uint64_t ns) {
  const std::lock_guard lock(core_->mutex);
  core_->run_until(core_->now_ns + ns);
}
bool FakeNetwork::is_valid() const {
  const std::lock_guard lock(core_->mutex);
  return core_->is_valid();
}
void FakeNetwork::schedule(uint64_t delay_ns, std::function<void()> what) {
  const std::lock_guard lock(core_->mutex);
  core_->at(delay_ns, std::move(what));
}
NetworkCounts FakeNetwork::counts() const {
  const std::lock_guard lock(core_->mutex);
  return core_->counts;
}
std::unique_ptr<Connector> FakeNetwork::connector(const std::string& from) {
  return std::make_unique<FakeConnector>(core_, from);
}

}  // namespace ocm::fabric::fake
