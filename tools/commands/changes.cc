// SPDX-License-Identifier: Apache-2.0
// The sub-commands that change the daemon while it runs: congestion control, switches, faults,
// settings, ports. With each go those that show what can be changed.
#include "tools/commands/commands.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "pipeline/shm/abi/uroce_commands.h"
#include "tools/client/command_line.h"
#include "tools/client/control_client.h"
#include "tools/commands/listings.h"
#include "tools/views/listing.h"
#include "tools/views/rates.h"

namespace uroce::tools {
namespace {

struct ChangeFlags {
  uroce_change_what what;
  std::string target;  ///< The NIC, switch or port; "" for the daemon or all.
  std::vector<std::string> settings;
};

/// A sub-command that requests a change of the daemon. The caller adds the options.
struct ChangeCommand {
  Command app;
  std::shared_ptr<ChangeFlags> flags;
};

ChangeCommand AddChange(const Command& parent, Invocation& invocation, uroce_change_what what,
                        const char* name, const std::string& help) {
  const auto flags = std::make_shared<ChangeFlags>(ChangeFlags{what, "", {}});
  const Command command = parent.AddCommand(name, help);
  AddSocketFlag(command, invocation);
  command.OnChosen([flags, &invocation] {
    invocation.exit_status = Report(RequestChange(
        invocation.SocketPath(), flags->what, flags->target, absl::StrJoin(flags->settings, ",")));
  });
  return {command, flags};
}

void AddSettings(const ChangeCommand& change) {
  change.app.AddValue("SETTING", change.flags->settings, "KEY=VALUE").Require();
}

/// Adds the command `set TARGET KEY=VALUE...`.
void AddSet(const Command& parent, Invocation& invocation, uroce_change_what what,
            const char* target, const std::string& help) {
  const ChangeCommand set = AddChange(parent, invocation, what, "set", help);
  set.app.AddValue(target, set.flags->target).Require();
  AddSettings(set);
}

void AddCongestion(const Command& app, Invocation& invocation) {
  const auto flags = std::make_shared<ListingFlags>();
  const Command cc = AddListing(
      app, invocation, flags, "cc",
      "Congestion control: rates, windows, round trips, CNPs of each flow", UROCE_DUMP_CC);
  AddListing(cc, invocation, flags, "parameters", "Profile and parameters of each NIC",
             UROCE_DUMP_CC_SETTINGS);
  AddSet(cc, invocation, UROCE_CHANGE_CC, "NIC",
         "Change profile or parameters of a NIC, by the keys of --port with or without cc.: "
         "profile=PROFILE, PRIORITY=PROFILE, PARAMETER=NUMBER; connections that are there keep "
         "their profile");
  cc.SetFooter(
      "Examples: uroce cc --watch 1\n"
      "          uroce cc set uroce0 profile=dcqcn-mlx rpg_ai_rate=20");
}

void AddNetwork(const Command& app, Invocation& invocation) {
  const Command switches = AddListing(
      app, invocation, std::make_shared<ListingFlags>(), "switch",
      "Switches inside (uroced --switch): ports, queues, marks, drops", UROCE_DUMP_SWITCH);
  AddSet(switches, invocation, UROCE_CHANGE_SWITCH, "SWITCH|PORT|NIC",
         "Change a switch (rate, delay, buffer, ecn, pfc), or a port such as sw0:3, or that of a "
         "NIC (rate, delay, link=up|down)");
  switches.SetFooter(
      "Examples: uroce switch set sw0 ecn=100K:400K:20% pfc=off\n"
      "          uroce switch set uroce3 link=down");
}

/// What `fault` and `fault show` share.
struct FaultFlags {
  bool json = false;
  Selection select;
};

int PrintFaults(const std::string& socket_path, const FaultFlags& flags) {
  const absl::Status status = CheckDevice(socket_path, flags.select.device, UROCE_DUMP_STAT);
  if (!status.ok()) return Report(status);
  const absl::StatusOr<std::string> json = FetchDump(socket_path, UROCE_DUMP_STAT);
  if (!json.ok()) return Report(json.status());
  if (!flags.json) return Print(RenderFaults(*json, flags.select.device));
  const absl::StatusOr<std::string> faults = FaultsOf(*json);
  if (!faults.ok()) return Report(faults.status());
  return Print(RenderJson(kFaults, *faults, flags.select, absl::Now(), false));
}

Command AddFaultListing(const Command& app, Invocation& invocation,
                        const std::shared_ptr<FaultFlags>& flags, const char* name,
                        const char* description) {
  const Command command = app.AddCommand(name, description);
  AddSocketFlag(command, invocation);
  command.AddFlag("--json", flags->json, "Print JSON");
  AddDevice(command, flags->select);
  command.OnChosen([flags, &invocation, command] {
    if (command.HasCommand()) return;
    invocation.exit_status = PrintFaults(invocation.SocketPath(), *flags);
  });
  return command;
}

void AddFaults(const Command& app, Invocation& invocation) {
  const auto flags = std::make_shared<FaultFlags>();
  const Command fault =
      AddFaultListing(app, invocation, flags, "fault", "Faults that NICs make, and what they did");
  AddFaultListing(fault, invocation, flags, "show", "List them, as without a command");
  AddSet(fault, invocation, UROCE_CHANGE_FAULT, "NIC",
         "Have a NIC make these faults and no others, as uroced --fault: rates (drop, duplicate, "
         "reorder, corrupt, ce, delay, dir, seed), link=down, then rules, each rule=ACTION qpn= "
         "opcode= dir= nth= every= count=; off: none");
  const ChangeCommand clear = AddChange(fault, invocation, UROCE_CHANGE_FAULT, "clear",
                                        "End the faults of a NIC; without a name, of all NICs");
  clear.app.AddValue("NIC", clear.flags->target);
  clear.flags->settings = {"off"};
  fault.SetFooter(
      "Examples: uroce fault set uroce0 drop=0.01 delay=10us\n"
      "          uroce fault set uroce0 rule=drop opcode=WRITE_MIDDLE dir=tx nth=3\n"
      "          uroce fault set uroce0 link=down\n"
      "          uroce fault clear uroce0");
}

void AddConfig(const Command& app, Invocation& invocation) {
  const Command config = app.AddCommand("config", "The daemon's settings, while it runs");
  config.RequireCommand();
  AddSocketFlag(config, invocation);
  const auto flags = std::make_shared<ListingFlags>();
  const Command show = config.AddCommand(
      "show", "Print the settings that hold, as a file that uroced --config takes");
  AddSocketFlag(show, invocation);
  show.AddFlag("--json", flags->json, "Print JSON");
  show.OnChosen([flags, &invocation] {
    invocation.exit_status = PrintDump(invocation.SocketPath(), *flags, UROCE_DUMP_CONFIG);
  });
  AddChange(config, invocation, UROCE_CHANGE_RELOAD, "reload",
            "Have the daemon read its file again; what it says holds, all of it or nothing");
  AddSettings(AddChange(config, invocation, UROCE_CHANGE_CONFIG, "set",
                        "Change settings until the next reload: log_level, and most limits"));
  config.SetFooter(
      "Examples: uroce config show > now.toml\n"
      "          uroce config set log_level=debug max_qp_per_user=4096\n"
      "          uroce config reload");
}

void AddPorts(const Command& app, Invocation& invocation) {
  const Command port =
      app.AddCommand("port", "Ports and their settings, while programs use other ports");
  port.RequireCommand();
  AddSocketFlag(port, invocation);
  AddSet(port, invocation, UROCE_CHANGE_PORT, "NIC",
         "Change what --port says of it: rate=BPS|off, cc=PROFILE, cc.PRIORITY=PROFILE, "
         "cc.PARAMETER=NUMBER, fault=FAULTS|off; until the next reload");
  const ChangeCommand add =
      AddChange(port, invocation, UROCE_CHANGE_ADD_PORT, "add",
                "Add a port by what uroced --port takes: udp=, iface=, dev=net_memif0, or "
                "switch= with ip=, for a port of a switch that is free");
  AddSettings(add);
  add.app.AddFlag(
      "--wire", [flags = add.flags] { flags->what = UROCE_CHANGE_ADD_WIRE; },
      "Add two NICs on their own wire, by what uroced --wire takes");
  const ChangeCommand remove =
      AddChange(port, invocation, UROCE_CHANGE_REMOVE_PORT, "remove",
                "Remove a port, or an end of a wire; its programs get IBV_EVENT_DEVICE_FATAL");
  remove.app.AddValue("NIC", remove.flags->target).Require();
  port.SetFooter(
      "Examples: uroce port add name=uroce1,udp=eth1\n"
      "          uroce port add --wire left=10.1.0.1/24 right=10.1.0.2/24\n"
      "          uroce port add name=uroce9,switch=sw0,ip=10.0.0.9/24\n"
      "          uroce port set uroce1 rate=5G cc=delay\n"
      "          uroce port remove uroce1");
}

}  // namespace

void AddChanges(const Command& app, Invocation& invocation) {
  AddCongestion(app, invocation);
  AddNetwork(app, invocation);
  AddFaults(app, invocation);
  AddConfig(app, invocation);
  AddPorts(app, invocation);
}

}  // namespace uroce::tools
