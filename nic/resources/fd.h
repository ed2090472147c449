// SPDX-License-Identifier: Apache-2.0
// Owners of file descriptors and mappings, under nic's name.
#pragma once

#include "drivers/fd.h"

namespace uroce::nic {

using drivers::Fd;
using drivers::Mapping;

}  // namespace uroce::nic
