// SPDX-License-Identifier: Apache-2.0
// Answers echo requests, as ping sends them (RFC 792; RFC 4443, 4). Pure.
#pragma once

#include "nic/net/host/frame.h"

namespace uroce::nic {

/// The answer to an echo request, with the same bytes. It goes back to the MAC that sent the frame:
/// the requester or the router on the way to it. The caller has checked that the request is for an
/// address of ours, and the checksum of ICMPv6.
Frame MakeEchoReply(const EthernetView& ethernet, const IpView& request, const Mac& our_mac);

}  // namespace uroce::nic
