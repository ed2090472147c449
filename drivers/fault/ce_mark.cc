// SPDX-License-Identifier: Apache-2.0
#include "drivers/fault/ce_mark.h"

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_mbuf.h>

namespace uroce::drivers {
namespace {

constexpr uint8_t kCongestionExperienced = 3;
constexpr uint32_t kIpv6EcnShift = 20;

bool MarkIpv4(rte_ipv4_hdr* ip, uint32_t bytes) {
  if (bytes < sizeof *ip || rte_ipv4_hdr_len(ip) > bytes) return false;
  ip->type_of_service |= kCongestionExperienced;
  ip->hdr_checksum = 0;
  ip->hdr_checksum = rte_ipv4_cksum(ip);
  return true;
}

bool MarkIpv6(rte_ipv6_hdr* ip, uint32_t bytes) {
  if (bytes < sizeof *ip) return false;
  ip->vtc_flow |= rte_cpu_to_be_32(uint32_t{kCongestionExperienced} << kIpv6EcnShift);
  return true;
}

}  // namespace

bool MarkCongestionExperienced(rte_mbuf* frame) {
  uint32_t offset = sizeof(rte_ether_hdr);
  if (frame->data_len < offset + sizeof(rte_vlan_hdr)) return false;
  rte_be16_t type = rte_pktmbuf_mtod(frame, rte_ether_hdr*)->ether_type;
  if (type == rte_cpu_to_be_16(RTE_ETHER_TYPE_VLAN)) {
    type = rte_pktmbuf_mtod_offset(frame, rte_vlan_hdr*, offset)->eth_proto;
    offset += sizeof(rte_vlan_hdr);
  }
  const uint32_t bytes = frame->data_len - offset;
  if (type == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4)) {
    return MarkIpv4(rte_pktmbuf_mtod_offset(frame, rte_ipv4_hdr*, offset), bytes);
  }
  if (type == rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV6)) {
    return MarkIpv6(rte_pktmbuf_mtod_offset(frame, rte_ipv6_hdr*, offset), bytes);
  }
  return false;
}

}  // namespace uroce::drivers
