// SPDX-License-Identifier: Apache-2.0
// Congestion control of a worker's queue pairs: marks cause CNPs, CNPs change rates, and rates set
// send times (pipeline/congestion).
#pragma once

#include <rte_mbuf.h>

#include <algorithm>
#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/congestion/dcqcn.h"
#include "pipeline/congestion/flow.h"
#include "pipeline/congestion/settings.h"
#include "pipeline/datapath/device/device.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/thread/scheduling.h"
#include "pipeline/datapath/worker/frame.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/packet.h"

namespace uroce::datapath {

/// One thread. The code that every packet passes through is inline where it is called.
class CongestionControl {
 public:
  CongestionControl(FrameStash& stash, const TurnTime& time)
      : stash_(stash), time_(time), limited_(kMaxLimited) {}

  // ---- received ----
  /// Handles the mark of a packet to `qp` that was admitted: sends a CNP when one is due. The CNP
  /// goes out before all else of this turn, and only the room of the port limits it.
  void OnMarked(QueuePair& qp, const wire::Packet& packet, const wire::FrameView& view,
                const rte_mbuf* frame);
  /// The rate that CNPs leave to `qp`, in Mb/s; 0: all of the line's.
  static uint32_t RateMbps(const QueuePair& qp) {
    const congestion::ReactionPoint* const point = qp.flow().rate.point();
    return point == nullptr ? 0 : static_cast<uint32_t>(point->rate_bps() / congestion::kMegabit);
  }
  /// Handles an admitted CNP to `qp`. False: it is ignored, since too many are limited already.
  bool OnCnp(QueuePair& qp) {
    if (!Slow(qp)) return false;
    ++qp.flow().cnps_handled;
    return true;
  }

  // ---- sent ----
  /// Whether `qp`, which has something to send, must wait for its send time. Answers of one packet
  /// never wait.
  bool MustWait(const QueuePair& qp) const {
    if (qp.flow().rate.MaySend(time_.now())) [[likely]]
      return false;
    return !qp.core().HasAcknowledgement();
  }
  /// When to look again at a queue pair that must wait.
  Nanos ResumeAt(const QueuePair& qp) const {
    return std::min(qp.flow().rate.next_send(), time_.now() + kLongestWait);
  }
  /// Called when a packet of `qp` has left in a frame of `bytes`.
  void OnSent(QueuePair& qp, const transport::TxPacket& packet, uint32_t bytes) {
    const bool is_limited = qp.flow().rate.is_limited();
    const Nanos gap = qp.core().is_reliable() ? qp.core().reliable().send_gap() : Nanos(0);
    if (is_limited || gap != Nanos(0)) [[unlikely]]
      Charge(qp, packet, bytes, gap);
  }
  /// A datagram of `qp` has left on `path`, in a frame of `bytes`. The static rate of the path
  /// holds the next datagram back.
  void OnSentTo(QueuePair& qp, const Path& path, uint32_t bytes) {
    qp.flow().traffic_class = path.traffic_class;
    if (path.static_rate_bps == 0) [[likely]]
      return;
    const double counted = bytes + congestion::kFrameOverheadBytes;
    const auto rate_bps = static_cast<double>(path.static_rate_bps);
    qp.flow().rate.Delay(time_.now(), congestion::TimeOf(counted, rate_bps));
  }
  /// Takes the losses that the transport of `qp` has found; some profiles react to them.
  void TakeLosses(QueuePair& qp) {
    if (!qp.core().is_reliable()) return;
    const transport::Losses losses = qp.core().reliable().TakeLosses();
    if (losses.any()) [[unlikely]]
      OnLosses(qp, losses);
  }
  /// Called when `qp` is reset or ends: its rate is limited no more.
  void Forget(QueuePair& qp) { qp.flow().rate.Reset(limited_); }
  /// Called once a turn.
  void Tend() { limited_.Tend(time_.now()); }

 private:
  /// The most queue pairs of a worker whose rate is limited at a time.
  static constexpr uint32_t kMaxLimited = 16384;
  /// The longest wait before a look: a rate may recover before the time that it gave.
  static constexpr Nanos kLongestWait{1'000'000};

  static const congestion::Environment& EnvironmentOf(const QueuePair& qp) {
    return qp.port().CongestionOf(qp.traffic_class());
  }
  bool Slow(QueuePair& qp) {
    return qp.flow().rate.OnCnp(EnvironmentOf(qp), limited_, time_.now());
  }
  /// Whether a CNP is due for a marked packet, by the settings of its priority.
  bool IsDue(QueuePair& qp, const wire::Packet& packet, const congestion::Environment& environment);
  void SendCnp(QueuePair& qp, const wire::Packet& packet, const wire::FrameView& view,
               const rte_mbuf* marked, const congestion::NotificationSettings& settings);
  void Charge(QueuePair& qp, const transport::TxPacket& packet, uint32_t bytes, Nanos gap);
  void OnLosses(QueuePair& qp, transport::Losses losses);
  /// A loss counts as a CNP.
  void SlowByLoss(QueuePair& qp);

  FrameStash& stash_;
  const TurnTime& time_;
  congestion::LimitedFlows limited_;
  congestion::DatagramNotificationPoints datagrams_;
  uint16_t identification_ = 0;
};

}  // namespace uroce::datapath
