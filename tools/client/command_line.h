// SPDX-License-Identifier: Apache-2.0
// A command line with sub-commands and flags. Only command_line.cc knows the library that parses.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library has this name.
class App;
class Option;
}  // namespace CLI

namespace uroce::tools {

// ---- Flags ----

/// Looks at a word and may replace it. Returns what is wrong with the word, or "".
using WordCheck = std::function<std::string(std::string& word)>;

/// Decimal or 0x. The message names the word and both ends.
WordCheck WholeNumber(uint64_t least, uint64_t most = std::numeric_limits<uint64_t>::max());

/// A flag or an argument of a command. Copies stand for the same one.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}

  Flag& Require();
  /// Refuses what is no whole number of that range. --help shows the range.
  Flag& Check(uint64_t least, uint64_t most = std::numeric_limits<uint64_t>::max());
  /// Refuses words. --help does not tell which.
  Flag& Check(const WordCheck& check);
  /// Replaces words before they are values. `named`: how --help names them.
  Flag& Transform(const WordCheck& transform, const std::string& named);
  /// Several words may be joined by `delimiter`.
  Flag& Delimiter(char delimiter);
  /// Takes one word; the words after it are something else.
  Flag& TakeOneWord();
  /// The flag may stand without a word.
  Flag& TakeWordOrNone();
  Flag& Exclude(const Flag& other);

 private:
  CLI::Option* option_;
};

// ---- Commands ----

/// A command or a sub-command. Copies stand for the same one, which its command line owns. What
/// the values of flags are stored to outlives the parse.
class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  Command AddCommand(const std::string& name, const std::string& help) const;
  /// This command, whose further commands stand under `title` in --help.
  Command Group(const std::string& title) const;
  /// --help of the command above does not have this one, which can be given all the same.
  void Hide() const;
  /// One of the commands below this one must be given.
  void RequireCommand() const;
  /// Called in the parse, when the command line has this command.
  void OnChosen(const std::function<void()>& callback) const;
  /// The text below the flags in --help.
  void SetFooter(const std::string& text) const;

  Flag AddFlag(const char* names, bool& is_given, const std::string& help) const;
  void AddFlag(const char* names, const std::function<void()>& on_given,
               const std::string& help) const;
  /// A flag with a value, or without dashes an argument. Values: strings, whole numbers of 32 and
  /// 64 bits, doubles, lists of strings.
  template <typename Value>
  Flag AddValue(const char* names, Value& value, const std::string& help = "") const;
  /// A flag with a list of numbers.
  Flag AddNumbers(const char* names, const std::function<void(const std::vector<uint32_t>&)>& take,
                  const std::string& help) const;

  /// In the parse and after it: whether the command line has the flag, or a command below this one.
  bool Has(const std::string& flag) const;
  bool HasCommand() const;
  std::string Help() const;

 private:
  CLI::App* app_;
  std::string group_ = "Subcommands";
};

// ---- The command line ----

/// Words of a command line that are wrong.
struct Complaint {
  std::string text;
  std::string hint;   ///< The commands that are missing, or a suggestion.
  std::string words;  ///< Those whose --help says more: "uroce fault set".
};

/// What came of a parse, in which the callback of the chosen command ran if it has neither.
struct Parsed {
  std::optional<std::string> help;  ///< Asked for by --help or --version.
  std::optional<Complaint> complaint;
};

class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& help);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  Command root() const { return Command(app_.get()); }
  void SetVersion(const std::string& text);
  /// One sub-command must be given; words after it begin no other one.
  void RequireOneCommand();
  /// Words that are not known are no error.
  void AllowUnknownWords();

  /// `arguments` without the program's name.
  Parsed Parse(std::vector<std::string> arguments);

 private:
  std::unique_ptr<CLI::App> app_;
  bool requires_command_ = false;
};

}  // namespace uroce::tools
