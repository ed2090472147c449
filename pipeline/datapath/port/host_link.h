// SPDX-License-Identifier: Apache-2.0
// A link between a worker and the network stack of a port, which handles all frames but RoCE.
#pragma once

#include <cstdint>
#include <span>

#include "pipeline/base/types.h"
#include "pipeline/datapath/frames/frame_link.h"
#include "pipeline/wire/decode.h"

namespace uroce::datapath {

/// Chooses the frames of a port that its stack gets, and carries them to the stack.
class HostLink : public FrameLink {
 public:
  /// Longest frame: Ethernet with a tag and an MTU of 9600, rounded up.
  static constexpr uint32_t kSlotBytes = 9664;

  enum class Takes : uint8_t {
    kHostProtocols,  ///< ARP, ICMP, IGMP, ICMPv6.
    kEverything,     ///< Whatever is no RoCE packet.
  };
  HostLink(Takes takes, uint32_t depth_frames)
      : FrameLink(depth_frames, kSlotBytes), takes_(takes) {}

  /// Whether the stack takes a frame that was decoded as `result`, which is not kOk. Any worker.
  bool Wants(wire::DecodeResult result, std::span<const uint8_t> frame, const Mac& mac) const;
  /// Offers a frame that was decoded as `result`, which is not kOk. True: the stack wants it, and
  /// got a copy unless it is behind. Called by the one worker that serves the link.
  bool Offer(wire::DecodeResult result, std::span<const uint8_t> frame, const Mac& mac);

 private:
  const Takes takes_;
};

/// Whether the IP stack of a host has to see the frame: ARP, ICMP, IGMP, ICMPv6, also behind
/// hop-by-hop options, with or without a tag.
bool IsHostProtocol(std::span<const uint8_t> frame);

}  // namespace uroce::datapath
