// SPDX-License-Identifier: Apache-2.0
#include "nic/dumps/stat_dump.h"

#include <atomic>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "drivers/fault/fault_port.h"
#include "nic/base/cpus.h"
#include "nic/capture/packet_histories.h"
#include "nic/devices/nic_device.h"
#include "nic/dumps/config_dump.h"
#include "nic/dumps/connection_dump.h"
#include "nic/objects/client.h"
#include "nic/objects/nic.h"
#include "nic/objects/numbers.h"
#include "nic/objects/queue_pair_object.h"
#include "nic/settings/config.h"
#include "pipeline/datapath/frames/frame_link.h"
#include "pipeline/datapath/worker/worker.h"

namespace uroce::nic {
namespace {

using datapath::DeviceCounters;

struct WorkerRow {
  uint64_t WorkerSnapshot::*sum;
  std::atomic<uint64_t> DeviceCounters::*value;
};
constexpr WorkerRow kWorkerRows[] = {
    {&WorkerSnapshot::received_packets, &DeviceCounters::port_rcv_packets},
    {&WorkerSnapshot::received_bytes, &DeviceCounters::port_rcv_bytes},
    {&WorkerSnapshot::sent_packets, &DeviceCounters::port_xmit_packets},
    {&WorkerSnapshot::sent_bytes, &DeviceCounters::port_xmit_bytes},
    {&WorkerSnapshot::cross_worker_full, &DeviceCounters::rx_cross_worker_full},
};

WorkerSnapshot SnapshotOf(const Nic& nic, uint32_t index) {
  const datapath::WorkerCounters& counters = nic.workers().at(index).counters();
  WorkerSnapshot worker{.index = index,
                        .queue_pairs = nic.numbers().queue_pairs.count_on(index),
                        .handed_over = counters.handed_over.load(std::memory_order_relaxed),
                        .taken_over = counters.taken_over.load(std::memory_order_relaxed),
                        .turns = counters.turns.load(std::memory_order_relaxed),
                        .busy_ms = counters.busy_ns.load(std::memory_order_relaxed) / 1'000'000};
  for (const auto& device : nic.devices()) {
    for (const WorkerRow& row : kWorkerRows) {
      worker.*row.sum += device->datapath().Of(index, row.value);
    }
  }
  counters.turn_ns.AddTo(worker.turn_ns);
  worker.longest_turn_us = counters.longest_turn_ns.load(std::memory_order_relaxed) / 1000;
  const ThreadSchedule schedule =
      ReadThreadSchedule(counters.thread.load(std::memory_order_relaxed));
  worker.cpu_ms = schedule.running_ns / 1'000'000;
  worker.cpu_wait_ms = schedule.waiting_ns / 1'000'000;
  worker.involuntary_switches = schedule.involuntary_switches;
  return worker;
}

/// Of each worker: its queue pairs, the packets of all devices that it received and sent, those
/// that it handed over, took over or dropped, the time that it was busy, and how it shared its CPU.
std::vector<WorkerSnapshot> WorkerSnapshots(const Nic& nic) {
  std::vector<WorkerSnapshot> workers;
  for (uint32_t index = 0; index < nic.workers().count(); ++index) {
    workers.push_back(SnapshotOf(nic, index));
  }
  return workers;
}

ControlSnapshot ControlSnapshotOf(const EventLoop& loop) {
  ControlSnapshot control{.turns = loop.turn(), .longest_turn_us = loop.longest_turn_ns() / 1000};
  loop.turn_ns().AddTo(control.turn_ns);
  return control;
}

/// The numbers of queue pairs and keys that are in use, and the frames that are on their way or
/// kept by the workers. Each worker keeps up to a burst of frames.
std::vector<NamedCount> HeldCounts(const Nic& nic) {
  std::vector<NamedCount> counts;
  for (const Numbers::Held& held : nic.numbers().held()) counts.push_back({held.name, held.count});
  counts.push_back({"frames", nic.workers().frames_in_use()});
  return counts;
}

constexpr uint32_t kSumsPerPiece = 128;  // Their worker waits some ten us.

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

struct LinkNames {
  const char* received;
  const char* rx_discards;
  const char* rx_refused;
  const char* sent;
  const char* tx_discards;
};
// Frames that are not RoCE, on a port with its own stack for them.
constexpr LinkNames kHostNames = {"host_rcv_packets", "host_rcv_discards", "host_rcv_refused",
                                  "host_xmit_packets", "host_xmit_discards"};
constexpr LinkNames kGsiNames = {"gsi_rcv_packets", "gsi_rcv_discards", "gsi_rcv_refused",
                                 "gsi_xmit_packets", "gsi_xmit_discards"};

void AddLinkCounters(const LinkNames& names, const datapath::FrameLink& link,
                     std::vector<NamedCount>& counts) {
  const datapath::FrameLinkCounters& counters = link.counters();
  const auto value = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
  counts.push_back({names.received, value(counters.received)});
  counts.push_back({names.rx_discards, value(counters.rx_discards)});
  counts.push_back({names.rx_refused, value(counters.rx_refused)});
  counts.push_back({names.sent, value(counters.sent)});
  counts.push_back({names.tx_discards, value(counters.tx_discards) + value(counters.too_long)});
}

// What the port does not count is left out.
void AddPortCounters(const NicDevice& device, std::vector<NamedCount>& counts) {
  const drivers::PortCounters port = device.port().counters();
  const auto add = [&counts](const char* name, std::optional<uint64_t> value) {
    if (value) counts.push_back({name, *value});
  };
  add("port_xmit_discards", port.tx_discards);
  add("port_rcv_missed", port.rx_missed);
  add("port_rcv_damaged", port.rx_damaged);
  add("port_rcv_fitted", port.rx_fitted);
  add("port_rcv_pauses", port.rx_pauses);
  add("port_xmit_pauses", port.tx_pauses);
  add("link_downed", device.link_downed());
}

std::vector<NamedCount> FaultCounts(const drivers::FaultCounters& counters) {
  return {{"taken", counters.taken},           {"dropped", counters.dropped},
          {"duplicated", counters.duplicated}, {"reordered", counters.reordered},
          {"corrupted", counters.corrupted},   {"ce_marked", counters.ce_marked}};
}

// The fault port's counters, which the workers count.
void AddFaults(Nic& nic, const NicDevice& device, DeviceSnapshot& snapshot) {
  if (!device.has_had_faults()) return;
  drivers::FaultCounters receive, transmit;
  nic.workers().RunTogether([&] {
    receive = device.fault_port()->receive_counters();
    transmit = device.fault_port()->transmit_counters();
  });
  snapshot.fault_receive = FaultCounts(receive);
  snapshot.fault_transmit = FaultCounts(transmit);
}

void AddHistograms(const datapath::Device& device, DeviceSnapshot& snapshot) {
  using datapath::DeviceHistograms;
  snapshot.completion_ns = device.Sum(&DeviceHistograms::completion_ns);
  snapshot.round_trip_ns = device.Sum(&DeviceHistograms::round_trip_ns);
  snapshot.sent_bytes = device.Sum(&DeviceHistograms::sent_bytes);
  snapshot.received_bytes = device.Sum(&DeviceHistograms::received_bytes);
}

}  // namespace

std::vector<NamedCount> DeviceCounts(const NicDevice& device, const datapath::Counters& connections,
                                     uint64_t queue_pairs) {
  std::vector<NamedCount> counts;
  counts.reserve(std::size(kDeviceCounters) + std::size(kCounters) + 20);
  for (const DeviceCounterRow& row : kDeviceCounters) {
    counts.push_back({row.name, device.datapath().Sum(row.value)});
  }
  AddPortCounters(device, counts);
  const datapath::HostLink* const host = device.datapath().host_link;
  if (host != nullptr) AddLinkCounters(kHostNames, *host, counts);
  AddLinkCounters(kGsiNames, *device.datapath().gsi_link, counts);
  for (const CounterRow& row : kCounters) counts.push_back({row.name, connections.*row.value});
  counts.push_back({"queue_pairs", queue_pairs});
  return counts;
}

// The device keeps the counters of connections that have ended.
StatWalk::StatWalk(const DumpContext& context, const Client& asker)
    : context_(context), devices_(context.nic.devices()), walk_(context, asker, /*of_all=*/true) {
  for (const auto& device : devices_) {
    sums_[device.get()].counters = device->ended_counters();
  }
}

bool StatWalk::Continue() {
  const std::vector<FoundQueuePair> found = walk_.Find(kSumsPerPiece);
  for (const FoundQueuePair& each : found) {
    ++sums_[each.object->device].queue_pairs;
    ++programs_[each.client->id()].queue_pairs;
  }
  RunByOwners(context_.nic, found, [&](size_t index) { Add(found[index]); });
  return !found.empty();
}

void StatWalk::Add(const FoundQueuePair& found) {
  const datapath::QueuePair& queue_pair = found.object->queue_pair;
  AddCounters(sums_.at(found.object->device).counters, queue_pair.core().counters());
  Use& use = programs_.at(found.client->id());
  use.sent_bytes += queue_pair.traffic().sent_bytes;
  use.received_bytes += queue_pair.traffic().received_bytes;
}

Snapshot StatWalk::Take() const {
  Snapshot snapshot;
  for (const auto& device : devices_) {
    if (device->is_removed()) continue;
    DeviceSnapshot& its = snapshot.devices.emplace_back();
    its.name = device->name();
    const DeviceSums& sums = sums_.at(device.get());
    its.counters = DeviceCounts(*device, sums.counters, sums.queue_pairs);
    AddHistograms(device->datapath(), its);
    AddFaults(context_.nic, *device, its);
  }
  snapshot.workers = WorkerSnapshots(context_.nic);
  snapshot.control = ControlSnapshotOf(context_.loop);
  snapshot.held = HeldCounts(context_.nic);
  snapshot.programs = Programs();
  return snapshot;
}

std::vector<ProgramSnapshot> StatWalk::Programs() const {
  std::vector<ProgramSnapshot> list;
  for (const Client* client : context_.clients()) {
    if (client->program() == nullptr) continue;
    const auto found = programs_.find(client->id());
    const Use use = found == programs_.end() ? Use() : found->second;
    list.push_back({.name = client->command_name(),
                    .pid = client->peer().pid,
                    .session = client->id(),
                    .queue_pairs = use.queue_pairs,
                    .sent_bytes = use.sent_bytes,
                    .received_bytes = use.received_bytes});
  }
  return list;
}

// ---- JSON ----

namespace {

using Json = nlohmann::ordered_json;

/// {"bounds": [...], "counts": [...], "sum": n}: `counts` has one more, of values above all bounds.
Json HistogramJson(const HistogramShape& shape, const HistogramSums& sums) {
  Json bounds = Json::array();
  for (uint32_t i = 0; i < HistogramShape::kBounds; ++i) bounds.push_back(shape.BoundOf(i));
  return {{"bounds", bounds}, {"counts", sums.counts}, {"sum", sums.sum}};
}

Json WorkerJson(const WorkerSnapshot& worker) {
  return {{"worker", worker.index},
          {"queue_pairs", worker.queue_pairs},
          {"port_rcv_packets", worker.received_packets},
          {"port_rcv_bytes", worker.received_bytes},
          {"port_xmit_packets", worker.sent_packets},
          {"port_xmit_bytes", worker.sent_bytes},
          {"rx_cross_worker_full", worker.cross_worker_full},
          {"handed_over", worker.handed_over},
          {"taken_over", worker.taken_over},
          {"turns", worker.turns},
          {"busy_ms", worker.busy_ms},
          {"cpu_ms", worker.cpu_ms},
          {"cpu_wait_ms", worker.cpu_wait_ms},
          {"involuntary_switches", worker.involuntary_switches},
          {"longest_turn_us", worker.longest_turn_us},
          {"histograms", {{"turn_ns", HistogramJson(TurnHistogram::kShape, worker.turn_ns)}}}};
}

Json WorkersJson(const std::vector<WorkerSnapshot>& workers) {
  Json list = Json::array();
  for (const WorkerSnapshot& worker : workers) list.push_back(WorkerJson(worker));
  return list;
}

Json ControlJson(const ControlSnapshot& control) {
  return {{"turns", control.turns},
          {"longest_turn_us", control.longest_turn_us},
          {"histograms", {{"turn_ns", HistogramJson(TurnHistogram::kShape, control.turn_ns)}}}};
}

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
    json["fault"] = device.config().fault.text;
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
  Json json = {{"devices", list},
               {"switch_ports", SwitchPortsJson(context.nic)},
               {"workers", WorkersJson(snapshot.workers)},
               {"control", ControlJson(snapshot.control)},
               {"histories", {{"written", recorded.written}, {"missed", recorded.missed}}},
               {"held", CountsJson(snapshot.held)},
               {"cm", ManagerJson(context.rdma_cm)},
               {"peers", PeerCountersJson(context.peers)}};
  const std::string chosen = WorkersChosen(context.nic.config());
  if (!chosen.empty()) json["workers_chosen"] = chosen;
  return json;
}

}  // namespace

bool StatSource::Append(std::string& text) {
  if (walk_.Continue()) return true;
  text += JsonText(StatJson(context_, walk_.Take()));
  return false;
}

}  // namespace uroce::nic
