// SPDX-License-Identifier: Apache-2.0
// Text for people of the notes on captured frames.
#pragma once

#include <string>

#include "pipeline/shm/abi/uroce_capture.h"

namespace uroce::capture {

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
