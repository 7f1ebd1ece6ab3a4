// oncillad: one node of the cluster. Options over the configuration file over the defaults.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "node/node.h"
#include "os/fd.h"

namespace {

using ocm::Status;
using ocm::node::Config;

/// Tells systemd (Type=notify) how far we are; nothing without $NOTIFY_SOCKET.
void notify(const char* state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t length = std::strlen(path);
  if (length == 0 || length >= sizeof(address.sun_path)) return;
  std::memcpy(address.sun_path, path, length);
  if (path[0] == '@') address.sun_path[0] = '\0';
  const ocm::os::Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  (void)::sendto(fd.get(), state, std::strlen(state), MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&address),
                 bytes);
}

/// The options of the command line; those given are put over what the file says.
class Options {
 public:
  Options() {
    // A flag given twice: the last one holds, so that a script can append to a command line.
    app_.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    app_.add_option("--config", file_, "TOML configuration; flags override its keys");
    app_.add_flag("--check-config", check_only_, "check the configuration and exit");
    app_.set_version_flag("--version", std::string("oncillad ") + ocm::node::Node::version());
    text("--node-name", "name of this node; the host's name by default", &Config::name);
    text("--run-dir", "directory of the socket, the lock and the token", &Config::run_dir);
    flag("--core-dump-memory", "let a core dump of the daemon contain the extents",
         &Config::core_dump_memory);
    text("--control-listen", "host:port for other daemons", &Config::control_listen);
    text("--data-listen", "host:port for the data of programs and other nodes", &Config::data_listen);
    text("--http-listen", "host:port of /metrics, /status and /healthz; empty: none", &Config::http_listen);
    text("--advertise", "host under which other nodes reach this one", &Config::advertise);
    text("--coordinator", "control address of the coordinator; this node by default", &Config::coordinator);
    app_.add_option("--seeds", seeds_,
                    "control addresses, separated by commas, where a starting node asks for its "
                    "cluster; the first founds it, and the coordinator's role passes on")
        ->delimiter(',');
    text("--token-file", "file with the cluster token", &Config::token_file);
    text("--tls-ca", "certificate authority of the cluster", &Config::tls_ca);
    text("--tls-cert", "certificate of this node", &Config::tls_cert);
    text("--tls-key", "private key of this node", &Config::tls_key);
    text("--tls-client-cert", "certificate of this host's programs; empty: they present none",
         &Config::tls_client_cert);
    text("--tls-client-key", "private key of --tls-client-cert, readable by those programs",
         &Config::tls_client_key);
    length("--cache", "bytes of memory that cache the pages of kinds that are on a device; 0: none",
           &Config::cache_bytes);
    flag("--cache-cooperation", "let nodes that have a page supply others; =false: only its home does",
         &Config::cache_cooperation);
    number("--heartbeat-ms", "time between heartbeats", &Config::heartbeat_ms);
    number("--failure-deadline-ms", "silence after which a node is considered dead",
           &Config::failure_deadline_ms);
    number("--orphan-grace-ms", "how long the extents of a lost daemon's sessions are kept",
           &Config::orphan_grace_ms);
    number("--limit-sessions", "maximum number of sessions", &Config::sessions);
    number("--limit-connections", "maximum number of connections of each sort", &Config::connections);
    number("--limit-extents", "maximum number of extents; 0: 131072", &Config::extents);
    number("--limit-names", "maximum number of published names (coordinator)", &Config::names);
    number("--replicas-again-after-ms", "time after which the replicas of a lost node are rebuilt on others",
           &Config::replica_again_after_ms);
    length("--replicas-bytes-per-second", "rate at which this node copies replicas; 0: no limit",
           &Config::replica_bytes_per_second);
    flag("--replicas-wait-at-stop", "delay a stop that would remove a last copy; =false: stop at once",
         &Config::replica_wait_at_stop);
    number("--limit-copies", "maximum number of concurrent node-to-node copies", &Config::copies);
    length("--limit-user-bytes", "bytes that one uid may hold; 0: no limit", &Config::user_bytes);
    app_.add_option("--limit-user", user_limits_, "UID=BYTES: bytes that this uid may hold; may be repeated")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->expected(1)
        ->allow_extra_args(false);
    for (const ocm::node::SettingFlag& one : ocm::node::setting_flags()) setting(one);
    app_.add_option("--log-level", log_level_, "debug, info, warn, error or off");
    app_.add_option("--log-format", log_format_, "logfmt or json");
  }

  CLI::App& app() { return app_; }
  bool check_only() const { return check_only_; }
  /// Of apply().
  const std::vector<std::string>& warnings() const { return warnings_; }

  Status apply(Config& config) {
    if (!file_.empty()) OCM_TRY(ocm::node::load_config(file_, config));
    for (const auto& set : setters_) OCM_TRY(set(config));
    if (!seeds_.empty()) config.seeds = seeds_;
    if (!log_level_.empty()) {
      OCM_TRY_ASSIGN(config.log_level, ocm::node::parse_log_level(log_level_));
    }
    if (!log_format_.empty()) {
      OCM_TRY_ASSIGN(config.log_format, ocm::node::parse_log_format(log_format_));
    }
    for (const std::string& limit : user_limits_) OCM_TRY(ocm::node::add_user_limit(limit, config));
    OCM_TRY(config.check());
    OCM_TRY(config.check_files());
    return config.check_machine(warnings_);
  }

 private:
  void text(const char* name, const char* help, std::string Config::*member) {
    auto value = std::make_shared<std::string>();
    CLI::Option* option = app_.add_option(name, *value, help);
    setters_.push_back([=](Config& c) {
      if (option->count() > 0) c.*member = *value;
      return Status();
    });
  }
  void number(const char* name, const char* help, uint64_t Config::*member) {
    auto value = std::make_shared<uint64_t>();
    CLI::Option* option = app_.add_option(name, *value, help);
    setters_.push_back([=](Config& c) {
      if (option->count() > 0) c.*member = *value;
      return Status();
    });
  }
  void flag(const char* name, const char* help, bool Config::*member) {
    auto value = std::make_shared<bool>();
    CLI::Option* option = app_.add_flag(name, *value, help);
    setters_.push_back([=](Config& c) {
      if (option->count() > 0) c.*member = *value;
      return Status();
    });
  }
  void length(const char* name, const char* help, uint64_t Config::*member) {
    auto value = std::make_shared<std::string>();
    CLI::Option* option = app_.add_option(name, *value, help);
    setters_.push_back([=](Config& c) -> Status {
      if (option->count() == 0) return {};
      OCM_TRY_ASSIGN(c.*member, ocm::parse_bytes(*value));
      return {};
    });
  }

  void setting(const ocm::node::SettingFlag& one) {
    using Type = ocm::Setting::Type;
    const auto number = std::make_shared<uint64_t>();
    const auto text = std::make_shared<std::string>();
    const auto index = std::make_shared<int64_t>();
    const auto on = std::make_shared<bool>();
    const char* help = one.setting.help;
    const auto added = [&]() -> CLI::Option* {
      switch (one.setting.type) {
        case Type::kFlag: return app_.add_flag(one.flag, *on, help);
        case Type::kNumber: return app_.add_option(one.flag, *number, help);
        case Type::kIndex: return app_.add_option(one.flag, *index, help)->check(CLI::Range(-1, 1 << 20));
        case Type::kBytes:
        case Type::kPath: return app_.add_option(one.flag, *text, help);
      }
      return nullptr;
    };
    const CLI::Option* option = added();
    setters_.push_back([=](Config& c) -> Status {
      if (option->count() == 0) return {};
      if (one.setting.type == Type::kPath) {
        one.set_text(c, *text);
        return {};
      }
      uint64_t value = *number;
      if (one.setting.type == Type::kFlag) value = *on ? 1 : 0;
      if (one.setting.type == Type::kIndex) value = static_cast<uint64_t>(*index);  // -1 is kNoIndex
      if (one.setting.type == Type::kBytes) {
        OCM_TRY_ASSIGN(value, ocm::parse_bytes(*text));
      }
      one.set(c, value);
      return {};
    });
  }

  CLI::App app_{"One node of an Oncilla cluster"};
  std::string file_, log_level_, log_format_;
  bool check_only_ = false;
  std::vector<std::string> user_limits_, seeds_, warnings_;
  std::vector<std::function<Status(Config&)>> setters_;
};

constexpr int kFailed = 1;
constexpr int kMisused = 2;  // a wrong command line or configuration

int fail(const Status& status, int code) {
  std::fprintf(stderr, "oncillad: %s\n", status.to_string().c_str());
  return code;
}

void wait_for_stop(const sigset_t& taken) {
  int signal = 0;
  while (::sigwait(&taken, &signal) == 0 && signal == SIGHUP) {
    ocm::log::warn("sighup_ignored", {{"why", "nothing is reloaded; restart the daemon to change it"}});
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  try {
    options.app().parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return options.app().exit(e) == 0 ? 0 : kMisused;
  }
  Config config;
  const Status good = options.apply(config);
  if (!good.is_ok()) return fail(good, kMisused);
  if (options.check_only()) {
    for (const std::string& text : options.warnings()) std::fprintf(stderr, "warning: %s\n", text.c_str());
    std::puts("configuration: good");
    return 0;
  }
  ocm::log::configure(config.log_level, config.log_format);
  for (const std::string& text : options.warnings()) ocm::log::warn("configuration", {{"why", text}});
  // Blocked before any thread starts, so that only this one takes them.
  sigset_t taken;
  sigemptyset(&taken);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&taken, signal);
  ::pthread_sigmask(SIG_BLOCK, &taken, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // an extent over `ulimit -f` is an error to who asks for it
  ocm::log::never_wait();
  auto node = ocm::node::Node::start(config);
  if (!node.is_ok()) return fail(node.status(), kFailed);
  notify("READY=1");
  wait_for_stop(taken);
  notify("STOPPING=1");
  // When nothing is lost by it the daemon tells itself for the second time.
  node.value()->when_stop_is_safe([] { ::kill(::getpid(), SIGTERM); });
  wait_for_stop(taken);
  node.value()->stop();
  return 0;
}
