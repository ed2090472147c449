// SPDX-License-Identifier: Apache-2.0
#include "nic/dumps/congestion_dump.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "nic/dumps/object_dumps.h"
#include "nic/dumps/queue_pair_dump.h"
#include "nic/net/address.h"
#include "nic/objects/client.h"
#include "nic/objects/nic.h"
#include "nic/objects/queue_pair_object.h"
#include "nic/settings/port_congestion.h"

namespace uroce::nic {
namespace {

using Json = nlohmann::ordered_json;

double Micros(Nanos time) { return static_cast<double>(time.count()) / 1000; }
uint64_t WholeBps(double bps) { return static_cast<uint64_t>(std::llrint(bps)); }
double Thousandths(double value) { return std::round(value * 1000) / 1000; }

/// What is not measured is left out.
Json FlowJson(const QueuePairView& view) {
  const FlowView& flow = view.flow;
  Json json;
  json["device"] = view.object->device->name();
  json["pid"] = view.client->peer().pid;
  json["program"] = view.client->command_name();
  json["qpn"] = view.object->queue_pair.qpn().value();
  json["remote"] = view.path.remote_qpn == Qpn() ? "" : FormatAddress(view.path.destination);
  json["priority"] = view.priority;
  json["profile"] = congestion::NameOf(view.profile);
  if (flow.limit_bps != 0) json["limit_bps"] = WholeBps(flow.limit_bps);
  if (flow.is_limited) {
    json["rate_bps"] = WholeBps(flow.rate_bps);
    json["target_bps"] = WholeBps(flow.target_bps);
    json["alpha"] = Thousandths(flow.alpha);
  }
  if (flow.window_packets != 0) json["window_packets"] = flow.window_packets;
  if (flow.round_trip != Nanos(0)) {
    json["round_trip_us"] = Micros(flow.round_trip);
    json["shortest_us"] = Micros(flow.shortest_round_trip);
    json["target_us"] = Micros(flow.target_round_trip);
  }
  json["cnps_handled"] = flow.cnps_handled;
  json["cnps_sent"] = flow.cnps_sent;
  json["sent_bytes"] = view.traffic.sent_bytes;
  return json;
}

/// A queue pair that has no peer, and has sent no datagram, is no flow.
bool IsFlow(const QueuePairView& view) {
  return view.path.remote_qpn != Qpn() || view.traffic.sent_packets != 0;
}

class FlowsSource : public ListSource {
 public:
  FlowsSource(const DumpContext& context, const Client& asker)
      : ListSource("flows"), walk_(context, asker, /*of_all=*/false) {}

 private:
  bool AppendItems(std::string& text) override {
    const std::vector<QueuePairView> views = walk_.Next();
    for (const QueuePairView& view : views) {
      if (IsFlow(view)) AddItem(text, FlowJson(view));
    }
    return !views.empty();
  }

  QueuePairWalk walk_;
};

/// The profile of each priority, under its number.
void AddPriorities(const DeviceConfig& device, Json& json) {
  const auto settings = CongestionOfPriorities(device);
  for (size_t priority = 0; priority < settings.size(); ++priority) {
    json[std::to_string(priority)] = congestion::NameOf(settings[priority].profile);
  }
}

}  // namespace

std::unique_ptr<DumpSource> MakeFlowsDump(const DumpContext& context, const Client& asker) {
  return std::make_unique<FlowsSource>(context, asker);
}

Json CongestionSettingsJson(const Nic& nic) {
  Json list = Json::array();
  for (const auto& device : nic.devices()) {
    congestion::Settings settings = CongestionOf(device->config());
    Json json = {{"device", device->name()}, {"profile", congestion::NameOf(settings.profile)}};
    AddPriorities(device->config(), json);
    json["rate_bps"] = device->config().rate_bps;
    json["max_rate_per_user_bps"] = nic.config().limits.rate_per_user_bps;
    for (const congestion::Parameter& parameter : congestion::Parameters()) {
      json[std::string(parameter.name)] = parameter.of(settings);
    }
    list.push_back(std::move(json));
  }
  return {{"settings", list}};
}

}  // namespace uroce::nic
