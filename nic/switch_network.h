// SPDX-License-Identifier: Apache-2.0
// Builds the network of switches that the settings describe.
#pragma once

#include <cstdint>
#include <memory>

#include "drivers/switch/switch_network.h"
#include "nic/settings/config.h"

namespace uroce::nic {

/// The number of frames that may wait in switches, on links and for receivers; 0 without switches.
uint32_t FramesInNetwork(const Config& config);

/// Makes the switches of `config`, with one host for each device attached to one, in their order.
/// Returns null without switches. `copies`: see drivers::SwitchNetwork.
std::shared_ptr<drivers::SwitchNetwork> MakeSwitchNetwork(const Config& config,
                                                          rte_mempool* copies);

}  // namespace uroce::nic
