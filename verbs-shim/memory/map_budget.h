// SPDX-License-Identifier: Apache-2.0
// How many more mappings this library may make. The kernel's limit also holds for the program.
#pragma once

#include <cstdint>

namespace uroce::memory {

/// The kernel refuses a process more mappings than vm.max_map_count, and the program's next malloc
/// or thread with them. Swaps stop while an eighth of them is still free. Of static storage; used
/// under the lock of the registrations.
class MapBudget {
 public:
  /// Whether one more swap fits. Looks at the kernel's files now and then: in a program with few
  /// mappings once for a thousand swaps.
  [[nodiscard]] bool Take();

  /// The mappings that a process with `used` of `limit` may still have of us before it is to look
  /// again. Pure.
  static uint32_t Share(uint64_t used, uint64_t limit);

 private:
  uint32_t left_ = 0;  // swaps
  uint32_t refusals_ = 0;
};

}  // namespace uroce::memory
