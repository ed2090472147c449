// SPDX-License-Identifier: Apache-2.0
// Multicast listener discovery, version 2 (RFC 3810), as far as a host needs it: a snooping switch
// learns where to send solicitations and the frames of other groups. Pure.
#pragma once

#include <vector>

#include "nic/net/host/frame.h"
#include "nic/net/host/membership.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// A report that the sender has joined or left `groups`. `source`: its link-local address, or ::
/// while it has none (RFC 3590).
Frame MakeListenerReport(const Gid& source, const std::vector<Gid>& groups, Membership membership,
                         const Link& link);

/// Checks a query of any version, general or for a group. The caller has checked the checksum.
[[nodiscard]] FrameResult CheckListenerQuery(const IpView& ip);

}  // namespace uroce::nic
