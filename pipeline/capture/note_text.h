// SPDX-License-Identifier: Apache-2.0
// Notes on captured frames as people read them.
#pragma once

#include <string>

#include "pipeline/shm/abi/uroce_capture.h"

namespace uroce::capture {

/// One line without a full stop, "" for a note that says nothing:
///   "retransmission 2 of 7 of qp 0x000123: ACK timeout"
///   "dropped: psn 1042 is out of sequence, qp 0x000123 expects 1040, NAK sent"
///   "arrived with congestion experienced"
/// Codes that this version does not know are given as numbers: the note may come from another one.
std::string NoteText(const uroce_capture_note& note);

/// Name of an ibv_wc_status, as ibv_wc_status_str has it in capitals: "RETRY_EXC_ERR".
std::string StatusName(uint8_t status);

/// What a NAK syndrome means: "remote access error".
std::string NakName(uint8_t syndrome);

}  // namespace uroce::capture
