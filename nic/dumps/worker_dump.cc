// SPDX-License-Identifier: Apache-2.0
#include "nic/dumps/worker_dump.h"

#include <atomic>
#include <nlohmann/json.hpp>

#include "nic/base/thread_schedule.h"
#include "nic/dumps/histogram_json.h"
#include "nic/objects/nic.h"

namespace uroce::nic {
namespace {

using Json = nlohmann::ordered_json;
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
  const ThreadSchedule schedule =
      ReadThreadSchedule(counters.thread.load(std::memory_order_relaxed));
  worker.cpu_ms = schedule.running_ns / 1'000'000;
  worker.cpu_wait_ms = schedule.waiting_ns / 1'000'000;
  worker.involuntary_switches = schedule.involuntary_switches;
  return worker;
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
          {"histograms", {{"turn_ns", HistogramJson(TurnHistogram::kShape, worker.turn_ns)}}}};
}

}  // namespace

std::vector<WorkerSnapshot> WorkerSnapshots(const Nic& nic) {
  std::vector<WorkerSnapshot> workers;
  for (uint32_t index = 0; index < nic.workers().count(); ++index) {
    workers.push_back(SnapshotOf(nic, index));
  }
  return workers;
}

Json WorkersJson(const std::vector<WorkerSnapshot>& workers) {
  Json list = Json::array();
  for (const WorkerSnapshot& worker : workers) list.push_back(WorkerJson(worker));
  return list;
}

}  // namespace uroce::nic
