// SPDX-License-Identifier: Apache-2.0
// A RoCEv2 packet as values: the output of decode and the input of encode.
#pragma once

#include <cstdint>
#include <span>

#include "pipeline/base/types.h"
#include "pipeline/wire/opcode.h"
#include "pipeline/wire/psn.h"

namespace uroce::wire {

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
  /// Of responses between NICs that agree to it: see host_delay.h. Otherwise 0.
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
