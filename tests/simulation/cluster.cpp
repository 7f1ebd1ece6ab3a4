#include "cluster.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "client/layout.h"
#include "control.pb.h"
#include "fabric/shm/tables.h"
#include "os/crypto.h"
#include "os/memory.h"
#include "wire/control.h"

namespace ocm::simulation {
namespace {

struct BufferExtent final : fabric::ServedExtent {
  std::vector<uint64_t> words;
};

bool read_all(int fd, void* out, size_t bytes) {
  auto* at = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t n = ::recv(fd, at, bytes, 0);
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

/// The descriptors travel on the first byte.
bool send_all(int fd, const std::string& text, const std::vector<int>& fds) {
  iovec part{const_cast<char*>(text.data()), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))] = {};
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  }
  const ssize_t n = ::sendmsg(fd, &message, MSG_NOSIGNAL);
  if (n < 0) return false;
  size_t sent = static_cast<size_t>(n);
  while (sent < text.size()) {
    const ssize_t more = ::send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (more <= 0) return false;
    sent += static_cast<size_t>(more);
  }
  return true;
}

ExtentId id_of(const wire::ExtentDescriptor& extent) {
  return {GlobalAddress(extent.address()), extent.generation()};
}

}  // namespace

// ---- one home

std::shared_ptr<fabric::ServedExtent> Home::make(uint64_t bytes) {
  auto extent = std::make_shared<BufferExtent>();
  extent->words.resize(bytes / 8 + 1);
  extent->data = reinterpret_cast<std::byte*>(extent->words.data());
  extent->bytes = bytes;
  extent->capability = os::random_id<Capability>();
  const std::lock_guard lock(mutex_);
  extent->id = {GlobalAddress(partition_, next_offset_), next_generation_++};
  next_offset_ += (bytes + 4095) / 4096 * 4096;
  extents_[extent->id.address] = extent;
  return extent;
}

void Home::revoke(ExtentId id) {
  const std::lock_guard lock(mutex_);
  const auto found = extents_.find(id.address);
  if (found == extents_.end() || found->second->id != id) return;
  found->second->revoked.store(true, std::memory_order_release);
  extents_.erase(found);
}

void Home::clear() {
  const std::lock_guard lock(mutex_);
  extents_.clear();
}

Result<std::shared_ptr<fabric::ServedExtent>> Home::open(ExtentId id) {
  const std::lock_guard lock(mutex_);
  const auto found = extents_.find(id.address);
  if (found == extents_.end()) return Status(Code::kNotFound, "no such extent");
  if (found->second->id != id) return Status(Code::kRevoked, "another life");
  return found->second;
}

std::array<std::byte, 32> Home::session_key(const SessionId& session) {
  return os::hmac_sha256(os::bytes_of("simulation"), {session.bytes});
}

// ---- the cluster

Cluster::Cluster(fabric::fake::FakeNetwork& network, size_t nodes) : network_(network), nodes_(nodes) {
  network_.add_node("here", nullptr);
  for (size_t i = 0; i < nodes; ++i) {
    nodes_[i].home = std::make_unique<Home>(static_cast<uint32_t>(i + 1));
    network_.add_node(name(i), nodes_[i].home.get());
  }
}

Cluster::~Cluster() {
  if (daemon_.joinable()) daemon_.join();  // the session hung up
}

Result<os::Fd> Cluster::dial() {
  if (daemon_.joinable()) return Status(Code::kNoDaemon, "one session only");
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Status::from_errno(errno, "socketpair");
  }
  daemon_ = std::thread([this, socket = os::Fd(ends[1])]() mutable { serve(std::move(socket)); });
  return os::Fd(ends[0]);
}

void Cluster::kill(size_t node) {
  const std::lock_guard lock(mutex_);
  nodes_[node].dead = true;
  ++nodes_[node].disturbances;
  ++nodes_[node].lives;
  network_.kill(name(node));
  nodes_[node].home->clear();
}

void Cluster::restart(size_t node) {
  const std::lock_guard lock(mutex_);
  if (!nodes_[node].dead) return;
  nodes_[node].dead = false;
  ++nodes_[node].disturbances;
  network_.add_node(name(node), nodes_[node].home.get());
  if (nodes_[node].stops > 0) network_.stop(name(node));
}

void Cluster::stop(size_t node) {
  const std::lock_guard lock(mutex_);
  ++nodes_[node].disturbances;
  if (++nodes_[node].stops == 1) network_.stop(name(node));
}

void Cluster::resume(size_t node) {
  const std::lock_guard lock(mutex_);
  ++nodes_[node].disturbances;
  if (--nodes_[node].stops == 0) network_.resume(name(node));
}

void Cluster::cut(size_t node) {
  const std::lock_guard lock(mutex_);
  ++nodes_[node].disturbances;
  if (++nodes_[node].cuts == 1) network_.cut("here", name(node));
}

void Cluster::mend(size_t node) {
  const std::lock_guard lock(mutex_);
  ++nodes_[node].disturbances;
  if (--nodes_[node].cuts == 0) network_.mend("here", name(node));
}

// ---- the daemon

void Cluster::serve(os::Fd socket) {
  auto table = os::make_memfd("simulation-generations", 4096, {});
  auto page = os::make_memfd("simulation-page", fabric::shm::kSessionPageBytes, {});
  OCM_ASSERT(table.is_ok() && page.is_ok());
  std::array<std::byte, wire::kControlHeaderBytes> header;
  while (read_all(socket.get(), header.data(), header.size())) {
    auto length = wire::control_length(header);
    OCM_ASSERT(length.is_ok());
    std::vector<std::byte> body(*length);
    if (!read_all(socket.get(), body.data(), body.size())) return;
    wire::Envelope request, reply;
    OCM_ASSERT(wire::parse_control(body, request).is_ok());
    reply.set_id(request.id());
    reply.set_reply(true);
    answer(request, reply);
    std::vector<int> fds;
    if (reply.has_session_welcome()) fds = {table->get(), page->get()};
    reply.set_fds(static_cast<uint32_t>(fds.size()));
    std::string text;
    OCM_ASSERT(wire::append_control(reply, text).is_ok());
    if (!send_all(socket.get(), text, fds)) return;
  }
}

void Cluster::answer(const wire::Envelope& request, wire::Envelope& reply) {
  const std::lock_guard lock(mutex_);
  switch (request.body_case()) {
    case wire::Envelope::kSessionHello: {
      const auto session = os::random_id<SessionId>();
      const auto key = nodes_[0].home->session_key(session);
      wire::SessionWelcome& welcome = *reply.mutable_session_welcome();
      welcome.set_session_id(session.bytes.data(), session.bytes.size());
      welcome.set_session_key(key.data(), key.size());
      welcome.set_node("here");
      welcome.set_failure_deadline_ns(3'000'000'000);
      welcome.set_slots(16);
      return;
    }
    case wire::Envelope::kAllocate: return allocate(request, reply);
    case wire::Envelope::kFree: {
      const auto found = granted_.find(request.free().allocation_id());
      if (found == granted_.end()) return reply.set_code(static_cast<int>(Code::kNotFound));
      for (const auto& [node, id] : found->second.extents) nodes_[node].home->revoke(id);
      granted_.erase(found);
      return;
    }
    case wire::Envelope::kLostReplica: {
      const wire::LostReplicaRequest& lost = request.lost_replica();
      for (size_t i = 0; i < nodes_.size(); ++i) {
        if (GlobalAddress(lost.address()).partition() == i + 1) {
          nodes_[i].home->revoke({GlobalAddress(lost.address()), lost.generation()});
        }
      }
      return;
    }
    case wire::Envelope::kCopy: {
      const Status status = copy(request);
      reply.set_code(static_cast<int>(status.code()));
      reply.set_detail(std::string(status.message()));
      return;
    }
    default: reply.set_code(static_cast<int>(Code::kUnsupported)); return;
  }
}

void Cluster::allocate(const wire::Envelope& request, wire::Envelope& reply) {
  const wire::AllocateRequest& wanted = request.allocate();
  const client::Shape shape{wanted.bytes_total(), wanted.chunk_bytes(),
                            static_cast<uint32_t>(wanted.nodes_size()), static_cast<Layout>(wanted.layout())};
  wire::Allocation& allocation = *reply.mutable_allocation();
  const auto id = os::random_id<AllocationId>();
  Granted granted;
  allocation.set_allocation_id(id.bytes.data(), id.bytes.size());
  allocation.set_bytes_total(shape.bytes);
  allocation.set_layout(wanted.layout());
  allocation.set_chunk_bytes(shape.chunk_bytes);
  allocation.set_access(static_cast<uint32_t>(Access::kReadWrite));
  for (int i = 0; i < wanted.nodes_size(); ++i) {
    const std::string& node_name = wanted.nodes(i);
    const size_t node = std::stoul(node_name.substr(1));
    if (is_blocked(node)) return reply.set_code(static_cast<int>(Code::kPeerLost));
    const auto made =
        nodes_[node].home->make(std::max<uint64_t>(1, client::extent_bytes(shape, static_cast<uint32_t>(i))));
    granted.extents.emplace_back(node, made->id);
    wire::ExtentDescriptor& extent = *allocation.add_extents();
    extent.set_address(made->id.address.bits());
    extent.set_generation(made->id.generation);
    extent.set_bytes(made->bytes);
    extent.set_capability(made->capability.bytes.data(), made->capability.bytes.size());
    extent.set_node(node_name);
    wire::FabricAddress& address = *extent.add_addresses();
    address.set_fabric(static_cast<uint32_t>(Fabric::kFake));
    address.set_address(node_name);
  }
  granted_[std::string(allocation.allocation_id())] = std::move(granted);
}

Status Cluster::copy(const wire::Envelope& request) {
  const wire::CopyRequest& copy = request.copy();
  const size_t to = std::stoul(copy.target().node().substr(1));
  const size_t from = std::stoul(copy.source().node().substr(1));
  if (is_blocked(to)) return Status(Code::kPeerLost, "the target's node does not answer");
  OCM_TRY_ASSIGN(const auto target, nodes_[to].home->open(id_of(copy.target())));
  if (nodes_[from].dead || nodes_[from].stops > 0) {
    return Status(Code::kPeerLost, "the source's node does not answer");
  }
  OCM_TRY_ASSIGN(const auto source, nodes_[from].home->open(id_of(copy.source())));
  OCM_TRY(fabric::check_access(*target, Access::kReadWrite, fabric::OpCode::kPut, copy.target_offset(),
                               copy.bytes_total()));
  OCM_TRY(fabric::check_access(*source, Access::kRead, fabric::OpCode::kGet, copy.source_offset(),
                               copy.bytes_total()));
  std::memmove(target->data + copy.target_offset(), source->data + copy.source_offset(), copy.bytes_total());
  return {};
}

}  // namespace ocm::simulation
