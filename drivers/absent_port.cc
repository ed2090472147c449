// SPDX-License-Identifier: Apache-2.0
#include "drivers/absent_port.h"

#include <rte_mbuf.h>

namespace uroce::drivers {
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
