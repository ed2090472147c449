// SPDX-License-Identifier: Apache-2.0
// A link for datagrams of queue pair 1, between a device's worker and the thread that answers them.
#pragma once

#include "pipeline/datapath/frames/frame_link.h"

namespace uroce::datapath {

/// Whole frames, of which the worker has checked all that can be wrong but the MAD. One worker
/// serves those of all devices: the owner of queue pair 1.
class GsiLink : public FrameLink {
 public:
  /// Connections come by the thousand at once, and what is lost is repeated seconds later.
  static constexpr uint32_t kDepthFrames = 4096;
  /// The longest frame: tagged, IPv6, BTH, DETH, MAD and ICRC are 346 bytes. Ethernet's own padding
  /// is for shorter ones.
  static constexpr uint32_t kSlotBytes = 384;

  GsiLink() : FrameLink(kDepthFrames, kSlotBytes) {}
};

}  // namespace uroce::datapath
