// SPDX-License-Identifier: Apache-2.0
// A RoCEv2 packet as values, the output of decode and the input of encode; and per BTH opcode the
// headers that follow, the kind of packet and its position in the message
// (docs/protocol/wire-format.md, section 5).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "pipeline/base/types.h"
#include "pipeline/wire/psn.h"

namespace uroce::wire {

/// BTH opcodes and, per opcode, the headers that follow, the kind of packet and its position in the
/// message (docs/protocol/wire-format.md, section 5).
/// BTH opcode, all eight bits: three of transport, five of operation.
enum class Opcode : uint8_t {
  kSendFirst = 0x00,
  kSendMiddle = 0x01,
  kSendLast = 0x02,
  kSendLastWithImm = 0x03,
  kSendOnly = 0x04,
  kSendOnlyWithImm = 0x05,
  kWriteFirst = 0x06,
  kWriteMiddle = 0x07,
  kWriteLast = 0x08,
  kWriteLastWithImm = 0x09,
  kWriteOnly = 0x0a,
  kWriteOnlyWithImm = 0x0b,
  kReadRequest = 0x0c,
  kReadResponseFirst = 0x0d,
  kReadResponseMiddle = 0x0e,
  kReadResponseLast = 0x0f,
  kReadResponseOnly = 0x10,
  kAcknowledge = 0x11,
  kAtomicAcknowledge = 0x12,
  kCompareSwap = 0x13,
  kFetchAdd = 0x14,
  kSendLastWithInvalidate = 0x16,
  kSendOnlyWithInvalidate = 0x17,
  kAtomicWrite = 0x1d,
  kUdSendOnly = 0x64,
  kUdSendOnlyWithImm = 0x65,
  kCnp = 0x81,
  /// Used by uroce only, in the range for manufacturers: carries the map of KeptMap.
  kSelectiveAcknowledge = 0xd1,
};

/// Transport class: the top three bits of the opcode.
enum class Service : uint8_t { kRc = 0, kUc = 1, kRd = 2, kUd = 3, kCnp = 4, kXrc = 5 };

/// The properties of one opcode. Bit sets, so that a decoder tests many flags with one mask.
struct OpcodeInfo {
  enum Header : uint16_t {
    kDeth = 1 << 0,
    kXrceth = 1 << 1,
    kReth = 1 << 2,
    kAtomicEth = 1 << 3,
    kAeth = 1 << 4,
    kAtomicAckEth = 1 << 5,
    kImmDt = 1 << 6,
    kIeth = 1 << 7,
  };
  enum Trait : uint16_t {
    kKnown = 1 << 0,
    kRequest = 1 << 1,   ///< Consumes a PSN of the requester.
    kResponse = 1 << 2,  ///< Travels from responder to requester.
    kSend = 1 << 3,
    kWrite = 1 << 4,
    kRead = 1 << 5,    ///< READ request or response.
    kAtomic = 1 << 6,  ///< Atomic request or acknowledgement. ATOMIC WRITE is answered as a READ.
    kFirst = 1 << 7,   ///< Opens a message; ONLY packets have kFirst and kLast.
    kLast = 1 << 8,    ///< Ends a message.
    kPayload = 1 << 9,
    kFullPayload = 1 << 10,  ///< The payload is exactly the path MTU (FIRST and MIDDLE).
    kKeptMap = 1 << 11,      ///< A KeptMap follows, in place of a payload.
  };
  uint16_t headers;
  uint16_t traits;
  /// Bytes of BTH and extended headers before the payload.
  uint8_t header_bytes;

  constexpr bool Has(Trait trait) const { return (traits & trait) != 0; }
  constexpr bool Has(Header header) const { return (headers & header) != 0; }
};

/// One entry per value of the BTH opcode.
extern const std::array<OpcodeInfo, 256> kOpcodeTable;

/// The entry of `opcode`. Unknown opcodes do not have kKnown.
inline const OpcodeInfo& InfoOf(Opcode opcode) {
  return kOpcodeTable[static_cast<uint8_t>(opcode)];
}

/// The opcode of reliable connections for the operation of `opcode`.
constexpr Opcode OperationOf(Opcode opcode) {
  return static_cast<Opcode>(static_cast<uint8_t>(opcode) & 0x1f);
}

/// Whether `opcode` is one that manufacturers may define (docs/protocol/wire-format.md, section 5).
constexpr bool IsOfManufacturer(Opcode opcode) { return static_cast<uint8_t>(opcode) >= 0xc0; }

/// The opcode of `service` for `operation`, an opcode of reliable connections. Range: an opcode of
/// manufacturers only with kRc and kXrc.
constexpr Opcode OpcodeOf(Service service, Opcode operation) {
  const auto bits = static_cast<uint8_t>(service) << 5;
  return static_cast<Opcode>(static_cast<uint8_t>(operation) |
                             (IsOfManufacturer(operation) ? bits & 0x20 : bits));
}

/// The transport class of `opcode`. uroce uses those of manufacturers: 0xc0 to 0xdf for reliable
/// connections, 0xe0 to 0xff for extended ones.
constexpr Service ServiceOf(Opcode opcode) {
  constexpr std::array<Service, 8> kServices = {Service::kRc, Service::kUc,  Service::kRd,
                                                Service::kUd, Service::kCnp, Service::kXrc,
                                                Service::kRc, Service::kXrc};
  return kServices[static_cast<uint8_t>(opcode) >> 5];
}

/// RDMA extended transport header.
struct Reth {
  uint64_t va = 0;
  Rkey rkey;
  uint32_t length_bytes = 0;  ///< Of the whole (remaining) message, 0 .. 2^31.
};

/// Atomic extended transport header; operands in host order.
struct AtomicEth {
  uint64_t va = 0;
  Rkey rkey;
  uint64_t swap_add = 0;
  uint64_t compare = 0;
};

/// ACK extended transport header.
struct Aeth {
  uint8_t syndrome = 0;
  uint32_t msn = 0;  ///< 24 bits.
};

/// Datagram extended transport header.
struct Deth {
  uint32_t qkey = 0;
  Qpn source_qpn;
};

/// BTH and extended headers by value. Members of headers that `opcode` lacks are meaningless.
struct TransportHeader {
  Opcode opcode = Opcode::kAcknowledge;
  bool solicited = false;
  bool ack_request = false;
  /// Of responses between NICs that agree to it: see HostDelayOf. Otherwise 0.
  uint8_t host_delay = 0;
  uint16_t pkey = 0xffff;
  Qpn dest_qpn;
  Psn psn;
  Aeth aeth;
  uint32_t immediate = 0;  ///< The four bytes of ImmDt as they lie in memory (a __be32).
  Rkey invalidate_rkey;
  Reth reth;
  AtomicEth atomic;
  uint64_t atomic_original = 0;  ///< AtomicAckETH, host order.
  Deth deth;
  uint32_t xrc_srqn = 0;  ///< XRCETH, 24 bits.
};

/// One received packet. `payload` points into the frame and excludes pad and ICRC. The payload of a
/// selective acknowledgement is the KeptMap.
struct Packet {
  TransportHeader header;
  std::span<const uint8_t> payload;
  Gid source;
  Gid destination;
  bool congestion_experienced = false;  ///< ECN was 3 on arrival.
};

}  // namespace uroce::wire
