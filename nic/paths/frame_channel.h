// SPDX-License-Identifier: Apache-2.0
// A channel for frames between the control thread and one device.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace uroce::nic {

/// Implemented on a link to the device's worker (nic/connections/link_channel), and by tests.
/// Control thread.
class FrameChannel {
 public:
  /// Takes a received frame. Returns false if it is malformed, which the channel counts.
  using Receiver = std::function<bool(std::span<const uint8_t> frame)>;

  virtual ~FrameChannel() = default;
  /// Null: frames are not delivered. The receiver is never called from within a channel method.
  virtual void SetReceiver(Receiver receiver) = 0;
  /// Whether there is room to queue a frame.
  virtual bool has_room() const = 0;
  /// Queues a frame for the port. Without room the frame is lost and counted.
  virtual void Send(std::span<const uint8_t> frame) = 0;
  /// Whether all frames sent have left for the port.
  virtual bool is_idle() const = 0;
};

}  // namespace uroce::nic
