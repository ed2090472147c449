// SPDX-License-Identifier: Apache-2.0
// A file by which programs share an extended connection (XRC) domain.
#pragma once

#include <cstdint>
#include <memory>

#include "nic/base/fd.h"

namespace uroce::nic {

/// Opened with O_PATH: nothing of it is touched, and its inode number stays its own. It is closed
/// on a side thread: to let go of a file may mean to free all that is in it.
struct XrcFile {
  std::shared_ptr<const Fd> path;
  uint64_t file_system = 0;  ///< st_dev
  uint64_t inode = 0;
};

}  // namespace uroce::nic
