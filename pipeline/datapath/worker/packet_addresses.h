// SPDX-License-Identifier: Apache-2.0
// Checks whether a packet's partition and addresses are those that a queue pair expects.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "pipeline/datapath/frames/received_frame.h"
#include "pipeline/datapath/port/device.h"
#include "pipeline/datapath/queue/queue_pair_config.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/packet.h"

namespace uroce::datapath {

/// Whether `pkey` matches 0xffff, the only P_Key of the table; the top bit is the kind of
/// membership (docs/protocol/wire-format.md, section 6).
constexpr bool IsOurPkey(uint16_t pkey) { return (pkey & 0x7fff) == 0x7fff; }

/// Compares two words at a time: every packet is checked.
inline bool IsSame(const Gid& a, const Gid& b) {
  uint64_t halves[4];
  std::memcpy(halves, a.bytes.data(), 16);
  std::memcpy(halves + 2, b.bytes.data(), 16);
  return ((halves[0] ^ halves[2]) | (halves[1] ^ halves[3])) == 0;
}

/// Whether source and destination are those of the connection, and the tag is that of its path.
inline bool IsFromPeer(const Path& path, const wire::Packet& packet, const wire::FrameView& view) {
  return IsSame(packet.source, path.destination) && IsSame(packet.destination, path.source) &&
         ((view.vlan_tci ^ path.vlan_tci) & kVlanIdMask) == 0;
}

/// Whether a datagram is for an address of the device. Any sender passes: the Q_Key decides.
inline bool IsForDevice(const Device& device, const wire::Packet& packet,
                        const wire::FrameView& view) {
  return std::ranges::any_of(device.addresses, [&](const Device::Address& address) {
    return address.gid == packet.destination && address.vlan_id == (view.vlan_tci & kVlanIdMask);
  });
}

}  // namespace uroce::datapath
