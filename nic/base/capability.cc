// SPDX-License-Identifier: Apache-2.0
#include "nic/base/capability.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace uroce {

bool HasCapability(int capability) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {};
  if (syscall(SYS_capget, &header, sets) != 0) return false;
  return (sets[CAP_TO_INDEX(capability)].effective & CAP_TO_MASK(capability)) != 0;
}

}  // namespace uroce
