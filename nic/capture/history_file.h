// SPDX-License-Identifier: Apache-2.0
// A packet history as a pcapng file, with what ended the queue pair in words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/datapath/capture/packet_history.h"
#include "pipeline/shm/abi/uroce_capture.h"

namespace uroce::nic {

/// "qp 0x000123 failed: RETRY_EXC_ERR at psn 1040", "... refused psn 1042, NAK remote access
/// error".
std::string FailureComment(const datapath::FailedQueuePair& failed);

/// A whole file of `packets`, seen at `interface`. `comment` is that of the section and of the last
/// packet; it may be "".
std::string HistoryFile(const std::vector<datapath::HistoryPacket>& packets,
                        const uroce_capture_interface& interface, const std::string& comment);

/// "uroce0-qp0x000123-20240131T235959.123456789Z.pcapng", in UTC.
std::string HistoryFileName(const std::string& device, Qpn qpn, Nanos time);

}  // namespace uroce::nic
