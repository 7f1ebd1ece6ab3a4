#include "os/machine_memory.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

namespace ocm::os {
namespace {

std::string contents(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  if (!file) return {};
  std::string out(16 * 1024, '\0');
  out.resize(std::fread(out.data(), 1, out.size(), file.get()));
  return out;
}

/// One group; false: it has no limit.
bool limited(const std::string& group, MachineMemory& found) {
  const std::optional<uint64_t> most = number_in(group + "/memory.max");
  if (!most) return false;  // "max", or no such file
  const std::string stat = group + "/memory.stat";
  const uint64_t used = number_in(group + "/memory.current").value_or(0);
  const uint64_t cache =
      number_in(stat, "inactive_file").value_or(0) + number_in(stat, "active_file").value_or(0);
  const uint64_t kept = used - std::min(used, cache);
  found = {*most, *most - std::min(*most, kept)};
  return true;
}

}  // namespace

std::optional<uint64_t> number_in(const std::string& path, const char* key) {
  const std::string text = contents(path);
  for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + 1)) {
    unsigned long long number = 0;
    const bool begins = at == 0 || text[at - 1] == '\n';
    if (begins && std::sscanf(text.c_str() + at + std::strlen(key), " %llu", &number) == 1) return number;
  }
  return std::nullopt;
}

MachineMemory machine_memory() {
  const char* const machine = "/proc/meminfo";
  MachineMemory out{number_in(machine, "MemTotal:").value_or(0) * 1024,
                    number_in(machine, "MemAvailable:").value_or(0) * 1024};
  const std::string groups = contents("/proc/self/cgroup");
  const size_t line = groups.find("0::/");
  if (line == std::string::npos) return out;
  std::string group = groups.substr(line + 3, groups.find('\n', line) - line - 3);
  while (true) {
    MachineMemory here;
    if (limited("/sys/fs/cgroup" + group, here)) {
      out = {std::min(out.total, here.total), std::min(out.available, here.available)};
    }
    if (group.size() <= 1) return out;
    group.resize(group.rfind('/'));
  }
}

}  // namespace ocm::os
