// SPDX-License-Identifier: Apache-2.0
#include "nic/dumps/stat_dump.h"

#include <atomic>
#include <nlohmann/json.hpp>
#include <vector>

#include "drivers/fault/fault_port.h"
#include "nic/capture/history_recorder.h"
#include "nic/dumps/connection_dump.h"
#include "nic/dumps/held_dump.h"
#include "nic/dumps/histogram_json.h"
#include "nic/dumps/peer_dump.h"
#include "nic/dumps/switch_dump.h"
#include "nic/dumps/worker_dump.h"
#include "nic/objects/client.h"
#include "nic/objects/counter_table.h"
#include "nic/objects/nic.h"
#include "nic/objects/queue_pair_object.h"

namespace uroce::nic {
namespace {

using Json = nlohmann::ordered_json;
using datapath::DeviceCounters;

struct DeviceCounterRow {
  const char* name;
  std::atomic<uint64_t> DeviceCounters::*value;
};
constexpr DeviceCounterRow kDeviceCounters[] = {
    {"port_rcv_packets", &DeviceCounters::port_rcv_packets},
    {"port_rcv_bytes", &DeviceCounters::port_rcv_bytes},
    {"port_xmit_packets", &DeviceCounters::port_xmit_packets},
    {"port_xmit_bytes", &DeviceCounters::port_xmit_bytes},
    {"rx_not_roce", &DeviceCounters::rx_not_roce},
    {"rx_malformed", &DeviceCounters::rx_malformed},
    {"rx_bad_opcode", &DeviceCounters::rx_bad_opcode},
    {"rx_icrc_encapsulated", &DeviceCounters::rx_icrc_encapsulated},
    {"rx_bad_pkey", &DeviceCounters::rx_bad_pkey},
    {"rx_unknown_qpn", &DeviceCounters::rx_unknown_qpn},
    {"rx_bad_address", &DeviceCounters::rx_bad_address},
    {"rx_bad_state", &DeviceCounters::rx_bad_state},
    {"rx_ghost", &DeviceCounters::rx_ghost},
    {"rx_cross_worker_full", &DeviceCounters::rx_cross_worker_full},
    {"rx_kept_full", &DeviceCounters::rx_kept_full},
    {"rx_parked_full", &DeviceCounters::rx_parked_full},
    {"np_ecn_marked_roce_packets", &DeviceCounters::np_ecn_marked_roce_packets},
    {"np_cnp_sent", &DeviceCounters::np_cnp_sent},
    {"rp_cnp_handled", &DeviceCounters::rp_cnp_handled},
    {"rp_cnp_ignored", &DeviceCounters::rp_cnp_ignored},
    {"roce_slow_restart", &DeviceCounters::roce_slow_restart},
    {"roce_slow_restart_cnps", &DeviceCounters::roce_slow_restart_cnps},
    {"roce_slow_restart_trans", &DeviceCounters::roce_slow_restart_trans},
    {"multicast_rcv_packets", &DeviceCounters::multicast_rcv_packets},
    {"multicast_xmit_packets", &DeviceCounters::multicast_xmit_packets},
    {"no_buffer", &DeviceCounters::no_buffer},
    {"sq_corrupt", &DeviceCounters::sq_corrupt},
    {"rq_corrupt", &DeviceCounters::rq_corrupt},
    {"cq_overflow", &DeviceCounters::cq_overflow},
};
static_assert(sizeof(kDeviceCounters) / sizeof(DeviceCounterRow) * sizeof(uint64_t) ==
                  sizeof(DeviceCounters),
              "every counter has a row");

template <typename Kind>
Json SumJson(const datapath::Device& device, Kind datapath::DeviceHistograms::*histogram) {
  return HistogramJson(Kind::kShape, device.Sum(histogram));
}

Json HistogramsJson(const datapath::Device& device) {
  using datapath::DeviceHistograms;
  return {{"completion_ns", SumJson(device, &DeviceHistograms::completion_ns)},
          {"round_trip_ns", SumJson(device, &DeviceHistograms::round_trip_ns)},
          {"sent_bytes", SumJson(device, &DeviceHistograms::sent_bytes)},
          {"received_bytes", SumJson(device, &DeviceHistograms::received_bytes)}};
}

Json FaultJson(const drivers::FaultCounters& counters) {
  return {{"taken", counters.taken},           {"dropped", counters.dropped},
          {"duplicated", counters.duplicated}, {"reordered", counters.reordered},
          {"corrupted", counters.corrupted},   {"ce_marked", counters.ce_marked}};
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

// Adds the fault port's statistics, which the workers count.
void AddFaults(Nic& nic, const NicDevice& device, Json& json) {
  if (!device.has_had_faults()) return;
  drivers::FaultCounters receive, transmit;
  nic.workers().RunTogether([&] {
    receive = device.fault_port()->receive_counters();
    transmit = device.fault_port()->transmit_counters();
  });
  json["fault"] = device.config().fault;
  json["fault_receive"] = FaultJson(receive);
  json["fault_transmit"] = FaultJson(transmit);
  json["fault_rules"] = RulesJson(*device.fault_port());
}

void AddLinkCounters(const std::string& prefix, const datapath::FrameLink& link, Json& json) {
  const datapath::FrameLinkCounters& counters = link.counters();
  json[prefix + "_rcv_packets"] = counters.received.load(std::memory_order_relaxed);
  json[prefix + "_rcv_discards"] = counters.rx_discards.load(std::memory_order_relaxed);
  json[prefix + "_rcv_refused"] = counters.rx_refused.load(std::memory_order_relaxed);
  json[prefix + "_xmit_packets"] = counters.sent.load(std::memory_order_relaxed);
  json[prefix + "_xmit_discards"] = counters.tx_discards.load(std::memory_order_relaxed) +
                                    counters.too_long.load(std::memory_order_relaxed);
}

}  // namespace

// The device keeps the counters of connections that have ended.
StatWalk::StatWalk(const DumpContext& context, const Client& asker)
    : context_(context), devices_(context.nic.devices()), walk_(context, asker, /*of_all=*/true) {
  for (const auto& device : devices_) sums_[device.get()] = device->ended_counters();
}

bool StatWalk::Continue() {
  const std::vector<QueuePairView> views = walk_.Next();
  for (const QueuePairView& view : views) {
    AddCounters(sums_[view.object->device], view.counters);
    ++counts_[view.object->device];
    Use& use = programs_[view.client->id()];
    ++use.queue_pairs;
    use.sent_bytes += view.traffic.sent_bytes;
    use.received_bytes += view.traffic.received_bytes;
  }
  return !views.empty();
}

Json StatWalk::DeviceJson(const NicDevice& device) const {
  Json json;
  for (const DeviceCounterRow& row : kDeviceCounters) {
    json[row.name] = device.datapath().Sum(row.value);
  }
  const drivers::PortCounters port = device.port().counters();
  json["port_xmit_discards"] = port.tx_discards;
  json["port_rcv_missed"] = port.rx_missed;
  json["port_rcv_damaged"] = port.rx_damaged;
  if (port.rx_fitted) json["port_rcv_fitted"] = *port.rx_fitted;
  if (port.rx_pauses) json["port_rcv_pauses"] = *port.rx_pauses;
  if (port.tx_pauses) json["port_xmit_pauses"] = *port.tx_pauses;
  json["link_downed"] = device.link_downed();
  // Frames that are not RoCE, on a port with its own stack for them.
  const datapath::HostLink* const host = device.datapath().host_link;
  if (host != nullptr) AddLinkCounters("host", *host, json);
  AddLinkCounters("gsi", device.gsi_link(), json);
  for (const CounterRow& row : kCounters) json[row.name] = sums_.at(&device).*row.value;
  const auto count = counts_.find(&device);
  json["queue_pairs"] = count == counts_.end() ? 0 : count->second;
  return json;
}

Json StatWalk::Whole() const {
  Json list = Json::array();
  for (const auto& device : devices_) {
    if (device->is_removed()) continue;
    list.push_back({{"name", device->name()},
                    {"counters", DeviceJson(*device)},
                    {"histograms", HistogramsJson(device->datapath())}});
    AddFaults(context_.nic, *device, list.back());
  }
  const HistoryRecorder::Counts& recorded = context_.histories.counts();
  return {{"devices", list},
          {"switch_ports", SwitchPortsJson(context_.nic)},
          {"workers", WorkersJson(context_.nic)},
          {"flights", {{"written", recorded.written}, {"missed", recorded.missed}}},
          {"held", HeldJson(context_.nic)},
          {"cm", ManagerJson(context_.rdma_cm)},
          {"peers", PeerCountersJson(context_.peers)}};
}

Json StatWalk::Programs() const {
  Json list = Json::array();
  for (const Client* client : context_.clients()) {
    if (client->program() == nullptr) continue;
    const auto found = programs_.find(client->id());
    const Use use = found == programs_.end() ? Use() : found->second;
    list.push_back({{"program", client->command_name()},
                    {"pid", client->peer().pid},
                    {"session", client->id()},
                    {"queue_pairs", use.queue_pairs},
                    {"sent_bytes", use.sent_bytes},
                    {"received_bytes", use.received_bytes}});
  }
  return list;
}

bool StatSource::Append(std::string& text) {
  if (walk_.Continue()) return true;
  text += JsonText(walk_.Whole());
  return false;
}

}  // namespace uroce::nic
