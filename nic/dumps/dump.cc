// SPDX-License-Identifier: Apache-2.0
#include "nic/dumps/dump.h"

#include <infiniband/verbs.h>

#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "drivers/fault/fault_port.h"
#include "nic/capture/capture.h"
#include "nic/capture/history_file.h"
#include "nic/capture/history_recorder.h"
#include "nic/connections/peer_agreements.h"
#include "nic/connections/rdma_cm_host.h"
#include "nic/devices/port_attributes.h"
#include "nic/dumps/congestion_dump.h"
#include "nic/dumps/connection_dump.h"
#include "nic/dumps/dump_stream.h"
#include "nic/dumps/held_dump.h"
#include "nic/dumps/object_dumps.h"
#include "nic/dumps/peer_dump.h"
#include "nic/dumps/queue_pair_dump.h"
#include "nic/dumps/switch_dump.h"
#include "nic/dumps/worker_dump.h"
#include "nic/net/address.h"
#include "nic/objects/client.h"
#include "nic/objects/counter_table.h"
#include "nic/objects/nic.h"
#include "nic/objects/program.h"
#include "pipeline/datapath/queue/queue_pair.h"

namespace uroce::nic {
namespace {

using Json = nlohmann::ordered_json;
using datapath::DeviceCounters;

Json DeviceJson(const NicDevice& device) {
  const uroce_port_info port = device.PortAttributes();
  const drivers::PortInfo& info = device.info();
  Json json;
  json["name"] = device.name();
  json["driver"] = info.driver;
  json["interface"] = info.interface;
  json["link"] = info.link_up ? "up" : "down";
  json["speed_bps"] = info.speed_bps;
  if (device.config().rate_bps != 0) json["rate_bps"] = device.config().rate_bps;
  if (info.flow_control) json["flow_control"] = drivers::NameOf(*info.flow_control);
  json["mtu"] = info.mtu_bytes;
  json["active_mtu"] = MtuBytes(port.active_mtu);
  json["mac"] = FormatMac(info.mac);
  json["fault"] = device.config().fault;
  json["addresses"] = Json::array();
  for (const InterfaceAddress& address : device.gids().addresses()) {
    json["addresses"].push_back(FormatInterfaceAddress(address));
  }
  json["groups"] = Json::array();
  for (const auto& [group, joins] : device.groups()) json["groups"].push_back(FormatAddress(group));
  json["routes"] = Json::array();
  for (const Route& route : device.config().routes) json["routes"].push_back(FormatRoute(route));
  json["gids"] = Json::array();
  for (uint32_t index = 0; index < GidTable::kLength; ++index) {
    const std::optional<GidEntry> gid = device.gids().At(index);
    if (!gid) continue;
    json["gids"].push_back({{"index", index},
                            {"gid", FormatGid(gid->gid)},
                            {"address", FormatAddress(gid->gid)},
                            {"type", "RoCE v2"},
                            {"vlan", gid->vlan_id},
                            {"ifindex", device.InterfaceOf(gid->vlan_id)}});
  }
  return json;
}

Json DevicesJson(const Nic& nic) {
  Json list = Json::array();
  for (const auto& device : nic.devices()) list.push_back(DeviceJson(*device));
  return {{"devices", list},
          {"daemon", {{"version", UROCE_VERSION}, {"abi_version", UROCE_ABI_VERSION}}}};
}

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

Json FaultJson(const drivers::FaultCounters& counters) {
  return {{"taken", counters.taken},           {"dropped", counters.dropped},
          {"duplicated", counters.duplicated}, {"reordered", counters.reordered},
          {"corrupted", counters.corrupted},   {"ce_marked", counters.ce_marked}};
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

/// Adds up the counters of live connections, some at a time; then dumps the sums.
class StatSource : public DumpSource {
 public:
  StatSource(const DumpContext& context, const Client& asker)
      : context_(context), walk_(context, asker, /*of_all=*/true) {
    // The device keeps the counters of connections that have ended.
    for (const auto& device : context.nic.devices()) sums_[device.get()] = device->ended_counters();
  }

  bool Append(std::string& text) override {
    const std::vector<QueuePairView> views = walk_.Next();
    for (const QueuePairView& view : views) {
      AddCounters(sums_[view.object->device], view.counters);
      ++counts_[view.object->device];
    }
    if (!views.empty()) return true;
    text += JsonText(Whole());
    return false;
  }

 private:
  Json DeviceStatJson(const NicDevice& device) {
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
    // Frames that are not RoCE, on a port with its own stack for them.
    const datapath::HostLink* const host = device.datapath().host_link;
    if (host != nullptr) AddLinkCounters("host", *host, json);
    AddLinkCounters("gsi", device.gsi_link(), json);
    for (const CounterRow& row : kCounters) json[row.name] = sums_[&device].*row.value;
    json["queue_pairs"] = counts_[&device];
    return json;
  }

  Json Whole() {
    Json list = Json::array();
    for (const auto& device : context_.nic.devices()) {
      list.push_back({{"name", device->name()}, {"counters", DeviceStatJson(*device)}});
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

  const DumpContext& context_;
  QueuePairWalk walk_;
  std::map<const NicDevice*, datapath::Counters> sums_;
  std::map<const NicDevice*, uint64_t> counts_;
};

std::vector<const Client*> Visible(const DumpContext& context, const Client& asker) {
  std::vector<const Client*> visible = context.clients();
  std::erase_if(visible, [&](const Client* client) { return !asker.MaySee(*client); });
  return visible;
}

std::unique_ptr<DumpSource> Whole(const Json& json) {
  return std::make_unique<TextSource>(JsonText(json));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DumpSource>> MakeDump(uint32_t what, const DumpContext& context,
                                                     const Client& asker) {
  for (const ObjectDump& dump : kObjectDumps) {
    if (dump.what == what) return dump.make(context, asker);
  }
  switch (what) {
    case UROCE_DUMP_DEVICES:
      return Whole(DevicesJson(context.nic));
    case UROCE_DUMP_STAT:
      return std::make_unique<StatSource>(context, asker);
    case UROCE_DUMP_PEERS:
      return Whole(PeersJson(context.nic, Visible(context, asker)));
    case UROCE_DUMP_SWITCH:
      return Whole(SwitchesJson(context.nic));
    case UROCE_DUMP_CC_SETTINGS:
      return Whole(CongestionSettingsJson(context.nic));
    default:
      return absl::InvalidArgumentError(absl::StrCat("there is no dump ", what));
  }
}

absl::StatusOr<std::unique_ptr<DumpSource>> MakeHistoryDump(Qpn qpn, const DumpContext& context,
                                                            const Client& asker) {
  Nic& nic = context.nic;
  if (nic.config().flight_recorder.empty()) {
    return absl::FailedPreconditionError("the daemon runs without --flight-recorder");
  }
  std::vector<datapath::HistoryPacket> packets;
  const QueuePairObject* object = nullptr;
  for (const Client* client : Visible(context, asker)) {
    if (client->program() == nullptr) continue;
    client->program()->queue_pairs().ForEach([&](const QueuePairObject& each) {
      if (each.queue_pair.qpn() == qpn) object = &each;
    });
  }
  if (object == nullptr) {
    return absl::NotFoundError(absl::StrCat("there is no queue pair ", qpn.value()));
  }
  nic.OwnerOf(object->queue_pair).Run([&] {
    const datapath::PacketHistory* const history = object->queue_pair.history();
    if (history != nullptr) packets = history->InOrder();
  });
  return std::make_unique<TextSource>(HistoryFile(packets, CaptureInterface(*object->device), ""));
}

}  // namespace uroce::nic
