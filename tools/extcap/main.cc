// SPDX-License-Identifier: Apache-2.0
// uroce-extcap: Wireshark runs it to list the daemon's NICs and to capture on one of them.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "tools/capture/command.h"
#include "tools/capture/recorder.h"
#include "tools/client/control_client.h"
#include "tools/commands/captures.h"
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

void AddFlags(CLI::App& app, Request& request) {
  app.add_flag("--extcap-interfaces", request.list_interfaces, "List the daemon's NICs");
  app.add_flag("--extcap-dlts", request.list_link_types, "List an interface's link types");
  app.add_flag("--extcap-config", request.list_options, "List the options of a capture");
  app.add_option("--extcap-interface", request.interface, "Interface of the list");
  app.add_option("--extcap-version", request.wireshark_version, "Version of Wireshark")
      ->expected(0, 1);
  app.add_option("--extcap-capture-filter", request.options.filter,
                 "libpcap expression; without --capture it is only checked")
      ->expected(0, 1);
  app.add_flag("--capture", request.capture, "Capture into --fifo");
  app.add_option("--fifo", request.options.file, "Pipe or file to write to");
  app.add_option("--socket", request.socket, "Control socket of the daemon (or UROCE_SOCKET)");
  AddCaptureFlags(app, request.options);
  app.allow_extras();  // A newer Wireshark may pass other flags too.
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

int Answer(CLI::App& app, Request& request) {
  if (request.capture) return Capture(request);
  if (request.list_interfaces || app.count("--extcap-version") != 0) {
    ListInterfaces(request);
  } else if (request.list_link_types) {
    fputs(DescribeLinkTypes(request.interface).c_str(), stdout);
  } else if (request.list_options) {
    fputs(DescribeOptions().c_str(), stdout);
  } else if (app.count("--extcap-capture-filter") != 0) {
    CheckFilter(request.options.filter);
  } else {
    fputs(app.help().c_str(), stdout);
  }
  return 0;
}

int Main(int argc, char** argv) {
  Request request;
  CLI::App app("Lists uroced's NICs in Wireshark and captures on them; Wireshark runs it",
               "uroce-extcap");
  AddFlags(app, request);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    fprintf(stderr, "uroce-extcap: %s\n", error.what());
    return kExitFailed;
  }
  return Answer(app, request);
}

}  // namespace
}  // namespace uroce::tools

int main(int argc, char** argv) { return uroce::tools::Main(argc, argv); }
