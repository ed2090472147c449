// SPDX-License-Identifier: Apache-2.0
// From a received frame to the queue pair that it is for: the checks that every packet must pass,
// copies for the members of a group, frames for other workers.
#pragma once

#include <rte_mbuf.h>

#include <atomic>
#include <cstdint>
#include <deque>

#include "pipeline/datapath/device/device.h"
#include "pipeline/datapath/frames/waiting_frames.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/thread/scheduling.h"
#include "pipeline/datapath/worker/congestion_control.h"
#include "pipeline/datapath/worker/frame.h"
#include "pipeline/datapath/worker/objects.h"
#include "pipeline/datapath/worker/packet_executor.h"
#include "pipeline/datapath/worker/worker.h"
#include "pipeline/port/frames.h"
#include "pipeline/transport/queue_pair_types.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/icrc.h"
#include "pipeline/wire/packet.h"

namespace uroce::datapath {

/// Whether a queue pair in `state` receives.
constexpr bool TakesPackets(transport::QpState state) {
  switch (state) {
    case transport::QpState::kRtr:
    case transport::QpState::kRts:
    case transport::QpState::kSqd:
    case transport::QpState::kSqe:
      return true;
    case transport::QpState::kReset:
    case transport::QpState::kInit:
    case transport::QpState::kErr:
      return false;
  }
  return false;
}

/// The checks that every received packet has to pass, for whatever queue pair it is
/// (docs/protocol/transport.md, section 4.1, step 1). A dropped packet is counted, and its
/// annotation says why. One thread. The checks that every packet passes through are inline.
class Admission {
 public:
  explicit Admission(FrameRecorder& recorder) : recorder_(recorder) {}

  /// Whether a packet is for this device. Counts congestion marks of packets that are.
  bool IsForPort(DevicePort& port, const wire::Packet& packet, const wire::FrameView& view);
  /// Whether `qp` takes the packet: checks its service and its state, and calls Admit.
  bool IsForQueuePair(const QueuePair& qp, DevicePort& port, const wire::Packet& packet,
                      const wire::FrameView& view, const rte_mbuf* frame);
  /// Whether IsForPort and IsForQueuePair would let a packet pass that carries no mark of
  /// congestion and whose ICRC is known to be right. Counts nothing.
  static bool WouldAdmit(const QueuePair& qp, const DevicePort& port, const wire::Packet& packet,
                         const wire::FrameView& view) {
    return view.destination == port.device().mac && !packet.congestion_experienced &&
           ServiceOf(packet.header.opcode) == qp.core().service() && TakesPackets(qp.state()) &&
           !qp.core().is_datagram() && IsFromPeer(qp.path(), packet, view) &&
           IsOurPkey(packet.header.pkey);
  }
  /// Whether a CNP is valid for `qp`, which may be null: `qp` has congestion control, and the CNP
  /// comes from the peer that `qp` sends to.
  bool IsCnpFor(const QueuePair* qp, DevicePort& port, const wire::Packet& packet,
                const wire::FrameView& view, const rte_mbuf* frame);
  /// Whether a packet to queue pair 1 passes the checks. `link` counts its own refusals.
  bool IsForGsi(GsiLink& link, DevicePort& port, const wire::Packet& packet,
                const wire::FrameView& view, const rte_mbuf* frame);
  /// Whether a packet to a multicast group passes the checks that are common to all members.
  bool IsForGroup(DevicePort& port, const wire::Packet& packet, const wire::FrameView& view,
                  const rte_mbuf* frame);

 private:
  /// Checks the partition, the addresses, and last the ICRC, which costs most. `is_addressed`: the
  /// packet's addresses are right.
  bool Admit(DevicePort& port, const wire::Packet& packet, const wire::FrameView& view,
             const rte_mbuf* frame, bool is_addressed);

  FrameRecorder& recorder_;
  const drivers::PendingIcrc pending_;
  const drivers::CheckedIcrc checked_;
};

inline bool Admission::Admit(DevicePort& port, const wire::Packet& packet,
                             const wire::FrameView& view, const rte_mbuf* frame,
                             bool is_addressed) {
  DeviceCounters& counters = port.counters();
  if (!IsOurPkey(packet.header.pkey)) {
    return recorder_.Drop(counters.rx_bad_pkey, UROCE_REASON_BAD_PKEY);
  }
  if (!is_addressed) return recorder_.Drop(counters.rx_bad_address, UROCE_REASON_BAD_ADDRESS);
  if (!pending_.IsSet(*frame) && !checked_.IsSet(*frame) &&
      !wire::IcrcIsRight(BytesOf(*frame), view)) {
    return recorder_.Drop(counters.rx_icrc_encapsulated, UROCE_REASON_BAD_ICRC);
  }
  return true;
}

inline bool Admission::IsForPort(DevicePort& port, const wire::Packet& packet,
                                 const wire::FrameView& view) {
  DeviceCounters& counters = port.counters();
  if (view.destination != port.device().mac) {
    recorder_.Begin();  // The packet's queue pair and mark are another device's.
    return recorder_.Drop(counters.rx_not_roce, UROCE_REASON_NOT_ROCE);
  }
  if (packet.congestion_experienced) Count(counters.np_ecn_marked_roce_packets);
  return true;
}

inline bool Admission::IsForQueuePair(const QueuePair& qp, DevicePort& port,
                                      const wire::Packet& packet, const wire::FrameView& view,
                                      const rte_mbuf* frame) {
  DeviceCounters& counters = port.counters();
  if (ServiceOf(packet.header.opcode) != qp.core().service()) {
    return recorder_.Drop(counters.rx_bad_opcode, UROCE_REASON_BAD_OPCODE);
  }
  if (!TakesPackets(qp.state())) {
    return recorder_.Drop(counters.rx_bad_state, UROCE_REASON_BAD_STATE,
                          static_cast<uint8_t>(qp.state()));
  }
  const bool is_addressed = qp.core().is_datagram() ? IsForDevice(port.device(), packet, view)
                                                    : IsFromPeer(qp.path(), packet, view);
  return Admit(port, packet, view, frame, is_addressed);
}

/// Hands received frames that are for another worker over to it. One thread.
class HandOver {
 public:
  /// `handed_over` counts the frames that went.
  HandOver(CrossWorkerLink& cross_worker, FrameRecorder& recorder,
           std::atomic<uint64_t>& handed_over)
      : cross_worker_(cross_worker), recorder_(recorder), handed_over_(handed_over) {}

  /// True: worker `to` has the frame; else it was dropped, counted and recorded.
  bool Give(DevicePort& port, rte_mbuf* frame, uint32_t to) {
    if (cross_worker_.Give(to, port.position(), frame)) {
      Count(handed_over_);
      return true;
    }
    recorder_.Drop(port.counters().rx_cross_worker_full, UROCE_REASON_CROSS_WORKER_FULL);
    recorder_.Record(port, frame);
    return false;
  }

 private:
  CrossWorkerLink& cross_worker_;
  FrameRecorder& recorder_;
  std::atomic<uint64_t>& handed_over_;
};

/// The parts of a worker that its receiver of multicast packets uses.
struct MulticastContext {
  uint32_t worker = 0;
  const DevicePorts& ports;
  Admission& admission;
  FrameRecorder& recorder;
  FrameStash& stash;
  HandOver& hand_over;
  PacketExecutor& executor;
};

/// Receives datagrams to multicast groups (docs/protocol/transport.md, section 10). Each member
/// gets its own copy, since the bytes written in front of the payload overwrite the headers. One
/// packet has up to 64 members, and each port a burst of packets: those for which a turn has made
/// enough copies wait for the next turns, in their order. One thread.
class MulticastReceiver {
 public:
  /// The number of copies at which a turn delivers no further packet.
  static constexpr uint32_t kCopiesOfTurn = 512;
  /// Packets of other workers find no place behind so many that wait.
  static constexpr size_t kMostWaiting = 256;

  explicit MulticastReceiver(const MulticastContext& context) : context_(context) {}
  ~MulticastReceiver();
  MulticastReceiver(const MulticastReceiver&) = delete;
  MulticastReceiver& operator=(const MulticastReceiver&) = delete;

  /// Begins a turn with the packets that wait. False: there was none.
  bool BeginTurn();
  /// Gives a packet to the group's members of this worker, and copies of it to the other workers.
  /// True: the frame was kept, for a later turn.
  bool Receive(DevicePort& port, const wire::Packet& packet, const wire::FrameView& view,
               rte_mbuf* frame);
  bool any_waits() const { return !waiting_.empty(); }
  /// Whether packets of this port wait: no more of its frames are taken then, so that its senders
  /// wait, too.
  bool HasWaiting(const DevicePort& port) const;

 private:
  struct Waiting {
    uint16_t port;  ///< Its position.
    rte_mbuf* frame;
  };

  bool Keep(DevicePort& port, rte_mbuf* frame, bool of_other_worker);
  void GiveToOthers(DevicePort& port, const wire::Packet& packet, const rte_mbuf* frame);
  void DeliverToMembers(DevicePort& port, const wire::Packet& packet, const rte_mbuf* frame);
  void Deliver(QueuePair& qp, rte_mbuf* copy);
  /// Returns a copy that is not recorded again. Null: there is no frame, which is counted.
  rte_mbuf* Copy(DevicePort& port, const rte_mbuf& frame);

  const MulticastContext context_;
  const MulticastMark mark_;
  uint32_t copies_ = 0;  ///< In this turn.
  std::deque<Waiting> waiting_;
};

/// The parts of a worker that its receiver uses.
struct ReceiveContext {
  const DevicePorts& ports;
  const QpnTable& queue_pairs;
  CrossWorkerLink& cross_worker;
  FrameRecorder& recorder;
  FrameStash& stash;
  CongestionControl& congestion;
  PacketExecutor& executor;
  WorkerCounters& counters;
  const TurnTime& time;
};

/// Gives each frame to whom it is for: a queue pair, another worker, the stack of its port, or the
/// control thread. Other frames are dropped and counted. One thread. The code that every packet
/// passes through is inline where it is called.
class Receiver {
 public:
  explicit Receiver(const ReceiveContext& context);

  /// Takes a burst from each port.
  bool Receive();
  /// Takes the frames that other workers have received for this one. Called after Receive.
  bool TakeFromOtherWorkers();
  /// Whether frames may wait that the last of these calls have left.
  bool has_more() const { return has_more_; }

 private:
  struct Decoded {
    wire::DecodeResult result = wire::DecodeResult::kOk;
    wire::Packet packet;
    wire::FrameView view;
  };

  /// Takes a burst from one port. False: there was none.
  bool ReceiveFrom(DevicePort& port);
  /// Takes a superframe apart. Its packets are frames in place, one after the other: the headers of
  /// each overwrite the end of the one before, unless a frame is kept. True: it was. A superframe
  /// that begins with a packet for another worker goes to it whole.
  bool OnSuperframe(DevicePort& port, rte_mbuf* superframe);
  /// Executes the packets of `superframe` from `index` on as one. `decoded` is the packet at
  /// `index`, in `frame`. Returns how many; 0: each is to be taken by itself.
  uint32_t TakeRun(DevicePort& port, const wire::SuperframeCutter& cutter, uint32_t index,
                   const Decoded& decoded, const rte_mbuf& frame);
  /// Whether a superframe that begins with `first` goes to another worker, which is in `owner`
  /// then.
  bool GivesWhole(const DevicePort& port, const Decoded& first, uint32_t& owner) const;
  /// True: the frame was kept, for later.
  bool OnFrame(DevicePort& port, rte_mbuf* frame);
  /// Does the same for a frame that was decoded.
  inline bool OnDecoded(DevicePort& port, rte_mbuf* frame, const Decoded& decoded);
  /// Does the same for a frame that is no RoCE packet.
  bool OnOtherFrame(DevicePort& port, rte_mbuf* frame, wire::DecodeResult decoded);
  /// Does the same for a packet to a queue pair of this worker, or to an unknown one.
  inline bool OnPacket(DevicePort& port, const wire::Packet& packet, const wire::FrameView& view,
                       rte_mbuf* frame);
  /// The queue pair of this number on this port, or null.
  inline QueuePair* Steer(const DevicePort& port, Qpn number) const;
  /// Handles a CNP to `qp`, or to no queue pair (null).
  void OnCnp(DevicePort& port, QueuePair* qp, const wire::Packet& packet,
             const wire::FrameView& view, const rte_mbuf* frame);
  /// Handles a packet to a queue pair that no program has: queue pair 1, or an unknown one.
  void OnStrangePacket(DevicePort& port, const wire::Packet& packet, const wire::FrameView& view,
                       const rte_mbuf* frame);

  const ReceiveContext context_;
  Admission admission_;
  HandOver hand_over_;
  MulticastReceiver multicast_;
  const drivers::SuperframeMark mark_;
  const drivers::CheckedIcrc checked_;
  bool has_more_ = false;
};

}  // namespace uroce::datapath
