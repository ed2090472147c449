// SPDX-License-Identifier: Apache-2.0
// What the daemon marks on a frame's mbuf: flags, the queue pair that the frame is sent to, an ICRC
// that is still to be written.
#pragma once

#include <rte_debug.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>

#include "pipeline/base/types.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/icrc.h"
#include "pipeline/wire/packet.h"

namespace uroce::drivers {

/// A mark that a frame carries while it is in the daemon: a dynamic flag of mbufs, allotted by
/// DPDK once per name; drivers clear it in received frames.
class FrameFlag {
 public:
  /// DPDK has been started. `name` has fewer than RTE_MBUF_DYN_NAMESIZE characters.
  explicit FrameFlag(const char* name) : bit_(Register(name)) {}

  bool IsSet(const rte_mbuf& frame) const { return (frame.ol_flags & bit_) != 0; }
  void Set(rte_mbuf& frame) const { frame.ol_flags |= bit_; }
  void Clear(rte_mbuf& frame) const { frame.ol_flags &= ~bit_; }

 private:
  static uint64_t Register(const char* name) {
    rte_mbuf_dynflag flag{};
    std::snprintf(flag.name, sizeof(flag.name), "%s", name);
    const int bit = rte_mbuf_dynflag_register(&flag);
    RTE_VERIFY(bit >= 0);
    return uint64_t{1} << static_cast<uint32_t>(bit);
  }

  const uint64_t bit_;
};

/// Every frame given to Port::TransmitBurst carries its destination. A port whose other end has
/// several queues chooses the queue by it, as a NIC does by a flow rule. Qpn(): not RoCE. The
/// number is in the mbuf's hash, which drivers write on receiving and do not read.
inline void SetDestination(rte_mbuf& frame, Qpn qpn) { frame.hash.rss = qpn.value(); }
inline Qpn DestinationOf(const rte_mbuf& frame) { return Qpn(frame.hash.rss); }

/// Marks frames that stay in the daemon's memory and do not carry their ICRC: the sender has not
/// computed it and the receiver need not check it, as with checksums of the kernel's loopback. Code
/// that shows a marked frame outside, or spoils it, fills its ICRC in first.
class PendingIcrc {
 public:
  bool IsSet(const rte_mbuf& frame) const { return flag_.IsSet(frame); }
  void Set(rte_mbuf& frame) const { flag_.Set(frame); }
  /// For a copy of the bytes of `from`.
  void Inherit(rte_mbuf& copy, const rte_mbuf& from) const {
    if (IsSet(from)) Set(copy);
  }
  /// Computes the ICRC of a marked frame, and leaves the mark: what is right needs no check.
  void Fill(const rte_mbuf& frame) const {
    if (!IsSet(frame)) return;
    wire::Packet packet;
    wire::FrameView view;
    const std::span<uint8_t> bytes{rte_pktmbuf_mtod(&frame, uint8_t*), frame.data_len};
    if (wire::Decode(bytes, packet, view) != wire::DecodeResult::kOk) return;
    const uint8_t* const ip = bytes.data() + view.ip_offset;
    const auto length = static_cast<size_t>(view.icrc_offset - view.ip_offset);
    wire::StoreIcrc(bytes.data() + view.icrc_offset,
                    wire::MaskedHeaderCrc32(ip, length, view.is_ipv6));
  }
  /// Fills the ICRC in, and has it checked.
  void Settle(rte_mbuf& frame) const {
    Fill(frame);
    flag_.Clear(frame);
  }

 private:
  const FrameFlag flag_{"uroce_pending_icrc"};
};

}  // namespace uroce::drivers
