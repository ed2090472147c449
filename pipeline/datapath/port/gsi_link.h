// SPDX-License-Identifier: Apache-2.0
// A link for datagrams of queue pair 1, between a device's worker and the thread that answers them.
#pragma once

#include "pipeline/datapath/frames/frame_link.h"

namespace uroce::datapath {

/// Carries whole frames. The worker has checked all parts of them but the MAD. One worker serves
/// the links of all devices: the owner of queue pair 1.
class GsiLink : public FrameLink {
 public:
  /// Thousands of connection requests come at once, and a lost one is repeated seconds later.
  static constexpr uint32_t kDepthFrames = 4096;
  /// Room for the longest frame: tag, IPv6, BTH, DETH, MAD and ICRC have 346 bytes. Only shorter
  /// frames are padded by Ethernet.
  static constexpr uint32_t kSlotBytes = 384;

  GsiLink() : FrameLink(kDepthFrames, kSlotBytes) {}
};

}  // namespace uroce::datapath
