// SPDX-License-Identifier: Apache-2.0
// Frames in the hands of a worker: a received frame with its packet and addresses, a stock of empty
// frames, and the report of each frame to counters, tracers and captures.
#pragma once

#include <rte_debug.h>
#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>

#include "pipeline/base/observation.h"
#include "pipeline/base/types.h"
#include "pipeline/datapath/device/device.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/thread/scheduling.h"
#include "pipeline/port/frames.h"
#include "pipeline/port/superframes.h"
#include "pipeline/shm/abi/uroce_capture.h"
#include "pipeline/transport/rc_queue_pair.h"
#include "pipeline/wire/decode.h"
#include "pipeline/wire/packet.h"

namespace uroce::datapath {

/// Marks frames of direct_delivery.h whose payload is not in them: it lies where the program that
/// sends it has it, in memory that the daemon maps. The worker copies it in the same turn, since
/// the memory stays mapped until then. A marked frame has its length, and room for its payload.
/// Code that keeps it longer, or shows its bytes, fills the payload in first.
class PayloadReference {
 public:
  PayloadReference() : offset_(Register()) {}

  bool IsSet(const rte_mbuf& frame) const { return flag_.IsSet(frame); }
  /// The payload of `frame` begins `offset_bytes` behind its start.
  void Set(rte_mbuf& frame, uint32_t offset_bytes, std::span<const uint8_t> payload) const {
    flag_.Set(frame);
    FieldOf(frame) = {payload.data(), static_cast<uint16_t>(offset_bytes),
                      static_cast<uint16_t>(payload.size())};
  }
  /// The payload of a marked frame.
  std::span<const uint8_t> PayloadOf(const rte_mbuf& frame) const {
    const Field& field = FieldOf(frame);
    return {field.bytes, field.length_bytes};
  }
  /// Where a marked frame has room for its payload.
  uint8_t* RoomOf(const rte_mbuf& frame) const {
    return rte_pktmbuf_mtod_offset(&frame, uint8_t*, FieldOf(frame).offset_bytes);
  }
  /// Copies the payload into a marked frame, and leaves the mark.
  void Fill(const rte_mbuf& frame) const {
    if (!IsSet(frame)) return;
    const std::span<const uint8_t> payload = PayloadOf(frame);
    uint8_t* const room = RoomOf(frame);
    uint8_t* const end = rte_pktmbuf_mtod_offset(&frame, uint8_t*, frame.data_len);
    std::memcpy(room, payload.data(), payload.size());
    std::fill(room + payload.size(), end, uint8_t{0});  // The pad, and room for the ICRC.
  }
  /// Removes the mark.
  void Clear(rte_mbuf& frame) const { flag_.Clear(frame); }
  /// Copies the payload into the frame, which is like any other from then on.
  void Settle(rte_mbuf& frame) const {
    Fill(frame);
    flag_.Clear(frame);
  }

 private:
  struct Field {
    const uint8_t* bytes;
    uint16_t offset_bytes;
    uint16_t length_bytes;
  };

  static int Register() {
    constexpr rte_mbuf_dynfield kField{
        .name = "uroce_payload", .size = sizeof(Field), .align = alignof(Field), .flags = 0};
    const int offset = rte_mbuf_dynfield_register(&kField);
    RTE_VERIFY(offset >= 0);
    return offset;
  }
  Field& FieldOf(rte_mbuf& frame) const { return *RTE_MBUF_DYNFIELD(&frame, offset_, Field*); }
  const Field& FieldOf(const rte_mbuf& frame) const {
    return *RTE_MBUF_DYNFIELD(&frame, offset_, const Field*);
  }

  const drivers::FrameFlag flag_{"uroce_payload_reference"};
  const int offset_;
};

// A received frame is in an mbuf, which is always one segment.

/// The bits of a tag that hold the VLAN; 0: no VLAN (docs/protocol/wire-format.md, section 1).
constexpr uint16_t kVlanIdMask = 0xfff;

inline std::span<const uint8_t> BytesOf(const rte_mbuf& frame) {
  return {rte_pktmbuf_mtod(&frame, const uint8_t*), frame.data_len};
}

/// Decodes a frame again that was decoded and checked when it came. False: it cannot be decoded
/// this time.
inline bool DecodeAgain(const rte_mbuf& frame, wire::Packet& packet, wire::FrameView& view) {
  return wire::Decode(BytesOf(frame), packet, view) == wire::DecodeResult::kOk;
}

/// Does the same for a frame whose payload may lie elsewhere.
inline bool DecodeAgain(const rte_mbuf& frame, const PayloadReference& references,
                        wire::Packet& packet, wire::FrameView& view) {
  if (!DecodeAgain(frame, packet, view)) return false;
  if (references.IsSet(frame)) packet.payload = references.PayloadOf(frame);
  return true;
}

/// Marks the copies of multicast packets that workers give each other. A frame with it is a copy of
/// a packet that captures have seen and all workers were given.
class MulticastMark : public drivers::FrameFlag {
 public:
  MulticastMark() : FrameFlag("uroce_multicast_copy") {}
};

// Whether a packet's partition and addresses are those that a queue pair expects.

/// Whether `pkey` matches 0xffff, the only P_Key of the table; the top bit is the kind of
/// membership (docs/protocol/wire-format.md, section 6).
constexpr bool IsOurPkey(uint16_t pkey) { return (pkey & 0x7fff) == 0x7fff; }

/// Compares two words at a time: every packet is checked.
inline bool IsSame(const Gid& a, const Gid& b) {
  uint64_t halves[4];
  std::memcpy(halves, a.bytes.data(), 16);
  std::memcpy(halves + 2, b.bytes.data(), 16);
  return ((halves[0] ^ halves[2]) | (halves[1] ^ halves[3])) == 0;
}

/// Whether source and destination are those of the connection, and the tag is that of its path.
inline bool IsFromPeer(const Path& path, const wire::Packet& packet, const wire::FrameView& view) {
  return IsSame(packet.source, path.destination) && IsSame(packet.destination, path.source) &&
         ((view.vlan_tci ^ path.vlan_tci) & kVlanIdMask) == 0;
}

/// Whether a datagram is for an address of the device. Any sender passes: the Q_Key decides.
inline bool IsForDevice(const Device& device, const wire::Packet& packet,
                        const wire::FrameView& view) {
  return std::ranges::any_of(device.addresses, [&](const Device::Address& address) {
    return address.gid == packet.destination && address.vlan_id == (view.vlan_tci & kVlanIdMask);
  });
}

/// Empty frames that a worker has taken from its pool in advance. Takes frames from a pool a burst
/// at a time. One thread.
class FrameStash {
 public:
  explicit FrameStash(rte_mempool* pool) : pool_(pool) {}
  ~FrameStash() { rte_pktmbuf_free_bulk(frames_.data(), count_); }
  FrameStash(const FrameStash&) = delete;
  FrameStash& operator=(const FrameStash&) = delete;

  /// Returns an empty frame. Null: the pool is empty, which `counters` count.
  rte_mbuf* Take(DeviceCounters& counters) {
    if (count_ == 0 && !Fill(counters)) return nullptr;
    return frames_[--count_];
  }
  /// Copies a frame, to be sent or received once more. Null: no frame is free or large enough.
  rte_mbuf* Copy(const rte_mbuf& frame, DeviceCounters& counters) {
    rte_mbuf* const copy = Take(counters);
    if (copy == nullptr) return nullptr;
    if (frame.data_len > rte_pktmbuf_tailroom(copy)) {
      Return(copy);
      Count(counters.no_buffer);
      return nullptr;
    }
    std::memcpy(rte_pktmbuf_mtod(copy, uint8_t*), rte_pktmbuf_mtod(&frame, const uint8_t*),
                frame.data_len);
    copy->data_len = frame.data_len;
    copy->pkt_len = frame.data_len;
    pending_.Inherit(*copy, frame);
    return copy;
  }
  /// Takes back a frame that Take returned, and that no other code has.
  void Return(rte_mbuf* frame) {
    if (drivers::LongBuffers::IsLent(*frame)) [[unlikely]]
      rte_pktmbuf_detach(frame);
    frames_[count_++] = frame;
  }

 private:
  bool Fill(DeviceCounters& counters) {
    if (rte_pktmbuf_alloc_bulk(pool_, frames_.data(), kBurst) != 0) {
      Count(counters.no_buffer);
      return false;
    }
    count_ = kBurst;
    return true;
  }

  rte_mempool* const pool_;
  const drivers::PendingIcrc pending_;
  std::array<rte_mbuf*, kBurst> frames_{};
  uint32_t count_ = 0;
};

// What becomes of each packet, told in one place to counters, tracers, packet histories and
// captures.

/// Whether a frame is shown to the transport for the first time, or again after it was kept.
enum class Showing : uint8_t { kFirst, kAgain };

/// One event for each packet: what became of it. Counters, tracers, the packet history of its queue
/// pair and captures learn of it here, and who is not there costs a branch at most. Owns the
/// captures of a worker, and the annotation of the received frame at work. Order of calls for such
/// a frame: Begin, then what becomes known of it, then one of OnResult, OnBadState and Record. One
/// thread.
class FrameRecorder {
 public:
  explicit FrameRecorder(TurnTime& time) : taps_(time.clock()) {}

  // ---- captures ----
  /// The captures, for ports, which record what they send.
  Taps& taps() { return taps_; }
  void AddTap(CaptureTap* tap) { taps_.list.push_back(tap); }
  void RemoveTap(CaptureTap* tap);
  void BeginTurn() {
    if (!taps_.list.empty()) taps_.BeginTurn();
  }

  // ---- the received frame at work ----
  /// Begins a frame: nothing is known of it, or it holds `packet`.
  void Begin() { annotation_ = {}; }
  void Begin(const wire::Packet& packet) {
    annotation_ = {};
    annotation_.flags = packet.congestion_experienced ? UROCE_NOTE_MARKED : 0;
    annotation_.qpn = packet.header.dest_qpn.value();
    annotation_.psn = packet.header.psn.value();
  }
  /// `reason` is UROCE_REASON_*; the meaning of `detail` depends on it.
  void SetReason(uint8_t reason, uint8_t detail = 0) {
    annotation_.reason = reason;
    annotation_.detail = detail;
  }
  /// The rate of the queue pair after the frame, in Mb/s.
  void SetRate(uint32_t mbps) { annotation_.rate_mbps = mbps; }

  // ---- received frames that no transport is shown ----
  /// The frame is dropped, which `counter` counts. Returns false.
  bool Drop(std::atomic<uint64_t>& counter, uint8_t reason, uint8_t detail = 0) {
    Count(counter);
    return DropUncounted(reason, detail);
  }
  /// Does the same for a frame that its receiver counts.
  bool DropUncounted(uint8_t reason, uint8_t detail = 0) {
    SetReason(reason, detail);
    probes::Drop(annotation_.qpn, annotation_.psn, annotation_.reason, annotation_.detail);
    return false;
  }
  /// Drops a frame that is not a packet, as `result` says, and that no other receiver takes.
  void DropUndecoded(DeviceCounters& counters, wire::DecodeResult result);
  /// Gives the frame to the captures.
  void Record(DevicePort& port, const rte_mbuf* frame) {
    if (taps_.list.empty() || mark_.IsSet(*frame)) return;
    references_.Fill(*frame);
    pending_.Fill(*frame);
    taps_.Add(port.device().index(), UROCE_CAPTURE_INBOUND, frame, annotation_);
  }
  /// A frame that waited behind `qp` is dropped for `reason`.
  void OnAbandoned(QueuePair& qp, uint8_t reason, const rte_mbuf* frame);

  // ---- packets that a transport is shown ----
  /// A packet of `qp` has come.
  static void OnReceived(const QueuePair& qp, const wire::Packet& packet) {
    probes::Receive(qp.qpn().value(), packet.header.psn.value(),
                    static_cast<uint32_t>(packet.header.opcode),
                    static_cast<uint32_t>(packet.payload.size()));
  }
  /// `packets` packets have come, of which `first` is the first one: see SegmentRun.
  static void OnReceived(const QueuePair& qp, const wire::Packet& first, uint32_t packets) {
    for (uint32_t i = 0; i < packets; ++i) {
      probes::Receive(qp.qpn().value(), (first.header.psn + i).value(),
                      static_cast<uint32_t>(first.header.opcode),
                      static_cast<uint32_t>(first.payload.size()));
    }
  }
  /// The transport of `qp` has answered `result`. `had_failed`: the queue pair was in error before.
  /// A kept packet is recorded when it comes, and again only if it makes the queue pair fail.
  void OnResult(QueuePair& qp, const wire::Packet& packet, transport::PacketResult result,
                bool had_failed, const rte_mbuf* frame, Showing showing) {
    if (packet.header.opcode == wire::Opcode::kAcknowledge) {
      TraceAcknowledgement(qp, packet.header, /*is_sent=*/false);
    }
    if (result != transport::PacketResult::kAccepted) [[unlikely]] {
      OnNotAccepted(qp, packet, result);
    }
    if (IsRecorded(qp)) RecordResult(qp, packet, result, had_failed, frame, showing);
  }
  /// Does the same for a packet of a UC or UD queue pair.
  void OnResult(QueuePair& qp, const wire::Packet& packet, transport::ReceiveResult result,
                const rte_mbuf* frame) {
    if (result != transport::ReceiveResult::kAccepted) [[unlikely]] {
      OnNotAccepted(qp, packet, result);
    }
    if (IsRecorded(qp)) RecordUnreliable(qp, result, frame);
  }
  /// The transport of `qp` was not shown the packet after all: the receive queue is corrupt.
  void OnBadState(QueuePair& qp, const wire::Packet& packet, const rte_mbuf* frame);

  // ---- sent frames ----
  /// Whether the packets of `qp` are recorded at all.
  bool IsRecorded(const QueuePair& qp) const {
    return !taps_.list.empty() || qp.history() != nullptr;
  }
  /// A packet of `qp` is in `frame`, to be sent. Returns what captures are to say of it.
  uroce_capture_note OnSent(QueuePair& qp, const transport::TxPacket& packet,
                            const rte_mbuf* frame) {
    Trace(qp, packet, frame->data_len);
    return IsRecorded(qp) ? AnnotateSent(qp, packet, frame) : uroce_capture_note{};
  }
  /// Tells tracers of `packets` packets behind `packet`: see TxRun.
  static void TraceRun(const QueuePair& qp, const transport::TxPacket& packet, uint32_t packets,
                       uint32_t frame_bytes) {
    for (uint32_t i = 1; i <= packets; ++i) {
      probes::Send(qp.qpn().value(), (packet.header.psn + i).value(),
                   static_cast<uint32_t>(packet.header.opcode), frame_bytes);
    }
  }
  /// Tells tracers of a packet that is sent as a frame of `frame_bytes`.
  static void Trace(const QueuePair& qp, const transport::TxPacket& packet, uint32_t frame_bytes) {
    const wire::TransportHeader& header = packet.header;
    probes::Send(qp.qpn().value(), header.psn.value(), static_cast<uint32_t>(header.opcode),
                 frame_bytes);
    if (packet.retransmission) [[unlikely]] {
      probes::Retransmit(qp.qpn().value(), header.psn.value(),
                         static_cast<uint32_t>(packet.resend.cause), packet.resend.number);
    }
    if (header.opcode == wire::Opcode::kAcknowledge) {
      TraceAcknowledgement(qp, header, /*is_sent=*/true);
    }
  }

 private:
  /// For an acknowledgement or NAK that `qp` sends or has received.
  static void TraceAcknowledgement(const QueuePair& qp, const wire::TransportHeader& header,
                                   bool is_sent) {
    const uint8_t syndrome = header.aeth.syndrome;
    if ((syndrome & wire::kSyndromeKindMask) == wire::kSyndromeAck) {
      probes::Ack(qp.qpn().value(), header.psn.value(), header.aeth.msn, is_sent);
    } else {
      probes::Nak(qp.qpn().value(), header.psn.value(), syndrome, is_sent);
    }
  }
  /// Counts the packet and tells tracers.
  static void OnNotAccepted(const QueuePair& qp, const wire::Packet& packet,
                            transport::PacketResult result);
  static void OnNotAccepted(const QueuePair& qp, const wire::Packet& packet,
                            transport::ReceiveResult result);
  void RecordResult(QueuePair& qp, const wire::Packet& packet, transport::PacketResult result,
                    bool had_failed, const rte_mbuf* frame, Showing showing);
  void RecordUnreliable(QueuePair& qp, transport::ReceiveResult result, const rte_mbuf* frame);
  void RecordWithHistory(QueuePair& qp, const rte_mbuf* frame);
  /// Adds the packet to the history of `qp`, where it has one.
  uroce_capture_note AnnotateSent(QueuePair& qp, const transport::TxPacket& packet,
                                  const rte_mbuf* frame);
  void AddToHistory(QueuePair& qp, uint16_t direction, const rte_mbuf* frame,
                    const uroce_capture_note& annotation);

  const MulticastMark mark_;
  const drivers::PendingIcrc pending_;
  const PayloadReference references_;
  Taps taps_;
  uroce_capture_note annotation_{};
};

}  // namespace uroce::datapath
