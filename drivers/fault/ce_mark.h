// SPDX-License-Identifier: Apache-2.0
// What a congested router does to a frame.
#pragma once

struct rte_mbuf;

namespace uroce::drivers {

/// Sets ECN to 3 in an IPv4 (keeping its checksum right) or IPv6 frame, tagged or not. False, and
/// nothing done, for other frames.
bool MarkCongestionExperienced(rte_mbuf* frame);

}  // namespace uroce::drivers
