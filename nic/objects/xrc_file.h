// SPDX-License-Identifier: Apache-2.0
// A file that identifies an extended connection (XRC) domain which programs share.
#pragma once

#include <cstdint>
#include <memory>

#include "nic/base/fd.h"

namespace uroce::nic {

/// Opened with O_PATH: its contents are not accessed, and its inode number is not reused. A side
/// thread closes it, because closing a file may free all its contents.
struct XrcFile {
  std::shared_ptr<const Fd> path;
  uint64_t file_system = 0;  ///< st_dev
  uint64_t inode = 0;
};

}  // namespace uroce::nic
