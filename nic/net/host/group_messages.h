// SPDX-License-Identifier: Apache-2.0
// The messages that report memberships of multicast groups to routers and switches: IGMP for IPv4
// and MLD for IPv6. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "nic/net/host/frame.h"
#include "pipeline/base/types.h"

namespace uroce::nic {

enum class Membership : uint8_t { kJoined, kLeft };

// ---- IGMP: version 3 (RFC 3376) and, beside an older router, version 2 (RFC 2236) ----

/// A report of version 3. `source`: the sender's address, or 0.0.0.0 while it has none.
Frame MakeIgmpReport(const Gid& source, const std::vector<Gid>& groups, Membership membership,
                     const Link& link);
/// A report of version 2, or a message that the host leaves the group.
Frame MakeIgmpReport2(const Gid& source, const Gid& group, Membership membership, const Link& link);

/// Checks a query, general or for a group. `is_old`: it comes from a router that does not know
/// version 3.
[[nodiscard]] FrameResult CheckIgmpQuery(const IpView& ip, bool& is_old);

// ---- multicast listener discovery, version 2 (RFC 3810) ----

/// A report that the sender has joined or left `groups`. `source`: its link-local address, or ::
/// while it has none (RFC 3590).
Frame MakeListenerReport(const Gid& source, const std::vector<Gid>& groups, Membership membership,
                         const Link& link);

/// Checks a query of any version, general or for a group. The caller has checked the checksum.
[[nodiscard]] FrameResult CheckListenerQuery(const IpView& ip);

}  // namespace uroce::nic
