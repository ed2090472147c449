// SPDX-License-Identifier: Apache-2.0
// A file by which programs share an extended connection (XRC) domain.
#pragma once

#include <cstdint>

#include "nic/resources/fd.h"

namespace uroce::nic {

/// Opened with O_PATH: nothing of it is touched, and its inode number stays its own.
struct XrcFile {
  Fd path;
  uint64_t file_system = 0;  ///< st_dev
  uint64_t inode = 0;
};

}  // namespace uroce::nic
