// SPDX-License-Identifier: Apache-2.0
// Inside a worker: its objects and the steps of one turn. Included by worker*.cc alone.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "pipeline/datapath/baton.h"
#include "pipeline/datapath/clock.h"
#include "pipeline/datapath/completion_queue.h"
#include "pipeline/datapath/device_port.h"
#include "pipeline/datapath/handover.h"
#include "pipeline/datapath/idle_policy.h"
#include "pipeline/datapath/kept_frames.h"
#include "pipeline/datapath/key_waits.h"
#include "pipeline/datapath/mailbox.h"
#include "pipeline/datapath/parked_work.h"
#include "pipeline/datapath/payload.h"
#include "pipeline/datapath/qpn_table.h"
#include "pipeline/datapath/queue_pair.h"
#include "pipeline/datapath/record_retries.h"
#include "pipeline/datapath/session_list.h"
#include "pipeline/datapath/sleeper.h"
#include "pipeline/datapath/timer_wheel.h"
#include "pipeline/datapath/waiting_frames.h"
#include "pipeline/datapath/window_works.h"
#include "pipeline/datapath/worker.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/packet.h"

namespace uroce::datapath {

/// The one P_Key of the table is 0xffff; the top bit is the kind of membership
/// (docs/protocol/wire-format.md, section 6).
constexpr bool IsOurPkey(uint16_t pkey) { return (pkey & 0x7fff) == 0x7fff; }

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

/// A turn: what came in (finished copies, frames, doorbells, timers) is given to the transport of
/// its queue pair, which is then settled (completions, events, state), and what the transports have
/// to send goes out, fair in bytes. Each step is bounded; what is left waits for the next turn.
struct Worker::Impl {
  explicit Impl(const WorkerConfig& worker_config);
  ~Impl();

  // ---- worker.cc: thread and turn ----
  void ThreadMain();
  bool Turn(Nanos time);
  /// Begins a turn: what the last one was is counted now that its end is known.
  void Account(Nanos time);

  // ---- worker_objects.cc: between turns ----
  void AddSession(Session* session);
  void RemoveSession(Session* session);
  void AddQueuePair(QueuePair* qp);
  void RemoveQueuePair(QueuePair* qp);
  void ReserveLists();
  void AddSharedReceiveQueue(SharedReceiveQueue* queue);
  void RemoveSharedReceiveQueue(SharedReceiveQueue* queue);
  void Modify(QueuePair* qp, transport::QpState state, const Attributes& attributes,
              const Path* path);
  void SetPath(QueuePair& qp, const Path& path);
  void RewritePaths(PathRewriter rewrite);
  void SetSelectiveRepeat(AgreementOf agreement);
  void FollowMac(const Device& device, const Mac& old);
  /// Sends what `qp` owes for requests that it has executed, before it stops.
  void AcknowledgeAll(QueuePair& qp);
  void ApplyModification(QueuePair& qp, transport::QpState state, const Attributes& attributes);

  // ---- worker_receive.cc ----
  bool Receive();
  bool TakeHandedOver();
  /// Gives a frame to another worker. True: it has it; else it was dropped and counted.
  bool HandOver(DevicePort& port, rte_mbuf* frame, uint32_t to);
  /// True: the frame was kept, for later.
  bool OnFrame(DevicePort& port, rte_mbuf* frame);
  /// The queue pair that the packet is for, all checks passed; null: dropped and counted.
  QueuePair* Steer(DevicePort& port, const wire::Packet& packet, const wire::FrameView& view,
                   const rte_mbuf* frame);
  /// True: the frame was kept, for later or by an errand.
  bool ExecuteOrKeep(QueuePair& qp, const wire::Packet& packet, const wire::FrameView& view,
                     rte_mbuf* frame);
  /// Whether a frame is shown to the transport for the first time, or again after it was kept.
  enum class Showing : uint8_t { kFirst, kAgain };
  bool Execute(QueuePair& qp, const wire::Packet& packet, const wire::FrameView& view,
               rte_mbuf* frame, Showing showing = Showing::kFirst);
  /// Hands the transport the receive work that a packet needs. False: the queue is corrupt.
  static bool GiveReceive(QueuePair& qp, const wire::TransportHeader& header);

  // ---- worker_xrc.cc: targets, which work with the queues of several programs ----
  /// Has a target work with the queue that a request names. False: it must not.
  static bool SelectQueue(QueuePair& qp, const wire::TransportHeader& header);
  /// `queue` is no more: its target `qp` cannot finish what it has begun with it.
  void LeaveQueue(QueuePair& qp, const SharedReceiveQueue& queue);
  /// The end of what is under way at the helper of a program that leaves.
  void FailParked(QueuePair& qp);

  // ---- worker_gsi.cc: queue pair 1 ----
  /// Hands a packet for queue pair 1 to the device's link, all checks passed, or drops and counts
  /// it. `note` says why.
  void ReceiveGsi(DevicePort& port, const wire::Packet& packet, const wire::FrameView& view,
                  const rte_mbuf* frame);

  // ---- worker_multicast.cc ----
  /// A flag of mbufs that DPDK gives away once per name: drivers clear it in what they receive.
  static uint64_t RegisterMulticastCopy();
  /// A copy of a multicast packet, which captures have seen and which was given to all workers.
  bool IsMulticastCopy(const rte_mbuf& frame) const {
    return (frame.ol_flags & multicast_copy) != 0;
  }
  /// A packet to all members of a group: those of this worker get it, and the other workers copies.
  void OnMulticast(DevicePort& port, const wire::Packet& packet, const wire::FrameView& view,
                   const rte_mbuf* frame);
  /// Whether the device takes it, all checks passed that are not a member's own; else it was
  /// counted.
  bool IsMulticastTaken(DevicePort& port, const wire::Packet& packet, const wire::FrameView& view,
                        const rte_mbuf* frame);
  void DeliverToMembers(DevicePort& port, const wire::Packet& packet, const rte_mbuf* frame);
  void Deliver(QueuePair& qp, rte_mbuf* copy);
  /// A copy that is not recorded again; null: counted.
  rte_mbuf* CopyFrame(DevicePort& port, const rte_mbuf& frame);
  /// Has members of the group on the sender's own device get what it sends.
  void LoopBack(QueuePair& qp, const transport::TxPacket& packet, const rte_mbuf& frame);

  // ---- worker_unreliable.cc: UC and UD ----
  bool ExecuteUnreliable(QueuePair& qp, const wire::Packet& packet, const wire::FrameView& view,
                         rte_mbuf* frame);
  /// Whether a datagram went to an address of the device.
  static bool IsForDevice(const DevicePort& port, const wire::Packet& packet,
                          const wire::FrameView& view);
  /// The headers of the path that a datagram takes; null: its address handle is not the queue
  /// pair's to use.
  static const wire::HeaderTemplate* TemplateOfDatagram(const QueuePair& qp,
                                                        const transport::TxPacket& packet);
  /// The bytes of a packet are in its frame. True: it is for this device itself.
  bool FinishUnreliable(QueuePair& qp, const transport::TxPacket& packet, rte_mbuf* frame);

  // ---- worker_record.cc: what captures are told ----
  /// Gives a received frame to the captures, with `note`.
  void Record(DevicePort& port, const rte_mbuf* frame);
  /// The same for a packet that the transport has had; `note` is completed by the result.
  /// `had_failed`: the queue pair was in error before. One that was kept is recorded when it comes,
  /// and again only if the queue pair fails by it.
  void RecordResult(QueuePair& qp, const wire::Packet& packet, transport::PacketResult result,
                    bool had_failed, const rte_mbuf* frame, Showing showing);
  void RecordUnreliable(QueuePair& qp, transport::ReceiveResult result, const rte_mbuf* frame);
  /// The same for a packet that the transport was not shown.
  void RecordBadState(QueuePair& qp, const rte_mbuf* frame);
  /// The same, with `note` as it is.
  void RecordWithFlight(QueuePair& qp, const rte_mbuf* frame);
  /// The same for a frame that waited behind `qp`, and is dropped for `reason`.
  void RecordAbandoned(QueuePair& qp, uint8_t reason, const rte_mbuf* frame);
  bool IsRecorded(const QueuePair& qp) const {
    return !taps.list.empty() || qp.flight() != nullptr;
  }
  void AddToFlight(QueuePair& qp, uint16_t direction, const rte_mbuf* frame,
                   const uroce_capture_note& its_note);
  /// `qp` went to error by itself: its flight is handed over when it has sent what it owes.
  void EndFlight(QueuePair& qp);
  void HandOverFlights();
  void HandOver(QueuePair& qp);

  // ---- worker_effects.cc: the transport's wishes ----
  /// True: done, or parked without need of `frame`. False: parked, and `frame` is the job's.
  bool StartEffect(QueuePair& qp, const transport::Effect& effect, const wire::Packet& packet,
                   rte_mbuf* frame);
  /// Whether the peer may do what `effect` checks before a message: of the whole of it.
  bool IsGranted(const QueuePair& qp, const transport::Effect& effect) const;
  /// `original`: of an atomic.
  void FinishEffect(QueuePair& qp, const transport::Effect& effect, MoveResult result,
                    uint64_t original);
  bool StartAtomic(QueuePair& qp, const transport::Effect& effect);

  // ---- worker_copies.cc: errands of the helper ----
  /// Parks `qp` until the helper has moved the copied pieces that come next.
  void SubmitCopy(QueuePair& qp, CopyJob::Kind kind);
  void TakePieces(QueuePair& qp);
  bool FinishCopies();
  void OnCopyDone(QueuePair& qp);
  void ContinueCopy(QueuePair& qp);
  void FinishParked(QueuePair& qp, MoveResult result);
  /// It is parked no more: does what has waited for that.
  void EndParking(QueuePair& qp);
  void TakeTurnBetweenCopies(QueuePair& qp);

  // ---- worker_ahead.cc: what an errand does for the packets after the one that it is for ----
  /// Adds payload of packets that wait to the errand of the packet before them.
  void PlaceAhead(QueuePair& qp);
  /// Whether the payload of packet `psn` was placed before, and `effect` is that.
  static bool IsPlaced(QueuePair& qp, const transport::Effect& effect, wire::Psn psn);
  /// Adds payload that the message sends next to the errand of a packet.
  void GatherAhead(QueuePair& qp);
  /// The payload of `packet` if it was gathered before, and its share of the CRC.
  bool TakeGathered(QueuePair& qp, const transport::TxPacket& packet, uint8_t* payload,
                    uint32_t& crc);
  /// Keeps what an errand has brought along.
  void KeepAhead(QueuePair& qp);
  static void DropGathered(QueuePair& qp, GatheredAhead& gathered);
  static void ForgetAhead(QueuePair& qp);

  // ---- worker_parked.cc: packets that wait for an errand ----
  bool KeepForLater(QueuePair& qp, rte_mbuf* frame);
  /// Whether another frame may wait for the helper of `qp`, where it has one.
  bool MayWait(QueuePair& qp) const;
  /// Drops and counts a packet that would have to wait.
  void DropWaiting(QueuePair& qp, const rte_mbuf* frame);
  void ReplayWaiting(QueuePair& qp);
  /// Has peers in the daemon wait while many packets wait behind `qp`, and go on when few do.
  void TendGate(QueuePair& qp);
  /// Whether the peer of `qp` is such a one that wants no packets now.
  bool IsPeerFull(const QueuePair& qp) const;
  /// Whether `qp` must not send now, since its peer is full or too much waits for its program. It
  /// is looked after when it may.
  bool IsHeld(QueuePair& qp);
  void HoldBack(QueuePair& qp);
  bool ReleaseHeld();
  /// Forgets what is under way at the helper and all that waits behind it.
  void AbandonParked(QueuePair& qp);

  // ---- worker_kept.cc: packets behind a hole ----
  /// False: there is no room, and the frame is the caller's still.
  bool Keep(QueuePair& qp, wire::Psn psn, rte_mbuf* frame);
  /// Executes kept packets whose turn has come.
  void ReplayKept(QueuePair& qp);
  void DropKept(QueuePair& qp);

  // ---- worker_windows.cc ----
  /// Executes the works of `qp` that bind windows or take keys back, as far as it is their turn.
  void ExecuteLocals(QueuePair& qp);
  /// Takes back the key that a message names, and ends its effect, now or after a wait.
  void InvalidateForPeer(QueuePair& qp, Rkey rkey);
  /// Whether somebody may be using the key that `qp` has taken back.
  bool MayStillUse(const QueuePair& qp, const WindowChange& change) const;
  bool EndKeyWaits();

  // ---- worker_transmit.cc ----
  bool Transmit();
  /// Sends the next answer that `qp` owes, where that is one packet. False: nothing was sent.
  bool Acknowledge(QueuePair& qp);
  /// Sends what is queued for one port: its stack's, other workers' and its own queue pairs'.
  bool ServePort(DevicePort& port);
  bool ServeQueuePairs(DevicePort& port);
  /// Sends what a stack has queued, to queue pair `destination` where it is RoCE.
  bool ServeLink(DevicePort& port, FrameLink& link, Qpn destination);
  enum class Sent : uint8_t { kPacket, kNothing, kHeld, kParked, kFailed, kNoFrame };
  /// Sends the next packet of `qp`; `bytes` is its size.
  Sent SendNext(QueuePair& qp, uint32_t& bytes);
  Sent Build(QueuePair& qp, const transport::TxPacket& packet, rte_mbuf* frame);
  void FinishFrame(QueuePair& qp, const transport::TxPacket& packet, rte_mbuf* frame, uint32_t crc);
  void FinishGather(QueuePair& qp, rte_mbuf* frame);
  rte_mbuf* TakeFrame(DevicePort& port);
  /// `qp` and its session have sent `bytes` of their share.
  void ChargeFor(QueuePair& qp, uint32_t bytes);
  void StopSending(QueuePair& qp);

  // ---- worker_settle.cc ----
  void Touch(QueuePair& qp);
  bool TakeDoorbells();
  bool TakeDoorbellsOf(WorkerSession& session);
  bool TakePostponed();
  bool TakePostponedOf(WorkerSession& session);
  bool Expire();
  void SettleAll();
  void Settle(QueuePair& qp);
  void PullPosted(QueuePair& qp);
  /// Has `qp` looked after in the next turn in which its program has a budget.
  void Postpone(QueuePair& qp);
  void ForgetPostponed(QueuePair& qp);
  /// Takes works of one queue, up to what the program's budget allows.
  template <typename Pull>
  PullResult PullWithinBudget(QueuePair& qp, uint32_t most, Pull&& pull);
  void PublishCompletions(QueuePair& qp);
  void Publish(QueuePair& qp, const transport::Completion& completion);
  /// Puts the queue pairs of now that complete on `ring` in error, some in each turn from the next
  /// on.
  void FailQueuePairsOf(CompletionRing& ring);
  bool FailQueuePairs();
  void Fail(QueuePair& qp);
  void FailCorrupt(QueuePair& qp, std::atomic<uint64_t>& counter);
  void FileTimer(QueuePair& qp);
  void FinishBursts();
  void WantRetry(QueuePair& qp);
  void WantRetry(CompletionRing& ring);
  void WantRetry(SharedReceiveQueue& queue);

  // ---- worker_sleep.cc ----
  void Sleep();
  bool AnnounceSleep();
  void AnnounceAwake();
  bool HasWork() const;
  Nanos SleepLimit() const;
  /// Parks programs that are still, and takes back those that have rung since.
  void TendSessions();
  void TakeBack(std::span<const int> written_fds);

  const WorkerConfig config;
  const KeyTable& keys;
  Clock clock;
  Nanos now;
  IdlePolicy idle;
  Sleeper sleeper;
  TimerWheel timers{Nanos(0)};
  QpnTable queue_pairs;
  Taps taps;
  Handover handover;
  std::vector<std::unique_ptr<DevicePort>> ports;
  WaitingFrames waiting_frames;
  KeptFramePool kept_frames;
  SessionList sessions;
  Nanos look_at{0};  // When to look next for parked programs that have come back.

  // Lists of one turn, with room for every queue pair.
  std::vector<QueuePair*> rung;  // First of each doorbell slot.
  std::vector<QueuePair*> touched;
  std::vector<QueuePair*> received;
  // Until the gates of their peers open, or their program may have another errand.
  std::vector<QueuePair*> held;
  size_t held_next = 0;  // Looked at first in the next turn.
  std::vector<CompletionRing*> bursts;
  std::vector<CompletionRing*> failing_rings;  // Each once.
  RecordRetries record_retries;
  std::vector<SharedReceiveQueue*> shared_queues;  // All of them: few, and asked for rarely.
  uint32_t postponed = 0;                          // Queue pairs of all programs.
  uint64_t turn = 0;

  std::array<rte_mbuf*, kBurst> stash{};  // Empty frames.
  uint32_t stash_count = 0;
  uint16_t identification = 0;
  const uint64_t multicast_copy = RegisterMulticastCopy();
  KeyWaits key_waits;
  std::vector<QueuePair*> ended_flights;
  uroce_capture_note note{};  // Of the frame at work.

  WorkerCounters own_counters;
  bool was_busy = false;

  std::thread thread;
  std::atomic<bool> running{false};
  std::atomic<bool> stop{false};
  std::atomic<bool> asleep{false};
  std::mutex run_mutex;
  Mailbox mailbox;
  /// What Hold posts.
  struct StandStill {
    void operator()() const {
      held.Release();
      released.Acquire();
    }
    mutable Baton held;
    mutable Baton released;
  };
  StandStill stand_still;
  absl::FunctionRef<void()> stand_still_request = stand_still;
};

}  // namespace uroce::datapath
