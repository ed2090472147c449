// SPDX-License-Identifier: Apache-2.0
// What a responder remembers between two packets: the message that is arriving, the acknowledgement
// that it owes, and the READs and atomics that it has answered or is answering. Beside the credits
// that it grants are those that its requester has (SendCredits).
#pragma once

#include <array>
#include <cassert>
#include <cstdint>
#include <memory>

#include "pipeline/base/types.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {

// Completions of the receive queue that wait for the shell's poll.

/// The most receive completions that may wait. The shell polls after each burst; a message that
/// would need one more is refused as if there were no receive work.
inline constexpr uint32_t kMaxReceiveCompletions = 64;

/// First in, first out, of fixed size.
class ReceiveCompletions {
 public:
  uint32_t room() const { return kMaxReceiveCompletions - (tail_ - head_); }
  void Push(const Completion& completion) {
    assert(room() != 0);
    if (room() != 0) entries_[tail_++ % kMaxReceiveCompletions] = completion;
  }
  [[nodiscard]] bool Poll(Completion& completion) {
    if (head_ == tail_) return false;
    completion = entries_[head_++ % kMaxReceiveCompletions];
    return true;
  }
  void Clear() { head_ = tail_ = 0; }

 private:
  // In front of the entries, on a cache line that packets without a completion read anyway.
  uint32_t head_ = 0;
  uint32_t tail_ = 0;
  std::array<Completion, kMaxReceiveCompletions> entries_;
};

/// The SEND or WRITE that is arriving.
///
/// It holds at most one message and one receive work, which belongs to the message or waits for
/// one. Each packet goes through Take, Check, Place (whose effect the shell carries out) and
/// Commit.
class InboundMessage {
 public:
  // ---- the receive work ----
  bool has_receive() const { return has_receive_; }
  const ReceiveWork& receive() const { return receive_; }
  void PostReceive(const ReceiveWork& work);
  /// Ends the receive work, with success or an error, and returns its completion.
  Completion End(WcStatus status, WcOpcode opcode, uint32_t length_bytes);

  // ---- the message ----
  bool in_send() const { return kind_ == RequestShape::Kind::kSend; }
  /// Whether a packet of this shape may come now (docs/protocol/transport.md, section 4.1, step 3).
  bool Continues(const RequestShape& shape) const {
    return shape.first ? kind_ == RequestShape::Kind::kUnknown : kind_ == shape.kind;
  }
  /// Gives up the message. Its receive work waits for the next message.
  void Abandon() { kind_ = RequestShape::Kind::kUnknown; }
  void Clear();

  // ---- one packet ----
  /// Whether the packet names the SRQ that its message named.
  bool NamesSameSrq(const wire::TransportHeader& header) const {
    return kind_ == RequestShape::Kind::kUnknown || header.xrc_srqn == xrc_srqn_;
  }
  /// Records the packet's fields; a FIRST or ONLY begins the message. Needs Continues().
  void Take(const wire::Packet& packet, const RequestShape& shape);
  const RequestShape& shape() const { return shape_; }
  bool solicited() const { return solicited_; }
  /// Why the packet does not fit its message, its receive work or the path MTU; kNone when it fits.
  /// Source: docs/protocol/transport.md, section 4.1, step 6; docs/protocol/wire-format.md,
  /// section 5.
  Refusal Check(PathMtu mtu) const;
  /// Undoes Take: the packet is not executed now, and will come again.
  void PutBack() {
    if (shape_.first) Abandon();
  }
  /// Fills in the packet's effect on memory. Leaves `effect` unchanged when there is none.
  void Place(Effect& effect) const;
  /// Fills in an effect that only checks whether the rest of the WRITE may be written.
  void CheckKey(Effect& effect) const;
  /// Counts the packet, which was executed.
  void Commit();
  /// Several MIDDLE packets with `bytes` of payload in all, in place of Take, Check and Place.
  /// False: they do not fit the message or its receive work, and `effect` is unchanged. Needs
  /// Continues().
  [[nodiscard]] bool PlaceRun(uint32_t bytes, Effect& effect) const;
  /// Counts those packets, which were executed.
  void CommitRun(uint32_t bytes) { received_bytes_ += bytes; }
  /// Whether the packet executed last ends a receive work, so that Complete() must follow.
  bool completes() const {
    return shape_.last && (shape_.kind == RequestShape::Kind::kSend || shape_.immediate);
  }
  /// The completion of the message that has just ended.
  Completion Complete();

 private:
  Refusal CheckSend() const;
  Refusal CheckWrite() const;

  RequestShape::Kind kind_ = RequestShape::Kind::kUnknown;  ///< kUnknown: between messages.
  bool has_receive_ = false;
  ReceiveWork receive_;
  // A SEND uses received_bytes_ alone; a WRITE also uses total_bytes_, va_ and rkey_.
  uint32_t received_bytes_ = 0;
  uint32_t total_bytes_ = 0;
  uint64_t va_ = 0;
  Rkey rkey_;
  // The fields of the packet that Take has recorded.
  RequestShape shape_;
  bool solicited_ = false;
  uint32_t size_bytes_ = 0;
  uint32_t immediate_or_rkey_ = 0;
  uint32_t xrc_srqn_ = 0;  ///< The SRQ that the message named.
};

// Every packet calls these. Out of line they take a tenth of the time of a 64-byte WRITE.

inline void InboundMessage::Take(const wire::Packet& packet, const RequestShape& shape) {
  assert(Continues(shape));
  const wire::TransportHeader& header = packet.header;
  shape_ = shape;
  solicited_ = header.solicited;
  size_bytes_ = static_cast<uint32_t>(packet.payload.size());
  immediate_or_rkey_ = shape.invalidate ? header.invalidate_rkey.value() : header.immediate;
  if (!shape.first) return;
  kind_ = shape.kind;
  xrc_srqn_ = header.xrc_srqn;
  received_bytes_ = 0;
  if (kind_ != RequestShape::Kind::kWrite) return;
  total_bytes_ = header.reth.length_bytes;
  va_ = header.reth.va;
  rkey_ = header.reth.rkey;
}

inline Refusal InboundMessage::Check(PathMtu mtu) const {
  const bool longest = size_bytes_ == mtu.bytes();
  const bool fits_place = shape_.last ? size_bytes_ <= mtu.bytes() : longest;
  // A LAST that ends a longer message carries at least one byte.
  const bool empty_rest = shape_.last && !shape_.first && size_bytes_ == 0;
  if (kind_ == RequestShape::Kind::kWrite && total_bytes_ > kMaxMessageBytes)
    return Refusal::kMessageLength;
  if (!fits_place || empty_rest) return Refusal::kPayloadLength;
  return kind_ == RequestShape::Kind::kWrite ? CheckWrite() : CheckSend();
}

inline Refusal InboundMessage::CheckSend() const {
  const bool fits = size_bytes_ <= receive_.length_bytes - received_bytes_;
  return fits ? Refusal::kNone : Refusal::kReceiveLength;
}

inline Refusal InboundMessage::CheckWrite() const {
  const uint32_t remaining = total_bytes_ - received_bytes_;
  const bool fits = shape_.last ? size_bytes_ == remaining : size_bytes_ < remaining;
  return fits ? Refusal::kNone : Refusal::kPayloadLength;
}

inline void InboundMessage::Place(Effect& effect) const {
  if (kind_ == RequestShape::Kind::kWrite) {
    // Keys of empty messages are not checked (docs/protocol/transport.md, section 5).
    if (size_bytes_ == 0) return;
    CheckKey(effect);
    effect.kind = Effect::Kind::kPlaceRemote;
    return;
  }
  if (size_bytes_ == 0 && !shape_.invalidate) return;
  effect.kind = size_bytes_ == 0 ? Effect::Kind::kInvalidate : Effect::Kind::kPlaceReceive;
  effect.local = {
      .slot = receive_.slot, .offset_bytes = received_bytes_, .length_bytes = size_bytes_};
  effect.invalidate = shape_.invalidate;
  effect.grh_area = false;
  effect.invalidate_rkey = Rkey(immediate_or_rkey_);
}

inline void InboundMessage::CheckKey(Effect& effect) const {
  effect.kind = Effect::Kind::kCheckRemote;
  effect.access = Access::kRemoteWrite;
  // Assigned field by field: copying a temporary in one piece stalls on the smaller stores to it.
  effect.remote.rkey = rkey_;
  effect.remote.va = va_ + received_bytes_;
  effect.remote.length_bytes = size_bytes_;
  effect.remote.xrc_srqn = xrc_srqn_;
  effect.check_length_bytes = total_bytes_ - received_bytes_;
}

inline bool InboundMessage::PlaceRun(uint32_t bytes, Effect& effect) const {
  if (kind_ == RequestShape::Kind::kWrite) {
    if (bytes >= total_bytes_ - received_bytes_) return false;
    CheckKey(effect);
    effect.kind = Effect::Kind::kPlaceRemote;
    effect.remote.length_bytes = bytes;
    return true;
  }
  if (bytes > receive_.length_bytes - received_bytes_) return false;
  effect.kind = Effect::Kind::kPlaceReceive;
  effect.local = {.slot = receive_.slot, .offset_bytes = received_bytes_, .length_bytes = bytes};
  effect.invalidate = effect.grh_area = false;
  return true;
}

inline void InboundMessage::Commit() {
  received_bytes_ += size_bytes_;
  if (shape_.last) kind_ = RequestShape::Kind::kUnknown;
}

// Acknowledgements and credits: what a responder owes beside the replies to READs and atomics (an
// ACK, a NAK, a map of the packets that it keeps), and how its credits limit the messages that a
// requester begins (docs/protocol/transport.md, section 2).

// End-to-end credits: a responder tells how many receive works it has, and its requester limits
// the messages that it begins by that number (docs/protocol/transport.md, section 2).

/// Receive works that credit codes 0 .. 30 stand for (docs/protocol/wire-format.md, section 4).
inline constexpr std::array<uint16_t, 31> kCreditValues = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,  192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

/// The largest code that does not promise more than `receives`.
constexpr uint8_t CreditCode(uint32_t receives) {
  uint8_t code = kCreditValues.size() - 1;
  while (kCreditValues[code] > receives) --code;
  return code;
}

/// The requester's side. Messages have numbers (SSN): the message that the responder counts as its
/// n-th has number n. There is no limit before the first credits arrive, or when none are sent.
class SendCredits {
 public:
  /// An acknowledgement with the responder's message count and credit code came.
  void OnAck(uint32_t msn, uint8_t code) {
    if (code >= kCreditValues.size()) {
      limited_ = false;
      return;
    }
    const uint32_t limit = msn + kCreditValues[code];
    // Acknowledgements can overtake each other: an older one does not lower the limit.
    if (!limited_ || Since(limit, limit_) > 0) limit_ = limit;
    limited_ = true;
  }
  void OnMessageBegun() { ++next_; }

  // ---- the credit probe: one message may begin beyond the credits ----
  /// Whether a message that takes a receive work may begin.
  bool MayBegin() const { return !probing_ || Covers(); }
  /// The next message begins with the packet `first`, although the credits do not cover it. The
  /// answer to that packet carries new credits.
  void BeginProbe(wire::Psn first) {
    probing_ = true;
    probe_psn_ = first;
  }
  /// Whether `psn` is the packet that was sent without credit.
  bool IsProbe(wire::Psn psn) const { return probing_ && psn == probe_psn_; }
  /// True when a message from `first` on, whose next packet is `next`, waits for that answer.
  bool AwaitsProbe(wire::Psn first, wire::Psn next) const {
    return IsProbe(first) && next != first;
  }
  /// All packets before `una` are acknowledged.
  void OnAcknowledged(wire::Psn una) {
    if (probing_ && una.Since(probe_psn_) > 0) probing_ = false;
  }

  /// Whether the next message may count on a receive work.
  bool Covers() const { return !limited_ || Since(limit_, next_) >= 0; }

 private:
  /// The distance from b to a. Message numbers have 24 bits and are circular.
  static constexpr int32_t Since(uint32_t a, uint32_t b) {
    return static_cast<int32_t>((a - b) << 8);
  }
  uint32_t next_ = 1;
  uint32_t limit_ = 0;
  bool limited_ = false;
  bool probing_ = false;  ///< The answer to probe_psn_ has not come.
  wire::Psn probe_psn_;
};

/// For OfferCredits: send no credits. RNR NAKs tell the requester that a receive work is missing.
inline constexpr uint32_t kNoCredits = UINT32_MAX;

/// What a responder owes beside the replies to READs and atomics, and the AETH of all its answers.
/// At most one of each kind is due, because an acknowledgement covers all packets before its PSN.
/// Pure, owned by a Responder, which knows their order.
class Acknowledgements {
 public:
  /// The first request must carry `expected`.
  void Start(wire::Psn expected) { executed_ = expected - 1; }
  void Reset() { *this = {}; }

  // ---- the AETH ----
  void CountMessage() { msn_ = (msn_ + 1) & 0xffffff; }
  /// Sets the number of receive works that acknowledgements report; kNoCredits: none is reported.
  void OfferCredits(uint32_t receives) { offered_receives_ = receives; }
  /// `at_hand`: the responder holds a receive work. That work counts too, because its message is
  /// not in the MSN yet (docs/protocol/transport.md, section 2).
  wire::Aeth Aeth(bool at_hand) const {
    const uint32_t receives = offered_receives_ + (at_hand ? 1 : 0);
    const uint8_t credits =
        offered_receives_ == kNoCredits ? wire::kCreditsUnlimited : CreditCode(receives);
    return {.syndrome = static_cast<uint8_t>(wire::kSyndromeAck | credits), .msn = msn_};
  }
  wire::Aeth AethOfNak() const { return {.syndrome = nak_syndrome_, .msn = msn_}; }

  // ---- ACK ----
  /// The packet `psn` of a SEND or WRITE was executed. `asks`: it asks for an acknowledgement.
  void OnExecuted(wire::Psn psn, bool asks) {
    executed_ = psn;
    ack_due_ |= asks;
  }
  void OweAck() { ack_due_ = true; }
  void DropAck() { ack_due_ = false; }
  bool owes_ack() const { return ack_due_; }
  /// The newest packet of a SEND or WRITE that was executed.
  wire::Psn executed() const { return executed_; }

  // ---- NAK ----
  void OweNak(wire::Psn psn, uint8_t syndrome) {
    nak_due_ = gap_reported_ = true;
    nak_psn_ = psn;
    nak_syndrome_ = syndrome;
  }
  void DropNak() { nak_due_ = false; }
  void MoveNak(wire::Psn psn) { nak_psn_ = psn; }
  bool owes_nak() const { return nak_due_; }
  wire::Psn nak_psn() const { return nak_psn_; }
  /// Whether the newest NAK reported a gap: it refused no request.
  bool is_nak_of_gap() const { return nak_syndrome_ == wire::kNakSequence; }
  /// Whether a NAK was sent for ePSN: no further one is, until EndGap.
  bool gap_reported() const { return gap_reported_; }
  void EndGap() { gap_reported_ = false; }

  // ---- map: a selective acknowledgement ----
  void OweMap(bool due) { map_due_ = due; }
  bool owes_map() const { return map_due_; }

  /// Drops the ACK and the NAK.
  void Drop() { ack_due_ = nak_due_ = false; }
  bool owes_any() const { return nak_due_ || ack_due_ || map_due_; }

 private:
  wire::Psn executed_;
  wire::Psn nak_psn_;
  uint32_t msn_ = 0;
  uint32_t offered_receives_ = kNoCredits;
  uint8_t nak_syndrome_ = 0;
  bool ack_due_ = false;
  bool nak_due_ = false;
  bool gap_reported_ = false;
  bool map_due_ = false;
};

// The READs and atomics that a responder remembers: those whose reply it owes, and those whose
// reply it may have to repeat (docs/protocol/transport.md, section 4.3).

/// One READ or atomic that was executed.
struct ResponderResource {
  /// The answer to an ATOMIC WRITE is that of a READ of no bytes.
  enum class Kind : uint8_t { kRead, kAtomic, kAtomicWrite };

  wire::Psn first_psn;
  uint32_t packets = 1;
  wire::Psn reply_psn;        ///< Next response to send while `owed`, except repeats.
  wire::Psn repeat_psn;       ///< Next response to repeat while `repeats` is not 0.
  uint32_t repeats = 0;       ///< Responses to repeat before the reply goes on at reply_psn.
  uint32_t length_bytes = 0;  ///< READ.
  uint64_t va = 0;            ///< READ.
  uint64_t original = 0;      ///< Atomic: the value before the operation.
  Rkey rkey;
  uint32_t xrc_srqn = 0;  ///< READ.
  Kind kind = Kind::kRead;
  bool owed = false;      ///< A reply is under way.
  bool opens = false;     ///< The next response is the first of this reply.
  bool answered = false;  ///< A whole reply was sent at least once.

  wire::Psn next_psn() const { return repeats != 0 ? repeat_psn : reply_psn; }
  wire::Psn end_psn() const { return first_psn + packets; }
};

/// The newest READs and atomics, in PSN order. A new one overwrites the oldest. Replies leave in
/// PSN order, repeated ones too.
class ResponderResources {
 public:
  explicit ResponderResources(uint32_t capacity);

  void SetLimit(uint32_t limit);
  void Clear() { oldest_ = cursor_ = tail_ = owed_ = 0; }
  /// Whether another request may come: an entry is free, or the oldest one was answered.
  bool HasRoom() const;
  /// Takes a new request and owes its reply. Needs HasRoom().
  void Add(const ResponderResource& resource);
  /// The resource whose PSNs include `psn`, or null.
  ResponderResource* Find(wire::Psn psn);
  /// Owes the reply to `resource` again, from `psn` on.
  void Replay(ResponderResource& resource, wire::Psn psn);
  /// Owes `packets` responses to `resource` again, from `psn` on. Responses that were not sent yet
  /// follow anyway. Repeats that are asked for one after the other are joined to one range.
  void Repeat(ResponderResource& resource, wire::Psn psn, uint32_t packets);

  bool owes() const { return owed_ != 0; }
  /// The reply that leaves next. Needs owes().
  ResponderResource& Front() { return At(cursor_); }
  const ResponderResource& Front() const { return entries_[cursor_ & mask_]; }
  /// The next response of Front's reply has left; after its last one the reply is complete.
  void AdvanceFront();
  /// Ends Front's reply, which is complete or given up.
  void FinishFront();
  /// Gives up the responses that Front is to repeat.
  void FinishRepeats();
  void DropReplies();

 private:
  ResponderResource& At(uint32_t index) { return entries_[index & mask_]; }
  void SeekOwed();

  std::unique_ptr<ResponderResource[]> entries_;
  uint32_t mask_;
  uint32_t limit_ = 0;
  // Free-running indices: entries are [oldest_, tail_); cursor_ is the first that is owed, if any.
  uint32_t oldest_ = 0;
  uint32_t cursor_ = 0;
  uint32_t tail_ = 0;
  uint32_t owed_ = 0;
};

}  // namespace uroce::transport
