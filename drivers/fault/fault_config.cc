// SPDX-License-Identifier: Apache-2.0
#include "drivers/fault/fault_config.h"

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "pipeline/os/suggestion.h"
#include "pipeline/wire/to_string.h"

namespace uroce::drivers {
namespace {

/// Longer than the delay of any path, and bounded, because delayed frames lie in bounded memory.
constexpr absl::Duration kMaxDelay = absl::Seconds(1);

constexpr char kRightDirection[] = "one of both, rx, tx";

/// "fault: KEY=VALUE: RIGHT".
absl::Status BadFault(absl::string_view key, absl::string_view value, absl::string_view right) {
  return absl::InvalidArgumentError(absl::StrCat("fault: ", key, "=", value, ": ", right));
}

/// Range: 0 s to 1 s, with a unit. Errors: one line with `key`.
absl::Status ReadFaultDelay(absl::string_view key, const std::string& value, Nanos& delay) {
  absl::Duration parsed;
  const bool duration = absl::ParseDuration(value, &parsed);
  if (!duration || parsed < absl::ZeroDuration() || parsed > kMaxDelay) {
    return BadFault(key, value, "a time with its unit from 0s to 1s, for example 10us");
  }
  delay = Nanos(absl::ToInt64Nanoseconds(parsed));
  return absl::OkStatus();
}

using Action = FaultRule::Action;

constexpr uint32_t kMaxPassing = 512;
constexpr uint32_t kMaxQpn = 0xffffff;

constexpr std::array<std::pair<absl::string_view, Action>, 6> kActions = {{
    {"drop", Action::kDrop},
    {"duplicate", Action::kDuplicate},
    {"corrupt", Action::kCorrupt},
    {"mark", Action::kMark},
    {"delay", Action::kDelay},
    {"reorder", Action::kReorder},
}};

constexpr std::array<std::pair<absl::string_view, FaultDirection>, 3> kDirections = {{
    {"both", FaultDirection::kBoth},
    {"rx", FaultDirection::kReceive},
    {"tx", FaultDirection::kTransmit},
}};

absl::string_view NameOf(Action action) {
  for (const auto& [name, meaning] : kActions) {
    if (meaning == action) return name;
  }
  return "";
}

absl::Status SetOpcode(const std::string& value, std::optional<wire::Opcode>& opcode) {
  const std::string wanted = absl::AsciiStrToUpper(value);
  std::vector<std::string> names;
  for (int code = 0; code < 256; ++code) {
    const auto candidate = static_cast<wire::Opcode>(code);
    if (!wire::InfoOf(candidate).Has(wire::OpcodeInfo::kKnown)) continue;
    names.push_back(wire::OpcodeName(candidate));
    if (names.back() != wanted) continue;
    opcode = candidate;
    return absl::OkStatus();
  }
  return BadFault(
      "opcode", value,
      absl::StrCat("no opcode, such as WRITE_LAST, SEND_ONLY or ACK", Suggestion(wanted, names)));
}

absl::Status SetQpn(const std::string& value, std::optional<Qpn>& qpn) {
  uint32_t number = 0;
  const bool is_hex = absl::StartsWith(value, "0x");
  const bool is_number =
      is_hex ? absl::SimpleHexAtoi(value, &number) : absl::SimpleAtoi(value, &number);
  if (!is_number || number > kMaxQpn) {
    return BadFault("qpn", value, "the number of a queue pair, such as 0x12ab or 4779");
  }
  qpn = Qpn(number);
  return absl::OkStatus();
}

absl::Status SetFrom1(const std::string& key, const std::string& value, uint64_t& number) {
  if (absl::SimpleAtoi(value, &number) && number >= 1) return absl::OkStatus();
  return BadFault(key, value, "a whole number from 1");
}

std::optional<FaultDirection> ParseDirection(absl::string_view name) {
  for (const auto& [known, meaning] : kDirections) {
    if (known == name) return meaning;
  }
  return std::nullopt;
}

/// Collects the keys of one rule, "rule=ACTION" first.
class FaultRuleReader {
 public:
  /// `text`: drop, duplicate, corrupt, mark, delay:TIME, reorder or reorder:FRAMES. Errors: one
  /// line that names the key, the value and what would be right.
  absl::Status Begin(const std::string& text);
  /// qpn, opcode, dir, nth, every and count. Errors: as Begin.
  absl::Status Set(const std::string& key, const std::string& value);
  /// The rule. With `nth` alone it acts once.
  FaultRule Take() const;

 private:
  FaultRule rule_;
  bool has_nth_ = false;
  bool has_every_ = false;
  bool has_count_ = false;
};

absl::Status FaultRuleReader::Begin(const std::string& text) {
  *this = FaultRuleReader();
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  bool is_known = false;
  for (const auto& [name, action] : kActions) {
    if (name != parts[0]) continue;
    rule_.action = action;
    is_known = true;
  }
  if (is_known && rule_.action == Action::kDelay && parts.size() == 2) {
    if (ReadFaultDelay("rule", parts[1], rule_.delay).ok()) return absl::OkStatus();
    return BadFault("rule", text, "the time has its unit, from 0s to 1s, for example delay:10us");
  }
  if (is_known && rule_.action == Action::kReorder && parts.size() == 2) {
    if (absl::SimpleAtoi(parts[1], &rule_.passing) && rule_.passing >= 1 &&
        rule_.passing <= kMaxPassing) {
      return absl::OkStatus();
    }
    return BadFault("rule", text,
                    absl::StrCat("reorder is behind 1 to ", kMaxPassing, " frames, as reorder:2"));
  }
  if (is_known && rule_.action != Action::kDelay && parts.size() == 1) return absl::OkStatus();
  return BadFault("rule", text,
                  "one of drop, duplicate, corrupt, mark, delay:TIME, reorder, reorder:FRAMES");
}

absl::Status FaultRuleReader::Set(const std::string& key, const std::string& value) {
  if (key == "qpn") return SetQpn(value, rule_.qpn);
  if (key == "opcode") return SetOpcode(value, rule_.opcode);
  if (key == "dir") {
    const std::optional<FaultDirection> direction = ParseDirection(value);
    if (!direction) return BadFault(key, value, kRightDirection);
    rule_.direction = *direction;
    return absl::OkStatus();
  }
  has_nth_ |= key == "nth";
  has_every_ |= key == "every";
  has_count_ |= key == "count";
  if (key == "nth") return SetFrom1(key, value, rule_.nth);
  if (key == "every") return SetFrom1(key, value, rule_.every);
  if (key == "count") return SetFrom1(key, value, rule_.count);
  return BadFault(key, value,
                  "unknown key; behind rule=ACTION there are qpn, opcode, dir, nth, every, count");
}

FaultRule FaultRuleReader::Take() const {
  FaultRule rule = rule_;
  if (has_nth_ && !has_every_ && !has_count_) rule.count = 1;
  return rule;
}

}  // namespace

absl::string_view NameOf(FaultDirection direction) {
  return kDirections[static_cast<size_t>(direction)].first;
}

std::string FormatRule(const FaultRule& rule) {
  std::string text = absl::StrCat("rule=", NameOf(rule.action));
  if (rule.action == Action::kDelay) {
    absl::StrAppend(&text, ":", absl::FormatDuration(absl::Nanoseconds(rule.delay.count())));
  }
  if (rule.action == Action::kReorder) absl::StrAppend(&text, ":", rule.passing);
  if (rule.qpn) absl::StrAppend(&text, ",qpn=0x", absl::Hex(rule.qpn->value()));
  if (rule.opcode) absl::StrAppend(&text, ",opcode=", wire::OpcodeName(*rule.opcode));
  if (rule.direction != FaultDirection::kBoth) {
    absl::StrAppend(&text, ",dir=", NameOf(rule.direction));
  }
  if (rule.nth != 1) absl::StrAppend(&text, ",nth=", rule.nth);
  if (rule.every != 1) absl::StrAppend(&text, ",every=", rule.every);
  if (rule.count != FaultRule::kNoEnd) absl::StrAppend(&text, ",count=", rule.count);
  return text;
}

namespace {

absl::Status SetRate(const std::string& key, const std::string& value, double& rate) {
  double parsed = 0;
  const bool number = absl::SimpleAtod(value, &parsed);
  // Written so that NaN is refused too.
  const bool in_range = parsed >= 0 && parsed <= 1;
  if (!number || !in_range) return BadFault(key, value, "a rate is a number from 0 to 1");
  rate = parsed;
  return absl::OkStatus();
}

absl::Status SetValue(const std::string& key, const std::string& value, FaultConfig& config) {
  if (key == "drop") return SetRate(key, value, config.drop);
  if (key == "duplicate") return SetRate(key, value, config.duplicate);
  if (key == "reorder") return SetRate(key, value, config.reorder);
  if (key == "corrupt") return SetRate(key, value, config.corrupt);
  if (key == "ce") return SetRate(key, value, config.ce_mark);
  if (key == "delay") return ReadFaultDelay(key, value, config.delay);
  if (key == "link") {
    if (value != "up" && value != "down") return BadFault(key, value, "a link is up or down");
    config.link_down = value == "down";
    return absl::OkStatus();
  }
  if (key == "dir") {
    const std::optional<FaultDirection> direction = ParseDirection(value);
    if (!direction) return BadFault(key, value, kRightDirection);
    config.direction = *direction;
    return absl::OkStatus();
  }
  if (key == "seed") {
    if (absl::SimpleAtoi(value, &config.seed)) return absl::OkStatus();
    return BadFault(key, value, "a seed is a whole number from 0");
  }
  return BadFault(
      key, value,
      "unknown key; known are seed, drop, duplicate, reorder, corrupt, ce, delay, dir, link, rule");
}

}  // namespace

absl::StatusOr<FaultConfig> ParseFault(const std::string& text) {
  FaultConfig config;
  config.text = text;
  std::optional<FaultRuleReader> rule;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  for (const std::string& part : parts) {
    const std::vector<std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (pair.size() != 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("fault: \"", part, "\" is not KEY=VALUE, for example drop=0.01"));
    }
    absl::Status status;
    if (pair[0] == "rule") {
      if (rule) config.rules.push_back(rule->Take());
      status = rule.emplace().Begin(pair[1]);
    } else {
      status = rule ? rule->Set(pair[0], pair[1]) : SetValue(pair[0], pair[1], config);
    }
    if (!status.ok()) return status;
  }
  if (rule) config.rules.push_back(rule->Take());
  if (config.rules.size() > kMaxFaultRules) {
    return absl::InvalidArgumentError(
        absl::StrCat("fault: ", config.rules.size(), " rules, at most ", kMaxFaultRules));
  }
  return config;
}

}  // namespace uroce::drivers
