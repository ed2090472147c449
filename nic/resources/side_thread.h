// SPDX-License-Identifier: Apache-2.0
// Threads for work that takes long, or for ever, under nic's name.
#pragma once

#include "drivers/side_thread.h"

namespace uroce::nic {

using drivers::SideThread;

}  // namespace uroce::nic
