// SPDX-License-Identifier: Apache-2.0
#include "nic/net/host/echo.h"

#include "nic/net/host/checksum.h"

namespace uroce::nic {
namespace {

constexpr uint8_t kHopLimit = 64;

Frame WithType(Bytes message, uint8_t type) {
  Frame reply(message.begin(), message.end());
  reply[0] = type;
  return reply;
}

}  // namespace

Frame MakeEchoReply(const EthernetView& ethernet, const IpView& request, const Mac& our_mac) {
  const Link link{our_mac, ethernet.source, ethernet.vlan_id};
  const Gid& from = request.destination;
  const Gid& to = request.source;
  if (request.protocol == kIpProtocolIcmpv6) {
    FrameWriter writer(link, wire::kEtherTypeIpv6);
    writer.AddIpv6(from, to, kIpProtocolIcmpv6, kHopLimit, request.payload.size());
    writer.AddIcmpv6(from, to, WithType(request.payload, kIcmpv6EchoReply));
    return writer.Finish();
  }
  Frame message = WithType(request.payload, kIcmpEchoReply);
  auto header = Load<IcmpLayout>(message);
  header.checksum = Be<2>(0);
  std::memcpy(message.data(), &header, sizeof(header));
  header.checksum = Be<2>(InternetChecksum(message));
  std::memcpy(message.data(), &header, sizeof(header));
  FrameWriter writer(link, wire::kEtherTypeIpv4);
  writer.AddIpv4(from, to, kIpProtocolIcmp, message.size());
  writer.AddBytes(message);
  return writer.Finish();
}

}  // namespace uroce::nic
