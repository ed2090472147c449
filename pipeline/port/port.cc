// SPDX-License-Identifier: Apache-2.0
// The interface that a worker drives: a source and a sink of Ethernet frames; and the port that
// stands in for a removed one.
#include "pipeline/port/port.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace uroce::drivers {
namespace {

constexpr std::array<const char*, 4> kFlowControls = {"off", "rx", "tx", "full"};

}  // namespace

const char* NameOf(FlowControl flow_control) {
  return kFlowControls[static_cast<size_t>(flow_control)];
}

std::optional<FlowControl> ParseFlowControl(const std::string& name) {
  const auto found = std::ranges::find(kFlowControls, name);
  if (found == kFlowControls.end()) return std::nullopt;
  return static_cast<FlowControl>(found - kFlowControls.begin());
}

namespace {

constexpr uint16_t kAbsentRoom = 512;  // More than a burst: nothing waits for this port.

}  // namespace

uint16_t AbsentPort::ReceiveBurst(uint16_t /*queue*/, rte_mbuf** /*frames*/, uint16_t /*count*/,
                                  Nanos /*now*/) {
  return 0;
}

uint16_t AbsentPort::TransmitBurst(uint16_t /*queue*/, rte_mbuf** frames, uint16_t count,
                                   Nanos /*now*/) {
  rte_pktmbuf_free_bulk(frames, count);
  return count;
}

uint16_t AbsentPort::TransmitRoom(uint16_t /*queue*/) const { return kAbsentRoom; }

}  // namespace uroce::drivers
