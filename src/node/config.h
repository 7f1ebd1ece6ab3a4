// What a daemon is told: TOML file, every key with a default, flags over keys.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/units.h"
#include "fabric/settings.h"
#include "memory/registry/registry.h"
#include "os/secret.h"

namespace ocm::node {

struct Config {
  // [node]
  std::string name;  // empty: the host's name
  std::string run_dir = "/run/oncilla";
  std::string control_listen = "127.0.0.1:7600";
  std::string data_listen = "127.0.0.1:7601";
  std::string http_listen = "127.0.0.1:7602";  // empty: none
  std::string advertise;  // the host under which others reach this node; empty: that of control_listen
  bool core_dump_memory = false;  // a core dump of the daemon contains the extents
  // [cluster]
  std::string coordinator;         // host:port; empty: this node, or whom the seeds' council names
  std::vector<std::string> seeds;  // host:port: where a starting node asks; the first founds the cluster
  uint64_t heartbeat_ms = 500;
  uint64_t failure_deadline_ms = 3000;
  uint64_t orphan_grace_ms = 10'000;
  // [security]
  std::string token_file;
  std::string tls_ca, tls_cert, tls_key;
  std::string tls_client_cert, tls_client_key;  // for programs; empty: they present none
  // [offer.NAME], a section for each kind of memory that nodes of this build can offer
  memory::Entries kinds = memory::entries();
  memory::Settings offers;
  // [cache]
  uint64_t cache_bytes = 256 * kMiB;  // before kinds that are no memory; 0: none
  bool cache_cooperation = true;      // of pages whose home this is: nodes supply each other
  // [replicas]
  uint64_t replica_again_after_ms = 30'000;  // a node is gone so long: its replicas are made elsewhere
  uint64_t replica_bytes_per_second = uint64_t{1} << 29;  // of copies that this node leads; 0: no limit
  bool replica_wait_at_stop = true;                       // a stop waits while it would take a last copy
  // [limits]
  uint64_t sessions = 4096;
  uint64_t connections = 8192;
  uint64_t extents = 0;  // 0: kExtentsMaxByDefault
  uint64_t names = 65'536;
  uint64_t copies = 2;      // node-to-node copies at once
  uint64_t user_bytes = 0;  // for each uid; 0: no quota
  std::map<uint32_t, uint64_t> user_bytes_by_uid;
  // a section for each fabric that has settings
  fabric::Settings fabrics;
  // [log]
  log::Level log_level = log::Level::kInfo;
  log::Format log_format = log::Format::kLogfmt;

  /// Embedded in a program: no socket, no listeners, alone.
  bool embedded = false;
  uint64_t control_spin_us = 50;
  uint64_t slab_bytes = 2 * kMiB;

  static constexpr uint64_t kExtentsMaxByDefault = 131'072;
  uint64_t extents_max() const { return extents != 0 ? extents : kExtentsMaxByDefault; }
  /// So many that each extent can have a file of its own, or, by default, what ordinary use needs.
  uint64_t descriptors_wanted() const { return extents != 0 ? extents : 4096; }

  uint64_t failure_deadline_ns() const { return failure_deadline_ms * 1'000'000; }
  uint64_t heartbeat_ns() const { return heartbeat_ms * 1'000'000; }
  uint64_t orphan_grace_ns() const { return orphan_grace_ms * 1'000'000; }
  uint64_t replica_again_ns() const { return replica_again_after_ms * 1'000'000; }
  std::string socket_path() const { return run_dir + "/oncillad.sock"; }
  /// HTTP for this host's users, whom the kernel names.
  std::string http_socket_path() const { return run_dir + "/http.sock"; }
  bool wants_tls() const { return tls() || !tls_client_cert.empty() || !tls_client_key.empty(); }
  bool tls() const { return !tls_ca.empty() || !tls_cert.empty() || !tls_key.empty(); }
  /// What the node offers of a kind.
  uint64_t offered_bytes(Kind kind) const;
  void offer(Kind kind, uint64_t bytes) { offers.set(kind, memory::kBytes.data(), bytes); }
  /// 0: no quota.
  uint64_t quota_bytes(uint32_t uid) const {
    const auto it = user_bytes_by_uid.find(uid);
    return it == user_bytes_by_uid.end() ? user_bytes : it->second;
  }

  /// Every rule that does not need the system: names, addresses, ranges, and that nothing beyond loopback is
  /// served without a token. Errors: kInvalidArgument (names the key), kAuth, kUnsupported.
  Status check() const;
  /// The secrets that it names: readable, well-formed, and kept from others; and this node's certificate as
  /// the others will check it. Errors: kAuth (says which).
  Status check_files() const;
  /// What this machine cannot give. `warnings` gets what works, but not as it is meant to.
  /// Errors: kInvalidArgument (names the key).
  Status check_machine(std::vector<std::string>& warnings) const;
  /// `name`, or the host's.
  std::string node_name() const;
  /// The host under which others reach this node.
  std::string node_host() const;
};

/// Reads `path` over `config`. Unknown keys and wrong types are errors with the line.
Status load_config(const std::string& path, Config& config);
Status parse_config(const std::string& text, const std::string& source, Config& config);
/// A setting of a fabric or of a kind of memory, and its flag: "--tcp-spin-us" for [tcp] spin_us, "--dram" for
/// [offer.dram] bytes.
struct SettingFlag {
  std::string flag;
  Setting setting;
  std::function<void(Config&, uint64_t)> set;
  std::function<void(Config&, std::string)> set_text;  // kPath's
};
std::vector<SettingFlag> setting_flags();
/// 0 to 4294967294.
Result<uint32_t> parse_uid(const std::string& text);
/// "UID=BYTES" into user_bytes_by_uid.
Status add_user_limit(const std::string& text, Config& config);
/// The token in the file. Errors: kAuth (unreadable, of a wrong length, readable by others).
Result<os::Secret> read_token(const std::string& path);
Result<log::Level> parse_log_level(const std::string& text);
Result<log::Format> parse_log_format(const std::string& text);

}  // namespace ocm::node
