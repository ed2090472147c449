// SPDX-License-Identifier: Apache-2.0
// Sockets that strangers write to, under nic's name.
#pragma once

#include "drivers/stranger_socket.h"

namespace uroce::nic {

using drivers::RefuseFds;
using drivers::StrangerSocket;

}  // namespace uroce::nic
