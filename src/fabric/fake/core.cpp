#include "fabric/fake/core.h"

#include <algorithm>
#include <cstring>

#include "os/crypto.h"

namespace ocm::fabric::fake {
namespace {

constexpr uint64_t kWaitNsMax = 10'000'000'000;  // of virtual time, for a connect without a deadline

std::pair<std::string, std::string> sorted(const std::string& a, const std::string& b) {
  return a < b ? std::pair(a, b) : std::pair(b, a);
}

}  // namespace

// ---- nodes

void NetworkCore::add_node(const std::string& name, ExtentDirectory* directory,
                           std::function<uint64_t()> clock) {
  nodes_[name] = Node{directory, std::move(clock), true, false};
}

bool NetworkCore::is_valid() const {
  const auto knows = [this](const std::string& name) { return nodes_.contains(name); };
  for (const auto& [id, link] : links_) {
    if (link->id != id || !knows(link->home) || (link->closed && link->health.is_ok())) return false;
    if (!link->health.is_ok() && !link->pending.empty()) return false;  // N2
    for (const auto& [number, pending] : link->pending) {
      if (number >= link->next_op || pending.op->done()) return false;
      if (pending.op->opcode != OpCode::kFence && !link->streams.contains(pending.index)) return false;
    }
    for (const auto& [index, stream] : link->streams) {
      if (index >= link->next_index || !stream.replies.is_valid() || !stream.requests.is_valid())
        return false;
      for (const uint64_t number : stream.unsent) {
        if (!link->pending.contains(number)) return false;
      }
    }
  }
  return std::all_of(parked_.begin(), parked_.end(),
                     [this](const auto& message) { return links_.contains(message->link); }) &&
         (events_.empty() || events_.begin()->first.first >= now_ns);
}

void NetworkCore::kill(const std::string& name) {
  OCM_ASSERT(nodes_.contains(name));
  nodes_[name].alive = false;
  for (auto& [id, link] : links_) {
    if (link->home != name) continue;
    link->fenced = true;
    for (auto& [index, stream] : link->streams) stream.extent.reset();
    break_from_home(link);
  }
}

void NetworkCore::break_from_home(const std::shared_ptr<Link>& link) {
  at(options.latency_ns, [this, link] {
    if (cuts_.contains(sorted(link->client, link->home))) return;  // nobody hears it: the op stalls
    fail(*link, Status::of_node(Code::kPeerLost, link->home, " closed the connection"));
  });
}

void NetworkCore::set_stopped(const std::string& name, bool stopped) {
  OCM_ASSERT(nodes_.contains(name));
  nodes_[name].stopped = stopped;
  if (!stopped) unpark();
}

void NetworkCore::set_cut(const std::string& a, const std::string& b, bool is_cut) {
  if (is_cut) {
    cuts_.insert(sorted(a, b));
  } else {
    cuts_.erase(sorted(a, b));
    unpark();
  }
}

void NetworkCore::unpark() {
  for (auto& message : std::exchange(parked_, {})) {
    at(options.latency_ns, [this, message] { deliver(message); });
  }
}

bool NetworkCore::passes(const std::string& from, const std::string& to) const {
  const auto sender = nodes_.find(from), receiver = nodes_.find(to);
  return sender != nodes_.end() && receiver != nodes_.end() && sender->second.alive &&
         receiver->second.alive && !receiver->second.stopped && !cuts_.contains(sorted(from, to));
}

// ---- time

void NetworkCore::at(uint64_t delay_ns, std::function<void()> what) {
  events_.emplace(std::pair(now_ns + delay_ns, next_event_++), std::move(what));
}

void NetworkCore::run_until(uint64_t until_ns) {
  while (!events_.empty() && events_.begin()->first.first <= until_ns) {
    auto event = events_.extract(events_.begin());
    now_ns = std::max(now_ns, event.key().first);
    event.mapped()();
  }
  now_ns = std::max(now_ns, until_ns);
}

void NetworkCore::step(uint64_t idle_ns) {
  const uint64_t idle_until = now_ns + std::max<uint64_t>(idle_ns, 1);
  const uint64_t next = events_.empty() ? idle_until : events_.begin()->first.first;
  run_until(std::min(next, idle_until));
}

// ---- links

Status NetworkCore::round_trip(const std::string& from, const std::string& to, os::Deadline deadline) {
  // In whole milliseconds: how long the caller took in real time must not change what happens here.
  const uint64_t wait_ns = (std::min(deadline.left_ns(), kWaitNsMax) + 999'999) / 1'000'000 * 1'000'000;
  const uint64_t until_ns = now_ns + wait_ns;
  while (true) {
    const auto home = nodes_.find(to);
    if (home == nodes_.end()) return Status(Code::kPeerLost, "no node " + to);
    const bool heard = !cuts_.contains(sorted(from, to));
    if (heard && !home->second.alive) return Status::of_node(Code::kPeerLost, to, " refuses the connection");
    if (passes(from, to)) {
      run_until(now_ns + 2 * options.latency_ns);
      if (passes(from, to)) return {};
    }
    if (now_ns >= until_ns) return Status::of_node(Code::kPeerLost, to, " did not answer in time");
    step(wait_ns / 8);
  }
}

Result<std::shared_ptr<Link>> NetworkCore::connect(const std::string& from, const std::string& to,
                                                   const Credentials& who, os::Deadline deadline) {
  OCM_TRY(round_trip(from, to, deadline));
  ExtentDirectory* directory = nodes_[to].directory;
  if (directory == nullptr) return Status::of_node(Code::kPeerLost, to, " serves nothing");
  if (!os::equal_secrets(directory->session_key(who.session), who.session_key)) {
    return Status::of_node(Code::kAuth, to, " does not know this session's key");
  }
  for (auto& [id, link] : links_) {  // N2
    if (link->home == to && link->session == who.session && !link->health.is_ok()) link->fenced = true;
  }
  auto link = std::make_shared<Link>();
  link->id = next_link_++;
  link->client = from;
  link->home = to;
  link->session = who.session;
  links_.emplace(link->id, link);
  return link;
}

Result<uint32_t> NetworkCore::attach(Link& link, const ExtentDescriptor& extent, Access access,
                                     os::Deadline deadline) {
  OCM_TRY(link.health);
  const Status reached = round_trip(link.client, link.home, deadline);
  OCM_TRY(link.health);
  if (!reached.is_ok() || link.fenced) {
    fail(link, Status::of_node(Code::kPeerLost, link.home, " was lost"));
    return link.health;
  }
  OCM_TRY_ASSIGN(std::shared_ptr<ServedExtent> served, nodes_[link.home].directory->open(extent.id));
  if (!os::opens(served->capability, extent.capability, access)) {
    return Status(Code::kPermission, "wrong capability for extent " + extent.id.address.to_string());
  }
  OCM_DASSERT(served->id == extent.id);
  const uint32_t index = link.next_index++;
  Stream& stream = link.streams[index];
  stream.bytes = extent.bytes;
  stream.access = access;
  stream.extent = served;
  return index;
}

void NetworkCore::detach(Link& link, uint32_t index) {
  const auto found = link.streams.find(index);
  if (found == link.streams.end() || found->second.detached) return;
  found->second.detached = true;
  pump(link);
}

void NetworkCore::close(Link& link) {
  link.closed = true;
  if (link.health.is_ok()) fail(link, Status(Code::kCancelled, "the channel was closed"));
  // What is under way arrives or is lost; nothing more comes back.
  forget_if_idle(link.id);
}

void NetworkCore::fail(Link& link, const Status& why) {
  if (!link.health.is_ok()) return;
  link.health = why;
  for (auto& [number, pending] : link.pending) pending.op->finish(why.code());
  link.pending.clear();
  for (auto& [index, stream] : link.streams) stream.unsent.clear();
  OCM_DASSERT(is_valid());  // N2
}

void NetworkCore::forget_if_idle(uint64_t id) {
  const auto found = links_.find(id);
  if (found != links_.end() && found->second->closed && found->second->under_way == 0) links_.erase(found);
}

// ---- the client's end

void NetworkCore::post(Link& link, Op& op) {
  Op* const notify = op.notify;
  OCM_DASSERT(may_be_posted(op));
  take(link, op);
  if (notify != nullptr) {
    if (op.done() && op.code != Code::kOk) {
      notify->finish(op.code);
    } else {
      take(link, *notify);
    }
  }
  pump(link);
}

void NetworkCore::take(Link& link, Op& op) {
  op.bytes_sent = op.bytes_done = 0;
  if (!link.health.is_ok()) return op.finish(link.health.code());
  const auto found = link.streams.find(op.index);
  if (op.opcode != OpCode::kFence) {
    if (found == link.streams.end() || found->second.detached) return op.finish(Code::kNotFound);
    const Code code = check_bounds(found->second.bytes, found->second.access, op.opcode, op.offset, op.bytes);
    if (code != Code::kOk) return op.finish(code);
  }
  op.state.store(OpState::kPosted, std::memory_order_release);
  if (link.pending.empty()) link.moved_at_ns = now_ns;
  const uint64_t number = link.next_op++;
  link.pending.emplace(number, Pending{&op, op.index, 0, Code::kOk});
  if (op.opcode != OpCode::kFence) found->second.unsent.push_back(number);
}

bool NetworkCore::may_go(const Link& link, uint64_t number) const {
  if (link.pending.at(number).op->opcode != OpCode::kNotify) return true;
  for (const auto& [earlier, pending] : link.pending) {
    if (earlier == number) break;
    if (pending.op->opcode == OpCode::kPut) return false;
  }
  return true;
}

/// Sends what may go, and completes the fences that everything before has been applied for.
void NetworkCore::pump(Link& link) {
  for (auto& [index, stream] : link.streams) {
    while (!stream.unsent.empty() && may_go(link, stream.unsent.front())) {
      const uint64_t number = stream.unsent.front();
      stream.unsent.pop_front();
      launch(link, number);
    }
    if (stream.detached && stream.unsent.empty() && !stream.detach_sent) {
      stream.detach_sent = true;
      Message message;
      message.link = link.id;
      message.index = index;
      message.sequence = stream.next_request++;
      message.detach = true;
      send(std::move(message));
    }
  }
  while (!link.pending.empty() && link.pending.begin()->second.op->opcode == OpCode::kFence) {
    Op* op = link.pending.begin()->second.op;
    link.pending.erase(link.pending.begin());
    op->finish(Code::kOk);
  }
}

void NetworkCore::launch(Link& link, uint64_t number) {
  Pending& pending = link.pending.at(number);
  Op& op = *pending.op;
  Stream& stream = link.streams.at(pending.index);
  OCM_ASSERT(pending.pieces_left == 0 && !stream.detach_sent);
  const bool is_copy = op.opcode == OpCode::kPut || op.opcode == OpCode::kGet;
  const uint64_t total = is_copy ? op.bytes : 0;
  uint64_t at = 0;
  do {
    const uint64_t bytes = std::min(options.piece_bytes, total - at);
    Message message;
    message.link = link.id;
    message.index = pending.index;
    message.sequence = stream.next_request++;
    message.op = number;
    message.opcode = op.opcode;
    message.offset = op.offset + at;
    message.bytes = bytes;
    message.local_offset = at;
    message.operand = op.operand;
    message.expected = op.expected;
    message.code = pending.code;
    if (op.opcode == OpCode::kPut) message.payload.assign(op.local + at, op.local + at + bytes);
    ++pending.pieces_left;
    send(std::move(message));
    at += bytes;
  } while (at < total);
  if (op.opcode == OpCode::kPut) op.state.store(OpState::kLocal, std::memory_order_release);
}

void NetworkCore::complete(Link& link, Message& reply) {
  link.moved_at_ns = now_ns;
  const auto found = link.pending.find(reply.op);
  OCM_ASSERT(found != link.pending.end());
  Pending& pending = found->second;
  Op& op = *pending.op;
  OCM_ASSERT(pending.pieces_left > 0);  // N1: each piece is answered once
  if (!reply.payload.empty()) {
    OCM_ASSERT(op.opcode == OpCode::kGet && reply.local_offset + reply.payload.size() <= op.bytes);
    std::memcpy(op.local + reply.local_offset, reply.payload.data(), reply.payload.size());
  }
  if (is_atomic(op.opcode)) op.old_value = reply.old_value;
  if (pending.code == Code::kOk) pending.code = reply.code;
  if (--pending.pieces_left != 0) return;
  const Code code = pending.code;
  const auto next = link.pending.erase(found);
  OCM_ASSERT(op.notify == nullptr || (next != link.pending.end() && next->second.op == op.notify));
  if (op.notify != nullptr) next->second.code = code;  // it waits for this put, and stands behind it
  op.finish(code);
}

void NetworkCore::progress(Link& link, uint64_t stall_ns) {
  const uint64_t before = next_event_ - events_.size();  // events that ran
  run_until(now_ns);
  const bool moved = next_event_ - events_.size() != before;
  if (options.auto_advance && !moved && !link.pending.empty()) step(stall_ns / 4);
  if (!link.pending.empty() && now_ns - link.moved_at_ns >= stall_ns) {
    fail(link, Status::of_node(Code::kPeerLost, link.home, " did not answer in time"));
  }
}

// ---- on the way

void NetworkCore::send(Message message) {
  ++counts.messages;
  const Faults& faults = options.faults;
  if (odds(faults.drop_ppm)) {
    ++counts.dropped;
    return;
  }
  auto shared = std::make_shared<const Message>(std::move(message));
  if (odds(faults.duplicate_ppm)) {
    ++counts.duplicated;
    travel(shared);
  }
  travel(std::move(shared));
}

void NetworkCore::travel(std::shared_ptr<const Message> message) {
  uint64_t ns = options.latency_ns + message->payload.size() * 1000 / options.bytes_per_us;
  ns += random_() % (options.latency_ns + 1);
  if (odds(options.faults.delay_ppm)) {
    ++counts.delayed;
    ns += random_() % (options.faults.delay_ns_max + 1);
  }
  ++links_.at(message->link)->under_way;
  at(ns, [this, message = std::move(message)] { deliver(message); });
}

void NetworkCore::deliver(const std::shared_ptr<const Message>& message) {
  const std::shared_ptr<Link> link = links_.at(message->link);
  const std::string& from = message->reply ? link->home : link->client;
  const std::string& to = message->reply ? link->client : link->home;
  const bool alive = nodes_[from].alive && nodes_[to].alive;
  if (alive && !link->fenced && !passes(from, to)) {
    parked_.push_back(message);
    return;
  }
  OCM_ASSERT(link->under_way > 0);
  --link->under_way;
  if (!alive || link->fenced) {
    if (alive && !message->reply) break_from_home(link);
  } else if (!message->reply) {
    const auto stream = link->streams.find(message->index);
    if (stream != link->streams.end() &&
        !stream->second.requests.arrive(*message, [&](Message& now) { apply(*link, stream->second, now); })) {
      ++counts.ignored_duplicates;
    }
  } else if (link->health.is_ok()) {
    const auto stream = link->streams.find(message->index);
    bool detached = false;
    if (stream != link->streams.end() && !stream->second.replies.arrive(*message, [&](Message& now) {
          if (now.detach) {
            detached = true;
          } else {
            complete(*link, now);
          }
        })) {
      ++counts.ignored_duplicates;
    }
    if (detached) link->streams.erase(stream);
    if (link->health.is_ok()) pump(*link);
  }
  forget_if_idle(link->id);
}

// ---- the home's end

void NetworkCore::apply(Link& link, Stream& stream, Message& request) {
  Message reply;
  reply.link = link.id;
  reply.index = request.index;
  reply.sequence = stream.next_reply++;
  reply.reply = true;
  reply.detach = request.detach;
  reply.op = request.op;
  reply.opcode = request.opcode;
  reply.local_offset = request.local_offset;
  reply.code = request.code;
  const std::shared_ptr<ServedExtent> extent = stream.extent.lock();
  if (request.detach) {
    stream.extent.reset();
  } else if (reply.code == Code::kOk) {
    reply.code = extent == nullptr ? Code::kRevoked
                                   : check_access_at(*extent, stream.access, request.opcode, request.offset,
                                                     request.bytes, nodes_[link.home].now_ns);
  }
  // This network's time is not a device's.
  if (!request.detach && reply.code == Code::kOk && extent->data == nullptr) reply.code = Code::kUnsupported;
  if (!request.detach && reply.code == Code::kOk) {
    std::byte* at = extent->data + request.offset;
    switch (request.opcode) {
      case OpCode::kPut:
        if (request.bytes != 0) std::memcpy(at, request.payload.data(), request.bytes);
        break;
      case OpCode::kGet: reply.payload.assign(at, at + request.bytes); break;
      case OpCode::kFence: break;
      case OpCode::kNotify: apply_notify(at, request.operand); break;
      default: reply.old_value = apply_atomic(request.opcode, at, request.operand, request.expected); break;
    }
  }
  send(std::move(reply));
}

}  // namespace ocm::fabric::fake
