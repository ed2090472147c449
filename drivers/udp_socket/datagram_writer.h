// SPDX-License-Identifier: Apache-2.0
// Sends frames by UDP sockets, those of a flow as superframes.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <memory>

#include "drivers/packet_socket/frame_groups.h"
#include "drivers/udp_socket/udp_sockets.h"

namespace uroce::drivers {

/// One thread.
class DatagramWriter {
 public:
  DatagramWriter();
  ~DatagramWriter();

  struct Sent {
    uint16_t frames = 0;   ///< Sent or dropped: their mbufs are freed.
    uint16_t dropped = 0;  ///< Of these, those that the kernel cannot send.
    bool is_full = false;  ///< The kernel has no room for the frame that is first now.
  };
  /// Sends the first n of `count` frames, each with the source port of its flow's socket and the
  /// identification that the kernel gives it, and with the ICRC of these. Frames of different flows
  /// may change their order, also in `frames`. Frames leave one by one from the time on when the
  /// kernel refuses superframes.
  Sent Send(const UdpSockets& sockets, rte_mbuf** frames, uint16_t count);

 private:
  struct Burst;

  const std::unique_ptr<Burst> burst_;
  bool sends_superframes_ = true;
};

}  // namespace uroce::drivers
