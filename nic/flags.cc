// SPDX-License-Identifier: Apache-2.0
#include "nic/flags.h"

#include <algorithm>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace uroce::nic {
namespace {

std::string Dashed(absl::string_view name) { return absl::StrReplaceAll(name, {{"_", "-"}}); }

enum class Kind { kUnknown, kSwitch, kValue };

Kind KindOf(const std::string& name) {
  if (name == "help" || name == "version") return Kind::kSwitch;
  if (name == "config" || name == "port" || name == "wire" || name == "fault") return Kind::kValue;
  for (const SettingInfo& info : SettingInfos()) {
    if (name == info.key) return info.is_switch ? Kind::kSwitch : Kind::kValue;
  }
  return Kind::kUnknown;
}

/// Walks the arguments, one flag at a time.
class Parser {
 public:
  explicit Parser(const std::vector<std::string>& arguments) : arguments_(arguments) {}

  absl::StatusOr<CommandLine> Parse() {
    while (next_ < arguments_.size()) {
      if (absl::Status status = ParseOne(arguments_[next_++]); !status.ok()) return status;
    }
    return std::move(line_);
  }

 private:
  absl::Status ParseOne(const std::string& argument) {
    if (!absl::StartsWith(argument, "--") || argument.size() == 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("stray argument \"", argument, "\"; see uroced --help"));
    }
    const size_t equals = argument.find('=');
    const std::string flag = argument.substr(0, equals);
    const std::string name = absl::StrReplaceAll(flag.substr(2), {{"-", "_"}});
    const Kind kind = KindOf(name);
    if (kind == Kind::kUnknown) {
      return absl::InvalidArgumentError(absl::StrCat("unknown flag ", flag, "; see uroced --help"));
    }
    std::optional<std::string> value;
    if (equals != std::string::npos) value = argument.substr(equals + 1);
    return kind == Kind::kSwitch ? TakeSwitch(flag, name, value) : TakeValue(flag, name, value);
  }

  absl::Status TakeSwitch(const std::string& flag, const std::string& name,
                          const std::optional<std::string>& value) {
    if (name == "help" || name == "version") {
      if (value) return absl::InvalidArgumentError(absl::StrCat(flag, " takes no value"));
      (name == "help" ? line_.help : line_.version) = true;
      return absl::OkStatus();
    }
    line_.settings.push_back({flag, name, value.value_or("true"), {}});
    return absl::OkStatus();
  }

  absl::Status TakeValue(const std::string& flag, const std::string& name,
                         std::optional<std::string> value) {
    if (!value) {
      if (next_ == arguments_.size()) {
        return absl::InvalidArgumentError(absl::StrCat(flag, " needs a value"));
      }
      value = arguments_[next_++];
    }
    if (name == "config") {
      line_.config_file = *value;
      return absl::OkStatus();
    }
    if (name != "port" && name != "wire") {
      line_.settings.push_back({flag, name, *value, {}});
      return absl::OkStatus();
    }
    absl::StatusOr<Setting> setting = SplitFields(flag, name, *value);
    if (!setting.ok()) return setting.status();
    line_.settings.push_back(*std::move(setting));
    return absl::OkStatus();
  }

  const std::vector<std::string>& arguments_;
  size_t next_ = 0;
  CommandLine line_;
};

void AppendFlag(std::string& text, absl::string_view flag, absl::string_view help) {
  absl::StrAppendFormat(&text, "  %-26s %s\n", flag, help);
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments) {
  return Parser(arguments).Parse();
}

std::string HelpText() {
  std::string text =
      "uroced: a software RoCEv2 NIC for unmodified verbs programs.\n\n"
      "  uroced                                     two NICs joined by an in-process wire\n"
      "  uroced --wire uroce0=10.0.0.1/24,uroce1=10.0.0.2/24\n"
      "  uroced --port 'name=uroce0,dev=net_af_packet0;iface=eth0'\n"
      "  uroced --config uroced.toml\n\n"
      "NICs (each flag may be repeated):\n";
  AppendFlag(text, "--wire A=IP,B=IP", "two NICs on a wire of their own; several IPs: IP+IP");
  AppendFlag(text, "", "selective-repeat=on|off here and below, on if not given: repeat lost");
  AppendFlag(text, "", "packets alone with NICs that agree to it");
  AppendFlag(text, "--port KEY=VALUE,...", "one NIC on a DPDK port; ';' stands for ',' in a value");
  AppendFlag(text, "", "name=NAME  dev=DPDK-DEVICE  mtu=BYTES  fault=FAULTS");
  AppendFlag(text, "", "ip=192.0.2.1/24+2001:db8::1/64+10.5.0.1/24 vlan 100");
  AppendFlag(text, "", "without a kernel interface also gateway=IP+IP, exception=TAP and");
  AppendFlag(text, "", "route=10.9.0.0/16 via 192.0.2.7+...; the daemon is the host on it, and");
  AppendFlag(text, "", "with host=uroce also on a kernel interface that has no addresses");
  AppendFlag(text, "--fault NAME:KEY=VALUE,...", "faults on any NIC, such as uroce0:drop=0.01");
  text += "\nDaemon:\n";
  AppendFlag(text, "--config FILE", "settings in TOML under the same names; flags win");
  for (const SettingInfo& info : SettingInfos()) {
    if (!info.is_limit) AppendFlag(text, absl::StrCat("--", Dashed(info.key)), info.help);
  }
  AppendFlag(text, "--help, --version", "print this, or the version");
  text += "\nLimits:\n";
  for (const SettingInfo& info : SettingInfos()) {
    if (info.is_limit) AppendFlag(text, absl::StrCat("--", Dashed(info.key)), info.help);
  }
  return text;
}

}  // namespace uroce::nic
