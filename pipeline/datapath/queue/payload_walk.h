// SPDX-License-Identifier: Apache-2.0
// Finds where the payload of a message lies in a program's memory, and which right an access to it
// needs (docs/protocol/verbs-semantics.md, section 5).
#pragma once

#include <cstdint>
#include <span>

#include "pipeline/datapath/memory/access.h"
#include "pipeline/datapath/queue/queue_pair.h"
#include "pipeline/datapath/queue/waiting_work.h"
#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/transport/effect.h"

namespace uroce::datapath {

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
  return {qp.remote_pd(), rights, qp.qpn().value(), qp.memory_session()};
}

/// The access right of works of `qp`, whose keys belong to `pd`.
inline AccessRight LocalRight(const QueuePair& qp, uint32_t pd, uint32_t rights) {
  return {.pd = pd, .rights = rights, .session = qp.memory_session()};
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
    return WalkList(qp.receive_list().List(place.key), place, length,
                    LocalRight(qp, qp.receive_pd(), kLocalWrite));
  }
  return WalkList(qp.send_lists().List(place.key), place, length,
                  LocalRight(qp, qp.config().pd, kLocalWrite));
}

/// A walker over the bytes that a packet like `packet` carries from `place`.
inline PieceWalker WalkPacket(const QueuePair& qp, const transport::TxPacket& packet,
                              const MessagePlace& place, uint32_t length, uroce_sge& entry) {
  if (packet.source == transport::TxPacket::Source::kRemote) {
    return WalkKey(entry, place, length, RemoteRight(qp, kRemoteRead));
  }
  return WalkList(qp.send_lists().List(place.key), place, length,
                  LocalRight(qp, qp.config().pd, kLocalRead));
}

}  // namespace uroce::datapath
