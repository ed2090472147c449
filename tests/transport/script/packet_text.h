// SPDX-License-Identifier: Apache-2.0
// Packets from the text that wire::ToString prints, with what a script needs besides: va, rkey and,
// for the RETH of a WRITE, total.
#pragma once

#include <string>

#include "pipeline/wire/packet.h"

namespace uroce::transport {

/// "WRITE_FIRST psn=ffffff len=1024 total=1500 va=1000 rkey=2a ackreq". Numbers are decimal in
/// len, total, msn, timer, credits and kept, else hexadecimal. The payload is zeros, or the map of
/// "kept=1-2,4/6", valid until the next call. Ends the test program on text that it does not know.
/// Names without a service are those of `service`.
wire::Packet PacketOf(const std::string& text, wire::Service service = wire::Service::kRc);

}  // namespace uroce::transport
