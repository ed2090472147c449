// SPDX-License-Identifier: Apache-2.0
// Marks the copies of multicast packets that workers give each other.
#pragma once

#include "drivers/frame_flag.h"

namespace uroce::datapath {

/// A frame with it is a copy of a packet that captures have seen and all workers were given.
class MulticastMark : public drivers::FrameFlag {
 public:
  MulticastMark() : FrameFlag("uroce_multicast_copy") {}
};

}  // namespace uroce::datapath
