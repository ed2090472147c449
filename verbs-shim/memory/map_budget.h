// SPDX-License-Identifier: Apache-2.0
// Limits how many more mappings this library makes. The kernel's limit also covers the program.
#pragma once

#include <cstdint>

namespace uroce::memory {

/// A process may have at most vm.max_map_count mappings. At the limit the kernel also refuses the
/// program's next malloc or thread. So swaps stop while an eighth of the mappings is still free. Of
/// static storage; used under the lock of the registrations.
class MapBudget {
 public:
  /// Whether one more swap fits. Reads the kernel's files from time to time: once per thousand
  /// swaps in a program with few mappings.
  [[nodiscard]] bool Take();

  /// How many mappings we may add to a process that has `used` of `limit`, before the next count.
  /// Pure.
  static uint32_t Share(uint64_t used, uint64_t limit);

 private:
  uint32_t left_ = 0;  // swaps
  uint32_t refusals_ = 0;
};

}  // namespace uroce::memory
