// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/parties/party.h"

#include <utility>

#include "pipeline/wire/icrc.h"

namespace uroce::sim {
namespace {

wire::HeaderTemplateConfig ConfigOf(uint32_t from, uint32_t to, Qpn qpn, bool ipv6) {
  wire::HeaderTemplateConfig config;
  config.source = AddressOf(from, ipv6);
  config.destination = AddressOf(to, ipv6);
  config.dest_qpn = qpn;
  // The two queue pairs of a connection have numbers that differ in the last bit.
  config.udp_source_port = wire::UdpSourcePort(0, qpn, Qpn(qpn.value() ^ 1));
  return config;
}

}  // namespace

Gid AddressOf(uint32_t host, bool ipv6) {
  Gid gid;
  gid.bytes[15] = static_cast<uint8_t>(host + 1);
  if (ipv6) {
    gid.bytes[0] = 0xfd;
  } else {
    gid.bytes[10] = gid.bytes[11] = 0xff;
    gid.bytes[12] = 10;
  }
  return gid;
}

Path::Path(Network& network, uint32_t from, uint32_t to, Qpn qpn, bool ipv6)
    : network_(network),
      from_(from),
      to_(to),
      ipv6_(ipv6),
      template_(ConfigOf(from, to, qpn, ipv6)) {}

void Path::Redirect(Qpn qpn) { template_ = wire::HeaderTemplate(ConfigOf(from_, to_, qpn, ipv6_)); }

bool Path::Send(const wire::TransportHeader& header, std::span<const uint8_t> payload, Nanos now) {
  const auto size = static_cast<uint32_t>(payload.size());
  std::unique_ptr<Frame> frame = network_.Take();
  const wire::EncodedHeaders headers =
      wire::EncodeHeaders(template_, header, size, identification_++, frame->room.data());
  uint8_t* const at = frame->room.data() + headers.length_bytes;
  const uint32_t state = wire::CopyCrc32(headers.crc_state, at, payload.data(), size);
  const size_t trailer = wire::WriteTrailer(at + size, size, state);
  frame->length_bytes = static_cast<uint32_t>(headers.length_bytes + size + trailer);
  return network_.Send(from_, to_, std::move(frame), now);
}

}  // namespace uroce::sim
