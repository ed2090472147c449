// SPDX-License-Identifier: Apache-2.0
// Work requests in their slots: the program writes them; the worker copies them once and checks.
#pragma once

#include <cstdint>

#include "pipeline/shm/abi/uroce_arena.h"
#include "pipeline/shm/rings/shared_word.h"

namespace uroce::rings {

/// Bytes that a slot needs for its limits: a multiple of a cache line.
constexpr uint32_t SendSlotBytes(uint32_t max_sge, uint32_t max_inline_bytes) {
  const uint32_t sge_bytes = max_sge * static_cast<uint32_t>(sizeof(uroce_sge));
  const uint32_t tail = sge_bytes > max_inline_bytes ? sge_bytes : max_inline_bytes;
  const uint32_t bytes = static_cast<uint32_t>(sizeof(uroce_send_wqe)) + tail;
  return (bytes + UROCE_LINE - 1) / UROCE_LINE * UROCE_LINE;
}

/// Bytes of a receive slot: 32 if that is enough, else a multiple of a cache line, so that no slot
/// with one entry crosses a cache line.
constexpr uint32_t ReceiveSlotBytes(uint32_t max_sge) {
  const uint32_t bytes = static_cast<uint32_t>(sizeof(uroce_recv_wqe)) +
                         max_sge * static_cast<uint32_t>(sizeof(uroce_sge));
  return bytes <= 32 ? 32 : (bytes + UROCE_LINE - 1) / UROCE_LINE * UROCE_LINE;
}

/// The limits with which the queue pair was created: no work request may exceed them.
struct WqeLimits {
  uint32_t max_sge = 0;           ///< At most UROCE_MAX_SGE.
  uint32_t max_inline_bytes = 0;  ///< At most UROCE_MAX_INLINE.
};

/// Private copy of a send work request. Only the part that the header promises is written.
struct SendWqe {
  uroce_send_wqe header;
  union {
    uroce_sge sges[UROCE_MAX_SGE];
    uint8_t inline_data[UROCE_MAX_SGE * sizeof(uroce_sge)];
  };
  bool is_inline() const { return (header.flags & UROCE_SEND_INLINE) != 0; }
};
static_assert(sizeof(SendWqe::inline_data) >= UROCE_MAX_INLINE);
static_assert(UROCE_MAX_INLINE <= UINT8_MAX);
static_assert(sizeof(uroce_send_wqe) == 48);

/// Private copy of a receive work request.
struct ReceiveWqe {
  uroce_recv_wqe header;
  uroce_sge sges[UROCE_MAX_SGE];
};

enum class WqeResult : uint8_t { kOk, kTooManySges, kInlineTooLong };

/// Copies the work request at `slot` into `wqe`, each byte once. On an error only `header` is set,
/// so that the completion can name wr_id. The caller checks opcode and flags.
[[nodiscard]] inline WqeResult ReadSendWqe(const uint8_t* slot, const WqeLimits& limits,
                                           SendWqe& wqe) {
  CopyOnce(&wqe.header, slot, sizeof(wqe.header));
  const uint8_t* tail = slot + sizeof(uroce_send_wqe);
  if (wqe.is_inline()) {
    if (wqe.header.inline_length > limits.max_inline_bytes) return WqeResult::kInlineTooLong;
    CopyOnce(wqe.inline_data, tail, wqe.header.inline_length);
    return WqeResult::kOk;
  }
  if (wqe.header.num_sge > limits.max_sge) return WqeResult::kTooManySges;
  if (wqe.header.num_sge == 1) {  // The usual case, without a call of memcpy.
    CopyOnce(wqe.sges, tail, sizeof(uroce_sge));
  } else {
    CopyOnce(wqe.sges, tail, wqe.header.num_sge * sizeof(uroce_sge));
  }
  return WqeResult::kOk;
}

/// As ReadSendWqe, for a receive queue.
[[nodiscard]] inline WqeResult ReadReceiveWqe(const uint8_t* slot, uint32_t max_sge,
                                              ReceiveWqe& wqe) {
  CopyOnce(&wqe.header, slot, sizeof(wqe.header));
  if (wqe.header.num_sge > max_sge) return WqeResult::kTooManySges;
  CopyOnce(wqe.sges, slot + sizeof(uroce_recv_wqe), wqe.header.num_sge * sizeof(uroce_sge));
  return WqeResult::kOk;
}

/// Writes the header and returns the address for its entries or inline bytes.
inline uint8_t* WriteSendHeader(uint8_t* slot, const uroce_send_wqe& header) {
  memcpy(slot, &header, sizeof(header));
  return slot + sizeof(header);
}

/// Writes a receive header and returns the address for its entries.
inline uint8_t* WriteReceiveHeader(uint8_t* slot, uint64_t wr_id, uint32_t num_sge) {
  const uroce_recv_wqe header = {wr_id, num_sge, 0};
  memcpy(slot, &header, sizeof(header));
  return slot + sizeof(header);
}

/// Writes entry `index` of the list at `tail`.
inline void WriteSge(uint8_t* tail, uint32_t index, uint64_t addr, uint32_t length, uint32_t lkey) {
  const uroce_sge sge = {addr, length, lkey};
  memcpy(tail + index * sizeof(sge), &sge, sizeof(sge));
}

}  // namespace uroce::rings
