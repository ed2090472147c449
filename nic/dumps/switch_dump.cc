// SPDX-License-Identifier: Apache-2.0
#include "nic/dumps/switch_dump.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "drivers/switch/switch_network.h"
#include "nic/objects/nic.h"

namespace uroce::nic {
namespace {

using Json = nlohmann::ordered_json;
using fabric::Fabric;
using fabric::Link;

std::string EcnText(const fabric::EcnConfig& ecn) {
  if (!ecn.on) return "off";
  return absl::StrCat(ecn.min_bytes, ":", ecn.max_bytes, ":", ecn.max_probability * 100, "%");
}

std::string PfcText(const fabric::PfcConfig& pfc) {
  return pfc.on ? absl::StrCat(pfc.xoff_bytes, ":", pfc.xon_bytes) : "off";
}

Json SwitchJson(const Nic& nic, const Fabric& fabric, uint32_t index) {
  const fabric::Switch& its = fabric.switch_at(index);
  return {{"name", nic.config().switches[index].name},
          {"ports", its.egress.size()},
          {"buffer_bytes", its.config.buffer_bytes},
          {"buffered_bytes", its.buffered_bytes},
          {"peak_buffered_bytes", its.peak_buffered_bytes},
          {"ecn", EcnText(its.config.ecn)},
          {"pfc", PfcText(its.config.pfc)},
          {"no_path_drops", its.lost_ways}};
}

/// The name of the NIC at that place; "" if there is none.
std::string HostName(const Nic& nic, uint32_t host) {
  const drivers::SwitchNetwork& network = *nic.network();
  const NicDevice* const device =
      network.has_nic(host) ? nic.DeviceAt(network.nic(host).device) : nullptr;
  return device == nullptr ? "" : device->name();
}

uint64_t PausedMicros(const Link& link, Nanos now) {
  const Nanos paused = link.counters.paused + (link.is_paused ? now - link.paused_at : Nanos(0));
  return static_cast<uint64_t>(paused.count() / 1'000);
}

/// What is sent by the port, and how often traffic received by it was paused.
Json PortJson(const Fabric& fabric, uint32_t egress, Nanos now) {
  const Link& out = fabric.link(egress);
  const Link& in = fabric.link(egress ^ 1);
  Json json;
  json["link"] = out.is_up ? "up" : "down";
  json["rate_bps"] = out.config.rate_bps;
  json["delay_ns"] = out.config.delay.count();
  json["queue_bytes"] = out.queue_bytes();
  json["peak_queue_bytes"] = out.peak_queue_bytes;
  json["xmit_packets"] = out.counters.frames;
  json["xmit_bytes"] = out.counters.bytes;
  json["rcv_packets"] = in.counters.frames;
  json["rcv_bytes"] = in.counters.bytes;
  json["ecn_marks"] = out.counters.marks;
  json["early_drops"] = out.counters.early_drops;
  json["tail_drops"] = out.counters.tail_drops;
  json["down_drops"] = out.counters.down_drops + in.counters.down_drops;
  json["pauses_sent"] = in.counters.pauses;
  json["pauses_received"] = out.counters.pauses;
  json["sender_paused_us"] = PausedMicros(in, now);
  return json;
}

Json PortsJson(const Nic& nic, const Fabric& fabric, Nanos now) {
  const std::vector<SwitchSettings>& switches = nic.config().switches;
  Json list = Json::array();
  for (uint32_t index = 0; index < fabric.switches(); ++index) {
    uint32_t number = 0;
    for (const uint32_t egress : fabric.switch_at(index).egress) {
      const Link& link = fabric.link(egress);
      const bool is_nics = link.to_switch == Link::kHost;
      Json port = {
          {"name", absl::StrCat(switches[index].name, ":", number++)},
          {"leads_to", is_nics ? HostName(nic, link.host) : switches[link.to_switch].name}};
      port.update(PortJson(fabric, egress, now));
      list.push_back(std::move(port));
    }
  }
  return list;
}

}  // namespace

Json SwitchesJson(Nic& nic) {
  Json switches = Json::array(), ports = Json::array();
  if (nic.network() == nullptr) return {{"switches", switches}, {"ports", ports}};
  nic.workers().RunTogether([&] {
    const Fabric& fabric = nic.network()->fabric();
    for (uint32_t index = 0; index < fabric.switches(); ++index) {
      switches.push_back(SwitchJson(nic, fabric, index));
    }
    ports = PortsJson(nic, fabric, nic.network()->now());
  });
  return {{"switches", switches}, {"ports", ports}};
}

Json SwitchPortsJson(Nic& nic) { return SwitchesJson(nic)["ports"]; }

}  // namespace uroce::nic
