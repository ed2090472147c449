// SPDX-License-Identifier: Apache-2.0
#include "nic/control/dump.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "absl/strings/str_cat.h"
#include "drivers/fault_port.h"
#include "nic/control/connection_dump.h"
#include "nic/control/flight_file.h"
#include "nic/control/flight_recorder.h"
#include "nic/control/held_dump.h"
#include "nic/control/memory_dump.h"
#include "nic/control/peer_dump.h"
#include "nic/control/session.h"
#include "nic/control/srq_dump.h"
#include "nic/control/worker_dump.h"
#include "nic/net/address.h"
#include "nic/net/port_attributes.h"
#include "nic/resources/counter_table.h"
#include "pipeline/datapath/queue_pair.h"

namespace uroce::nic {
namespace {

using Json = nlohmann::ordered_json;
using datapath::DeviceCounters;

constexpr uint32_t kQueuePairsPerRun = 256;  // The worker waits meanwhile: some tens of us.

Json DeviceJson(const NicDevice& device) {
  const uroce_port_info port = device.PortAttributes();
  const drivers::PortInfo& info = device.info();
  Json json;
  json["name"] = device.name();
  json["driver"] = info.driver;
  json["interface"] = info.interface;
  json["link"] = info.link_up ? "up" : "down";
  json["speed_bps"] = info.speed_bps;
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
    {"rx_handover_full", &DeviceCounters::rx_handover_full},
    {"rx_kept_full", &DeviceCounters::rx_kept_full},
    {"rx_parked_full", &DeviceCounters::rx_parked_full},
    {"rx_ecn_marked", &DeviceCounters::rx_ecn_marked},
    {"rx_cnp_ignored", &DeviceCounters::rx_cnp_ignored},
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

/// What one queue pair looked like in one moment of its worker.
struct QueuePairView {
  const Session* session;
  const QueuePairObject* object;
  transport::QpState state;
  bool draining;
  bool is_selective;  ///< Of a reliable connection.
  uint32_t next_send_psn;
  uint32_t expected_psn;
  datapath::Path path;
  datapath::QueuePair::Traffic traffic;
  datapath::Counters counters;
};

void Look(QueuePairView& view) {
  const datapath::QueuePair& queue_pair = view.object->queue_pair;
  view.state = queue_pair.state();
  const datapath::QueuePairCore& core = queue_pair.core();
  view.draining = core.draining();
  view.is_selective = core.is_reliable() && core.reliable().selective();
  view.next_send_psn = core.next_send_psn().value();
  view.expected_psn = core.expected_psn().value();
  view.path = queue_pair.path();
  view.traffic = queue_pair.traffic();
  view.counters = queue_pair.counters();
}

void LookAtAllOf(datapath::Worker& worker, std::span<QueuePairView* const> views) {
  while (!views.empty()) {
    const auto some = views.first(std::min<size_t>(views.size(), kQueuePairsPerRun));
    worker.Run([&] {
      for (QueuePairView* view : some) Look(*view);
    });
    views = views.subspan(some.size());
  }
}

std::vector<QueuePairView> LookAtAll(Nic& nic, const std::vector<const Session*>& sessions) {
  std::vector<QueuePairView> views;
  std::set<const QueuePairObject*> targets;
  for (const Session* session : sessions) {
    if (session->program() == nullptr) continue;
    session->program()->ForEachQueuePair([&](const QueuePairObject& object) {
      // An XRC target is shown once, as that of the first who has it open.
      if (object.pd == nullptr && !targets.insert(&object).second) return;
      views.push_back({.session = session, .object = &object});
    });
  }
  std::vector<std::vector<QueuePairView*>> of_worker(nic.workers().count());
  for (QueuePairView& view : views) {
    of_worker[nic.OwnerOf(view.object->queue_pair).index()].push_back(&view);
  }
  for (uint32_t index = 0; index < of_worker.size(); ++index) {
    LookAtAllOf(nic.workers().at(index), of_worker[index]);
  }
  return views;
}

Json FaultJson(const drivers::FaultCounters& counters) {
  return {{"taken", counters.taken},           {"dropped", counters.dropped},
          {"duplicated", counters.duplicated}, {"reordered", counters.reordered},
          {"corrupted", counters.corrupted},   {"ce_marked", counters.ce_marked}};
}

// What the fault port did, counted by the workers.
void AddFaults(Nic& nic, const NicDevice& device, Json& json) {
  if (device.fault_port() == nullptr) return;
  drivers::FaultCounters receive, transmit;
  nic.workers().RunTogether([&] {
    receive = device.fault_port()->receive_counters();
    transmit = device.fault_port()->transmit_counters();
  });
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

// Counters of connections that have ended count on in their device.
Json StatJson(Nic& nic, const std::vector<const Session*>& sessions) {
  std::map<const NicDevice*, datapath::Counters> sums;
  std::map<const NicDevice*, uint64_t> counts;
  for (const auto& device : nic.devices()) sums[device.get()] = device->ended_counters();
  for (const QueuePairView& view : LookAtAll(nic, sessions)) {
    const NicDevice* device = view.object->device;
    AddCounters(sums[device], view.counters);
    ++counts[device];
  }
  Json list = Json::array();
  for (const auto& device : nic.devices()) {
    Json json;
    for (const DeviceCounterRow& row : kDeviceCounters) {
      json[row.name] = device->datapath().Sum(row.value);
    }
    const drivers::PortCounters port = device->port().counters();
    json["port_xmit_discards"] = port.tx_discards;
    json["port_rcv_missed"] = port.rx_missed;
    json["port_rcv_damaged"] = port.rx_damaged;
    // Frames that are not RoCE, on a port with a stack of its own for them.
    const datapath::HostLink* const host = device->datapath().host_link;
    if (host != nullptr) AddLinkCounters("host", *host, json);
    AddLinkCounters("gsi", device->gsi_link(), json);
    for (const CounterRow& row : kCounters) json[row.name] = sums[device.get()].*row.value;
    json["queue_pairs"] = counts[device.get()];
    list.push_back({{"name", device->name()}, {"counters", json}});
    AddFaults(nic, *device, list.back());
  }
  return {{"devices", list}, {"workers", WorkersJson(nic)}};
}

const char* StateName(transport::QpState state) {
  static constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  return kNames[static_cast<size_t>(state)];
}

const char* TypeName(uint32_t qp_type) {
  switch (qp_type) {
    case IBV_QPT_UC:
      return "UC";
    case IBV_QPT_UD:
      return "UD";
    case IBV_QPT_XRC_SEND:
      return "XRC_SEND";
    case IBV_QPT_XRC_RECV:
      return "XRC_RECV";
    default:
      return "RC";
  }
}

/// How lost packets are repeated.
const char* RecoveryName(const QueuePairView& view) {
  if (!view.object->queue_pair.core().is_reliable()) return "";
  return view.is_selective ? "selective" : "go-back-n";
}

Json QueuePairJson(const QueuePairView& view) {
  const datapath::QueuePairConfig& config = view.object->queue_pair.config();
  Json json;
  json["device"] = config.device->name();
  json["pid"] = view.session->peer().pid;
  json["program"] = view.session->command_name();
  json["qpn"] = config.qpn.value();
  json["type"] = TypeName(view.object->qp_type);
  json["state"] = StateName(view.state);
  json["draining"] = view.draining;
  json["recovery"] = RecoveryName(view);
  json["remote_qpn"] = view.path.remote_qpn.value();
  json["local"] = view.path.remote_qpn == Qpn() ? "" : FormatAddress(view.path.source);
  json["remote"] = view.path.remote_qpn == Qpn() ? "" : FormatAddress(view.path.destination);
  json["remote_mac"] = FormatMac(view.path.destination_mac);
  json["udp_source_port"] = view.path.udp_source_port;
  json["path_mtu"] = MtuBytes(view.object->attr.path_mtu);
  json["send_psn"] = view.next_send_psn;
  json["expected_psn"] = view.expected_psn;
  json["sent_packets"] = view.traffic.sent_packets;
  json["sent_bytes"] = view.traffic.sent_bytes;
  json["received_packets"] = view.traffic.received_packets;
  json["received_bytes"] = view.traffic.received_bytes;
  Json counters = Json::object();  // Those that count something: most never do.
  for (const CounterRow& row : kCounters) {
    if (view.counters.*row.value != 0) counters[row.name] = view.counters.*row.value;
  }
  if (!counters.empty()) json["counters"] = counters;
  return json;
}

Json QueuePairsJson(Nic& nic, const FlightRecorder& flights,
                    const std::vector<const Session*>& sessions) {
  Json list = Json::array();
  for (const QueuePairView& view : LookAtAll(nic, sessions)) {
    list.push_back(QueuePairJson(view));
    const std::string flight = flights.FileOf(view.object->queue_pair.qpn());
    if (!flight.empty()) list.back()["flight"] = flight;
  }
  return {{"qps", list}};
}

std::vector<const Session*> Visible(const std::vector<const Session*>& sessions,
                                    const Session& asker) {
  std::vector<const Session*> visible;
  for (const Session* session : sessions) {
    if (asker.is_privileged() || session->peer().uid == asker.peer().uid) {
      visible.push_back(session);
    }
  }
  return visible;
}

}  // namespace

absl::StatusOr<std::string> DumpText(uint32_t what, Nic& nic, const FlightRecorder& flights,
                                     const RdmaCmHost& rdma_cm, const PeerAgreements& peers,
                                     const std::vector<const Session*>& sessions,
                                     const Session& asker) {
  Json json;
  switch (what) {
    case UROCE_DUMP_DEVICES:
      json = DevicesJson(nic);
      break;
    case UROCE_DUMP_STAT:
      json = StatJson(nic, sessions);
      json["flights"] = {{"written", flights.counts().written},
                         {"missed", flights.counts().missed}};
      json["held"] = HeldJson(nic);
      json["cm"] = ManagerJson(rdma_cm);
      json["peers"] = PeerCountersJson(peers);
      break;
    case UROCE_DUMP_QP:
      json = QueuePairsJson(nic, flights, Visible(sessions, asker));
      break;
    case UROCE_DUMP_MR:
      json = MemoryRegionsJson(Visible(sessions, asker));
      break;
    case UROCE_DUMP_CM:
      json = ConnectionsJson(nic, rdma_cm, Visible(sessions, asker));
      break;
    case UROCE_DUMP_PEERS:
      json = PeersJson(nic, Visible(sessions, asker));
      break;
    case UROCE_DUMP_SRQ:
      json = SharedReceiveQueuesJson(nic, Visible(sessions, asker));
      break;
    default:
      return absl::InvalidArgumentError(absl::StrCat("there is no dump ", what));
  }
  // A process may be named by any bytes: those that are no UTF-8 are replaced.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<std::string> LiveFlight(Qpn qpn, Nic& nic,
                                       const std::vector<const Session*>& sessions,
                                       const Session& asker) {
  if (nic.config().flight_recorder.empty()) {
    return absl::FailedPreconditionError("the daemon runs without --flight-recorder");
  }
  std::vector<datapath::FlightPacket> packets;
  const QueuePairObject* object = nullptr;
  for (const Session* session : Visible(sessions, asker)) {
    if (session->program() == nullptr) continue;
    session->program()->ForEachQueuePair([&](const QueuePairObject& each) {
      if (each.queue_pair.qpn() == qpn) object = &each;
    });
  }
  if (object == nullptr) {
    return absl::NotFoundError(absl::StrCat("there is no queue pair ", qpn.value()));
  }
  nic.OwnerOf(object->queue_pair).Run([&] {
    const datapath::FlightRing* const flight = object->queue_pair.flight();
    if (flight != nullptr) packets = flight->InOrder();
  });
  return FlightFile(packets, CaptureInterface(*object->device), "");
}

}  // namespace uroce::nic
