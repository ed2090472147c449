// SPDX-License-Identifier: Apache-2.0
// From the settings of switches to the network that they describe.
#pragma once

#include <cstdint>
#include <memory>

#include "drivers/switch/switch_network.h"
#include "nic/settings/config.h"

namespace uroce::nic {

/// Frames that may wait in switches, on links and for their receivers; 0 without switches.
uint32_t FramesInNetwork(const Config& config);

/// The switches of `config`, with a host for each device that is at one, in their order; null
/// without switches. `copies`: see drivers::SwitchNetwork.
std::shared_ptr<drivers::SwitchNetwork> MakeSwitchNetwork(const Config& config,
                                                          rte_mempool* copies);

}  // namespace uroce::nic
