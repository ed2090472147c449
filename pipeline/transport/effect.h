// SPDX-License-Identifier: Apache-2.0
// The accesses to memory that the transport core asks for, as values. The core resolves no key and
// touches no byte of an application. The shell does so, and reports the outcome.
#pragma once

#include <cstdint>
#include <span>

#include "pipeline/base/types.h"
#include "pipeline/transport/work.h"
#include "pipeline/wire/packet.h"

namespace uroce::transport {

/// Bytes [offset, offset + length) of the data of one work request, in list order.
struct LocalRange {
  uint32_t slot = 0;  ///< SendWork::slot or ReceiveWork::slot.
  uint32_t offset_bytes = 0;
  uint32_t length_bytes = 0;
};

/// Bytes [va, va + length) under a key that the peer named.
struct RemoteRange {
  Rkey rkey;
  uint64_t va = 0;
  uint32_t length_bytes = 0;
  uint32_t xrc_srqn = 0;  ///< XRC: the SRQ that the request named; its owner's rights apply.
};

/// The right that a remote range needs.
enum class Access : uint8_t { kRemoteRead, kRemoteWrite, kRemoteAtomic };

/// The one access to memory that an accepted packet causes. The shell carries it out and calls
/// RcQueuePair::OnEffectDone with the outcome. Until then it calls nothing else of that queue pair
/// except PollCompletion and queries.
struct Effect {
  enum class Kind : uint8_t {
    kNone,           ///< Nothing to do, and OnEffectDone is not called.
    kPlaceReceive,   ///< Write the payload into `local` of receive work `local.slot`.
    kPlaceSend,      ///< Write a READ response into `local` of send work `local.slot`.
    kPlaceRemote,    ///< Write the payload into `remote` after kCheckRemote's check.
    kCheckRemote,    ///< No bytes: only check `check_length_bytes` from remote.va for `access`.
    kAtomic,         ///< Execute `atomic` on 8 bytes at remote.va; report the original value.
    kPlaceOriginal,  ///< Write `value`, 8 bytes in host order, into `local` of the send work.
    kInvalidate,     ///< No bytes: only invalidate `invalidate_rkey`.
    kKeep,           ///< No bytes: keep the packet until RcQueuePair::PollKept.
  };
  Kind kind = Kind::kNone;
  Access access = Access::kRemoteWrite;
  /// kPlaceReceive: after placing, also invalidate `invalidate_rkey` (SEND with invalidate).
  bool invalidate = false;
  /// kPlaceReceive of a datagram: write the area that wire::GrhArea makes into bytes [0, 40) of the
  /// receive work, even if there is no payload.
  bool grh_area = false;
  bool compare_swap = false;  ///< kAtomic: true: compare and swap; false: fetch and add.
  LocalRange local;
  RemoteRange remote;
  uint32_t check_length_bytes = 0;  ///< >= remote.length_bytes; on a FIRST, the whole message.
  Rkey invalidate_rkey;
  uint64_t swap_add = 0;
  uint64_t compare = 0;
  uint64_t value = 0;
};

/// How an effect ended.
enum class EffectOutcome : uint8_t {
  kDone,
  kRemoteAccess,      ///< rkey unknown, other PD, right missing, out of range.
  kLocalProtection,   ///< lkey unknown, right missing, out of range.
  kInvalidateFailed,  ///< The key may not be invalidated.
  kNotKept,           ///< kKeep: there is no room.
};

/// The effect of a local work, for which no packet is sent. The shell finds its parameters by the
/// work's slot. It ends the effect with OnLocalDone, at once or later.
struct LocalEffect {
  enum class Kind : uint8_t {
    kInvalidate,  ///< Invalidate `rkey`, a window or fast-register region of this side.
    kBind,        ///< Bind a memory window.
  };
  Kind kind = Kind::kInvalidate;
  uint32_t slot = 0;
  Rkey rkey;
};

/// One packet to send: its headers, and the place of its payload.
struct TxPacket {
  enum class Source : uint8_t {
    kNone,
    kSend,    ///< `local`.
    kRemote,  ///< `remote`.
    kOwn,     ///< `own`: bytes that the core wrote.
  };
  /// The shell's template supplies pkey and, for connections, dest_qpn.
  wire::TransportHeader header;
  Source source = Source::kNone;
  bool retransmission = false;
  Resend resend;                 ///< The reason, when a request is a retransmission.
  uint32_t path = 0;             ///< Datagrams: SendWork::path; the core sets header.dest_qpn.
  LocalRange local;              ///< kSend: bytes of send work `local.slot`.
  RemoteRange remote;            ///< kRemote: a READ response, needs Access::kRemoteRead.
  uint32_t following_bytes = 0;  ///< Bytes of the message behind these. Valid with payload.
  /// kOwn: the map of a selective acknowledgement; valid until the queue pair is called again.
  std::span<const uint8_t> own;

  uint32_t payload_bytes() const {
    if (source == Source::kSend) return local.length_bytes;
    if (source == Source::kOwn) return static_cast<uint32_t>(own.size());
    return source == Source::kRemote ? remote.length_bytes : 0;
  }
};

}  // namespace uroce::transport
