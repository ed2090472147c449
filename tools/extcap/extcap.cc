// SPDX-License-Identifier: Apache-2.0
#include "tools/extcap/extcap.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "pipeline/shm/abi/uroce_arena.h"

namespace uroce::tools {
namespace {

using Json = nlohmann::json;

constexpr char kHelp[] = "https://www.wireshark.org/docs/man-pages/extcap.html";

std::string Sentence(absl::string_view value, absl::string_view display) {
  return absl::StrCat("interface {value=", value, "}{display=", display, "}\n");
}

std::string FirstAddress(const Json& device) {
  const auto addresses = device.find("addresses");
  if (addresses == device.end() || !addresses->is_array() || addresses->empty()) return "";
  return addresses->front().is_string() ? addresses->front().get<std::string>() : "";
}

}  // namespace

std::vector<ExtcapInterface> ReadExtcapInterfaces(const std::string& json) {
  std::vector<ExtcapInterface> interfaces;
  const Json dump = Json::parse(json, nullptr, false);
  if (!dump.is_object() || !dump.contains("devices")) return interfaces;
  for (const Json& device : dump["devices"]) {
    if (!device.is_object() || !device.contains("name") || !device["name"].is_string()) continue;
    interfaces.push_back({device["name"].get<std::string>(), FirstAddress(device)});
  }
  return interfaces;
}

std::string DescribeInterfaces(const std::vector<ExtcapInterface>& interfaces) {
  std::string text = absl::StrCat("extcap {version=" UROCE_VERSION "}{help=", kHelp, "}\n");
  for (const ExtcapInterface& interface : interfaces) {
    const std::string at = interface.address.empty() ? "" : absl::StrCat(", ", interface.address);
    absl::StrAppend(&text, Sentence(interface.device, "RoCEv2 NIC of uroced" + at));
  }
  const bool is_free =
      std::none_of(interfaces.begin(), interfaces.end(),
                   [](const ExtcapInterface& i) { return i.device == kAllDevices; });
  if (interfaces.size() > 1 && is_free) {
    absl::StrAppend(&text, Sentence(kAllDevices, "all RoCEv2 NICs of uroced"));
  }
  return text;
}

std::string DescribeLinkTypes(const std::string&) {
  return "dlt {number=1}{name=EN10MB}{display=Ethernet}\n";
}

std::string DescribeOptions() {
  return "arg {number=0}{call=--snap-length}{display=Bytes kept of each packet}{type=unsigned}"
         "{range=0,65535}{default=0}{tooltip=0 keeps all; 128 holds all headers}\n"
         "arg {number=1}{call=--direction}{display=Direction}{type=selector}{default=inout}\n"
         "value {arg=1}{value=inout}{display=received and sent}{default=true}\n"
         "value {arg=1}{value=in}{display=received}\n"
         "value {arg=1}{value=out}{display=sent}\n"
         "arg {number=2}{call=--only}{display=Only packets that were}{type=multicheck}"
         "{tooltip=None marked: all packets}\n"
         "value {arg=2}{value=dropped}{display=dropped}\n"
         "value {arg=2}{value=retransmitted}{display=retransmitted}\n"
         "value {arg=2}{value=marked}{display=marked (congestion)}\n"
         "arg {number=3}{call=--socket}{display=Control socket}{type=string}"
         "{placeholder=" UROCE_DEFAULT_SOCKET
         "}{tooltip=Of a uroced that is not at its usual "
         "place}\n";
}

std::string DeviceOfInterface(const std::string& interface) {
  return interface == kAllDevices ? "" : interface;
}

}  // namespace uroce::tools
