#include "node/config.h"

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
// toml++ 3.3 asserts on some malformed keys before it reports them; a debug build must report them too.
#define TOML_ASSERT(expression) ((void)0)
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "base/assert.h"
#include "control/membership.h"
#include "control/sockets.h"
#include "control/tls.h"
#include "fabric/registry/registry.h"
#include "os/address.h"
#include "os/crypto.h"
#include "os/fd.h"
#include "os/tls.h"

namespace ocm::node {
namespace {

constexpr size_t kTokenBytesMax = 4096;
static_assert(static_cast<uint64_t>(int64_t{-1}) == kNoIndex, "as index() reads it");
using Setter = std::function<Status(const toml::node&)>;

Status wrong(const char* wanted) { return Status(Code::kInvalidArgument, std::string("is not ") + wanted); }

Setter text(std::string& out) {
  return [&out](const toml::node& n) -> Status {
    if (!n.is_string()) return wrong("a string");
    out = n.as_string()->get();
    return {};
  };
}
Setter flag(bool& out) {
  return [&out](const toml::node& n) -> Status {
    if (!n.is_boolean()) return wrong("true or false");
    out = n.as_boolean()->get();
    return {};
  };
}
Setter number(uint64_t& out) {
  return [&out](const toml::node& n) -> Status {
    if (!n.is_integer() || n.as_integer()->get() < 0) return wrong("a number from 0 on");
    out = static_cast<uint64_t>(n.as_integer()->get());
    return {};
  };
}
/// 1073741824 or "1 GiB".
Status read_length(const toml::node& n, uint64_t& out) {
  if (n.is_integer()) return number(out)(n);
  if (!n.is_string()) return wrong("a length, such as 1073741824 or \"1 GiB\"");
  OCM_TRY_ASSIGN(out, parse_bytes(n.as_string()->get()));
  return {};
}
Setter length(uint64_t& out) {
  return [&out](const toml::node& n) { return read_length(n, out); };
}
Setter index(uint64_t& out) {
  return [&out](const toml::node& n) -> Status {
    if (!n.is_integer() || n.as_integer()->get() < -1) return wrong("a number from -1 on");
    out = static_cast<uint64_t>(n.as_integer()->get());  // -1 is kNoIndex
    return {};
  };
}
Setter texts(std::vector<std::string>& out) {
  return [&out](const toml::node& n) -> Status {
    const auto bad = [](const toml::node& one) { return !one.is_string(); };
    if (!n.is_array() || std::any_of(n.as_array()->begin(), n.as_array()->end(), bad))
      return wrong("a list of strings");
    out.clear();
    for (const toml::node& one : *n.as_array()) out.push_back(one.as_string()->get());
    return {};
  };
}
Setter user_table(std::map<uint32_t, uint64_t>& out) {
  return [&out](const toml::node& n) -> Status {
    if (!n.is_table()) return wrong("a table of uid = length");
    out.clear();
    for (const auto& [key, value] : *n.as_table()) {
      const std::string uid(key.str());
      const auto parsed = parse_uid(uid);
      if (!parsed.is_ok()) return wrong("a table of uid = length");
      OCM_TRY(read_length(value, out[parsed.value()]));
    }
    return {};
  };
}

template <class Of>
Setter setting_of(SettingsOf<Of>& out, Of of, const Setting& setting) {
  return [&out, of, &setting](const toml::node& n) -> Status {
    uint64_t value = 0;
    bool on = false;
    switch (setting.type) {
      case Setting::Type::kNumber: OCM_TRY(number(value)(n)); break;
      case Setting::Type::kBytes: OCM_TRY(length(value)(n)); break;
      case Setting::Type::kIndex: OCM_TRY(index(value)(n)); break;
      case Setting::Type::kFlag:
        OCM_TRY(flag(on)(n));
        value = on ? 1 : 0;
        break;
      case Setting::Type::kPath: {
        std::string path;
        OCM_TRY(text(path)(n));
        out.set_text(of, setting, std::move(path));
        return {};
      }
    }
    out.set(of, setting, value);
    return {};
  };
}
/// Of a kind that this build has no folder for.
Setter none_of(const KindName& kind) {
  return [&kind](const toml::node& n) -> Status {
    uint64_t bytes = 0;
    OCM_TRY(read_length(n, bytes));
    if (bytes == 0) return {};
    return Status(Code::kUnsupported, std::string("asks for memory of kind ") + kind.name +
                                          ", which this build does not have: it has " + built_kinds(", "));
  };
}

/// Every key there is, by "section.key".
std::map<std::string, Setter> keys_of(Config& c) {
  std::map<std::string, Setter> keys{
      {"node.name", text(c.name)},
      {"node.run_dir", text(c.run_dir)},
      {"node.control_listen", text(c.control_listen)},
      {"node.data_listen", text(c.data_listen)},
      {"node.http_listen", text(c.http_listen)},
      {"node.advertise", text(c.advertise)},
      {"node.core_dump_memory", flag(c.core_dump_memory)},
      {"cluster.coordinator", text(c.coordinator)},
      {"cluster.seeds", texts(c.seeds)},
      {"cluster.heartbeat_ms", number(c.heartbeat_ms)},
      {"cluster.failure_deadline_ms", number(c.failure_deadline_ms)},
      {"cluster.orphan_grace_ms", number(c.orphan_grace_ms)},
      {"security.token_file", text(c.token_file)},
      {"security.tls_ca", text(c.tls_ca)},
      {"security.tls_cert", text(c.tls_cert)},
      {"security.tls_key", text(c.tls_key)},
      {"security.tls_client_cert", text(c.tls_client_cert)},
      {"security.tls_client_key", text(c.tls_client_key)},
      {"cache.bytes", length(c.cache_bytes)},
      {"cache.cooperation", flag(c.cache_cooperation)},
      {"replicas.again_after_ms", number(c.replica_again_after_ms)},
      {"replicas.bytes_per_second", length(c.replica_bytes_per_second)},
      {"replicas.wait_at_stop", flag(c.replica_wait_at_stop)},
      {"limits.sessions", number(c.sessions)},
      {"limits.connections", number(c.connections)},
      {"limits.extents", number(c.extents)},
      {"limits.names", number(c.names)},
      {"limits.copies", number(c.copies)},
      {"limits.user_bytes", length(c.user_bytes)},
      {"limits.user_bytes_by_uid", user_table(c.user_bytes_by_uid)},
      {"log.level",
       [&c](const toml::node& n) -> Status {
         std::string name;
         OCM_TRY(text(name)(n));
         OCM_TRY_ASSIGN(c.log_level, parse_log_level(name));
         return {};
       }},
      {"log.format",
       [&c](const toml::node& n) -> Status {
         std::string name;
         OCM_TRY(text(name)(n));
         OCM_TRY_ASSIGN(c.log_format, parse_log_format(name));
         return {};
       }},
  };
  fabric::each_setting([&](const fabric::Entry& entry, const Setting& setting) {
    OCM_DASSERT(setting.least <= setting.most);
    keys[std::string(entry.name()) + "." + setting.key] = setting_of(c.fabrics, entry.fabric, setting);
  });
  for (const KindName& kind : kKinds) {
    if (!kind.built) keys[std::string("offer.") + kind.name + ".bytes"] = none_of(kind);
  }
  memory::each_setting(c.kinds, [&](const memory::Entry& entry, const Setting& setting) {
    keys[std::string("offer.") + entry.name() + "." + setting.key] =
        setting_of(c.offers, entry.kind, setting);
  });
  return keys;
}

std::string at_line(const std::string& source, size_t line) {
  return source + ":" + std::to_string(line) + ": ";
}

std::string at_line(const std::string& source, const toml::source_region& where) {
  return at_line(source, where.begin.line);
}

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

/// Where the string ends that begins at `at`: behind its quotes, or where the document or its line ends without them.
size_t end_of_string(std::string_view text, size_t at) {
  OCM_DASSERT(at < text.size() && (text[at] == '"' || text[at] == '\''));
  const char quote = text[at];
  const bool is_long = text.substr(at, 3) == std::string(3, quote);
  const std::string end(is_long ? 3 : 1, quote);
  for (at += end.size(); at < text.size(); ++at) {
    if (text.substr(at, end.size()) == end) {
      at += end.size();
      for (int more = 0; is_long && more < 2 && at < text.size() && text[at] == quote; ++more) ++at;
      return at;
    }
    if (text[at] == '\n' && !is_long) return at;
    if (text[at] == '\\' && quote == '"') ++at;
  }
  return text.size();
}

/// Of a well-formed document. TOML has characters beyond ASCII in strings and comments only.
Status check_characters(std::string_view text, const std::string& source) {
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '#') {
      at = std::min(text.find('\n', at), text.size());
    } else if (text[at] == '"' || text[at] == '\'') {
      at = end_of_string(text, at);
      OCM_DASSERT(at <= text.size());
    } else if (!is_ascii(text[at])) {
      const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n');
      return Status(Code::kInvalidArgument, at_line(source, static_cast<size_t>(line)) +
                                                "a character beyond ASCII stands outside of quotes");
    } else {
      ++at;
    }
  }
  return {};
}

Status parse_toml(std::string_view text, const std::string& source, toml::table& out) {
  toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return Status(Code::kInvalidArgument,
                  at_line(source, parsed.error().source()) + std::string(parsed.error().description()));
  }
  out = std::move(parsed).table();
  return {};
}

Status read_table(const toml::table& table, const std::string& prefix, const std::string& source,
                  const std::map<std::string, Setter>& keys) {
  for (const auto& [key, value] : table) {
    const std::string name = prefix + std::string(key.str());
    const auto setter = keys.find(name);
    if (setter != keys.end()) {
      const Status set = setter->second(value);
      if (!set.is_ok()) {
        const Code code = set.code() == Code::kUnsupported ? set.code() : Code::kInvalidArgument;
        return Status(code, at_line(source, value.source()) + name + " " + std::string(set.message()));
      }
      continue;
    }
    const auto section = keys.lower_bound(name + ".");
    const bool is_section = section != keys.end() && section->first.starts_with(name + ".");
    if (!is_section || !value.is_table()) {
      return Status(Code::kInvalidArgument, at_line(source, value.source()) + "unknown key " + name);
    }
    OCM_TRY(read_table(*value.as_table(), name + ".", source, keys));
  }
  return {};
}

Status in_range(const char* key, uint64_t value, uint64_t least, uint64_t most) {
  OCM_DASSERT(least <= most);
  if (value >= least && value <= most) return {};
  return Status(Code::kInvalidArgument, std::string(key) + " is " + std::to_string(value) + "; allowed are " +
                                            std::to_string(least) + " to " + std::to_string(most));
}

Status check_address(const char* key, const std::string& address, const Config& config, bool control) {
  const auto parsed = control::HostPort::parse(address);
  if (!parsed.is_ok())
    return Status(Code::kInvalidArgument, std::string(key) + ": " + std::string(parsed.status().message()));
  if (control && config.token_file.empty() && !os::is_loopback(parsed.value().host)) {
    return Status(Code::kAuth, std::string(key) + " " + address +
                                   " is reachable from other hosts: give [security] token_file");
  }
  return {};
}

/// "0.0.0.0" and the like: good to listen on, but no address that others could use.
Status check_reachable(const char* key, const std::string& address, const Config& config) {
  OCM_TRY_ASSIGN(const control::HostPort at, control::HostPort::parse(address));
  if (!config.advertise.empty() || !control::is_wildcard(at.host)) return {};
  return Status(Code::kInvalidArgument, std::string(key) + " " + address +
                                            " listens on every interface: give [node] advertise, the host "
                                            "under which the other nodes reach this one");
}

std::string host_name() {
  char name[256] = {};
  ::gethostname(name, sizeof(name) - 1);
  std::string out;
  for (const char* c = name; *c != '\0' && out.size() < control::kNodeNameBytesMax; ++c) {
    if (control::check_node_name(std::string_view(c, 1)).is_ok()) out += *c;
  }
  OCM_DASSERT(out.empty() || control::check_node_name(out).is_ok());
  return out.empty() ? "node" : out;
}

}  // namespace

std::string Config::node_name() const { return name.empty() ? host_name() : name; }

std::string Config::node_host() const {
  if (!advertise.empty()) return advertise;
  const auto at = control::HostPort::parse(control_listen);
  return at.is_ok() ? at.value().host : control_listen;
}

uint64_t Config::offered_bytes(Kind kind) const {
  const memory::Entry* entry = memory::find_entry(kind, kinds);
  return entry == nullptr ? 0 : entry->bytes(offers);
}

std::vector<SettingFlag> setting_flags() {
  std::vector<SettingFlag> out;
  const auto flag_of = [](const char* name, const Setting& setting, std::string_view alone) {
    std::string flag = std::string("--") + name;
    if (setting.key != alone) flag += std::string("-") + setting.key;
    std::replace(flag.begin(), flag.end(), '_', '-');
    return flag;
  };
  fabric::each_setting([&](const fabric::Entry& entry, const Setting& setting) {
    out.push_back(
        {flag_of(entry.name(), setting, fabric::kEnabled), setting,
         [&](Config& c, uint64_t value) { c.fabrics.set(entry.fabric, setting, value); },
         [&](Config& c, std::string text) { c.fabrics.set_text(entry.fabric, setting, std::move(text)); }});
  });
  memory::each_setting(memory::entries(), [&](const memory::Entry& entry, const Setting& setting) {
    out.push_back(
        {flag_of(entry.name(), setting, memory::kBytes), setting,
         [&](Config& c, uint64_t value) { c.offers.set(entry.kind, setting, value); },
         [&](Config& c, std::string text) { c.offers.set_text(entry.kind, setting, std::move(text)); }});
  });
  return out;
}

Result<uint32_t> parse_uid(const std::string& text) {
  constexpr size_t kDigitsMax = 10;
  constexpr uint64_t kNobody = ~uint32_t{0};  // (uid_t)-1 is no user
  const bool digits =
      !text.empty() && text.size() <= kDigitsMax && text.find_first_not_of("0123456789") == std::string::npos;
  const uint64_t uid = digits ? std::stoull(text) : kNobody;
  OCM_DASSERT(uid < 10'000'000'000);  // ten digits
  if (uid >= kNobody) return Status(Code::kInvalidArgument, "is not a uid");
  return static_cast<uint32_t>(uid);
}

Status add_user_limit(const std::string& text, Config& config) {
  const size_t equals = text.find('=');
  const auto uid = parse_uid(text.substr(0, equals));
  const auto bytes = parse_bytes(equals == std::string::npos ? std::string() : text.substr(equals + 1));
  if (!uid.is_ok() || !bytes.is_ok()) {
    return Status(Code::kInvalidArgument,
                  "'" + text + "' is not a user's limit: write UID=BYTES, such as 1000=4GiB");
  }
  config.user_bytes_by_uid[uid.value()] = bytes.value();
  return {};
}

Result<log::Level> parse_log_level(const std::string& name) {
  if (name == "debug") return log::Level::kDebug;
  if (name == "info") return log::Level::kInfo;
  if (name == "warn") return log::Level::kWarn;
  if (name == "error") return log::Level::kError;
  if (name == "off") return log::Level::kOff;
  return Status(Code::kInvalidArgument, "is not one of debug, info, warn, error, off");
}

Result<log::Format> parse_log_format(const std::string& name) {
  if (name == "logfmt") return log::Format::kLogfmt;
  if (name == "json") return log::Format::kJson;
  return Status(Code::kInvalidArgument, "is not logfmt or json");
}

Status Config::check() const {
  if (!name.empty()) OCM_TRY(control::check_node_name(name));
  OCM_TRY(in_range("[cluster] heartbeat_ms", heartbeat_ms, 1, 60'000));
  OCM_TRY(in_range("[cluster] failure_deadline_ms", failure_deadline_ms, 2 * heartbeat_ms, 600'000));
  OCM_TRY(in_range("[cluster] orphan_grace_ms", orphan_grace_ms, 0, 3'600'000));
  OCM_TRY(in_range("[replicas] again_after_ms", replica_again_after_ms, 0, 86'400'000));
  OCM_TRY(in_range("[limits] sessions", sessions, 1, 1'000'000));
  OCM_TRY(in_range("[limits] connections", connections, 1, 1'000'000));
  OCM_TRY(in_range("[limits] extents", extents, 0, uint64_t{1} << 28));
  OCM_TRY(in_range("[limits] names", names, 1, 10'000'000));
  OCM_TRY(in_range("[limits] copies", copies, 1, 64));
  Status good;
  const auto check_setting = [&](const std::string& section, const Setting& setting, uint64_t value) {
    const bool none = setting.type == Setting::Type::kIndex && value == kNoIndex;
    if (!good.is_ok() || none || setting.type == Setting::Type::kPath) return;
    const std::string key = "[" + section + "] " + setting.key;
    good = in_range(key.c_str(), value, setting.least, setting.most);
  };
  fabric::each_setting([&](const fabric::Entry& entry, const Setting& setting) {
    check_setting(entry.name(), setting, fabrics.get(entry.fabric, setting));
  });
  memory::each_setting(kinds, [&](const memory::Entry& entry, const Setting& setting) {
    check_setting(std::string("offer.") + entry.name(), setting, offers.get(entry.kind, setting));
  });
  OCM_TRY(good);
  if (tls() && (tls_ca.empty() || tls_cert.empty() || tls_key.empty())) {
    return Status(Code::kAuth, "TLS needs all three: tls_ca, tls_cert and tls_key");
  }
  if (wants_tls() && token_file.empty()) {
    return Status(Code::kAuth, "TLS needs [security] token_file too: session keys derive from the token");
  }
  if (tls_client_cert.empty() != tls_client_key.empty() || (!tls_client_cert.empty() && !tls())) {
    return Status(Code::kAuth,
                  "programs' certificates need TLS, and both tls_client_cert and tls_client_key");
  }
  if (embedded) return {};
  if (run_dir.empty() || run_dir.size() > 90) {
    return Status(Code::kInvalidArgument,
                  "[node] run_dir has " + std::to_string(run_dir.size()) +
                      " bytes; allowed are 1 to 90, because the path of a socket in it "
                      "is limited");
  }
  OCM_TRY(check_address("[node] control_listen", control_listen, *this, true));
  OCM_TRY(check_address("[node] data_listen", data_listen, *this, true));
  OCM_TRY(check_reachable("[node] control_listen", control_listen, *this));
  OCM_TRY(check_reachable("[node] data_listen", data_listen, *this));
  if (!advertise.empty() &&
      (control::is_wildcard(advertise) || advertise.find_first_of("/ ") != advertise.npos)) {
    return Status(Code::kInvalidArgument,
                  "[node] advertise is '" + advertise + "'; give a host name or address without a port");
  }
  if (!http_listen.empty()) OCM_TRY(check_address("[node] http_listen", http_listen, *this, false));
  if (!coordinator.empty()) OCM_TRY(check_address("[cluster] coordinator", coordinator, *this, true));
  constexpr size_t kSeedsMax = 16;
  OCM_TRY(in_range("[cluster] seeds: how many there are", seeds.size(), 0, kSeedsMax));
  if (!coordinator.empty() && !seeds.empty()) {
    return Status(
        Code::kInvalidArgument,
        "[cluster] has both coordinator and seeds: give coordinator where one node has the role for good, "
        "seeds where it passes on");
  }
  for (size_t i = 0; i < seeds.size(); ++i) {
    OCM_TRY(check_address("[cluster] seeds", seeds[i], *this, true));
    if (std::find(seeds.begin(), seeds.begin() + static_cast<ptrdiff_t>(i), seeds[i]) !=
        seeds.begin() + static_cast<ptrdiff_t>(i))
      return Status(Code::kInvalidArgument, "[cluster] seeds names " + seeds[i] + " twice");
  }
  return {};
}

Result<os::Secret> read_token(const std::string& path) {
  const os::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat file {};
  if (!fd.is_open() || ::fstat(fd.get(), &file) != 0) {
    return Status(Code::kAuth, "cannot read token_file " + path + ": " + std::strerror(errno));
  }
  if (!S_ISREG(file.st_mode)) return Status(Code::kAuth, "token_file " + path + " is not a regular file");
  OCM_TRY(os::check_kept_secret("token_file", path, file));
  std::string text(kTokenBytesMax + 64, '\0');
  const ssize_t bytes = ::read(fd.get(), text.data(), text.size());
  text.resize(bytes < 0 ? 0 : static_cast<size_t>(bytes));
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.pop_back();
  if (text.size() < 16 || text.size() > kTokenBytesMax) {
    return Status(Code::kAuth, "the token in " + path + " is not 16 to 4096 bytes long");
  }
  auto token = os::Secret::copy(os::bytes_of(text));
  ::explicit_bzero(text.data(), text.size());
  return token;
}

Status Config::check_files() const {
  if (!token_file.empty()) OCM_TRY(read_token(token_file).status());
  if (tls()) OCM_TRY(control::TlsContext::check(tls_ca, tls_cert, tls_key, {node_name(), node_host()}));
  if (!tls_client_cert.empty()) {
    OCM_TRY(control::TlsContext::load(tls_ca, tls_client_cert, tls_client_key).status());
  }
  return {};
}

Status Config::check_machine(std::vector<std::string>& warnings) const {
  for (const memory::Entry* entry : kinds) OCM_TRY(entry->check_machine(offers, warnings));
  return {};
}

Status parse_config(const std::string& document, const std::string& source, Config& config) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  std::string_view text = document;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  toml::table table;
  if (!std::all_of(text.begin(), text.end(), is_ascii)) {
    // toml++ 3.3 takes some characters (U+00A1 to U+0499 among others) outside of strings and comments for something
    // that cannot happen (`__builtin_unreachable`). So first without them: then it is known where strings begin.
    std::string ascii(text);
    std::replace_if(
        ascii.begin(), ascii.end(), [](char c) { return !is_ascii(c); }, '_');
    const Status well_formed = parse_toml(ascii, source, table);
    if (!well_formed.is_ok()) {
      return Status(well_formed.code(),
                    std::string(well_formed.message()) + "; '_' for each byte beyond ASCII");
    }
    OCM_TRY(check_characters(text, source));
  }
  OCM_TRY(parse_toml(text, source, table));
  return read_table(table, "", source, keys_of(config));
}

Status load_config(const std::string& path, Config& config) {
  std::ifstream file(path);
  if (!file) return Status(Code::kInvalidArgument, "cannot read " + path);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return Status(Code::kInvalidArgument, "cannot read " + path + ": it is a directory");
  }
  std::ostringstream document;
  document << file.rdbuf();
  return parse_config(document.str(), path, config);
}

}  // namespace ocm::node
