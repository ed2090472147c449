// SPDX-License-Identifier: Apache-2.0
// What a worker drives: a source and a sink of Ethernet frames.
#pragma once

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "pipeline/base/types.h"

struct rte_mbuf;

namespace uroce::drivers {

/// What a port is, and its state as last seen.
struct PortInfo {
  Mac mac{};
  uint32_t mtu_bytes = 0;  ///< Of the Ethernet payload: IP header and all behind it.
  bool link_up = false;
  std::string why_down;  ///< Where the port knows why the link is not up, or "".
  uint64_t speed_bps = 0;
  std::string driver;     ///< "wire", "net_af_packet", "fault(wire)" ...
  std::string interface;  ///< Kernel interface behind it, or "".
  int ifindex = 0;        ///< Of `interface`, or 0.
};

/// Counted drops of a port, cumulative.
struct PortCounters {
  uint64_t tx_discards = 0;  ///< Frames that the device would not take.
  uint64_t rx_missed = 0;    ///< Frames that the device had no room for.
  uint64_t rx_damaged = 0;   ///< Frames whose IPv4 header the device found wrong.
};

/// One port. Its queues are alike, and each is driven by one worker thread; a worker without a
/// queue uses another worker's help. Frames are single-segment mbufs from the workers' pools; the
/// one who holds an mbuf owns it.
class Port {
 public:
  virtual ~Port() = default;
  /// Pairs of a receive and a transmit queue, numbered from 0: at most one per worker. Constant.
  virtual uint16_t queues() const { return 1; }

  // ---- the worker that drives `queue` ----
  /// Up to `count` frames that arrived; the caller owns them.
  virtual uint16_t ReceiveBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) = 0;
  /// Takes the first n frames and returns n. The rest stays the caller's, which tries again at its
  /// next turn; a port never refuses for ever (it drops and counts instead). Each frame says whom
  /// it is for (frame_destination.h).
  [[nodiscard]] virtual uint16_t TransmitBurst(uint16_t queue, rte_mbuf** frames, uint16_t count,
                                               Nanos now) = 0;
  /// Frames that TransmitBurst would take now.
  virtual uint16_t TransmitRoom(uint16_t queue) const = 0;
  /// An fd that becomes readable when frames arrive, or -1: a sleeping worker then wakes by timer,
  /// unless `wakes_itself` says that frames come only from a worker that is awake.
  virtual int wait_fd([[maybe_unused]] uint16_t queue) const { return -1; }
  virtual bool wakes_itself() const { return false; }
  /// Just before a worker sleeps on `wait_fd`: asks for the wake-up. False: frames are there, no
  /// time to sleep. `AfterSleep` follows each call.
  virtual bool BeforeSleep([[maybe_unused]] uint16_t queue) { return true; }
  virtual void AfterSleep([[maybe_unused]] uint16_t queue) {}
  /// When ReceiveBurst or TransmitBurst must be called again though nothing arrived (delayed
  /// frames of a fault port, frames on their way through a switch); kNever else. While TransmitRoom
  /// is 0, by when there may be room; kNever: that is not known.
  virtual Nanos NextDeadline([[maybe_unused]] uint16_t queue) const { return kNever; }

  // ---- control thread ----
  /// Link, MTU and MAC as they are now.
  virtual PortInfo Info() const = 0;
  virtual PortCounters counters() const { return {}; }
  /// Looks after the device, a few times per second and when `maintain_fd` is readable: a peer that
  /// is gone or back, a link that went. `while_idle` runs its argument while no worker is inside
  /// this port. Never waits for others.
  using WhileIdle = absl::FunctionRef<void(absl::FunctionRef<void()>)>;
  virtual void Maintain(WhileIdle while_idle) { static_cast<void>(while_idle); }
  /// An fd that is readable while Maintain has something to do at once, or -1.
  virtual int maintain_fd() const { return -1; }
};

}  // namespace uroce::drivers
