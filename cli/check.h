// One finding of `ocm doctor`: what was looked at, what is there, and how to fix it.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace ocm::cli {

enum class Verdict { kOk, kWarn, kFail };

struct Check {
  std::string name;
  Verdict verdict = Verdict::kOk;
  std::string found;
  std::string fix;  // what to do; empty when nothing is wrong
};

/// A daemon's limit of open files, and how many it wants. 0 and 0: no daemon says, so this user's limit.
Check check_nofile(uint64_t descriptors_max, uint64_t descriptors_wanted);
/// Limits, memory, pages, clocks: what the machine gives, whether a daemon runs or not.
std::vector<Check> check_machine();
/// The daemon, its cluster, ports, versions and secrets.
std::vector<Check> check_cluster(const Globals& globals, const std::string& http,
                                 const std::string& token_file);

}  // namespace ocm::cli
