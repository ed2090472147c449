// SPDX-License-Identifier: Apache-2.0
// The networks of scenarios: the usual topologies, and those that a scenario spells out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tools/sim/model/cluster.h"
#include "tools/sim/scenario/document.h"

namespace uroce::tools::sim {

/// Reads [network], [switch], [upper_switch], [nic], [[nic_of]] and [[link_of]] of a scenario.
/// Hosts are h0, h1, ...; switches s0, s1, ... or, in trees, tor0, spine0, aggregation0, core0.
Network ReadNetwork(Section& scenario);

std::optional<uint32_t> FindHost(const Network& network, absl::string_view name);
/// The hosts of `words`: names, and ranges such as "h3..h7". Fails at `key` of `section`.
std::vector<uint32_t> HostsOf(const Network& network, Section& section, const char* key);
/// One host, by name.
uint32_t HostOf(const Network& network, Section& section, const char* key);
/// The cable between two ends, such as "h0 - s0"; of several the first.
uint32_t CableOf(const Network& network, Section& section, const char* key);

}  // namespace uroce::tools::sim
