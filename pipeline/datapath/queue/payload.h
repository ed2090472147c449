// SPDX-License-Identifier: Apache-2.0
// The payload of packets: gathered from and placed in the memory of a program, with the ICRC where
// that is computed on the way. A walk finds the pieces of memory that a packet belongs to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "pipeline/datapath/memory/copy_helper.h"
#include "pipeline/datapath/memory/memory_keys.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/queue/waiting_work.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/transport/effect.h"
#include "pipeline/wire/icrc.h"

namespace uroce::datapath {

// The ICRC of a packet while its payload is copied into the frame.

/// The CRC register after the bytes that are in the frame. Where the ICRC is left out
/// (pipeline/port/frame_marks.h), bytes are copied only.
class RunningIcrc {
 public:
  RunningIcrc(uint32_t state, bool is_left_out) : state_(state), is_left_out_(is_left_out) {}

  void Copy(uint8_t* to, const uint8_t* from, size_t length_bytes) {
    if (is_left_out_) {
      std::memcpy(to, from, length_bytes);
    } else {
      state_ = wire::CopyCrc32(state_, to, from, length_bytes);
    }
  }
  /// For bytes that the frame has already.
  void Pass(std::span<const uint8_t> bytes) {
    if (!is_left_out_) state_ = wire::Crc32Update(state_, bytes);
  }

  /// Meaningless if the ICRC is left out.
  uint32_t state() const { return state_; }
  bool is_left_out() const { return is_left_out_; }

 private:
  uint32_t state_;
  bool is_left_out_;
};

// Moves of payload between a frame and that memory of a program which the worker itself can access.

enum class MoveResult : uint8_t {
  kDone,
  kDenied,  ///< A key, a right or a range forbids it.
  kCopied,  ///< The next bytes lie where only the helper reaches: see TakeCopied.
};

/// Writes bytes of a frame into mapped memory, in the order of OrderedCopy: programs poll on the
/// last byte of a WRITE. A null segment drops its bytes. `bytes` advances with `walker`.
MoveResult Place(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes);
/// Reads mapped memory into a frame. Null segments read as zeros. At most one packet's payload.
MoveResult Gather(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes);
/// Does the same as Gather, and `icrc` takes the bytes in the same pass. After kCopied `icrc` is
/// meaningless.
MoveResult GatherWithIcrc(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes,
                          RunningIcrc& icrc);
/// After kCopied: adds the copied pieces that come next, as many as there is room for, to `job`.
/// `bytes` advances with `walker`.
void TakeCopied(const KeyTable& keys, PieceWalker& walker, uint8_t*& bytes, CopyJob& job);

/// Executes a fetch and add or a compare and swap on mapped memory, eight aligned bytes; returns
/// what was there.
uint64_t ExecuteAtomic(uint8_t* mapped, bool compare_swap, uint64_t swap_add, uint64_t compare);

// Finds where the payload of a message lies in a program's memory, and which right an access to it
// needs (docs/protocol/verbs-semantics.md, section 5).

inline uint32_t RightFor(transport::Access access) {
  switch (access) {
    case transport::Access::kRemoteRead:
      return kRemoteRead;
    case transport::Access::kRemoteWrite:
      return kRemoteWrite;
    case transport::Access::kRemoteAtomic:
      return kRemoteAtomic;
  }
  return UINT32_MAX;
}

/// The access right of the peer of `qp`, for keys that the peer names.
inline AccessRight RemoteRight(const QueuePair& qp, uint32_t rights) {
  return {qp.receive_source().remote_pd(), rights, qp.qpn().value(),
          qp.receive_source().memory_session()};
}

/// The access right of works of `qp`, whose keys belong to `pd`.
inline AccessRight LocalRight(const QueuePair& qp, uint32_t pd, uint32_t rights) {
  return {.pd = pd, .rights = rights, .session = qp.receive_source().memory_session()};
}

inline MessagePlace PlaceOf(const transport::Effect& effect) {
  if (effect.kind == transport::Effect::Kind::kPlaceRemote) {
    return {effect.remote.rkey.value(), effect.remote.va};
  }
  return {effect.local.slot, effect.local.offset_bytes};
}

inline MessagePlace PlaceOf(const transport::TxPacket& packet) {
  if (packet.source == transport::TxPacket::Source::kRemote) {
    return {packet.remote.rkey.value(), packet.remote.va};
  }
  return {packet.local.slot, packet.local.offset_bytes};
}

/// The number of bytes that `effect` places.
inline uint32_t LengthOf(const transport::Effect& effect) {
  return effect.kind == transport::Effect::Kind::kPlaceRemote ? effect.remote.length_bytes
                                                              : effect.local.length_bytes;
}

/// A walker over `length` bytes from `place` in a list of entries.
inline PieceWalker WalkList(std::span<const uroce_sge> list, const MessagePlace& place,
                            uint32_t length, const AccessRight& right) {
  return {list, static_cast<uint32_t>(place.position), length, right};
}

/// A walker over `length` bytes from `place` under a key; `entry` has to outlive the walker.
inline PieceWalker WalkKey(uroce_sge& entry, const MessagePlace& place, uint32_t length,
                           const AccessRight& right) {
  entry = {place.position, length, place.key};
  return {{&entry, 1}, 0, length, right};
}

/// A walker over the bytes that an effect of `kind` places at `place`.
inline PieceWalker WalkEffect(const QueuePair& qp, transport::Effect::Kind kind,
                              const MessagePlace& place, uint32_t length, uroce_sge& entry) {
  using Kind = transport::Effect::Kind;
  if (kind == Kind::kPlaceRemote) {
    return WalkKey(entry, place, length, RemoteRight(qp, kRemoteWrite));
  }
  if (kind == Kind::kPlaceReceive) {
    return WalkList(qp.works().receive_list().List(place.key), place, length,
                    LocalRight(qp, qp.receive_source().pd(), kLocalWrite));
  }
  return WalkList(qp.works().send_lists().List(place.key), place, length,
                  LocalRight(qp, qp.config().pd, kLocalWrite));
}

/// A walker over the bytes that a packet like `packet` carries from `place`.
inline PieceWalker WalkPacket(const QueuePair& qp, const transport::TxPacket& packet,
                              const MessagePlace& place, uint32_t length, uroce_sge& entry) {
  if (packet.source == transport::TxPacket::Source::kRemote) {
    return WalkKey(entry, place, length, RemoteRight(qp, kRemoteRead));
  }
  return WalkList(qp.works().send_lists().List(place.key), place, length,
                  LocalRight(qp, qp.config().pd, kLocalRead));
}

}  // namespace uroce::datapath
