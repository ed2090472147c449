// SPDX-License-Identifier: Apache-2.0
#include "tools/client/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "pipeline/os/suggestion.h"

namespace uroce::tools {
namespace {

bool IsBounded(uint64_t most) { return most != std::numeric_limits<uint64_t>::max(); }

/// The command that was recognised last. Its words are wrong, and its help says more.
const CLI::App& LastCommand(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : LastCommand(*chosen.back());
}

/// "uroce fault set" of the command `set`.
std::string WordsOf(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : WordsOf(*parent) + " " + command.get_name();
}

/// ": show, reload, set" where one of them is missing.
std::string MissingCommands(const CLI::App& command, const CLI::ParseError& error) {
  if (command.get_parent() == nullptr || error.get_name() != "RequiredError") return "";
  std::string names;
  for (const CLI::App* each : command.get_subcommands({})) {
    names += (names.empty() ? ": " : ", ") + each->get_name();
  }
  return names;
}

Parsed Stop(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) {
    std::ostringstream text;
    app.exit(error, text, text);
    return {text.str(), {}};
  }
  const CLI::App& command = LastCommand(app);
  return {{},
          Complaint{error.what(), MissingCommands(command, error) + SuggestionFor(app),
                    WordsOf(command)}};
}

}  // namespace

// ---- Flags ----

WordCheck WholeNumber(uint64_t least, uint64_t most) {
  const std::string named =
      IsBounded(most) ? absl::StrCat(least, " to ", most) : absl::StrCat(least, " up");
  return [least, most, named](std::string& text) {
    char* end = nullptr;
    errno = 0;
    const uint64_t number = strtoull(text.c_str(), &end, 0);
    const bool is_number =
        !text.empty() && absl::ascii_isdigit(static_cast<unsigned char>(text[0])) && *end == 0;
    if (is_number && errno == 0 && number >= least && number <= most) return std::string();
    return absl::StrCat(text, " is no number from ", named);
  };
}

Flag& Flag::Require() {
  option_->required();
  return *this;
}

Flag& Flag::Check(uint64_t least, uint64_t most) {
  const std::string named = IsBounded(most) ? absl::StrCat("[", least, " - ", most, "]") : "";
  option_->check(CLI::Validator(WholeNumber(least, most), named));
  return *this;
}

Flag& Flag::Check(const WordCheck& check) {
  option_->check(CLI::Validator(check, ""));
  return *this;
}

Flag& Flag::Transform(const WordCheck& transform, const std::string& named) {
  option_->transform(CLI::Validator(transform, named));
  return *this;
}

Flag& Flag::Delimiter(char delimiter) {
  option_->delimiter(delimiter);
  return *this;
}

Flag& Flag::TakeOneWord() {
  option_->allow_extra_args(false);
  return *this;
}

Flag& Flag::TakeWordOrNone() {
  option_->expected(0, 1);
  return *this;
}

Flag& Flag::Exclude(const Flag& other) {
  option_->excludes(other.option_);
  return *this;
}

// ---- Commands ----

Command Command::AddCommand(const std::string& name, const std::string& help) const {
  return Command(app_->add_subcommand(name, help)->group(group_));
}

Command Command::Group(const std::string& title) const {
  Command copy = *this;
  copy.group_ = title;
  return copy;
}

void Command::Hide() const { app_->group(""); }

void Command::RequireCommand() const { app_->require_subcommand(1); }

void Command::OnChosen(const std::function<void()>& callback) const { app_->callback(callback); }

void Command::SetFooter(const std::string& text) const { app_->footer(text); }

Flag Command::AddFlag(const char* names, bool& is_given, const std::string& help) const {
  return Flag(app_->add_flag(names, is_given, help));
}

void Command::AddFlag(const char* names, const std::function<void()>& on_given,
                      const std::string& help) const {
  app_->add_flag_callback(names, on_given, help);
}

template <typename Value>
Flag Command::AddValue(const char* names, Value& value, const std::string& help) const {
  return Flag(app_->add_option(names, value, help));
}

template Flag Command::AddValue(const char*, std::string&, const std::string&) const;
template Flag Command::AddValue(const char*, uint32_t&, const std::string&) const;
template Flag Command::AddValue(const char*, uint64_t&, const std::string&) const;
template Flag Command::AddValue(const char*, double&, const std::string&) const;
template Flag Command::AddValue(const char*, std::vector<std::string>&, const std::string&) const;

Flag Command::AddNumbers(const char* names,
                         const std::function<void(const std::vector<uint32_t>&)>& take,
                         const std::string& help) const {
  return Flag(app_->add_option_function<std::vector<uint32_t>>(names, take, help));
}

bool Command::Has(const std::string& flag) const { return app_->count(flag) != 0; }

bool Command::HasCommand() const { return !app_->get_subcommands().empty(); }

std::string Command::Help() const { return app_->help(); }

// ---- The command line ----

CommandLine::CommandLine(const std::string& name, const std::string& help)
    : app_(std::make_unique<CLI::App>(help, name)) {}

CommandLine::~CommandLine() = default;

void CommandLine::SetVersion(const std::string& text) { app_->set_version_flag("--version", text); }

void CommandLine::RequireOneCommand() {
  requires_command_ = true;
  app_->require_subcommand(0, 1);  // Words of a filter, "udp port 4791", begin no other command.
}

void CommandLine::AllowUnknownWords() { app_->allow_extras(); }

Parsed CommandLine::Parse(std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the end.
  try {
    app_->parse(arguments);
    if (requires_command_ && !root().HasCommand()) throw CLI::RequiredError("A subcommand");
  } catch (const CLI::ParseError& error) {
    return Stop(*app_, error);
  }
  return {};
}

}  // namespace uroce::tools
