// SPDX-License-Identifier: Apache-2.0
#include "nic/dumps/worker_dump.h"

#include <nlohmann/json.hpp>

#include "nic/dumps/histogram_json.h"
#include "nic/objects/nic.h"

namespace uroce::nic {
namespace {

using Json = nlohmann::ordered_json;
using datapath::DeviceCounters;

struct Row {
  const char* name;
  std::atomic<uint64_t> DeviceCounters::*value;
};
constexpr Row kRows[] = {
    {"port_rcv_packets", &DeviceCounters::port_rcv_packets},
    {"port_rcv_bytes", &DeviceCounters::port_rcv_bytes},
    {"port_xmit_packets", &DeviceCounters::port_xmit_packets},
    {"port_xmit_bytes", &DeviceCounters::port_xmit_bytes},
    {"rx_cross_worker_full", &DeviceCounters::rx_cross_worker_full},
};

Json WorkerJson(const Nic& nic, uint32_t index) {
  const datapath::WorkerCounters& counters = nic.workers().at(index).counters();
  Json json;
  json["worker"] = index;
  json["queue_pairs"] = nic.numbers().queue_pairs.count_on(index);
  for (const Row& row : kRows) {
    uint64_t sum = 0;
    for (const auto& device : nic.devices()) sum += device->datapath().Of(index, row.value);
    json[row.name] = sum;
  }
  json["handed_over"] = counters.handed_over.load(std::memory_order_relaxed);
  json["taken_over"] = counters.taken_over.load(std::memory_order_relaxed);
  json["turns"] = counters.turns.load(std::memory_order_relaxed);
  json["busy_ms"] = counters.busy_ns.load(std::memory_order_relaxed) / 1'000'000;
  HistogramSums turns;
  counters.turn_ns.AddTo(turns);
  json["histograms"] = {{"turn_ns", HistogramJson(TurnHistogram::kShape, turns)}};
  return json;
}

}  // namespace

Json WorkersJson(const Nic& nic) {
  Json list = Json::array();
  for (uint32_t index = 0; index < nic.workers().count(); ++index) {
    list.push_back(WorkerJson(nic, index));
  }
  return list;
}

}  // namespace uroce::nic
