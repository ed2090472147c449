// SPDX-License-Identifier: Apache-2.0
// Answers to ping (RFC 792; RFC 4443, 4). Pure.
#pragma once

#include "nic/net/host/frame.h"

namespace uroce::nic {

/// The answer to an echo request with the same bytes, back to whom it came from in Ethernet too:
/// that is its sender or the router on the way to it. The caller has checked that the request is
/// for an address of ours, and the checksum of ICMPv6.
Frame MakeEchoReply(const EthernetView& ethernet, const IpView& request, const Mac& our_mac);

}  // namespace uroce::nic
