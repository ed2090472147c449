// SPDX-License-Identifier: Apache-2.0
// Packets of one flow, as a queue pair sends them one after the other.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/wire/reencode.h"

namespace uroce::wire {

struct PacketTrain {
  bool ipv6 = false;
  uint16_t identification = 0xfffe;  ///< Of the next packet; wraps.
  uint16_t udp_source_port = 0xc000;
  Qpn dest_qpn{0x1234};
  uint32_t psn = 5;

  /// The next packet: a WRITE Middle with so many bytes of payload.
  std::vector<uint8_t> Next(size_t payload_bytes) {
    HeaderTemplateConfig config;
    config.source_mac = {2, 0, 0, 0, 0, 1};
    config.destination_mac = {2, 0, 0, 0, 0, 2};
    config.udp_source_port = udp_source_port;
    config.dest_qpn = dest_qpn;
    for (Gid* const gid : {&config.source, &config.destination}) {
      gid->bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
      if (ipv6) gid->bytes = {0xfd, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    }
    config.destination.bytes[15] = 2;
    std::vector<uint8_t> payload(payload_bytes);
    for (size_t i = 0; i < payload_bytes; ++i) payload[i] = static_cast<uint8_t>(i * 7 + psn);
    TransportHeader header{.opcode = Opcode::kWriteMiddle};
    header.psn = Psn(psn++);
    return EncodeFrame(config, header, payload, identification++);
  }
};

}  // namespace uroce::wire
