// SPDX-License-Identifier: Apache-2.0
// The SEND or WRITE that is arriving: checks which packet may continue it, computes the memory that
// a packet fills, and makes the completion. Reliable and unreliable connections share it; each
// decides by itself what to do with a packet that does not fit.
#pragma once

#include <array>
#include <cassert>
#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/transport/effect.h"
#include "pipeline/transport/request_shape.h"
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

inline void InboundMessage::Commit() {
  received_bytes_ += size_bytes_;
  if (shape_.last) kind_ = RequestShape::Kind::kUnknown;
}

}  // namespace uroce::transport
