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
  /// Takes a frame that has come. False: it is malformed, which the channel counts.
  using Receiver = std::function<bool(std::span<const uint8_t> frame)>;

  virtual ~FrameChannel() = default;
  /// Null: nobody takes frames. The receiver is never called from within a call of the channel.
  virtual void SetReceiver(Receiver receiver) = 0;
  /// Whether a frame that is sent now is queued.
  virtual bool has_room() const = 0;
  /// Queues a frame for the port. Without room it is lost, and counted.
  virtual void Send(std::span<const uint8_t> frame) = 0;
  /// Whether all that was sent has left for the port.
  virtual bool is_idle() const = 0;
};

}  // namespace uroce::nic
