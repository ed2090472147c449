// SPDX-License-Identifier: Apache-2.0
// The interface that a worker drives: a source and a sink of Ethernet frames. Also what all ports
// have: options, made-up addresses, and the port that stands in for a removed one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "pipeline/base/types.h"
#include "pipeline/port/qpn_owners.h"

struct rte_mbuf;

namespace uroce::drivers {

/// Link pause (IEEE 802.3x) of a port: whether it stops sending when the other end asks for it
/// (rx), and asks the other end to when its own buffer fills (tx). The names are those of ethtool.
enum class FlowControl : uint8_t { kOff, kRx, kTx, kFull };
/// "off", "rx", "tx", "full".
const char* NameOf(FlowControl flow_control);
std::optional<FlowControl> ParseFlowControl(const std::string& name);

/// What a user may ask of a port besides its kind.
struct PortOptions {
  uint32_t mtu_bytes = 0;  ///< Ethernet payload; 0: the port's own MTU.
  uint16_t queues = 1;     ///< Receive queues, with RSS where a device has it.
  uint16_t workers = 1;    ///< Threads that drive it; each has a transmit queue, up to `queues`.
  std::optional<FlowControl> flow_control;  ///< No value: it stays as the device has it.
  bool takes_all_frames = false;            ///< On a kernel interface: not only RoCE frames.
};

/// The speed of a link that does not tell its own.
inline constexpr uint64_t kUnknownSpeedBps = 10'000'000'000;

/// What a port is, and its state as last seen.
struct PortInfo {
  Mac mac{};
  uint32_t mtu_bytes = 0;  ///< Of the Ethernet payload: the IP header and all behind it.
  bool link_up = false;
  std::string why_down;  ///< Why the link is not up, where the port knows it, or "".
  uint64_t speed_bps = 0;
  std::string driver;                       ///< "wire", "net_af_packet", "fault(wire)" ...
  std::string interface;                    ///< Kernel interface behind it, or "".
  int ifindex = 0;                          ///< Of `interface`, or 0.
  std::optional<FlowControl> flow_control;  ///< No value: the port has none, or does not tell.
  /// Of a port whose kernel finds the way to each peer: the MAC that stands for all of them. Such a
  /// port has no VLANs, and carries nothing but RoCE.
  std::optional<Mac> peer_mac;
};

/// How much a worker sends by a port in one turn, and receives: it stops at either.
struct TurnLimit {
  uint32_t frames = 32;
  uint32_t bytes = UINT32_MAX;
};

/// Counted drops of a port, cumulative.
struct PortCounters {
  uint64_t tx_discards = 0;  ///< Frames that the device did not accept.
  uint64_t rx_missed = 0;    ///< Frames that the device had no room for.
  uint64_t rx_damaged = 0;   ///< Frames whose IPv4 header the device found wrong.
  /// Pause frames, of the link and of priorities, where the device counts them.
  std::optional<uint64_t> rx_pauses;
  std::optional<uint64_t> tx_pauses;
  /// Packets whose IPv4 identification was not told, and not the expected one, so that the ICRC had
  /// to tell it (docs/protocol/wire-format.md, section 7.4).
  std::optional<uint64_t> rx_fitted;
};

/// One port. Its queues are alike, and each is driven by one worker thread. A worker without a
/// queue sends and receives through a worker that has one. Frames are single-segment mbufs from the
/// workers' pools. The holder of an mbuf owns it.
class Port {
 public:
  virtual ~Port() = default;
  /// Pairs of a receive and a transmit queue, numbered from 0: at most one per worker. Constant.
  virtual uint16_t queues() const { return 1; }

  // ---- the worker that drives `queue` ----
  /// Yields up to `count` frames that arrived; the caller owns them.
  virtual uint16_t ReceiveBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) = 0;
  /// Does the same, but yields superframes whose ICRCs are right as they are (superframes.h).
  virtual uint16_t ReceiveWhole(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) {
    return ReceiveBurst(queue, frames, count, now);
  }
  /// Takes the first n frames and returns n. The caller keeps the other frames, and tries again at
  /// its next turn. A port refuses for a limited time: then it drops and counts instead. Each frame
  /// carries the queue pair that it is sent to (frames.h).
  [[nodiscard]] virtual uint16_t TransmitBurst(uint16_t queue, rte_mbuf** frames, uint16_t count,
                                               Nanos now) = 0;
  /// Whether TransmitBurst takes superframes now, too (superframes.h). A port that has once said so
  /// takes those that come later, and sends their packets one by one if it must.
  virtual bool takes_superframes([[maybe_unused]] uint16_t queue) const { return false; }
  /// How many frames TransmitBurst would take now.
  virtual uint16_t TransmitRoom(uint16_t queue) const = 0;
  /// Constant, with at most kMostTurnFrames frames. A port that spends its time for each burst asks
  /// for longer ones than others do. ReceiveBurst itself ends at the bytes.
  virtual TurnLimit turn_limit() const { return {}; }
  static constexpr uint32_t kMostTurnFrames = 64;
  /// Name the ways of frames between ports of one daemon. A port whose inlet is another port's
  /// outlet yields at once what that port takes, to the worker that owns the queue pair. Null: the
  /// port delays or changes frames, or sends them elsewhere.
  virtual const void* outlet([[maybe_unused]] uint16_t queue) const { return nullptr; }
  virtual const void* inlet([[maybe_unused]] uint16_t queue) const { return nullptr; }
  /// Whether the outlet holds no frame of `queue` for the worker that drives `queue` at both ends.
  virtual bool IsOutletEmpty([[maybe_unused]] uint16_t queue) const { return false; }
  /// An fd that becomes readable when frames arrive. -1: a sleeping worker wakes by timer, unless
  /// `wakes_itself` says that frames come only from a worker that is awake.
  virtual int wait_fd([[maybe_unused]] uint16_t queue) const { return -1; }
  virtual bool wakes_itself() const { return false; }
  /// Asks for the wake-up, just before a worker sleeps on `wait_fd`. False: frames are there, and
  /// the worker must not sleep. `AfterSleep` follows each call.
  virtual bool BeforeSleep([[maybe_unused]] uint16_t queue) { return true; }
  virtual void AfterSleep([[maybe_unused]] uint16_t queue) {}
  /// When ReceiveBurst or TransmitBurst must be called again though nothing arrived (for delayed
  /// frames of a fault port, or frames inside a switch); kNever when neither must. While
  /// TransmitRoom is 0: the time by which there may be room, or kNever when the port does not know
  /// that time.
  virtual Nanos NextDeadline([[maybe_unused]] uint16_t queue) const { return kNever; }
  /// How far the time by which frames travel is behind `now`: that of an emulated network waits for
  /// the worker of queue 0, which runs it, and asks in each of its turns if the port `may_lag`.
  virtual Nanos Lag([[maybe_unused]] Nanos now) const { return Nanos(0); }
  virtual bool may_lag() const { return false; }

  /// The bytes of kernel memory that frames of one queue may take before ReceiveBurst yields them;
  /// the kernel drops the rest. 0: unknown, or too much to fill. Constant.
  virtual uint64_t receive_buffer_bytes() const { return 0; }

  // ---- control thread ----
  /// Says which worker has the queue pair of a number: a port that chooses the queue at the other
  /// end itself sends frames to that worker's. Called before workers have the port; `owners`
  /// outlives their use of it.
  virtual void UseOwners(const QpnOwners& owners) { static_cast<void>(owners); }
  /// The present link, MTU and MAC.
  virtual PortInfo Info() const = 0;
  virtual PortCounters counters() const { return {}; }
  /// Maintains the device: finds a peer that is gone or back, a link that went down. Called a few
  /// times per second and when `maintain_fd` is readable. `while_idle` runs its argument while no
  /// worker is inside this port. Never blocks.
  using WhileIdle = absl::FunctionRef<void(absl::FunctionRef<void()>)>;
  virtual void Maintain(WhileIdle while_idle) { static_cast<void>(while_idle); }
  /// An fd that is readable while Maintain has something to do at once, or -1.
  virtual int maintain_fd() const { return -1; }
};

/// Stands for a port that was removed: nothing arrives, and what is sent is dropped. Any number of
/// threads may use it, with any number of queues. A worker that sleeps is not woken by it.
class AbsentPort final : public Port {
 public:
  uint16_t ReceiveBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitBurst(uint16_t queue, rte_mbuf** frames, uint16_t count, Nanos now) override;
  uint16_t TransmitRoom(uint16_t queue) const override;
  bool wakes_itself() const override { return true; }
  PortInfo Info() const override { return {}; }
};

/// A locally administered unicast address that depends only on `name` and `index`.
Mac LocalMac(std::string_view name, uint32_t index);
/// A locally administered unicast address that is the same at each start. It differs between
/// identities, network namespaces and machines.
Mac StableMac(std::string_view identity);

}  // namespace uroce::drivers
