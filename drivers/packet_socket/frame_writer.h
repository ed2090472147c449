// SPDX-License-Identifier: Apache-2.0
// Sends frames to a packet socket, those of a flow as superframes.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <memory>

#include "drivers/packet_socket/frame_groups.h"

namespace uroce::drivers {

/// One thread.
class FrameWriter {
 public:
  static constexpr uint16_t kMostFrames = FrameGroups::kMostFrames;  ///< Of one system call.

  FrameWriter();
  ~FrameWriter();

  struct Sent {
    uint16_t frames = 0;   ///< Sent or dropped: their mbufs are freed.
    uint16_t dropped = 0;  ///< Of these, those that the interface cannot send.
    bool is_full = false;  ///< The kernel has no room for the frame that is first now.
  };
  /// Sends the first n of `count` frames; frames of different flows may change their order, also in
  /// `frames`. When the kernel refuses superframes, frames leave one by one from then on.
  Sent Send(int socket, rte_mbuf** frames, uint16_t count);

 private:
  struct Burst;

  const std::unique_ptr<Burst> burst_;
  bool sends_superframes_ = true;
};

}  // namespace uroce::drivers
