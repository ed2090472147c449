// SPDX-License-Identifier: Apache-2.0
// The general service interface (GSI): queue pair 1, whose datagrams carry management datagrams
// (MADs) over RoCEv2 (docs/protocol/cm.md, section 1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "pipeline/wire/packet.h"

namespace uroce::wire {

inline constexpr Qpn kGsiQpn{1};
inline constexpr uint32_t kGsiQkey = 0x80010000;
/// Every MAD has this size. IBTA vol. 1, chapter 13.
inline constexpr size_t kMadBytes = 256;

/// Management classes of the MADs that are read here. IBTA vol. 1, 13.4.4.
inline constexpr uint8_t kCmClass = 0x07;
inline constexpr uint8_t kCapabilitiesClass =
    0x37;  ///< Of vendors, with an OUI: capabilities_mad.h.

/// The management class of a MAD. Other fields are not checked.
constexpr uint8_t ManagementClassOf(std::span<const uint8_t, kMadBytes> mad) { return mad[1]; }

/// Why a packet is no GSI datagram, or kOk. The source may be any queue pair: the receiver goes by
/// the content of the MAD.
enum class GsiResult : uint8_t {
  kOk,
  kNotGsi,     ///< To another queue pair.
  kBadOpcode,  ///< Not UD SEND_ONLY without immediate.
  kBadQkey,    ///< Not the GSI's.
  kBadLength,  ///< Not the size of a MAD.
};
inline constexpr int kGsiResultCount = static_cast<int>(GsiResult::kBadLength) + 1;

/// Checks a decoded packet. P_Key and PSN are not checked.
[[nodiscard]] constexpr GsiResult CheckGsi(const TransportHeader& header, size_t payload_bytes) {
  if (header.dest_qpn != kGsiQpn) return GsiResult::kNotGsi;
  if (header.opcode != Opcode::kUdSendOnly) return GsiResult::kBadOpcode;
  if (header.deth.qkey != kGsiQkey) return GsiResult::kBadQkey;
  return payload_bytes == kMadBytes ? GsiResult::kOk : GsiResult::kBadLength;
}

/// The headers of a GSI datagram to another GSI. `psn` counts the datagrams of the sender. AckReq
/// is set as in Linux's Soft-RoCE; receivers ignore it.
constexpr TransportHeader GsiHeader(Psn psn) {
  TransportHeader header;
  header.opcode = Opcode::kUdSendOnly;
  header.ack_request = true;
  header.dest_qpn = kGsiQpn;
  header.psn = psn;
  header.deth = {.qkey = kGsiQkey, .source_qpn = kGsiQpn};
  return header;
}

}  // namespace uroce::wire
