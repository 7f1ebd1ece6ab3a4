// A whole daemon in the simulation: every part of src/node but its sockets and threads, on an environment of
// its own, reached over links of the simulated network.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "fabric/tcp/fence.h"
#include "node/allocator.h"
#include "node/copier.h"
#include "node/holds.h"
#include "node/remaker.h"
#include "node/service.h"
#include "ways.h"

namespace ocm::simulation {

/// The world as a daemon sees it.
class Network {
 public:
  virtual ~Network() = default;
  virtual Ways& ways() = 0;
  virtual Clock& clock() = 0;
  /// By index; null while it is dead.
  virtual std::shared_ptr<class Daemon> daemon(size_t node) = 0;
  /// False: nothing answers for it, not even its kernel.
  virtual bool has_power(size_t node) const = 0;
};

/// Of control messages; the network is the first part: "0:1" is node 0.
std::string address_of(size_t node);
size_t node_of(const std::string& address);
inline std::string name_of(size_t node) { return "n" + std::to_string(node); }
/// Nobody: beyond the nodes there are.
inline size_t node_of_name(const std::string& name) { return std::stoul(name.substr(1)); }

/// One operation on a word of an extent, or, of copies, on some bytes.
struct WordOp {
  enum Kind { kGet, kPut, kAdd, kRead, kWrite } kind = kGet;
  ExtentId id;
  std::string capability;
  uint64_t offset = 0;
  uint64_t value = 0;  // put, add; read: how many bytes
  std::string data;    // write
  bool reads() const { return kind == kGet || kind == kRead; }
};
struct WordResult {
  Code code = Code::kOk;
  uint64_t value = 0;  // get, add: what was there
  std::string data;    // read
};

class Daemon : public std::enable_shared_from_this<Daemon> {
 public:
  /// What of a node's voter outlives its daemon.
  using Memory = std::map<node::VoterStore::Of, std::vector<std::string>>;
  struct Options {
    size_t node = 0;
    std::shared_ptr<Memory> memory;  // null: none
    uint64_t run = 0;                // of all runs of daemons in this world
    uint64_t seed = 0;
    int64_t drift_ppm = 0;
    uint64_t failure_deadline_ms = 1500, heartbeat_ms = 250, orphan_grace_ms = 4000;
    uint64_t dram_bytes = uint64_t{1} << 20;
    size_t seeds = 0;       // the first nodes; 0: the coordinator is node 0 for good
    bool is_older = false;  // has none of the features of wire/version.h
  };
  Daemon(Network& network, const Options& options);
  ~Daemon();
  void start();
  /// Told to stop: takes no connection any more; `drained` once it may be killed.
  void drain(std::function<void()> drained);
  bool is_closed() const { return closed_; }
  bool is_shut() const { return shut_; }  // and those that there were are closed
  /// A program's connection, closed by drain().
  void connected(const std::shared_ptr<node::Program>& program) { programs_.push_back(program); }

  size_t node() const { return options_.node; }
  uint64_t run() const { return options_.run; }
  /// On its environment, at once. What a data server does with an operation.
  WordResult serve(const WordOp& op);
  /// Something came over this data connection of a program. False: it is not applied, for a newer one is here.
  bool is_let_in(uint64_t program, uint64_t connection);
  bool let_in_older = false;  // G2 of fabric/tcp/fence.h does not hold

  std::shared_ptr<SimEnv> env;
  std::unique_ptr<node::Core> core;
  std::unique_ptr<node::Home> home;
  std::unique_ptr<node::Peers> peers;
  std::unique_ptr<node::Cluster> cluster;
  std::unique_ptr<node::Sessions> sessions;
  std::unique_ptr<node::Allocator> allocator;
  std::unique_ptr<node::Holds> holds;
  std::unique_ptr<node::Copier> copier;
  std::unique_ptr<node::Remaker> remaker;
  std::unique_ptr<node::Stopper> stopper;
  std::unique_ptr<node::Pages> pages;
  std::unique_ptr<node::Service> service;
  /// Sees every operation that was allowed on an extent.
  std::function<void(const WordOp&, const WordResult&)> served_op;

 private:
  Task<Result<std::shared_ptr<control::Link>>> dial(std::string address, uint64_t deadline_ns);
  Task<WordResult> fetch(size_t from, WordOp get);
  Task<void> copy(node::CopyJob job);

  Network& network_;
  const Options options_;
  fabric::Servers servers_;
  bool closed_ = false, shut_ = false;
  std::vector<std::weak_ptr<node::Program>> programs_;
  fabric::tcp::Fences fences_;
  std::map<uint64_t, std::shared_ptr<fabric::tcp::Seat>> seats_;  // by connection
  std::map<uint64_t, uint64_t> newest_let_in_;                    // by program: its connection
};

}  // namespace ocm::simulation
