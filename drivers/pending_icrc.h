// SPDX-License-Identifier: Apache-2.0
// Marks frames that stay in the daemon's memory and do not carry their ICRC: nobody has computed
// it, and nobody needs to check it, as with checksums of the kernel's loopback.
#pragma once

#include <rte_mbuf.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "drivers/frame_flag.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/icrc.h"
#include "pipeline/wire/packet.h"

namespace uroce::drivers {

/// Who shows a marked frame to somebody, or spoils it, fills its ICRC in first.
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
