// SPDX-License-Identifier: Apache-2.0
// The notes on captured frames: the kinds of frames that a capture filter can select, and text for
// people.
#pragma once

#include <cstdint>
#include <string>

#include "pipeline/shm/abi/uroce_capture.h"

namespace uroce::capture {

// The kinds of frames that a capture filter can select: dropped, retransmitted, marked.

/// Bits UROCE_CAPTURE_DROPPED, _RETRANSMITTED and _MARKED of a frame with this note. A duplicate
/// request counts as dropped, because it is not executed. A NAK that is sent is neither dropped nor
/// retransmitted; the request that it answers is dropped. CNPs that are sent or handled are
/// neither.
constexpr uint32_t KindsOf(const uroce_capture_note& note) {
  const uint32_t kinds = (note.flags & UROCE_NOTE_MARKED) != 0 ? UROCE_CAPTURE_MARKED : 0;
  const bool is_again =
      note.reason == UROCE_REASON_RETRANSMITTED || note.reason == UROCE_REASON_ANSWERED_AGAIN;
  if (is_again) return kinds | UROCE_CAPTURE_RETRANSMITTED;
  const bool is_taken = note.reason == UROCE_REASON_NONE || note.reason == UROCE_REASON_NAK ||
                        note.reason == UROCE_REASON_SELECTIVE_ACK ||
                        note.reason == UROCE_REASON_CNP_SENT ||
                        note.reason == UROCE_REASON_CNP_HANDLED;
  return is_taken ? kinds : kinds | UROCE_CAPTURE_DROPPED;
}

/// One line without a full stop; "" for an empty note:
///   "retransmission 2 of 7 of qp 0x000123: ACK timeout"
///   "dropped: psn 1042 is out of sequence, qp 0x000123 expects 1040, NAK sent"
///   "arrived with congestion experienced"
/// Unknown codes are written as numbers: the note may come from another version.
std::string NoteText(const uroce_capture_note& note);

/// The name of an ibv_wc_status in capitals: "RETRY_EXC_ERR".
std::string StatusName(uint8_t status);

/// The meaning of a NAK syndrome: "remote access error".
std::string NakName(uint8_t syndrome);

}  // namespace uroce::capture
