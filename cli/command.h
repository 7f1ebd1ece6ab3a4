// How a command declares its options. CLI11 stays inside command.cpp.
//
// Lifetime: the targets of options live as long as the command line (the commands keep them in a
// shared_ptr that their `runs` captures).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tools/session.h"

namespace CLI {
class App;
}

namespace ocm::cli {
using namespace tools;  // what the applications have, too

/// One command. Names are as CLI11 takes them: "-q,--quiet" or, for a positional, "NAME".
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  Command& text(const char* names, std::string& target, const char* value, const char* help);
  Command& required_text(const char* names, std::string& target, const char* help);
  Command& texts(const char* names, std::vector<std::string>& target, const char* value, const char* help);
  Command& required_texts(const char* names, std::vector<std::string>& target, const char* help);
  Command& choice(const char* names, std::string& target, const std::vector<std::string>& choices,
                  const char* help);
  /// At least `least`, at most `most`.
  Command& number(const char* names, uint32_t& target, uint32_t least, uint32_t most, const char* help);
  Command& seconds(const char* names, double& target, const char* help);
  /// A length as base/units.h reads it, 64MiB.
  Command& bytes(const char* names, uint64_t& target, const char* help);
  Command& required_bytes(const char* names, uint64_t& target, const char* help);
  /// A comma-separated list of lengths.
  Command& byte_list(const char* names, std::vector<uint64_t>& target, const char* help);
  Command& flag(const char* names, bool& target, const char* help);
  /// Completes the command's arguments: "names" (published) or "files".
  Command& completes(const char* what);
  void runs(std::function<int()> function);
  /// A command of this one, which then only groups: `ocm pool check`.
  Command add(const char* name, const char* help);

 private:
  CLI::App* app_;
};

/// An option as completion sees it.
struct OptionView {
  std::vector<std::string> names;  // "--json", "-q"; empty: positional
  std::string help;
  bool takes_value = false;
  std::vector<std::string> choices;
};
struct CommandView {
  std::string name;  // "pool check" of one in a group
  std::string help;
  std::string completes;
  std::vector<OptionView> options;
  std::vector<std::string> group;  // names of those in it, without its own
};

/// The whole command line.
class CommandLine {
 public:
  CommandLine();
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  Globals& globals();
  Command add(const char* name, const char* help);
  /// Parses and runs; the result is the process' exit code.
  int run(int argc, char** argv);
  /// A group stands before those that are in it.
  std::vector<CommandView> commands() const;
  std::vector<OptionView> global_options() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ocm::cli
