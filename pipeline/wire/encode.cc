// SPDX-License-Identifier: Apache-2.0
#include "pipeline/wire/encode.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

#include "pipeline/wire/icrc.h"
#include "pipeline/wire/packet.h"

namespace uroce::wire {

/// Gives the encoder access to a template.
struct EncodeAccess {
  static const uint8_t* bytes(const HeaderTemplate& path) { return path.bytes_.data(); }
  static constexpr size_t kBytes = HeaderTemplate::kBytes;
  static uint32_t checksum_base(const HeaderTemplate& path) { return path.checksum_base_; }
};

namespace {

constexpr uint16_t kDoNotFragment = 0x4000;
constexpr uint8_t kBecn = 0x40;

template <typename Layout>
uint8_t* Put(uint8_t* out, const Layout& layout) {
  std::memcpy(out, &layout, sizeof layout);
  return out + sizeof layout;
}

std::array<uint8_t, 4> Ipv4Of(const Gid& gid) {
  std::array<uint8_t, 4> address;
  std::copy(gid.bytes.begin() + 12, gid.bytes.end(), address.begin());
  return address;
}

Ipv4Header Ipv4Template(const HeaderTemplateConfig& config) {
  return {.version_ihl = 0x45,
          .traffic_class = config.traffic_class,
          .total_length = Be<2>(0),
          .identification = Be<2>(0),
          .fragment = Be<2>(kDoNotFragment),
          .ttl = config.hop_limit,
          .protocol = kIpProtocolUdp,
          .checksum = Be<2>(0),
          .source = Ipv4Of(config.source),
          .destination = Ipv4Of(config.destination)};
}

Ipv6Header Ipv6Template(const HeaderTemplateConfig& config) {
  const uint32_t flow_label = config.flow_label & 0xfffff;
  const uint32_t first = uint32_t{6} << 28 | uint32_t{config.traffic_class} << 20 | flow_label;
  return {.version_class_flow = Be<4>(first),
          .payload_length = Be<2>(0),
          .next_header = kIpProtocolUdp,
          .hop_limit = config.hop_limit,
          .source = config.source.bytes,
          .destination = config.destination.bytes};
}

/// Sum of the 16-bit words of a header, in network order, not folded.
uint32_t SumOfWords(const Ipv4Header& header) {
  const auto words = std::bit_cast<std::array<Be<2>, sizeof header / 2>>(header);
  uint32_t sum = 0;
  for (const Be<2> word : words) sum += word.value();
  return sum;
}

uint16_t FoldedChecksum(uint32_t sum) {
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

uint8_t* PutEthernet(uint8_t* out, const HeaderTemplateConfig& config, bool is_ipv6) {
  const uint16_t ip_type = is_ipv6 ? kEtherTypeIpv6 : kEtherTypeIpv4;
  EthernetHeader ethernet = {.destination = config.destination_mac,
                             .source = config.source_mac,
                             .ether_type = Be<2>(ip_type)};
  if (config.vlan_tci == 0) return Put(out, ethernet);
  ethernet.ether_type = Be<2>(kEtherTypeVlan);
  out = Put(out, ethernet);
  return Put(out, VlanTag{.tci = Be<2>(config.vlan_tci), .ether_type = Be<2>(ip_type)});
}

/// Writes lengths, identification and checksum of one packet over the template's zeros.
void PatchIp(const HeaderTemplate& path, uint32_t udp_bytes, uint16_t identification, uint8_t* ip) {
  if (path.is_ipv6()) {
    Put(ip + offsetof(Ipv6Header, payload_length), Be<2>(static_cast<uint16_t>(udp_bytes)));
    return;
  }
  const auto total = static_cast<uint16_t>(sizeof(Ipv4Header) + udp_bytes);
  const uint32_t sum = EncodeAccess::checksum_base(path) + total + identification;
  Put(ip + offsetof(Ipv4Header, total_length), Be<2>(total));
  Put(ip + offsetof(Ipv4Header, identification), Be<2>(identification));
  Put(ip + offsetof(Ipv4Header, checksum), Be<2>(FoldedChecksum(sum)));
}

/// Fills in the BTH of one packet, over the template's P_Key and destination.
uint8_t* PatchBth(uint8_t* bth, const TransportHeader& header, uint32_t pad_bytes) {
  const uint32_t solicited = header.solicited ? 0x80 : 0;
  const uint32_t ack_request = header.ack_request ? 0x80000000 : 0;
  bth[offsetof(BthLayout, opcode)] = static_cast<uint8_t>(header.opcode);
  bth[offsetof(BthLayout, flags)] |= static_cast<uint8_t>(solicited | pad_bytes << 4);
  // Only a CNP carries BECN. Source: docs/protocol/wire-format.md, section 2.
  bth[offsetof(BthLayout, congestion)] =
      header.opcode == Opcode::kCnp ? kBecn : header.host_delay & kHostDelayMask;
  return Put(bth + offsetof(BthLayout, ack_request), Be<4>(ack_request | header.psn.value()));
}

/// Fills in the QPN and port of a datagram: one path carries datagrams of many queue pairs.
void PatchDatagram(const HeaderTemplate& path, const TransportHeader& header, uint8_t* bth) {
  Put(bth + offsetof(BthLayout, dest_qpn), Be<3>(header.dest_qpn.value()));
  if (!path.has_port_of_each_datagram()) return;
  Put(bth - sizeof(UdpHeader) + offsetof(UdpHeader, source_port),
      Be<2>(UdpSourcePort(0, header.deth.source_qpn, header.dest_qpn)));
}

BthLayout BthTemplate(const HeaderTemplateConfig& config) {
  return {.opcode = 0,
          .flags = config.is_migrated ? kMigReq : uint8_t{0},
          .pkey = Be<2>(config.pkey),
          .congestion = 0,
          .dest_qpn = Be<3>(config.dest_qpn.value()),
          .ack_request = 0,
          .psn = Be<3>(0)};
}

uint8_t* PutReth(uint8_t* out, const Reth& reth) {
  return Put(out, RethLayout{.va = Be<8>(reth.va),
                             .rkey = Be<4>(reth.rkey.value()),
                             .length = Be<4>(reth.length_bytes)});
}

uint8_t* PutAtomicEth(uint8_t* out, const AtomicEth& atomic) {
  return Put(out, AtomicEthLayout{.va = Be<8>(atomic.va),
                                  .rkey = Be<4>(atomic.rkey.value()),
                                  .swap_add = Be<8>(atomic.swap_add),
                                  .compare = Be<8>(atomic.compare)});
}

uint8_t* PutDeth(uint8_t* out, const Deth& deth) {
  return Put(out, DethLayout{.qkey = Be<4>(deth.qkey),
                             .reserved = 0,
                             .source_qpn = Be<3>(deth.source_qpn.value())});
}

/// Writes the extended headers in wire order. Source: docs/protocol/wire-format.md, section 5.
uint8_t* PutExtendedHeaders(uint8_t* out, const OpcodeInfo& info, const TransportHeader& header) {
  if (info.headers == 0) return out;
  if (info.Has(OpcodeInfo::kDeth)) out = PutDeth(out, header.deth);
  if (info.Has(OpcodeInfo::kXrceth)) {
    out = Put(out, XrcethLayout{.reserved = 0, .srqn = Be<3>(header.xrc_srqn)});
  }
  if (info.Has(OpcodeInfo::kReth)) out = PutReth(out, header.reth);
  if (info.Has(OpcodeInfo::kAtomicEth)) out = PutAtomicEth(out, header.atomic);
  if (info.Has(OpcodeInfo::kAeth)) {
    out = Put(out, AethLayout{.syndrome = header.aeth.syndrome, .msn = Be<3>(header.aeth.msn)});
  }
  if (info.Has(OpcodeInfo::kAtomicAckEth)) {
    out = Put(out, AtomicAckEthLayout{.original = Be<8>(header.atomic_original)});
  }
  if (info.Has(OpcodeInfo::kImmDt)) out = Put(out, header.immediate);
  if (info.Has(OpcodeInfo::kIeth)) {
    out = Put(out, IethLayout{.rkey = Be<4>(header.invalidate_rkey.value())});
  }
  return out;
}

constexpr uint32_t PadBytes(uint32_t payload_bytes) { return (0 - payload_bytes) & 3; }

}  // namespace

HeaderTemplate::HeaderTemplate(const HeaderTemplateConfig& config)
    : is_ipv6_(!config.destination.is_ipv4()),
      has_port_of_each_datagram_(config.udp_source_port == kPortOfEachDatagram) {
  uint8_t* const begin = bytes_.data();
  uint8_t* out = PutEthernet(begin, config, is_ipv6_);
  ip_offset_ = static_cast<uint8_t>(out - begin);
  if (is_ipv6_) {
    out = Put(out, Ipv6Template(config));
  } else {
    const Ipv4Header ip = Ipv4Template(config);
    checksum_base_ = SumOfWords(ip);
    out = Put(out, ip);
  }
  out = Put(out, UdpHeader{.source_port = Be<2>(config.udp_source_port),
                           .destination_port = Be<2>(kRoceUdpPort),
                           .length = Be<2>(0),
                           .checksum = Be<2>(0)});
  bth_offset_ = static_cast<uint8_t>(out - begin);
  Put(out, BthTemplate(config));
}

EncodedHeaders EncodeHeaders(const HeaderTemplate& path, const TransportHeader& header,
                             uint32_t payload_bytes, uint16_t identification, uint8_t* out,
                             HeaderCrc crc) {
  const OpcodeInfo& info = InfoOf(header.opcode);
  const uint32_t pad_bytes = PadBytes(payload_bytes);
  const uint32_t udp_bytes = static_cast<uint32_t>(sizeof(UdpHeader)) + info.header_bytes +
                             payload_bytes + pad_bytes + kIcrcBytes;
  assert(udp_bytes <= 0xffff - sizeof(Ipv4Header));
  std::memcpy(out, EncodeAccess::bytes(path), EncodeAccess::kBytes);
  uint8_t* const ip = out + path.ip_offset();
  uint8_t* const bth = out + path.bth_offset();
  PatchIp(path, udp_bytes, identification, ip);
  Put(bth - sizeof(UdpHeader) + offsetof(UdpHeader, length),
      Be<2>(static_cast<uint16_t>(udp_bytes)));
  if (info.Has(OpcodeInfo::kDeth)) PatchDatagram(path, header, bth);
  uint8_t* const end = PutExtendedHeaders(PatchBth(bth, header, pad_bytes), info, header);
  const auto length = static_cast<size_t>(end - out);
  const uint32_t state = crc == HeaderCrc::kComputed ? CrcOfHeaders(path, out, length) : 0;
  return {.length_bytes = length, .crc_state = state};
}

uint32_t CrcOfHeaders(const HeaderTemplate& path, const uint8_t* headers, size_t length_bytes) {
  return MaskedHeaderCrc32(headers + path.ip_offset(), length_bytes - path.ip_offset(),
                           path.is_ipv6());
}

size_t WriteTrailer(uint8_t* out, uint32_t payload_bytes, uint32_t crc_state) {
  static constexpr std::array<uint8_t, 3> kPad{};
  const uint32_t pad_bytes = PadBytes(payload_bytes);
  if (pad_bytes != 0) {
    std::memcpy(out, kPad.data(), pad_bytes);
    crc_state = Crc32Update(crc_state, std::span(kPad).first(pad_bytes));
  }
  StoreIcrc(out + pad_bytes, crc_state);
  return pad_bytes + kIcrcBytes;
}

size_t WriteEmptyTrailer(uint8_t* out, uint32_t payload_bytes) {
  static constexpr std::array<uint8_t, kMaxTrailerBytes> kZeros{};
  const size_t bytes = TrailerBytes(payload_bytes);
  std::memcpy(out, kZeros.data(), bytes);
  return bytes;
}

size_t TrailerBytes(uint32_t payload_bytes) { return PadBytes(payload_bytes) + kIcrcBytes; }

uint16_t UdpSourcePort(uint32_t flow_label, Qpn local, Qpn remote) {
  uint64_t entropy = flow_label & 0xfffff;
  if (entropy == 0) {
    entropy = uint64_t{local.value()} * remote.value();
    entropy ^= entropy >> 20;
    entropy ^= entropy >> 40;
    entropy &= 0xfffff;
  }
  return static_cast<uint16_t>(((entropy & 0x3fff) ^ ((entropy & 0xfc000) >> 14)) | 0xc000);
}

}  // namespace uroce::wire
