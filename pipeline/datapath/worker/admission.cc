// SPDX-License-Identifier: Apache-2.0
#include "pipeline/datapath/worker/admission.h"

#include <algorithm>

#include "pipeline/wire/gsi.h"

namespace uroce::datapath {
namespace {

// Groups are joined on all VLANs of a device.
bool IsInVlan(const Device& device, uint16_t vlan_id) {
  return std::ranges::any_of(device.addresses, [vlan_id](const Device::Address& address) {
    return address.vlan_id == vlan_id;
  });
}

uint8_t ReasonOf(wire::GsiResult result) {
  switch (result) {
    case wire::GsiResult::kOk:
    case wire::GsiResult::kNotGsi:
      return UROCE_REASON_NONE;
    case wire::GsiResult::kBadOpcode:
      return UROCE_REASON_BAD_OPCODE;
    case wire::GsiResult::kBadQkey:
      return UROCE_REASON_BAD_QKEY;
    case wire::GsiResult::kBadLength:
      return UROCE_REASON_MESSAGE_REFUSED;
  }
  return UROCE_REASON_NONE;
}

}  // namespace

bool Admission::IsForGsi(GsiLink& link, DevicePort& port, const wire::Packet& packet,
                         const wire::FrameView& view, const rte_mbuf* frame) {
  const wire::GsiResult result = wire::CheckGsi(packet.header, packet.payload.size());
  if (result != wire::GsiResult::kOk) {
    return recorder_.Drop(link.counters().rx_refused, ReasonOf(result));
  }
  return Admit(port, packet, view, frame, IsForDevice(port.device(), packet, view));
}

bool Admission::IsForGroup(DevicePort& port, const wire::Packet& packet,
                           const wire::FrameView& view, const rte_mbuf* frame) {
  DeviceCounters& counters = port.counters();
  const Device& device = port.device();
  if (!device.groups.contains(packet.destination) ||
      !IsInVlan(device, view.vlan_tci & kVlanIdMask)) {
    recorder_.Begin();  // Nobody here has asked for it.
    return recorder_.Drop(counters.rx_not_roce, UROCE_REASON_NOT_ROCE);
  }
  if (packet.congestion_experienced) Count(counters.rx_ecn_marked);
  if (ServiceOf(packet.header.opcode) != wire::Service::kUd) {
    return recorder_.Drop(counters.rx_bad_opcode, UROCE_REASON_BAD_OPCODE);
  }
  return Admit(port, packet, view, frame, true);
}

}  // namespace uroce::datapath
