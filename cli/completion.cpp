// `ocm completion SHELL`: a script made from the commands and options themselves, so it is never behind.
#include <stdio.h>

#include "cli/commands.h"
#include "tools/exit_code.h"

namespace ocm::cli {
namespace {

std::string join(const std::vector<std::string>& words, const char* separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

std::vector<std::string> option_names(const std::vector<OptionView>& options) {
  std::vector<std::string> names;
  for (const OptionView& option : options) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

/// In single quotes of a shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char letter : text) {
    if (letter == '\'') {
      out += "'\\''";
    } else {
      out += letter;
    }
  }
  return out + "'";
}

/// Help inside zsh's '--option[help]': without what would end it.
std::string zsh_help(const std::string& text) {
  std::string out;
  for (const char letter : text) {
    if (letter == '[' || letter == ']' || letter == ':' || letter == '\'' || letter == '`') continue;
    out += letter;
  }
  return out;
}

// Published names, where the argument is one. They are others' bytes: no script may expand what this prints.
constexpr const char* kNames = "ocm ls --null 2>/dev/null";

// Not compgen -W, which runs $(...) in its words. `printf %q` makes a name one word without a meaning, but not where
// the user has opened a quote; there only words that need none are offered. A name like an option is left to the user.
constexpr const char* kBashOffer =
    R"(# _ocm_offer TYPED WORD...: completes with the words that begin with what was typed; expands none of them.
_ocm_offer() {
  local typed="$1" bare="${1//\\?/}" word quoted
  shift
  for word; do
    if [[ $word == -* && $typed != -* ]]; then continue; fi
    printf -v quoted %q "$word"
    if [[ $bare == *[\'\"\`\$]* ]]; then
      if [[ $quoted == "$word" && $word == "${typed#[\'\"]}"* ]]; then COMPREPLY+=("$word"); fi
    elif [[ $word == "$typed"* || $quoted == "$typed"* ]]; then
      COMPREPLY+=("$quoted")
    fi
  done
}
)";

bool is_in_a_group(const CommandView& command) { return command.name.find(' ') != std::string::npos; }

void print_bash(const CommandLine& line) {
  std::vector<std::string> commands, groups;
  for (const CommandView& command : line.commands()) {
    if (!is_in_a_group(command)) commands.push_back(command.name);
    if (!command.group.empty()) groups.push_back(command.name);
  }
  printf("# bash completion for ocm; written by `ocm completion bash`\n%s_ocm() {\n", kBashOffer);
  printf(
      "  local cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\" command= word skip=\n");
  printf("  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n");
  printf("    if [ -n \"$skip\" ]; then skip=; continue; fi\n");
  printf("    case $word in\n      -s|--socket|--color) skip=1 ;;\n      -*) ;;\n");
  printf(
      "      *)\n        if [ -n \"$command\" ]; then command+=\" $word\"; break; fi\n        "
      "command=$word\n");
  printf("        case $word in %s) ;; *) break ;; esac ;;\n    esac\n  done\n", join(groups, "|").c_str());
  printf("  local options=(%s) names=()\n", join(option_names(line.global_options()), " ").c_str());
  printf("  COMPREPLY=()\n  case $command in\n");
  for (const CommandView& command : line.commands()) {
    printf("    '%s')\n      options+=(%s)\n", command.name.c_str(),
           join(option_names(command.options), " ").c_str());
    if (!command.group.empty()) printf("      names=(%s)\n", join(command.group, " ").c_str());
    for (const OptionView& option : command.options) {
      if (option.choices.empty()) continue;
      const std::string choices = join(option.choices, " ");
      if (option.names.empty()) {
        printf("      names=(%s)\n", choices.c_str());
        continue;
      }
      printf("      case $prev in %s) _ocm_offer \"$cur\" %s; return ;; esac\n",
             join(option.names, "|").c_str(), choices.c_str());
    }
    if (command.completes == "names") printf("      mapfile -d '' -t names < <(%s)\n", kNames);
    printf("      ;;\n");
  }
  printf("    '') names=(%s) ;;\n  esac\n", join(commands, " ").c_str());
  printf("  case $prev in --color) _ocm_offer \"$cur\" auto always never; return ;; esac\n");
  printf("  if [[ $cur == -* ]]; then\n    _ocm_offer \"$cur\" \"${options[@]}\"\n");
  printf("  else\n    _ocm_offer \"$cur\" \"${names[@]}\"\n  fi\n}\n");
  printf("complete -o default -F _ocm ocm\n");
}

void print_zsh_options(const std::vector<OptionView>& options) {
  for (const OptionView& option : options) {
    for (const std::string& name : option.names) {
      std::string value;
      if (!option.choices.empty()) {
        value = ":value:(" + join(option.choices, " ") + ")";
      } else if (option.takes_value) {
        value = ":value:_files";
      }
      printf("        '%s[%s]%s' \\\n", name.c_str(), zsh_help(option.help).c_str(), value.c_str());
    }
  }
}

/// The options of a command and what follows them, on lines of their own.
void print_zsh_arguments(const CommandView& command) {
  printf("      %s) _arguments \\\n", command.name.substr(command.name.find(' ') + 1).c_str());
  print_zsh_options(command.options);
  std::string rest = command.completes == "names" ? "_ocm_names" : "_files";
  for (const OptionView& option : command.options) {
    if (option.names.empty() && !option.choices.empty()) rest = "(" + join(option.choices, " ") + ")";
  }
  printf("        '*:argument:%s' ;;\n", rest.c_str());
}

void print_zsh(const CommandLine& line) {
  printf("#compdef ocm\n# zsh completion for ocm; written by `ocm completion zsh`\n");
  printf("_ocm_names() { local -a names; names=(${(0)\"$(%s)\"}); names=(${names:#-*}); compadd -a names }\n",
         kNames);
  printf("_ocm() {\n  local context state line\n  _arguments -C \\\n");
  print_zsh_options(line.global_options());
  printf("        '1: :->command' '*:: :->arguments'\n");
  printf("  case $state in\n  command)\n    local -a commands\n    commands=(\n");
  for (const CommandView& command : line.commands()) {
    if (!is_in_a_group(command))
      printf("      %s\n", quoted(command.name + ":" + zsh_help(command.help)).c_str());
  }
  printf("    )\n    _describe command commands ;;\n  arguments)\n    case $words[1] in\n");
  for (const CommandView& command : line.commands()) {
    if (is_in_a_group(command)) continue;
    if (command.group.empty()) {
      print_zsh_arguments(command);
      continue;
    }
    printf("      %s)\n      _arguments -C '1:command:(%s)' '*:: :->of-%s'\n      case $words[1] in\n",
           command.name.c_str(), join(command.group, " ").c_str(), command.name.c_str());
    for (const CommandView& one : line.commands()) {
      if (one.name.starts_with(command.name + " ")) print_zsh_arguments(one);
    }
    printf("      esac ;;\n");
  }
  printf(
      "    esac ;;\n  esac\n}\nif [ \"$funcstack[1]\" = _ocm ]; then _ocm \"$@\"; else compdef _ocm ocm; "
      "fi\n");
}

void print_fish_options(const std::string& condition, const std::vector<OptionView>& options) {
  for (const OptionView& option : options) {
    if (option.names.empty()) continue;
    std::string text = "complete -c ocm" + condition;
    for (const std::string& name : option.names) {
      text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    if (option.takes_value) text += " -r";
    if (!option.choices.empty()) text += " -f -a " + quoted(join(option.choices, " "));
    printf("%s -d %s\n", text.c_str(), quoted(option.help).c_str());
  }
}

void print_fish(const CommandLine& line) {
  printf("# fish completion for ocm; written by `ocm completion fish`\n");
  print_fish_options(" -n __fish_use_subcommand", line.global_options());
  for (const CommandView& command : line.commands()) {
    const size_t space = command.name.find(' ');
    const std::string group = command.name.substr(0, space), seen = "__fish_seen_subcommand_from ";
    std::string condition = " -n '" + seen + group + "'";
    if (space == std::string::npos) {
      printf("complete -c ocm -n __fish_use_subcommand -f -a %s -d %s\n", command.name.c_str(),
             quoted(command.help).c_str());
    } else {
      const std::string own = command.name.substr(space + 1);
      std::string siblings;
      for (const CommandView& one : line.commands()) {
        if (one.name == group) siblings = join(one.group, " ");
      }
      printf("complete -c ocm -n '%s; and not %s' -f -a %s -d %s\n", (seen + group).c_str(),
             (seen + siblings).c_str(), own.c_str(), quoted(command.help).c_str());
      condition = " -n '" + seen + group + "; and " + seen + own + "'";
    }
    print_fish_options(condition, command.options);
    if (command.completes == "names")
      printf("complete -c ocm%s -f -a '(%s | string split0)'\n", condition.c_str(), kNames);
    for (const OptionView& option : command.options) {
      if (!option.names.empty() || option.choices.empty()) continue;
      printf("complete -c ocm%s -f -a %s\n", condition.c_str(), quoted(join(option.choices, " ")).c_str());
    }
  }
}

}  // namespace

void add_completion(CommandLine& line) {
  auto shell = std::make_shared<std::string>("bash");
  line.add("completion", "Print a completion script: source <(ocm completion bash)")
      .choice("SHELL", *shell, {"bash", "zsh", "fish"}, "The shell")
      .runs([shell, &line] {
        if (*shell == "bash") print_bash(line);
        if (*shell == "zsh") print_zsh(line);
        if (*shell == "fish") print_fish(line);
        return kExitOk;
      });
}

}  // namespace ocm::cli
