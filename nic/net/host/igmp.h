// SPDX-License-Identifier: Apache-2.0
// IGMP for a host, version 3 (RFC 3376) and, beside an older router, version 2 (RFC 2236): it tells
// routers and snooping switches the IPv4 groups of the host. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "nic/net/host/frame.h"
#include "nic/net/host/membership.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

/// A report of version 3. `source`: the sender's address, or 0.0.0.0 while it has none.
Frame MakeIgmpReport(const Gid& source, const std::vector<Gid>& groups, Membership membership,
                     const Link& link);
/// A report of version 2, or a message that the host leaves the group.
Frame MakeIgmpReport2(const Gid& source, const Gid& group, Membership membership, const Link& link);

/// Checks a query, general or for a group. `is_old`: it comes from a router that does not know
/// version 3.
[[nodiscard]] FrameResult CheckIgmpQuery(const IpView& ip, bool& is_old);

}  // namespace uroce::nic
