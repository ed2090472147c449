// SPDX-License-Identifier: Apache-2.0
// Makes a decoded frame again from its values: equal bytes prove both directions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "pipeline/wire/decode.h"
#include "pipeline/wire/encode.h"
#include "pipeline/wire/icrc.h"
#include "pipeline/wire/packet.h"

namespace uroce::wire {

/// Bytes of a whole packet.
inline std::vector<uint8_t> EncodeFrame(const HeaderTemplateConfig& config,
                                        const TransportHeader& header,
                                        std::span<const uint8_t> payload, uint16_t identification) {
  const auto payload_bytes = static_cast<uint32_t>(payload.size());
  std::vector<uint8_t> frame(kMaxHeaderBytes + payload.size() + kMaxTrailerBytes);
  const EncodedHeaders encoded =
      EncodeHeaders(HeaderTemplate(config), header, payload_bytes, identification, frame.data());
  uint8_t* const at = frame.data() + encoded.length_bytes;
  const uint32_t state = CopyCrc32(encoded.crc_state, at, payload.data(), payload.size());
  const size_t trailer_bytes = WriteTrailer(at + payload.size(), payload_bytes, state);
  frame.resize(encoded.length_bytes + payload.size() + trailer_bytes);
  return frame;
}

/// Encodes what Decode found in `frame`, taking from the frame itself only the fields that decode
/// does not report.
inline std::vector<uint8_t> Reencode(std::span<const uint8_t> frame, const Packet& packet,
                                     const FrameView& view) {
  HeaderTemplateConfig config;
  config.destination_mac = view.destination;
  std::copy_n(frame.begin() + 6, 6, config.source_mac.begin());
  config.vlan_tci = view.vlan_tci;
  config.source = packet.source;
  config.destination = packet.destination;
  config.dest_qpn = packet.header.dest_qpn;
  config.pkey = packet.header.pkey;
  const uint8_t* const ip = frame.data() + view.ip_offset;
  uint16_t identification = 0;
  if (view.is_ipv6) {
    config.traffic_class = static_cast<uint8_t>(ip[0] << 4 | ip[1] >> 4);
    config.flow_label = static_cast<uint32_t>((ip[1] & 15) << 16 | ip[2] << 8 | ip[3]);
    config.hop_limit = ip[7];
  } else {
    config.traffic_class = ip[1];
    config.hop_limit = ip[8];
    identification = static_cast<uint16_t>(ip[4] << 8 | ip[5]);
  }
  const uint8_t* const udp = frame.data() + view.bth_offset - 8;
  config.udp_source_port = static_cast<uint16_t>(udp[0] << 8 | udp[1]);
  config.is_migrated = (frame[view.bth_offset + 1u] & kMigReq) != 0;
  return EncodeFrame(config, packet.header, packet.payload, identification);
}

}  // namespace uroce::wire
