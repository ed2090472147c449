// SPDX-License-Identifier: Apache-2.0
#include "nic/settings/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "nic/settings/daemon_settings.h"
#include "nic/settings/limit_profiles.h"
#include "pipeline/os/suggestion.h"

namespace uroce::nic {
namespace {

constexpr size_t kNameColumn = 30;
constexpr char kNics[] = "NICs (each flag may be repeated)";

constexpr char kDescription[] =
    "uroced: a software RoCEv2 NIC for unmodified verbs programs.\n\n"
    "  uroced                                     two NICs joined by an in-process wire\n"
    "  uroced --wire uroce0=10.0.0.1/24,uroce1=10.0.0.2/24\n"
    "  uroced --switch ports=8,rate=10G           eight NICs on an emulated switch\n"
    "  uroced --port name=uroce0,iface=eth0\n"
    "  uroced --port name=uroce0,udp=eth0         the same without any privilege\n"
    "  uroced --config uroced.toml\n";

constexpr char kWireHelp[] =
    "two NICs on their own wire; several IPs: IP+IP\n"
    "selective-repeat=on|off here and below, on if not given: repeat lost\n"
    "packets alone with NICs that agree to it\n"
    "cc=off|dcqcn|dcqcn-mlx|delay here and below: congestion control, off on a\n"
    "wire and delay on a port if not given; cc.3=PROFILE: of priority 3 (DSCP\n"
    "24 to 31) alone; cc.PARAMETER=NUMBER\n"
    "rate=5G|off, also of a port: each NIC sends no more, in bits on the wire\n"
    "A.KEY=... here, uroce0.KEY=... of a switch: rate or cc of one NIC alone\n"
    "icrc=always, also of a switch: packets carry their ICRC on the way to a\n"
    "NIC inside too, not only to captures and faults (needed, if not given)";

constexpr char kSwitchHelp[] =
    "NICs on an emulated switch\n"
    "name=NAME  ports=NICS  rate=10G  delay=1us  buffer=1M\n"
    "ecn=MIN:MAX:PERCENT|off, such as 100K:400K:20%: mark from MIN bytes in the\n"
    "queue on, all above MAX; pfc=on|off|XOFF:XON: pause instead of dropping\n"
    "link=SWITCH+SWITCH: links to others, for NICs of all to meet;\n"
    "link-rate=40G  link-delay=5us, if not the same\n"
    "ip=10.1.0.1/24: the first NIC's, others count up; mtu=BYTES";

constexpr char kPortHelp[] =
    "one NIC on a kernel interface or a DPDK device\n"
    "name=NAME  iface=INTERFACE  mtu=BYTES  rate=BPS  fault=FAULTS\n"
    "udp=INTERFACE, udp=192.0.2.1 or udp=192.0.2.1+2001:db8::1 in place of\n"
    "iface: by UDP sockets, without any privilege\n"
    "dev=DPDK-DEVICE in place of iface; ';' stands for ',' in a value\n"
    "switch=NAME in place of iface: at one more port of a --switch, with ip=\n"
    "flow-control=off|rx|tx|full: link pause of a DPDK device that has it\n"
    "ip=192.0.2.1/24+2001:db8::1/64+10.5.0.1/24 vlan 100\n"
    "without a kernel interface also gateway=IP+IP, exception=TAP and\n"
    "route=10.9.0.0/16 via 192.0.2.7+...; the daemon is the host on it, and\n"
    "with host=uroce also on a kernel interface that has no addresses";

constexpr char kFaultHelp[] =
    "faults on any NIC, such as uroce0:drop=0.01 or, of single packets,\n"
    "uroce0:rule=drop,opcode=ACK,nth=3; keys as uroce fault set, off: none";

// The same three in --help.
constexpr char kShortWireHelp[] = "two NICs joined by an in-process wire";
constexpr char kShortSwitchHelp[] =
    "NICs on an emulated switch, such as ports=8,rate=10G,delay=1us";
constexpr char kShortPortHelp[] =
    "one NIC: name=NAME, with iface=INTERFACE, udp=INTERFACE (no privilege),\n"
    "or dev=DPDK-DEVICE,ip=ADDRESS/BITS";

constexpr char kFooter[] =
    "\n--help-all has all options and all keys of --wire, --switch and --port. Also: man uroced.";

/// The title of a section of --help-all.
std::string TitleOf(Section section) {
  switch (section) {
    case Section::kDaemon:
      return "Daemon";
    case Section::kPacketHistory:
      return "Packet history";
    case Section::kPrivileges:
      return "Privileges and memory";
    case Section::kLimitsOfProgram:
      return "Limits of a program";
    case Section::kLimitsOfUser:
      return "Limits of a user";
    case Section::kLimitsOfDaemon:
      return "Limits of the daemon";
  }
  return "";
}

/// The options of uroced, and the setting that each of them sets. All are parsed; `kind` decides
/// which ones the help has.
class Flags {
 public:
  explicit Flags(HelpKind kind) : is_short_(kind == HelpKind::kCommon) {
    app_.get_formatter()->column_width(kNameColumn);
    app_.set_help_flag("-h,--help", "print the options that are used most")
        ->disable_flag_override();
    app_.set_help_all_flag("--help-all", "print all options")->disable_flag_override();
    app_.set_version_flag("--version", "", "print the version")->disable_flag_override();
    Name("wire", AddValue("wire", "A=IP,B=IP", is_short_ ? kShortWireHelp : kWireHelp, kNics));
    Name("switch",
         AddValue("switch", "KEY=VALUE,...", is_short_ ? kShortSwitchHelp : kSwitchHelp, kNics));
    Name("port", AddValue("port", "KEY=VALUE,...", is_short_ ? kShortPortHelp : kPortHelp, kNics));
    Name("fault", AddValue("fault", "NAME:KEY=VALUE,...", kFaultHelp, is_short_ ? "" : kNics));
    const std::string daemon = TitleOf(Section::kDaemon);
    Name("config",
         AddValue("config", "FILE", "settings in TOML under the same names; flags win", daemon));
    Name(kLimitsKey, AddValue(kLimitsKey, "PROFILE", LimitProfilesHelp(), daemon));
    for (const SettingInfo& info : SettingInfos()) AddSetting(info);
    if (is_short_) app_.footer(kFooter);
  }

  std::string Help() const { return app_.help(); }

  absl::StatusOr<CommandLine> Parse(std::vector<std::string> arguments) {
    CommandLine line;
    std::reverse(arguments.begin(), arguments.end());  // CLI11 expects them in reverse order.
    try {
      app_.parse(std::move(arguments));
    } catch (const CLI::CallForHelp&) {
      line.help = HelpKind::kCommon;
    } catch (const CLI::CallForAllHelp&) {
      line.help = HelpKind::kAll;
    } catch (const CLI::CallForVersion&) {
      line.version = true;
    } catch (const CLI::ParseError& error) {
      return absl::InvalidArgumentError(
          absl::StrCat(error.what(), SuggestionFor(app_), "; see uroced --help-all"));
    }
    if (absl::Status status = Collect(line); !status.ok()) return status;
    return line;
  }

 private:
  static std::string Dashed(absl::string_view name) {
    return absl::StrCat("--", absl::StrReplaceAll(name, {{"_", "-"}}));
  }

  CLI::Option* AddValue(absl::string_view name, const char* type, const std::string& help,
                        const std::string& group) {
    return app_.add_option(Dashed(name), help)
        ->type_name(type)
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->group(group);
  }
  void AddSetting(const SettingInfo& info) {
    // The library hides the options of a group without a title.
    const std::string group = is_short_ && !info.is_common ? "" : TitleOf(info.section);
    const std::string help = info.help;
    Name(info.key, info.is_switch ? app_.add_flag(Dashed(info.key), help)
                                        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
                                        ->group(group)
                                  : AddValue(info.key, "value", help, group));
  }
  void Name(const std::string& key, const CLI::Option* option) { keys_[option] = key; }

  /// Collects the settings in the order of the command line.
  absl::Status Collect(CommandLine& line) const {
    std::map<const CLI::Option*, size_t> taken;
    for (const CLI::Option* option : app_.parse_order()) {
      const auto key = keys_.find(option);
      if (key == keys_.end()) continue;
      const std::string& value = option->results()[taken[option]++];
      if (absl::Status status = Add(key->second, value, line); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  static absl::Status Add(const std::string& key, const std::string& value, CommandLine& line) {
    const std::string flag = Dashed(key);
    if (key == "config") {
      line.config_file = value;
      return absl::OkStatus();
    }
    if (key != "port" && key != "wire" && key != "switch") {
      line.settings.push_back({flag, key, value, {}});
      return absl::OkStatus();
    }
    absl::StatusOr<Setting> setting = SplitFields(flag, key, value);
    if (!setting.ok()) return setting.status();
    line.settings.push_back(*std::move(setting));
    return absl::OkStatus();
  }

  const bool is_short_;
  CLI::App app_{kDescription, "uroced"};
  std::map<const CLI::Option*, std::string> keys_;
};

/// Replaces '_' by '-' in the name of a flag.
std::string WithDashes(const std::string& argument) {
  if (!absl::StartsWith(argument, "--")) return argument;
  const size_t end = std::min(argument.find('='), argument.size());
  return absl::StrCat(absl::StrReplaceAll(argument.substr(0, end), {{"_", "-"}}),
                      argument.substr(end));
}

/// Gives a flag of an earlier version its name of today, and adds the earlier one to
/// `former_names`, by today's key.
std::string ReplaceFormerName(std::string argument,
                              std::map<std::string, std::string>& former_names) {
  if (!absl::StartsWith(argument, "--")) return argument;
  const size_t end = std::min(argument.find('='), argument.size());
  const std::string key = absl::StrReplaceAll(argument.substr(2, end - 2), {{"-", "_"}});
  const absl::string_view replacement = ReplacementOf(key);
  if (replacement.empty()) return argument;
  former_names[std::string(replacement)] = argument.substr(0, end);
  return absl::StrCat("--", absl::StrReplaceAll(replacement, {{"_", "-"}}), argument.substr(end));
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments) {
  std::vector<std::string> dashed;
  std::map<std::string, std::string> former_names;
  for (const std::string& argument : arguments) {
    // Only flags could follow it.
    if (argument == "--") return absl::InvalidArgumentError("stray argument \"--\"");
    dashed.push_back(ReplaceFormerName(WithDashes(argument), former_names));
  }
  absl::StatusOr<CommandLine> line = Flags(HelpKind::kCommon).Parse(std::move(dashed));
  if (!line.ok()) return line;
  for (Setting& setting : line->settings) {
    const auto former = former_names.find(setting.key);
    if (former == former_names.end()) continue;
    setting.origin = former->second;
    setting.has_former_name = true;
  }
  return line;
}

std::string HelpText(HelpKind kind) { return Flags(kind).Help(); }

}  // namespace uroce::nic
