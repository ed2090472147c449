// SPDX-License-Identifier: Apache-2.0
#include "nic/dumps/stat_dump.h"

#include <atomic>
#include <nlohmann/json.hpp>
#include <vector>

#include "drivers/fault/fault_port.h"
#include "nic/capture/history_recorder.h"
#include "nic/dumps/connection_dump.h"
#include "nic/dumps/histogram_json.h"
#include "nic/dumps/peer_dump.h"
#include "nic/dumps/switch_dump.h"
#include "nic/dumps/worker_dump.h"
#include "nic/objects/nic.h"

namespace uroce::nic {
namespace {

using Json = nlohmann::ordered_json;

Json CountsJson(const std::vector<NamedCount>& counts) {
  Json json;
  for (const NamedCount& count : counts) json[count.name] = count.value;
  return json;
}

Json HistogramsJson(const DeviceSnapshot& device) {
  return {{"completion_ns", HistogramJson(LatencyHistogram::kShape, device.completion_ns)},
          {"round_trip_ns", HistogramJson(LatencyHistogram::kShape, device.round_trip_ns)},
          {"sent_bytes", HistogramJson(SizeHistogram::kShape, device.sent_bytes)},
          {"received_bytes", HistogramJson(SizeHistogram::kShape, device.received_bytes)}};
}

Json RulesJson(const drivers::FaultPort& port) {
  Json list = Json::array();
  for (const auto& active : port.rules()) {
    list.push_back({{"rule", drivers::FormatRule(active->rule)},
                    {"matched", active->matched.load(std::memory_order_relaxed)},
                    {"acted", active->acted.load(std::memory_order_relaxed)}});
  }
  return list;
}

Json StatDeviceJson(const NicDevice& device, const DeviceSnapshot& snapshot) {
  Json json = {{"name", snapshot.name},
               {"counters", CountsJson(snapshot.counters)},
               {"histograms", HistogramsJson(snapshot)}};
  if (!snapshot.fault_receive.empty()) {
    json["fault"] = device.config().fault;
    json["fault_receive"] = CountsJson(snapshot.fault_receive);
    json["fault_transmit"] = CountsJson(snapshot.fault_transmit);
    json["fault_rules"] = RulesJson(*device.fault_port());
  }
  return json;
}

Json StatJson(const DumpContext& context, const Snapshot& snapshot) {
  Json list = Json::array();
  for (size_t i = 0; i < snapshot.devices.size(); ++i) {
    list.push_back(StatDeviceJson(*context.nic.devices()[i], snapshot.devices[i]));
  }
  const HistoryRecorder::Counts& recorded = context.histories.counts();
  return {{"devices", list},
          {"switch_ports", SwitchPortsJson(context.nic)},
          {"workers", WorkersJson(snapshot.workers)},
          {"flights", {{"written", recorded.written}, {"missed", recorded.missed}}},
          {"held", CountsJson(snapshot.held)},
          {"cm", ManagerJson(context.rdma_cm)},
          {"peers", PeerCountersJson(context.peers)}};
}

}  // namespace

bool StatSource::Append(std::string& text) {
  if (walk_.Continue()) return true;
  text += JsonText(StatJson(context_, walk_.Take()));
  return false;
}

}  // namespace uroce::nic
