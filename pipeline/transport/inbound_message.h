// SPDX-License-Identifier: Apache-2.0
// The SEND or WRITE that is arriving: what a packet must be to continue it, which bytes of memory
// it fills, and the completion at its end. Reliable and unreliable connections share it; what they
// say to a packet that does not fit is their own.
#pragma once

#include <cassert>
#include <cstdint>

#include "pipeline/base/types.h"
#include "pipeline/transport/effect.h"
#include "pipeline/transport/path_mtu.h"
#include "pipeline/transport/report.h"
#include "pipeline/transport/request_shape.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {

/// One message at most, and one receive work: the message's own, or one that waits for a message.
/// A packet is looked at by Take, checked, placed by its effect, and counted by Commit.
class InboundMessage {
 public:
  // ---- the receive work ----
  bool has_receive() const { return has_receive_; }
  const ReceiveWork& receive() const { return receive_; }
  void PostReceive(const ReceiveWork& work);
  /// Ends the receive work, whatever for.
  Completion End(WcStatus status, WcOpcode opcode, uint32_t length_bytes);

  // ---- the message ----
  bool in_send() const { return kind_ == RequestShape::Kind::kSend; }
  /// Whether a packet of this shape may come now (docs/protocol/transport.md, section 4.1, step 3).
  bool Continues(const RequestShape& shape) const {
    return shape.first ? kind_ == RequestShape::Kind::kUnknown : kind_ == shape.kind;
  }
  /// The message is given up. Its receive work waits for the next one.
  void Abandon() { kind_ = RequestShape::Kind::kUnknown; }
  void Clear();

  // ---- one packet ----
  /// Whether the packet names the SRQ that its message named.
  bool NamesSameSrq(const wire::TransportHeader& header) const {
    return kind_ == RequestShape::Kind::kUnknown || header.xrc_srqn == xrc_srqn_;
  }
  /// Notes what the packet is; a FIRST or ONLY makes the message. Needs Continues().
  void Take(const wire::Packet& packet, const RequestShape& shape);
  const RequestShape& shape() const { return shape_; }
  bool solicited() const { return solicited_; }
  /// Why the packet does not fit its message, its receive work or the path MTU; kNone: it does.
  /// Source: docs/protocol/transport.md, section 4.1, step 6; docs/protocol/wire-format.md,
  /// section 5.
  Refusal Check(PathMtu mtu) const;
  /// The packet is not executed now, and will come again.
  void PutBack() {
    if (shape_.first) Abandon();
  }
  /// What the packet does to memory; kNone for one that does nothing.
  void Place(Effect& effect) const;
  /// No bytes: whether the rest of the WRITE may be written.
  void CheckKey(Effect& effect) const;
  /// The packet is executed.
  void Commit();
  /// Whether the packet executed last ends a receive work: Complete it with success.
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
  // A SEND counts what has come, a WRITE also what is left.
  uint32_t received_bytes_ = 0;
  uint32_t total_bytes_ = 0;
  uint64_t va_ = 0;
  Rkey rkey_;
  // The packet under way.
  RequestShape shape_;
  bool solicited_ = false;
  uint32_t size_bytes_ = 0;
  uint32_t immediate_or_rkey_ = 0;
  uint32_t xrc_srqn_ = 0;  ///< Of the message.
};

// Every packet runs through these: out of line they cost a 64-byte WRITE a tenth of its time.

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
    // Keys of empty messages are not looked at (docs/protocol/transport.md, section 5).
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
  // Field by field: a value made first is written in pieces, read as one, and waits for that.
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
