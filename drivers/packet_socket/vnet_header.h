// SPDX-License-Identifier: Apache-2.0
// What stands before each frame on a packet socket with PACKET_VNET_HDR: struct virtio_net_hdr of
// <linux/virtio_net.h>, which is no C++.
#pragma once

#include <cstdint>

namespace uroce::drivers {

struct VnetHeader {
  uint8_t flags = 0;
  uint8_t gso_type = 0;
  uint16_t hdr_len = 0;      ///< Bytes before the payload.
  uint16_t gso_size = 0;     ///< Payload bytes of each packet of a superframe but the last.
  uint16_t csum_start = 0;   ///< Of what is still to be summed.
  uint16_t csum_offset = 0;  ///< Of the checksum, behind csum_start.
};
static_assert(sizeof(VnetHeader) == 10);

/// Bit of flags: the checksum is that of the pseudo header alone.
inline constexpr uint8_t kNeedsChecksum = 1;
/// Values of gso_type: one packet; UDP packets (VIRTIO_NET_HDR_GSO_UDP_L4, Linux 6.2).
inline constexpr uint8_t kNoGso = 0;
inline constexpr uint8_t kGsoUdpPackets = 5;

}  // namespace uroce::drivers
