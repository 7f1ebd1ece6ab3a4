#include "cli/command.h"

#include <stdio.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <sstream>

#include "base/units.h"
#include "oncilla/oncilla.h"
#include "tools/exit_code.h"
#include "tools/output.h"

namespace ocm::cli {
namespace {

// CLI11 has no room for these beside its options; both maps live as long as the process.
std::map<const CLI::Option*, std::vector<std::string>>& choices_of() {
  static std::map<const CLI::Option*, std::vector<std::string>> map;
  return map;
}
std::map<const CLI::App*, std::string>& completions_of() {
  static std::map<const CLI::App*, std::string> map;
  return map;
}
std::map<const CLI::App*, std::function<int()>>& functions_of() {
  static std::map<const CLI::App*, std::function<int()>> map;
  return map;
}

bool read_bytes(const std::string& text, uint64_t& target) {
  Result<uint64_t> bytes = parse_bytes(text);
  if (!bytes.is_ok()) throw CLI::ValidationError(std::string(bytes.status().message()));
  target = bytes.value();
  return true;
}

CLI::Option* add_bytes(CLI::App* app, const char* names, uint64_t& target, const char* help) {
  return app
      ->add_option_function<std::string>(
          names, [&target](const std::string& text) { read_bytes(text, target); }, help)
      ->type_name("BYTES");
}

/// Letters to insert, remove or replace to make one word of the other (Levenshtein).
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row[b.size()];
}

/// The candidate that `word` was meant to be; empty if none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  constexpr size_t kLettersMax = 64;
  if (word.size() > kLettersMax) return "";
  std::string best;
  size_t least = std::min<size_t>(2, word.size() / 2) + 1;
  for (const std::string& candidate : candidates) {
    const size_t letters = distance(word, candidate);
    if (letters >= least) continue;
    least = letters;
    best = candidate;
  }
  return best;
}

std::vector<OptionView> options_of(const CLI::App* app) {
  std::vector<OptionView> views;
  for (const CLI::Option* option : app->get_options()) {
    OptionView view;
    for (const std::string& name : option->get_snames()) view.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) view.names.push_back("--" + name);
    view.help = option->get_description();
    view.takes_value = option->get_items_expected_max() > 0;
    auto choices = choices_of().find(option);
    if (choices != choices_of().end()) view.choices = choices->second;
    views.push_back(std::move(view));
  }
  return views;
}

CLI::App* add_to(CLI::App* parent, const char* name, const char* help) {
  CLI::App* app = parent->add_subcommand(name, help);
  app->set_help_all_flag();
  app->footer("");
  return app;
}

/// The command that was chosen, of a group the one in it; `app` where none was.
const CLI::App* chosen_in(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

/// "ocm pool check"
std::string full_name(const CLI::App* app) {
  return app->get_parent() == nullptr ? app->get_name()
                                      : full_name(app->get_parent()) + " " + app->get_name();
}

void views_of(const CLI::App* parent, const std::string& prefix, std::vector<CommandView>& views) {
  for (const CLI::App* app : parent->get_subcommands(nullptr)) {
    CommandView view{prefix + app->get_name(), app->get_description(), "", options_of(app), {}};
    for (const CLI::App* one : app->get_subcommands(nullptr)) view.group.push_back(one->get_name());
    const auto completes = completions_of().find(app);
    if (completes != completions_of().end()) view.completes = completes->second;
    views.push_back(std::move(view));
    views_of(app, prefix + app->get_name() + " ", views);
  }
}

}  // namespace

Command& Command::text(const char* names, std::string& target, const char* value, const char* help) {
  app_->add_option(names, target, help)->type_name(value)->capture_default_str();
  return *this;
}
Command& Command::required_text(const char* names, std::string& target, const char* help) {
  app_->add_option(names, target, help)->type_name("")->required();
  return *this;
}
Command& Command::texts(const char* names, std::vector<std::string>& target, const char* value,
                        const char* help) {
  app_->add_option(names, target, help)->type_name(value)->delimiter(',')->allow_extra_args(false);
  return *this;
}
Command& Command::required_texts(const char* names, std::vector<std::string>& target, const char* help) {
  app_->add_option(names, target, help)->type_name("")->required();
  return *this;
}
Command& Command::choice(const char* names, std::string& target, const std::vector<std::string>& choices,
                         const char* help) {
  CLI::Option* option = app_->add_option(names, target, help)->capture_default_str();
  option->check(CLI::IsMember(choices).description(""))->type_name(CLI::detail::join(choices, "|"));
  choices_of()[option] = choices;
  return *this;
}
Command& Command::number(const char* names, uint32_t& target, uint32_t least, uint32_t most,
                         const char* help) {
  app_->add_option(names, target, help)
      ->check(CLI::Range(least, most).description(""))
      ->type_name("N")
      ->capture_default_str();
  return *this;
}
Command& Command::seconds(const char* names, double& target, const char* help) {
  app_->add_option(names, target, help)
      ->check(
          [](const std::string& text) {
            double value = 0;
            const bool good = CLI::detail::lexical_cast(text, value) && value >= 0.01 && value <= 86400;
            return good ? "" : "Value " + text + " not in range 0.01 to 86400";  // CLI::Range takes nan
          },
          "")
      ->type_name("SECONDS")
      ->capture_default_str();
  return *this;
}
Command& Command::bytes(const char* names, uint64_t& target, const char* help) {
  CLI::Option* option = add_bytes(app_, names, target, help);
  if (target != 0) option->default_str(format_bytes(target));
  return *this;
}
Command& Command::required_bytes(const char* names, uint64_t& target, const char* help) {
  add_bytes(app_, names, target, help)->required()->type_name("");
  return *this;
}
Command& Command::byte_list(const char* names, std::vector<uint64_t>& target, const char* help) {
  app_->add_option_function<std::vector<std::string>>(
          names,
          [&target](const std::vector<std::string>& texts) {
            target.clear();
            for (const std::string& text : texts) {
              uint64_t bytes = 0;
              read_bytes(text, bytes);
              if (bytes == 0) throw CLI::ValidationError("a size of 0 cannot be measured");
              target.push_back(bytes);
            }
          },
          help)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("BYTES,BYTES");
  return *this;
}
Command& Command::flag(const char* names, bool& target, const char* help) {
  app_->add_flag(names, target, help);
  return *this;
}
Command& Command::completes(const char* what) {
  completions_of()[app_] = what;
  return *this;
}
void Command::runs(std::function<int()> function) { functions_of()[app_] = std::move(function); }
Command Command::add(const char* name, const char* help) {
  app_->require_subcommand(1);
  return Command(add_to(app_, name, help));
}

struct CommandLine::State {
  CLI::App app{"ocm: the memory of a cluster from the command line", "ocm"};
  Globals globals;
};

CommandLine::CommandLine() : state_(std::make_unique<State>()) {
  CLI::App& app = state_->app;
  app.require_subcommand(1);
  app.fallthrough();
  app.set_help_all_flag("--help-all", "Print the help of every command and exit");
  app.set_version_flag("--version", std::string("ocm ") + ocm_version(), "Print the version and exit");
  app.footer(
      "Exit codes: 0 done, 1 failed, 2 usage, 3 no daemon or coordinator, 4 not found, 5 exists,\n"
      "6 no room, 7 not allowed, 8 node or bytes lost, 130 interrupted. More in ocm(1).");
  Globals& shared = state_->globals;
  Command(&app)
      .text("-s,--socket", shared.socket, "PATH",
            "The local daemon's socket [$OCM_SOCKET, then /run/oncilla/oncillad.sock, then the cluster of "
            "`ocm up`]")
      .choice("--color", shared.color, {"auto", "always", "never"}, "Colours; auto: on a terminal only");
}
CommandLine::~CommandLine() = default;

Globals& CommandLine::globals() { return state_->globals; }

Command CommandLine::add(const char* name, const char* help) {
  return Command(add_to(&state_->app, name, help));
}

int CommandLine::run(int argc, char** argv) {
  try {
    state_->app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      std::ostringstream text;
      const int code = state_->app.exit(error, text, text);
      fputs(text.str().c_str(), stdout);
      return code;
    }
    const CLI::App* chosen = chosen_in(&state_->app);
    const std::string name = full_name(chosen);
    const std::string prefix = name.substr(name.find(' ') == std::string::npos ? name.size() : 4);
    std::string text = error.what();
    const auto unknown = state_->app.remaining(true);
    std::vector<std::string> candidates;
    if (!unknown.empty() && unknown.front().starts_with("-")) {
      std::vector<OptionView> options = global_options();
      if (chosen != &state_->app) std::ranges::move(options_of(chosen), std::back_inserter(options));
      for (const OptionView& option : options) {
        candidates.insert(candidates.end(), option.names.begin(), option.names.end());
      }
    } else if (!unknown.empty() && !chosen->get_subcommands(nullptr).empty()) {
      text =
          "there is no command `" + prefix + (prefix.empty() ? "" : " ") + printable(unknown.front()) + "`";
      for (const CLI::App* command : chosen->get_subcommands(nullptr))
        candidates.push_back(command->get_name());
    }
    const std::string meant = unknown.empty() ? "" : nearest(unknown.front(), candidates);
    if (!meant.empty())
      text += "; did you mean `" + (meant.front() == '-' ? meant : name + " " + meant) + "`?";
    print_error(text + (meant.empty() ? "; see `" : " See `") + name + " --help`");
    return kExitUsage;
  }
  set_color(state_->globals.color);
  return functions_of().at(chosen_in(&state_->app))();
}

std::vector<CommandView> CommandLine::commands() const {
  std::vector<CommandView> views;
  views_of(&state_->app, "", views);
  return views;
}

std::vector<OptionView> CommandLine::global_options() const { return options_of(&state_->app); }

}  // namespace ocm::cli
