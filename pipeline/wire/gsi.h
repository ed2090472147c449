// SPDX-License-Identifier: Apache-2.0
// The general service interface (GSI): queue pair 1, whose datagrams carry management datagrams
// (MADs) over RoCEv2 (docs/protocol/cm.md, section 1); and the MAD by which two uroce NICs tell
// each other their extensions of the standard (selective-repeat.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "pipeline/wire/packet.h"

namespace uroce::wire {

inline constexpr Qpn kGsiQpn{1};
inline constexpr uint32_t kGsiQkey = 0x80010000;
/// Every MAD has this size. IBTA vol. 1, chapter 13.
inline constexpr size_t kMadBytes = 256;

/// Management classes of the MADs that are read here. IBTA vol. 1, 13.4.4.
inline constexpr uint8_t kCmClass = 0x07;
inline constexpr uint8_t kCapabilitiesClass = 0x37;  ///< Of vendors, with an OUI: see below.

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

/// The common header of all management datagrams on the wire. Only codecs use it.
/// MAD header. IBTA vol. 1, chapter 13.
struct MadHeaderLayout {
  uint8_t base_version;
  uint8_t management_class;
  uint8_t class_version;
  uint8_t method;  // 7 response
  Be<2> status;
  Be<2> class_specific;
  Be<8> transaction_id;
  Be<2> attribute_id;
  Be<2> reserved;
  Be<4> attribute_modifier;
};
static_assert(kIsWireLayout<MadHeaderLayout, 24>);

inline constexpr uint8_t kMadBaseVersion = 1;
inline constexpr size_t kMadDataBytes = kMadBytes - sizeof(MadHeaderLayout);

// The MAD by which two uroce NICs tell each other which extensions of the standard they support.
// selective-repeat.md defines its bytes. Its class is in the range for vendors with an OUI (0x30 to
// 0x4F), so another vendor's NIC does not answer it, or refuses it by a status.

enum class MadMethod : uint8_t {
  kGet = 0x01,
  kGetResponse = 0x81,
};

/// The extensions that a NIC supports on all its reliable connections.
struct Capabilities {
  static constexpr uint32_t kSelectiveRepeat = 1u << 0;

  uint32_t features = 0;  ///< Bits. A reader ignores bits that it does not know.
  uint64_t instance = 0;  ///< Random at each start of the daemon: tells restarts.
  bool selective_repeat() const { return (features & kSelectiveRepeat) != 0; }
  friend bool operator==(const Capabilities&, const Capabilities&) = default;
};

/// A request with the capabilities of its sender, or the response with those of the responder.
struct CapabilitiesMad {
  MadMethod method = MadMethod::kGet;
  uint16_t status = 0;          ///< Of a response; not 0: the request was not understood.
  uint64_t transaction_id = 0;  ///< Of the request; the response repeats it.
  Capabilities capabilities;    ///< Of the sender. Meaningless when `status` is not 0.
  friend bool operator==(const CapabilitiesMad&, const CapabilitiesMad&) = default;
};

/// Why a MAD is no CapabilitiesMad, or kOk.
enum class CapabilitiesResult : uint8_t {
  kOk,
  kBadLength,        ///< Not 256 bytes.
  kBadBaseVersion,   ///< Not 1.
  kBadClass,         ///< Another management class.
  kBadClassVersion,  ///< Not 1.
  kBadMethod,        ///< Neither Get nor GetResp, or a Get with a status.
  kBadAttribute,     ///< Not Capabilities.
  kBadOui,           ///< Another vendor's.
  kSegmented,        ///< RMPP is active: the message has more MADs.
  kBadVersion,       ///< 0. Higher versions have the fields of version 1, then others.
};

/// Decodes one MAD. `mad` is valid only on kOk. A response that refuses is kOk, whatever follows
/// its header.
[[nodiscard]] CapabilitiesResult DecodeCapabilities(std::span<const uint8_t> bytes,
                                                    CapabilitiesMad& mad);
/// Encodes one MAD. Reserved fields are 0.
std::array<uint8_t, kMadBytes> EncodeCapabilities(const CapabilitiesMad& mad);

/// "Get Capabilities tid=0123456789abcdef features=00000001 instance=0123456789abcdef", or
/// "GetResp Capabilities tid=.. status=000c". Allocates.
std::string ToString(const CapabilitiesMad& mad);

}  // namespace uroce::wire
