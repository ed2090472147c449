// SPDX-License-Identifier: Apache-2.0
// Gives admitted packets to the transport of their queue pair, at once or when it is their turn,
// and continues queue pairs that had to wait.
#include "pipeline/datapath/worker/packet_executor.h"

#include <rte_mbuf.h>

#include <cassert>
#include <cstring>
#include <tuple>
#include <utility>

#include "pipeline/datapath/queue/payload.h"
#include "pipeline/datapath/queue/session.h"
#include "pipeline/datapath/worker/frame.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/decode.h"

namespace uroce::datapath {
namespace {

using transport::Effect;
using transport::PacketResult;
using transport::QpState;
using transport::ReceiveResult;
using transport::SrqAccess;

static_assert(transport::kGrhAreaBytes == std::tuple_size_v<decltype(wire::GrhArea({}, {}))>);

// Completions that one packet may need room for: its own, and one that is flushed.
constexpr uint32_t kReceiveRoomKept = 2;
// The most packets of one queue pair that are replayed at a time: the others wait meanwhile.
constexpr int kMaxReplayed = 64;

// Writes the GRH area over the headers: those from Ethernet to DETH are longer than the area.
void PutGrhArea(const wire::Packet& packet, const wire::FrameView& view, rte_mbuf* frame) {
  const auto area = wire::GrhArea(BytesOf(*frame), view);
  auto* const start = rte_pktmbuf_mtod(frame, uint8_t*);
  const auto headers = static_cast<size_t>(packet.payload.data() - start);
  assert(headers >= area.size());
  std::memcpy(start + headers - area.size(), area.data(), area.size());
}

}  // namespace

bool PacketExecutor::GiveReceive(QueuePair& qp, const wire::TransportHeader& header) {
  return !qp.core().NeedsReceive(header) || qp.works().PullReceive() != PullResult::kCorrupt;
}

bool PacketExecutor::ExecuteReliable(QueuePair& qp, const wire::Packet& packet, SrqAccess srq,
                                     rte_mbuf* frame, Showing showing) {
  const bool had_failed = qp.core().state() == QpState::kErr;
  Effect effect;
  PacketResult result = qp.core().reliable().OnPacket(packet, context_.time.now(), effect, srq);
  const bool kept =
      effect.kind != Effect::Kind::kNone && !context_.effects.Start(qp, effect, packet, frame);
  if (result == PacketResult::kKept && !kept) result = PacketResult::kOutOfSequence;
  context_.recorder.OnResult(qp, packet, result, had_failed, frame, showing);
  if (showing == Showing::kFirst) ReplayKept(qp);
  return kept;
}

// Packet histories and captures want each packet.
bool PacketExecutor::ReceiveRun(QueuePair& qp, const wire::Packet& first,
                                const wire::SegmentRun& run, uint32_t frame_bytes) {
  if (!qp.core().is_reliable() || qp.is_waiting() || context_.recorder.IsRecorded(qp)) return false;
  if (!context_.waiting_packets.MayWait(qp)) return false;
  Effect effect;
  if (!qp.core().reliable().PlanRun(first, run.packets, effect)) return false;
  if (!context_.effects.PlaceRun(qp, effect, first.payload, run)) return false;
  qp.core().reliable().CommitRun(first, run.packets, run.asks_for_ack, context_.time.now());
  qp.traffic().received_packets += run.packets;
  qp.traffic().received_bytes += uint64_t{run.packets} * frame_bytes;
  context_.ready.AddReceived(qp);
  context_.ready.Touch(qp);
  FrameRecorder::OnReceived(qp, first, run.packets);
  return true;
}

bool PacketExecutor::Execute(QueuePair& qp, const wire::Packet& packet, const wire::FrameView& view,
                             rte_mbuf* frame, Showing showing) {
  context_.ready.AddReceived(qp);
  context_.ready.Touch(qp);
  if (showing == Showing::kFirst) FrameRecorder::OnReceived(qp, packet);
  // The packets of a burst may complete more receives than the transport keeps.
  if (qp.core().receive_room() <= kReceiveRoomKept) context_.states.PublishCompletions(qp);
  SrqAccess srq = SrqAccess::kGranted;
  if (qp.receive_source().is_target()) [[unlikely]]
    srq = SelectQueue(qp, packet.header);
  if (srq == SrqAccess::kGranted && !GiveReceive(qp, packet.header)) {
    context_.states.FailCorrupt(qp, FailureCause::kReceiveQueue);
    context_.recorder.OnBadState(qp, packet, frame);
    return false;
  }
  if (!qp.core().is_reliable()) return ExecuteUnreliable(qp, packet, view, frame);
  return ExecuteReliable(qp, packet, srq, frame, showing);
}

// Unreliable packets are not answered, and a datagram's header area is placed with its payload.
bool PacketExecutor::ExecuteUnreliable(QueuePair& qp, const wire::Packet& packet,
                                       const wire::FrameView& view, rte_mbuf* frame) {
  Effect effect;
  const ReceiveResult result = qp.core().OnUnreliablePacket(packet, effect);
  // Recorded before the effect, which writes over the headers of a datagram.
  context_.recorder.OnResult(qp, packet, result, frame);
  if (effect.kind == Effect::Kind::kNone) return false;
  if (effect.grh_area) {
    PutGrhArea(packet, view, frame);
    effect.local.offset_bytes -= transport::kGrhAreaBytes;
    effect.local.length_bytes += transport::kGrhAreaBytes;
  }
  return !context_.effects.Start(qp, effect, packet, frame);
}

void PacketExecutor::ReplaySomeKept(QueuePair& qp) {
  wire::Psn psn;
  for (int replayed = 0; replayed < kMaxReplayed; ++replayed) {
    if (qp.is_waiting()) return;
    if (!context_.waiting_packets.MayWait(qp)) return context_.held.Add(qp);
    if (!qp.core().reliable().PollKept(psn)) return;
    rte_mbuf* const frame = context_.kept_frames.Take(qp.kept(), qp.program().frames, psn);
    if (frame == nullptr) continue;  // A hostile peer put one READ's responses within another's.
    ExecuteAgain(qp, frame, Showing::kAgain);
  }
  if (qp.core().reliable().HasKept()) context_.ready.Postpone(qp);
}

void PacketExecutor::ReplayWaiting(QueuePair& qp) {
  while (!qp.is_waiting()) {
    rte_mbuf* const frame = context_.waiting_packets.Take(qp);
    if (frame == nullptr) break;
    ExecuteAgain(qp, frame, Showing::kFirst);
  }
  context_.waiting_packets.TendGate(qp);
}

void PacketExecutor::ExecuteAgain(QueuePair& qp, rte_mbuf* frame, Showing showing) {
  wire::Packet packet;
  wire::FrameView view;
  const bool decoded = DecodeAgain(*frame, references_, packet, view);
  context_.recorder.Begin(packet);
  if (!decoded || !Execute(qp, packet, view, frame, showing)) rte_pktmbuf_free(frame);
}

// The request names the shared queue, and so the receives, keys and completion queue. The queue may
// go while the target lives. The transport sees that one message keeps to one queue.
SrqAccess PacketExecutor::SelectQueue(QueuePair& qp, const wire::TransportHeader& header) {
  // A response is dropped: a target sends no requests.
  const bool granted =
      transport::IsResponse(header.opcode) || qp.receive_source().Select(header.xrc_srqn);
  return granted ? SrqAccess::kGranted : SrqAccess::kDenied;
}

void Resumption::FinishCopy(QueuePair& qp, MoveResult result) {
  if (qp.EndWait() == WaitKind::kGather) {
    context_.transmitter.FinishGather(qp, result);
  } else {
    WaitingWork& waiting = qp.waiting();
    rte_mbuf* const frame = std::exchange(waiting.job->frame, nullptr);
    context_.effects.Finish(qp, waiting.effect, result, waiting.job->original);
    if (frame != nullptr) rte_pktmbuf_free(frame);
    if (qp.is_waiting()) return;  // It waits for the end of a key.
  }
  GoOn(qp);
}

// Any packet that waits may make `qp` wait again when it is replayed. So `qp` sends one packet
// before: its own packets must not wait for the last of them, because its peer resends what is not
// acknowledged in time, and gives up.
void Resumption::GoOn(QueuePair& qp) {
  context_.ready.Touch(qp);
  context_.states.ApplyPending(qp);
  if (qp.waiting().oldest != nullptr) context_.transmitter.SendOne(qp);
  context_.executor.ReplayKept(qp);
  context_.executor.ReplayWaiting(qp);
}

}  // namespace uroce::datapath
