// SPDX-License-Identifier: Apache-2.0
// The works a requester holds, from Post until their completion was polled.
#pragma once

#include <cstdint>
#include <memory>

#include "pipeline/transport/work.h"
#include "pipeline/wire/psn.h"

namespace uroce::transport {

/// A send work as the requester keeps it: one cache line, since an idle connection pays for a
/// whole ring of them.
struct alignas(64) HeldWork {
  uint64_t wr_id;
  uint64_t remote_va;
  uint64_t compare_add;
  uint64_t swap;
  uint32_t slot;
  uint32_t length_bytes;
  uint32_t immediate_or_rkey;  ///< Immediate bytes, or the key to invalidate.
  Rkey rkey;
  wire::Psn first_psn;  ///< Of its first packet; meaningful once begun.
  uint32_t packets;     ///< PSNs that it takes; meaningful once begun.
  WorkOpcode opcode;
  bool signaled;
  bool solicited;
  bool fence;
  bool executable;  ///< Well formed, and of an opcode that a reliable connection sends.

  bool is_read() const { return opcode == WorkOpcode::kRead; }
  bool is_atomic() const {
    return opcode == WorkOpcode::kCompareSwap || opcode == WorkOpcode::kFetchAdd;
  }
  /// Whether the responder keeps a resource for it, and only its own response completes it.
  bool is_read_or_atomic() const { return is_read() || is_atomic(); }
};
static_assert(sizeof(HeldWork) == 64);

/// Storage of held works under free-running indices, which wrap at 2^32.
class SendRing {
 public:
  /// `capacity` is a power of two.
  explicit SendRing(uint32_t capacity)
      : works_(std::make_unique_for_overwrite<HeldWork[]>(capacity)), mask_(capacity - 1) {}

  uint32_t capacity() const { return mask_ + 1; }
  HeldWork& At(uint32_t index) { return works_[index & mask_]; }
  const HeldWork& At(uint32_t index) const { return works_[index & mask_]; }

 private:
  std::unique_ptr<HeldWork[]> works_;
  uint32_t mask_;
};

}  // namespace uroce::transport
