// SPDX-License-Identifier: Apache-2.0
// uroce-extcap: Wireshark runs it to list the daemon's NICs and to capture on one of them.
#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "tools/capture/command.h"
#include "tools/capture/recorder.h"
#include "tools/client/command_line.h"
#include "tools/client/control_client.h"
#include "tools/extcap/extcap.h"

namespace uroce::tools {
namespace {

constexpr int kExitFailed = 1;

/// The flags that Wireshark passes.
struct Request {
  bool list_interfaces = false;
  bool list_link_types = false;
  bool list_options = false;
  bool capture = false;
  std::string interface;
  std::string socket;
  std::string wireshark_version;
  CaptureOptions options;
};

void AddFlags(const Command& app, Request& request) {
  app.AddFlag("--extcap-interfaces", request.list_interfaces, "List the daemon's NICs");
  app.AddFlag("--extcap-dlts", request.list_link_types, "List an interface's link types");
  app.AddFlag("--extcap-config", request.list_options, "List the options of a capture");
  app.AddValue("--extcap-interface", request.interface, "Interface of the list");
  app.AddValue("--extcap-version", request.wireshark_version, "Version of Wireshark")
      .TakeWordOrNone();
  app.AddValue("--extcap-capture-filter", request.options.filter,
               "libpcap expression; without --capture it is only checked")
      .TakeWordOrNone();
  app.AddFlag("--capture", request.capture, "Capture into --fifo");
  app.AddValue("--fifo", request.options.file, "Pipe or file to write to");
  app.AddValue("--socket", request.socket, "Control socket of the daemon (or UROCE_SOCKET)");
  AddCaptureFlags(app, request.options);
}

/// Without a daemon the list is empty, which is no error: Wireshark asks at every start.
void ListInterfaces(const Request& request) {
  const auto json = FetchDump(ResolveSocketPath(request.socket), UROCE_DUMP_DEVICES);
  const auto interfaces = json.ok() ? ReadExtcapInterfaces(*json) : std::vector<ExtcapInterface>();
  fputs(DescribeInterfaces(interfaces).c_str(), stdout);
}

/// Wireshark shows the output beside the filter; empty output means that the filter is good.
void CheckFilter(const std::string& filter) {
  const auto compiled = PacketFilter::Compile(filter);
  if (!compiled.ok()) puts(std::string(compiled.status().message()).c_str());
}

int Capture(Request& request) {
  if (request.interface.empty() || request.options.file.empty()) {
    fputs("uroce-extcap: --capture wants --extcap-interface and --fifo\n", stderr);
    return kExitFailed;
  }
  request.options.quiet = true;  // Wireshark shows any output as an error.
  request.options.device = DeviceOfInterface(request.interface);
  const absl::Status status = RunCapture(ResolveSocketPath(request.socket), request.options);
  if (status.ok()) return 0;
  fprintf(stderr, "uroce-extcap: %s\n", std::string(status.message()).c_str());
  return kExitFailed;
}

int Answer(const Command& app, Request& request) {
  if (request.capture) return Capture(request);
  if (request.list_interfaces || app.Has("--extcap-version")) {
    ListInterfaces(request);
  } else if (request.list_link_types) {
    fputs(DescribeLinkTypes(request.interface).c_str(), stdout);
  } else if (request.list_options) {
    fputs(DescribeOptions().c_str(), stdout);
  } else if (app.Has("--extcap-capture-filter")) {
    CheckFilter(request.options.filter);
  } else {
    fputs(app.Help().c_str(), stdout);
  }
  return 0;
}

int Main(int argc, char** argv) {
  Request request;
  CommandLine line("uroce-extcap",
                   "Lists uroced's NICs in Wireshark and captures on them; Wireshark runs it");
  AddFlags(line.root(), request);
  line.AllowUnknownWords();  // A newer Wireshark may pass other flags too.
  const Parsed parsed = line.Parse({argv + 1, argv + argc});
  if (parsed.help) fputs(parsed.help->c_str(), stdout);
  if (parsed.complaint) fprintf(stderr, "uroce-extcap: %s\n", parsed.complaint->text.c_str());
  if (parsed.complaint) return kExitFailed;
  return parsed.help ? 0 : Answer(line.root(), request);
}

}  // namespace
}  // namespace uroce::tools

int main(int argc, char** argv) { return uroce::tools::Main(argc, argv); }
