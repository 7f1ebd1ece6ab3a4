// The inside of the fake network: events on virtual time, nodes, and both ends of every link.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "fabric/fake/network.h"

namespace ocm::fabric::fake {

/// One message of a stream, either way.
struct Message {
  uint64_t link = 0;
  uint32_t index = 0;     // the extent's stream
  uint64_t sequence = 0;  // in the stream, from 0
  bool reply = false;
  bool detach = false;
  uint64_t op = 0;  // the client's number of the op
  OpCode opcode = OpCode::kGet;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t local_offset = 0;  // of this piece in the op
  uint64_t operand = 0;
  uint64_t expected = 0;
  Code code = Code::kOk;  // of a request: what it is answered with, and not applied
  uint64_t old_value = 0;
  std::vector<std::byte> payload;
};

/// Puts what arrives into the order of its stream, each message once (N1).
class InOrder {
 public:
  /// Calls `apply` for `message` and what it lets go on. False if it was a duplicate.
  template <class Apply>
  bool arrive(const Message& message, Apply apply) {
    OCM_DASSERT(is_valid());
    if (message.sequence < next_ || !held_.try_emplace(message.sequence, message).second) return false;
    for (auto it = held_.find(next_); it != held_.end(); it = held_.find(next_)) {
      Message now = std::move(it->second);
      held_.erase(it);
      ++next_;
      apply(now);
    }
    return true;
  }

  /// N1: what is held waits for one that precedes it. Cost: one look.
  bool is_valid() const { return held_.empty() || held_.begin()->first > next_; }

 private:
  uint64_t next_ = 0;
  std::map<uint64_t, Message> held_;  // arrived before a message that precedes them
};

/// An op of the client under way.
struct Pending {
  Op* op = nullptr;
  uint32_t index = 0;
  uint64_t pieces_left = 0;
  Code code = Code::kOk;
};

/// One extent on a link, both ends.
struct Stream {
  // the client's end
  uint64_t bytes = 0;
  Access access = Access::kRead;
  bool detached = false, detach_sent = false;
  std::deque<uint64_t> unsent;  // ops that wait for a notify before them
  uint64_t next_request = 0;
  InOrder replies;
  // the home's end
  std::weak_ptr<ServedExtent> extent;  // as every server keeps it between ops
  uint64_t next_reply = 0;
  InOrder requests;
};

/// A connection, both ends. The client's channel and the network hold it.
struct Link {
  uint64_t id = 0;
  std::string client, home;
  SessionId session;
  bool fenced = false;  // the home forgot it (N2)
  Status health;
  uint64_t moved_at_ns = 0;  // of the last reply
  uint64_t next_op = 0;
  std::map<uint64_t, Pending> pending;  // by number; ordered, so that begin() is the oldest
  std::map<uint32_t, Stream> streams;
  uint32_t next_index = 0;
  uint64_t under_way = 0;  // messages sent and neither lost nor arrived
  bool closed = false;     // the client let go of it
};

class NetworkCore : public std::enable_shared_from_this<NetworkCore> {
 public:
  NetworkCore(uint64_t seed, NetworkOptions network_options) : options(network_options), random_(seed) {}

  // Nodes. The caller holds `mutex`, as everywhere below.
  struct Node {
    ExtentDirectory* directory = nullptr;
    std::function<uint64_t()> now_ns;
    bool alive = true, stopped = false;
  };
  void add_node(const std::string& name, ExtentDirectory* directory, std::function<uint64_t()> clock);
  void kill(const std::string& name);
  void set_stopped(const std::string& name, bool stopped);
  void set_cut(const std::string& a, const std::string& b, bool is_cut);

  // Time.
  void at(uint64_t delay_ns, std::function<void()> what);
  void run_until(uint64_t until_ns);
  /// One step for a caller that waits: what is due next, or `idle_ns` if nothing is before that.
  void step(uint64_t idle_ns);

  // Links.
  Result<std::shared_ptr<Link>> connect(const std::string& from, const std::string& to,
                                        const Credentials& who, os::Deadline deadline);
  Result<uint32_t> attach(Link& link, const ExtentDescriptor& extent, Access access, os::Deadline deadline);
  void detach(Link& link, uint32_t index);
  void post(Link& link, Op& op);
  /// post() without what waits then, and without its notify.
  void take(Link& link, Op& op);
  void progress(Link& link, uint64_t stall_ns);
  void close(Link& link);
  void fail(Link& link, const Status& why);
  /// N2, and that ops, streams and messages under way are where they are counted. Cost: all of them.
  bool is_valid() const;

  mutable std::recursive_mutex mutex;  // guards everything here; scheduled functions call back in
  NetworkOptions options;
  NetworkCounts counts;
  uint64_t now_ns = 1'000'000'000;

 private:
  bool odds(uint32_t ppm) { return ppm != 0 && random_() % 1'000'000 < ppm; }
  /// True if messages pass between the two now.
  bool passes(const std::string& from, const std::string& to) const;
  /// Both ends alive and joined within `deadline`, one round trip later. Moves time.
  Status round_trip(const std::string& from, const std::string& to, os::Deadline deadline);
  void send(Message message);
  void travel(std::shared_ptr<const Message> message);
  void deliver(const std::shared_ptr<const Message>& message);
  void break_from_home(const std::shared_ptr<Link>& link);
  void forget_if_idle(uint64_t link);
  void apply(Link& link, Stream& stream, Message& request);
  void complete(Link& link, Message& reply);
  void pump(Link& link);
  bool may_go(const Link& link, uint64_t number) const;
  void launch(Link& link, uint64_t number);
  void unpark();

  std::mt19937_64 random_;
  std::map<std::pair<uint64_t, uint64_t>, std::function<void()>> events_;  // by time, then by order of making
  uint64_t next_event_ = 0;
  std::map<std::string, Node> nodes_;
  std::set<std::pair<std::string, std::string>> cuts_;
  std::map<uint64_t, std::shared_ptr<Link>> links_;  // closed ones stay while messages are under way
  uint64_t next_link_ = 0;
  std::vector<std::shared_ptr<const Message>> parked_;  // wait for a restore or a resume
};

}  // namespace ocm::fabric::fake
