// SPDX-License-Identifier: Apache-2.0
// Writes a packet history as a pcapng file, with a comment that says why the queue pair failed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipeline/datapath/capture/packet_history.h"
#include "pipeline/shm/abi/uroce_capture.h"

namespace uroce::nic {

/// Says why a queue pair failed: "qp 0x000123 failed: RETRY_EXC_ERR at psn 1040", or "... refused
/// psn 1042, NAK remote access error".
std::string FailureComment(const datapath::FailedQueuePair& failed);

/// Returns a complete pcapng file of `packets`, seen at `interface`. `comment` is attached to the
/// section and to the last packet; it may be "". Packets have their whole length, because Wireshark
/// takes cut ones for malformed: zeros stand for what was not kept, and the section says so.
std::string HistoryFile(const std::vector<datapath::HistoryPacket>& packets,
                        const uroce_capture_interface& interface, const std::string& comment);

/// A name like "uroce0-qp0x000123-20240131T235959.123456789Z.pcapng"; the time is in UTC.
std::string HistoryFileName(const std::string& device, Qpn qpn, Nanos time);

}  // namespace uroce::nic
