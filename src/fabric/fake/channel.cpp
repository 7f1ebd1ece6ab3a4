#include "fabric/fake/channel.h"

namespace ocm::fabric::fake {

FakeChannel::~FakeChannel() {
  const std::lock_guard lock(core_->mutex);
  core_->close(*link_);
}
Result<uint32_t> FakeChannel::attach(const ExtentDescriptor& extent, Access access, os::Deadline deadline) {
  const std::lock_guard lock(core_->mutex);
  return core_->attach(*link_, extent, access, deadline);
}
void FakeChannel::detach(uint32_t index) {
  const std::lock_guard lock(core_->mutex);
  core_->detach(*link_, index);
}
void FakeChannel::post(Op& op) {
  const std::lock_guard lock(core_->mutex);
  core_->post(*link_, op);
}
void FakeChannel::withdraw(Op& op) {
  const std::lock_guard lock(core_->mutex);
  if (!op.done() || (op.notify != nullptr && !op.notify->done()))
    core_->fail(*link_, Status(Code::kCancelled, "an operation was taken back"));
  OCM_DASSERT(op.done());
}
void FakeChannel::progress(uint64_t, uint64_t stall_ns) {
  const std::lock_guard lock(core_->mutex);
  core_->progress(*link_, stall_ns);
}
Status FakeChannel::health() const {
  const std::lock_guard lock(core_->mutex);
  return link_->health;
}
uint32_t FakeChannel::in_flight() const {
  const std::lock_guard lock(core_->mutex);
  return static_cast<uint32_t>(link_->pending.size());
}

Result<std::unique_ptr<Channel>> FakeConnector::connect(const FabricAddress& address, const Credentials& who,
                                                        os::Deadline deadline) {
  const std::lock_guard lock(core_->mutex);
  OCM_TRY_ASSIGN(std::shared_ptr<Link> link, core_->connect(from_, address.address, who, deadline));
  return std::unique_ptr<Channel>(std::make_unique<FakeChannel>(core_, std::move(link)));
}

}  // namespace ocm::fabric::fake
