// SPDX-License-Identifier: Apache-2.0
// The works of a send queue, from Post until their completion is polled: their order, their PSNs,
// their progress and their failure; and the packets that each of them sends and receives.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "pipeline/transport/queue_pair_types.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {

/// A send work as the requester keeps it. One cache line, because each connection allocates a
/// whole ring of them, even an idle one.
struct alignas(64) HeldWork {
  uint64_t wr_id;
  uint64_t remote_va;
  uint64_t compare_add;
  uint64_t swap;
  uint32_t slot;
  uint32_t length_bytes;
  uint32_t immediate_or_rkey;  ///< Immediate bytes, or the key to invalidate.
  Rkey rkey;
  wire::Psn first_psn;  ///< Of its first packet; meaningful once begun.
  uint32_t packets;     ///< PSNs that it takes; meaningful once begun.
  WorkOpcode opcode;
  uint8_t traits;  ///< Bits of WorkTraits.
  bool signaled;
  bool solicited;
  uint32_t xrc_srqn;  ///< XRC: the SRQ at the target.

  bool executable() const { return Has(WorkTraits::kExecutable); }
  bool fence() const { return Has(WorkTraits::kFence); }
  bool is_read() const { return Has(WorkTraits::kRead); }
  bool is_atomic() const { return Has(WorkTraits::kAtomic); }
  bool is_atomic_write() const { return Has(WorkTraits::kAtomicWrite); }
  /// Whether the responder keeps a resource for the work, and only its own response completes it.
  bool is_read_or_atomic() const {
    return Has(WorkTraits::kRead | WorkTraits::kAtomic | WorkTraits::kAtomicWrite);
  }
  bool is_local() const { return Has(WorkTraits::kLocal); }
  bool takes_receive() const { return Has(WorkTraits::kTakesReceive); }
  /// True when the work needs only room in the window: no fence, receive work or resource.
  bool is_plain() const { return traits == WorkTraits::kExecutable; }

 private:
  /// Whether the work has at least one of the traits `of`.
  bool Has(uint8_t of) const { return (traits & of) != 0; }
};
static_assert(sizeof(HeldWork) == 64);

/// Storage of works under free-running indices, which wrap at 2^32.
template <typename Work>
class SendRing {
 public:
  /// `capacity` is a power of two.
  explicit SendRing(uint32_t capacity)
      : works_(std::make_unique_for_overwrite<Work[]>(capacity)), mask_(capacity - 1) {}

  uint32_t capacity() const { return mask_ + 1; }
  Work& At(uint32_t index) { return works_[index & mask_]; }
  const Work& At(uint32_t index) const { return works_[index & mask_]; }

 private:
  std::unique_ptr<Work[]> works_;
  uint32_t mask_;
};

/// The works of a send queue: their order, their PSNs and their progress.
/// Pure, owned by a Requester. Works lie in a ring under free-running indices, divided by marks:
///   reported_ <= done_ <= begun_ <= tail_
/// [reported_, done_) is complete and waits for PollCompletion; [done_, begun_) has PSNs and is
/// under way; [begun_, tail_) has not begun. `next_` in [done_, begun_] is the work whose packet
/// `next_psn_` is sent next: going back to resend moves these two and nothing else.
/// PSNs: una_ (oldest unacknowledged, in the work done_) .. next_psn_ .. high_psn_ (never sent).
/// A local work (window, invalidation) lies between them without a PSN: it counts as begun only
/// when it is done, and completes with the works before it.
class SendWorks {
 public:
  /// What an acknowledgement has done.
  struct Progress {
    uint32_t packets;  ///< PSNs acknowledged.
    bool blocked;      ///< A READ or atomic is in the way: only its response completes it.
  };

  /// `capacity` is a power of two.
  explicit SendWorks(uint32_t capacity) : ring_(capacity) {}

  // ---- state ----
  void SetMtu(PathMtu mtu) { mtu_ = mtu; }
  PathMtu mtu() const { return mtu_; }
  /// The first request carries `first`.
  void Start(wire::Psn first) { una_ = next_psn_ = high_psn_ = first; }
  /// Forgets all works.
  void Reset();

  // ---- the queue ----
  uint32_t room() const { return ring_.capacity() - (tail_ - reported_); }
  bool empty() const { return reported_ == tail_; }
  [[nodiscard]] PostResult Post(const SendWork& work);
  bool Holds(uint32_t slot) const;
  const HeldWork& At(uint32_t index) const { return ring_.At(index); }

  // ---- PSNs ----
  wire::Psn una() const { return una_; }
  wire::Psn next_psn() const { return next_psn_; }
  wire::Psn high_psn() const { return high_psn_; }
  uint32_t InFlight() const { return Distance(una_, next_psn_); }
  uint32_t Outstanding() const { return Distance(una_, high_psn_); }
  /// The packets that a window bounds: a READ counts as one, however many responses it has.
  uint32_t RequestsInFlight() const { return InFlight() - response_psns_; }
  /// Responses to READs that are asked for and have not come, and their bytes, at most.
  uint32_t ResponsesInFlight() const {
    return std::min(response_psns_ + reads_outstanding_, InFlight());
  }
  uint64_t ResponseBytesInFlight() const {
    return uint64_t{response_psns_} * mtu_.bytes() + last_bytes_;
  }
  /// READs and atomics under way.
  uint32_t reads_outstanding() const { return reads_outstanding_; }
  /// True when the next packet has been sent before.
  bool resends() const { return next_psn_ != high_psn_; }

  // ---- under way ----
  bool under_way() const { return done_ != begun_; }
  /// The oldest work that is not complete, and its index. Needs under_way() for its PSNs.
  const HeldWork& head() const { return ring_.At(done_); }
  uint32_t head_index() const { return done_; }
  /// The work under way that `psn` belongs to, not before the one at `from`.
  uint32_t IndexOf(wire::Psn psn, uint32_t from) const {
    uint32_t index = from;
    while (Distance(ring_.At(index).first_psn, psn) >= ring_.At(index).packets) ++index;
    return index;
  }
  const HeldWork& WorkOf(wire::Psn psn) const { return ring_.At(IndexOf(psn, done_)); }

  // ---- sending ----
  /// Works whose last packet has not left.
  uint32_t unsent() const { return tail_ - next_; }
  /// The work whose packet is next. Needs unsent().
  const HeldWork& next() const { return ring_.At(next_); }
  uint32_t next_index() const { return next_; }
  void PrefetchNext() const { __builtin_prefetch(&ring_.At(next_)); }
  /// True when the next packet is the first of its work, which has not begun.
  bool next_is_new() const { return next_ == begun_; }
  /// Gives the work next() its PSNs. Needs next_is_new().
  void Begin() {
    HeldWork& work = ring_.At(next_);
    work.first_psn = next_psn_;
    work.packets = work.is_atomic() ? 1 : mtu_.PacketsOf(work.length_bytes);
    if (work.is_read_or_atomic()) ++reads_outstanding_;
    ++begun_;
  }
  /// The packet at next_psn() leaves. It takes `packets` PSNs of `work`, which is next().
  void Advance(const HeldWork& work, uint32_t packets) {
    const bool is_new = next_psn_ == high_psn_;
    next_psn_ = next_psn_ + packets;
    if (is_new) high_psn_ = next_psn_;
    response_psns_ += packets - 1;
    if (work.is_read()) last_bytes_ += BytesOfLast(work);
    if (next_psn_ == work.first_psn + work.packets) EndNext();
  }
  /// The oldest work that has not begun, which is a local one, and its index.
  const HeldWork& local() const { return ring_.At(begun_); }
  uint32_t local_index() const { return begun_; }
  /// The local work local() is done.
  void EndLocal();
  /// Goes back: the oldest unacknowledged packet is sent next.
  void GoBack() {
    next_ = done_;
    next_psn_ = una_;
    response_psns_ = last_bytes_ = 0;
  }
  /// Goes back to the packet `psn`, which is in flight: it is sent next.
  void GoBackTo(wire::Psn psn);
  /// The packet `psn`, sent last, did not leave: it is sent next. `first`: it was never sent, so no
  /// acknowledgement may name its PSN. Returns the index of its work.
  uint32_t TakeBack(wire::Psn psn, bool first);

  // ---- answers ----
  /// Completes SENDs and WRITEs before `end`.
  Progress AcknowledgeBefore(wire::Psn end) {
    // Each response to a READ calls this.
    return end == una_ ? Progress{.packets = 0, .blocked = false} : AcknowledgeMore(end);
  }
  /// The response to the packet at una() has come.
  void TakeResponse() {
    const HeldWork& work = ring_.At(done_);
    una_ = una_ + 1;
    if (una_ == work.first_psn + work.packets) {
      Retire(work);
    } else if (response_psns_ != 0) {
      --response_psns_;
    }
  }
  /// Packets that were to be resent may have been acknowledged meanwhile: skips them.
  void SkipAcknowledged() {
    if (InFlight() > Outstanding()) GoBack();
  }

  // ---- completions ----
  bool has_completed() const { return reported_ != done_; }
  /// The oldest work that is complete. Needs has_completed().
  const HeldWork& TakeCompleted() { return ring_.At(reported_++); }
  /// Takes the oldest work, which is flushed. Needs !has_completed() and !empty().
  const HeldWork& TakeFlushed() {
    const HeldWork& work = ring_.At(reported_++);
    done_ = begun_ = next_ = reported_;
    return work;
  }

 private:
  /// The bytes of the last response to `work`, a READ that has begun.
  uint32_t BytesOfLast(const HeldWork& work) const {
    return work.length_bytes - mtu_.OffsetOf(work.packets - 1);
  }
  /// The whole work at next_ has left.
  void EndNext() {
    do {
      ++next_;
    } while (next_ != begun_ && ring_.At(next_).is_local());
  }
  /// AcknowledgeBefore, for an `end` behind una.
  Progress AcknowledgeMore(wire::Psn end);
  /// The oldest work is complete.
  void Retire(const HeldWork& work) {
    if (work.is_read_or_atomic()) {
      --reads_outstanding_;
      if (work.is_read()) last_bytes_ -= std::min(last_bytes_, BytesOfLast(work));
    }
    do {
      ++done_;
    } while (done_ != begun_ && ring_.At(done_).is_local());
  }

  SendRing<HeldWork> ring_;
  uint32_t reported_ = 0;
  uint32_t done_ = 0;
  uint32_t next_ = 0;
  uint32_t begun_ = 0;
  uint32_t tail_ = 0;
  wire::Psn una_;
  wire::Psn next_psn_;
  wire::Psn high_psn_;
  PathMtu mtu_;
  uint32_t reads_outstanding_ = 0;
  /// PSNs in flight that belong to READ responses, without one PSN for each READ.
  uint32_t response_psns_ = 0;
  uint32_t last_bytes_ = 0;  ///< Of the last responses to these READs: the others are full.
};

/// The failure of a send queue: which work fails, when, and with which status.
/// Completions come in posting order, and earlier works may still succeed. So a work that is found
/// unfit fails at the head: once all works before it are complete. Pure, owned by a Requester.
class HeadFailure {
 public:
  /// The work at `index` is to fail with `status` when it is the oldest. That work and later ones
  /// are not sent.
  void FailAtHead(uint32_t index, WcStatus status) {
    pending_ = true;
    index_ = index;
    status_ = status;
  }
  /// True when the work at `index` is to fail at the head.
  bool IsPendingAt(uint32_t index) const { return pending_ && index == index_; }
  /// The status of the work that is to fail. Meaningful while there is one.
  WcStatus pending_status() const { return status_; }

  /// The oldest work has failed: `failure` says how.
  void Fail(const Failure& failure) {
    failed_ = true;
    failure_ = failure;
    head_status_ = failure.status;
  }
  bool failed() const { return failed_; }
  /// How the oldest work failed. Meaningful once failed().
  const Failure& failure() const { return failure_; }
  /// The status of the next flushed work: the first is the failed work and gets its own status.
  WcStatus TakeStatus() { return std::exchange(head_status_, WcStatus::kWrFlushErr); }
  void Reset() {
    pending_ = failed_ = false;
    head_status_ = WcStatus::kWrFlushErr;
  }

 private:
  bool pending_ = false;
  bool failed_ = false;
  WcStatus status_ = WcStatus::kSuccess;
  WcStatus head_status_ = WcStatus::kWrFlushErr;
  uint32_t index_ = 0;
  Failure failure_;
};

// How much a requester may ask for by READs, where the receive buffer of its port is small.

/// What responses to READs, `packets` of them with `bytes` of data, take of a receive buffer.
/// Linux counts the memory of a packet and not its bytes. Measured (6.18, veth and tap): 832 bytes
/// for a datagram of 60 bytes, 2304 for 1084, 8448 for 4156, so twice the bytes and 1 KB at most. A
/// superframe takes little more than its bytes (59,016 for one of 58,184). uroce NICs that have
/// agreed to selective repeat send superframes.
constexpr uint64_t ReceiveBufferBytes(uint64_t bytes, uint32_t packets, bool selective) {
  constexpr uint64_t kHeaderBytes = 24;  // BTH, AETH or pad, ICRC.
  constexpr uint64_t kPerPacket = 1024;
  constexpr uint64_t kPerPacketOfSuperframe = 256;
  const uint64_t sent = bytes + kHeaderBytes * packets;
  return selective ? sent + kPerPacketOfSuperframe * packets : 2 * sent + kPerPacket * packets;
}

/// The receive buffer that READs of one requester may still fill. Without a limit it costs a READ
/// one comparison.
class ReadAllowance {
 public:
  static constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

  bool is_limited() const { return left_bytes_ != kUnlimited; }
  uint64_t left_bytes() const { return left_bytes_; }
  void Set(uint64_t bytes) { left_bytes_ = bytes; }

  bool Covers(uint64_t bytes) const { return bytes <= left_bytes_; }
  /// A request for that leaves.
  void Take(uint64_t bytes) {
    if (is_limited()) left_bytes_ -= std::min(left_bytes_, bytes);
  }

 private:
  uint64_t left_bytes_ = kUnlimited;
};

// The request packets of a send work, and the effect on memory of the responses to them. Inline,
// because each packet calls it (docs/protocol/transport.md, sections 3.1 and 3.2).

/// Splits SENDs and WRITEs of reliable and unreliable connections into packets: fills in packet
/// `index` of a SEND or WRITE `work`, except PSN, AckReq, immediate data and the key to invalidate.
/// Opcodes are those of reliable connections. Returns true for the last packet. Source:
/// docs/protocol/transport.md, section 3.1, steps 1 and 5.
template <typename Work>
bool FillMessagePacket(const Work& work, PathMtu mtu, uint32_t index, TxPacket& packet) {
  const uint32_t offset = mtu.OffsetOf(index);
  const uint32_t remaining = work.length_bytes - offset;
  const bool last = remaining <= mtu.bytes();
  const uint32_t size = mtu.Take(remaining);
  wire::TransportHeader& header = packet.header;
  header.opcode = MessageOpcode(work.opcode, index == 0, last);
  header.solicited = last && work.solicited && work.opcode != WorkOpcode::kWrite;
  if (index == 0 && IsWrite(work.opcode)) {
    header.reth.va = work.remote_va;
    header.reth.rkey = work.rkey;
    header.reth.length_bytes = work.length_bytes;
  }
  packet.payload_source = size == 0 ? TxPacket::Source::kNone : TxPacket::Source::kSend;
  packet.local = {.slot = work.slot, .offset_bytes = offset, .length_bytes = size};
  packet.following_bytes = remaining - size;
  return last;
}

// ---- requests of a reliable connection (docs/protocol/transport.md, section 3.1) ----

/// One in this many packets of a long message asks for an ACK, so that the window moves before
/// the message ends.
inline constexpr uint32_t kAckRequestInterval = 32;
inline constexpr uint32_t kAtomicBytes = 8;

/// Whether packet `index` of a message asks for an ACK although others follow it.
constexpr bool AsksWithin(uint32_t index) {
  return index % kAckRequestInterval == kAckRequestInterval - 1;
}

namespace internal {

inline uint32_t FillMessage(const HeldWork& work, PathMtu mtu, uint32_t sent, TxPacket& packet) {
  const bool last = FillMessagePacket(work, mtu, sent, packet);
  wire::TransportHeader& header = packet.header;
  header.ack_request = last || AsksWithin(sent);
  header.immediate = work.immediate_or_rkey;
  header.invalidate_rkey = Rkey(work.immediate_or_rkey);
  return 1;
}

inline uint32_t FillRead(const HeldWork& work, PathMtu mtu, uint32_t sent, TxPacket& packet) {
  // A resent READ asks for the rest from its first missing packet on (docs/protocol/transport.md,
  // section 3.4).
  const uint32_t offset = mtu.OffsetOf(sent);
  wire::TransportHeader& header = packet.header;
  header.opcode = wire::Opcode::kReadRequest;
  header.solicited = false;
  header.ack_request = true;
  header.reth = {
      .va = work.remote_va + offset, .rkey = work.rkey, .length_bytes = work.length_bytes - offset};
  packet.payload_source = TxPacket::Source::kNone;
  return work.packets - sent;
}

inline uint32_t FillAtomic(const HeldWork& work, TxPacket& packet) {
  const bool swaps = work.opcode == WorkOpcode::kCompareSwap;
  wire::TransportHeader& header = packet.header;
  header.opcode = swaps ? wire::Opcode::kCompareSwap : wire::Opcode::kFetchAdd;
  header.solicited = false;
  header.ack_request = true;
  header.atomic = {.va = work.remote_va,
                   .rkey = work.rkey,
                   .swap_add = swaps ? work.swap : work.compare_add,
                   .compare = swaps ? work.compare_add : 0};
  packet.payload_source = TxPacket::Source::kNone;
  return 1;
}

inline uint32_t FillAtomicWrite(const HeldWork& work, TxPacket& packet) {
  wire::TransportHeader& header = packet.header;
  header.opcode = wire::Opcode::kAtomicWrite;
  header.solicited = false;
  header.ack_request = true;
  header.reth = {.va = work.remote_va, .rkey = work.rkey, .length_bytes = kAtomicBytes};
  packet.payload_source = TxPacket::Source::kSend;
  packet.local = {.slot = work.slot, .offset_bytes = 0, .length_bytes = kAtomicBytes};
  packet.following_bytes = 0;
  return 1;
}

}  // namespace internal

/// Fills in the packet at `psn` of `work`, except the fields of a retransmission. AckReq is set
/// where the work itself asks for it. Returns how many PSNs the packet takes. Inline, because each
/// packet calls it.
inline uint32_t FillRequest(const HeldWork& work, PathMtu mtu, wire::Psn psn, TxPacket& packet) {
  packet.header.psn = psn;
  packet.header.xrc_srqn = work.xrc_srqn;
  const uint32_t sent = Distance(work.first_psn, psn);
  if (!work.is_read_or_atomic()) return internal::FillMessage(work, mtu, sent, packet);
  if (work.is_read()) return internal::FillRead(work, mtu, sent, packet);
  return work.is_atomic() ? internal::FillAtomic(work, packet)
                          : internal::FillAtomicWrite(work, packet);
}

/// Fills in a request for a part of a READ: only the `packets` responses from `psn` on, or as many
/// as are left. Returns how many PSNs it takes.
inline uint32_t FillPartOfRead(const HeldWork& work, PathMtu mtu, wire::Psn psn, uint32_t packets,
                               TxPacket& packet) {
  const uint32_t asked = std::min(packets, FillRequest(work, mtu, psn, packet));
  uint32_t& length_bytes = packet.header.reth.length_bytes;
  length_bytes = std::min(length_bytes, asked * mtu.bytes());
  return asked;
}

// ---- responses to READs and atomics (docs/protocol/transport.md, section 3.2) ----

namespace internal {

/// How the payload of a READ response fits the rest of its READ. FIRST and MIDDLE are accepted
/// alike, because some peers begin a replayed READ with FIRST and others continue with MIDDLE.
/// ONLY and LAST are accepted alike too.
enum class ResponseFit : uint8_t { kFits, kWrongOpcode, kWrongLength };

inline ResponseFit FitOf(wire::Opcode opcode, size_t size, uint32_t remaining, uint32_t mtu_bytes) {
  const wire::Opcode operation = wire::OperationOf(opcode);
  const bool more = operation == wire::Opcode::kReadResponseFirst ||
                    operation == wire::Opcode::kReadResponseMiddle;
  if (more != (remaining > mtu_bytes)) return ResponseFit::kWrongOpcode;
  return size == (more ? mtu_bytes : remaining) ? ResponseFit::kFits : ResponseFit::kWrongLength;
}

}  // namespace internal

/// Whether an AETH is a positive acknowledgement.
inline bool IsAck(const wire::Aeth& aeth) {
  return (aeth.syndrome & wire::kSyndromeKindMask) == wire::kSyndromeAck;
}

/// Whether a data response is of the kind that `work` expects, and no NAK.
inline bool IsAnswer(const wire::TransportHeader& header, const HeldWork& work) {
  const wire::Opcode operation = wire::OperationOf(header.opcode);
  const bool has_aeth = operation != wire::Opcode::kReadResponseMiddle;
  if (has_aeth && !IsAck(header.aeth)) return false;
  if (operation == wire::Opcode::kAtomicAcknowledge) return work.is_atomic();
  return work.is_read() || work.is_atomic_write();
}

/// Fills in the effect of a response to `work`. Needs IsAnswer. Returns the status of the work.
inline WcStatus PlaceResponse(const HeldWork& work, PathMtu mtu, const wire::Packet& packet,
                              Effect& effect) {
  const wire::TransportHeader& header = packet.header;
  if (work.is_atomic()) {
    effect.kind = Effect::Kind::kPlaceOriginal;
    effect.local = {.slot = work.slot, .offset_bytes = 0, .length_bytes = 8};
    effect.value = header.atomic_original;
    return WcStatus::kSuccess;
  }
  const uint32_t offset = mtu.OffsetOf(Distance(work.first_psn, header.psn));
  // The answer to an ATOMIC WRITE is that of a READ of no bytes.
  const uint32_t remaining = work.is_read() ? work.length_bytes - offset : 0;
  const size_t size = packet.payload.size();
  switch (internal::FitOf(header.opcode, size, remaining, mtu.bytes())) {
    case internal::ResponseFit::kWrongLength:
      return WcStatus::kLocLenErr;
    case internal::ResponseFit::kWrongOpcode:
      return WcStatus::kBadRespErr;
    case internal::ResponseFit::kFits:
      break;
  }
  if (size == 0) return WcStatus::kSuccess;
  effect.kind = Effect::Kind::kPlaceSend;
  effect.local = {
      .slot = work.slot, .offset_bytes = offset, .length_bytes = static_cast<uint32_t>(size)};
  return WcStatus::kSuccess;
}

}  // namespace uroce::transport
