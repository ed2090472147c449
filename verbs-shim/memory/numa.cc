// SPDX-License-Identifier: Apache-2.0
#include "verbs-shim/memory/numa.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "verbs-shim/memory/system_call.h"

namespace uroce::memory {
namespace {

constexpr uint64_t kMaxNodes = 1024;  // The kernel's greatest possible number.

struct Policy {
  int mode = MPOL_DEFAULT;
  uint64_t nodes[kMaxNodes / 64] = {};
};

Policy PolicyAt(uint64_t address) {
  Policy policy;
  const int64_t result =
      SystemCall(SYS_get_mempolicy, &policy.mode, policy.nodes, kMaxNodes, address, MPOL_F_ADDR);
  return result == 0 ? policy : Policy{};
}

bool IsEqual(const Policy& left, const Policy& right) {
  bool is_equal = left.mode == right.mode;
  for (uint64_t word = 0; word < kMaxNodes / 64; ++word) {
    is_equal &= left.nodes[word] == right.nodes[word];
  }
  return is_equal;
}

// The kernel takes one node less than it is told.
void Bind(AddressRange range, const Policy& policy) {
  const bool is_none = policy.mode == MPOL_DEFAULT;
  SystemCall(SYS_mbind, range.start, range.end - range.start, policy.mode,
             is_none ? nullptr : policy.nodes, is_none ? 0 : kMaxNodes + 1, 0);
}

}  // namespace

void CopyPolicy(uint64_t from, AddressRange to) {
  const Policy policy = PolicyAt(from);
  if (!IsEqual(policy, PolicyAt(to.start))) Bind(to, policy);
}

// The file keeps the policy when the mapping has gone.
void CopyPolicyToFile(uint64_t from, int memfd, uint64_t length) {
  const Policy policy = PolicyAt(from);
  if (policy.mode == MPOL_DEFAULT) return;
  const int64_t place = SystemCall(SYS_mmap, 0, length, PROT_READ, MAP_SHARED, memfd, 0);
  if (IsError(place)) return;
  const auto start = static_cast<uint64_t>(place);
  Bind({start, start + length}, policy);
  SystemCall(SYS_munmap, start, length);
}

}  // namespace uroce::memory
