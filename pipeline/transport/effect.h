// SPDX-License-Identifier: Apache-2.0
// What the transport core asks of memory, as values. The core resolves no key and touches no byte
// of an application: the shell does, and reports back.
#pragma once

#include <cstdint>
#include <span>

#include "pipeline/base/types.h"
#include "pipeline/transport/report.h"
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
  uint32_t xrc_srqn = 0;  ///< XRC: the SRQ that the request named; what its owner may, it may.
};

/// The right that a remote range needs.
enum class Access : uint8_t { kRemoteRead, kRemoteWrite, kRemoteAtomic };

/// The one thing that an accepted packet does to memory. After it the shell calls
/// RcQueuePair::OnEffectDone with the outcome; until then it calls nothing else of that queue pair
/// (but PollCompletion and queries).
struct Effect {
  enum class Kind : uint8_t {
    kNone,           ///< Nothing to do, and OnEffectDone is not called.
    kPlaceReceive,   ///< Payload into `local` of receive work `local.slot`.
    kPlaceSend,      ///< READ response payload into `local` of send work `local.slot`.
    kPlaceRemote,    ///< Payload into `remote`; `check_length_bytes` from remote.va must be ours.
    kCheckRemote,    ///< No bytes: only check `check_length_bytes` from remote.va for `access`.
    kAtomic,         ///< Execute `atomic` on 8 bytes at remote.va; report the original value.
    kPlaceOriginal,  ///< `value` as 8 bytes in host order into `local` of send work `local.slot`.
    kInvalidate,     ///< No bytes: invalidate `invalidate_rkey` alone.
    kKeep,           ///< No bytes: keep the packet until RcQueuePair::PollKept.
  };
  Kind kind = Kind::kNone;
  Access access = Access::kRemoteWrite;
  /// kPlaceReceive: after placing, also invalidate `invalidate_rkey` (SEND with invalidate).
  bool invalidate = false;
  /// kPlaceReceive of a datagram: bytes [0, 40) of the receive work get the area that
  /// wire::GrhArea makes, also if there is no payload.
  bool grh_area = false;
  bool compare_swap = false;  ///< kAtomic: compare and swap, else fetch and add.
  LocalRange local;
  RemoteRange remote;
  uint32_t check_length_bytes = 0;  ///< >= remote.length_bytes; the whole message on a FIRST.
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
  kInvalidateFailed,  ///< The key to invalidate is not one that may be.
  kNotKept,           ///< kKeep: there is no room.
};

/// What a work does on this side alone. The shell finds the particulars by the work's slot and
/// ends it with OnLocalDone, at once or later.
struct LocalEffect {
  enum class Kind : uint8_t {
    kInvalidate,  ///< Invalidate `rkey`, a window or fast-register region of this side.
    kBind,        ///< Bind a memory window.
  };
  Kind kind = Kind::kInvalidate;
  uint32_t slot = 0;
  Rkey rkey;
};

/// One packet to send: headers, and where its payload lies.
struct TxPacket {
  enum class Source : uint8_t {
    kNone,
    kSend,    ///< `local`.
    kRemote,  ///< `remote`.
    kOwn,     ///< `own`: bytes that the core wrote.
  };
  /// pkey and, of connections, dest_qpn are the shell's template's.
  wire::TransportHeader header;
  Source source = Source::kNone;
  bool retransmission = false;
  Resend resend;       ///< Of a request that is a retransmission.
  uint32_t path = 0;   ///< Datagrams: SendWork::path; header.dest_qpn is the datagram's own.
  LocalRange local;    ///< kSend: of send work `local.slot`.
  RemoteRange remote;  ///< kRemote: a READ response, needs Access::kRemoteRead.
  uint32_t following_bytes = 0;  ///< Of the same message, behind these. Range: there is payload.
  /// kOwn: the map of a selective acknowledgement; valid until the next call of the queue pair.
  std::span<const uint8_t> own;

  uint32_t payload_bytes() const {
    if (source == Source::kSend) return local.length_bytes;
    if (source == Source::kOwn) return static_cast<uint32_t>(own.size());
    return source == Source::kRemote ? remote.length_bytes : 0;
  }
};

}  // namespace uroce::transport
