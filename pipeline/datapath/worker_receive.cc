// SPDX-License-Identifier: Apache-2.0
// From a frame to the transport of its queue pair, or to a counter.
#include <rte_mbuf.h>
#include <rte_prefetch.h>

#include <algorithm>
#include <cstring>

#include "pipeline/datapath/notes.h"
#include "pipeline/datapath/received_frame.h"
#include "pipeline/datapath/worker_impl.h"
#include "pipeline/wire/gsi.h"
#include "pipeline/wire/icrc.h"

namespace uroce::datapath {
namespace {

using transport::PacketResult;
using transport::QpState;

// What one packet may take of the transport's room for completions: its own, and a flushed one.
constexpr uint32_t kReceiveRoomKept = 2;

void Prefetch(const rte_mbuf* frame) {
  const uint8_t* bytes = rte_pktmbuf_mtod(frame, const uint8_t*);
  rte_prefetch0(bytes);
  rte_prefetch0(bytes + 64);
}

/// Where the queue pair's number stands in a frame of the usual kind. A hint: nothing is checked.
Qpn PeekQpn(const rte_mbuf* frame) {
  constexpr uint32_t kIpv4Offset = 14 + 20 + 8 + 5;
  constexpr uint32_t kIpv6Offset = 14 + 40 + 8 + 5;
  const uint8_t* bytes = rte_pktmbuf_mtod(frame, const uint8_t*);
  if (frame->data_len < kIpv6Offset + 4 + 3) return Qpn();
  if (bytes[12] == 0x81) bytes += 4;  // 802.1Q.
  bytes += bytes[12] == 0x08 ? kIpv4Offset : kIpv6Offset;
  return Qpn(uint32_t{bytes[0]} << 16 | uint32_t{bytes[1]} << 8 | bytes[2]);
}

/// Fetches for the frames of a burst, some frames ahead, what each needs: its headers, its place in
/// the table, its queue pair and what that points to. Each step needs the one before it. Of a burst
/// of one there is nothing to fetch ahead.
class LookAhead {
 public:
  LookAhead(const QpnTable& table, rte_mbuf* const* frames, uint32_t count)
      : table_(table), frames_(frames), count_(count > 1 ? count : 0) {
    if (count_ == 0) return;
    for (uint32_t at = 0; at < std::min(count_, kHeaders); ++at) Prefetch(frames_[at]);
    for (uint32_t at = 0; at < std::min(count_, kNumbers); ++at) FindNumber(at);
    for (uint32_t at = 0; at < std::min(count_, kQueuePairs); ++at) FindQueuePair(at);
  }

  /// Before the frame at `at` is worked on.
  void Step(uint32_t at) {
    if (at + kHeaders < count_) Prefetch(frames_[at + kHeaders]);
    if (at + kNumbers < count_) FindNumber(at + kNumbers);
    if (at + kQueuePairs < count_) FindQueuePair(at + kQueuePairs);
    if (at + 1 >= count_) return;
    const QueuePair* const next = found_[(at + 1) % kRing];
    if (next != nullptr) next->PrefetchReceive();
  }

 private:
  static constexpr uint32_t kHeaders = 8;
  static constexpr uint32_t kNumbers = 6;
  static constexpr uint32_t kQueuePairs = 4;
  static constexpr uint32_t kRing = 8;

  void FindNumber(uint32_t at) {
    const Qpn number = PeekQpn(frames_[at]);
    numbers_[at % kRing] = number.value();
    table_.Prefetch(number);
  }
  void FindQueuePair(uint32_t at) {
    const uint32_t number = numbers_[at % kRing];
    const bool is_known = at > 0 && number == numbers_[(at - 1) % kRing];
    const QueuePair* const found = is_known ? nullptr : table_.Find(Qpn(number));
    found_[at % kRing] = found;
    if (found != nullptr) found->Prefetch();
  }

  const QpnTable& table_;
  rte_mbuf* const* const frames_;
  const uint32_t count_;
  // Of the frames ahead; not cleared, since most bursts are short.
  std::array<uint32_t, kRing> numbers_;
  std::array<const QueuePair*, kRing> found_;
};

void CountUndecoded(DeviceCounters& counters, wire::DecodeClass kind) {
  switch (kind) {
    case wire::DecodeClass::kOk:
      return;
    case wire::DecodeClass::kNotRoce:
      Count(counters.rx_not_roce);
      return;
    case wire::DecodeClass::kMalformed:
      Count(counters.rx_malformed);
      return;
    case wire::DecodeClass::kUnknownOpcode:
      Count(counters.rx_bad_opcode);
      return;
  }
}

// The transport counts per queue pair; here is what it leaves to the device.
void CountResult(DeviceCounters& counters, PacketResult result) {
  switch (result) {
    case PacketResult::kAccepted:
    case PacketResult::kDuplicate:
    case PacketResult::kOutOfSequence:
    case PacketResult::kKept:
    case PacketResult::kReceiverNotReady:
    case PacketResult::kNak:
      return;
    case PacketResult::kGhost:
      Count(counters.rx_ghost);
      return;
    case PacketResult::kBadState:
      Count(counters.rx_bad_state);
      return;
    case PacketResult::kMalformed:
      Count(counters.rx_malformed);
      return;
  }
}

bool IsSame(const Gid& a, const Gid& b) {
  uint64_t halves[4];
  memcpy(halves, a.bytes.data(), 16);
  memcpy(halves + 2, b.bytes.data(), 16);
  return ((halves[0] ^ halves[2]) | (halves[1] ^ halves[3])) == 0;
}

// Source and destination are those of the connection, and the tag is that of its path.
bool IsFromPeer(const Path& path, const wire::Packet& packet, const wire::FrameView& view) {
  return IsSame(packet.source, path.destination) && IsSame(packet.destination, path.source) &&
         ((view.vlan_tci ^ path.vlan_tci) & kVlanIdMask) == 0;
}

}  // namespace

bool Worker::Impl::Receive() {
  bool any = false;
  std::array<rte_mbuf*, 2 * kBurst> frames;
  for (const auto& port : ports) {
    const uint16_t count = port->Receive(frames.data(), now);
    if (count == 0) continue;
    any = true;
    LookAhead ahead(queue_pairs, frames.data(), count);
    uint16_t done = 0;  // Frames to free: kept ones are left out.
    for (uint16_t i = 0; i < count; ++i) {
      ahead.Step(i);
      rte_mbuf* const frame = frames[i];
      if (!OnFrame(*port, frame)) frames[done++] = frame;
    }
    rte_pktmbuf_free_bulk(frames.data(), done);
    if (port->device().host_link != nullptr) port->device().host_link->Flush();
  }
  if (handover.workers() != 1) any |= TakeHandedOver();
  return any;
}

bool Worker::Impl::TakeHandedOver() {
  std::array<rte_mbuf*, 2 * kBurst> frames;
  const uint16_t count = handover.Take(frames.data(), static_cast<uint16_t>(frames.size()));
  Count(own_counters.taken_over, count);
  LookAhead ahead(queue_pairs, frames.data(), count);
  uint16_t done = 0;
  for (uint16_t i = 0; i < count; ++i) {
    ahead.Step(i);
    DevicePort& port = *ports[Handover::PositionOf(*frames[i])];
    if (!OnFrame(port, frames[i])) frames[done++] = frames[i];
    if (port.device().host_link != nullptr) port.device().host_link->Flush();
  }
  rte_pktmbuf_free_bulk(frames.data(), done);
  // Those that came in here for others have gone in the meantime.
  handover.WakeTakers();
  return count != 0;
}

bool Worker::Impl::HandOver(DevicePort& port, rte_mbuf* frame, uint32_t to) {
  if (handover.Give(to, port.position(), frame)) {
    Count(own_counters.handed_over);
    return true;
  }
  Count(port.counters().rx_handover_full);
  note.reason = UROCE_REASON_HANDOVER_FULL;
  Record(port, frame);
  return false;
}

bool Worker::Impl::OnFrame(DevicePort& port, rte_mbuf* frame) {
  wire::Packet packet;
  wire::FrameView view;
  const wire::DecodeResult decoded = wire::Decode(BytesOf(*frame), packet, view);
  if (decoded != wire::DecodeResult::kOk) {
    HostLink* const host = port.device().host_link;
    note = {};
    const uint32_t server = port.device().host_worker();
    if (host != nullptr && server != config.index &&
        host->Wants(decoded, BytesOf(*frame), port.device().mac)) {
      return HandOver(port, frame, server);
    }
    if (host == nullptr || !host->Offer(decoded, BytesOf(*frame), port.device().mac)) {
      CountUndecoded(port.counters(), wire::ClassOf(decoded));
      note = NoteOf(decoded);
    }
    Record(port, frame);
    return false;
  }
  note = NoteOf(packet);
  if (packet.header.dest_qpn == kMulticastQpn && (view.destination[0] & 1) != 0) [[unlikely]] {
    OnMulticast(port, packet, view, frame);
    return false;
  }
  const uint32_t owner = handover.OwnerOf(packet.header.dest_qpn);
  if (owner != config.index && view.destination == port.device().mac) {
    return HandOver(port, frame, owner);
  }
  QueuePair* qp = Steer(port, packet, view, frame);
  if (qp == nullptr) {
    Record(port, frame);
    return false;
  }
  ++qp->traffic().received_packets;
  qp->traffic().received_bytes += frame->data_len;
  return ExecuteOrKeep(*qp, packet, view, frame);
}

bool Worker::Impl::ExecuteOrKeep(QueuePair& qp, const wire::Packet& packet,
                                 const wire::FrameView& view, rte_mbuf* frame) {
  if (qp.is_parked()) return KeepForLater(qp, frame);
  if (!packet.payload.empty() && !MayWait(qp)) [[unlikely]] {
    DropWaiting(qp, frame);
    return false;
  }
  return Execute(qp, packet, view, frame);
}

// Checks in the order of docs/protocol/transport.md, section 4.1, step 1; the ICRC last, because it
// costs most.
QueuePair* Worker::Impl::Steer(DevicePort& port, const wire::Packet& packet,
                               const wire::FrameView& view, const rte_mbuf* frame) {
  DeviceCounters& counters = port.counters();
  const auto drop = [this](std::atomic<uint64_t>& counter, uint8_t reason,
                           uint8_t detail = 0) -> QueuePair* {
    Count(counter);
    note.reason = reason;
    note.detail = detail;
    return nullptr;
  };
  if (view.destination != port.device().mac) {
    note = {};  // Its queue pair and its mark are another device's.
    return drop(counters.rx_not_roce, UROCE_REASON_NOT_ROCE);
  }
  if (packet.congestion_experienced) Count(counters.rx_ecn_marked);
  if (packet.header.opcode == wire::Opcode::kCnp) {
    return drop(counters.rx_cnp_ignored, UROCE_REASON_CNP_IGNORED);
  }
  QueuePair* const qp = queue_pairs.Find(packet.header.dest_qpn);
  if (qp == nullptr || qp->links().port != &port) {
    if (packet.header.dest_qpn == wire::kGsiQpn && port.device().gsi_link != nullptr) {
      ReceiveGsi(port, packet, view, frame);
      return nullptr;
    }
    return drop(counters.rx_unknown_qpn, UROCE_REASON_UNKNOWN_QPN);
  }
  if (ServiceOf(packet.header.opcode) != qp->core().service()) {
    return drop(counters.rx_bad_opcode, UROCE_REASON_BAD_OPCODE);
  }
  if (!TakesPackets(qp->state())) {
    return drop(counters.rx_bad_state, UROCE_REASON_BAD_STATE, static_cast<uint8_t>(qp->state()));
  }
  if (!IsOurPkey(packet.header.pkey)) {
    return drop(counters.rx_bad_pkey, UROCE_REASON_BAD_PKEY);
  }
  const bool is_addressed = qp->core().is_datagram() ? IsForDevice(port, packet, view)
                                                     : IsFromPeer(qp->path(), packet, view);
  if (!is_addressed) {
    return drop(counters.rx_bad_address, UROCE_REASON_BAD_ADDRESS);
  }
  if (!wire::IcrcIsRight(BytesOf(*frame), view)) {
    return drop(counters.rx_icrc_encapsulated, UROCE_REASON_BAD_ICRC);
  }
  return qp;
}

bool Worker::Impl::GiveReceive(QueuePair& qp, const wire::TransportHeader& header) {
  if (qp.is_target() && !SelectQueue(qp, header)) [[unlikely]]
    return true;
  return !qp.core().NeedsReceive(header) || qp.PullReceive() != PullResult::kCorrupt;
}

bool Worker::Impl::Execute(QueuePair& qp, const wire::Packet& packet, const wire::FrameView& view,
                           rte_mbuf* frame, Showing showing) {
  if (!qp.links().received) {
    qp.links().received = true;
    received.push_back(&qp);
  }
  Touch(qp);
  // A burst may complete more receives than the transport keeps.
  if (qp.core().receive_room() <= kReceiveRoomKept) PublishCompletions(qp);
  if (!GiveReceive(qp, packet.header)) {
    qp.links().corrupt_receive = true;
    FailCorrupt(qp, qp.links().port->counters().rq_corrupt);
    if (IsRecorded(qp)) RecordBadState(qp, frame);
    return false;
  }
  if (!qp.core().is_reliable()) return ExecuteUnreliable(qp, packet, view, frame);
  const bool had_failed = qp.core().state() == QpState::kErr;
  transport::Effect effect;
  PacketResult result = qp.core().reliable().OnPacket(packet, now, effect);
  CountResult(qp.links().port->counters(), result);
  const bool kept =
      effect.kind != transport::Effect::Kind::kNone && !StartEffect(qp, effect, packet, frame);
  if (result == PacketResult::kKept && !kept) result = PacketResult::kOutOfSequence;
  if (IsRecorded(qp)) RecordResult(qp, packet, result, had_failed, frame, showing);
  if (showing == Showing::kFirst && qp.core().HasKept()) [[unlikely]]
    ReplayKept(qp);
  return kept;
}

}  // namespace uroce::datapath
